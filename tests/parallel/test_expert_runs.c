/* labels: parallel threads resume. Runs of models whose experts drop tokens, or have none or all of them: as those of
 * one rank in every layout and with all ways to compute again, and the same bits again, with random numbers too. */
#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

enum { N = 8, FEW = 3 }; /* iterations */

#define DEEPSPEED     "--num-experts 4 --expert-interval 1 --moe-min-capacity 1 --moe-loss-coeff 0.05 "
#define ROOM(factor)  "--moe-train-capacity-factor " factor " --moe-eval-capacity-factor " factor " "
#define CORE          "--num-experts 4 --moe-router-topk 2 --moe-expert-capacity-factor 0.8 --moe-z-loss-coeff 0.01 "
#define HIGHEST_FIRST "--topk 3 " ROOM("0.8")

/* Each way to drop, and to choose at random. */
static const char *const drops[] = {
    DEEPSPEED ROOM("0.7") "--topk 1 --mlp-type residual",
    DEEPSPEED ROOM("0.8") "--topk 2",
    DEEPSPEED ROOM("0.8") "--topk 2 --disable-moe-top2-2nd-expert-sampling",
    DEEPSPEED HIGHEST_FIRST,
    CORE "--moe-token-drop-policy position",
    CORE "--moe-token-drop-policy probs --moe-router-pre-softmax",
};

typedef struct plan {
    char what[2600], both[4096]; /* flags of what is computed, and all */
    int64_t vocab;
} plan;

/* `r`'s layout becomes that of the words.   @what more flags of what is computed   @how of how */
static void set_up(layout_run *r, plan *p, const char *words, const char *what, const char *how)
{
    char begin[2048], end[512];
    layout_case c = case_of(words);
    sizes l = sizes_of(&c);
    what_flags(begin, sizeof begin, &c);
    how_flags(end, sizeof end, &c);
    snprintf(p->what, sizeof p->what, "%s %s", begin, what);
    snprintf(p->both, sizeof p->both, "%s %s %s", p->what, end, how);
    r->vocab = p->vocab = vocab_of(&c);
    r->n_ranks = n_ranks_of(&c);
    r->tp = l.tp;
    r->pp = l.pp;
}

/* `r->until` iterations. */
static void run_of(layout_run *r, const char *words, const char *what, const char *how)
{
    plan p;
    set_up(r, &p, words, what, how);
    if (run_layout(r, p.both)) fail_msg("%s, %s %s: %s", words, what, how, tx_last_error());
}

static void is_as_one_rank(const char *words, const char *how, const char *what, bounds allowed)
{
    static layout_run r;
    const reference *ref = NULL;
    plan p;
    r = (layout_run){ .until = N };
    set_up(&r, &p, words, what, how);
    ASSERT_OK(reference_of(&ref, p.what, p.vocab));
    r.ref = ref;
    tx_status st = run_layout(&r, p.both);
    if (!st) st = is_within(&r, ref, 0, allowed);
    if (st) fail_msg("%s %s, %s: %s", words, how, what, tx_last_error());
    if (allowed.loss > fp32_bounds.loss) return;
    if (r.rank[0].routed != ref->o.routed || memcmp(&r.rank[0].dropped, &ref->o.dropped, sizeof(double)) != 0)
        fail_msg("%s, %s: tokens choose otherwise than on one rank, or %g are dropped and not %g", words, what,
                 r.rank[0].dropped, ref->o.dropped);
}

/* ---- what is dropped ---- */

#define DIVIDED(n) "--moe-expert-parallel-size " n " --expert-tensor-parallel-size 1 "
#define SPLIT(n)   "--moe-expert-parallel-size " n " --enable-expert-tensor-parallelism "

/* Data ranks, too: their micro-batches are those that one rank has one after another. And ranks that divide positions:
 * an expert's room is for tokens of all of them, in the order of positions, which is not that of ranks in a ring. */
