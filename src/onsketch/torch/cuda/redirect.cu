// The new directions, some rows by each thread block; where a refresh failed, the old ones, if there were any. A refresh
// that did not fail is counted.
extern "C" __global__ void redirect(
    const long long* sides, const int* owners, const double* mixes, const int* failed, int most, const float* wait)
{
    if (*wait != 0.0f) return;
    const int side = owners[blockIdx.x], rank = (int)side_field(sides, side, SIDE_RANK), n = 4 * rank;
    const long long begin = (blockIdx.x - side_field(sides, side, PART)) * part_rows(rank);
    const long long left = side_field(sides, side, LENGTH) - begin;
    const int rows = (int)(left < part_rows(rank) ? left : part_rows(rank));
    if (begin == 0 && side % 2 == 0 && threadIdx.x == 0 && !failed[side]) {
        *(float*)side_field(sides, side, REFRESHES) += 1.0f;
    }
    const float* Z = (const float*)side_field(sides, side, ROOM) + begin * n;
    const double* mix = mixes + (long long)side * 4 * most * most;
    const double* energy = (const double*)side_field(sides, side, ENERGY);
    float* W = (float*)side_field(sides, side, DIRECTIONS) + begin * rank;
    for (int e = threadIdx.x; e < rows * rank; e += blockDim.x) {
        const int i = e / rank, k = e % rank;
        if (failed[side]) {
            if (!(energy[k] > 0.0)) W[e] = 0.0f;
            continue;
        }
        double sum = 0.0;
        for (int j = 0; j < n; ++j) sum += mix[j * rank + k] * Z[i * n + j];
        W[e] = (float)sum;
    }
}
