/* masked_rig.h - a random BERT that looks at random masked samples, on ranks that are threads or on one. */
#ifndef TX_TESTS_MASKED_RIG_H
#define TX_TESTS_MASKED_RIG_H

#include "../infer/random_model.h"

#include "eval/masked.h"

#define LIKE_BERT                                                                                                 \
    "--model-type BERT --tokenizer-type BertWordPieceLowerCase --vocab-file none --num-layers 4 "                 \
    "--hidden-size 32 --num-attention-heads 4 --seq-length 24 --max-position-embeddings 24 --micro-batch-size 1 " \
    "--lr 1 --train-iters 1 --data-path none --hidden-dropout 0 --attention-dropout 0 "

enum { LEN = 24, SAMPLES = 11, N_WORDS = 3 };
static const int32_t words[N_WORDS] = { 508, 7, 300 };

/* What came of it. */
typedef struct found {
    int64_t first[SAMPLES + 1];
    tx_token_score score[SAMPLES * LEN];
    tx_guess top[SAMPLES * LEN * VOCAB];
    double word[SAMPLES * LEN * N_WORDS], pair[SAMPLES];
    bool has_pair;
} found;

typedef struct masked_job {
    const tx_config *cfg;
    int64_t s, b, n_top;
    int tp, pp;
    found *out; /* of the rank that the test asks for */
    int rank;
} masked_job;

/* Sample k: 3 to LEN tokens in two segments, of which every fifth or so has a label; sample 4 has none. */
static inline void put_random_sample(tx_bert_ids row, int64_t s, int k)
{
    int32_t n = 3 + (k * 5) % (LEN - 2);
    for (int64_t i = 0; i < s; i++) {
        bool real = i < n;
        row.tokens[i] = real ? token_of(k, i) : 0;
        row.types[i] = real && i > n / 2;
        row.labels[i] = real && k != 4 && (i + k) % 5 == 0 ? token_of(100 + k, i) : -1;
    }
    *row.n_tokens = n;
    *row.is_random = k % 3 == 0;
}

static inline void keep_lot(found *out, const tx_masked *m, int64_t done, int64_t n)
{
    int64_t at = out->first[done];
    for (int64_t k = 0; k <= n; k++) out->first[done + k] = at + m->first[k];
    memcpy(out->score + at, m->score, (size_t)m->n_labels * sizeof *m->score);
    memcpy(out->top + at * m->opts.n_top, m->top, (size_t)(m->n_labels * m->opts.n_top) * sizeof *m->top);
    memcpy(out->word + at * N_WORDS, m->word, (size_t)(m->n_labels * N_WORDS) * sizeof *m->word);
    out->has_pair = m->pair != NULL;
    if (m->pair) memcpy(out->pair + done, m->pair, (size_t)n * sizeof *m->pair);
}

/* All samples, lot by lot. The first rank has them, and shares. */
static inline tx_status look(tx_masked *m, bool leads, found *out)
{
    for (int64_t done = 0, n;; done += n) {
        for (n = 0; leads && n < m->room && done + n < SAMPLES; n++)
            put_random_sample(tx_masked_row(m, n), m->opts.s, (int)(done + n));
        TX_TRY(tx_masked_share(m, &n));
        if (!n) return TX_OK;
        TX_TRY(tx_masked_run(m, n));
        if (out) keep_lot(out, m, done, n);
    }
}

static inline tx_status masked_rank(tx_world *w, void *user)
{
    const masked_job *j = user;
    const tx_masked_opts opts = { .s = j->s, .b = j->b, .n_top = j->n_top, .word = words, .n_words = N_WORDS };
    tx_grid grid;
    tx_model *model = NULL;
    void *value = NULL;
    tx_masked *m = NULL;
    tx_status st;
    TX_TRY(tx_grid_open(&grid, w,
                        &(tx_layout){ .size = { [TX_AXIS_TENSOR] = j->tp, [TX_AXIS_PIPELINE] = j->pp },
                                      .sequence = j->cfg->sequence_parallel },
                        NULL));
    TX_GOTO(random_model(&model, &value, j->cfg, &grid));
    TX_GOTO(tx_masked_create(&m, model, j->cfg, &grid, &opts));
    st = look(m, grid.rank == 0, grid.rank == j->rank ? j->out : NULL);
out:
    tx_masked_destroy(m);
    if (model) model->type->destroy(model);
    tx_free(value);
    if (!st) tx_grid_close(&grid);
    return st;
}

static inline tx_config *masked_config(const char *flags, int tp, int pp)
{
    char all[2048];
    tx_config *cfg;
    snprintf(
        all, sizeof all,
        "%s --world-size %d --tensor-model-parallel-size %d --pipeline-model-parallel-size %d --global-batch-size 4",
        flags, tp * pp, tp, pp);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-bert", all));
    return cfg;
}

/* What rank `rank` of tp x pp has found in micro-batches of b samples, as long as s. */
static inline found *masked_found(const char *flags, int tp, int pp, int rank, int64_t s, int64_t b, int64_t n_top)
{
    found *out = calloc(1, sizeof *out);
    tx_config *cfg = masked_config(flags, tp, pp);
    masked_job j = { .cfg = cfg, .s = s, .b = b, .n_top = n_top, .tp = tp, .pp = pp, .out = out, .rank = rank };
    assert_non_null(out);
    ASSERT_OK(tx_world_threads(tp * pp, masked_rank, &j));
    tx_config_free(cfg);
    return out;
}

/* Numbers within the bound; the same guesses but where two are as good as equal. */
static inline void assert_same_found(const found *a, const found *b, int64_t n_top, double bound, const char *what)
{
    int64_t n = a->first[SAMPLES];
    assert_true(n > SAMPLES);
    assert_memory_equal(a->first, b->first, sizeof a->first);
    assert_int_equal(a->has_pair, b->has_pair);
    for (int64_t i = 0; i < n; i++) {
        ASSERT_NEAR(a->score[i].logprob, b->score[i].logprob, bound, what);
        for (int64_t k = 0; k < n_top; k++)
            ASSERT_NEAR(a->top[i * n_top + k].logprob, b->top[i * n_top + k].logprob, bound, what);
        for (int k = 0; k < N_WORDS; k++) ASSERT_NEAR(a->word[i * N_WORDS + k], b->word[i * N_WORDS + k], bound, what);
        double gap = a->top[i * n_top].logprob - a->top[i * n_top + 1].logprob;
        if (gap > 2 * bound) assert_int_equal(a->top[i * n_top].id, b->top[i * n_top].id);
    }
    for (int k = 0; k < SAMPLES && a->has_pair; k++) ASSERT_NEAR(a->pair[k], b->pair[k], bound, what);
}

#endif
