// M ← M − W(WᵀM), W the directions of a block of rows: WIDE columns of it by each thread block. With half the power where
// `rooted` (see gains.cu).
extern "C" __global__ void turn_left(const long long* table, const int* units, int rooted)
{
    const int layer = units[3 * blockIdx.x], block = units[3 * blockIdx.x + 1], strip = units[3 * blockIdx.x + 2];
    const long long columns = layer_field(table, layer, COLUMNS);
    const int rows = (int)(layer_field(table, layer, ROWS) / layer_field(table, layer, ROW_BLOCKS));
    const int rank = (int)layer_field(table, layer, RANK), left = (int)(columns - (long long)strip * WIDE);
    const int here = left < WIDE ? left : WIDE;
    float* M = (float*)layer_field(table, layer, DIRECTION) + block * rows * columns + strip * WIDE;
    const float* W = (const float*)layer_field(table, layer, LEFT) + (long long)block * rows * rank;
    const float* gains = rooted ? (const float*)layer_field(table, layer, LEFT_GAINS) + block * rank : nullptr;
    extern __shared__ __align__(16) double room[];
    float* sums = (float*)room;
    column_products(M, columns, rows, here, W, rank, rank, sums);
    for (int e = threadIdx.x; gains && e < rank * WIDE; e += blockDim.x) sums[e] *= gains[e / WIDE];
    __syncthreads();
    const bool aligned = is_aligned(W, rank);
    for (int k = 0; k < rank; k += PIECE) {
        for (int slot = threadIdx.x; slot < GROUPS * WIDE; slot += blockDim.x) {
            const int c = slot % WIDE;
            if (c >= here) continue;
            float own[PIECE], w[PIECE];
            for (int j = 0; j < PIECE; ++j) own[j] = k + j < rank ? sums[(k + j) * WIDE + c] : 0.0f;
#pragma unroll 4
            for (int i = slot / WIDE; i < rows; i += GROUPS) {
                piece_of(W + (long long)i * rank, k, rank, aligned, w);
                float m = M[i * columns + c];
                for (int j = 0; j < PIECE; ++j) m -= own[j] * w[j];
                M[i * columns + c] = m;
            }
        }
    }
}
