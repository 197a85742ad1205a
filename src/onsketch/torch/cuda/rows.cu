// The passes over the large rows R of all layers, one launch each. A thread block works on CHUNK columns.

struct Chunk {
    int block, count;       // whose columns, and how many
    long long begin, width;
};

__device__ inline Chunk chunk_of(const long long* table, const int* owners)
{
    Chunk c;
    c.block = owners[blockIdx.x];
    c.width = field(table, c.block, WIDTH);
    c.begin = (blockIdx.x - field(table, c.block, FIRST_CHUNK)) * CHUNK;
    const long long left = c.width - c.begin;
    c.count = (int)(left < CHUNK ? left : CHUNK);
    return c;
}

// The gradients in one buffer, a stretch to each thread block: those of a layer that are not finite become zero.
extern "C" __global__ void clean(const long long* layers, const bool* finite, stored* grads, int stretch)
{
    if (finite[layers[blockIdx.x]]) return;
    stored* g = grads + (long long)blockIdx.x * stretch;
    for (int e = threadIdx.x; e < stretch; e += blockDim.x) store(g + e, 0);
}

// The products of the filled rows with the gradient, summed over each chunk; `absorb` makes it a row itself first.
extern "C" __global__ void dots(
    const long long* table, const int* owners, const stored* grads, double* partial, int stride, int absorb)
{
    __shared__ __align__(16) real g[CHUNK];
    const Chunk c = chunk_of(table, owners);
    const stored* from = grads + field(table, c.block, GRADIENT) + c.begin;
    const int filled = (int)((const long long*)field(table, c.block, COUNTS))[0];
    stored* rows = (stored*)field(table, c.block, ROWS) + c.begin;
    stored* fresh = rows + filled * c.width;
    for (int e = threadIdx.x; e < c.count; e += blockDim.x) {
        const real value = load(from + e);
        g[e] = value;
        if (absorb) store(fresh + e, value);
    }
    __syncthreads();

    const int lanes = blockDim.x < 32 ? blockDim.x : 32, lane = threadIdx.x % lanes;
    const int fours = c.width % 4 ? 0 : c.count / 4;
    for (int row = threadIdx.x / lanes; row < filled + absorb; row += blockDim.x / lanes) {
        real sum = 0;
        if (row == filled) {
            for (int e = lane; e < c.count; e += lanes) sum += g[e] * g[e];
        } else {
            const stored* r = rows + row * c.width;
#pragma unroll 4
            for (int q = lane; q < fours; q += lanes) {
                real v[4];
                load_four(r + 4 * q, v);
                sum += v[0] * g[4 * q] + v[1] * g[4 * q + 1] + v[2] * g[4 * q + 2] + v[3] * g[4 * q + 3];
            }
            for (int e = 4 * fours + lane; e < c.count; e += lanes) sum += load(r + e) * g[e];
        }
        double total = sum;
        for (int step = lanes / 2; step; step /= 2) total += __shfl_down_sync(0xffffffffu, total, step);
        if (lane == 0) partial[(long long)blockIdx.x * stride + row] = total;
    }
}

// The step: `bare·g + Rᵀa`, a and bare the coefficients of the block.
extern "C" __global__ void combine(
    const long long* table, const int* owners, const stored* grads, const int* used, const double* coefficients,
    real* updates, int stride)
{
    __shared__ real a[LARGEST + 2];
    const Chunk c = chunk_of(table, owners);
    const int count = used[c.block];
    for (int k = threadIdx.x; k < count; k += blockDim.x) a[k] = (real)coefficients[(long long)c.block * stride + k];
    const real bare = (real)coefficients[(long long)c.block * stride + stride - 1];
    __syncthreads();
    const stored* rows = (const stored*)field(table, c.block, ROWS) + c.begin;
    const stored* g = grads + field(table, c.block, GRADIENT) + c.begin;
    real* out = updates + field(table, c.block, UPDATE) + c.begin;
    const int fours = c.width % 4 ? 0 : c.count / 4;
    for (int q = threadIdx.x; q < fours; q += blockDim.x) {
        real sum[4] = {0, 0, 0, 0};
        if (bare != 0)
            for (int i = 0; i < 4; ++i) sum[i] = bare * load(g + 4 * q + i);
#pragma unroll 8
        for (int k = 0; k < count; ++k) {
            real v[4];
            load_four(rows + k * c.width + 4 * q, v);
            for (int i = 0; i < 4; ++i) sum[i] += a[k] * v[i];
        }
        for (int i = 0; i < 4; ++i) out[4 * q + i] = sum[i];
    }
    for (int e = 4 * fours + threadIdx.x; e < c.count; e += blockDim.x) {
        real sum = bare != 0 ? bare * load(g + e) : 0;
#pragma unroll 8
        for (int k = 0; k < count; ++k) sum += a[k] * load(rows + k * c.width + e);
        out[e] = sum;
    }
}

