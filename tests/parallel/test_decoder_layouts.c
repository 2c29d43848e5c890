/* labels: parallel threads. A decoder on several ranks gives what it gives on one: tensor and pipeline parallelism,
 * ranks as threads. */
#include <time.h>

#include "../infer/random_model.h"

enum { SLOTS = 3, PROMPT = 75, SHORT = 5, STEPS = 4, ROWS = PROMPT + SHORT + SLOTS * STEPS };

typedef tx_status script_fn(tx_decoder *d, float *out);

/* What the leader does: [ROWS, VOCAB] */
static tx_status go_on(tx_decoder *d, float *out)
{
    int32_t token[PROMPT];
    kept_logits long_one = { .row = out }, short_one = { .row = out + PROMPT * VOCAB };
    text_of(0, token, PROMPT);
    TX_TRY(tx_decoder_append(d, 0, token, PROMPT, &(tx_logits_wanted){ 0, keep_logits, &long_one }));
    text_of(1, token, SHORT);
    TX_TRY(tx_decoder_append(d, 1, token, SHORT, &(tx_logits_wanted){ 0, keep_logits, &short_one }));
    TX_TRY(tx_decoder_copy(d, 2, 0));
    tx_decoder_truncate(d, 2, PROMPT - 10);
    out = short_one.row + SHORT * VOCAB;
    for (int step = 0; step < STEPS; step++) {
        const int slot[SLOTS] = { 2, 0, 1 };
        const float *logits;
        int64_t stride;
        for (int i = 0; i < SLOTS; i++) token[i] = token_of(2 + slot[i], step);
        TX_TRY(tx_decoder_step(d, slot, token, SLOTS, &logits, &stride));
        for (int i = 0; i < SLOTS; i++, out += VOCAB) memcpy(out, logits + i * stride, VOCAB * sizeof *out);
    }
    return long_one.n == PROMPT && short_one.n == SHORT ? TX_OK : TX_FAIL(TX_ERR_NUMERIC, "logits are missing");
}

static tx_status refuse(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride)
{
    (void)user, (void)n_rows, (void)logits, (void)stride;
    return TX_FAIL(TX_ERR_IO, "full at %lld", (long long)first);
}

/* Errors that concern the leader alone leave the ranks of one mind. */
static tx_status go_on_behind_errors(tx_decoder *d, float *out)
{
    int32_t token[PROMPT], bad = VOCAB;
    text_of(3, token, PROMPT);
    if (tx_decoder_append(d, 0, token, PROMPT, &(tx_logits_wanted){ 0, refuse, NULL }) != TX_ERR_IO ||
        tx_decoder_append(d, 1, &bad, 1, NULL) != TX_ERR_ARG)
        return TX_FAIL(TX_ERR_NUMERIC, "no error");
    tx_decoder_truncate(d, 0, 0);
    return go_on(d, out);
}

/* Longer than the others' patience in a call. */
static tx_status go_on_later(tx_decoder *d, float *out)
{
    nanosleep(&(struct timespec){ .tv_nsec = 800000000 }, NULL);
    TX_TRY(go_on(d, out));
    nanosleep(&(struct timespec){ .tv_nsec = 800000000 }, NULL);
    return TX_OK;
}

static tx_status give_up(tx_decoder *d, float *out)
{
    TX_TRY(go_on(d, out));
    return TX_FAIL(TX_ERR_IO, "the disk is full");
}

typedef struct job {
    const tx_config *cfg;
    int tp, pp;
    double timeout;
    script_fn *script;
    float out[ROWS * VOCAB];
} job;

static tx_status rank_of(tx_world *w, void *user)
{
    job *j = user;
    const tx_decoder_opts opts = { .backend = "cpu", .n_threads = 1, .n_slots = SLOTS, .max_len = 100, .max_rows = 70 };
    tx_grid grid;
    tx_model *m = NULL;
    void *value = NULL;
    tx_decoder *d = NULL;
    tx_status st;
    const tx_layout layout = tx_layout_of(j->cfg);
    TX_TRY(tx_grid_open(&grid, w, &layout, NULL));
    TX_GOTO(random_model(&m, &value, j->cfg, &grid));
    TX_GOTO(tx_decoder_create(&d, m, &grid, &opts));
    if (j->timeout > 0)
        TX_GOTO(tx_comm_barrier(tx_grid_group(&grid, TX_GROUP_WORLD))); /* all are there: now time counts */
    if (j->timeout > 0) tx_world_set_timeout(w, j->timeout);
    if (tx_decoder_leads(d)) TX_GOTO(j->script(d, j->out));
    TX_GOTO(tx_decoder_leads(d) ? tx_decoder_dismiss(d) : tx_decoder_follow(d));
    if (j->timeout > 0 && tx_world_timeout(w) != j->timeout) st = TX_FAIL(TX_ERR_NUMERIC, "another time-out");
out:
    tx_decoder_destroy(d);
    if (m) m->type->destroy(m);
    tx_free(value);
    if (!st) tx_grid_close(&grid);
    return st;
}

