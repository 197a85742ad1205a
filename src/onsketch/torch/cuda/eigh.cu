// Eigenvalues, descending, and eigenvectors as columns, of a batch of symmetric matrices.
extern "C" __global__ void eigh(double* work, double* turn, double* values, double* vectors, int n, double nothing)
{
    const long long offset = (long long)blockIdx.x * n * n;
    double *A = work + offset, *V = turn + offset;
    extern __shared__ __align__(16) double room[];
    if (n * n * 16 <= SHARED_BYTES) {
        A = room;
        V = room + n * n;
        for (int e = threadIdx.x; e < n * n; e += blockDim.x) A[e] = work[offset + e];
    }
    __syncthreads();
    const bool solved = jacobi(A, V, n);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const int rank = solved ? place(A, n, i) : i;
        values[(long long)blockIdx.x * n + rank] = solved ? A[i * n + i] : nothing;
        for (int k = 0; k < n; ++k) vectors[offset + k * n + rank] = solved ? V[k * n + i] : nothing;
    }
}
