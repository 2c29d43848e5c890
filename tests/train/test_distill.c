/* labels: golden parallel resume threads */
/* A student and its teacher: the numbers of PyTorch, every layout those of one rank, and what is refused. */
#include "../parallel/layout_run.h"
#include "api/engine_internal.h"
#include "checkpoint/safetensors.h"
#include "train/plan.h"
#include "triax/engine.h"

/* ---- PyTorch's numbers: tests/data/golden/distill ---- */

static int32_t *rows_of(const json_t *batch)
{
    static int32_t tokens[4 * 65];
    size_t j, i, n = 0;
    json_t *row, *id;
    json_array_foreach(json_object_get(batch, "input_ids"), j, row) json_array_foreach(row, i, id) tokens[n++] =
        (int32_t)json_integer_value(id);
    return tokens;
}

/* Each gradient's norm, and its product with cos(0), cos(1), ... */
static double compare_gradients(const char *ours, const json_t *want)
{
    tx_safetensors *a;
    const char *name;
    json_t *numbers;
    double most = 0;
    ASSERT_OK(tx_safetensors_open(&a, ours));
    json_object_foreach((json_t *)want, name, numbers)
    {
        const tx_st_tensor *x = tx_safetensors_find(a, name);
        double norm = json_number_value(json_array_get(numbers, 0)),
               product = json_number_value(json_array_get(numbers, 1));
        double sum = 0, along = 0;
        if (!x) fail_msg("%s: missing", name);
        float *u = malloc(x->bytes);
        ASSERT_OK(tx_st_read_f32(x, u, false));
        for (size_t k = 0; k < x->bytes / 4; k++) {
            sum += (double)u[k] * (double)u[k];
            along += (double)u[k] * cos((double)k);
        }
        double off = fmax(fabs(sqrt(sum) - norm), fabs(along - product));
        ASSERT_NEAR(off, 0, 1e-6, name);
        ASSERT_NEAR(off / norm, 0, 1e-5, name);
        if (off > most) most = off;
        free(u);
    }
    tx_safetensors_close(a);
    return most;
}

