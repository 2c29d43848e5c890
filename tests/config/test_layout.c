/* labels: unit */
/* How ranks divide the work: what follows from the world's size, and every rule about layouts. */
#include "support.h"

#include <stdlib.h>

#include "config/option_table.h"

#define SHAPE "--num-layers 12 --hidden-size 96 --num-attention-heads 12 --max-position-embeddings 64 "
#define SIZES "--micro-batch-size 2 --seq-length 64 --lr 1e-3 --data-path d --vocab-file v --merge-file m "
#define GOOD  SHAPE SIZES "--train-iters 10 "
#define LONG  SHAPE SIZES "--train-samples 10000 "
#define TP(n) "--tensor-model-parallel-size " #n " "
#define PP(n) "--pipeline-model-parallel-size " #n " "
#define W(n)  "--world-size " #n " "
#define VP(n) "--num-layers-per-virtual-pipeline-stage " #n " "

static void launched(const char *n)
{
    if (n) {
        setenv("OMPI_COMM_WORLD_SIZE", n, 1);
        setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    } else {
        unsetenv("OMPI_COMM_WORLD_SIZE");
        unsetenv("OMPI_COMM_WORLD_RANK");
    }
}

static tx_config *parsed(const char *command, const char *flags)
{
    tx_config *c = NULL;
    if (tx_config_parse_string(&c, command, flags)) fail_msg("%s %s: %s", command, flags, tx_last_error());
    return c;
}

