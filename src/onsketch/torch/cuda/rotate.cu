// `R ← T R` in place for the blocks that are due: `due` says how many rows stay, or −1. A thread works out eight rows
// of four columns at a time.
extern "C" __global__ void rotate(const long long* table, const int* owners, const int* due, int columns)
{
    extern __shared__ __align__(16) double room[];
    __shared__ __align__(16) real turn[8 * (LARGEST + 2)];
    const Chunk c = chunk_of(table, owners);
    const int kept = due[c.block], slots = (int)field(table, c.block, SLOTS);
    if (kept <= 0) return;
    real* tile = (real*)room;
    stored* rows = (stored*)field(table, c.block, ROWS) + c.begin;
    const double* T = (const double*)field(table, c.block, TRANSFORM);
    const bool aligned = c.width % 4 == 0;
    for (int start = 0; start < c.count; start += columns) {
        const int wide = c.count - start < columns ? c.count - start : columns;
        __syncthreads();
        for (int e = threadIdx.x; e < columns / 4; e += blockDim.x) {
#pragma unroll 8
            for (int j = 0; j < slots; ++j) {
                real v[4] = {0, 0, 0, 0};
                const stored* from = rows + j * c.width + start + 4 * e;
                if (aligned && 4 * e + 3 < wide) load_four(from, v);
                else for (int i = 0; i < 4; ++i) if (4 * e + i < wide) v[i] = load(from + i);
                for (int i = 0; i < 4; ++i) tile[j * columns + 4 * e + i] = v[i];
            }
        }
        for (int k = 0; k < kept; k += 8) {
            __syncthreads();
            for (int e = threadIdx.x; e < 8 * slots; e += blockDim.x) {
                const int i = k + e / slots, j = e % slots;
                turn[8 * j + i - k] = i < kept ? (real)T[i * slots + j] : 0;
            }
            __syncthreads();
            for (int e = threadIdx.x; e < columns / 4; e += blockDim.x) {
                real sum[8][4];
#pragma unroll
                for (int i = 0; i < 8; ++i)
#pragma unroll
                    for (int l = 0; l < 4; ++l) sum[i][l] = 0;
                for (int j = 0; j < slots; ++j) {
                    const real* x = tile + j * columns + 4 * e;
                    const real x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
#pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const real w = turn[8 * j + i];
                        sum[i][0] += w * x0; sum[i][1] += w * x1; sum[i][2] += w * x2; sum[i][3] += w * x3;
                    }
                }
#pragma unroll
                for (int i = 0; i < 8; ++i)
#pragma unroll
                    for (int l = 0; l < 4; ++l)
                        if (k + i < kept && 4 * e + l < wide) store(rows + (k + i) * c.width + start + 4 * e + l, sum[i][l]);
            }
        }
    }
}