static void layouts_drop_what_one_rank_does(void **state)
{
    (void)state;
    static const char *const layout[][2] = {
        { "1x1x4 dropout", DIVIDED("4") },
        { "1x1x4 ring2 dropout", DIVIDED("2") },
        { "2x1x1 sequence dropout", "" },
        { "1x1x2 ulysses2 dropout", "" },
        { "2x1x2 sequence dropout", SPLIT("2") },
        { "2x1x4 gather4 sequence dropout", SPLIT("4") },
        { "2x2x2 sequence uniform dropout", DIVIDED("4") },
        { "1x1x4 both4 block dropout", DIVIDED("4") },
        { "1x2x2 interleaved dropout", "" },
        { "1x2x2 ring2 zbh1 dropout", DIVIDED("2") },
    };
    for (int k = 0; k < LENGTH(drops); k++)
        for (int i = 0; i < as_many(LENGTH(layout), 2); i++) {
            const char *const *l = layout[(i + 3 * k) % LENGTH(layout)];
            is_as_one_rank(l[0], l[1], drops[k], fp32_bounds);
        }
    for (int i = 0; i < n_known; i++) assert_true(all_known[i]->ref.o.dropped > 100);
    forget_references();
}

/* And so is the auxiliary loss, which is left out here. All choices are of N iterations, 4 layers, 16 samples of 16
 * tokens. Noise is that of the sample, whatever the micro-batch. */
static void capacity_is_of_a_micro_batch(void **state)
{
    (void)state;
#define NO_LOSS DEEPSPEED "--moe-loss-coeff 0 "
    static const char *const what[] = { NO_LOSS HIGHEST_FIRST, NO_LOSS "--topk 3 --disable-moe-token-dropping",
                                        NO_LOSS "--topk 2 --disable-moe-token-dropping" };
    static layout_run two, four;
    for (int k = 0; k < LENGTH(what); k++) {
        two = four = (layout_run){ .until = N };
        run_of(&two, "1x1x2", what[k], "");
        run_of(&four, "1x1x2", what[k], "--micro-batch-size 4");
        bool same = distance(&two.rank[0], &four.rank[0], 0, N).loss <= fp32_bounds.loss;
        assert_true(same == (k > 0));
        assert_true((two.rank[0].dropped > 0) == !k);
        assert_true(two.rank[0].dropped < 3 * N * 4 * 16 * 16);
        assert_true((two.rank[0].routed == four.rank[0].routed) == same);
    }
}

static void assert_same_run(const layout_run *a, const layout_run *b, const char *what)
{
    for (int i = 0; i < a->n_ranks; i++)
        if (memcmp(&a->rank[i], &b->rank[i], sizeof a->rank[i]) != 0)
            fail_msg("%s: rank %d has other bits (loss %.17g and %.17g)", what, i, a->rank[i].loss[FEW - 1],
                     b->rank[i].loss[FEW - 1]);
}

/* Computed again, tokens draw the same random numbers; and so does another run. */
static void what_is_computed_again_drops_the_same(void **state)
{
    (void)state;
    static layout_run first, again;
    for (int k = 0; k < as_many(LENGTH(drops), 2); k++)
        for (int i = 0; i < LENGTH(recompute_choices); i++) {
            const char *words = k % 2 ? "2x1x2 sequence dropout" : "1x2x2 dropout";
            char how[256];
            snprintf(how, sizeof how, "%s%s", recompute_choices[i].flags, k % 2 ? " " DIVIDED("4") : "");
            first = i ? first : (layout_run){ .until = FEW };
            again = (layout_run){ .until = FEW };
            if (!i) run_of(&first, words, drops[k], how);
            run_of(&again, words, drops[k], how);
            assert_same_run(&first, &again, recompute_choices[i].word);
        }
}

/* ---- checkpoints and ZeRO ---- */

/* From stage 2 on each micro-batch is summed over the ranks. */
#define SUMS_AS_ZERO "--reduce-every-micro-batch "

static void every_stage_has_the_bits_of_none(void **state)
{
    (void)state;
    static layout_run base, r;
    for (int k = 0; k < LENGTH(drops); k += 3) {
        base = (layout_run){ .until = FEW };
        const char *divided = k ? SUMS_AS_ZERO DIVIDED("2") : SUMS_AS_ZERO;
        run_of(&base, "2x1x2 sequence dropout", drops[k], divided);
        const outcome none = of_all_ranks(&base);
        for (int stage = 1; stage <= 3; stage++) {
            char how[256];
            snprintf(how, sizeof how, "%s--zero-stage %d %s", divided, stage, stage == 3 ? NONE_STAY : "");
            r = (layout_run){ .until = FEW };
            run_of(&r, "2x1x2 sequence dropout", drops[k], how);
            const outcome o = of_all_ranks(&r);
            ASSERT_OK(has_the_bits_of(&o, &none, 0, FEW, "at stage 0"));
            assert_true(o.routed == none.routed);
        }
    }
}

