// The lower triangle of `R Rᵀ` of the rows that stayed, summed over each chunk. A thread works out the products of four
// rows with four others over a slice of the columns; the slices are added up at the end.
extern "C" __global__ void gram(
    const long long* table, const int* owners, const int* due, double* partial, int stride, int columns)
{
    extern __shared__ __align__(16) double room[];
    __shared__ double piece[THREADS];
    const Chunk c = chunk_of(table, owners);
    const int kept = due[c.block], pitch = columns + 1;  // so that rows do not meet in one bank
    if (kept <= 0) return;
    real* tile = (real*)room;
    const stored* rows = (const stored*)field(table, c.block, ROWS) + c.begin;
    double* sums = partial + (long long)blockIdx.x * stride;
    const int groups = (kept + 3) / 4, pairs = groups * (groups + 1) / 2, threads = blockDim.x;
    const bool aligned = c.width % 4 == 0;
    int slices = threads;
    while (slices > 1 && slices * pairs > threads) slices /= 2;
    const int together = threads / slices, slice = threadIdx.x % slices;

    for (int first = 0; first < pairs; first += together) {
        const int pair = first + threadIdx.x / slices;
        int p = 0;
        while ((p + 1) * (p + 2) / 2 <= pair) ++p;
        const int q = pair - p * (p + 1) / 2;
        real sum[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) sum[i][j] = 0;
        for (int start = 0; start < c.count; start += columns) {
            const int wide = c.count - start < columns ? c.count - start : columns;
            __syncthreads();
#pragma unroll 4
            for (int e = threadIdx.x; e < groups * columns; e += threads) {
                const int j = 4 * e / columns, at = 4 * e - j * columns;
                const stored* from = rows + j * c.width + start + at;
                real v[4] = {0, 0, 0, 0};
                if (j < kept) {
                    if (aligned && at + 3 < wide) load_four(from, v);
                    else for (int i = 0; i < 4; ++i) if (at + i < wide) v[i] = load(from + i);
                }
                for (int i = 0; i < 4; ++i) tile[j * pitch + at + i] = v[i];
            }
            __syncthreads();
            if (pair >= pairs) continue;
            const real *x = tile + 4 * p * pitch, *y = tile + 4 * q * pitch;
#pragma unroll 2
            for (int at = slice; at < columns; at += slices) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j) sum[i][j] += x[i * pitch + at] * y[j * pitch + at];
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                __syncthreads();
                piece[threadIdx.x] = sum[i][j];
                __syncthreads();
                const int row = 4 * p + i, column = 4 * q + j;
                if (slice == 0 && pair < pairs && row < kept && column <= row) {
                    double total = 0.0;
                    for (int s = 0; s < slices; ++s) total += piece[threadIdx.x + s];
                    sums[row * (row + 1) / 2 + column] = total;
                }
            }
    }
}
