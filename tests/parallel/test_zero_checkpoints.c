/* labels: parallel threads resume. A checkpoint of any of ZeRO's stages and any layout goes on in any other. */
#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

enum { HALF = 5, N = 10 }; /* iterations */

/* ---- runs ---- */

static void who_flags(char *text, size_t cap, const layout_case *c)
{
    char how[512], zero[1024];
    how_flags(how, sizeof how, c);
    zero_flags(zero, sizeof zero, c, scratch_dir);
    snprintf(text, cap, "%s%s", how, zero);
}

/* `what` with the case's layout and stage. r's folders, end and reference are the caller's. */
static void run_case(layout_run *r, const layout_case *c, const char *what)
{
    char who[1600], all[4096], words[256];
    sizes l = sizes_of(c);
    who_flags(who, sizeof who, c);
    snprintf(all, sizeof all, "%s %s", what, who);
    r->vocab = vocab_of(c);
    r->n_ranks = n_ranks_of(c);
    r->tp = l.tp;
    r->pp = l.pp;
    words_of(words, sizeof words, c);
    if (run_layout(r, all)) fail_msg("%s: %s", words, tx_last_error());
}

/* ---- from any layout to any other ---- */

/* Their batch is divided by all numbers of data ranks but two, which are not drawn. */
#define SHARED_BATCH " --num-layers 4 --micro-batch-size 1 --global-batch-size 24"

static const char *const models[] = { "gpt2 509", "llama 509 dropout", "gqa 509/512", "smooth 509/1",
                                      "gqa lora-parts" };

static int draw(const tx_rng *rng, uint64_t *drawn, int n)
{
    uint32_t w[4];
    tx_rng_u32x4(rng, (*drawn)++, w);
    return (int)(w[0] % (uint32_t)n);
}

/* Somebody's layout and stage; the model is left. */
static layout_case draw_who(layout_case c, const tx_rng *rng, uint64_t *drawn)
{
    static const int axis[] = { LAYOUT, SEQUENCE, STAGE, BUCKETS, STAYS };
    do
        for (int i = 0; i < LENGTH(axis); i++) c.at[axis[i]] = draw(rng, drawn, axes[axis[i]].n);
    while (!is_possible(&c) || 24 % sizes_of(&c).dp);
    return c;
}

static void any_layout_and_stage_resume_in_any_other(void **state)
{
    (void)state;
    const tx_rng rng = { .seed = 3 + sample_seed() };
    uint64_t drawn = 0;
    for (int i = 0; i < as_many(14, 2); i++) {
        static layout_run begun, resumed;
        char what[2048], pair[600], from[256], to[256];
        const reference *ref = NULL;
        layout_case model = case_of(models[i % LENGTH(models)]), a = draw_who(model, &rng, &drawn), b;
        do b = draw_who(model, &rng, &drawn);
        while (sizes_of(&a).dp == sizes_of(&b).dp || (!a.at[STAGE] && !b.at[STAGE]));
        what_flags(what, sizeof what, &model);
        strcat(what, SHARED_BATCH);
        ASSERT_OK(reference_of(&ref, what, vocab_of(&model)));
        begun = (layout_run){ .until = HALF, .save = in_scratch("of%d", i) };
        resumed = (layout_run){ .until = N, .load = begun.save, .ref = ref };
        run_case(&begun, &a, what);
        run_case(&resumed, &b, what);
        words_of(from, sizeof from, &a);
        words_of(to, sizeof to, &b);
        snprintf(pair, sizeof pair, "%s, then %s", from, to);
        if (is_within(&resumed, ref, HALF, fp32_bounds)) fail_msg("%s: %s", pair, tx_last_error());
        ASSERT_NEAR(resumed.rank[0].scored[0], begun.rank[0].scored[1], 1e-5, pair);
    }
    forget_references();
}

/* ---- the same layout: the same bits ---- */

