// The products of the filled rows with the gradient, summed over each chunk; `absorb` makes it a row itself first.
// Layers whose gradient is not finite are marked in `bad`.
extern "C" __global__ void dots(
    const long long* table, const int* owners, const long long* gradients, double* partial, int* bad, int stride, int absorb,
    int wide)
{
    __shared__ __align__(16) real g[CHUNK];
    const Chunk c = chunk_of(table, owners);
    const int filled = (int)((const long long*)field(table, c.block, COUNTS))[0];
    stored* rows = (stored*)field(table, c.block, ROWS) + c.begin;
    stored* fresh = rows + filled * c.width;
    bool odd = false;
    for (int e = threadIdx.x; e < c.count; e += blockDim.x) {
        const real value = gradient(gradients[c.block], c.begin + e, wide);
        odd |= !(value - value == 0);
        if (absorb) store(fresh + e, value);
        g[e] = absorb ? load(fresh + e) : value;  // as the row has it, rounded
    }
    if (odd) bad[field(table, c.block, LAYER)] = 1;  // by whoever comes first
    __syncthreads();

    const int lanes = blockDim.x < 32 ? blockDim.x : 32, lane = threadIdx.x % lanes;
    const int fours = c.width % 4 ? 0 : c.count / 4;
    for (int row = threadIdx.x / lanes; row < filled + absorb; row += blockDim.x / lanes) {
        real sum = 0;
        if (row == filled) {
            for (int e = lane; e < c.count; e += lanes) sum += g[e] * g[e];
        } else {
            const stored* r = rows + row * c.width;
#pragma unroll 4
            for (int q = lane; q < fours; q += lanes) {
                real v[4];
                load_four(r + 4 * q, v);
                sum += v[0] * g[4 * q] + v[1] * g[4 * q + 1] + v[2] * g[4 * q + 2] + v[3] * g[4 * q + 3];
            }
            for (int e = 4 * fours + lane; e < c.count; e += lanes) sum += load(r + e) * g[e];
        }
        double total = sum;
        for (int step = lanes / 2; step; step /= 2) total += __shfl_down_sync(0xffffffffu, total, step);
        if (lane == 0) partial[(long long)blockIdx.x * stride + row] = total;
    }
}
