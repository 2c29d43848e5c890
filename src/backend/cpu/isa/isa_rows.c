/* isa_rows.c - what works on whole rows: normalisations and cross-entropy. */
#include "backend/cpu/isa/isa.h"
#include "backend/cpu/isa/vmath.h"

void tx__k(layernorm_fwd)(float *y, float *mu, float *rs, const float *x, const float *gamma, const float *beta,
                          int64_t rows, int64_t h, double eps)
{
    for (int64_t i = 0; i < rows; i++, x += h, y += h) {
        float sum = 0, sq = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < h; j++) sum += x[j];
        float mean = sum / (float)h;
#pragma omp simd reduction(+ : sq)
        for (int64_t j = 0; j < h; j++) sq += (x[j] - mean) * (x[j] - mean);
        float scale = (float)(1.0 / sqrt((double)sq / (double)h + eps));
#pragma omp simd
        for (int64_t j = 0; j < h; j++) y[j] = (x[j] - mean) * scale * gamma[j] + beta[j];
        mu[i] = mean;
        rs[i] = scale;
    }
}

void tx__k(layernorm_bwd)(float *dx, float *dgamma, float *dbeta, const float *dy, const float *x, const float *dres,
                          const float *gamma, const float *mu, const float *rs, int64_t rows, int64_t h)
{
    for (int64_t i = 0; i < rows; i++, dx += h, dy += h, x += h) {
        const float mean = mu[i], scale = rs[i];
        float sum_g = 0, sum_gx = 0;
#pragma omp simd reduction(+ : sum_g, sum_gx)
        for (int64_t j = 0; j < h; j++) {
            float xhat = (x[j] - mean) * scale, g = dy[j] * gamma[j];
            sum_g += g;
            sum_gx += g * xhat;
            dgamma[j] += dy[j] * xhat;
            dbeta[j] += dy[j];
        }
        const float mean_g = sum_g / (float)h, mean_gx = sum_gx / (float)h;
        if (dres) {
#pragma omp simd
            for (int64_t j = 0; j < h; j++)
                dx[j] = dres[j] + scale * (dy[j] * gamma[j] - mean_g - (x[j] - mean) * scale * mean_gx);
            dres += h;
        } else {
#pragma omp simd
            for (int64_t j = 0; j < h; j++)
                dx[j] = scale * (dy[j] * gamma[j] - mean_g - (x[j] - mean) * scale * mean_gx);
        }
    }
}

void tx__k(rmsnorm_fwd)(float *y, float *rs, const float *x, const float *gamma, int64_t rows, int64_t h, double eps)
{
    for (int64_t i = 0; i < rows; i++, x += h, y += h) {
        float sq = 0;
#pragma omp simd reduction(+ : sq)
        for (int64_t j = 0; j < h; j++) sq += x[j] * x[j];
        float scale = (float)(1.0 / sqrt((double)sq / (double)h + eps));
#pragma omp simd
        for (int64_t j = 0; j < h; j++) y[j] = x[j] * scale * gamma[j];
        rs[i] = scale;
    }
}

void tx__k(rmsnorm_bwd)(float *dx, float *dgamma, const float *dy, const float *x, const float *dres,
                        const float *gamma, const float *rs, int64_t rows, int64_t h)
{
    for (int64_t i = 0; i < rows; i++, dx += h, dy += h, x += h) {
        const float scale = rs[i];
        float sum_gx = 0;
#pragma omp simd reduction(+ : sum_gx)
        for (int64_t j = 0; j < h; j++) {
            float xhat = x[j] * scale;
            sum_gx += dy[j] * gamma[j] * xhat;
            dgamma[j] += dy[j] * xhat;
        }
        const float mean_gx = sum_gx / (float)h;
        if (dres) {
#pragma omp simd
            for (int64_t j = 0; j < h; j++) dx[j] = dres[j] + scale * (dy[j] * gamma[j] - x[j] * scale * mean_gx);
            dres += h;
        } else {
#pragma omp simd
            for (int64_t j = 0; j < h; j++) dx[j] = scale * (dy[j] * gamma[j] - x[j] * scale * mean_gx);
        }
    }
}

/* Largest of n; in lanes of its own, because a plain running maximum is not vectorised without -ffast-math. */
static float row_max(const float *z, int64_t n)
{
    float lane[TX__LANES], max = -INFINITY;
    for (int l = 0; l < TX__LANES; l++) lane[l] = -INFINITY;
    int64_t i = 0;
    for (; i + TX__LANES <= n; i += TX__LANES)
#pragma omp simd
        for (int l = 0; l < TX__LANES; l++) lane[l] = z[i + l] > lane[l] ? z[i + l] : lane[l];
    for (; i < n; i++) max = z[i] > max ? z[i] : max;
    for (int l = 0; l < TX__LANES; l++) max = lane[l] > max ? lane[l] : max;
    return max;
}

static double row_sum(const float *z, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += (double)z[j];
    return sum;
}

/* Σ exp(z - max), in fp32 over blocks and fp64 between them; with `keep` the exponentials replace z. */
static double exp_sum(float *z, int64_t n, float max, bool keep)
{
    enum { BLOCK = 2048 };
    double total = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t width = n - first < BLOCK ? n - first : BLOCK;
        float *x = z + first, sum = 0;
        if (keep) {
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < width; j++) {
                float e = tx__expf(x[j] - max);
                x[j] = e;
                sum += e;
            }
        } else {
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < width; j++) sum += tx__expf(x[j] - max);
        }
        total += (double)sum;
    }
    return total;
}

/* `even` is tx_even_smoothing of the label's weight. */
float tx__k(cross_entropy)(float *z, int64_t n_valid, int64_t v, int32_t y, const float *weight, double even)
{
    if (y < 0) {
        if (weight) tx__k(fill)(z, v, 0.0f);
        return 0.0f;
    }
    float max = row_max(z, n_valid), z_y = z[y];
    double mean = even > 0 ? row_sum(z, n_valid) / (double)n_valid : 0; /* before z is overwritten */
    double sum = exp_sum(z, n_valid, max, weight != NULL);
    if (weight) {
        const float scale = (float)((double)*weight / sum), each = (float)((double)*weight * even / (double)n_valid);
#pragma omp simd
        for (int64_t j = 0; j < n_valid; j++) z[j] = scale * z[j] - each;
        z[y] -= (float)((double)*weight * (1 - even));
        tx__k(fill)(z + n_valid, v - n_valid, 0.0f);
    }
    return (float)(log(sum) + (double)max - (1 - even) * (double)z_y - even * mean);
}
