/* layout_fixture.h - a model that lies on the ranks of a layout, its numbers a function of name and global place, so
 * that any rank of any layout knows what it has to have. Ranks are threads, where cmocka cannot fail: rank functions
 * return a status. */
#ifndef TX_TESTS_LAYOUT_FIXTURE_H
#define TX_TESTS_LAYOUT_FIXTURE_H

#include "support.h"

#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "parts.h"

enum { N_LAYERS = 5, H = 16, VOCAB = 509, N_BUFFERS = 3, MAX_RANKS = 8 };

/* Ranks along the axes, tensor fastest; rows of the vocabulary's table. */
typedef struct layout {
    int tp, pp, dp;
    int64_t vocab_rows;
    int n_layers; /* of the model; 0: N_LAYERS */
} layout;

static inline int n_ranks(const layout *l)
{
    return l->tp * l->pp * l->dp;
}

/* One rank's part of the model. */
typedef struct shard {
    tx_params ps;
    float *buf[N_BUFFERS]; /* value, exp_avg, exp_avg_sq */
} shard;

/* clang-format off */
static const tx_param_decl first_rows[] = {
    { "word.weight",       "V/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "position.weight",   "P,h",   TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
};
static const tx_param_decl layer_rows[] = {
    { "norm.weight",       "h+",     TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "qkv.weight",        "q/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "qkv.bias",          "q/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "dense.weight",      "h,a/t", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "dense.bias",        "h",     TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "gated.weight",      "u/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "gated.bias",        "u/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "down.weight",       "h,f/t", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
};
static const tx_param_decl last_rows[] = {
    { "final_norm.weight", "h+",     TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, 0, 0 },
};
/* clang-format on */

/* The first stages have a layer more where they do not divide. The last stage has a copy of the first's table. */
static inline tx_status shard_create(shard *s, const layout *l, int rank)
{
    int layers = l->n_layers ? l->n_layers : N_LAYERS, stage = rank / l->tp % l->pp;
    int each = layers / l->pp, more = layers % l->pp, first = stage * each + (stage < more ? stage : more);
    tx_dims d = { .h = H,
                  .f = 12,
                  .V = l->vocab_rows,
                  .v_logical = VOCAB,
                  .P = 4,
                  .q = 24,
                  .a = 16,
                  .u = 24,
                  .u_parts = 2,
                  .n_tp = l->tp,
                  .tp_rank = rank % l->tp };
    memset(s, 0, sizeof *s);
    if (stage == 0) TX_TRY(tx_params_declare(&s->ps, "", first_rows, 2, NULL, &d));
    for (int i = first; i < first + each + (stage < more); i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "layers.%d.", i);
        TX_TRY(tx_params_declare(&s->ps, prefix, layer_rows, 8, NULL, &d));
    }
    if (stage == l->pp - 1) {
        TX_TRY(tx_params_declare(&s->ps, "", last_rows, 1, NULL, &d));
        d.copy = true;
        if (stage) TX_TRY(tx_params_declare(&s->ps, "", first_rows, 1, NULL, &d));
    }
    for (int g = 0; g < N_BUFFERS; g++) {
        TX_TRY(tx_alloc(&s->buf[g], (size_t)s->ps.numel, sizeof(float), "test"));
        for (int64_t i = 0; i < s->ps.numel; i++) s->buf[g][i] = (float)NAN;
    }
    return TX_OK;
}

static inline void shard_destroy(shard *s)
{
    for (int g = 0; g < N_BUFFERS; g++) tx_free(s->buf[g]);
    tx_params_deinit(&s->ps);
}

/* Element i of a whole parameter in buffer g. */
static inline float number_at(const tx_param *p, int g, int64_t i)
{
    uint32_t w[4];
    tx_rng rng = { .seed = (uint64_t)g, .stream = tx_rng_stream(p->name) };
    tx_rng_u32x4(&rng, (uint64_t)i, w);
    return (float)(int32_t)w[0] / 65536;
}

/* Where row r, column k of the shard lies in the whole, by the definition of the split: blocks, and each of them in
 * n_tp parts. -1: a row that pads the vocabulary. */
static inline int64_t place_of(const tx_param *p, int64_t r, int64_t k)
{
    int64_t at[2] = { r, k }, width = p->n_dims == 2 ? p->whole[1] : 1;
    if (p->split_dim >= 0) {
        int64_t *x = &at[p->split_dim], part = p->dim[p->split_dim] / p->n_parts;
        *x = *x / part * part * p->n_tp + p->tp_rank * part + *x % part;
    }
    return at[0] < p->whole_logical ? at[0] * width + at[1] : -1;
}

/* Fills the shard with the model's numbers, or compares it with them; padding is 0 when compared, and NaN before. */
static inline tx_status for_each_number(shard *s, bool fill)
{
    for (int g = 0; g < N_BUFFERS; g++)
        for (int n = 0; n < s->ps.n; n++) {
            const tx_param *p = &s->ps.param[n];
            int64_t width = p->n_dims == 2 ? p->dim[1] : 1;
            for (int64_t i = 0; i < p->numel; i++) {
                int64_t at = place_of(p, i / width, i % width);
                float *x = &s->buf[g][p->offset + i], expect = at < 0 ? 0 : number_at(p, g, at);
                if (fill && at >= 0) *x = expect;
                if (!fill && memcmp(x, &expect, sizeof expect))
                    return TX_FAIL(TX_ERR_NUMERIC, "%s, buffer %d, element %lld of shard %d: %g, not %g", p->name, g,
                                   (long long)i, p->tp_rank, (double)*x, (double)expect);
            }
        }
    return TX_OK;
}

static inline tx_status shard_save(const shard *s, const char *dir, int64_t iteration, tx_comm *group)
{
    tx_ckpt_state state = { .iteration = iteration, .vocab_size = VOCAB, .seed = 7 };
    json_t *config = json_pack("{s:i}", "num_layers", N_LAYERS);
    tx_status st = tx_checkpoint_save(&(tx_ckpt_save_args){ dir, &state, config, &s->ps, NULL, ALL_PARTS(*s), group });
    json_decref(config);
    return st;
}

/* What each rank came to. */
typedef struct outcome {
    tx_status st;
    char message[1024];
} outcome;

static inline void note_outcome(outcome *o, tx_status st)
{
    o->st = st;
    snprintf(o->message, sizeof o->message, "%s", st ? tx_last_error() : "");
}

#endif
