// Columns of Z of the rows: the gradient, divided by its length, times columns of Z of the columns, TALL rows by each
// thread block. Columns are counted in ranks.
extern "C" __global__ void across(
    const long long* table, const int* units, const long long* gradients, const double* sizes, int from, int ranks,
    int to, const float* wait)
{
    if (*wait != 0.0f) return;
    const int layer = units[2 * blockIdx.x], strip = units[2 * blockIdx.x + 1];
    const long long columns = layer_field(table, layer, COLUMNS), begin = (long long)strip * TALL;
    const int rank = (int)layer_field(table, layer, RANK), left = (int)(layer_field(table, layer, ROWS) - begin);
    const int rows = left < TALL ? left : TALL, count = ranks * rank;
    const float* G = (const float*)gradients[layer] + begin * columns;
    const float* X = (const float*)layer_field(table, layer, RIGHT_ROOM) + from * rank;
    float* Z = (float*)layer_field(table, layer, LEFT_ROOM) + begin * 4 * rank + to * rank;
    extern __shared__ __align__(16) double room[];
    float *shared = (float*)room, *sums = shared + TALL * PIECE * (LANES + 1);
    row_products(G, columns, rows, (int)columns, X, 4 * rank, count, shared, sums);
    const float unit = sizes[layer] > 0.0 ? (float)(1.0 / sizes[layer]) : 0.0f;
    for (int o = threadIdx.x; o < rows * count; o += blockDim.x) Z[o / count * 4 * rank + o % count] = unit * sums[o];
}
