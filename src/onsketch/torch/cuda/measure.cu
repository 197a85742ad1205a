// The squared lengths of the directions as they are now, by chunks.
extern "C" __global__ void measure(const long long* table, const int* owners, double* lengths)
{
    const Part p = part_of(table, owners);
    const float* D = (const float*)layer_field(table, p.layer, DIRECTION);
    float sum = 0.0f;
    if (D) for (int e = threadIdx.x; e < p.count; e += blockDim.x) sum += D[p.begin + e] * D[p.begin + e];
    const double total = block_sum(sum);
    if (threadIdx.x == 0) lengths[blockIdx.x] = total;
}
