/* labels: unit */
/* What a dry run writes down is what a training step does: the same ops, as often, on as many bytes. */
#include "support.h"

#include "backend/profile.h"
#include "predict/work.h"
#include "train/trainer.h"

enum { MOST_OPS = 64, VOCABULARY = 97 };

typedef struct count {
    const char *op;
    double calls, bytes, flops;
} count;

typedef struct counts {
    count of[MOST_OPS];
    int n;
} counts;

static void add(counts *c, const char *op, double bytes, double flops)
{
    int i = 0;
    while (i < c->n && strcmp(c->of[i].op, op) != 0) i++;
    assert_true(i < MOST_OPS);
    if (i == c->n) c->of[c->n++] = (count){ .op = op };
    c->of[i].calls++;
    c->of[i].bytes += bytes;
    c->of[i].flops += flops;
}

static counts traced(const char *flags)
{
    tx_config *cfg;
    tx_run_work w;
    counts c = { .n = 0 };
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", flags));
    ASSERT_OK(tx_run_work_make(&w, cfg, VOCABULARY));
    assert_int_equal(w.n, 1);
    const tx_stage_work *s = &w.stage[0];
    assert_int_equal(s->n_micro, w.shape.m);
    for (int64_t i = 0; i < s->n_events; i++)
        if (s->event[i].kind == TX_TRACE_OP) add(&c, s->event[i].op, s->event[i].bytes, s->event[i].flops);
    tx_run_work_free(&w);
    tx_config_free(cfg);
    return c;
}

static tx_status same_rows(void *user, int64_t micro, const void **rows)
{
    (void)micro;
    *rows = user;
    return TX_OK;
}

/* The second step of a run. */
static counts done(const char *flags)
{
    tx_config *cfg;
    tx_trainer *t;
    tx_profile p = { 0 };
    counts c = { .n = 0 };
    int32_t *rows;
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_trainer_create(&t, cfg, VOCABULARY, -1, true, NULL));
    ASSERT_OK(tx_alloc(&rows, (size_t)(cfg->micro_batch_size * tx_trainer_row_len(t)), sizeof *rows, "samples"));
    ASSERT_OK(tx_trainer_train(t, same_rows, rows));
    t->ctx.profile = &p;
    ASSERT_OK(tx_trainer_train(t, same_rows, rows));
    t->ctx.profile = NULL;
    for (int64_t i = 0; i < p.n_events; i++) add(&c, p.event[i].op, p.event[i].cost.bytes, p.event[i].cost.flops);
    tx_profile_free(&p);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
    tx_free(rows);
    return c;
}

static void is_what_a_step_does(const char *more)
{
    char flags[1024];
    snprintf(flags, sizeof flags,
             "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
             "--micro-batch-size 2 --tokenizer-type NullTokenizer --vocab-size 96 --data-path none --train-iters 9 "
             "--lr 1e-3 --threads 1 %s",
             more);
    counts a = traced(flags), b = done(flags);
    for (int i = 0; i < b.n; i++) {
        const count *is = &b.of[i];
        int k = 0;
        while (k < a.n && strcmp(a.of[k].op, is->op) != 0) k++;
        const count none = { .op = is->op }, *said = k < a.n ? &a.of[k] : &none;
        if (said->calls != is->calls || said->bytes != is->bytes || said->flops != is->flops)
            fail_msg("%s: %s: %g calls, %g bytes, %g FLOPs; the dry run has %g, %g, %g", more, is->op, is->calls,
                     is->bytes, is->flops, said->calls, said->bytes, said->flops);
    }
    assert_int_equal(a.n, b.n);
}

static void a_dry_run_does_what_a_step_does(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "--global-batch-size 2",
        "--global-batch-size 4 --bf16",
        "--global-batch-size 2 --hidden-dropout 0 --attention-dropout 0",
        "--global-batch-size 4 --bf16 --recompute-activations",
        "--global-batch-size 2 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        ("--global-batch-size 2 --bf16 --swiglu --normalization RMSNorm --use-rotary-position-embeddings "
         "--untie-embeddings-and-output-weights --disable-bias-linear"),
        "--global-batch-size 2 --fp16 --loss-scale 8 --clip-grad 0 --optimizer sgd",
        "--global-batch-size 2 --bf16 --optimizer muon --muon-nesterov",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) is_what_a_step_does(cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_dry_run_does_what_a_step_does) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