/* One after another from the checkpoint of the one before: as one rank that was never stopped. */
static void a_checkpoint_resumes_in_any_layout(void **state)
{
    (void)state;
    static const struct {
        const char *words, *how;
        int64_t until;
    } chain[] = {
        { "2x2x2 sequence dropout", "", 2 }, { "1x1x4 dropout", "--zero-stage 3 " NONE_STAY, 4 },
        { "1x1x1 dropout", "", 5 },          { "2x1x2 dropout", DIVIDED("4") "--zero-stage 1", 6 },
        { "1x1x4 ring4 dropout", "", 7 },    { "4x1x2 sequence dropout", SPLIT("2") "--zero-stage 2", N },
    };
    for (int k = 0; k < as_many(LENGTH(drops), 1); k++) {
        const reference *ref = NULL;
        int64_t from = 0;
        for (int i = 0; i < LENGTH(chain); i++) {
            static layout_run r;
            const char *eight = "--num-layers 4"; /* whatever the layout */
            plan p;
            r = (layout_run){ .until = chain[i].until,
                              .load = i ? in_scratch("chain%d", k) : NULL,
                              .save = in_scratch("chain%d", k) };
            char what[1024];
            snprintf(what, sizeof what, "%s %s", drops[k], eight);
            set_up(&r, &p, chain[i].words, what, chain[i].how);
            if (!ref) ASSERT_OK(reference_of(&ref, p.what, p.vocab));
            bool last = i == LENGTH(chain) - 1;
            if (last) r.ref = ref;
            tx_status st = run_layout(&r, p.both);
            if (!st && !last) r.rank[0].scored[1] = ref->o.scored[1]; /* not known of iterations in between */
            if (!st) st = is_within(&r, ref, from, fp32_bounds);
            if (st) fail_msg("%s, then %s: %s", drops[k], chain[i].words, tx_last_error());
            from = chain[i].until;
        }
    }
    forget_references();
}

/* Three iterations, and two that are saved and one that goes on from there. */
static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        static layout_run straight, begun, resumed;
        const char *words = "2x1x2 sequence dropout", *how = k ? DIVIDED("2") "--zero-stage 3" : "";
        straight = (layout_run){ .until = FEW };
        begun = (layout_run){ .until = 2, .save = in_scratch("begun%d", k) };
        resumed = (layout_run){ .until = FEW, .load = begun.save };
        run_of(&straight, words, drops[k], how);
        run_of(&begun, words, drops[k], how);
        run_of(&resumed, words, drops[k], how);
        ASSERT_OK(has_the_bits_of(&resumed.rank[0], &straight.rank[0], 2, FEW, "of a run that was not stopped"));
        assert_true(begun.rank[0].routed + resumed.rank[0].routed == straight.rank[0].routed);
    }
}

/* ---- an expert that has no token, one that has all ---- */

/* Weights of the routers become 0, so that all choose the first expert. */
static void blind(tx_trainer *t)
{
    const tx_params *ps = &t->model->params;
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        if (strstr(p->name, "router.weight"))
            memset(t->zero.master + p->offset, 0, (size_t)p->numel * sizeof *t->zero.master);
    }
}

/* After a step, by how much each number of a parameter has changed beyond weight decay: the least and the most. */
typedef struct moved {
    double least, most;
} moved;

#define DECAYED (1 - 2e-3 * 0.1)

static moved moved_by(const reference *r, const char *name)
{
    const tx_param *p = reference_param(r, name);
    moved m = { INFINITY, 0 };
    assert_non_null(p);
    for (int64_t i = p->offset; i < p->offset + p->numel; i++) {
        double by = fabs((double)r->last[i] - (double)r->first[i] * DECAYED);
        m.least = fmin(m.least, by);
        m.most = fmax(m.most, by);
    }
    return m;
}

#define STEADY "--lr-warmup-iters 0 --lr-decay-style constant --min-lr 0 --topk 1 --num-layers 4 "

/* In the first step only the first expert of a layer learns, Adam's lr in each of its weights; the others have a
 * gradient of 0 and decay. ZeRO 1 and 3 say the same, and go on as one rank does, where the others get tokens. */
