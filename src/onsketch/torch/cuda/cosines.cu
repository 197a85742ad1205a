// RadaGrad's Πg: chosen rows of the orthonormal DCT-II of the gradient with its signs changed, by chunks. With about
// as many rows as log₂ d the sum itself costs no more than a fast transform of all d, and is one launch for all layers.
__device__ inline real cosine(int phase, real turn)  // cos(π·phase·turn)
{
#if STORAGE == 1
    return cospi(phase * turn);
#else
    return __cosf(3.14159265f * (phase * turn));
#endif
}

extern "C" __global__ void cosines(
    const long long* table, const int* owners, const long long* gradients, const long long* maps, double* partial,
    int stride, int wide)
{
    __shared__ real g[CHUNK];
    const Chunk c = chunk_of(table, owners);
    const long long* chosen = (const long long*)maps[3 * c.block];
    const signed char* signs = (const signed char*)maps[3 * c.block + 1] + c.begin;
    const int rows = (int)maps[3 * c.block + 2];
    for (int e = threadIdx.x; e < c.count; e += blockDim.x) g[e] = gradient(gradients[c.block], c.begin + e, wide) * signs[e];
    __syncthreads();
    const int lanes = blockDim.x < 32 ? blockDim.x : 32, lane = threadIdx.x % lanes;
    const unsigned int period = (unsigned int)(4 * c.width), half = period / 2;
    const real turn = (real)(1.0 / (double)half);
    for (int row = threadIdx.x / lanes; row < rows; row += blockDim.x / lanes) {
        const unsigned long long k = chosen[row];
        const unsigned int step = (unsigned int)(2 * lanes * k % period);
        unsigned int phase = (unsigned int)((2 * (c.begin + lane) + 1) * k % period);
        real sum = 0;
#pragma unroll 4
        for (int e = lane; e < c.count; e += lanes) {
            sum += g[e] * cosine(phase > half ? (int)(phase - period) : (int)phase, turn);
            phase += step;
            if (phase >= period) phase -= period;
        }
        double total = sum;
        for (int s = lanes / 2; s; s /= 2) total += __shfl_down_sync(0xffffffffu, total, s);
        if (lane == 0) partial[(long long)blockIdx.x * stride + row] = total * sqrt((k ? 2.0 : 1.0) / rows);
    }
    for (int row = rows + threadIdx.x; row < stride; row += blockDim.x)
        partial[(long long)blockIdx.x * stride + row] = 0.0;
}
