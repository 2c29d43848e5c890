/* labels: unit fault */
/* TensorBoard's event files, read back byte by byte: checksums, framing, and which tags and values which options write.
 */
#include "support.h"

#include "report/tensorboard.h"

static void crc32c_has_known_values(void **state)
{
    (void)state;
    char zeros[32] = { 0 }, ones[32];
    memset(ones, 0xFF, sizeof ones);
    assert_int_equal(tx__crc32c("123456789", 9), 0xE3069283); /* RFC 3720, B.4 */
    assert_int_equal(tx__crc32c(zeros, 32), 0x8A9136AA);
    assert_int_equal(tx__crc32c(ones, 32), 0x62A8AB43);
    assert_int_equal(tx__crc32c("", 0), 0);
    assert_int_equal(tx__crc32c_masked("", 0), 0xA282EAD8);
    assert_int_equal(tx__crc32c_masked("123456789", 9), 0xC78AB0E5); /* E3069283 rotated right by 15, + A282EAD8 */
}

/* ---- a reader ---- */

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++) x |= (uint64_t)p[i] << 8 * i;
    return x;
}

static uint64_t varint(const unsigned char **p)
{
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
        x |= (uint64_t)(**p & 127) << shift;
        if (!(*(*p)++ & 128)) return x;
    }
}

/* One field: its number, and its value as a number or as bytes. */
static int field(const unsigned char **p, uint64_t *value, const unsigned char **bytes)
{
    uint64_t key = varint(p);
    int type = (int)(key & 7);
    *value = type == 0 ? varint(p) : type == 1 ? little(*p, 8) : type == 5 ? little(*p, 4) : varint(p);
    if (type == 1) *p += 8;
    if (type == 5) *p += 4;
    if (type == 2) *bytes = *p, *p += *value;
    return (int)(key >> 3);
}

/* Appends "tag step value\n" of one event to out, "version" for the first, "tag text\n" for texts. */
static void describe(const unsigned char *p, const unsigned char *end, tx_str *out)
{
    const unsigned char *bytes = NULL;
    uint64_t v, step = 0;
    while (p < end) {
        int number = field(&p, &v, &bytes);
        if (number == 2) step = v;
        if (number == 3) ASSERT_OK(tx_str_printf(out, "version %.*s\n", (int)v, (const char *)bytes));
        if (number != 5) continue;
        const unsigned char *q = bytes, *inner = NULL;
        uint64_t n;
        assert_int_equal(field(&q, &n, &inner), 1); /* Summary.value */
        const unsigned char *stop = inner + n, *tag = NULL;
        uint64_t n_tag = 0;
        while (inner < stop) {
            const unsigned char *part = NULL;
            int k = field(&inner, &v, &part);
            if (k == 1) tag = part, n_tag = v;
            if (k == 2) {
                float f;
                uint32_t bits = (uint32_t)v;
                memcpy(&f, &bits, 4);
                ASSERT_OK(tx_str_printf(out, "%.*s %llu %g\n", (int)n_tag, (const char *)tag, (unsigned long long)step,
                                        (double)f));
            }
            if (k == 8) ASSERT_OK(tx_str_printf(out, "%.*s text\n", (int)n_tag, (const char *)tag));
        }
    }
}

/* Everything in the only file of a folder, every record checked. */
static tx_str read_events(const char *dir)
{
    tx_names names;
    tx_str out = { 0 };
    ASSERT_OK(tx_dir_list(dir, &names));
    assert_int_equal(names.n, 1);
    ASSERT_CONTAINS(names.name[0], "events.out.tfevents.");
    char path[1024];
    ASSERT_OK(tx_path_join(path, sizeof path, dir, names.name[0]));
    tx_str file = read_file(path);
    const unsigned char *p = (const unsigned char *)file.data, *end = p + file.len;
    while (p < end) {
        uint64_t n = little(p, 8);
        assert_int_equal(little(p + 8, 4), tx__crc32c_masked(p, 8));
        assert_true(n < (uint64_t)(end - p) - 15);
        assert_int_equal(little(p + 12 + n, 4), tx__crc32c_masked(p + 12, n));
        describe(p + 12, p + 12 + n, &out);
        p += 16 + n;
    }
    assert_ptr_equal(p, end);
    tx_str_free(&file);
    tx_names_free(&names);
    return out;
}

