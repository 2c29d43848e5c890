/* char_lm_plain.c - trains the character transformer with kernels, a loop, memory and an optimizer of its own.
 *
 *      cc char_lm_plain.c char_lm_model.c -lm -o char_lm_plain && ./char_lm_plain --steps 200
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "char_lm_model.h"

enum { BATCH = 16, ROWS = BATCH * LENGTH, MOST = N_BLOCK };

static float *numbers(int64_t n)
{
    float *x = calloc((size_t)n, sizeof *x);
    if (!x) exit((fprintf(stderr, "char_lm_plain: no memory\n"), 1));
    return x;
}

/* ---- kernels: rows of n numbers ---- */

/* y = x wᵀ + b, w [n, k]; b may be NULL */
static void linear_fwd(float *y, const float *x, const float *w, const float *b, int n, int k)
{
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < n; j++) {
            float sum = b ? b[j] : 0;
            for (int i = 0; i < k; i++) sum += x[r * k + i] * w[j * k + i];
            y[r * n + j] = sum;
        }
}

/* dx is written, dw and db are added to */
static void linear_bwd(float *dx, float *dw, float *db, const float *dy, const float *x, const float *w, int n, int k)
{
    memset(dx, 0, (size_t)(ROWS * k) * sizeof *dx);
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < n; j++) {
            float d = dy[r * n + j];
            if (db) db[j] += d;
            for (int i = 0; i < k; i++) {
                dx[r * k + i] += d * w[j * k + i];
                dw[j * k + i] += d * x[r * k + i];
            }
        }
}

/* @mean, rs [ROWS], for backward */
static void norm_fwd(float *y, float *mean, float *rs, const float *x, const float *w, const float *b)
{
    for (int r = 0; r < ROWS; r++) {
        const float *at = x + r * HIDDEN;
        double sum = 0, squares = 0;
        for (int i = 0; i < HIDDEN; i++) sum += at[i];
        sum /= HIDDEN;
        for (int i = 0; i < HIDDEN; i++) squares += (at[i] - sum) * (at[i] - sum);
        mean[r] = (float)sum;
        rs[r] = (float)(1 / sqrt(squares / HIDDEN + EPSILON));
        for (int i = 0; i < HIDDEN; i++) y[r * HIDDEN + i] = (at[i] - mean[r]) * rs[r] * w[i] + b[i];
    }
}

/* dx is added to: the residual's gradient is there already */
static void norm_bwd(float *dx, float *dw, float *db, const float *dy, const float *x, const float *w,
                     const float *mean, const float *rs)
{
    for (int r = 0; r < ROWS; r++) {
        float hat[HIDDEN], sum = 0, product = 0;
        for (int i = 0; i < HIDDEN; i++) {
            float d = dy[r * HIDDEN + i];
            hat[i] = (x[r * HIDDEN + i] - mean[r]) * rs[r];
            dw[i] += d * hat[i];
            db[i] += d;
            sum += d * w[i] / HIDDEN;
            product += d * w[i] * hat[i] / HIDDEN;
        }
        for (int i = 0; i < HIDDEN; i++)
            dx[r * HIDDEN + i] += rs[r] * (dy[r * HIDDEN + i] * w[i] - sum - hat[i] * product);
    }
}

static const float root = 0.7978845608f; /* sqrt(2 / pi) */

