// The other way round: columns of Z of the columns, the gradient's transpose times columns of Z of the rows, WIDE
// columns of the gradient by each thread block.
extern "C" __global__ void down(
    const long long* table, const int* units, const long long* gradients, const double* sizes, int from, int ranks,
    int to, const float* wait)
{
    if (*wait != 0.0f) return;
    const int layer = units[2 * blockIdx.x], strip = units[2 * blockIdx.x + 1];
    const long long columns = layer_field(table, layer, COLUMNS), begin = (long long)strip * WIDE;
    const int rank = (int)layer_field(table, layer, RANK), rows = (int)layer_field(table, layer, ROWS);
    const int left = (int)(columns - begin), here = left < WIDE ? left : WIDE, count = ranks * rank;
    const float* G = (const float*)gradients[layer] + begin;
    const float* X = (const float*)layer_field(table, layer, LEFT_ROOM) + from * rank;
    float* Z = (float*)layer_field(table, layer, RIGHT_ROOM) + begin * 4 * rank + to * rank;
    extern __shared__ __align__(16) double room[];
    float* sums = (float*)room;
    column_products(G, columns, rows, here, X, 4 * rank, count, sums);
    const float unit = sizes[layer] > 0.0 ? (float)(1.0 / sizes[layer]) : 0.0f;
    for (int o = threadIdx.x; o < here * count; o += blockDim.x) {
        Z[o / count * 4 * rank + o % count] = unit * sums[o % count * WIDE + o / count];
    }
}
