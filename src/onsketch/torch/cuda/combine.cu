// The step, `bare·g + Rᵀa` with the coefficients of the block. A block whose step failed (`used` below zero) steps
// nowhere, and the row it took up becomes zero. `graft` brings the diagonal sums up to date and adds up, for each
// chunk, the squared lengths of the diagonal step and of this one.

__device__ inline real diagonal(real* sum, real g, double decay, double weight, double correction)
{
    *sum = (real)(*sum * decay + g * (g * weight));
    return g / ((real)sqrt(*sum * (real)correction) + (real)1e-10);
}

extern "C" __global__ void combine(
    const long long* table, const int* owners, const long long* gradients, const int* used,
    const double* coefficients, real* updates, double* lengths, int stride, int absorb, int wide, int graft, double decay, double weight, double correction)
{
    __shared__ real a[LARGEST + 2];
    __shared__ double piece[2 * THREADS];
    const Chunk c = chunk_of(table, owners);
    const bool failed = used[c.block] < 0;
    const int count = failed ? 0 : used[c.block];
    for (int k = threadIdx.x; k < count; k += blockDim.x) a[k] = (real)coefficients[(long long)c.block * stride + k];
    const real bare = failed ? 0 : (real)coefficients[(long long)c.block * stride + stride - 1];
    __syncthreads();
    stored* rows = (stored*)field(table, c.block, ROWS) + c.begin;
    const long long g = gradients[c.block];
    real* sums = (real*)field(table, c.block, SUMS) + c.begin;
    real* out = updates + field(table, c.block, UPDATE) + c.begin;
    if (failed && absorb) {
        stored* fresh = rows + (-1 - used[c.block]) * c.width;
        for (int e = threadIdx.x; e < c.count; e += blockDim.x) store(fresh + e, 0);
    }
    const bool aligned = wide && g % 16 == 0;  // gradients lie where they like
    const bool needs_g = !failed && (bare != 0 || graft);
    double wanted = 0.0, length = 0.0;
    const long long sized = graft && !failed ? field(table, c.block, SUMMED) - c.begin : 0;  // the filling has no sum
    const int fours = c.width % 4 ? 0 : c.count / 4;
    for (int q = threadIdx.x; q < fours; q += blockDim.x) {
        Four sum = {{0, 0, 0, 0}}, mine = {{0, 0, 0, 0}};
        if (needs_g) {
            if (aligned) mine = *(const Four*)((const real*)g + c.begin + 4 * q);
            else for (int i = 0; i < 4; ++i) mine.x[i] = gradient(g, c.begin + 4 * q + i, wide);
            for (int i = 0; i < 4; ++i) sum.x[i] = bare * mine.x[i];
        }
#pragma unroll 8
        for (int k = 0; k < count; ++k) {
            real v[4];
            load_four(rows + k * c.width + 4 * q, v);
            for (int i = 0; i < 4; ++i) sum.x[i] += a[k] * v[i];
        }
        *(Four*)(out + 4 * q) = sum;
        for (int i = 0; i < 4; ++i) {
            if (4 * q + i < sized) {
                const double step = diagonal(sums + 4 * q + i, mine.x[i], decay, weight, correction);
                wanted += step * step;
                length += (double)sum.x[i] * sum.x[i];
            }
        }
    }
    for (int e = 4 * fours + threadIdx.x; e < c.count; e += blockDim.x) {
        const real mine = needs_g ? gradient(g, c.begin + e, wide) : 0;
        real sum = bare * mine;
#pragma unroll 8
        for (int k = 0; k < count; ++k) sum += a[k] * load(rows + k * c.width + e);
        out[e] = sum;
        if (e < sized) {
            const double step = diagonal(sums + e, mine, decay, weight, correction);
            wanted += step * step;
            length += (double)sum * sum;
        }
    }
    if (!graft) return;
    piece[threadIdx.x] = wanted;
    piece[THREADS + threadIdx.x] = length;
    __syncthreads();
    for (int step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step) {
            piece[threadIdx.x] += piece[threadIdx.x + step];
            piece[THREADS + threadIdx.x] += piece[THREADS + threadIdx.x + step];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        lengths[2 * blockIdx.x] = piece[0];
        lengths[2 * blockIdx.x + 1] = piece[THREADS];
    }
}
