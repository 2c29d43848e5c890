/* proof.c - logits of a conversion's source beside those of its result. A model that goes on with text reads a row of
 * tokens as generation does. A BERT reads samples of two segments, all but the first of which are padded, as in an
 * evaluation: logits of every token there is, and of the binary head. */
#include "api/proof.h"

#include <math.h>
#include <string.h>

#include "api/run_common.h"
#include "base/alloc.h"
#include "base/half.h"
#include "base/log.h"
#include "data/bert_dataset.h"
#include "infer/decoder.h"
#include "train/stage.h"

enum { N_TOKENS = 32, N_SAMPLES = 4 };

typedef struct logits {
    float *x; /* [n_rows, n] */
    int64_t n_rows, n;
    float *pair; /* [n_pairs, 2] of the binary head */
    int64_t n_pairs;
} logits;

/* As a file of that dtype would have rounded them. */
static void round_all(float *x, int64_t n, tx_st_dtype to)
{
    if (to == TX_ST_F32) return;
    for (int64_t i = 0; i < n; i++)
        x[i] = to == TX_ST_BF16 ? tx_bf16_to_f32(tx_f32_to_bf16(x[i])) : tx_f16_to_f32(tx_f32_to_f16(x[i]));
}

/* Random, but the same for every model: token k is one of the first tokens of the smaller vocabulary. */
static int32_t token_of(int64_t k, int64_t vocab_size)
{
    return (int32_t)((((uint64_t)(k + 1) * 0x9e3779b97f4a7c15u) >> 33) % (uint64_t)vocab_size);
}

static int64_t length_of(const tx_model *m)
{
    return m->max_positions && m->max_positions < N_TOKENS ? m->max_positions : N_TOKENS;
}

static tx_status take_rows(logits *out, int64_t n_rows, int64_t n)
{
    out->n_rows = n_rows;
    out->n = n;
    return tx_alloc(&out->x, (size_t)(n_rows * n), sizeof *out->x, "logits");
}

/* ---- a row of tokens ---- */

static tx_status keep_rows(void *user, int64_t first, int64_t n_rows, const float *row, int64_t stride)
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
    int64_t n = length_of(m);
    for (int64_t k = 0; k < n; k++) token[k] = token_of(k, vocab_size);
    TX_GOTO(take_rows(out, n, m->n_valid));
    TX_GOTO(tx_decoder_create(&d, m, NULL, &(tx_decoder_opts){ .backend = "cpu", .n_slots = 1, .max_len = n }));
    TX_GOTO(tx_decoder_append(d, 0, token, n, &(tx_logits_wanted){ 0, keep_rows, out }));
out:
    tx_decoder_destroy(d);
    return st;
}

/* ---- samples of a BERT ---- */

typedef struct samples {
    tx_ctx ctx;
    tx_model *m;
    tx_config cfg; /* owns nothing */
    tx_stage stage;
    int64_t vocab_size;
    logits *out;
} samples;

/* Tokens of sample j, the second segment of which begins in the middle. */
static int64_t tokens_of(int64_t s, int64_t j)
{
    int64_t n = s - j * s / (N_SAMPLES + 1);
    return n < 1 ? 1 : n;
}

static tx_status fill_samples(void *user, int64_t micro, tx_batch *batch)
{
    samples *k = user;
    int64_t s = k->cfg.seq_length, len = tx_bert_row_len(s);
    const tx_batch_rule rule = { .eod = -1, .scale = 1 };
    int32_t row[N_SAMPLES * (3 * N_TOKENS + 2)] = { 0 };
    (void)micro; /* there is one */
    for (int64_t j = 0; j < N_SAMPLES; j++) {
        tx_bert_ids ids = tx_bert_ids_of(row + j * len, s);
        int64_t n = tokens_of(s, j);
        for (int64_t i = 0; i < s; i++) ids.labels[i] = -1;
        for (int64_t i = 0; i < n; i++) ids.tokens[i] = token_of(j * s + i, k->vocab_size);
        for (int64_t i = n / 2; i < n && k->m->n_losses > 1; i++) ids.types[i] = 1;
        *ids.n_tokens = (int32_t)n;
    }
    return k->m->type->collate(k->m, batch, row, &rule);
}

/* Rows of y, [s, b]: of the tokens that there are, one sample behind the other. */
static void keep_samples(const samples *k, const float *x, int64_t stride)
{
    int64_t s = k->cfg.seq_length, at = 0;
    logits *out = k->out;
    for (int64_t j = 0; j < N_SAMPLES; j++)
        for (int64_t i = 0, n = tokens_of(s, j); i < n; i++)
            memcpy(out->x + at++ * out->n, x + (i * N_SAMPLES + j) * stride, (size_t)out->n * sizeof *x);
}

/* A tx_feed.look. What fwd has left is gone with the first push: y goes to the scratch. */
static tx_status read_samples(void *user, int64_t micro, const tx_batch *batch, const tx_batch *host)
{
    samples *k = user;
    tx_ctx *c = &k->ctx;
    tx_model *m = k->m;
    tx_tensor from = tx_as_rows(batch->y);
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor y = tx_push2(&c->scratch, from.dtype, from.dim[0], from.dim[1]);
    tx_tensor words = tx_push2(&c->scratch, TX_F32, from.dim[0], m->vocab_padded);
    tx_tensor pair = tx_push2(&c->scratch, TX_F32, N_SAMPLES, 2);
    (void)micro, (void)host;
    TX_RUN(c, copy, .y = y, .x = from);
    TX_TRY(m->type->logits(c, m, words, y));
    if (k->out->n_pairs) TX_TRY(m->type->pair_logits(c, m, pair, tx_slice_rows(y, 0, N_SAMPLES)));
    tx_arena_pop(&c->scratch, mark);
    if (c->dry) return TX_OK;
    keep_samples(k, words.data, m->vocab_padded);
    if (k->out->n_pairs) memcpy(k->out->pair, pair.data, N_SAMPLES * 2 * sizeof(float));
    return TX_OK;
}

