/* labels: unit */
/* What --memory-limit advises: every change fits and is accepted, and where it says that nothing fits, a search of the
 * whole space that fit.h claims finds nothing. */
#include "support.h"

#include "train/fit.h"

enum { VOCABULARY = 512 };

/* ---- random runs ---- */

static uint64_t rng;

static int64_t draw(int64_t low, int64_t high)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (int64_t)((rng >> 33) % (uint64_t)(high - low + 1));
}

static bool one_in(int n)
{
    return draw(1, n) == 1;
}

typedef struct run {
    char flags[640];
    int64_t ranks, layers, micro, zero;
    bool half, grads, selective, distributed, sequence; /* half: a precision of 16 bits; grads: of gradients, too */
} run;

/* A configuration of `plan` that is accepted. */
static run draw_run(void)
{
    for (;;) {
        run r = { .ranks = draw(1, 3), .layers = draw(2, 4), .micro = draw(1, 4), .half = one_in(3) };
        tx_config *c;
        r.grads = r.half && one_in(3);
        r.selective = one_in(4);
        r.sequence = one_in(6);
        r.distributed = one_in(8);
        r.zero = r.distributed ? 1 : one_in(3) ? draw(1, 3) : 0;
        snprintf(
            r.flags, sizeof r.flags,
            "--num-layers %d --hidden-size %d --num-attention-heads 4 --seq-length 64 --max-position-embeddings "
            "64 --vocab-size 500 --threads 1 --zero-param-persistence-threshold 100 --micro-batch-size %d "
            "--global-batch-size %d --tensor-model-parallel-size %d --pipeline-model-parallel-size %d%s%s%s",
            (int)r.layers, (int)draw(1, 3) * 64, (int)r.micro, (int)draw(1, 4) * 48, (int)draw(1, 2), (int)draw(1, 2),
            r.grads  ? " --bf16 --grad-dtype bf16"
            : r.half ? " --bf16"
                     : "",
            r.sequence ? " --sequence-parallel" : "", one_in(6) ? " --num-layers-per-virtual-pipeline-stage 1" : "");
        if (r.zero && !r.distributed) snprintf(r.flags + strlen(r.flags), 32, " --zero-stage %d", (int)r.zero);
        char all[800];
        snprintf(all, sizeof all, "%s --world-size %d", r.flags, (int)r.ranks);
        if (tx_config_parse_string(&c, "plan", all)) continue;
        tx_config_free(c);
        return r;
    }
}

/* The whole command line with a change. NULL: it is refused. `full`: whole layers are computed again. */
static tx_config *with(const run *r, int64_t ranks, const char *change, bool full, bool keeps_stage)
{
    char all[2048];
    tx_config *c;
    snprintf(all, sizeof all, "%s%s%s --world-size %d %s", r->flags,
             r->selective && !full ? " --recompute-activations" : "",
             r->distributed && keeps_stage ? " --use-distributed-optimizer" : "", (int)ranks, change);
    return tx_config_parse_string(&c, "plan", all) ? NULL : c;
}

/* ---- the whole space, one plan each ---- */

/* The least bytes; *n counts the plans. */
static size_t search_all(const run *r, int64_t ranks, size_t least, int *n)
{
#define STATE  "--offload-optimizer nvme --offload-optimizer-nvme-path D"
#define PARAMS "--offload-param nvme --offload-param-nvme-path D"
    static const char *const offloads[] = { "", STATE, PARAMS, STATE " " PARAMS };
    static const char *const ways[] = { "", "--sequence-parallel", "--partition-activations" };
    for (int64_t tp = 1; tp <= 4; tp++)
        for (int64_t pp = 1; pp <= r->layers; pp++)
            for (int64_t b = 1; b <= r->micro && ranks % (tp * pp) == 0; b++)
                for (int i = 0; i < 4 * 3 * 4 * 4 * 2 * 2; i++) {
                    int again = i % 4, way = i / 4 % 3, zero = i / 12 % 4, offload = i / 48 % 4, half = i / 192 % 2;
                    bool grads = i >= 4 * 3 * 4 * 4 * 2;
                    char change[512], text[96] = "";
                    tx_run_plan plan;
                    if (r->micro % b || (zero && zero <= r->zero) || (half && r->half)) continue;
                    if (grads && (r->grads || !(half || r->half))) continue;
                    if (again == 1) snprintf(text, sizeof text, "--recompute-activations");
                    if (again == 2)
                        snprintf(text, sizeof text,
                                 "--recompute-granularity full --recompute-method block --recompute-num-layers %d",
                                 (int)(r->layers / pp / 2));
                    if (again == 3)
                        snprintf(text, sizeof text, "--recompute-granularity full --recompute-method uniform");
                    snprintf(change, sizeof change,
                             "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d --micro-batch-size %d "
                             "%s %s %s %s %s",
                             (int)tp, (int)pp, (int)b, text, ways[way], offloads[offload], half ? "--bf16" : "",
                             grads ? "--grad-dtype bf16" : "");
                    if (zero) snprintf(change + strlen(change), 24, " --zero-stage %d", zero);
                    tx_config *c = with(r, ranks, change, again >= 2, zero < 2);
                    if (!c) continue;
                    tx_status st = tx_plan_run(&plan, c, VOCABULARY);
                    tx_config_free(c);
                    if (st) continue;
                    ++*n;
                    if (tx_memory_limited(&plan.memory) < least) least = tx_memory_limited(&plan.memory);
                }
    return least;
}

