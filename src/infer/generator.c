/* generator.c - prompts in, tokens out. */
#include "infer/generator.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

/* Runs n new positions through the model; logits of the last one are in g->logits. */
static tx_status decode(tx_generator *g, int64_t n)
{
    int64_t past = g->kv[0].n_past;
    for (int64_t i = 0; i < n && !g->ctx.dry; i++)
        for (int64_t j = 0; j < g->b; j++) g->position[i * g->b + j] = (int32_t)(past + i);
    return g->model->type->decode(&g->ctx, g->model,
                                  &(tx_decode){
                                      .token = tx_tensor2(g->token, TX_I32, n, g->b),
                                      .position = tx_tensor2(g->position, TX_I32, n, g->b),
                                      .logits = tx_tensor2(g->logits, TX_F32, g->b, g->model->vocab_padded),
                                      .kv = g->kv,
                                  });
}

static void rewind_cache(tx_generator *g, int64_t n_past)
{
    for (int64_t i = 0; i < g->model->n_layers; i++) g->kv[i].n_past = n_past;
}

static tx_tensor cache_tensor(void *data, const tx_model *m, int64_t max_len, int64_t b)
{
    int64_t n = m->n_groups, d = m->head_dim;
    return (tx_tensor){
        .data = data, .dtype = m->dtype, .n_dims = 4, .dim = { max_len, b, n, d }, .stride = { b * n * d, n * d, d, 1 }
    };
}

tx_status tx_generator_create(tx_generator **out, tx_model *model, const char *backend, int n_threads, int64_t b,
                              int64_t max_prompt, int64_t max_len)
{
    if (max_len > model->max_positions)
        return TX_FAIL(TX_ERR_ARG,
                       "prompt and new tokens together are %lld, the model has %lld positions: shorten one of them",
                       (long long)max_len, (long long)model->max_positions);
    tx_generator *g;
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "the generator"));
    tx_status st;
    g->model = model;
    g->b = b;
    g->max_len = max_len;
    size_t cells = (size_t)(max_len * b), size = tx_dtype_size(model->dtype);
    TX_GOTO(tx_ctx_init(&g->ctx, backend, n_threads));
    TX_GOTO(tx_alloc(&g->kv, (size_t)model->n_layers, sizeof *g->kv, "the key-value cache"));
    for (int64_t i = 0; i < model->n_layers; i++) {
        void *k, *v;
        TX_GOTO(tx_alloc(&k, cells * (size_t)(model->n_groups * model->head_dim), size, "the key-value cache"));
        g->kv[i].k = cache_tensor(k, model, max_len, b);
        TX_GOTO(tx_alloc(&v, cells * (size_t)(model->n_groups * model->head_dim), size, "the key-value cache"));
        g->kv[i].v = cache_tensor(v, model, max_len, b);
    }
    TX_GOTO(tx_alloc(&g->token, cells, sizeof *g->token, "the generator"));
    TX_GOTO(tx_alloc(&g->position, cells, sizeof *g->position, "the generator"));
    TX_GOTO(tx_alloc(&g->logits, (size_t)(b * model->vocab_padded), sizeof *g->logits, "the logits"));
    TX_GOTO(tx_alloc(&g->prob, (size_t)model->vocab_padded, sizeof *g->prob, "the sampler"));
    TX_GOTO(tx_alloc(&g->work, (size_t)model->vocab_padded, sizeof *g->work, "the sampler"));
    /* the two calls there will be, dry: the longest prompt, and one token after the longest past */
    TX_GOTO(decode(g, max_prompt));
    rewind_cache(g, max_len - 1);
    TX_GOTO(decode(g, 1));
    TX_GOTO(tx_ctx_take_memory(&g->ctx));
    *out = g;
out:
    if (st) tx_generator_destroy(g);
    return st;
}

void tx_generator_destroy(tx_generator *g)
{
    if (!g) return;
    for (int64_t i = 0; g->kv && i < g->model->n_layers; i++) {
        tx_free(g->kv[i].k.data);
        tx_free(g->kv[i].v.data);
    }
    tx_ctx_deinit(&g->ctx);
    tx_free(g->kv);
    tx_free(g->token);
    tx_free(g->position);
    tx_free(g->logits);
    tx_free(g->prob);
    tx_free(g->work);
    tx_free(g);
}

static tx_status read_prompt(tx_generator *g, const int32_t *prompt, int64_t n)
{
    if (n < 1) return TX_FAIL(TX_ERR_ARG, "a prompt needs at least one token");
    for (int64_t i = 0; i < n; i++) {
        if (prompt[i] < 0 || prompt[i] >= g->model->vocab_size)
            return TX_FAIL(TX_ERR_ARG, "the prompt holds token %d, the model has %lld", prompt[i],
                           (long long)g->model->vocab_size);
        for (int64_t j = 0; j < g->b; j++) g->token[i * g->b + j] = prompt[i];
    }
    rewind_cache(g, 0);
    return decode(g, n);
}

tx_status tx_generator_logits(tx_generator *g, const int32_t *prompt, int64_t n_prompt, float *logits)
{
    TX_TRY(read_prompt(g, prompt, n_prompt));
    memcpy(logits, g->logits, (size_t)g->model->vocab_size * sizeof *logits);
    return TX_OK;
}

tx_status tx_generator_run(tx_generator *g, const int32_t *prompt, int64_t n_prompt, int64_t n_new, int32_t eod,
                           const tx_sampler *sampler, uint64_t seed, uint64_t first_sample, int32_t *out,
                           int64_t *n_out)
{
    TX_ASSERT(n_prompt + n_new <= g->max_len);
    TX_TRY(read_prompt(g, prompt, n_prompt));
    int64_t n_live = g->b;
    for (int64_t j = 0; j < g->b; j++) n_out[j] = -1; /* still running */
    for (int64_t i = 0; i < n_new && n_live; i++) {
        for (int64_t j = 0; j < g->b; j++) {
            if (n_out[j] >= 0) {
                g->token[j] = 0; /* an ended sample idles along */
                continue;
            }
            tx_rng rng = { .seed = seed,
                           .stream = tx_rng_stream("generate"),
                           .step = (uint32_t)(first_sample + (uint64_t)j) };
            int32_t id = tx_sample_token(sampler, g->logits + j * g->model->vocab_padded, g->model->vocab_size,
                                         tx_rng_uniform(&rng, (uint64_t)i), g->prob, g->work);
            g->token[j] = id;
            out[j * n_new + i] = id;
            if (id == eod) {
                n_out[j] = i;
                n_live--;
            }
        }
        if (i + 1 < n_new && n_live) TX_TRY(decode(g, 1));
    }
    for (int64_t j = 0; j < g->b; j++)
        if (n_out[j] < 0) n_out[j] = n_new;
    return TX_OK;
}
