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
                Four v = {{0, 0, 0, 0}};
                const stored* from = rows + j * c.width + start + 4 * e;
                if (aligned && 4 * e + 3 < wide) load_four(from, v.x);
                else for (int i = 0; i < 4; ++i) if (4 * e + i < wide) v.x[i] = load(from + i);
                *(Four*)(tile + j * columns + 4 * e) = v;
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
                Four sum[8];
#pragma unroll
                for (int i = 0; i < 8; ++i)
#pragma unroll
                    for (int l = 0; l < 4; ++l) sum[i].x[l] = 0;
#pragma unroll 2
                for (int j = 0; j < slots; ++j) {
                    const Four v = *(const Four*)(tile + j * columns + 4 * e);
                    const Four low = *(const Four*)(turn + 8 * j), high = *(const Four*)(turn + 8 * j + 4);
#pragma unroll
                    for (int i = 0; i < 8; ++i)
#pragma unroll
                        for (int l = 0; l < 4; ++l) sum[i].x[l] += (i < 4 ? low.x[i & 3] : high.x[i & 3]) * v.x[l];
                }
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    if (k + i >= kept) break;
                    stored* to = rows + (k + i) * c.width + start + 4 * e;
                    if (aligned && 4 * e + 3 < wide) store_four(to, sum[i].x);
                    else for (int l = 0; l < 4; ++l) if (4 * e + l < wide) store(to + l, sum[i].x[l]);
                }
            }
        }
    }
}
