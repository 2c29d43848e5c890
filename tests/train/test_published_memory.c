/* labels: unit parallel */
/* What a rank takes with gradients in half precision, beside what others have published: the table of the ZeRO paper,
 * and models that were trained on GPUs of 64 and 32 GB. */
#include "support.h"

#include "train/fit.h"

#define GPT "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --threads 1 "

static tx_config *parsed(const char *model, const char *more)
{
    char all[1024];
    tx_config *cfg;
    snprintf(all, sizeof all, "%s%s", model, more);
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", all));
    return cfg;
}

static tx_run_plan planned(const char *model, const char *more)
{
    tx_config *cfg = parsed(model, more);
    tx_run_plan plan;
    ASSERT_OK(tx_plan_run(&plan, cfg, 50257));
    tx_config_free(cfg);
    return plan;
}

/* ---- ZeRO, arXiv:1910.02054, table 1: GB of model states on each of N devices, with mixed-precision Adam ---- */

enum { N_DEVICES = 6 };
static const int devices[N_DEVICES] = { 1, 4, 16, 64, 256, 1024 };

/* The models are those of about so many parameters; the table's are of exactly so many. A digit of the table is a
 * tenth, a hundredth or one GB: it rounds some numbers and cuts others. */
static const struct paper_model {
    const char *flags;
    double params;
    struct {
        double gb, digit;
    } is[N_DEVICES][3]; /* [devices][stage - 1] */
} paper[] = {
    { GPT "--num-layers 36 --hidden-size 4096 --num-attention-heads 32 ",
      7.5e9,
      { { { 120, 1 }, { 120, 1 }, { 120, 1 } },
        { { 52.5, .1 }, { 41.3, .1 }, { 30, 1 } },
        { { 35.6, .1 }, { 21.6, .1 }, { 7.5, .1 } },
        { { 31.4, .1 }, { 16.6, .1 }, { 1.88, .01 } },
        { { 30.4, .1 }, { 15.4, .1 }, { 0.47, .01 } },
        { { 30.1, .1 }, { 15.1, .1 }, { 0.12, .01 } } } },
    { GPT "--num-layers 70 --hidden-size 12288 --num-attention-heads 96 ",
      128e9,
      { { { 2048, 1 }, { 2048, 1 }, { 2048, 1 } },
        { { 896, 1 }, { 704, 1 }, { 512, 1 } },
        { { 608, 1 }, { 368, 1 }, { 128, 1 } },
        { { 536, 1 }, { 284, 1 }, { 32, 1 } },
        { { 518, 1 }, { 263, 1 }, { 8, 1 } },
        { { 513, 1 }, { 257, 1 }, { 2, 1 } } } },
    { GPT "--num-layers 127 --hidden-size 25600 --num-attention-heads 160 ",
      1000e9,
      { { { 16000, 1 }, { 16000, 1 }, { 16000, 1 } },
        { { 7000, 1 }, { 5500, 1 }, { 4000, 1 } },
        { { 4750, 1 }, { 2875, 1 }, { 1000, 1 } },
        { { 4187, 1 }, { 2218, 1 }, { 250, 1 } },
        { { 4046, 1 }, { 2054, 1 }, { 62.5, .1 } },
        { { 4011, 1 }, { 2013, 1 }, { 15.6, .1 } } } },
};

/* What pads a vocabulary, and buckets so that they can be divided, is at most so much of a model. */
#define PADDING 5e-4

static void the_papers_table(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof paper / sizeof *paper; m++)
        for (int n = 0; n < N_DEVICES; n++)
            for (int stage = 1; stage <= 3; stage++) {
                char how[128];
                snprintf(how, sizeof how, "--fp16 --grad-dtype fp16 --zero-stage %d --world-size %d", stage,
                         devices[n]);
                tx_run_plan plan = planned(paper[m].flags, how);
                double params = 0, gb = paper[m].is[n][stage - 1].gb, digit = paper[m].is[n][stage - 1].digit;
                for (int k = 0; k < TX_N_PARAM_KINDS; k++) params += (double)plan.n_params[k];
                assert_true(fabs(params / paper[m].params - 1) < 0.01);
                double of_it = (double)tx_memory_states(&plan.memory) / params * paper[m].params / 1e9;
                if (!(fabs(of_it - gb) <= digit + PADDING * gb))
                    fail_msg("%.1fe9 parameters, %s: %.4f GB planned, the paper has %.4g", paper[m].params / 1e9, how,
                             of_it, gb);
            }
}

/* ---- published runs ---- */

#define B13 GPT "--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --checkpoint-activations "
#define B6  GPT "--num-layers 30 --hidden-size 4096 --num-attention-heads 32 --checkpoint-activations "
#define MIB 1048576.0

