// Eigenvectors of a symmetric matrix by one thread block: Jacobi rotations, as many disjoint pairs at a time as
// there are (Brent and Luk 1985). A rotation changes the 2×2 blocks of two pairs of indices at a time.

// A, n×n, becomes diagonal and V its eigenvectors as columns. False where A is not finite.
__device__ bool jacobi(double* A, double* V, int n)
{
    __shared__ double cosine[THREADS], sine[THREADS];
    __shared__ int first[THREADS], second[THREADS];
    const int here = threadIdx.x, threads = blockDim.x;
    double sum = 0.0;
    for (int e = here; e < n * n; e += threads) {
        V[e] = (e / n == e % n) ? 1.0 : 0.0;
        sum += A[e] * A[e];
    }
    __syncthreads();  // the arrays may be in use from a call before
    cosine[here] = sum;
    __syncthreads();
    for (int step = threads / 2; step; step /= 2) {
        if (here < step) cosine[here] += cosine[here + step];
        __syncthreads();
    }
    const double total = cosine[0], scale = 1e-15 * sqrt(total);
    __syncthreads();
    if (!(total - total == 0.0)) return false;

    const int players = n + (n & 1), pairs = players / 2;
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
        int turned = 0;
        for (int round = 0; round < players - 1; ++round) {
            for (int k = here; k < pairs; k += threads) {
                int p = 1 + k - 1 + round, q = 1 + players - 2 - k + round;  // both at most 2·(players − 1)
                p = (k == 0) ? 0 : (p > players - 1 ? p - (players - 1) : p);
                q = q > players - 1 ? q - (players - 1) : q;
                if (p > q) { int swap = p; p = q; q = swap; }
                double c = 1.0, s = 0.0;
                if (q < n) {
                    const double across = A[p * n + q];
                    if (fabs(across) > scale) {
                        const double theta = (A[q * n + q] - A[p * n + p]) / (2.0 * across);
                        const double t = (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
                        c = 1.0 / sqrt(t * t + 1.0);
                        s = t * c;
                        turned = 1;
                    }
                }
                cosine[k] = c; sine[k] = s; first[k] = p; second[k] = q;
            }
            __syncthreads();
            for (int e = here; e < pairs * pairs; e += threads) {
                const int k = e / pairs, l = e - k * pairs;
                const double c = cosine[k], s = sine[k], d = cosine[l], u = sine[l];
                if (s == 0.0 && u == 0.0) continue;
                const int p = first[k] * n, q = second[k] * n, i = first[l], j = second[l];
                const bool low = second[k] < n, right = second[l] < n;  // the bye of an odd n has no second
                const double a = A[p + i], b = right ? A[p + j] : 0.0;
                const double x = low ? A[q + i] : 0.0, y = low && right ? A[q + j] : 0.0;
                const double pi = c * a - s * x, pj = c * b - s * y, qi = s * a + c * x, qj = s * b + c * y;
                A[p + i] = d * pi - u * pj;
                if (right) A[p + j] = (k == l) ? 0.0 : u * pi + d * pj;
                if (low) A[q + i] = (k == l) ? 0.0 : d * qi - u * qj;
                if (low && right) A[q + j] = u * qi + d * qj;
            }
            for (int e = here; e < pairs * n; e += threads) {
                const int i = e / pairs, k = e - i * pairs, p = i * n + first[k], q = i * n + second[k];
                const double c = cosine[k], s = sine[k];
                if (s == 0.0) continue;
                const double x = V[p], y = V[q];
                V[p] = c * x - s * y;
                V[q] = s * x + c * y;
            }
            __syncthreads();
        }
        if (!__syncthreads_or(turned)) break;
    }
    return true;
}

// The place of eigenvalue i, the diagonal of A, in descending order.
__device__ inline int place(const double* A, int n, int i)
{
    const double value = A[i * n + i];
    int rank = 0;
    for (int j = 0; j < n; ++j) {
        const double other = A[j * n + j];
        rank += (other > value || (other == value && j < i)) ? 1 : 0;
    }
    return rank;
}
