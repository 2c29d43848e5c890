/* checkpoint_fixture.h - what the checkpoint tests share: a small model with numbers in it. */
#ifndef TX_TESTS_CHECKPOINT_FIXTURE_H
#define TX_TESTS_CHECKPOINT_FIXTURE_H

#include "support.h"

#include "checkpoint/checkpoint.h"
#include "nn/param.h"
#include "parts.h"

/* A model of three parameters (one with padding rows) per layer and its three flat buffers. */
typedef struct model {
    struct {
        tx_weight table, matrix, bias;
    } layer[4];
    tx_params ps;
    float *buf[3]; /* value, exp_avg, exp_avg_sq */
} model;

/* Fills the buffers with numbers that depend on `salt`; what pads is NaN, so that a test sees it move. salt < 0: all
 * NaN. */
static inline void model_fill(model *m, int salt)
{
    for (int g = 0; g < 3; g++) {
        for (int64_t i = 0; i < m->ps.numel; i++) m->buf[g][i] = (float)NAN;
        for (int k = 0; salt >= 0 && k < m->ps.n; k++) {
            const tx_param *p = &m->ps.param[k];
            int64_t real = p->numel / p->dim[0] * p->rows_logical;
            for (int64_t i = 0; i < real; i++)
                m->buf[g][p->offset + i] = (float)(salt * 1000 + g * 100 + k) + (float)i / 1024;
        }
    }
}

static inline void model_create(model *m, int n_layers, int64_t h, int64_t v, int salt)
{
    static const tx_param_decl decl[] = {
        { "word_embeddings.weight", "V,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, 0, 0 },
        { "dense.weight", "f,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, sizeof(tx_weight), 0 },
        { "dense.bias", "f", TX_INIT_ZERO, TX_NO_DECAY, TX_ADDS, 2 * sizeof(tx_weight), 0 },
    };
    tx_dims d = { .h = h, .f = 3 * h, .V = (v + 31) / 32 * 32, .v_logical = v, .P = 4, .q = 3 * h };
    memset(m, 0, sizeof *m);
    for (int i = 0; i < n_layers; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "layers.%d.", i);
        ASSERT_OK(tx_params_declare(&m->ps, prefix, decl, 3, &m->layer[i], &d));
    }
    for (int g = 0; g < 3; g++) ASSERT_OK(tx_alloc(&m->buf[g], (size_t)m->ps.numel, sizeof(float), "test"));
    model_fill(m, salt);
}

static inline void model_destroy(model *m)
{
    for (int g = 0; g < 3; g++) tx_free(m->buf[g]);
    tx_params_deinit(&m->ps);
}

/* Real elements equal, padding rows of `got` zero; n_groups buffers. */
static inline void assert_same_numbers(const model *expect, const model *got, int n_groups)
{
    for (int g = 0; g < n_groups; g++)
        for (int k = 0; k < expect->ps.n; k++) {
            const tx_param *p = &expect->ps.param[k], *q = &got->ps.param[k];
            int64_t real = p->numel / p->dim[0] * p->rows_logical;
            assert_memory_equal(expect->buf[g] + p->offset, got->buf[g] + q->offset, (size_t)real * sizeof(float));
            for (int64_t i = real; i < q->numel; i++) assert_true(got->buf[g][q->offset + i] == 0);
        }
}

/* A state and a config that depend on the iteration. */
static inline tx_status model_save(const model *m, const char *dir, int64_t iteration, int with_optimizer)
{
    tx_ckpt_state s = { .iteration = iteration,
                        .consumed_train_samples = iteration * 8,
                        .consumed_valid_samples = iteration * 2,
                        .consumed_train_tokens = iteration * 512,
                        .schedule_samples = iteration * 7,
                        .schedule_tokens = iteration * 448,
                        .schedule_warmup_tokens = 64,
                        .optim_step = iteration - 1,
                        .skipped = 1,
                        .vocab_size = 50,
                        .seed = UINT64_MAX - (uint64_t)iteration };
    json_t *config = json_pack("{s:i, s:f, s:s}", "num_layers", m->ps.n / 3, "lr", 0.1, "name", "\xc3\xa9t\xc3\xa9");
    const tx_ckpt_part part[] = { whole_part(TX_CKPT_MODEL, m->buf[0]), whole_part("exp_avg", m->buf[1]),
                                  whole_part("exp_avg_sq", m->buf[2]) };
    tx_status st = tx_checkpoint_save(
        &(tx_ckpt_save_args){ dir, &s, config, &m->ps, NULL, part, with_optimizer ? 3 : 1, &tx_comm_self });
    json_decref(config);
    return st;
}

#endif
