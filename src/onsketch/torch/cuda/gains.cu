// Factors of the products with each direction W_k that halve the power of a preconditioner I − WWᵀ (rooted in axes.py):
// 1/(1 + √(1 − |W_k|²)). One thread block for each block of an axis.
extern "C" __global__ void gains(const long long* table, const int* units)
{
    const int layer = units[3 * blockIdx.x], right = units[3 * blockIdx.x + 1], block = units[3 * blockIdx.x + 2];
    const int rank = (int)layer_field(table, layer, RANK), groups = THREADS / rank;
    const long long blocks = layer_field(table, layer, right ? COLUMN_BLOCKS : ROW_BLOCKS);
    const long long rows = layer_field(table, layer, right ? COLUMNS : ROWS) / blocks;
    const float* W = (const float*)layer_field(table, layer, right ? RIGHT : LEFT) + block * rows * rank;
    float* own = (float*)layer_field(table, layer, right ? RIGHT_GAINS : LEFT_GAINS) + block * rank;
    __shared__ float partial[THREADS];
    for (int slot = threadIdx.x; slot < groups * rank; slot += blockDim.x) {
        float sum = 0.0f;
#pragma unroll 4
        for (long long i = slot / rank; i < rows; i += groups) {
            const float x = W[i * rank + slot % rank];
            sum += x * x;
        }
        partial[slot] = sum;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < rank; k += blockDim.x) {
        float sum = 0.0f;
        for (int group = 0; group < groups; ++group) sum += partial[group * rank + k];
        own[k] = 1.0f / (1.0f + sqrtf(sum < 1.0f ? 1.0f - sum : 0.0f));
    }
}