static void run(job *j, const char *flags, const int *axes, script_fn *script)
{
    int tp = axes[0], pp = axes[1], n = tp * pp * axes[2];
    char all[2048];
    tx_config *cfg;
    snprintf(all, sizeof all, "%s --world-size %d --tensor-model-parallel-size %d --pipeline-model-parallel-size %d",
             flags, n, tp, pp);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", all));
    j->cfg = cfg;
    j->tp = tp;
    j->pp = pp;
    j->script = script;
    ASSERT_OK(tx_world_threads(n, rank_of, j));
    tx_config_free(cfg);
}

static const struct layout {
    const char *flags;
    int tp, pp, cp;
    const char *how; /* flags of the layout alone; those of cp, too */
} layouts[] = {
    { LIKE_GPT2, 1, 2, 1, "" },
    { LIKE_GPT2, 2, 1, 1, "" },
    { LIKE_GPT2 "--sequence-parallel", 4, 1, 1, "" },
    { LIKE_GPT2 "--embed-layernorm", 2, 2, 1, "" },
    { LIKE_LLAMA, 2, 1, 1, "" },
    { LIKE_LLAMA, 2, 2, 1, "" },
    { LIKE_LLAMA, 1, 4, 1, "" },
    { LIKE_BLOOM, 2, 2, 1, "" },
    { LIKE_BLOOM, 4, 1, 1, "" },
    { LIKE_GPT_OSS, 2, 2, 1, "" },
    { LIKE_GEMMA2, 2, 2, 1, "" },
    { LIKE_PHI, 4, 1, 1, "" },
    { LIKE_MIXTRAL, 2, 1, 1, "" },
    { LIKE_MIXTRAL, 1, 2, 1, "" },
    { LIKE_DEEPSPEED, 2, 2, 1, "" },
    { LIKE_MIXTRAL, 2, 1, 1, "--expert-model-parallel-size 2 --expert-tensor-parallel-size 1" },
    { LIKE_GPT2, 1, 1, 2, "--context-parallel-size 2" },
    { LIKE_GPT2, 1, 1, 3, "--context-parallel-size 3 --seq-length 96" },
    { LIKE_GPT2, 2, 2, 2, "--ds-sequence-parallel-size 2" },
    { LIKE_LLAMA, 1, 1, 4, "--context-parallel-size 4" },
    { LIKE_LLAMA, 2, 1, 2, "--context-parallel-size 2 --cp-comm-type allgather" },
    { LIKE_BLOOM, 1, 2, 2, "--context-parallel-size 2" },
    { LIKE_GPT_OSS, 1, 1, 2, "--context-parallel-size 2" },
    { LIKE_GEMMA2, 1, 1, 4,
      "--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2" },
    { LIKE_PHI, 1, 1, 2, "--context-parallel-size 2" },
};

static void any_layout_is_one_rank(void **state)
{
    (void)state;
    static job one, many;
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        const struct layout *l = &layouts[k];
        run(&one, l->flags, (const int[]){ 1, 1, 1 }, go_on);
        char flags[1024];
        snprintf(flags, sizeof flags, "%s %s", l->flags, l->how);
        run(&many, flags, (const int[]){ l->tp, l->pp, l->cp }, k % 2 ? go_on_behind_errors : go_on);
        for (int i = 0; i < ROWS; i++) {
            char what[192];
            snprintf(what, sizeof what, "tp %d pp %d %s, row %d of %s", l->tp, l->pp, l->how, i,
                     strstr(l->flags, "swiglu") ? "Llama" : "GPT-2");
            ASSERT_OK(same_logits(many.out + i * VOCAB, one.out + i * VOCAB, what));
        }
    }
}

static void followers_wait_for_hours(void **state)
{
    (void)state;
    static job one, many = { .timeout = 0.4 };
    run(&one, LIKE_GPT2, (const int[]){ 1, 1, 1 }, go_on);
    run(&many, LIKE_GPT2, (const int[]){ 2, 2, 1 }, go_on_later);
    for (int i = 0; i < ROWS; i++) ASSERT_OK(same_logits(many.out + i * VOCAB, one.out + i * VOCAB, "later"));
}

static void a_leader_that_fails_ends_the_others(void **state)
{
    (void)state;
    static job j = { .script = give_up, .tp = 2, .pp = 2 };
    tx_config *cfg;
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt",
                                     LIKE_GPT2 "--world-size 4 --tensor-model-parallel-size 2 "
                                               "--pipeline-model-parallel-size 2"));
    j.cfg = cfg;
    ASSERT_FAILS(tx_world_threads(4, rank_of, &j), TX_ERR_IO, "the disk is full");
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_layout_is_one_rank),
        cmocka_unit_test(followers_wait_for_hours),
        cmocka_unit_test(a_leader_that_fails_ends_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
