// Adam's moments and direction. A layer without sketches (no DIRECTION) steps at once; of the others the direction is
// written and its squared length added up by chunks. A layer whose gradient is not finite is left alone. The direction of
// orthogonal layers is the momentum here.
extern "C" __global__ void moments(
    const long long* table, const int* owners, const long long* gradients, const int* bad, double* lengths,
    const double* numbers, int nesterov, int maximize, int orthogonal)
{
    const Part p = part_of(table, owners);
    float* D = (float*)layer_field(table, p.layer, DIRECTION);
    if (bad[p.layer]) {
        if (D) for (int e = threadIdx.x; e < p.count; e += blockDim.x) D[p.begin + e] = 0.0f;
        if (threadIdx.x == 0) lengths[blockIdx.x] = 0.0;
        return;
    }
    const double t = *(const float*)layer_field(table, p.layer, STEP) + 1.0;
    const double lr = numbers[RATE], first = numbers[BETA], second = numbers[SQUARES_BETA];
    if (first == 0.0) nesterov = 0;
    const float* g_at = (const float*)gradients[p.layer] + p.begin;
    float* m_at = (float*)layer_field(table, p.layer, MOMENTUM) + p.begin;
    float* v_at = (float*)layer_field(table, p.layer, SQUARES) + p.begin;
    float* w_at = (float*)layer_field(table, p.layer, WEIGHT) + p.begin;
    const float keep = (float)first, fresh = (float)(1.0 - first), sign = maximize ? -1.0f : 1.0f;
    const float keep_squares = (float)second, fresh_squares = (float)(1.0 - second), floor = (float)numbers[EPS];
    const float freed = (float)(1.0 / (1.0 - pow(first, nesterov ? t + 1.0 : t)));
    const float freed_squares = (float)(1.0 / (1.0 - pow(second, t)));
    const float shrink = (float)(1.0 - lr * numbers[WEIGHT_DECAY]), move = (float)lr;
    const bool whole = !(D && orthogonal);
    float sum = 0.0f;
    for (int e = threadIdx.x; e < p.count; e += blockDim.x) {
        const float g = sign * g_at[e], m = m_at[e] + fresh * (g - m_at[e]);
        m_at[e] = m;
        float d = (nesterov ? keep * m + fresh * g : m) * freed;
        if (whole) {
            const float v = keep_squares * v_at[e] + fresh_squares * g * g;
            v_at[e] = v;
            d /= sqrtf(v * freed_squares) + floor;
        }
        if (D) {
            D[p.begin + e] = d;
            sum += d * d;
        } else {
            w_at[e] = w_at[e] * shrink - move * d;
        }
    }
    const double total = block_sum(sum);
    if (threadIdx.x == 0) lengths[blockIdx.x] = total;
}
