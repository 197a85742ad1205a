// Products of a large matrix with a few columns, by one thread block: of WIDE of its columns, or of TALL of its rows.
// PIECE of the few are kept in registers at a time.

enum { WIDE = 32, TALL = 4, LANES = 128, GROUPS = 8, PIECE = 16 };

// So many of W's numbers from its k-th on, zeros behind its last.
__device__ inline void piece_of(const float* W, int k, int count, bool aligned, float* into)
{
    if (aligned && k + PIECE <= count) {
        const float4* quads = (const float4*)(W + k);
        for (int j = 0; j < PIECE / 4; ++j) {
            const float4 q = quads[j];
            into[4 * j] = q.x; into[4 * j + 1] = q.y; into[4 * j + 2] = q.z; into[4 * j + 3] = q.w;
        }
        return;
    }
    for (int j = 0; j < PIECE; ++j) into[j] = k + j < count ? W[k + j] : 0.0f;
}

__device__ inline bool is_aligned(const float* W, int stride)
{
    return (unsigned long long)W % 16 == 0 && stride % 4 == 0;
}

// sums[k][c] = Σ_i W[i][k]·M[i][c], of at most WIDE columns c; a row of M and of W is so many numbers long.
__device__ inline void column_products(
    const float* M, long long row, int rows, int columns, const float* W, int stride, int count, float* sums)
{
    __shared__ float partial[GROUPS * PIECE * WIDE];
    const bool aligned = is_aligned(W, stride);
    for (int k = 0; k < count; k += PIECE) {
        for (int slot = threadIdx.x; slot < GROUPS * WIDE; slot += blockDim.x) {
            const int c = slot % WIDE, group = slot / WIDE;
            float own[PIECE], w[PIECE];
            for (int j = 0; j < PIECE; ++j) own[j] = 0.0f;
            if (c < columns) {
#pragma unroll 4
                for (int i = group; i < rows; i += GROUPS) {
                    const float m = M[i * row + c];
                    piece_of(W + (long long)i * stride, k, count, aligned, w);
                    for (int j = 0; j < PIECE; ++j) own[j] += w[j] * m;
                }
            }
            for (int j = 0; j < PIECE; ++j) partial[(group * PIECE + j) * WIDE + c] = own[j];
        }
        __syncthreads();
        for (int e = threadIdx.x; e < PIECE * WIDE; e += blockDim.x) {
            float sum = 0.0f;
            for (int group = 0; group < GROUPS; ++group) sum += partial[group * PIECE * WIDE + e];
            if (k + e / WIDE < count) sums[k * WIDE + e] = sum;
        }
        __syncthreads();
    }
}

// sums[i][k] = Σ_c M[i][c]·W[c][k], of at most TALL rows i. Shared memory: TALL·PIECE·(LANES + 1) numbers.
__device__ inline void row_products(
    const float* M, long long row, int rows, int columns, const float* W, int stride, int count, float* partial,
    float* sums)
{
    const bool aligned = is_aligned(W, stride);
    for (int k = 0; k < count; k += PIECE) {
        for (int lane = threadIdx.x; lane < LANES; lane += blockDim.x) {
            float own[TALL * PIECE], w[PIECE];
            for (int e = 0; e < TALL * PIECE; ++e) own[e] = 0.0f;
#pragma unroll 2
            for (int c = lane; c < columns; c += LANES) {
                piece_of(W + (long long)c * stride, k, count, aligned, w);
#pragma unroll
                for (int i = 0; i < TALL; ++i) {
                    const float m = i < rows ? M[i * row + c] : 0.0f;
#pragma unroll
                    for (int j = 0; j < PIECE; ++j) own[i * PIECE + j] += m * w[j];
                }
            }
#pragma unroll
            for (int e = 0; e < TALL * PIECE; ++e) partial[e * (LANES + 1) + lane] = own[e];
        }
        __syncthreads();
        for (int e = threadIdx.x; e < TALL * PIECE; e += blockDim.x) {
            const int i = e / PIECE, j = e % PIECE;
            float sum = 0.0f;
            for (int lane = 0; lane < LANES; ++lane) sum += partial[e * (LANES + 1) + lane];
            if (i < rows && k + j < count) sums[i * count + k + j] = sum;
        }
        __syncthreads();
    }
}