/* One tensor rank, one stage; of 64 GB a GPU. Left over, or missing: MiB. */
static void thirteen_billions_on_64_gb(void **state)
{
    (void)state;
    static const struct {
        int ranks, stage;
        const char *grads;
        int left;
    } runs[] = {
        { 8, 1, "fp16", -5468 },  { 8, 2, "fp16", 14272 }, { 16, 1, "fp16", 3725 },   { 16, 2, "fp16", 24998 },
        { 8, 1, "fp32", -27762 }, { 8, 2, "fp32", 11719 }, { 16, 1, "fp32", -18568 }, { 16, 2, "fp32", 23977 },
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char how[160];
        snprintf(how, sizeof how, "--fp16 --grad-dtype %s --zero-stage %d --world-size %d", runs[i].grads,
                 runs[i].stage, runs[i].ranks);
        tx_run_plan plan = planned(B13, how);
        double left = 65536 - (double)tx_memory_total(&plan.memory) / MIB;
        if (lround(left) != runs[i].left) fail_msg("%s: %.2f MiB of 64 GiB are left, not %d", how, left, runs[i].left);
    }
}

static void found(tx_fit *f, const char *model, const char *how, double gib)
{
    tx_config *cfg = parsed(model, how);
    tx_run_plan plan;
    ASSERT_OK(tx_plan_run(&plan, cfg, 50257));
    ASSERT_OK(tx_fit_find(f, cfg, 50257, &plan, (size_t)(gib * 1024 * MIB)));
    tx_config_free(cfg);
}

static const tx_change *change(const tx_fit *f, const char *flags)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->change[i].flags, flags)) return &f->change[i];
    fail_msg("\"%s\" is not among the changes", flags);
    return NULL;
}

/* On 8 ranks the formula alone, 4 Psi + 12 Psi / 8, is more than there is. */
static void eight_ranks_need_a_higher_stage(void **state)
{
    (void)state;
    static const char how[] = "--fp16 --grad-dtype fp16 --zero-stage 1 --world-size 8 --memory-limit 64GiB";
    tx_run_plan plan = planned(B13, how);
    tx_fit f;
    assert_true(plan.formula.whole == 4 && plan.formula.divided == 12 && plan.formula.n_ranks == 8);
    ASSERT_NEAR(tx_zero_formula_bytes(&plan.formula) / MIB / 1024, 65.84, 0.005, "GiB");
    found(&f, B13, how, 64);
    assert_string_equal(f.change[0].flags, "--zero-stage 2");
}

/* Where gradients are fp32 that they need not be is advised, and Megatron's flag is to be left out for it. */
static void half_gradients_are_a_change(void **state)
{
    (void)state;
    tx_fit f;
    found(&f, B13, "--fp16 --zero-stage 1 --world-size 16 --memory-limit 64GiB", 64);
    const tx_change *c = change(&f, "--grad-dtype fp16");
    assert_true(c->extra_compute == 0 && !*c->without);
    assert_int_equal(tx_memory_total(&c->memory) >> 20, 61810);
    found(&f, B6, "--bf16 --accumulate-allreduce-grads-in-fp32 --zero-stage 1 --world-size 64 --memory-limit 32GiB",
          32);
    assert_string_equal(change(&f, "--grad-dtype bf16")->without, "--accumulate-allreduce-grads-in-fp32");
    found(&f, B6, "--bf16 --grad-dtype bf16 --zero-stage 1 --world-size 64 --memory-limit 24GiB", 24);
    for (int i = 0; i < f.n; i++) assert_null(strstr(f.change[i].flags, "grad-dtype"));
}

static void six_billions_on_32_gb(void **state)
{
    (void)state;
    static const char json[] = "{\"fp16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1}}";
    char path[300], how[400];
    snprintf(path, sizeof path, "%s/ds.json", scratch_dir);
    write_file(path, json, strlen(json));
    snprintf(how, sizeof how, "--world-size 64 --deepspeed_config %s", path);
    tx_run_plan plan = planned(B6, how);
    assert_int_equal(tx_memory_total(&plan.memory) >> 20, 27515);
    strcat(how, " --accumulate-allreduce-grads-in-fp32");
    plan = planned(B6, how);
    assert_int_equal(tx_memory_total(&plan.memory) >> 20, 37861); /* of 32768 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_papers_table),
        cmocka_unit_test(thirteen_billions_on_64_gb),
        cmocka_unit_test(eight_ranks_need_a_higher_stage),
        cmocka_unit_test(half_gradients_are_a_change),
        SCRATCH_TEST(six_billions_on_32_gb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
