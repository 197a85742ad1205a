// Give the step of each block the length of its diagonal step, from their squared lengths by chunks.
extern "C" __global__ void graft(const long long* table, const int* owners, const double* lengths, real* updates)
{
    __shared__ double piece[2 * THREADS];
    const Chunk c = chunk_of(table, owners);
    const int first = (int)field(table, c.block, FIRST_CHUNK), chunks = (int)field(table, c.block, CHUNKS);
    double wanted = 0.0, length = 0.0;
    for (int k = threadIdx.x; k < chunks; k += blockDim.x) {
        wanted += lengths[2 * (first + k)];
        length += lengths[2 * (first + k) + 1];
    }
    piece[threadIdx.x] = wanted;
    piece[THREADS + threadIdx.x] = length;
    __syncthreads();
    for (int step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step) {
            piece[threadIdx.x] += piece[threadIdx.x + step];
            piece[THREADS + threadIdx.x] += piece[THREADS + threadIdx.x + step];
        }
        __syncthreads();
    }
    const real scale = piece[THREADS] > 0.0 ? (real)sqrt(piece[0] / piece[THREADS]) : 0;
    real* out = updates + field(table, c.block, UPDATE) + c.begin;
    for (int e = threadIdx.x; e < c.count; e += blockDim.x) out[e] *= scale;
}
