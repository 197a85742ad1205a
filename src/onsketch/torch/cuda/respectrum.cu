// After a rotation: what rounding has done to the rows is in their Gram matrix. `turn` diagonalises it. Where it is
// not finite the rows have grown too long for their type, and the sketch starts anew.
extern "C" __global__ void respectrum(
    const long long* table, const double* partial, double* work, const int* due, int stride, int matrix_stride,
    int turn)
{
    const int block = blockIdx.x, here = threadIdx.x, threads = blockDim.x, kept = due[block];
    if (kept < 0) return;
    const int slots = (int)field(table, block, SLOTS), most = (int)field(table, block, MOST);
    double* T = (double*)field(table, block, TRANSFORM);
    double* spectrum = (double*)field(table, block, SPECTRUM);
    double* sums = work + (long long)block * 2 * matrix_stride * matrix_stride;
    double* A = sums + matrix_stride * matrix_stride;
    extern __shared__ __align__(16) double room[];
    sum_chunks(table, partial, stride, kept * (kept + 1) / 2, sums);
    if (turn && kept * kept * 16 <= SHARED_BYTES) A = room;
    int overflows = 0;
    for (int e = here; e < kept * kept; e += threads) {
        const int i = e / kept, j = e - i * kept;
        A[e] = i >= j ? sums[i * (i + 1) / 2 + j] : sums[j * (j + 1) / 2 + i];
        overflows |= !(A[e] - A[e] == 0.0);
    }
    overflows = __syncthreads_or(overflows);
    if (overflows) {
        stored* rows = (stored*)field(table, block, ROWS);
        const long long numbers = slots * field(table, block, WIDTH);
        for (long long e = here; e < numbers; e += threads) store(rows + e, 0);
        for (int e = here; e < kept * kept; e += threads) A[e] = 0.0;
    }
    for (int e = here; e < most * slots; e += threads) T[e] = !turn && e / slots == e % slots ? 1.0 : 0.0;
    __syncthreads();
    if (!turn) {
        for (int e = here; e < kept * kept; e += threads) spectrum[e] = A[e];
        return;
    }
    double* V = A == room ? A + kept * kept : sums;
    jacobi(A, V, kept);
    for (int k = here; k < kept; k += threads) {
        const int rank = place(A, kept, k);
        spectrum[rank] = fmax(A[k * kept + k], 0.0);
        for (int i = 0; i < kept; ++i) T[rank * slots + i] = V[i * kept + k];
    }
}