static void gelu_fwd(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1 + tanhf(root * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

/* in place */
static void gelu_bwd(float *d, const float *x, int n)
{
    for (int i = 0; i < n; i++) {
        float t = tanhf(root * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
        d[i] *= 0.5f * (1 + t) + 0.5f * x[i] * (1 - t * t) * root * (1 + 3 * 0.044715f * x[i] * x[i]);
    }
}

/* z becomes the gradient of the mean loss, which is given. */
static double loss_and_gradient(float *z, const int32_t *next)
{
    double mean = 0;
    for (int r = 0; r < ROWS; r++) {
        float *at = z + r * VOCAB, most = -INFINITY, sum = 0;
        for (int i = 0; i < VOCAB; i++) most = fmaxf(most, at[i]);
        for (int i = 0; i < VOCAB; i++) sum += expf(at[i] - most);
        mean += (log(sum) + most - at[next[r]]) / ROWS;
        for (int i = 0; i < VOCAB; i++) at[i] = (expf(at[i] - most) / sum - (i == next[r])) / ROWS;
    }
    return mean;
}

/* ---- layers ---- */

static float *weight[N_LAYERS][MOST], *grad[N_LAYERS][MOST], *m[N_LAYERS][MOST], *v[N_LAYERS][MOST];

static struct {
    float *x, *norm1, *mean1, *rs1, *qkv, *p, *o, *x1, *norm2, *mean2, *rs2, *up, *gelu, *y;
} of[BLOCKS];
static float *embedded, *norm, *mean, *rs, *z; /* of embedding and head */
static float *d, *d_branch, *d_wide, *d_norm;  /* gradients: of the stream, and inside a branch */

static void add(float *y, const float *a, const float *b)
{
    for (int i = 0; i < ROWS * HIDDEN; i++) y[i] = a[i] + b[i];
}

/* x1 = x + out(attention(qkv(norm1 x))),  y = x1 + down(gelu(up(norm2 x1))) */
static void block_fwd(int l, float *x)
{
    float **w = weight[l + 1];
    of[l].x = x;
    norm_fwd(of[l].norm1, of[l].mean1, of[l].rs1, x, w[LN1_W], w[LN1_B]);
    linear_fwd(of[l].qkv, of[l].norm1, w[QKV_W], w[QKV_B], 3 * HIDDEN, HIDDEN);
    char_lm_attention_fwd(of[l].o, of[l].p, of[l].qkv, BATCH);
    linear_fwd(of[l].x1, of[l].o, w[OUT_W], w[OUT_B], HIDDEN, HIDDEN);
    add(of[l].x1, of[l].x1, x);
    norm_fwd(of[l].norm2, of[l].mean2, of[l].rs2, of[l].x1, w[LN2_W], w[LN2_B]);
    linear_fwd(of[l].up, of[l].norm2, w[UP_W], w[UP_B], INNER, HIDDEN);
    gelu_fwd(of[l].gelu, of[l].up, ROWS * INNER);
    linear_fwd(of[l].y, of[l].gelu, w[DOWN_W], w[DOWN_B], HIDDEN, INNER);
    add(of[l].y, of[l].y, of[l].x1);
}

/* d, the gradient of y, becomes that of x. */
static void block_bwd(int l)
{
    float **w = weight[l + 1], **g = grad[l + 1];
    linear_bwd(d_wide, g[DOWN_W], g[DOWN_B], d, of[l].gelu, w[DOWN_W], HIDDEN, INNER);
    gelu_bwd(d_wide, of[l].up, ROWS * INNER);
    linear_bwd(d_norm, g[UP_W], g[UP_B], d_wide, of[l].norm2, w[UP_W], INNER, HIDDEN);
    norm_bwd(d, g[LN2_W], g[LN2_B], d_norm, of[l].x1, w[LN2_W], of[l].mean2, of[l].rs2);
    linear_bwd(d_branch, g[OUT_W], g[OUT_B], d, of[l].o, w[OUT_W], HIDDEN, HIDDEN);
    char_lm_attention_bwd(d_wide, d_branch, of[l].p, of[l].qkv, BATCH);
    linear_bwd(d_norm, g[QKV_W], g[QKV_B], d_wide, of[l].norm1, w[QKV_W], 3 * HIDDEN, HIDDEN);
    norm_bwd(d, g[LN1_W], g[LN1_B], d_norm, of[l].x, w[LN1_W], of[l].mean1, of[l].rs1);
}

static double forward_backward(const int32_t *token, const int32_t *next)
{
    float **w = weight[N_LAYERS - 1], **g = grad[N_LAYERS - 1], *x = embedded;
    for (int i = 0; i < ROWS * HIDDEN; i++)
        x[i] = weight[0][WORD][token[i / HIDDEN] * HIDDEN + i % HIDDEN] + weight[0][POSITION][i % (LENGTH * HIDDEN)];
    for (int l = 0; l < BLOCKS; x = of[l++].y) block_fwd(l, x);
    norm_fwd(norm, mean, rs, x, w[LN_W], w[LN_B]);
    linear_fwd(z, norm, w[LOGIT_W], NULL, VOCAB, HIDDEN);
    double loss = loss_and_gradient(z, next);

    memset(d, 0, ROWS * HIDDEN * sizeof *d);
    linear_bwd(d_norm, g[LOGIT_W], NULL, z, norm, w[LOGIT_W], VOCAB, HIDDEN);
    norm_bwd(d, g[LN_W], g[LN_B], d_norm, x, w[LN_W], mean, rs);
    for (int l = BLOCKS - 1; l >= 0; l--) block_bwd(l);
    for (int i = 0; i < ROWS * HIDDEN; i++) {
        grad[0][WORD][token[i / HIDDEN] * HIDDEN + i % HIDDEN] += d[i];
        grad[0][POSITION][i % (LENGTH * HIDDEN)] += d[i];
    }
    return loss;
}

/* ---- the run ---- */

static int64_t numel(const char_lm_param *p)
{
    return p->dim[0] * (p->dim[1] ? p->dim[1] : 1);
}

static void initialize(void)
{
    for (int l = 0; l < N_LAYERS; l++)
        for (int p = 0; p < char_lm_layers[l].n_params; p++) {
            const char_lm_param *param = &char_lm_layers[l].param[p];
            int64_t n = numel(param);
            char name[128];
            snprintf(name, sizeof name, "%s.%s", char_lm_layers[l].name, param->name);
            weight[l][p] = numbers(n), grad[l][p] = numbers(n), m[l][p] = numbers(n), v[l][p] = numbers(n);
            char_lm_initial(NULL, name, 0, n, weight[l][p]);
        }
    for (int l = 0; l < BLOCKS; l++) {
        float **narrow[] = { &of[l].norm1, &of[l].o, &of[l].x1, &of[l].norm2, &of[l].y };
        float **row[] = { &of[l].mean1, &of[l].rs1, &of[l].mean2, &of[l].rs2 };
        for (int i = 0; i < 5; i++) *narrow[i] = numbers(ROWS * HIDDEN);
        for (int i = 0; i < 4; i++) *row[i] = numbers(ROWS);
        of[l].qkv = numbers(3 * ROWS * HIDDEN), of[l].p = numbers(HEADS * ROWS * LENGTH);
        of[l].up = numbers(ROWS * INNER), of[l].gelu = numbers(ROWS * INNER);
    }
    embedded = numbers(ROWS * HIDDEN), norm = numbers(ROWS * HIDDEN), z = numbers(ROWS * VOCAB);
    mean = numbers(ROWS), rs = numbers(ROWS);
    d = numbers(ROWS * HIDDEN), d_branch = numbers(ROWS * HIDDEN), d_norm = numbers(ROWS * HIDDEN);
    d_wide = numbers(ROWS * INNER);
}

/* Adam; gradients are 0 then. */
static void update(int step, double lr)
{
    double correct_m = 1 - pow(0.9, step), correct_v = 1 - pow(0.999, step);
    for (int l = 0; l < N_LAYERS; l++)
        for (int p = 0; p < char_lm_layers[l].n_params; p++)
            for (int64_t i = 0; i < numel(&char_lm_layers[l].param[p]); i++) {
                double g = grad[l][p][i];
                float *mi = &m[l][p][i], *vi = &v[l][p][i];
                *mi = (float)(0.9 * *mi + 0.1 * g);
                *vi = (float)(0.999 * *vi + 0.001 * g * g);
                weight[l][p][i] -= (float)(lr * (*mi / correct_m) / (sqrt(*vi / correct_v) + 1e-8));
                grad[l][p][i] = 0;
            }
}

int main(int argc, char **argv)
{
    static int32_t token[ROWS], next[ROWS];
    int steps = argc == 3 && !strcmp(argv[1], "--steps") ? atoi(argv[2]) : 200;

    initialize();
    for (int step = 1; step <= steps; step++) {
        for (int j = 0; j < BATCH; j++)
            char_lm_sample((int64_t)(step - 1) * BATCH + j, token + j * LENGTH, next + j * LENGTH);
        double loss = forward_backward(token, next);
        update(step, 3e-3);
        printf("step %4d  loss %.9g\n", step, loss);
    }
    return 0; /* which gives back the memory */
}