static void a_student_has_the_numbers_of_pytorch(void **state)
{
    (void)state;
    json_t *runs = load_json(data_path("golden/distill/result.json")), *run, *row;
    json_t *batches = load_json(data_path("golden/gpt2/train_batches.json"));
    char student[4096], teacher[4096], flags[12000];
    size_t r, i;
    snprintf(student, sizeof student, "%s", data_path("golden/gpt2"));
    snprintf(teacher, sizeof teacher, "%s", data_path("golden/llama"));
    json_array_foreach(runs, r, run)
    {
        tx_config *cfg;
        tx_engine *e;
        double loss, most[3] = { 0 };
        snprintf(
            flags, sizeof flags,
            "--load %s --kd --load-teacher %s --kd-beta-ce %.17g --kd-temp %.17g --seq-length 64 --micro-batch-size 4 "
            "--train-iters 10 --lr 1e-3 --lr-decay-style constant --data-path none --weight-decay 0.01 --clip-grad 1 "
            "--hidden-dropout 0 --attention-dropout 0 --dump-step 1 %s",
            student, teacher, json_number_value(json_object_get(run, "factor")),
            json_number_value(json_object_get(run, "temperature")), in_scratch("%s", r ? "second" : "first"));
        ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
        ASSERT_OK(tx_engine_create(&e, cfg, 512));
        const tx_trainer *t = e->trainer;
        assert_string_equal(t->model->loss_name[1], "kd loss");
        json_array_foreach(json_object_get(run, "steps"), i, row)
        {
            ASSERT_OK(tx_engine_forward(e, rows_of(json_array_get(batches, i % 5)), &loss));
            ASSERT_OK(tx_engine_backward(e));
            ASSERT_OK(tx_engine_step(e));
            double lm = json_number_value(json_object_get(row, "lm")),
                   kd = json_number_value(json_object_get(row, "kd")),
                   norm = json_number_value(json_object_get(row, "grad_norm"));
            const double off[3] = { fabs(t->losses[0] - lm), fabs(t->losses[1] - kd),
                                    fabs(t->grad_norm - norm) / norm };
            ASSERT_NEAR(t->losses[0], lm, i ? 2e-5 : 1e-6, "lm loss");
            ASSERT_NEAR(t->losses[1], kd, i ? 2e-5 : 1e-6, "kd loss");
            ASSERT_NEAR(t->grad_norm, norm, (i ? 1e-4 : 1e-6) * norm, "gradient norm");
            for (int k = 0; k < 3; k++) most[k] = fmax(most[k], off[k]);
        }
        char grads[4200];
        snprintf(grads, sizeof grads, "%s/grads.safetensors", in_scratch("%s", r ? "second" : "first"));
        double off = compare_gradients(grads, json_object_get(run, "gradients"));
        print_message("off by: lm loss %.1e, kd loss %.1e, gradient norm %.1e, gradients %.1e\n", most[0], most[1],
                      most[2], off);
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    json_decref(runs);
    json_decref(batches);
}

/* ---- layouts ---- */

enum { VOCAB = 512, STEPS = 4 };

#define RUN                                                                                                       \
    "--seq-length 16 --max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --seed 5 " \
    "--train-iters 64 --data-path none --tokenizer-type NullTokenizer --vocab-size 511 --threads 1 "
#define STUDENT RUN "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --kd --kd-temp 2 --kd-beta-ce 0.8 "

#define TEACHER RUN "--num-layers 8 --hidden-size 48 --num-attention-heads 4 --lr 1e-2 "

static char teacher_dir[4096], experts_dir[4096];

/* @flags %s: the teacher's folder */
static layout_run run_of(const char *flags, const char *teacher, int ranks, int tp, int pp)
{
    static layout_run r;
    char all[6000];
    r = (layout_run){ .vocab = VOCAB, .n_ranks = ranks, .tp = tp, .pp = pp, .until = STEPS };
    snprintf(all, sizeof all, "%s --load-teacher %s", flags, teacher);
    ASSERT_OK(run_layout(&r, all));
    return r;
}

static void make_teacher(const char *flags, char *dir, const char *name)
{
    layout_run r = { .vocab = VOCAB, .n_ranks = 1, .tp = 1, .pp = 1, .until = 8, .save = dir };
    snprintf(dir, 4096, "%s", in_scratch("%s", name));
    ASSERT_OK(run_layout(&r, flags));
}

static int make_teachers(void **state)
{
    if (scratch_setup(state)) return -1;
    make_teacher(TEACHER, teacher_dir, "teacher");
    make_teacher(RUN
                 "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --num-experts 4 --topk 2 --expert-interval 2 "
                 "--disable-moe-token-dropping --swiglu --ffn-hidden-size 64 --lr 1e-2",
                 experts_dir, "experts");
    return 0;
}

static void layouts_are_as_one_rank(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int ranks, tp, pp;
    } layouts[] = {
        { "", 2, 2, 1 },
        { "", 2, 1, 2 },
        { "--zero-stage 3", 2, 1, 1 },
        { "--sequence-parallel", 2, 2, 1 },
        { "--num-layers-per-virtual-pipeline-stage 1", 2, 1, 2 },
        { "--zero-stage 1 --recompute-granularity full --recompute-method uniform", 4, 1, 2 },
        { "--zero-stage 2 --sequence-parallel --pipeline-schedule 1f1b", 8, 2, 2 },
        { "--context-parallel-size 2", 2, 1, 1 },
        { "--ds-sequence-parallel-size 2 --sequence-parallel", 4, 2, 1 },
        { "--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2", 8, 1, 2 },
        { "--context-parallel-size 2 --cp-comm-type allgather --zero-stage 3", 4, 1, 1 },
    };
    static const char *const students[] = {
        STUDENT,
        STUDENT
        "--label-smoothing 0.1 --z-loss-weight 1e-2 --reset-attention-mask --eod-mask-loss --reset-position-ids ",
        STUDENT "--num-experts 4 --topk 2 --disable-moe-token-dropping "
    };
    for (int m = 0; m < 2; m++)
        for (size_t k = 0; k < sizeof students / sizeof *students; k++) {
            const char *teacher = m ? experts_dir : teacher_dir;
            const layout_run one = run_of(students[k], teacher, 1, 1, 1);
            for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
                if (m && strstr(layouts[i].flags, "virtual")) continue; /* fewer layers */
                if ((m || k) && i % 3 != (size_t)(m + (int)k) % 3) continue;
                char flags[2000];
                print_message("%s\n", layouts[i].flags);
                snprintf(flags, sizeof flags, "%s %s", students[k], layouts[i].flags);
                const layout_run r = run_of(flags, teacher, layouts[i].ranks, layouts[i].tp, layouts[i].pp);
                for (int n = 0; n < STEPS; n++) {
                    ASSERT_NEAR(r.rank[0].loss[n], one.rank[0].loss[n], 2e-5, flags);
                    ASSERT_NEAR(r.rank[0].norm[n], one.rank[0].norm[n], 1e-4 * one.rank[0].norm[n], flags);
                }
                ASSERT_NEAR(r.rank[0].scored[1], one.rank[0].scored[1], 2e-5, flags);
            }
        }
}

