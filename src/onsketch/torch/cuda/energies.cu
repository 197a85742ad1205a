// The energy of each chunk of the gradients; NaN where a number, or its square, is not finite.
extern "C" __global__ void energies(
    const long long* table, const int* owners, const long long* gradients, double* sums, const float* wait)
{
    if (*wait != 0.0f) return;
    const Part p = part_of(table, owners);
    const float* g = (const float*)gradients[p.layer] + p.begin;
    double sum = 0.0;
    if (layer_field(table, p.layer, RIGHT_ROOM)) {
        for (int e = threadIdx.x; e < p.count; e += blockDim.x) {
            const float x = g[e];
            sum += fabsf(x) < 18446744073709551616.0f ? (double)x * x : (double)(x - x) / 0.0f;  // 2^64
        }
    }
    const double total = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}
