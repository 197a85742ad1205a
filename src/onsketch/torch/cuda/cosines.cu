// RadaGrad's Πg: chosen rows of the orthonormal DCT-II of the gradient with its signs changed, by chunks, for all
// layers in one launch. A chunk is a square of SIDE × SIDE numbers, and the angle of number SIDE·a + b is one that
// depends on a plus one that depends on b. So the sums over a take cosines and sines from a table that all columns b
// share, two multiplications for each number, and the angles of b come in at the end.
#define SIDE 64  // SIDE² = CHUNK
#if STORAGE == 1
#define TOGETHER 1
#else
#define TOGETHER 4  // rows that a warp works out at a time
#endif

struct Direction { real cosine, sine; };
struct __align__(16) Directions { Direction of[TOGETHER]; };  // read at once

// The direction at `steps` of `period` steps to a full turn; `share` is 1/period.
__device__ inline Direction direction(unsigned long long steps, unsigned long long period, double share)
{
    Direction found;
#if STORAGE == 1
    sincospi(2.0 * (double)(steps % period) * share, &found.sine, &found.cosine);
#else
    const double turns = (double)steps * share;  // below 2²⁸ of them, so that the fraction has a float's digits
    sincospif(2.0f * (float)(turns - rint(turns)), &found.sine, &found.cosine);
#endif
    return found;
}

extern "C" __global__ void cosines(
    const long long* table, const int* owners, const long long* gradients, const long long* maps, double* partial,
    int stride, int wide)
{
    __shared__ real g[CHUNK];
    __shared__ Directions tables[THREADS / 32][SIDE];
    const Chunk c = chunk_of(table, owners);
    const unsigned long long* chosen = (const unsigned long long*)maps[3 * c.block];
    const signed char* signs = (const signed char*)maps[3 * c.block + 1] + c.begin;
    const int rows = (int)maps[3 * c.block + 2];
    for (int e = threadIdx.x; e < CHUNK; e += blockDim.x)
        g[e] = e < c.count ? rounded(gradient(gradients[c.block], c.begin + e, wide)) * signs[e] : 0;
    __syncthreads();
    const int lanes = blockDim.x < 32 ? blockDim.x : 32, lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
    const unsigned long long period = 4 * c.width, begin = c.begin;  // number e has the phase (2e + 1)·row of 4d
    const double share = 1.0 / (double)period;
    const int height = (c.count + SIDE - 1) / SIDE;
    for (int first = TOGETHER * warp; first < rows; first += TOGETHER * (blockDim.x / lanes)) {
        Directions* turn = tables[warp];
        for (int e = lane; e < height * TOGETHER; e += lanes) {
            const int a = e / TOGETHER, row = first + e % TOGETHER;
            if (row < rows) turn[a].of[e % TOGETHER] = direction(2 * (begin + SIDE * a) * chosen[row], period, share);
        }
        __syncwarp();
        double total[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) total[i] = 0.0;
        for (int b = lane; b < SIDE; b += lanes) {
            real x[TOGETHER], y[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) x[i] = y[i] = 0;
#pragma unroll 4
            for (int a = 0; a < height; ++a) {
                const real value = g[SIDE * a + b];
                const Directions at = turn[a];
#pragma unroll
                for (int i = 0; i < TOGETHER; ++i) {
                    x[i] += value * at.of[i].cosine;
                    y[i] += value * at.of[i].sine;
                }
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                if (first + i >= rows) break;
                const Direction at = direction((2 * b + 1) * chosen[first + i], period, share);
                total[i] += x[i] * at.cosine - y[i] * at.sine;
            }
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            for (int s = lanes / 2; s; s /= 2) total[i] += __shfl_down_sync(0xffffffffu, total[i], s);
            if (lane == 0 && first + i < rows)
                partial[(long long)blockIdx.x * stride + first + i] = total[i] * sqrt((chosen[first + i] ? 2.0 : 1.0) / rows);
        }
        __syncwarp();  // the table is read no more
    }
    for (int row = rows + threadIdx.x; row < stride; row += blockDim.x)
        partial[(long long)blockIdx.x * stride + row] = 0.0;
}