/* The rate is high, so that the runs differ where a student learns from a teacher. */
static void the_teacher_counts(void **state)
{
    (void)state;
    const layout_run taught = run_of(STUDENT, teacher_dir, 1, 1, 1),
                     mos = run_of(STUDENT "--kd-temp 2", teacher_dir, 1, 1, 1);
    const layout_run other = run_of(STUDENT, experts_dir, 1, 1, 1);
    layout_run alone = { .vocab = VOCAB, .n_ranks = 1, .tp = 1, .pp = 1, .until = STEPS };
    ASSERT_OK(run_layout(&alone, RUN "--num-layers 4 --hidden-size 32 --num-attention-heads 4"));
    assert_true(taught.rank[0].scored[0] == alone.rank[0].scored[0]); /* an evaluation has no teacher */
    assert_true(taught.rank[0].scored[1] != alone.rank[0].scored[1]);
    assert_true(taught.rank[0].scored[1] != other.rank[0].scored[1]);
    assert_true(taught.rank[0].loss[0] > alone.rank[0].loss[0]);
    ASSERT_OK(has_the_bits_of(&taught.rank[0], &mos.rank[0], 0, STEPS, "of the same run"));
}

/* What other programs' folders hold is the same teacher; samples that a curriculum cuts are divided by all of the
 * length; and in fp16 the loss is scaled. */
static void a_teacher_of_any_format(void **state)
{
    (void)state;
    char megatron[4096], deepspeed[4096], parts[2000];
    make_teacher(TEACHER "--save-format megatron", megatron, "megatron");
    make_teacher(TEACHER "--save-format deepspeed", deepspeed, "deepspeed");
    const layout_run native = run_of(STUDENT, teacher_dir, 1, 1, 1), a = run_of(STUDENT, megatron, 1, 1, 1),
                     b = run_of(STUDENT, deepspeed, 1, 1, 1);
    ASSERT_OK(has_the_bits_of(&a.rank[0], &native.rank[0], 0, STEPS, "of the native teacher"));
    ASSERT_OK(has_the_bits_of(&b.rank[0], &native.rank[0], 0, STEPS, "of the native teacher"));
    const char *cut =
        STUDENT "--curriculum-schedule fixed_linear --curriculum-min-difficulty 8 "
                "--curriculum-max-difficulty 16 --curriculum-total-step 2 --curriculum-difficulty-step 8 ";
    snprintf(parts, sizeof parts, "%s --sequence-parallel", cut);
    const layout_run one = run_of(cut, teacher_dir, 1, 1, 1), four = run_of(parts, teacher_dir, 4, 2, 2);
    const layout_run half = run_of(STUDENT "--fp16 --initial-loss-scale 1024 ", teacher_dir, 1, 1, 1);
    for (int n = 0; n < STEPS; n++) {
        ASSERT_NEAR(four.rank[0].loss[n], one.rank[0].loss[n], 2e-5, "a curriculum");
        ASSERT_NEAR(half.rank[0].loss[n], native.rank[0].loss[n], 5e-3, "fp16");
        ASSERT_NEAR(half.rank[0].norm[n], native.rank[0].norm[n], 2e-2 * native.rank[0].norm[n], "fp16");
    }
}

