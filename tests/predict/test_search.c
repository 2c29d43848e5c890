/* labels: unit */
/* The search for layouts: it finds what timing every layout finds, and its bounds are bounds. */
#include "support.h"

#include "predict/search.h"

enum { VOCABULARY = 500, MOST = 4096 };

#define SHAPE                                                                                                  \
    "--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 " \
    "--vocab-size 500 --bf16 --micro-batch-size 1 --global-batch-size 16 "

typedef struct run {
    tx_config *cfg;
    tx_machine machine;
    tx_search_args args;
} run;

static run open_run(const char *flags, const char *machine)
{
    run r = { 0 };
    ASSERT_OK(tx_config_parse_string(&r.cfg, "plan", flags));
    ASSERT_OK(tx_machine_read(&r.machine, machine));
    r.args = (tx_search_args){
        .cfg = r.cfg, .vocab_size = VOCABULARY, .room = (size_t)r.machine.memory, .gpu = true, .n_threads = 2
    };
    return r;
}

static const tx_search_args *args_of(run *r)
{
    r->args.machine = &r->machine;
    return &r->args;
}

static void close_run(run *r)
{
    tx_config_free(r->cfg);
    tx_machine_free(&r->machine);
}

/* ---- every layout, timed ---- */

/* As a user would: by its flags. Returns whether the rules and the backend take it. */
static bool plan(const run *r, const tx_config *base, tx_found_layout *f)
{
    tx_config *cfg;
    tx_run_work w = { 0 };
    ASSERT_OK(tx_choice_config(&cfg, base, &f->is));
    if (!cfg) return false;
    ASSERT_OK(tx_run_work_make(&w, cfg, VOCABULARY));
    ASSERT_OK(tx_predict(&f->time, &w, &r->machine));
    f->memory = w.stage[w.most].plan.memory;
    for (int i = 0; i < w.n; i++) {
        tx_memory *m = &w.stage[i].plan.memory;
        m->gpu_free = 1;
        f->memory.gpu_free = 1;
        if (tx_memory_limited(m) > tx_memory_limited(&f->memory)) f->memory = *m;
    }
    tx_run_work_free(&w);
    tx_config_free(cfg);
    return true;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const tx_found_layout *)a)->time.iteration, y = ((const tx_found_layout *)b)->time.iteration;
    return (x > y) - (x < y);
}

static int by_memory(const void *a, const void *b)
{
    size_t x = tx_memory_limited(&((const tx_found_layout *)a)->memory),
           y = tx_memory_limited(&((const tx_found_layout *)b)->memory);
    return (x > y) - (x < y);
}

/* All that can be planned on so many ranks, and whether each keeps to its bounds. */
static int plan_all(run *r, int64_t ranks, tx_found_layout *all)
{
    tx_choice_list l;
    tx_config base = tx_without_layout(r->cfg);
    tx_layout_bounds b = { .base = &base, .machine = &r->machine, .predict = tx_predict, .vocab_size = VOCABULARY };
    int n = 0;
    ASSERT_OK(tx_choice_list_make(&l, &base, ranks, (int64_t)r->machine.ranks_per_node, false));
    for (int64_t i = 0; i < l.n; i++) {
        tx_found_layout f = { .is = l.choice[i] };
        double seconds, bytes;
        if (!plan(r, &base, &f)) continue;
        ASSERT_OK(tx_layout_bound(&b, &f.is, &seconds, &bytes));
        if (seconds > 1.0001 * f.time.iteration || bytes > (double)tx_memory_limited(&f.memory)) {
            tx_str words = { 0 };
            ASSERT_OK(tx_choice_words(&words, &f.is));
            fail_msg("%s: bounds %g s, %g bytes; it takes %g s, %zu bytes", words.data, seconds, bytes,
                     f.time.iteration, tx_memory_limited(&f.memory));
        }
        assert_true(n < MOST);
        all[n++] = f;
    }
    tx_layout_bounds_free(&b);
    tx_choice_list_free(&l);
    return n;
}

static void compare(run *r, int64_t ranks, const tx_found_layout *all, int n)
{
    static tx_search_result found;
    ASSERT_OK(tx_search_layouts(&found, args_of(r), ranks));
    int k = 0;
    for (int i = 0; i < n && k < TX_SEARCH_BEST; i++) {
        if (tx_memory_limited(&all[i].memory) > r->args.room) continue;
        assert_true(k < found.n);
        assert_true(fabs(found.best[k].time.iteration - all[i].time.iteration) <= 1e-9 * all[i].time.iteration);
        assert_true(tx_memory_limited(&found.best[k].memory) <= r->args.room);
        k++;
    }
    assert_int_equal(found.n, k);
}