static void all_tokens_choose_one_expert(void **state)
{
    (void)state;
    static const char *const what[] = { DEEPSPEED STEADY "--disable-moe-token-dropping", DEEPSPEED STEADY ROOM("1") };
    static const char *const stages[] = { "--zero-stage 1", DIVIDED("2") "--zero-stage 3 " NONE_STAY,
                                          DIVIDED("4") "--context-parallel-size 2 " };
    for (int k = 0; k < 2; k++) {
        static layout_run r, one;
        reference first = { 0 };
        double dropped = k ? 3. / 4 * 4 * 16 * 16 : 0; /* 8 of 32 tokens of a micro-batch stay, in 4 layers */
        r = (layout_run){ .tamper = blind, .save = in_scratch("blind%d", k) };
        run_of(&r, "1x1x1", what[k], "");
        one = (layout_run){ .until = 1, .load = r.save, .keep = &first };
        run_of(&one, "1x1x1", what[k], "");
        ASSERT_NEAR(one.rank[0].dropped, dropped, 0, "dropped choices");
        for (int e = 0; e < 4; e++) {
            char name[TX_PARAM_NAME_MAX];
            snprintf(name, sizeof name, "encoder.layers.2.mlp.experts.%d.dense_h_to_4h.weight", e);
            moved m = moved_by(&first, name);
            if (e && !(m.most < 1e-7)) fail_msg("%s changes by %g, but no token has chosen it", name, m.most);
            if (!e) assert_true(m.most > 1.9e-3 && m.most < 2.1e-3);
        }
        reference_free(&first);
        one = (layout_run){ .until = FEW, .load = r.save };
        run_of(&one, "1x1x1", what[k], "");
        for (int i = 0; i < LENGTH(stages); i++) {
            r = (layout_run){ .until = FEW, .load = in_scratch("blind%d", k) };
            run_of(&r, "2x1x2", what[k], stages[i]);
            assert_true(r.rank[0].routed == one.rank[0].routed);
            bounds off = distance(&r.rank[0], &one.rank[0], 0, FEW);
            assert_true(off.loss <= fp32_bounds.loss && off.norm <= fp32_bounds.norm);
        }
    }
}

/* 32 tokens of a micro-batch, 100 experts; and where there is room for less than one token there is for one. */
static void more_experts_than_tokens(void **state)
{
    (void)state;
    static const char *const what[] = {
        "--num-experts 100 --expert-interval 2 --topk 1 --moe-ffn-hidden-size 8 --disable-moe-token-dropping",
        "--num-experts 4 --expert-interval 2 --topk 1 --moe-min-capacity 0 " ROOM("1e-6")
    };
    for (int k = 0; k < 2; k++) {
        static layout_run base, r;
        base = r = (layout_run){ .until = FEW };
        run_of(&base, "1x1x2 dropout", what[k], SUMS_AS_ZERO);
        run_of(&r, "1x1x2 dropout", what[k], SUMS_AS_ZERO "--zero-stage 3 " NONE_STAY);
        const outcome none = of_all_ranks(&base), o = of_all_ranks(&r);
        ASSERT_OK(has_the_bits_of(&o, &none, 0, FEW, "at stage 0"));
        /* of 32 tokens of a micro-batch, 8 of which make a batch, in 2 layers: each expert keeps at most one */
        double all = FEW * 8 * 2 * 32, kept = all - o.dropped;
        if (k) assert_true(kept >= FEW * 8 * 2 && kept <= FEW * 8 * 2 * 4);
        if (!k) assert_true(o.dropped == 0); /* NOLINT: whole numbers */
        is_as_one_rank("2x1x2 sequence dropout", DIVIDED("4"), what[k], fp32_bounds);
    }
    forget_references();
}

/* ---- halves ---- */