/* ---- what is written ---- */

static const tx_step_record step = {
    .kind = TX_RECORD_STEP,
    .iteration = 10,
    .train_iters = 100,
    .consumed_samples = 40,
    .consumed_tokens = 640,
    .global_batch_size = 4,
    .seq_length = 16,
    .lr = 0.25,
    .decoupled_lr = -1,
    .loss = 2.5,
    .grad_norm = 1.5,
    .loss_scale = 1,
    .params_norm = -1,
    .num_zeros = -1,
    .max_attention_logit = -1,
};

static tx_str events_of(const char *flags, int n, const tx_step_record *r)
{
    static int number;
    char all[1024];
    const char *dir = in_scratch("tb%d", number++);
    tx_config *cfg;
    tx_tensorboard tb;
    snprintf(all, sizeof all,
             "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 16 --max-position-embeddings 16 "
             "--micro-batch-size 4 --train-iters 100 --lr 1 --data-path none --tokenizer-type NullTokenizer "
             "--vocab-size 8 --tensorboard-dir %s %s",
             dir, flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", all));
    ASSERT_OK(tx_tensorboard_open(&tb, cfg, 0));
    for (int i = 0; i < n; i++) ASSERT_OK(tx_tensorboard_put(&tb, &r[i]));
    tx_tensorboard_close(&tb);
    tx_config_free(cfg);
    return read_events(dir);
}

static void tags_of_megatron(void **state)
{
    (void)state;
    tx_str got = events_of("", 1, &step);
    assert_memory_equal(got.data, "version brain.Event:2\n", 22);
    ASSERT_CONTAINS(got.data, "\nhidden_size/text_summary text\n");
    ASSERT_CONTAINS(got.data, "\nlearning-rate 10 0.25\nlearning-rate vs samples 40 0.25\nlm loss 10 2.5\n"
                              "lm loss vs samples 40 2.5\nloss-scale 10 1\nloss-scale vs samples 40 1\n"
                              "grad-norm 10 1.5\ngrad-norm vs samples 40 1.5\n");
    assert_null(strstr(got.data, "tokens 640"));
    assert_null(strstr(got.data, "\nbatch-size 10"));
    assert_null(strstr(got.data, "decoupled-learning-rate"));
    tx_str_free(&got);
    tx_step_record own = step;
    own.decoupled_lr = 0.5;
    got = events_of("", 1, &own);
    ASSERT_CONTAINS(got.data, "\nlearning-rate vs samples 40 0.25\ndecoupled-learning-rate 10 0.5\nlm loss 10 2.5\n");
    tx_str_free(&got);
}

static void tags_of_megatron_deepspeed(void **state)
{
    (void)state;
    tx_step_record r[3] = { step, step, step };
    r[0].params_norm = 7;
    r[0].num_zeros = 3;
    r[0].max_attention_logit = 12;
    r[1].kind = TX_RECORD_INTERVAL;
    r[1].elapsed_ms = 500;
    r[1].time_ms[TX_TIMER_OPTIMIZER] = 250;
    r[1].peak_share = 0.5;
    r[1].memory_bytes = 1024;
    r[1].peak_resident_bytes = 4096;
    r[2].kind = TX_RECORD_EVALUATION;
    r[2].name = "validation";
    r[2].loss = 0;
    tx_str got = events_of("--log-dialect megatron-deepspeed --no-log-learnig-rate-to-tensorboard "
                           "--no-log-loss-scale-to-tensorboard --log-batch-size-to-tensorboard "
                           "--log-timers-to-tensorboard --log-memory-to-tensorboard --log-world-size-to-tensorboard "
                           "--log-validation-ppl-to-tensorboard",
                           3, r);
    static const char *const lines[] = {
        "\nsteps-vs-samples/y=steps,x=samples 40 10\n",
        "\nsteps-vs-tokens/y=tokens,x=steps 10 640\n",
        "\nlm-loss-training/lm loss 10 2.5\n",
        "\nlm-loss-training/lm loss vs samples 40 2.5\n",
        "\nlm-loss-training/lm loss vs tokens 640 2.5\n",
        "\nbatch-size/batch-size vs tokens 640 4\n",
        "\nworld-size/world-size 10 1\n",
        "\nnum-zeros/num-zeros 10 3\n",
        "\nmax_attention_logit 10 12\n",
        "\nparams-norm/params-norm 10 7\n",
        "\niteration-time/iteration-time vs samples 40 0.5\n",
        "\noptimizer-time 10 0.25\n",
        "\npeak-share/peak-share vs samples 40 0.5\n",
        "\nmem-allocated-bytes 10 1024\n",
        "\nmem-reserved-bytes 10 4096\n",
        "\nlm-loss-validation/lm loss validation vs tokens 640 0\n",
        "\nlm-loss-validation/lm loss validation ppl 10 1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) ASSERT_CONTAINS(got.data, lines[i]);
    assert_null(strstr(got.data, "learning-rate/learning-rate"));
    assert_null(strstr(got.data, "loss-scale/loss-scale"));
    assert_null(strstr(got.data, "save-checkpoint-time")); /* took no time */
    tx_str_free(&got);
}

static void tags_of_several_losses(void **state)
{
    (void)state;
    tx_step_record r[3] = { step, step, step };
    for (int i = 0; i < 3; i++) {
        r[i].n_other_losses = 1;
        r[i].other_loss[0] = (tx_named_number){ "sop loss", i == 1 ? NAN : 0 };
    }
    r[2].kind = TX_RECORD_EVALUATION;
    r[2].name = "validation";
    tx_str got = events_of("--log-dialect megatron-deepspeed --log-validation-ppl-to-tensorboard", 3, r);
    static const char *const lines[] = {
        "\nlm-loss-training/lm loss vs tokens 640 2.5\nlm-loss-training/sop loss 10 0\n",
        "\nlm-loss-training/sop loss vs samples 40 0\nlm-loss-training/sop loss vs tokens 640 0\n",
        "\nlm-loss-validation/lm loss validation 10 2.5\n",
        "\nlm-loss-validation/sop loss validation 10 0\n",
        "\nlm-loss-validation/sop loss validation ppl vs tokens 640 1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) ASSERT_CONTAINS(got.data, lines[i]);
    assert_null(strstr(strstr(got.data, "\nlm-loss-training/sop loss 10 ") + 1, "\nlm-loss-training/sop loss 10 "));
    tx_str_free(&got);
    got = events_of("", 1, r);
    ASSERT_CONTAINS(got.data, "\nlm loss vs samples 40 2.5\nsop loss 10 0\nsop loss vs samples 40 0\n");
    tx_str_free(&got);
}

static void tags_of_the_optimizer(void **state)
{
    (void)state;
    const tx_optim_states s = { .variance = { 1, 2, 3 }, .variance_sqrt = { 4, 5, 6 }, .weight = { 7, 8, 9 } };
    tx_step_record r = step;
    r.optim = &s;
    tx_str got = events_of("", 1, &r);
    static const char *const lines[] = {
        "\noptimizer/variance_l2 10 1\n",      "\noptimizer/variance_l1 vs tokens 640 2\n",
        "\noptimizer/variance_abs_max 10 3\n", "\noptimizer/variance_sqrt_l2 vs tokens 640 4\n",
        "\noptimizer/momentum_l1 10 0\n",      "\noptimizer/weight_abs_max vs tokens 640 9\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) ASSERT_CONTAINS(got.data, lines[i]);
    tx_str_free(&got);
}

static void tags_of_a_curriculum(void **state)
{
    (void)state;
    tx_step_record r = step;
    r.seq_length = r.curriculum_length = 12;
    tx_str got = events_of("--log-dialect megatron-deepspeed", 1, &r);
    static const char *const lines[] = {
        "\nseqlen/actual_seq_length 10 12\n",
        "\nseqlen/actual_seq_length vs samples 40 12\n",
        "\nseqlen/actual_seq_length vs tokens 640 12\n",
        "\nseqlen/curriculum_seqlen 10 12\n",
        "\nseqlen/curriculum_seqlen vs samples 40 12\n",
        "\nseqlen/curriculum_seqlen vs tokens 640 12\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) ASSERT_CONTAINS(got.data, lines[i]);
    tx_str_free(&got);
    got = events_of("--log-dialect megatron-deepspeed", 1, &step);
    assert_null(strstr(got.data, "\nseqlen/"));
    tx_str_free(&got);
}

static void tags_of_experts(void **state)
{
    (void)state;
    const double load[2][2] = { { 3, 1 }, { 2, 2 } };
    const tx_expert_record layer[2] = { { 2, 2, 1, 3, 1, load[0] }, { 4, 2, 2, 5, 0, load[1] } };
    tx_step_record r = step;
    r.expert = layer;
    r.n_expert_layers = 2;
    r.experts = tx_expert_means_of(layer, 2);
    tx_str got = events_of("--num-experts 2 --num-layers 4", 1, &r);
    ASSERT_CONTAINS(got.data, "\nload_balancing_loss 10 1.5\nload_balancing_loss vs samples 40 1.5\nz_loss 10 4\n");
    ASSERT_CONTAINS(got.data, "\ndropped_share 10 0.125\n");
    ASSERT_CONTAINS(got.data, "\nload_imbalance vs samples 40 1.5\n");
    assert_null(strstr(got.data, "\nmoe/"));
    tx_str_free(&got);
    got = events_of("--num-experts 2 --num-layers 4 --moe-per-layer-logging --log-dialect megatron-deepspeed", 1, &r);
    ASSERT_CONTAINS(got.data, "\nexperts/z_loss vs tokens 640 4\n");
    ASSERT_CONTAINS(got.data, "\nmoe/load_balancing_loss_layer_1 10 1\nmoe/z_loss_layer_1 10 3\n"
                              "moe/dropped_share_layer_1 10 0.25\nmoe/load_imbalance_layer_1 10 1.5\n"
                              "moe/load_balancing_loss_layer_3 10 2\n");
    tx_str_free(&got);
}

static void skipped_steps_and_other_iterations_are_left_out(void **state)
{
    (void)state;
    tx_step_record r[2] = { step, step };
    r[0].loss = NAN;
    r[1].iteration = 11;
    tx_str got = events_of("--tensorboard-log-interval 10", 2, r);
    assert_null(strstr(got.data, "\nlm loss"));
    ASSERT_CONTAINS(got.data, "\ngrad-norm 10 1.5\n");
    assert_null(strstr(got.data, "\ngrad-norm 11"));
    tx_str_free(&got);
}

static void two_starts_are_two_files(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_tensorboard a, b;
    ASSERT_OK(tx_config_new(&cfg, "pretrain-gpt"));
    ASSERT_OK(tx_config_set_text(&cfg->tensorboard_dir, in_scratch("two/deep")));
    ASSERT_OK(tx_tensorboard_open(&a, cfg, 0));
    ASSERT_OK(tx_tensorboard_open(&b, cfg, 5));
    tx_tensorboard_close(&a);
    tx_tensorboard_close(&b);
    assert_n_files(in_scratch("two/deep"), 2);
    ASSERT_OK(tx_config_set_text(&cfg->tensorboard_dir, write_text(in_scratch("file"), "x")));
    ASSERT_FAILS(tx_tensorboard_open(&a, cfg, 0), TX_ERR_IO, "file");
    tx_config_free(cfg);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_tensorboard tb;
    ASSERT_OK(tx_config_new(&cfg, "pretrain-gpt"));
    ASSERT_OK(tx_config_set_text(&cfg->tensorboard_dir, in_scratch("tb")));
    tx_status st = TX_ERR_NOMEM;
    for (int64_t n = 0; st; n++) {
        allocation_fails_at(n);
        st = tx_tensorboard_open(&tb, cfg, 0);
        if (!st) st = tx_tensorboard_put(&tb, &step);
        allocations_succeed();
        tx_tensorboard_close(&tb);
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
    }
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_has_known_values), SCRATCH_TEST(tags_of_megatron),
        SCRATCH_TEST(tags_of_megatron_deepspeed),  SCRATCH_TEST(tags_of_several_losses),
        SCRATCH_TEST(tags_of_the_optimizer),       SCRATCH_TEST(tags_of_experts),
        SCRATCH_TEST(tags_of_a_curriculum),        SCRATCH_TEST(skipped_steps_and_other_iterations_are_left_out),
        SCRATCH_TEST(two_starts_are_two_files),    SCRATCH_TEST(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