/* Nothing of the teacher is saved. */
static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    static const char *const flags[] = { STUDENT, STUDENT "--zero-stage 3 --bf16" };
    for (int i = 0; i < 2; i++) {
        char all[6000], dir[4200];
        int n = i ? 2 : 1;
        layout_run straight = { .vocab = VOCAB, .n_ranks = n, .tp = 1, .pp = 1, .until = STEPS }, first = straight,
                   rest;
        snprintf(all, sizeof all, "%s --load-teacher %s", flags[i], teacher_dir);
        snprintf(dir, sizeof dir, "%s", in_scratch("%s", i ? "half" : "whole"));
        first.until = STEPS / 2;
        first.save = dir;
        rest = straight;
        rest.load = dir;
        ASSERT_OK(run_layout(&straight, all));
        ASSERT_OK(run_layout(&first, all));
        ASSERT_OK(run_layout(&rest, all));
        const outcome a = of_all_ranks(&rest), b = of_all_ranks(&straight);
        ASSERT_OK(has_the_bits_of(&a, &b, STEPS / 2, STEPS, "of one that was not interrupted"));
    }
}

/* ---- memory ---- */

static void a_plan_has_the_teacher(void **state)
{
    (void)state;
    tx_config *cfg, *alone;
    tx_run_plan with, without;
    char flags[6000];
    snprintf(flags, sizeof flags, STUDENT "--bf16 --load-teacher %s --num-layers-teacher 8 --hidden-size-teacher 48",
             teacher_dir);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_config_parse_string(&alone, "pretrain-gpt",
                                     RUN "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --bf16"));
    ASSERT_OK(tx_plan_run(&with, cfg, VOCAB));
    ASSERT_OK(tx_plan_run(&without, alone, VOCAB));
    assert_int_equal(without.memory.teacher, 0);
    /* 2 bytes each, and the end of a line of memory for each of some hundred tensors: embeddings, 8 layers of 12 h^2 +
     * 13 h, the last norm */
    int64_t h = 48, n = (512 + 16) * h + 8 * (12 * h * h + 13 * h) + 2 * h;
    ASSERT_NEAR((double)with.memory.teacher, 2.0 * (double)n, 2.0 * 64 * 100, "the teacher's bytes");
    assert_true(with.memory.params == without.memory.params && with.memory.optimizer == without.memory.optimizer);
    assert_true(with.memory.activations > without.memory.activations);
    tx_trainer *t;
    ASSERT_OK(tx_source_teacher(cfg, "", &tx_comm_self));
    ASSERT_OK(tx_plan_run(&with, cfg, VOCAB));
    ASSERT_OK(tx_trainer_create(&t, cfg, VOCAB, -1, true, NULL));
    tx_memory taken = tx_trainer_memory(t);
    assert_int_equal(taken.activations, with.memory.activations);
    assert_int_equal(taken.teacher, with.memory.teacher);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
    tx_config_free(alone);
}

