// Mark the layers whose gradient, or its square, is not finite.
extern "C" __global__ void inspect(const long long* table, const int* owners, const long long* gradients, int* bad)
{
    const Part p = part_of(table, owners);
    const float* g = (const float*)gradients[p.layer] + p.begin;
    bool odd = false;
    for (int e = threadIdx.x; e < p.count; e += blockDim.x) odd |= !(fabsf(g[e]) < 18446744073709551616.0f);  // 2^64
    if (odd) bad[p.layer] = 1;  // by whoever comes first
}