static const struct {
    const char *words, *of, *in; /* the layout; stages before and after */
} same[] = {
    { "1x1x4 one dropout 509", "stage1", "stage3 nothing" },
    { "2x1x2 one bf16 lora-dropout 509", "stage3 few", "stage1" },
    { "1x1x3 one llama 509", "stage3 nothing", "stage2 small" },
    { "2x1x3 one sequence 509/512", "stage2 small", "stage0" },
    { "2x2x2 one bf16 gqa", "stage0", "stage3 norms" },
    { "1x2x2 one fp16 smooth 509", "stage3 few", "stage1 wait" },
    /* with more than one micro-batch a step it is also the same stage */
    { "1x1x4 dropout 509", "stage3 nothing", "stage3 nothing" },
    { "2x2x2 sequence interleaved bf16", "stage2 small", "stage2 small" },
    { "4x1x2 llama 509/1 uniform", "stage1", "stage1" },
    { "1x2x3 fp16 ramp-up", "stage3 reused", "stage3 reused" },
    { "1x2x2 lora 509", "stage2 small", "stage2 small" },
};

static layout_case with_stage(const char *words, const char *stage)
{
    char all[256];
    snprintf(all, sizeof all, "%s %s", words, stage);
    return case_of(all);
}

static void a_stage_goes_on_with_the_bits_of_another(void **state)
{
    (void)state;
    for (int i = 0; i < as_many(LENGTH(same), 3); i++) {
        static layout_run straight, begun, resumed;
        layout_case a = with_stage(same[i].words, same[i].of), b = with_stage(same[i].words, same[i].in);
        char what[2048], last[1024];
        what_flags(what, sizeof what, &a);
        straight = (layout_run){ .until = N, .save = in_scratch("straight%d", i) };
        begun = (layout_run){ .until = HALF, .save = in_scratch("begun%d", i) };
        resumed = (layout_run){ .until = N, .load = begun.save, .save = in_scratch("resumed%d", i) };
        run_case(&straight, &b, what);
        run_case(&begun, &a, what);
        run_case(&resumed, &b, what);
        outcome x = of_all_ranks(&straight), y = of_all_ranks(&resumed);
        if (has_the_bits_of(&y, &x, HALF, N, "of the run that went on"))
            fail_msg("%s %s, then %s: %s", same[i].words, same[i].of, same[i].in, tx_last_error());
        const char *manifest = "iter_0000010/manifest.json"; /* has the checksums of all other files */
        snprintf(last, sizeof last, "%s/%s", straight.save, manifest);
        if (a.at[STAGE] == b.at[STAGE]) assert_same_file(last, in_scratch("resumed%d/%s", i, manifest));
    }
}

/* ---- adapters ---- */

/* A checkpoint without adapters, of one layout, is what new ones begin beside in any other. */
static void adapters_begin_beside_any_base(void **state)
{
    (void)state;
    static const char *const words[] = { "2x1x2 lora-dropout sequence stage3 nothing", "1x2x3 lora-dropout stage2",
                                         "1x1x2 lora-dropout stage0" };
    static layout_run base, one, many;
    layout_case c = case_of("1x2x1");
    char what[2048];
    what_flags(what, sizeof what, &c);
    strcat(what, SHARED_BATCH);
    base = (layout_run){ .until = HALF, .save = in_scratch("base") };
    run_case(&base, &c, what);
    c = case_of("1x1x1 lora-dropout");
    what_flags(what, sizeof what, &c);
    strcat(what, SHARED_BATCH);
    one = (layout_run){ .until = HALF, .load = base.save };
    run_case(&one, &c, what);
    ASSERT_NEAR(one.rank[0].scored[0], base.rank[0].scored[1], 1e-5, "B is 0 at first");
    assert_true(one.rank[0].scored[1] < one.rank[0].scored[0]);
    for (int i = 0; i < LENGTH(words); i++) {
        layout_case k = case_of(words[i]);
        many = (layout_run){ .until = HALF, .load = base.save };
        run_case(&many, &k, what);
        bounds off = distance(&many.rank[0], &one.rank[0], 0, HALF);
        if (!(off.loss < 1e-6 && off.norm < 1e-5)) fail_msg("%s: off %.1e, %.1e", words[i], off.loss, off.norm);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(any_layout_and_stage_resume_in_any_other),
        SCRATCH_TEST(a_stage_goes_on_with_the_bits_of_another),
        SCRATCH_TEST(adapters_begin_beside_any_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
