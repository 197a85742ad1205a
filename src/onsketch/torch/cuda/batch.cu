// Copy directions into the batches that Newton and Schulz's steps take, where the shorter axis comes first, or back.
extern "C" __global__ void batch(const long long* table, const int* owners, int back)
{
    const Part p = part_of(table, owners);
    float* D = (float*)layer_field(table, p.layer, DIRECTION);
    if (!D) return;
    float* X = (float*)layer_field(table, p.layer, BATCH);
    const long long columns = layer_field(table, p.layer, COLUMNS), pitch = layer_field(table, p.layer, PITCH);
    const bool turned = layer_field(table, p.layer, ROWS) > columns;
    for (int e = threadIdx.x; e < p.count; e += blockDim.x) {
        const long long at = p.begin + e, i = at / columns, j = at % columns;
        float* x = X + (turned ? j * pitch + i : i * pitch + j);
        if (back) D[at] = *x;
        else *x = D[at];
    }
}