// `R ← T R` in place for the blocks that are due: `due` says how many rows stay, or −1.
extern "C" __global__ void rotate(const long long* table, const int* owners, const int* due, int columns)
{
    extern __shared__ double room[];
    __shared__ real turn[8 * (LARGEST + 2)];
    const Chunk c = chunk_of(table, owners);
    const int kept = due[c.block], slots = (int)field(table, c.block, SLOTS), half = columns / 2;
    if (kept <= 0) return;
    real* tile = (real*)room;
    stored* rows = (stored*)field(table, c.block, ROWS) + c.begin;
    const double* T = (const double*)field(table, c.block, TRANSFORM);
    for (int start = 0; start < c.count; start += columns) {
        const int wide = c.count - start < columns ? c.count - start : columns;
        __syncthreads();
        for (int j = 0; j < slots; ++j)
            for (int e = threadIdx.x; e < columns; e += blockDim.x)
                tile[j * columns + e] = e < wide ? load(rows + j * c.width + start + e) : 0;
        for (int k = 0; k < kept; k += 8) {
            __syncthreads();
            for (int e = threadIdx.x; e < 8 * slots; e += blockDim.x) {
                const int j = e / 8, i = k + e % 8;
                turn[e] = i < kept ? (real)T[i * slots + j] : 0;
            }
            __syncthreads();
            for (int e = threadIdx.x; e < half; e += blockDim.x) {
                real left[8] = {0, 0, 0, 0, 0, 0, 0, 0}, right[8] = {0, 0, 0, 0, 0, 0, 0, 0};
                for (int j = 0; j < slots; ++j) {
                    const real x = tile[j * columns + e], y = tile[j * columns + half + e];
#pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        left[i] += turn[8 * j + i] * x;
                        right[i] += turn[8 * j + i] * y;
                    }
                }
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    if (k + i < kept && e < wide) store(rows + (k + i) * c.width + start + e, left[i]);
                    if (k + i < kept && half + e < wide) store(rows + (k + i) * c.width + start + half + e, right[i]);
                }
            }
        }
    }
}

// The lower triangle of `R Rᵀ` of the rows that stayed, summed over each chunk.
extern "C" __global__ void gram(
    const long long* table, const int* owners, const int* due, double* partial, int stride, int columns)
{
    extern __shared__ double room[];
    const Chunk c = chunk_of(table, owners);
    const int kept = due[c.block], pitch = columns + 1;  // so that rows do not meet in one bank
    if (kept <= 0) return;
    real* tile = (real*)room;
    const stored* rows = (const stored*)field(table, c.block, ROWS) + c.begin;
    double* sums = partial + (long long)blockIdx.x * stride;
    for (int start = 0; start < c.count; start += columns) {
        const int wide = c.count - start < columns ? c.count - start : columns;
        __syncthreads();
        for (int e = threadIdx.x; e < kept * columns; e += blockDim.x) {
            const int j = e / columns, at = e % columns;
            tile[j * pitch + at] = at < wide ? load(rows + j * c.width + start + at) : 0;
        }
        __syncthreads();
        for (int e = threadIdx.x; e < kept * (kept + 1) / 2; e += blockDim.x) {
            int i = (int)((sqrtf(8.0f * e + 1.0f) - 1.0f) / 2.0f);
            while (i * (i + 1) / 2 > e) --i;
            while ((i + 1) * (i + 2) / 2 <= e) ++i;
            const real *x = tile + i * pitch, *y = tile + (e - i * (i + 1) / 2) * pitch;
            real sum = 0;
#pragma unroll 8
            for (int at = 0; at < wide; ++at) sum += x[at] * y[at];
            sums[e] = (start ? sums[e] : 0.0) + sum;
        }
    }
}
