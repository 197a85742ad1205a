// The eigendecomposition of the small matrix K of AdaGP and RadaGrad: see random_rows.py.
extern "C" __global__ void projections(
    const long long* table, const double* partial, double* work, double* coefficients, int* used, int* due,
    const int* bad, int stride,
    const double* draws, int size, int fourier, int absorb,
    double ridge, double keep, double weight, double correction, double noise)
{
    __shared__ double dot[LARGEST + 2], k[LARGEST + 2], drawn[LARGEST + 2], share[LARGEST + 2];
    const int block = blockIdx.x, here = threadIdx.x, threads = blockDim.x, m = size;
    const int slots = (int)field(table, block, SLOTS);
    double* T = (double*)field(table, block, TRANSFORM);
    double* K = (double*)field(table, block, SPECTRUM);
    long long* counts = (long long*)field(table, block, COUNTS);
    const int filled = (int)counts[0];
    double* a = coefficients + (long long)block * stride;
    if (bad[field(table, block, LAYER)]) {  // its layer skips the step, and nothing changes
        if (here == 0) {
            used[block] = -1 - filled;
            due[block] = -1;
        }
        return;
    }
    extern __shared__ __align__(16) double room[];
    double* A = m * m * 16 <= SHARED_BYTES ? room : work + (long long)block * 2 * stride * stride;
    double* V = A + m * m;
    sum_chunks(table, partial, stride, filled + absorb, dot);
    if (fourier && absorb) sum_chunks(table, draws, m, m, drawn);  // by chunks as well
    for (int i = here; fourier && i < m; i += threads) drawn[i] = absorb ? drawn[i] * weight : 0.0;
    if (!absorb) keep = 1.0;
    const double squared = absorb ? dot[filled] : 0.0;
    for (int i = here; i < m; i += threads) {
        double sum = 0.0;
        for (int j = 0; j < filled; ++j) sum += T[i * slots + j] * dot[j];
        k[i] = sum * keep;
        if (!fourier) drawn[i] = absorb ? draws[i] * weight : 0.0;
    }
    __syncthreads();
    for (int e = here; e < m * m; e += threads) {
        const int i = e / m, j = e - i * m;
        const double crossed = drawn[i] * (k[j] + squared * drawn[j] / 2.0) + drawn[j] * (k[i] + squared * drawn[i] / 2.0);
        A[e] = K[e] * keep * keep + crossed;
    }
    __syncthreads();
    double check = squared;
    for (int i = 0; i < m; ++i) check += fabs(k[i]) + fabs(drawn[i]) + A[i * m + i] * A[i * m + i] * m * m;
    const bool failed = !(check - check == 0.0);
    for (int e = here; e < m * m; e += threads)
        if (absorb) K[e] = failed ? K[e] * keep * keep : A[e];  // before it is decomposed in its place
    __syncthreads();
    const bool solved = jacobi(A, V, m) && !failed;

    double largest = 0.0;
    for (int i = 0; i < m; ++i) largest = fmax(largest, A[i * m + i]);
    const double bare = fourier ? 1.0 : 1.0 / ridge;
    for (int i = here; i < m; i += threads) {
        const double value = A[i * m + i] > noise * largest ? A[i * m + i] : 0.0;
        const double energy = (fourier ? sqrt(value) : value) * correction;
        double inside = 0.0;
        for (int j = 0; j < m; ++j) inside += V[j * m + i] * (k[j] + squared * drawn[j]);
        share[i] = value > 0.0 ? (1.0 / (ridge + sqrt(energy)) - bare) / value * inside : 0.0;
    }
    __syncthreads();
    for (int j = here; j < m; j += threads) {  // U share, into what k was
        double sum = 0.0;
        for (int i = 0; i < m; ++i) sum += V[j * m + i] * share[i];
        dot[j] = sum;
    }
    __syncthreads();
    for (int j = here; j < filled + absorb; j += threads) {
        double sum = 0.0;
        for (int i = 0; i < m; ++i) sum += dot[i] * (j == filled ? drawn[i] : T[i * slots + j] * keep);
        a[j] = solved ? sum + (j == filled ? bare : 0.0) : 0.0;
    }
    if (here == 0) {
        used[block] = solved ? filled + absorb : -1 - filled;
        a[stride - 1] = absorb || !solved ? 0.0 : bare;
        due[block] = -1;
    }
    if (!absorb) return;
    __syncthreads();
    for (int e = here; e < m * slots; e += threads) {
        const int i = e / slots, j = e - i * slots;
        T[e] = j < filled ? T[e] * keep : j == filled && solved ? drawn[i] : 0.0;
    }
    if (here == 0) {
        const bool full = filled + 1 == slots;
        counts[0] = full ? m : filled + 1;
        counts[1] = m;
        if (full) due[block] = m;
    }
}
