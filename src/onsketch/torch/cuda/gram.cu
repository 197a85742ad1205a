// The lower triangle of `R Rᵀ` of the rows that stayed, summed over each chunk.
extern "C" __global__ void gram(
    const long long* table, const int* owners, const int* due, double* partial, int stride, int columns)
{
    extern __shared__ __align__(16) double room[];
    const Chunk c = chunk_of(table, owners);
    const int kept = due[c.block], pitch = columns + 4;  // so that rows do not meet in one bank
    if (kept <= 0) return;
    real* tile = (real*)room;
    const stored* rows = (const stored*)field(table, c.block, ROWS) + c.begin;
    double* sums = partial + (long long)blockIdx.x * stride;
    for (int start = 0; start < c.count; start += columns) {
        const int wide = c.count - start < columns ? c.count - start : columns;
        __syncthreads();
        for (int e = threadIdx.x; e < kept * columns; e += blockDim.x) {
            const int j = e / columns, at = e % columns;
            tile[j * pitch + at] = at < wide ? load(rows + j * c.width + start + at) : 0;
        }
        __syncthreads();
        for (int e = threadIdx.x; e < kept * (kept + 1) / 2; e += blockDim.x) {
            int i = (int)((sqrtf(8.0f * e + 1.0f) - 1.0f) / 2.0f);
            while (i * (i + 1) / 2 > e) --i;
            while ((i + 1) * (i + 2) / 2 <= e) ++i;
            const real *x = tile + i * pitch, *y = tile + (e - i * (i + 1) / 2) * pitch;
            real sum[4] = {0, 0, 0, 0};
#pragma unroll 4
            for (int at = 0; at < columns; at += 4) {
                sum[0] += x[at] * y[at]; sum[1] += x[at + 1] * y[at + 1];
                sum[2] += x[at + 2] * y[at + 2]; sum[3] += x[at + 3] * y[at + 3];
            }
            sums[e] = (start ? sums[e] : 0.0) + ((double)sum[0] + sum[1] + sum[2] + sum[3]);
        }
    }
}
