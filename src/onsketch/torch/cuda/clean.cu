// The gradients in one buffer, a stretch to each thread block: those of a layer that are not finite become zero.
extern "C" __global__ void clean(const long long* layers, const bool* finite, stored* grads, int stretch)
{
    if (finite[layers[blockIdx.x]]) return;
    stored* g = grads + (long long)blockIdx.x * stretch;
    for (int e = threadIdx.x; e < stretch; e += blockDim.x) store(g + e, 0);
}