static tx_status run_samples(tx_model *m, const tx_config *cfg, int64_t vocab_size, logits *out)
{
    samples k = { .m = m, .cfg = *cfg, .vocab_size = vocab_size, .out = out };
    const tx_feed dry = { .look = read_samples, .user = &k };
    const tx_feed feed = { .fill = fill_samples, .look = read_samples, .user = &k };
    int64_t s = length_of(m), n = 0;
    tx_status st;
    k.cfg.seq_length = s;
    k.cfg.micro_batch_size = N_SAMPLES;
    for (int64_t j = 0; j < N_SAMPLES; j++) n += tokens_of(s, j);
    out->n_pairs = tx_model_n_scored(m) > 1 ? N_SAMPLES : 0;
    TX_GOTO(take_rows(out, n, m->n_valid));
    TX_GOTO(tx_alloc(&out->pair, (size_t)out->n_pairs * 2, sizeof *out->pair, "logits"));
    TX_GOTO(tx_ctx_init(&k.ctx, "cpu", 0));
    TX_GOTO(tx_stage_open(&k.stage, &k.ctx, m, &k.cfg, 1, false));
    tx_stage_begin(&k.stage, &dry);
    TX_GOTO(tx_stage_run(&k.stage, 1, false));
    TX_GOTO(tx_stage_take(&k.stage));
    tx_stage_begin(&k.stage, &feed);
    TX_GOTO(tx_stage_run(&k.stage, 1, false));
    st = tx_stage_end(&k.stage);
out:
    tx_stage_close(&k.stage);
    tx_ctx_deinit(&k.ctx);
    return st;
}

/* ---- both models ---- */

/* The model that a source has, rounded, and its logits. cfg asks for fp32. */
static tx_status logits_of(tx_source *src, const tx_config *cfg, tx_st_dtype dtype, int64_t vocab_size, logits *out)
{
    tx_model *m;
    void *value;
    TX_TRY(tx__model_load(&m, &value, cfg, src, NULL));
    round_all(value, m->params.numel, dtype);
    tx_status st = m->type->decode ? run_tokens(m, vocab_size, out) : run_samples(m, cfg, vocab_size, out);
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

/* Of n numbers, and what was before; NaN stays. */
static double most_different(double most, const float *x, const float *y, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        double d = fabs((double)x[k] - (double)y[k]);
        if (!(d <= most) && !isnan(most)) most = d;
    }
    return most;
}

/* What of them is known to be another model. */
static const char *reason_of(const tx_config *source, const tx_config *result)
{
    if (!tx_model_type_of(source)->samples->masked || !source->bias_gelu_fusion || source->openai_gelu ||
        !result->openai_gelu)
        return ": do not use it";
    return ". This is what Megatron's default does to a BERT: its layers have the tanh form of GELU, its masked-LM "
           "head "
           "the erf form, and Hugging Face has one hidden_act for both, gelu_new here. --no-proof accepts that";
}

/* Columns that only one of them has are padding of the vocabulary. */
static tx_status compare(const logits *a, const logits *b, const char *out, const char *reason)
{
    int64_t n = a->n < b->n ? a->n : b->n, agree = 0;
    double most = 0, pairs = 0;
    for (int64_t i = 0; i < a->n_rows; i++) {
        const float *x = a->x + i * a->n, *y = b->x + i * b->n;
        most = most_different(most, x, y, n);
        agree += largest_of(x, n) == largest_of(y, n);
    }
    tx_info("proof: %lld tokens through both models: largest difference of logits %.3g, likeliest token the same at "
            "%lld of %lld",
            (long long)a->n_rows, most, (long long)agree, (long long)a->n_rows);
    if (a->n_pairs) {
        pairs = most_different(0, a->pair, b->pair, 2 * a->n_pairs);
        tx_info("proof: %lld samples through both models: largest difference of the binary head's logits %.3g",
                (long long)a->n_pairs, pairs);
    }
    if (most <= 1e-4 && pairs <= 1e-4) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC, "%s: its logits differ from the source's by up to %.3g, more than 1e-4%s", out,
                   isnan(pairs) || pairs > most ? pairs : most, reason);
}

static tx_status options_of(tx_source *src, const tx_config *cfg, tx_config **out)
{
    char flags[] = "";
    TX_TRY(tx_config_with(out, cfg, flags));
    return tx_source_options(src, *out, false);
}

static void free_logits(logits *l)
{
    tx_free(l->x);
    tx_free(l->pair);
}

tx_status tx__prove(tx_source *src, const char *out, const tx_source_type *type, const tx_config *cfg,
                    const tx_conversion *c)
{
    tx_source result = { 0 };
    tx_config *other = NULL;
    logits a = { 0 }, b = { 0 };
    tx_status st;
    TX_GOTO(logits_of(src, cfg, c->dtype, src->vocab_size, &a));
    TX_GOTO(tx_source_open_with(&result, cfg, out, type, &tx_comm_self));
    TX_GOTO(options_of(&result, cfg, &other));
    if (!result.has_adapters) other->lora_rank = 0; /* they are merged */
    TX_GOTO(logits_of(&result, other, c->dtype, src->vocab_size, &b));
    st = compare(&a, &b, out, reason_of(cfg, other));
out:
    free_logits(&a);
    free_logits(&b);
    tx_config_free(other);
    tx_source_close(&result);
    return st;
}
