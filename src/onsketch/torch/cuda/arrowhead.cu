// Eigenvectors of [diag(d) z; zᵀ alpha] by one thread block, d descending: the roots of the secular equation
// f(λ) = alpha − λ + Σ z_i²/(λ − d_i), one thread each, and from them the z̃ whose roots these exactly are, so that
// the eigenvectors are orthogonal to the last digit (Gu and Eisenstat 1995).

#ifndef approximate_reciprocal
__device__ inline double approximate_reciprocal(double x)
{
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
    return r;
}
#endif

struct Arrowhead {
    double d[LARGEST + 1], z[LARGEST + 1], pole[LARGEST + 1], z2[LARGEST + 1], zhat[LARGEST + 1];
    double from[LARGEST + 2], offset[LARGEST + 2];   // a root is a pole and an offset, so that differences keep digits
    double value[LARGEST + 2], raw[LARGEST + 2], length[LARGEST + 2], c[LARGEST + 1], s[LARGEST + 1];
    double alpha, unit;
    int active[LARGEST + 1], owner[LARGEST + 2], upper[LARGEST + 1], lower[LARGEST + 1];
    int poles, turns;
};

// Takes the power of two of the largest number out, which rounds nothing: squares then neither overflow nor vanish.
__device__ double scale(Arrowhead& h, int count, double alpha)
{
    double largest = fabs(alpha);
    for (int i = 0; i < count; ++i) largest = fmax(largest, fmax(h.d[i], fabs(h.z[i])));
    int power = 0;
    largest = frexp(largest, &power);
    power = power < -1000 ? -1000 : power;  // whose opposite is a number too
    const double factor = ldexp(1.0, 1 - power);
    for (int i = 0; i < count; ++i) { h.d[i] *= factor; h.z[i] *= factor; }
    h.alpha = alpha * factor;
    h.unit = ldexp(1.0, power - 1);
    return 2.0 * largest;
}

// Rows that are not bordered, and equal poles, leave the problem: the errors stay below the rounding of the matrix.
__device__ void deflate(Arrowhead& h, int count, double largest)
{
    const double tolerance = 8.0 * 2.220446049250313e-16 * largest;
    int last = -1;
    h.poles = h.turns = 0;
    for (int i = 0; i < count; ++i) {
        if (fabs(h.z[i]) <= tolerance) continue;  // (d_i, e_i) is an eigenpair
        h.active[i] = 1;
        if (last >= 0) {
            const double squares = h.z[last] * h.z[last] + h.z[i] * h.z[i];
            if ((h.d[last] - h.d[i]) * fabs(h.z[last] * h.z[i]) <= tolerance * squares) {
                const double t = sqrt(squares), c = h.z[i] / t, s = -h.z[last] / t;
                const double above = h.d[last], below = h.d[i];
                h.upper[h.turns] = last; h.lower[h.turns] = i; h.c[h.turns] = c; h.s[h.turns] = s; ++h.turns;
                h.d[last] = c * c * above + s * s * below;
                h.d[i] = s * s * above + c * c * below;
                h.z[last] = 0.0;
                h.z[i] = t;
                h.active[last] = 0;
            }
        }
        last = i;
    }
    for (int i = 0; i < count; ++i) {
        if (!h.active[i]) continue;
        h.pole[h.poles] = h.d[i];
        h.zhat[h.poles] = h.z[i];  // for its sign
        h.z2[h.poles] = h.z[i] * h.z[i];
        h.owner[h.poles++] = i;
    }
}

// 1/x to the last digit or two, without the branches of a division: the loop below is all that a root costs.
__device__ inline double reciprocal(double x)
{
    double r = approximate_reciprocal(x);
    r = r * (2.0 - x * r);
    r = r * (2.0 - x * r);
    return r;
}

