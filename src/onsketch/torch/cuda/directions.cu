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
    const long long* table, const double* partial, double* work, double* coefficients, int* used, int* due,
    const int* bad, int stride, int size, int limit, int geometry, int counts_rank, int robust, int absorb,
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
    double* turned = work + (long long)block * 2 * stride * stride;
    if (bad[field(table, block, LAYER)]) {  // its layer skips the step, and nothing changes
        if (here == 0) {
            used[block] = -1 - filled;
            due[block] = -1;
        }
        return;
    }
    extern __shared__ __align__(16) double room[];
    double* U = n * n * 8 <= ROOM_FOR_U ? room : turned + stride * stride;
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
        double check = 0.0;
        for (int i = 0; i < rank; ++i) check += fabs(along[i]);
        if (here == 0) a[stride - 1] = bare;
        if (here == 0 && !(check - check == 0.0)) used[block] = -1;
        return;
    }

    const double alpha = dot[filled] * weight;
    double check = alpha;
    for (int i = 0; i < rank; ++i) check += fabs(h.z[i]);
    const bool failed = !(check - check == 0.0);  // rows too long for their type
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
        if (failed) used[block] = -1 - filled;
        if (full) due[block] = kept;
    }
}