static void sizes_follow(void **state)
{
    (void)state;
    static const struct {
        const char *command, *flags, *launched;
        int64_t world, data, batch;
        int chunks;
    } cases[] = {
        { "pretrain-gpt", GOOD, NULL, 1, 1, 2, 1 },
        { "pretrain-gpt", GOOD, "4", 4, 4, 8, 1 },
        { "pretrain-gpt", GOOD TP(2) PP(2), "8", 8, 2, 4, 1 },
        { "pretrain-gpt", GOOD TP(2) PP(2) W(8), "8", 8, 2, 4, 1 },
        { "pretrain-gpt", GOOD TP(2) W(4), NULL, 4, 2, 4, 1 }, /* ranks as threads */
        { "pretrain-gpt", GOOD PP(2) VP(2) "--global-batch-size 8", "2", 2, 1, 8, 3 },
        { "pretrain-gpt", GOOD PP(2) VP(6), "2", 2, 1, 2, 1 },
        { "plan", GOOD TP(4) PP(3), NULL, 12, 1, 2, 1 },
        { "plan", GOOD TP(4) PP(3), "5", 12, 1, 2, 1 }, /* what is planned is not this job */
        { "plan", GOOD TP(4) PP(3) W(1200), "5", 1200, 100, 200, 1 },
        { "inspect-samples", GOOD TP(4) PP(3), NULL, 12, 1, 2, 1 },
        { "evaluate", "--load L --data-path d", "4", 4, 4, 16, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        launched(cases[i].launched);
        tx_config *c = parsed(cases[i].command, cases[i].flags);
        assert_int_equal(c->world_size, cases[i].world);
        assert_int_equal(tx_config_data_parallel(c), cases[i].data);
        assert_int_equal(c->global_batch_size, cases[i].batch);
        assert_int_equal(tx_config_chunks(c), cases[i].chunks);
        tx_config_free(c);
    }
    launched(NULL);
}

static void timeouts(void **state)
{
    (void)state;
    tx_config *c = parsed("pretrain-gpt", GOOD "--distributed-timeout-minutes 3");
    assert_true(tx_config_timeout(c) == 180);
    tx_config_free(c);
    c = parsed("pretrain-gpt", GOOD "--distributed-timeout-minutes 3 --step-timeout 0.5");
    assert_true(tx_config_timeout(c) == 0.5);
    tx_config_free(c);
}

static void slurms_tasks_count_inside_a_step(void **state)
{
    (void)state;
    setenv("SLURM_STEP_NUM_TASKS", "6", 1);
    tx_config *c = parsed("pretrain-gpt", GOOD);
    assert_int_equal(c->world_size, 1); /* a batch script: the tasks are still to be started */
    tx_config_free(c);
    setenv("PMIX_RANK", "5", 1);
    c = parsed("pretrain-gpt", GOOD);
    assert_int_equal(c->world_size, 6);
    tx_config_free(c);
    unsetenv("PMIX_RANK");
    unsetenv("SLURM_STEP_NUM_TASKS");
}

static void sequence_parallelism_needs_tensor_parallelism(void **state)
{
    (void)state;
    tx_config *c = parsed("plan", GOOD "--sequence-parallel");
    assert_false(c->sequence_parallel);
    tx_config_free(c);
    c = parsed("plan", GOOD TP(2) "--sequence-parallel");
    assert_true(c->sequence_parallel);
    tx_config_free(c);
}

static void zero_bubbles_need_stages(void **state)
{
    (void)state;
    tx_config *c = parsed("plan", GOOD "--enable-zbh1-pipeline");
    assert_false(c->enable_zbh1_pipeline);
    tx_config_free(c);
    c = parsed("plan", GOOD PP(2) "--enable-zbh1-pipeline");
    assert_true(c->enable_zbh1_pipeline);
    tx_config_free(c);
}

#define ODD "--hidden-size 33 --kv-channels 8 --ffn-hidden-size 96 --seq-length 31"

static const struct broken {
    const char *command, *flags, *launched, *text;
} cases[] = {
    { "pretrain-gpt", GOOD TP(2) PP(2), "6",
      "world size (6) is not divisible by --tensor-model-parallel-size 2 times --pipeline-model-parallel-size 2; try "
      "on 4 or 8 ranks, or --tensor-model-parallel-size 1 or 3, or --pipeline-model-parallel-size 1 or 3 (as in mpirun "
      "-n 4 triax pretrain-gpt ...)" },
    { "pretrain-gpt", GOOD TP(4), NULL,
      "world size (1) is not divisible by --tensor-model-parallel-size 4 times --pipeline-model-parallel-size 1; try "
      "--tensor-model-parallel-size 1, or on 4 or 8 ranks (as in mpirun -n 4 triax pretrain-gpt ...)" },
    { "plan", GOOD TP(4) PP(3) W(100), NULL,
      "world size (100) is not divisible by --tensor-model-parallel-size 4 times --pipeline-model-parallel-size 3; try "
      "--world-size 96 or 108, or --pipeline-model-parallel-size 1 or 5" },
    { "pretrain-gpt", GOOD W(8), "4", "--world-size 8, but Open MPI's mpirun has started 4 ranks: leave the flag out" },
    { "plan", GOOD TP(5) "--ffn-hidden-size 100", NULL,
      "--num-attention-heads 12 is not divisible by --tensor-model-parallel-size 5; try --tensor-model-parallel-size 2 "
      "or 4" },
    { "plan", GOOD TP(8), NULL,
      "--num-attention-heads 12 is not divisible by --tensor-model-parallel-size 8; try --tensor-model-parallel-size 6 "
      "or 12" },
    { "plan", GOOD TP(4) "--num-key-value-heads 2", NULL,
      "--num-key-value-heads 2 is not divisible by --tensor-model-parallel-size 4; try --tensor-model-parallel-size 1 "
      "or 2" },
    { "plan", GOOD TP(4) "--group-query-attention --num-query-groups 6", NULL,
      "--num-query-groups 6 is not divisible by --tensor-model-parallel-size 4; try --tensor-model-parallel-size 3 or "
      "6" },
    { "plan", GOOD TP(4) "--ffn-hidden-size 90", NULL,
      "--ffn-hidden-size 90 is not divisible by --tensor-model-parallel-size 4; try --tensor-model-parallel-size 3 or "
      "6" },
    { "plan", GOOD TP(3) "--pad-vocab-size-to 50304 --make-vocab-size-divisible-by 64", NULL, NULL }, /* 3 x 16768 */
    { "plan", GOOD TP(3) "--pad-vocab-size-to 50432", NULL,
      "--pad-vocab-size-to 50432 is not divisible by --make-vocab-size-divisible-by 128 times "
      "--tensor-model-parallel-size 3; try --pad-vocab-size-to 50304 or 50688, or --tensor-model-parallel-size 1 or "
      "2" },
    { "plan", GOOD TP(6) "--seq-length 62 --sequence-parallel", NULL,
      "--sequence-parallel: --seq-length 62 is not divisible by --tensor-model-parallel-size 6; try --seq-length 54 or "
      "60, or without --sequence-parallel, or --tensor-model-parallel-size 1 or 2" },
    { "plan", GOOD TP(2) "--partition-activations", NULL, NULL },
    { "plan", GOOD TP(2) "--partition-activations --sequence-parallel", NULL, NULL },
    { "plan", GOOD TP(4) "--partition-activations --checkpoint-activations", NULL, NULL },
    { "plan", GOOD TP(4) "--distribute-saved-activations --checkpoint-activations", NULL, NULL },
    { "plan", GOOD TP(4) "--partition-activations --checkpoint-activations " ODD, NULL,
      "--partition-activations: a layer's input of --seq-length 31 times --micro-batch-size 2 times --hidden-size 33 "
      "numbers is not divisible by --tensor-model-parallel-size 4; try --tensor-model-parallel-size 3 or 6, or "
      "--seq-length 28 or 32, or without --partition-activations" },
    { "plan", GOOD TP(2) "--partition-activations --checkpoint-activations " ODD, NULL, NULL },
    { "plan", GOOD TP(4) "--partition-activations " ODD, NULL, NULL }, /* nothing is kept */
    { "plan", GOOD "--contigious-checkpointing", NULL,
      "--contigious-checkpointing: Contiguous Checkpointing is only available with partitioned activations. Set "
      "partitioned activations to true in deepspeed config\n"
      "--contigious-checkpointing: Must specify the number of layers with contiguous memory checkpointing: "
      "number_checkpoints, or --checkpoint-activations, from which it follows\n"
      "try without --contigious-checkpointing" },
    { "plan", GOOD "--contigious-checkpointing --partition-activations --checkpoint-activations", NULL, NULL },
    { "plan", GOOD "--contigious-checkpointing --partition-activations --number-checkpoints 12", NULL, NULL },
    { "plan", GOOD PP(16), NULL,
      "--pipeline-model-parallel-size 16 is more than --num-layers 12, and a stage has at least one layer; try "
      "--pipeline-model-parallel-size 11 or 12" },
    { "plan", GOOD PP(5), NULL, NULL }, /* uneven */
    { "plan", GOOD VP(2), NULL,
      "--num-layers-per-virtual-pipeline-stage: pipeline-model-parallel size should be greater than 1 with interleaved "
      "schedule; try without --num-layers-per-virtual-pipeline-stage, or --pipeline-model-parallel-size 6" },
    { "plan", GOOD PP(5) VP(1) "--global-batch-size 10", NULL,
      "--num-layers-per-virtual-pipeline-stage: --num-layers 12 is not divisible by --pipeline-model-parallel-size 5; "
      "try without --num-layers-per-virtual-pipeline-stage, or --pipeline-model-parallel-size 12, or --num-layers 10 "
      "or 15" },
    { "plan", GOOD PP(2) VP(4), NULL,
      "number of layers per pipeline stage (6) is not divisible by --num-layers-per-virtual-pipeline-stage 4; try "
      "--num-layers-per-virtual-pipeline-stage 6, or without --num-layers-per-virtual-pipeline-stage" },
    { "plan", GOOD PP(2) VP(3) "--pipeline-schedule gpipe --global-batch-size 4", NULL,
      "--pipeline-schedule gpipe has one run of layers in a stage, and --num-layers-per-virtual-pipeline-stage is "
      "given; try without --num-layers-per-virtual-pipeline-stage, or --pipeline-schedule 1f1b" },
    { "plan", GOOD PP(2) "--enable-zbh1-pipeline --enable-zbh1-exact-semantics", NULL, NULL },
    { "plan", GOOD PP(2) "--enable-zbh1-exact-semantics", NULL,
      "--enable-zbh1-exact-semantics: Exact semantics require ZBH1 pipeline enabled, by --enable-zbh1-pipeline" },
    { "plan", GOOD PP(2) VP(3) "--enable-zbh1-pipeline --global-batch-size 4", NULL,
      "--enable-zbh1-pipeline has one run of layers in a stage, and --num-layers-per-virtual-pipeline-stage is given; "
      "try without --num-layers-per-virtual-pipeline-stage, or without --enable-zbh1-pipeline" },
    { "plan", GOOD PP(2) "--enable-zbh1-pipeline --pipeline-schedule gpipe", NULL,
      "--enable-zbh1-pipeline is a schedule of its own, and --pipeline-schedule gpipe is given; try without "
      "--enable-zbh1-pipeline, or --pipeline-schedule 1f1b" },
    { "plan", GOOD PP(2) "--standalone-embedding-stage", NULL, NULL },
    { "plan", GOOD "--standalone-embedding-stage", NULL,
      "--standalone-embedding-stage: the embedding has a stage of its own beside those of layers, and "
      "--pipeline-model-parallel-size is 1; try without --standalone-embedding-stage, or "
      "--pipeline-model-parallel-size 2 "
      "or 3" },
    { "plan", GOOD PP(2) VP(3) "--standalone-embedding-stage --global-batch-size 4", NULL,
      "--standalone-embedding-stage: the first stage has no layers, and with --num-layers-per-virtual-pipeline-stage "
      "each has several runs of them; try without --num-layers-per-virtual-pipeline-stage, or without "
      "--standalone-embedding-stage" },
    { "plan", GOOD PP(4) VP(1) "--global-batch-size 12", NULL,
      "--global-batch-size 12: number of microbatches (6) is not divisible by pipeline-model-parallel-size (4) when "
      "using interleaved schedule; try --global-batch-size 8 or 16, or --micro-batch-size 1 or 3, or without "
      "--num-layers-per-virtual-pipeline-stage" },
    { "plan", LONG PP(2) VP(3) "--global-batch-size 12 --rampup-batch-size 2 2 100", NULL,
      "--rampup-batch-size START 2: number of microbatches (1) is not divisible by pipeline-model-parallel-size (2) "
      "when using interleaved schedule\n"
      "--rampup-batch-size INCREMENT 2: number of microbatches (1) is not divisible by pipeline-model-parallel-size "
      "(2) when using interleaved schedule\n"
      "try without --num-layers-per-virtual-pipeline-stage, or --micro-batch-size 1, or --rampup-batch-size 4 4 100" },
    { "plan", LONG PP(2) VP(3) "--global-batch-size 12 --rampup-batch-size 4 4 100", NULL, NULL },
    { "plan", GOOD PP(4) "--global-batch-size 12", NULL, NULL },
    { "plan", GOOD PP(2) "--no-pipeline-parallel", NULL,
      "--no-pipeline-parallel and --pipeline-model-parallel-size 2: pipeline_model_parallel_size must be 1 if pipeline "
      "parallel is disabled; try without --no-pipeline-parallel, or --pipeline-model-parallel-size 1" },
    { "plan", GOOD TP(2) "--no-pipeline-parallel", NULL, NULL },
    { "plan", GOOD PP(2) "--schedule-picture --json", NULL, "--schedule-picture and --json: give one of the two" },
    { "plan", GOOD W(4) "--use-distributed-optimizer --zero-stage 1", NULL, NULL },
    { "plan", GOOD W(4) "--use-distributed-optimizer --zero-stage 2", NULL,
      "--use-distributed-optimizer is --zero-stage 1, but --zero-stage 2 is given; try without "
      "--use-distributed-optimizer, or --zero-stage 1" },
    { "plan", GOOD W(4) "--offload-optimizer cpu", NULL,
      "--offload-optimizer cpu needs a --zero-stage of 1 or more, with one data-parallel rank, too; try --zero-stage 1 "
      "or 2" },
    { "plan", GOOD W(4) "--offload-optimizer cpu --use-distributed-optimizer", NULL, NULL },
    { "plan", GOOD W(4) "--zero-stage 2 --offload-optimizer cpu --offload-optimizer-ratio 0.3", NULL, NULL },
    { "plan", GOOD W(4) "--zero-stage 2 --optimizer-offload-fraction 0.3", NULL,
      "--offload-optimizer-ratio 0.3 is the part of the state that is offloaded by --offload-optimizer cpu or nvme, "
      "and "
      "it is none; try without --offload-optimizer-ratio" },
    { "plan", GOOD W(4) "--zero-stage 2 --remote-device cpu", NULL,
      "--offload-param cpu needs --zero-stage 3, not 2: at lower stages every parameter is in use all the time; with "
      "them there is --offload-optimizer; try --zero-stage 3" },
    { "plan", GOOD W(4) "--zero-stage 3 --offload-param cpu --offload-optimizer cpu --use-pin-memory", NULL, NULL },
    { "plan", GOOD W(4) "--zero-stage 3 --offload-param nvme --offload-optimizer nvme", NULL,
      "--offload-optimizer nvme needs a folder on a local disk: give --offload-optimizer-nvme-path DIR\n"
      "--offload-param nvme needs a folder on a local disk: give --offload-param-nvme-path DIR" },
    { "plan", GOOD "--zero-stage 3 --offload-optimizer nvme --offload-optimizer-nvme-path D", NULL, NULL },
    { "plan", GOOD "--aio-block-size 10000", NULL,
      "--aio-block-size 10000 is no multiple of 4096, a block of a disk; try --aio-block-size 8192 or 12288" },
    { "plan",
      GOOD "--contiguous-checkpointing --partition-activations --number-checkpoints 3 --checkpoint-activations "
           "--checkpoint-num-layers 3",
      NULL, "--number-checkpoints 3: a rank computes 4 groups of layers again; try without --number-checkpoints" },
    { "plan",
      GOOD PP(2) "--contiguous-checkpointing --partition-activations --number-checkpoints 2 "
                 "--checkpoint-activations --checkpoint-num-layers 3",
      NULL, NULL },
    { "plan", GOOD TP(2) "--dump-step 3 D", NULL,
      "--dump-step writes whole parameters, and --tensor-model-parallel-size and --pipeline-model-parallel-size divide "
      "them; try without --dump-step, or --tensor-model-parallel-size 1" },
    { "pretrain-gpt", GOOD TP(2) "--global-batch-size 13", "6",
      "global batch size (13) is not divisible by micro batch size (2) times data parallel size (3); try "
      "--global-batch-size 12 or 18" },
    { "pretrain-gpt", LONG "--global-batch-size 36 --rampup-batch-size 12 8 100", "3",
      "--rampup-batch-size: current global batch size (20) is not divisible by micro-batch-size (2) times data "
      "parallel size (3); try --rampup-batch-size 12 6 100" },
    { "pretrain-gpt", LONG "--global-batch-size 36 --rampup-batch-size 12 12 100", "3", NULL },
    { "pretrain-gpt", GOOD PP(2) "--num-layers-per-virtual-pipeline-stage 2 --global-batch-size 8 --eval-tasks text=f",
      "2",
      "--eval-tasks does not know interleaved pipelines, which --num-layers-per-virtual-pipeline-stage makes; triax "
      "evaluate does the same on checkpoints; try without --num-layers-per-virtual-pipeline-stage, or "
      "--num-layers-per-virtual-pipeline-stage 6" },
    /* all at once */
    { "pretrain-gpt", GOOD TP(5) PP(13) "--seq-length 63 --sequence-parallel --global-batch-size 3", "7",
      "--num-attention-heads 12 is not divisible by --tensor-model-parallel-size 5\n"
      "--ffn-hidden-size 384 is not divisible by --tensor-model-parallel-size 5\n"
      "--pipeline-model-parallel-size 13 is more than --num-layers 12, and a stage has at least one layer\n"
      "try --tensor-model-parallel-size 1 --pipeline-model-parallel-size 7 --global-batch-size 4, or "
      "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 7 --micro-batch-size 3" },
    /* what cannot be read breaks no rule */
    { "pretrain-gpt", GOOD TP(x) PP(2), "2",
      "--tensor-model-parallel-size x is not a whole number; allowed: 1 to 65536 ranks" },
};

static void each_rule_has_its_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *c = NULL;
        launched(cases[i].launched);
        tx_status st = tx_config_parse_string(&c, cases[i].command, cases[i].flags);
        if (cases[i].text ? st != TX_ERR_ARG || strcmp(tx_last_error(), cases[i].text) : st != TX_OK)
            fail_msg("%s %s\n  expected: %s\n  got: %s", cases[i].command, cases[i].flags,
                     cases[i].text ? cases[i].text : "success", c ? "success" : tx_last_error());
        tx_config_free(c);
    }
    launched(NULL);
}

/* A layout is no part of what a checkpoint holds: any goes on from any other. */
static void no_layout_is_kept(void **state)
{
    (void)state;
    tx_config *c = parsed("plan", GOOD TP(2) PP(2) W(8) "--sequence-parallel");
    json_t *kept;
    ASSERT_OK(tx_config_to_json(c, &kept));
    assert_null(json_object_get(kept, "tensor_model_parallel_size"));
    assert_null(json_object_get(kept, "pipeline_model_parallel_size"));
    assert_null(json_object_get(kept, "world_size"));
    assert_null(json_object_get(kept, "sequence_parallel"));
    assert_int_equal(json_integer_value(json_object_get(kept, "global_batch_size")), 4);
    json_decref(kept);
    tx_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow),
        cmocka_unit_test(timeouts),
        cmocka_unit_test(slurms_tasks_count_inside_a_step),
        cmocka_unit_test(zero_bubbles_need_stages),
        cmocka_unit_test(sequence_parallelism_needs_tensor_parallelism),
        cmocka_unit_test(each_rule_has_its_sentence),
        cmocka_unit_test(no_layout_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
