// What happens to the small matrices of a block between the two passes over its rows: one thread block each.

// Sums over the chunks of a block, in a fixed order whatever runs when; `into` has `count` numbers.
__device__ void sum_chunks(const long long* table, const double* partial, int stride, int count, double* into)
{
    __shared__ double piece[THREADS];
    const int block = blockIdx.x, first = (int)field(table, block, FIRST_CHUNK);
    const int chunks = (int)field(table, block, CHUNKS), lanes = blockDim.x < 32 ? blockDim.x : 32;
    const int lane = threadIdx.x % lanes, part = threadIdx.x / lanes, parts = blockDim.x / lanes;
    for (int start = 0; start < count; start += lanes) {
        double sum = 0.0;
        if (start + lane < count) {
#pragma unroll 8
            for (int c = part; c < chunks; c += parts) sum += partial[(long long)(first + c) * stride + start + lane];
        }
        __syncthreads();
        piece[threadIdx.x] = sum;
        __syncthreads();
        if (part == 0 && start + lane < count) {
            for (int other = 1; other < parts; ++other) sum += piece[other * lanes + lane];
            into[start + lane] = sum;
        }
    }
    __syncthreads();
}

// p(λ): the geometries newton, adagrad, s-adagrad; 0 where the metric vanishes.
__device__ inline double inverse_metric(int geometry, int robust, double energy, double escaped, double ridge)
{
    const double base = ridge + (robust ? escaped / 2.0 : 0.0);
    const double metric = geometry == 0 ? energy + base
                        : geometry == 1 ? sqrt(energy) + base : sqrt(energy + base + escaped);
    return metric > 0.0 ? 1.0 / metric : 0.0;
}

// Frequent directions: see frequent_directions.py, whose words these are. Writes the coefficients of the step, the
// new T, λ and Σρ, and in `due` how many rows stay where R must be rotated now, else −1.
extern "C" __global__ void directions(
    const long long* table, const double* partial, double* work, double* coefficients, int* used, int* due, int stride,
    int size, int limit, int geometry, int counts_rank, int robust, int absorb,
    double ridge, double decay, double weight, double correction, double noise)
{
    __shared__ Arrowhead h;
    __shared__ double dot[LARGEST + 2], after[LARGEST + 2], along[LARGEST + 2];
    const int block = blockIdx.x, here = threadIdx.x, threads = blockDim.x;
    const int slots = (int)field(table, block, SLOTS), most = (int)field(table, block, MOST);
    double* T = (double*)field(table, block, TRANSFORM);
    double* energy = (double*)field(table, block, SPECTRUM);
    double* escaped_at = (double*)field(table, block, ESCAPED);
    long long* counts = (long long*)field(table, block, COUNTS);
    const int filled = (int)counts[0], held = (int)counts[1], rank = held < most ? held : most, n = rank + 1;
    double* a = coefficients + (long long)block * stride;
    double* U = work + (long long)block * 2 * stride * stride;
    double* turned = U + stride * stride;
    sum_chunks(table, partial, stride, filled + absorb, dot);

    const double keep = absorb ? sqrt(decay) : 1.0;
    double escaped = *escaped_at * (absorb ? decay : 1.0);
    for (int i = here; i < rank; i += threads) {
        double sum = 0.0;
        for (int j = 0; j < filled; ++j) sum += T[i * slots + j] * dot[j];
        h.z[i] = sum * keep * (absorb ? sqrt(weight) : 1.0);
        h.d[i] = energy[i] * (absorb ? decay : 1.0);
    }
    if (here == 0) {
        used[block] = filled + absorb;
        due[block] = -1;
        a[stride - 1] = 0.0;
    }
    __syncthreads();

    if (!absorb) {  // P g = p(0)g + Sᵀ diag((p(λ) − p(0))/λ) S g
        const double bare = inverse_metric(geometry, robust, 0.0, escaped * correction, ridge);
        for (int i = here; i < rank; i += threads) {
            const double p = inverse_metric(geometry, robust, h.d[i] * correction, escaped * correction, ridge);
            along[i] = h.d[i] > 0.0 ? (p - bare) / h.d[i] * h.z[i] : 0.0;
        }
        __syncthreads();
        for (int j = here; j < filled; j += threads) {
            double sum = 0.0;
            for (int i = 0; i < rank; ++i) sum += along[i] * T[i * slots + j];
            a[j] = sum;
        }
        if (here == 0) a[stride - 1] = bare;
        return;
    }

    const double alpha = dot[filled] * weight;
    double check = alpha;
    for (int i = 0; i < rank; ++i) check += fabs(h.z[i]);
    const bool failed = !(check - check == 0.0);
    __syncthreads();
    if (failed) {  // the step is one of zero gradient
        if (here == 0) {
            for (int i = 0; i < rank; ++i) h.z[i] = 0.0;
            for (int j = 0; j <= filled; ++j) dot[j] = 0.0;
        }
        __syncthreads();
    }
    arrowhead(h, rank, failed ? 0.0 : alpha, U);
    for (int k = here; k < n; k += threads) {
        const double value = fmax(h.value[k], 0.0);
        h.raw[k] = value > noise * fmax(h.value[0], 0.0) ? value : 0.0;
    }
    __syncthreads();
    const double* value = h.raw;

    // What stays, and what escapes.
    const bool shrinks = counts_rank ? n >= limit && value[limit - 1] > 0.0 : held + 1 >= limit;
    int kept = shrinks ? size - 1 : counts_rank && n >= limit ? limit - 1 : most;
    kept = kept < most ? kept : most;
    kept = kept < n ? kept : n;
    const double rho = shrinks && n >= size ? value[size - 1] : 0.0;
    for (int k = here; k < n; k += threads) {
        const double less = shrinks ? (k >= size - 1 ? 0.0 : value[k] - rho) : value[k];
        after[k] = less > noise * value[0] || !shrinks ? less : 0.0;
    }
    escaped += rho;
    __syncthreads();

    // The step, in the metric before the shrink (Ada-FFD) or after it.
    for (int e = here; e < n * (filled + 1); e += threads) {
        const int k = e / (filled + 1), j = e - k * (filled + 1);
        double sum = 0.0;
        if (j == filled) sum = U[rank * n + k] * sqrt(weight);
        else for (int i = 0; i < rank; ++i) sum += U[i * n + k] * T[i * slots + j];
        turned[k * stride + j] = j == filled ? sum : sum * keep;
    }
    for (int k = here; k < n; k += threads) {
        const double seen = (counts_rank ? value[k] : after[k]) * correction;
        along[k] = inverse_metric(geometry, robust, seen, escaped * correction, ridge) * U[rank * n + k] / sqrt(weight);
    }
    __syncthreads();
    for (int j = here; j <= filled; j += threads) {
        double sum = 0.0;
        for (int k = 0; k < n; ++k) sum += along[k] * turned[k * stride + j];
        a[j] = failed ? 0.0 : sum;
    }

    // The sketch for the next step.
    int positive = 0;
    for (int k = 0; k < kept; ++k) positive += after[k] > 0.0;
    const int holds = counts_rank ? positive : shrinks ? size - 1 : held + 1;
    kept = kept < holds ? kept : holds;
    const bool full = filled + 1 == slots;
    __syncthreads();  // T is read no more
    for (int e = here; e < most * slots; e += threads) {
        const int k = e / slots, j = e - k * slots;
        const bool inside = k < kept && j <= filled && value[k] > 0.0;
        T[e] = inside ? turned[k * stride + j] * sqrt(after[k] / value[k]) : 0.0;
    }
    for (int k = here; k < most; k += threads) energy[k] = k < kept ? after[k] : 0.0;
    if (here == 0) {
        *escaped_at = escaped;
        counts[0] = full ? kept : filled + 1;
        counts[1] = holds;
        if (full) due[block] = kept;
    }
}

