// Everything small of a refresh (see axes.py), one thread block for each axis. With K = ZᵀZ, X the first 2r columns of
// Z and C = β·V diag(λ) Vᵀ + w·GGᵀ, Y = CX is Zc for a small c, so that XᵀY, YᵀY and the new directions need K alone.
// β is the average's decay, freed of its start from zero by the number of refreshes before this one.
// What is made of Z to become the new directions goes to `mixes`, 4r·r numbers; `failed` says where nothing did.
extern "C" __global__ void shrink(
    const long long* sides, const double* partial, const double* sizes, const double* numbers, double* scratch,
    double* mixes, int* failed, int most, int mean, double least, const float* wait)
{
    if (*wait != 0.0f) return;
    const int side = blockIdx.x, here = threadIdx.x, threads = blockDim.x;
    const int r = (int)side_field(sides, side, SIDE_RANK), s = 2 * r, n = 4 * r;
    const double age = *(const float*)side_field(sides, side, REFRESHES), slow = numbers[SKETCH_DECAY];
    const double decay = slow * (1.0 - pow(slow, age)) / (1.0 - pow(slow, age + 1.0));
    const double ridge = numbers[RIDGE], damping = numbers[DAMPING], power = numbers[POWER];
    const double size = sizes[side_field(sides, side, OWNER)], weight = (1.0 - decay) * size * size;
    double* energy = (double*)side_field(sides, side, ENERGY);
    double* escaped = (double*)side_field(sides, side, ESCAPED);
    double* total = (double*)side_field(sides, side, TOTAL);
    double *K = scratch + (long long)side * 44 * most * most, *T = K + n * n, *factor = T + n * s, *P = factor + s * s;
    double *A = P + s * s, *V = A + s * s, *FE = V + s * s, *mix = mixes + (long long)side * 4 * most * most;
    extern __shared__ __align__(16) double room[];
    if (s * s * 16 <= SHARED_BYTES) {
        A = room;
        V = room + s * s;
    }
    __shared__ double scale[2 * RANKS], value[2 * RANKS], kept[RANKS], coefficient[RANKS];
    __shared__ int column[2 * RANKS];
    const double* parts = partial + side_field(sides, side, PART) * 16 * most * most;
    const int count = (int)side_field(sides, side, PARTS);
    for (int e = here; e < n * n; e += threads) {
        double sum = 0.0;
        for (int k = 0; k < count; ++k) sum += parts[(long long)k * 16 * most * most + e];
        K[e] = sum;
    }
    __syncthreads();
    for (int e = here; e < n * s; e += threads) {  // T = Kc
        const int i = e / s, j = e % s;
        double sum = weight * K[i * n + s + j];
        for (int k = 0; k < r; ++k) sum += K[i * n + k] * (decay * energy[k]) * K[k * n + j];
        T[e] = sum;
    }
    __syncthreads();
    for (int i = here; i < s; i += threads) scale[i] = T[i * s + i] > 0.0 ? 1.0 / sqrt(fmax(T[i * s + i], 1e-300)) : 0.0;
    __syncthreads();
    for (int e = here; e < s * s; e += threads) {
        const int i = e / s, j = e % s;
        A[e] = 0.5 * scale[i] * scale[j] * (T[i * s + j] + T[j * s + i]);
    }
    __syncthreads();
    bool solved = jacobi(A, V, s);
    for (int e = here; e < s * s; e += threads) {
        const int j = e % s;
        factor[e] = A[j * s + j] > least ? scale[e / s] * V[e] / sqrt(A[j * s + j]) : 0.0;
    }
    __syncthreads();
    for (int e = here; e < s * s; e += threads) {  // YᵀY
        const int i = e / s, j = e % s;
        double sum = weight * T[(s + i) * s + j];
        for (int k = 0; k < r; ++k) sum += (decay * energy[k]) * K[k * n + i] * T[k * s + j];
        V[e] = sum;
    }
    __syncthreads();
    for (int e = here; e < s * s; e += threads) {
        const int i = e / s, j = e % s;
        double sum = 0.0;
        for (int k = 0; k < s; ++k) sum += V[i * s + k] * factor[k * s + j];
        P[e] = sum;
    }
    __syncthreads();
    for (int e = here; e < s * s; e += threads) {
        const int i = e / s, j = e % s;
        double sum = 0.0;
        for (int k = 0; k < s; ++k) sum += factor[k * s + i] * P[k * s + j] + factor[k * s + j] * P[k * s + i];
        A[e] = 0.5 * sum;
    }
    __syncthreads();
    if (solved) solved = jacobi(A, V, s);
    if (!solved) {
        if (here == 0) failed[side] = 1;
        return;
    }
    for (int i = here; i < s; i += threads) {
        const int rank = place(A, s, i);
        value[rank] = fmax(A[i * s + i], 0.0);
        column[rank] = i;
    }
    __syncthreads();
    if (here == 0) {
        const double rho = value[r], lost = decay * *escaped + rho, all = decay * *total + weight;
        double inside = 0.0;
        for (int k = 0; k < r; ++k) inside += kept[k] = fmax(value[k] - rho, 0.0) + lost;
        const long long length = side_field(sides, side, LENGTH);
        const double outside = mean ? fmax((all - inside) / (length > r ? length - r : 1), 0.0) : lost;
        const double floor = fmax(outside + ridge * fmax(kept[0], outside) + damping * all / length, 1e-300);
        for (int k = 0; k < r; ++k) {
            const double above = fmax(kept[k] - outside, 0.0) / floor;
            const double share = sqrt(fmax(1.0 - pow(1.0 + above, -power), 1e-12));
            kept[k] = fmax(value[k] - rho, 0.0);
            coefficient[k] = kept[k] > 0.0 ? share / sqrt(fmax(value[k], 1e-300)) : 0.0;
        }
        *escaped = lost;
        *total = all;
        failed[side] = 0;
    }
    __syncthreads();
    for (int e = here; e < s * r; e += threads) {
        const int i = e / r, k = e % r;
        double sum = 0.0;
        for (int j = 0; j < s; ++j) sum += factor[i * s + j] * V[j * s + column[k]];
        FE[e] = sum * coefficient[k];
    }
    __syncthreads();
    for (int e = here; e < n * r; e += threads) {
        const int i = e / r, k = e % r;
        double sum = i < s ? 0.0 : weight * FE[(i - s) * r + k];
        if (i < r) for (int j = 0; j < s; ++j) sum += decay * energy[i] * K[i * n + j] * FE[j * r + k];
        mix[e] = sum;
    }
    __syncthreads();
    for (int k = here; k < r; k += threads) energy[k] = kept[k];
}