/* ---- what is said, planned from the flags ---- */

static void check_change(const run *r, const tx_change *c, int64_t ranks, size_t limit)
{
    tx_run_plan plan;
    bool full = strstr(c->without, "--recompute-activations"), keeps = !strstr(c->without, "distributed");
    tx_config *cfg = with(r, ranks, c->flags, full, keeps);
    if (!cfg) fail_msg("%s, %d ranks: \"%s\" is refused: %s", r->flags, (int)ranks, c->flags, tx_last_error());
    assert_int_equal(c->ranks, ranks);
    ASSERT_OK(tx_plan_run(&plan, cfg, VOCABULARY));
    if (memcmp(&plan.memory, &c->memory, sizeof plan.memory))
        fail_msg("%s: \"%s\" takes %zu, not %zu", r->flags, c->flags, tx_memory_total(&plan.memory),
                 tx_memory_total(&c->memory));
    assert_true(tx_memory_limited(&plan.memory) <= limit);
    assert_int_equal(plan.tokens, cfg->global_batch_size * cfg->seq_length);
    tx_config_free(cfg);
}

static int64_t whole_batch(const run *r)
{
    tx_config *c = with(r, r->ranks, "", false, true);
    int64_t batch = c->global_batch_size;
    tx_config_free(c);
    return batch;
}

static void what_is_said_fits_and_what_is_not_does_not(void **state)
{
    (void)state;
    enum { N_TIMES = 4 };
    int n_plans = 0, n_none = 0, n_more = 0, n_fits = 0;
    rng = sample_seed() + 7;
    for (int k = 0, n = as_many(5, 1); k < n; k++) {
        run r = draw_run();
        size_t least[N_TIMES];
        tx_config *cfg = with(&r, r.ranks, "--memory-limit 1G", false, true);
        tx_run_plan plan;
        ASSERT_OK(tx_plan_run(&plan, cfg, VOCABULARY));
        for (int i = 0; i < N_TIMES; i++) least[i] = search_all(&r, r.ranks << i, SIZE_MAX, &n_plans);
        size_t most = tx_memory_limited(&plan.memory), low = SIZE_MAX;
        for (int i = 0; i < N_TIMES; i++) low = least[i] < low ? least[i] : low;
        for (int i = 0; i < 12; i++) {
            tx_fit f;
            /* about the bounds, and anywhere between */
            size_t limit = i < 2 * N_TIMES ? least[i / 2] - (size_t)(i & 1)
                                           : low - low / 8 + (size_t)draw(0, (int64_t)(most - low + low / 8 - 1));
            if (limit >= most) continue;
            ASSERT_OK(tx_fit_find(&f, cfg, VOCABULARY, &plan, limit));
            int first = 0;
            while (first < N_TIMES && least[first] > limit) first++;
            if ((f.n > 0) != (first == 0))
                fail_msg("%s on %d: %d changes for %zu, the least is %zu", r.flags, (int)r.ranks, f.n, limit, least[0]);
            for (int c = 0; c < f.n; c++) check_change(&r, &f.change[c], r.ranks, limit);
            if (!f.n && tx_memory_limited(&f.least.memory) != least[0])
                fail_msg("%s on %d: the least is said to be %zu with \"%s\", it is %zu", r.flags, (int)r.ranks,
                         tx_memory_limited(&f.least.memory), f.least.flags, least[0]);
            if (!f.n) check_change(&r, &f.least, r.ranks, least[0]);
            int more = 1;
            while (more < N_TIMES && least[more] > limit) more++;
            bool same = f.n && !f.more.ranks; /* more ranks bring nothing by themselves */
            if (!same && f.more.ranks != (more < N_TIMES ? r.ranks << more : 0))
                fail_msg("%s on %d: %zu on %d ranks, expected %d", r.flags, (int)r.ranks, limit, (int)f.more.ranks,
                         more < N_TIMES ? (int)(r.ranks << more) : 0);
            if (f.more.ranks) check_change(&r, &f.more, f.more.ranks, limit);
            n_fits += f.n > 0;
            n_none += !f.n;
            n_more += f.more.ranks > 0;
        }
        assert_true(whole_batch(&r) == cfg->global_batch_size);
        tx_config_free(cfg);
    }
    print_message("%d plans; of the limits %d have changes, %d none, %d more ranks\n", n_plans, n_fits, n_none, n_more);
    assert_true(n_fits && n_none && n_more);
}

/* ---- long samples ---- */

