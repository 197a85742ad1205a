// Sums over the chunks of a block, in a fixed order whatever runs when; `into` has `count` numbers.
__device__ void sum_chunks(const long long* table, const double* partial, int stride, int count, double* into)
{
    __shared__ double piece[THREADS];
    const int block = blockIdx.x, first = (int)field(table, block, FIRST_CHUNK);
    const int chunks = (int)field(table, block, CHUNKS), lanes = blockDim.x < 32 ? blockDim.x : 32;
    const int lane = threadIdx.x % lanes, part = threadIdx.x / lanes, parts = blockDim.x / lanes;
    for (int start = 0; start < count; start += lanes) {
        double sum = 0.0;
        if (start + lane < count) {
#pragma unroll 8
            for (int c = part; c < chunks; c += parts) sum += partial[(long long)(first + c) * stride + start + lane];
        }
        __syncthreads();
        piece[threadIdx.x] = sum;
        __syncthreads();
        if (part == 0 && start + lane < count) {
            for (int other = 1; other < parts; ++other) sum += piece[other * lanes + lane];
            into[start + lane] = sum;
        }
    }
    __syncthreads();
}
