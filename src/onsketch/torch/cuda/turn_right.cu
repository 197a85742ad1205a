// M ← M − (MW)Wᵀ, W the directions of each block of columns: TALL rows by each thread block, which also adds up the
// squared length of what they are now. With half the power where `rooted` (see gains.cu).
extern "C" __global__ void turn_right(const long long* table, const int* units, double* lengths, int rooted)
{
    const int layer = units[2 * blockIdx.x], strip = units[2 * blockIdx.x + 1];
    const long long columns = layer_field(table, layer, COLUMNS), begin = (long long)strip * TALL;
    const int blocks = (int)layer_field(table, layer, COLUMN_BLOCKS), width = (int)(columns / blocks);
    const int rank = (int)layer_field(table, layer, RANK), left = (int)(layer_field(table, layer, ROWS) - begin);
    const int rows = left < TALL ? left : TALL;
    extern __shared__ __align__(16) double room[];
    float *shared = (float*)room, *sums = shared + TALL * PIECE * (LANES + 1);
    float total = 0.0f;
    for (int block = 0; block < blocks; ++block) {
        float* M = (float*)layer_field(table, layer, DIRECTION) + begin * columns + (long long)block * width;
        const float* W = (const float*)layer_field(table, layer, RIGHT) + (long long)block * width * rank;
        const bool aligned = is_aligned(W, rank);
        const float* gains = rooted ? (const float*)layer_field(table, layer, RIGHT_GAINS) + block * rank : nullptr;
        row_products(M, columns, rows, width, W, rank, rank, shared, sums);
        for (int e = threadIdx.x; gains && e < rows * rank; e += blockDim.x) sums[e] *= gains[e % rank];
        __syncthreads();
        for (int c = threadIdx.x; c < width; c += blockDim.x) {
            for (int k = 0; k < rank; k += PIECE) {
                float w[PIECE];
                piece_of(W + (long long)c * rank, k, rank, aligned, w);
                const bool last = k + PIECE >= rank;
                for (int i = 0; i < rows; ++i) {
                    float m = M[i * columns + c];
                    for (int j = 0; j < PIECE; ++j) m -= (k + j < rank ? sums[i * rank + k + j] : 0.0f) * w[j];
                    M[i * columns + c] = m;
                    if (last) total += m * m;
                }
            }
        }
        __syncthreads();
    }
    const double sum = block_sum(total);
    if (threadIdx.x == 0) lengths[layer_field(table, layer, STRIP) + strip] = sum;
}