/* What ranks send each other for it, by the formulas. */
static void a_plan_counts_messages(void **state)
{
    (void)state;
    static const char *const layouts[] = {
        "--world-size 2 --tensor-model-parallel-size 2",
        ("--world-size 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --bf16 "
         "--fp32-residual-connection"),
        "--world-size 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel --bf16",
        "--world-size 4 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --zero-stage 3",
        "--world-size 4 --ds-sequence-parallel-size 4 --bf16",
        "--world-size 4 --context-parallel-size 2 --pipeline-model-parallel-size 2",
        "--world-size 2 --context-parallel-size 2 --cp-comm-type allgather",
        "--world-size 8 --context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2 "
        "--tensor-model-parallel-size 2 --sequence-parallel",
        "--world-size 2 --context-parallel-size 2 --num-experts-teacher 4 --num-experts 4 --topk 2",
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        tx_config *cfg;
        char flags[6000];
        snprintf(flags, sizeof flags, STUDENT "--load-teacher none --num-layers-teacher 8 --hidden-size-teacher 64 %s",
                 layouts[i]);
        ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
        for (int stage = 0; stage < (int)cfg->pipeline_model_parallel_size; stage++) {
            tx_run_plan plan;
            ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, stage));
            assert_int_equal(plan.sizes.teacher.n_layers, 8 / cfg->pipeline_model_parallel_size);
            if (!tx_volume_agrees(&plan.volume, &plan.sizes)) {
                tx_str table = { 0 };
                ASSERT_OK(tx_volume_table(&table, &plan.volume, &plan.sizes));
                fail_msg("%s: stage %d:\n%s", layouts[i], stage, table.data);
            }
        }
        tx_config_free(cfg);
    }
}

/* ---- what is refused ---- */

static void refuses(const char *flags, int64_t vocab, const char *text)
{
    char all[6000], message[600] = "";
    tx_config *cfg = NULL;
    tx_trainer *t = NULL;
    snprintf(all, sizeof all, "%s", flags);
    tx_status st = tx_config_parse_string(&cfg, "pretrain-gpt", all);
    if (!st) st = tx_source_teacher(cfg, "00000000000000000000000000000000", &tx_comm_self);
    if (!st) st = tx_trainer_create(&t, cfg, vocab, 5, true, NULL);
    snprintf(message, sizeof message, "%s", st ? tx_last_error() : "nothing");
    if (!st || !strstr(message, text)) fail_msg("%s: %s, not: %s", flags, message, text);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    char flags[6000];
#define SAYS(text, vocab, ...)                      \
    do {                                            \
        snprintf(flags, sizeof flags, __VA_ARGS__); \
        refuses(flags, vocab, text);                \
    } while (0)
    SAYS("--kd needs --load-teacher, the model that teaches", VOCAB, STUDENT);
    SAYS("--kd and --mos: the same loss under two names", VOCAB, STUDENT "--mos --load-teacher x");
    SAYS("--kd-temp needs --kd or --mos", VOCAB,
         RUN "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --kd-temp 2");
    SAYS("--load-teacher", VOCAB, STUDENT "--load-teacher %s/nothing", teacher_dir);
    SAYS("has 512 tokens, the student 600: a teacher has its student's vocabulary", 600, STUDENT "--load-teacher %s",
         teacher_dir);
    SAYS("--num-layers-teacher is 5, in --load-teacher it is 8", VOCAB,
         STUDENT "--load-teacher %s --num-layers-teacher 5", teacher_dir);
    SAYS("--num-experts-teacher is not what --load-teacher has", VOCAB,
         STUDENT "--load-teacher %s --num-experts-teacher 8", teacher_dir);
    SAYS("the teacher: --seq-length 32 is more than --max-position-embeddings 16", VOCAB,
         STUDENT "--load-teacher %s --seq-length 32 --max-position-embeddings 32", teacher_dir);
    SAYS("is for a GPT: leave it out with --model-type BERT", VOCAB, STUDENT "--load-teacher %s --model-type BERT",
         teacher_dir);
#undef SAYS
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_student_has_the_numbers_of_pytorch),
        cmocka_unit_test(layouts_are_as_one_rank),
        cmocka_unit_test(the_teacher_counts),
        cmocka_unit_test(a_teacher_of_any_format),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(a_plan_has_the_teacher),
        cmocka_unit_test(a_plan_counts_messages),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, make_teachers, scratch_teardown);
}
