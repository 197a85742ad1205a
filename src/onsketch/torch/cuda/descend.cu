// Step along the turned directions with the length they had before, or with that of orthogonal ones; count the step, or
// the skipped one.
extern "C" __global__ void descend(
    const long long* table, const int* owners, const int* bad, const double* wanted, const double* lengths,
    int* skipped, const double* numbers, int layers, double orthogonal)
{
    const Part p = part_of(table, owners);
    if (blockIdx.x == 0 && threadIdx.x == 0) for (int k = 0; k < layers; ++k) *skipped += bad[k] != 0;
    if (bad[p.layer]) return;
    const long long first = layer_field(table, p.layer, FIRST), count = layer_field(table, p.layer, COUNT);
    const bool spans = orthogonal > 0.0;  // the root mean square of such steps
    const long long strip = layer_field(table, p.layer, spans ? SPAN : STRIP);
    const long long strips = layer_field(table, p.layer, spans ? SPANS : STRIPS);
    const float* D = (const float*)layer_field(table, p.layer, DIRECTION);
    if (D) {
        double asked = 0.0, length = 0.0;
        for (long long k = threadIdx.x; k < count; k += blockDim.x) asked += wanted[first + k];
        for (long long k = threadIdx.x; k < strips; k += blockDim.x) length += lengths[strip + k];
        asked = block_sum(asked);
        __syncthreads();
        length = block_sum(length);
        if (spans) asked = orthogonal * orthogonal * layer_field(table, p.layer, NUMBERS);
        const double lr = numbers[RATE];
        const float shrink = (float)(1.0 - lr * numbers[WEIGHT_DECAY]);
        const float move = length > 0.0 ? (float)(lr * sqrt(asked / length)) : 0.0f;
        float* w = (float*)layer_field(table, p.layer, WEIGHT) + p.begin;
        for (int e = threadIdx.x; e < p.count; e += blockDim.x) w[e] = w[e] * shrink - move * D[p.begin + e];
    }
    if (p.begin == 0 && threadIdx.x == 0) *(float*)layer_field(table, p.layer, STEP) += 1.0f;
}