static bool says(const tx_fit *f, const char *flag)
{
    bool does = f->more.ranks && strstr(f->more.flags, flag);
    for (int i = 0; i < f->n; i++) does = does || strstr(f->change[i].flags, flag);
    return does;
}

/* Over ranks, or in chunks whose keys and values are elsewhere; what is said fits. */
static void long_samples_are_divided_or_in_chunks(void **state)
{
    (void)state;
    static const run r = {
        .ranks = 1,
        .flags =
            "--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 32768 --max-position-embeddings "
            "32768 --vocab-size 500 --threads 1 --bf16 --micro-batch-size 1 --global-batch-size 1"
    };
    bool contexts = false, chunks = false;
    tx_config *cfg = with(&r, r.ranks, "--memory-limit 1G", false, true);
    tx_run_plan plan;
    tx_fit f;
    assert_non_null(cfg);
    ASSERT_OK(tx_plan_run(&plan, cfg, VOCABULARY));
    for (size_t i = 8; i >= 2; i -= 2) {
        size_t limit = tx_memory_limited(&plan.memory) / 10 * i;
        ASSERT_OK(tx_fit_find(&f, cfg, VOCABULARY, &plan, limit));
        for (int c = 0; c < f.n; c++) check_change(&r, &f.change[c], r.ranks, limit);
        if (f.more.ranks) check_change(&r, &f.more, f.more.ranks, limit);
        contexts = contexts || says(&f, "--context-parallel-size");
        chunks = chunks || says(&f, "--ds-sequence-parallel-fpdt");
    }
    tx_config_free(cfg);
    assert_true(contexts && chunks);
}

/* ---- by name ---- */

#define BIG                                                                                                    \
    "--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048 --max-position-embeddings " \
    "2048 --bf16 --global-batch-size 512 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "

#define SMALL                                                                                                       \
    "--num-layers 2 --hidden-size 512 --num-attention-heads 2 --seq-length 64 --max-position-embeddings 64 --bf16 " \
    "--micro-batch-size 2 --global-batch-size 64 --world-size 2 "

static void found(tx_fit *f, const char *flags, double gib)
{
    tx_config *cfg;
    tx_run_plan plan;
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", flags));
    ASSERT_OK(tx_plan_run(&plan, cfg, 50257));
    ASSERT_OK(tx_fit_find(f, cfg, 50257, &plan, (size_t)(gib * (1 << 30))));
    tx_config_free(cfg);
}

/* Where two changes are not enough, more are tried; recomputation stands in for what the run has of it. */
static void several_changes_together(void **state)
{
    (void)state;
    tx_fit f;
    found(&f, BIG "--micro-batch-size 4 --world-size 4 --recompute-activations --memory-limit 1G", 56);
    assert_true(f.n > 0);
    assert_true(tx_memory_limited(&f.change[0].memory) <= (size_t)56 << 30);
    found(&f, SMALL "--memory-limit 1M", 0.001);
    assert_int_equal(f.n, 0);
    assert_int_equal(f.more.ranks, 0);
    assert_int_equal(f.times, TX_FIT_MOST_RANKS);
}

/* As many sizes as there are divisors, and each way to compute again. */
static void micro_batches_of_many_divisors(void **state)
{
    (void)state;
    tx_fit f;
    found(&f, SMALL "--micro-batch-size 720 --global-batch-size 720 --tensor-model-parallel-size 2 --memory-limit 1M",
          0.25);
    assert_true(f.n > 0);
}

/* A machine's memory is not each rank's. */
static void more_ranks_need_a_limit_of_their_own(void **state)
{
    (void)state;
    tx_fit f;
    found(&f, BIG "--micro-batch-size 4 --world-size 4 --memory-limit 1G", 60);
    assert_true(f.more.ranks > 4);
    found(&f, BIG "--micro-batch-size 4 --world-size 4 --memory-limit auto", 60);
    assert_int_equal(f.more.ranks, 0);
    assert_int_equal(f.times, 1);
}

/* The ranks that a launcher has started are no reason against others. */
static void ranks_that_run_may_be_more(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_run_plan plan;
    tx_fit f;
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt",
                                     BIG "--micro-batch-size 4 --lr 1 --train-iters 2 --data-path d --vocab-file v "
                                         "--merge-file m --memory-limit 60G"));
    ASSERT_OK(tx_plan_run(&plan, cfg, 50257));
    ASSERT_OK(tx_fit_find(&f, cfg, 50257, &plan, (size_t)60 << 30));
    tx_config_free(cfg);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("OMPI_COMM_WORLD_RANK");
    assert_int_equal(f.more.ranks, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_samples_are_divided_or_in_chunks),
        cmocka_unit_test(several_changes_together),
        cmocka_unit_test(micro_batches_of_many_divisors),
        cmocka_unit_test(more_ranks_need_a_limit_of_their_own),
        cmocka_unit_test(ranks_that_run_may_be_more),
        cmocka_unit_test(what_is_said_fits_and_what_is_not_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
