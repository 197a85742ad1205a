// The directions of each axis, of length 1, become the first columns of Z; where one has no energy, numbers that look
// random (see started in axes.py). The first axis of a layer adds up the length of its gradient.
__device__ inline float direction_at(const float* W, double energy, long long at)
{
    if (energy > 0.0) return W[at];
    const double x = sin((double)(at + 1) * 12.9898) * 43758.5453;
    return (float)((x - trunc(x)) * 2.0);
}

extern "C" __global__ void normalise(
    const long long* table, const long long* sides, const double* sums, double* sizes, const float* wait)
{
    if (*wait != 0.0f) return;
    __shared__ double partial[THREADS];
    __shared__ float inverse[THREADS];
    const int side = blockIdx.x, layer = (int)side_field(sides, side, OWNER);
    const int rank = (int)side_field(sides, side, SIDE_RANK), groups = THREADS / rank;
    const long long rows = side_field(sides, side, LENGTH);
    const float* W = (const float*)side_field(sides, side, DIRECTIONS);
    const double* energy = (const double*)side_field(sides, side, ENERGY);
    float* Z = (float*)side_field(sides, side, ROOM);
    for (int slot = threadIdx.x; slot < groups * rank; slot += blockDim.x) {
        const int k = slot % rank;
        const double known = energy[k];
        float sum = 0.0f;
#pragma unroll 4
        for (long long i = slot / rank; i < rows; i += groups) {
            const float x = direction_at(W, known, i * rank + k);
            sum += x * x;
        }
        partial[slot] = sum;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < rank; k += blockDim.x) {
        double sum = 0.0;
        for (int group = 0; group < groups; ++group) sum += partial[group * rank + k];
        inverse[k] = (float)(1.0 / fmax(sqrt(sum), 1e-30));
    }
    __syncthreads();
    for (int slot = threadIdx.x; slot < groups * rank; slot += blockDim.x) {
        const int k = slot % rank;
        const double known = energy[k];
#pragma unroll 4
        for (long long i = slot / rank; i < rows; i += groups) {
            Z[i * 4 * rank + k] = direction_at(W, known, i * rank + k) * inverse[k];
        }
    }
    if (side % 2) return;
    const long long first = layer_field(table, layer, FIRST), count = layer_field(table, layer, COUNT);
    double sum = 0.0;
    for (long long k = threadIdx.x; k < count; k += blockDim.x) sum += sums[first + k];
    const double total = block_sum(sum);
    if (threadIdx.x == 0) sizes[layer] = sqrt(total);
}