static void finds_what_timing_all_finds(void **state)
{
    (void)state;
    static const char *const machine[] = { "a100-40g", "mi250x-gcd", "v100-32g", "a100-40g" };
    static const char *const more[] = { "", " --swiglu --normalization RMSNorm", " --pipeline-schedule gpipe",
                                        " --seq-length 2048 --max-position-embeddings 2048 --global-batch-size 2" };
    static tx_found_layout all[MOST];
    for (size_t i = 0; i < 4; i++) {
        char flags[512];
        snprintf(flags, sizeof flags, SHAPE "%s", more[i]);
        run r = open_run(flags, machine[i]);
        int64_t ranks = i == 1 ? 8 : 4;
        int n = plan_all(&r, ranks, all);
        assert_true(n > 50);
        qsort(all, (size_t)n, sizeof *all, by_memory);
        size_t few = tx_memory_limited(&all[n / 4].memory);
        qsort(all, (size_t)n, sizeof *all, by_time);
        compare(&r, ranks, all, n);
        r.args.room = few;
        compare(&r, ranks, all, n);
        r.args.n_threads = 1;
        compare(&r, ranks, all, n);
        close_run(&r);
    }
}

/* ---- long samples ---- */

/* With fewer samples than ranks; and where a whole sample's activations do not fit. */
static void positions_are_divided_where_it_pays(void **state)
{
    (void)state;
    static tx_search_result found;
    run r = open_run(SHAPE "--seq-length 32768 --max-position-embeddings 32768 --global-batch-size 1", "a100-40g");
    ASSERT_OK(tx_search_layouts(&found, args_of(&r), 8));
    const tx_found_layout *best = &found.best[0], *other = &found.other_way;
    assert_true(best->is.cp > 1 && other->is.cp == best->is.cp && other->is.tp == best->is.tp);
    assert_true(best->is.how != other->is.how && other->time.iteration >= best->time.iteration);
    assert_true(tx_memory_limited(&other->memory) > 0);
    close_run(&r);
    r = open_run(SHAPE "--seq-length 4194304 --max-position-embeddings 4194304 --num-attention-heads 1 "
                       "--normalization RMSNorm --use-rotary-position-embeddings --no-position-embedding",
                 "a100-40g");
    ASSERT_OK(tx_search_layouts(&found, args_of(&r), 16));
    assert_true(found.n > 0);
    for (int i = 0; i < found.n; i++) assert_true(found.best[i].is.cp > 1 && found.best[i].is.how == TX_CP_COMM_P2P);
    close_run(&r);
}

/* ---- where little fits ---- */

static void offloads_only_where_nothing_else_fits(void **state)
{
    (void)state;
    static tx_search_result found;
    run r = open_run(SHAPE, "a100-40g");
    ASSERT_OK(tx_search_layouts(&found, args_of(&r), 1));
    assert_false(found.offload);
    assert_true(found.n > 1);
    r.args.room = 0;
    ASSERT_OK(tx_search_layouts(&found, args_of(&r), 1));
    assert_int_equal(found.n, 0);
    assert_true(found.least.is.offload);
    size_t least = tx_memory_limited(&found.least.memory);
    r.args.room = least;
    ASSERT_OK(tx_search_layouts(&found, args_of(&r), 1));
    assert_true(found.offload && found.n > 0 && found.best[0].is.offload && found.best[0].is.zero > 0);
    r.args.gpu = false; /* the host's memory is the same memory */
    ASSERT_OK(tx_search_layouts(&found, args_of(&r), 1));
    assert_int_equal(found.n, 0);
    assert_false(found.least.is.offload);
    assert_true(tx_memory_limited(&found.least.memory) > least);
    close_run(&r);
}

static void ranks_without_a_layout_have_none(void **state)
{
    (void)state;
    static tx_search_result found;
    run r = open_run(SHAPE, "a100-40g");
    ASSERT_OK(tx_search_layouts(&found, args_of(&r), 7));
    assert_int_equal(found.n_layouts, 0);
    assert_int_equal(found.n, 0);
    close_run(&r);
}

/* ---- what a layout is ---- */

static bool is_same(const tx_found_layout *a, const tx_found_layout *b)
{
    tx_str x = { 0 }, y = { 0 };
    ASSERT_OK(tx_choice_words(&x, &a->is));
    ASSERT_OK(tx_choice_words(&y, &b->is));
    bool same = !strcmp(x.data, y.data) && a->time.iteration == b->time.iteration;
    tx_str_free(&x);
    tx_str_free(&y);
    return same;
}

static void the_runs_own_layout_does_not_count(void **state)
{
    (void)state;
    static tx_search_result plain, other;
    run a = open_run(SHAPE, "a100-40g");
    run b = open_run(SHAPE "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --zero-stage 3 "
                           "--num-layers-per-virtual-pipeline-stage 1 --sequence-parallel --checkpoint-activations "
                           "--offload-optimizer cpu --offload-param cpu",
                     "a100-40g");
    ASSERT_OK(tx_search_layouts(&plain, args_of(&a), 8));
    ASSERT_OK(tx_search_layouts(&other, args_of(&b), 8));
    assert_int_equal(plain.n, TX_SEARCH_BEST);
    assert_int_equal(other.n, plain.n);
    for (int i = 0; i < plain.n; i++) assert_true(is_same(&plain.best[i], &other.best[i]));
    close_run(&a);
    close_run(&b);
}

