/* labels: unit */
/* test_checkpoint_place.c - what a folder is taken for. */
#include "checkpoint_fixture.h"

static char detail[512];

static tx_ckpt_kind probe(const char *dir)
{
    tx_ckpt_kind kind = TX_CKPT_HUGGINGFACE;
    detail[0] = 0;
    ASSERT_OK(tx_checkpoint_probe(dir, &kind, detail, sizeof detail));
    assert_true(detail[0] != 0);
    return kind;
}

static void nothing(void **state)
{
    (void)state;
    assert_int_equal(probe(in_scratch("absent")), TX_CKPT_NONE);
    ASSERT_CONTAINS(detail, "does not exist");
    assert_int_equal(probe(scratch_dir), TX_CKPT_NONE);
    ASSERT_CONTAINS(detail, "is empty");
    ASSERT_OK(tx_make_dirs(in_scratch(".tmp-iter_0000001-77")));
    assert_int_equal(probe(scratch_dir), TX_CKPT_NONE);
    ASSERT_CONTAINS(detail, "never finished");
    write_text(in_scratch("metrics.jsonl"), "{}");
    write_text(in_scratch("replay-iteration-3.json"), "{}");
    assert_int_equal(probe(scratch_dir), TX_CKPT_NONE);
    ASSERT_CONTAINS(detail, "only 1 that were never finished");
    ASSERT_OK(tx_remove_tree(in_scratch(".tmp-iter_0000001-77")));
    assert_int_equal(probe(scratch_dir), TX_CKPT_NONE);
    ASSERT_CONTAINS(detail, "only records of a run");
    write_text(in_scratch("log.txt"), "x");
    assert_int_equal(probe(scratch_dir), TX_CKPT_UNKNOWN);
    ASSERT_CONTAINS(detail, "no checkpoint but other things (1, such as log.txt)");
    tx_ckpt_kind kind;
    ASSERT_FAILS(tx_checkpoint_probe(in_scratch("log.txt"), &kind, detail, sizeof detail), TX_ERR_ARG, "is a file");
    ASSERT_FAILS(tx_checkpoint_probe(in_scratch("log.txt/x"), &kind, detail, sizeof detail), TX_ERR_IO, "log.txt");
}

static void native(void **state)
{
    (void)state;
    model m;
    model_create(&m, 1, 8, 50, 1);
    ASSERT_OK(model_save(&m, scratch_dir, 12, 1));
    assert_int_equal(probe(scratch_dir), TX_CKPT_NATIVE);
    ASSERT_CONTAINS(detail, "iter_0000012");
    assert_int_equal(probe(in_scratch("iter_0000012")), TX_CKPT_NATIVE);
    ASSERT_OK(tx_remove_tree(in_scratch("latest")));
    assert_int_equal(probe(scratch_dir), TX_CKPT_NATIVE);
    ASSERT_CONTAINS(detail, "taking its newest");
    write_text(in_scratch("latest"), "global_step12\n"); /* as DeepSpeed's scripts write before they go on */
    assert_int_equal(probe(scratch_dir), TX_CKPT_NATIVE);
    ASSERT_CONTAINS(detail, "latest names global_step12, which is not there: taking iter_0000012");
    write_text(in_scratch("latest"), "global_step13\n");
    assert_int_equal(probe(scratch_dir), TX_CKPT_DEEPSPEED);
    ASSERT_OK(tx_make_dirs(in_scratch("global_step12")));
    write_text(in_scratch("latest"), "global_step12\n");
    assert_int_equal(probe(scratch_dir), TX_CKPT_DEEPSPEED);
    model_destroy(&m);
}

static void broken_latest(void **state)
{
    (void)state;
    static const char *const text[] = { "",
                                        "\n",
                                        "iter_0000001",
                                        "iter_1\n",
                                        "iter_00000001\n",
                                        "../iter_0000001\n",
                                        "iter_0000001\niter_0000002\n",
                                        "iter_-000001\n",
                                        "iter_99999999999999999999\n" };
    tx_ckpt_kind kind;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        write_text(in_scratch("latest"), text[i]);
        ASSERT_FAILS(tx_checkpoint_probe(scratch_dir, &kind, detail, sizeof detail), TX_ERR_FORMAT, "latest");
        assert_int_equal(kind, TX_CKPT_NONE);
    }
    write_text(in_scratch("latest"), "iter_0000001\n");
    ASSERT_OK(tx_make_dirs(in_scratch("iter_0000001")));
    ASSERT_FAILS(tx_checkpoint_probe(scratch_dir, &kind, detail, sizeof detail), TX_ERR_FORMAT, "no manifest.json");
}

static void other_programs(void **state)
{
    (void)state;
    ASSERT_OK(tx_make_dirs(in_scratch("ds/global_step40")));
    assert_int_equal(probe(in_scratch("ds")), TX_CKPT_DEEPSPEED);
    write_text(in_scratch("ds/latest"), "global_step40");
    write_text(in_scratch("ds/latest_checkpointed_iteration.txt"), "40");
    assert_int_equal(probe(in_scratch("ds")), TX_CKPT_DEEPSPEED);
    write_text(in_scratch("ds/global_step40/mp_rank_00_model_states.pt"), "");
    assert_int_equal(probe(in_scratch("ds/global_step40")), TX_CKPT_DEEPSPEED);
    ASSERT_OK(tx_make_dirs(in_scratch("ds/global_step40/zero")));
    assert_int_equal(probe(in_scratch("ds/global_step40")), TX_CKPT_UNIVERSAL);
    ASSERT_OK(tx_make_dirs(in_scratch("universal")));
    write_text(in_scratch("universal/latest_universal"), "global_step40_universal");
    assert_int_equal(probe(in_scratch("universal")), TX_CKPT_UNIVERSAL);
    ASSERT_OK(tx_make_dirs(in_scratch("mega/iter_0000004/mp_rank_00")));
    write_text(in_scratch("mega/latest_checkpointed_iteration.txt"), "4");
    assert_int_equal(probe(in_scratch("mega")), TX_CKPT_MEGATRON);
    assert_int_equal(probe(in_scratch("mega/iter_0000004")), TX_CKPT_MEGATRON);
}

static void hugging_face(void **state)
{
    (void)state;
    tx_ckpt_kind kind;
    write_text(in_scratch("pytorch_model.bin"), "");
    ASSERT_FAILS(tx_checkpoint_probe(scratch_dir, &kind, detail, sizeof detail), TX_ERR_FORMAT,
                 "without its config.json");
    write_text(in_scratch("config.json"), "{}");
    assert_int_equal(probe(scratch_dir), TX_CKPT_HUGGINGFACE);
    write_text(in_scratch("model.safetensors"), "");
    assert_int_equal(probe(scratch_dir), TX_CKPT_HUGGINGFACE);
    ASSERT_OK(tx_remove_tree(in_scratch("model.safetensors")));
    write_text(in_scratch("model.safetensors.index.json"), "{}");
    assert_int_equal(probe(scratch_dir), TX_CKPT_HUGGINGFACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(nothing),        SCRATCH_TEST(native),       SCRATCH_TEST(broken_latest),
        SCRATCH_TEST(other_programs), SCRATCH_TEST(hugging_face),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
