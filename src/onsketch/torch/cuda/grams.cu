// ZᵀZ of some rows of Z, in double precision, four by four products by each thread.
extern "C" __global__ void grams(const long long* sides, const int* owners, double* partial, int most, const float* wait)
{
    if (*wait != 0.0f) return;
    const int side = owners[blockIdx.x], rank = (int)side_field(sides, side, SIDE_RANK), n = 4 * rank;
    const long long begin = (blockIdx.x - side_field(sides, side, PART)) * part_rows(rank);
    const long long left = side_field(sides, side, LENGTH) - begin;
    const int rows = (int)(left < part_rows(rank) ? left : part_rows(rank));
    const float* Z = (const float*)side_field(sides, side, ROOM) + begin * n;
    extern __shared__ __align__(16) double room[];
    for (int e = threadIdx.x; e < rows * n; e += blockDim.x) room[e] = Z[e];
    __syncthreads();
    double* own = partial + (long long)blockIdx.x * 16 * most * most;
    for (int t = threadIdx.x; t < rank * rank; t += blockDim.x) {
        const int a = t / rank * 4, b = t % rank * 4;
        double sums[16];
        for (int e = 0; e < 16; ++e) sums[e] = 0.0;
        for (int i = 0; i < rows; ++i) {
            const double *x = room + i * n + a, *y = room + i * n + b;
            for (int e = 0; e < 16; ++e) sums[e] += x[e / 4] * y[e % 4];
        }
        for (int e = 0; e < 16; ++e) own[(a + e / 4) * n + b + e % 4] = sums[e];
    }
}