static void flags_are_the_layout(void **state)
{
    (void)state;
    const tx_layout_choice c = { .ranks = 16,
                                 .tp = 2,
                                 .pp = 2,
                                 .chunk_layers = 1,
                                 .micro_batch = 2,
                                 .sequence = true,
                                 .again = TX_AGAIN_FULL,
                                 .zero = 1,
                                 .offload = true };
    tx_str flags = { 0 }, words = { 0 };
    tx_config *cfg;
    run r = open_run(SHAPE "--recompute-activations", "h100");
    tx_config base = tx_without_layout(r.cfg);
    ASSERT_OK(tx_choice_config(&cfg, &base, &c));
    assert_non_null(cfg);
    assert_int_equal(cfg->world_size, 16);
    assert_int_equal(cfg->tensor_model_parallel_size, 2);
    assert_int_equal(cfg->pipeline_model_parallel_size, 2);
    assert_int_equal(tx_config_chunks(cfg), 2);
    assert_int_equal(cfg->micro_batch_size, 2);
    assert_true(cfg->sequence_parallel && !cfg->recompute_activations);
    assert_int_equal(tx_config_recompute(cfg).n_layers, 4);
    assert_int_equal(cfg->zero_stage, 1);
    assert_int_equal(cfg->offload_optimizer, TX_OFFLOAD_CPU);
    ASSERT_OK(tx_choice_flags(&flags, &c));
    assert_string_equal(flags.data,
                        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
                        "--num-layers-per-virtual-pipeline-stage 1 --sequence-parallel --micro-batch-size 2 "
                        "--zero-stage 1 --recompute-granularity full --recompute-method uniform "
                        "--recompute-num-layers 1 --offload-optimizer cpu");
    ASSERT_OK(tx_choice_words(&words, &c));
    assert_string_equal(words.data, "TP 2 with SP, PP 2 in chunks of 1 layer, DP 4, ZeRO 1, "
                                    "micro-batch 2, full recomputation, optimizer on the host");
    tx_str_free(&flags);
    tx_str_free(&words);
    tx_config_free(cfg);
    close_run(&r);
}

static void the_reason_is_the_largest_difference(void **state)
{
    (void)state;
    char text[96];
    const tx_time a = { .products = 2, .bubble = 1.5 },
                  b = { .products = 1, .bubble = 3, .exposed[TX_GROUP_DATA] = 0.25 },
                  c = { .products = 2, .bubble = 1.5, .exposed[TX_GROUP_DATA] = 0.0125 };
    assert_string_equal(tx_search_reason(text, &a, &b), "1.5 s less waiting for other stages");
    assert_string_equal(tx_search_reason(text, &a, &c), "12.5 ms less in data-parallel messages");
}

/* ---- how many ranks ---- */

/* Whole nodes, one after the other. */
static void as_few_ranks_as_are_enough(void **state)
{
    (void)state;
    static tx_search_result found, one;
    run r = open_run(SHAPE "--seq-length 512 --max-position-embeddings 512 --global-batch-size 48", "a100-40g");
    bool enough;
    double best[9]; /* of so many nodes; without a layout infinite */
    r.machine.ranks_per_node = 2;
    for (int64_t nodes = 1; nodes <= 8; nodes++) {
        ASSERT_OK(tx_search_layouts(&one, args_of(&r), 2 * nodes));
        best[nodes] = one.n ? one.best[0].time.iteration : INFINITY;
    }
    for (int64_t nodes = 1; nodes <= 8; nodes++) {
        double seconds = best[nodes];
        if (seconds == INFINITY) continue;
        ASSERT_OK(tx_search_ranks(&found, &enough, args_of(&r), seconds));
        assert_true(enough);
        assert_true(found.ranks <= 2 * nodes);
        assert_true(found.best[0].time.iteration <= seconds);
        for (int64_t fewer = 1; 2 * fewer < found.ranks; fewer++) assert_true(best[fewer] > seconds);
    }
    ASSERT_OK(tx_search_ranks(&found, &enough, args_of(&r), 1e-9));
    assert_false(enough);
    assert_true(found.n > 0);
    r.args.room = 1;
    r.args.gpu = false;
    ASSERT_OK(tx_search_ranks(&found, &enough, args_of(&r), 1));
    assert_false(enough);
    assert_int_equal(found.n, 0);
    assert_true(found.least.is.ranks > 0);
    close_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_timing_all_finds),           cmocka_unit_test(positions_are_divided_where_it_pays),
        cmocka_unit_test(offloads_only_where_nothing_else_fits), cmocka_unit_test(ranks_without_a_layout_have_none),
        cmocka_unit_test(the_runs_own_layout_does_not_count),    cmocka_unit_test(flags_are_the_layout),
        cmocka_unit_test(the_reason_is_the_largest_difference),  cmocka_unit_test(as_few_ranks_as_are_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