__device__ inline double secular(const Arrowhead& h, double alpha, double from, double x)
{
    double sum[4] = {(alpha - from) - x, 0.0, 0.0, 0.0};  // in four, so that they need not wait for each other
    int i = 0;
    for (; i + 4 <= h.poles; i += 4)
#pragma unroll
        for (int k = 0; k < 4; ++k) sum[k] += h.z2[i + k] * reciprocal((from - h.pole[i + k]) + x);
    for (; i < h.poles; ++i) sum[0] += h.z2[i] * reciprocal((from - h.pole[i]) + x);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Root r, between poles r and r − 1, by bisection over the bits of its distance to the nearer one: f falls.
__device__ void find_root(Arrowhead& h, double alpha, double reach, int r)
{
    const int k = h.poles;
    double from, most, sign;
    if (r == 0) {
        from = h.pole[0]; sign = 1.0; most = fmax(alpha - from, 0.0) + reach;
    } else if (r == k) {
        from = h.pole[k - 1]; sign = -1.0; most = fmax(from - alpha, 0.0) + reach;
    } else {
        const double half = (h.pole[r - 1] - h.pole[r]) / 2.0;
        const bool near_lower = secular(h, alpha, h.pole[r], half) <= 0.0;
        from = near_lower ? h.pole[r] : h.pole[r - 1];
        sign = near_lower ? 1.0 : -1.0;
        most = half;
    }
    long long low = __double_as_longlong(2.3e-308), high = __double_as_longlong(most);
    while (high - low > 1) {
        const long long middle = low + (high - low) / 2;
        const double f = secular(h, alpha, from, sign * __longlong_as_double(middle));
        if ((f > 0.0) == (sign > 0.0)) low = middle; else high = middle;
    }
    h.from[r] = from;
    h.offset[r] = sign * __longlong_as_double(high);
}

// From h.d and h.z (count of each) and alpha: h.value, descending, and U, (count + 1)², eigenvectors as columns.
__device__ void arrowhead(Arrowhead& h, int count, double alpha, double* U)
{
    const int here = threadIdx.x, threads = blockDim.x, n = count + 1;
    for (int i = here; i < count; i += threads) h.active[i] = 0;
    for (int e = here; e < n * n; e += threads) U[e] = 0.0;
    __syncthreads();
    if (here == 0) deflate(h, count, scale(h, count, alpha));
    __syncthreads();
    const int k = h.poles;
    alpha = h.alpha;
    double reach = 0.0;
    for (int i = 0; i < k; ++i) reach += h.z2[i];
    reach = sqrt(reach);
    if (k == 0 && here == 0) { h.from[0] = alpha; h.offset[0] = 0.0; }
    if (k) for (int r = here; r <= k; r += threads) find_root(h, alpha, reach, r);
    __syncthreads();

    for (int i = here; i < k; i += threads) {
        const double at = h.pole[i];
        double product = ((h.from[0] - at) + h.offset[0]) * -((h.from[k] - at) + h.offset[k]);
        for (int j = 0; j < k; ++j) {
            if (j == i) continue;
            const int r = j < i ? j + 1 : j;
            product *= ((h.from[r] - at) + h.offset[r]) * reciprocal(h.pole[j] - at);
        }
        h.zhat[i] = (h.zhat[i] < 0.0 ? -1.0 : 1.0) * sqrt(fmax(product, 0.0));
    }
    // Where the roots and the eigenvalues that left the problem stand among each other.
    for (int r = here; r <= k; r += threads) h.raw[r] = h.from[r] + h.offset[r];
    if (here == 0) {
        int at = k + 1;
        for (int i = 0; i < count; ++i)
            if (!h.active[i]) { h.raw[at] = h.d[i]; h.length[at++] = i; }  // which unit vector it has
    }
    __syncthreads();
    for (int r = here; r < n; r += threads) {
        int rank = 0;
        for (int j = 0; j < n; ++j) rank += (h.raw[j] > h.raw[r] || (h.raw[j] == h.raw[r] && j < r)) ? 1 : 0;
        h.value[rank] = h.raw[r] * h.unit;
        if (r > k) {
            U[(int)h.length[r] * n + rank] = 1.0;
        } else {
            double squared = 1.0;
            for (int i = 0; i < k; ++i) {
                const double x = h.zhat[i] * reciprocal((h.from[r] - h.pole[i]) + h.offset[r]);
                U[h.owner[i] * n + rank] = x;
                squared += x * x;
            }
            const double scale = 1.0 / sqrt(squared);
            for (int i = 0; i < k; ++i) U[h.owner[i] * n + rank] *= scale;
            U[count * n + rank] = scale;
        }
        for (int t = h.turns - 1; t >= 0; --t) {  // back from the turned pairs of equal poles
            double *x = U + h.upper[t] * n + rank, *y = U + h.lower[t] * n + rank;
            const double a = *x, b = *y;
            *x = h.c[t] * a - h.s[t] * b;
            *y = h.s[t] * a + h.c[t] * b;
        }
    }
    __syncthreads();
}