// The eigendecomposition of the small matrix K of AdaGP and RadaGrad: see random_rows.py.
extern "C" __global__ void projections(
    const long long* table, const double* partial, double* work, double* coefficients, int* used, int* due, int stride,
    const double* r, int r_stride, int size, int fourier, int absorb,
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
    extern __shared__ double room[];
    double* A = m * m * 16 <= SHARED_BYTES ? room : work + (long long)block * 2 * stride * stride;
    double* V = A + m * m;
    sum_chunks(table, partial, stride, filled + absorb, dot);
    if (!absorb) keep = 1.0;
    const double squared = absorb ? dot[filled] : 0.0;
    for (int i = here; i < m; i += threads) {
        double sum = 0.0;
        for (int j = 0; j < filled; ++j) sum += T[i * slots + j] * dot[j];
        k[i] = sum * keep;
        drawn[i] = absorb ? r[(long long)block * r_stride + i] * weight : 0.0;
    }
    __syncthreads();
    for (int e = here; e < m * m; e += threads) {
        const int i = e / m, j = e - i * m;
        const double crossed = drawn[i] * (k[j] + squared * drawn[j] / 2.0) + drawn[j] * (k[i] + squared * drawn[i] / 2.0);
        A[e] = K[e] * keep * keep + crossed;
    }
    double check = squared;
    for (int i = 0; i < m; ++i) check += fabs(k[i]) + fabs(drawn[i]);
    const bool failed = !(check - check == 0.0);
    for (int e = here; e < m * m; e += threads)
        if (absorb) K[e] = failed ? K[e] * keep * keep : A[e];
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
        used[block] = filled + absorb;
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

// After a rotation: what rounding has done to the rows is in their Gram matrix. `turn` diagonalises it.
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
    extern __shared__ double room[];
    sum_chunks(table, partial, stride, kept * (kept + 1) / 2, sums);
    if (turn && kept * kept * 16 <= SHARED_BYTES) A = room;
    for (int e = here; e < kept * kept; e += threads) {
        const int i = e / kept, j = e - i * kept;
        A[e] = i >= j ? sums[i * (i + 1) / 2 + j] : sums[j * (j + 1) / 2 + i];
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
