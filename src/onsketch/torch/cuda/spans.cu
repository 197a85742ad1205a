// Equal mean squares along the longer axis (orthogonal.py): WIDE of its entries by each thread block, which also adds up
// the squared length of what they are then. A layer whose gradient is not finite is left alone.
enum { WIDE = 32, GROUPS = 8 };

extern "C" __global__ void spans(
    const long long* table, const int* units, const int* bad, const double* numbers, double* lengths, double least)
{
    const int layer = units[2 * blockIdx.x], strip = units[2 * blockIdx.x + 1];
    if (bad[layer]) return;
    const long long rows = layer_field(table, layer, ROWS), columns = layer_field(table, layer, COLUMNS);
    const bool turned = rows > columns;
    const long long longer = turned ? rows : columns, shorter = turned ? columns : rows, begin = (long long)strip * WIDE;
    const long long along = turned ? columns : 1, across = turned ? 1 : columns;
    const int here = (int)(longer - begin < WIDE ? longer - begin : WIDE);
    float* D = (float*)layer_field(table, layer, DIRECTION) + begin * along;
    float* squares = (float*)layer_field(table, layer, SQUARES) + begin;
    const float fresh = (float)(1.0 - numbers[SKETCH_DECAY]);
    __shared__ float partial[GROUPS * WIDE], factor[WIDE];
    __shared__ double energy[WIDE];
    for (int slot = threadIdx.x; slot < GROUPS * WIDE; slot += blockDim.x) {
        const int k = slot % WIDE;
        float sum = 0.0f;
#pragma unroll 4
        for (long long i = slot / WIDE; k < here && i < shorter; i += GROUPS) {
            const float x = D[k * along + i * across];
            sum += x * x;
        }
        partial[slot] = sum;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < here; k += blockDim.x) {
        float sum = 0.0f;
        for (int group = 0; group < GROUPS; ++group) sum += partial[group * WIDE + k];
        const float mean = sum / shorter, c = squares[k] + fresh * (mean - squares[k]);
        squares[k] = c;
        factor[k] = 1.0f / sqrtf(fmaxf(c, (float)least));
        energy[k] = (double)sum * factor[k] * factor[k];
    }
    __syncthreads();
    for (int slot = threadIdx.x; slot < GROUPS * WIDE; slot += blockDim.x) {
        const int k = slot % WIDE;
#pragma unroll 4
        for (long long i = slot / WIDE; k < here && i < shorter; i += GROUPS) D[k * along + i * across] *= factor[k];
    }
    if (threadIdx.x == 0) {
        double sum = 0.0;
        for (int k = 0; k < here; ++k) sum += energy[k];
        lengths[layer_field(table, layer, SPAN) + strip] = sum;
    }
}
