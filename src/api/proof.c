/* proof.c - logits of a conversion's source beside those of its result. */
#include "api/proof.h"

#include <math.h>
#include <string.h>

#include "api/run_common.h"
#include "base/alloc.h"
#include "base/half.h"
#include "base/log.h"
#include "infer/decoder.h"

enum { N_TOKENS = 32 };

typedef struct logits {
    float *x; /* [N_TOKENS, n] */
    int64_t n;
} logits;

/* As a file of that dtype would have rounded them. */
static void round_all(float *x, int64_t n, tx_st_dtype to)
{
    if (to == TX_ST_F32) return;
    for (int64_t i = 0; i < n; i++)
        x[i] = to == TX_ST_BF16 ? tx_bf16_to_f32(tx_f32_to_bf16(x[i])) : tx_f16_to_f32(tx_f32_to_f16(x[i]));
}

/* Random, but the same for every model: token k is one of the first tokens of the smaller vocabulary. */
static void draw_tokens(int32_t *token, int64_t vocab_size)
{
    for (int i = 0; i < N_TOKENS; i++) {
        uint64_t r = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
        token[i] = (int32_t)((r >> 33) % (uint64_t)vocab_size);
    }
}

static tx_status keep_row(void *user, int64_t first, int64_t n_rows, const float *row, int64_t stride)
{
    logits *out = user;
    for (int64_t i = 0; i < n_rows; i++)
        memcpy(out->x + (first + i) * out->n, row + i * stride, (size_t)out->n * sizeof *row);
    return TX_OK;
}

static tx_status run_tokens(tx_model *m, int64_t vocab_size, logits *out)
{
    int32_t token[N_TOKENS];
    tx_decoder *d = NULL;
    tx_status st;
    int64_t n = m->max_positions && m->max_positions < N_TOKENS ? m->max_positions : N_TOKENS;
    out->n = m->n_valid;
    draw_tokens(token, vocab_size);
    TX_GOTO(tx_alloc(&out->x, (size_t)(N_TOKENS * out->n), sizeof *out->x, "logits"));
    TX_GOTO(tx_decoder_create(&d, m, NULL, &(tx_decoder_opts){ .backend = "cpu", .n_slots = 1, .max_len = n }));
    TX_GOTO(tx_decoder_append(d, 0, token, n, 0, keep_row, out));
out:
    tx_decoder_destroy(d);
    return st;
}

/* The model that a source has, rounded, and its logits. cfg asks for fp32. */
static tx_status logits_of(tx_source *src, const tx_config *cfg, tx_st_dtype dtype, int64_t vocab_size, logits *out)
{
    tx_model *m;
    void *value;
    TX_TRY(tx__model_load(&m, &value, cfg, src, NULL));
    round_all(value, m->params.numel, dtype);
    tx_status st = run_tokens(m, vocab_size, out);
    m->type->destroy(m);
    tx_free(value);
    return st;
}

static int64_t largest_of(const float *x, int64_t n)
{
    int64_t k = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[k]) k = i;
    return k;
}

/* Rows that only one of them has are padding of the vocabulary. */
static tx_status compare(const logits *a, const logits *b, const char *out)
{
    int64_t n = a->n < b->n ? a->n : b->n, agree = 0;
    double most = 0;
    for (int64_t i = 0; i < N_TOKENS; i++) {
        const float *x = a->x + i * a->n, *y = b->x + i * b->n;
        for (int64_t k = 0; k < n; k++) {
            double d = fabs((double)x[k] - (double)y[k]);
            if (!(d <= most)) most = d; /* NaN, too */
        }
        agree += largest_of(x, n) == largest_of(y, n);
    }
    tx_info("proof: %d tokens through both models: largest difference of logits %.3g, likeliest token the same at %lld "
            "of %d",
            N_TOKENS, most, (long long)agree, N_TOKENS);
    if (most <= 1e-4) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC,
                   "%s: its logits differ from the source's by up to %.3g, more than 1e-4: do not use it", out, most);
}

static tx_status options_of(tx_source *src, const tx_config *cfg, tx_config **out)
{
    char flags[] = "";
    TX_TRY(tx_config_with(out, cfg, flags));
    return tx_source_options(src, *out, false);
}

tx_status tx__prove(tx_source *src, const char *out, const tx_source_type *type, const tx_config *cfg,
                    const tx_conversion *c)
{
    tx_source result = { 0 };
    tx_config *other = NULL;
    logits a = { 0 }, b = { 0 };
    tx_status st;
    TX_GOTO(logits_of(src, cfg, c->dtype, src->vocab_size, &a));
    TX_GOTO(tx_source_open(&result, out, type, &tx_comm_self));
    TX_GOTO(options_of(&result, cfg, &other));
    TX_GOTO(logits_of(&result, other, c->dtype, src->vocab_size, &b));
    st = compare(&a, &b, out);
out:
    tx_free(a.x);
    tx_free(b.x);
    tx_config_free(other);
    tx_source_close(&result);
    return st;
}