/* A step whose gradients overflow changes nothing, and those after it are as with every stage. */
static void steps_that_overflow_are_left_out(void **state)
{
    (void)state;
    static layout_run r[3];
    const char *what = DEEPSPEED ROOM("0.8") "--topk 2 --fp16 --initial-loss-scale 33554432 --hysteresis 1";
    static const char *const stages[] = { SUMS_AS_ZERO, SUMS_AS_ZERO "--zero-stage 1", ("--zero-stage 3 " NONE_STAY) };
    for (int i = 0; i < 3; i++) {
        r[i] = (layout_run){ .until = N };
        run_of(&r[i], "1x1x2 dropout", what, stages[i]);
        const outcome none = of_all_ranks(&r[0]), o = of_all_ranks(&r[i]);
        if (i) ASSERT_OK(has_the_bits_of(&o, &none, 0, N, "at stage 0"));
    }
    bool overflows = !isfinite(r[0].rank[0].norm[0]), then_does_not = isfinite(r[0].rank[0].norm[N - 1]);
    assert_true(overflows && then_does_not);
    assert_true(r[0].rank[0].scored[1] < r[0].rank[0].scored[0]);
}

/* By how much a parameter of a run on one rank is off that of another one, by its norm. */
static double off_by(const reference *a, const reference *b, const char *name)
{
    const tx_param *p = reference_param(b, name);
    double off = 0, size = 0;
    assert_non_null(p);
    for (int64_t i = p->offset; i < p->offset + p->numel; i++) {
        off += pow((double)a->last[i] - (double)b->last[i], 2);
        size += pow((double)b->last[i], 2);
    }
    return sqrt(off / size);
}

/* In bf16 another layout rounds a router's input elsewhere, and a token whose experts are nearly even chooses others,
 * as it does on one rank in bf16 and in fp32; so does one number that is the sum of many, such as a bias of two. A
 * layout is right when it is no further from fp32 than one rank in bf16 is; of two draws from the same noise one may be
 * the larger. Where all experts are chosen, there is nothing to choose. */
#define AS_NOISY 3

static void halves_are_as_exact_as_on_one_rank(void **state)
{
    (void)state;
#define SHARED                                                                                                         \
    "--num-experts 4 --moe-layer-freq 2 --moe-router-score-function sigmoid --moe-shared-expert-intermediate-size 16 " \
    "--moe-shared-expert-gate "
#define RESIDUAL DEEPSPEED "--mlp-type residual --disable-moe-token-dropping "
    static const struct {
        const char *what;
        bool chooses;
    } models[] = { { SHARED "--moe-router-topk 4", false },
                   { RESIDUAL "--topk 1", true },
                   { RESIDUAL "--topk 4", false },
                   { SHARED "--moe-router-topk 2", true } };
    for (int k = 0; k < as_many(LENGTH(models), 2); k++) {
        const char *what = models[k].what;
        static layout_run r;
        const reference *half = NULL, *exact = NULL;
        plan p;
        char bf16[3000];
        r = (layout_run){ .until = N };
        set_up(&r, &p, "2x1x1 sequence", what, "--bf16");
        snprintf(bf16, sizeof bf16, "%s --bf16", p.what);
        ASSERT_OK(reference_of(&exact, p.what, p.vocab));
        ASSERT_OK(reference_of(&half, bf16, p.vocab));
        r.ref = exact;
        ASSERT_OK(run_layout(&r, p.both));
        bounds noise = distance(&half->o, &exact->o, 0, N), off = distance(&r.rank[0], &exact->o, 0, N);
        assert_true(off.loss <= AS_NOISY * noise.loss && off.norm <= AS_NOISY * noise.norm);
        assert_true((half->o.routed == exact->o.routed) == !models[k].chooses);
        for (int i = 0; i < r.n_ranks; i++) {
            double here = off_by(half, exact, r.off_in[i]);
            if (!(r.off[i] <= fmax(half_bounds.weights, AS_NOISY * here)))
                fail_msg("%s: %s is off from fp32 by %.2e on rank %d, and on one rank by %.2e", what, r.off_in[i],
                         r.off[i], i, here);
        }
    }
    forget_references();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_drop_what_one_rank_does),
        cmocka_unit_test(capacity_is_of_a_micro_batch),
        cmocka_unit_test(what_is_computed_again_drops_the_same),
        cmocka_unit_test(every_stage_has_the_bits_of_none),
        SCRATCH_TEST(a_checkpoint_resumes_in_any_layout),
        SCRATCH_TEST(a_resumed_run_has_the_same_bits),
        SCRATCH_TEST(all_tokens_choose_one_expert),
        cmocka_unit_test(more_experts_than_tokens),
        cmocka_unit_test(steps_that_overflow_are_left_out),
        cmocka_unit_test(halves_are_as_exact_as_on_one_rank),
    };
    reference_steps = N;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
