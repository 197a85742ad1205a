// Copy directions, divided by their length, into the batches that Newton and Schulz's steps take, where the shorter axis
// comes first; or copy what has become of them back, freed of √SIZE (orthogonal.py). The batches are bfloat16 if `narrow`.
extern "C" __global__ void batch(
    const long long* table, const int* owners, const double* lengths, int narrow, int back)
{
    const Part p = part_of(table, owners);
    float* D = (float*)layer_field(table, p.layer, DIRECTION);
    if (!D) return;
    const long long at = layer_field(table, p.layer, BATCH), strip = layer_field(table, p.layer, STRIP);
    const long long columns = layer_field(table, p.layer, COLUMNS), pitch = layer_field(table, p.layer, PITCH);
    const bool turned = layer_field(table, p.layer, ROWS) > columns;
    double length = 0.0;
    for (long long k = threadIdx.x; k < layer_field(table, p.layer, STRIPS); k += blockDim.x) length += lengths[strip + k];
    length = block_sum(length);
    float factor = length > 0.0 ? (float)(1.0 / sqrt(length)) : 0.0f;
    if (back) factor = 1.0f / sqrtf(*(const float*)layer_field(table, p.layer, SIZE));
    for (int e = threadIdx.x; e < p.count; e += blockDim.x) {
        const long long i = (p.begin + e) / columns, j = (p.begin + e) % columns;
        const long long to = turned ? j * pitch + i : i * pitch + j;
        float *wide = (float*)at + to, *d = D + p.begin + e;
        unsigned short* half = (unsigned short*)at + to;
        if (back) {
            *d = factor * (narrow ? __uint_as_float((unsigned)*half << 16) : *wide);
        } else if (narrow) {
            const unsigned bits = __float_as_uint(factor * *d);
            *half = (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);  // to the nearest, ties to even
        } else {
            *wide = factor * *d;
        }
    }
}
