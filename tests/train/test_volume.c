/* labels: unit parallel */
/* What ranks move in an iteration, counted in real ones and in dry runs, against the formulas of the papers. */
#include "support.h"

#include "data/bert_dataset.h"
#include "train/plan.h"
#include "train/trainer.h"

enum { MAX_RANKS = 8, VOCAB = 300, S = 16 };

#define SMALL                                                                                                    \
    "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --lr " \
    "1e-3 --train-iters 4 --tokenizer-type NullTokenizer --vocab-size 299 --data-path none --threads 1 "         \
    "--micro-batch-size 2 --global-batch-size 16 "
#define TP(n) " --tensor-model-parallel-size " #n
#define PP(n) " --pipeline-model-parallel-size " #n
#define LLAMA                                                                                   \
    " --swiglu --normalization rmsnorm --disable-bias-linear --use-rotary-position-embeddings " \
    "--untie-embeddings-and-output-weights"
#define WHOLE " --qk-layernorm-whole"
#define EP(n) " --expert-model-parallel-size " #n
#define EXPERTS                                                                                     \
    " --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 32 --swiglu --disable-bias-linear " \
    "--moe-layer-freq 2 --moe-shared-expert-intermediate-size 32 --moe-shared-expert-gate"
#define BERT                                                                                               \
    " --model-type BERT --tokenizer-type BertWordPieceLowerCase --vocab-file none --global-batch-size 24 " \
    "--mask-prob 0.25"
#define ZERO(n) " --zero-param-persistence-threshold 100 --zero-stage " #n
#define CHUNKS  " --ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-chunk-size 6"
#define FULL    " --recompute-granularity full --recompute-method "

static const char *const layouts[] = {
    "--world-size 2" TP(2),
    "--world-size 2 --sequence-parallel" TP(2),
    "--world-size 4 --sequence-parallel --embed-layernorm" TP(4),
    "--world-size 2 --embed-layernorm --bf16 --fp32-residual-connection" TP(2),
    "--world-size 2 --embed-layernorm --bf16 --fp32-residual-connection --sequence-parallel" TP(2),
    "--world-size 2 --sequence-parallel --norm-placement both" TP(2),
    "--world-size 2 --sequence-parallel --disable-norm-bias --parallel-residual one_norm --qk-layernorm" TP(2),
    "--world-size 2 --parallel-residual two_norms --output-bias --untie-embeddings-and-output-weights" TP(2),
    "--world-size 4 --sequence-parallel --norm-placement branch --normalization rmsnorm" TP(2) ZERO(3),
    "--world-size 2" PP(2),
    "--world-size 3 --num-layers 5 --pipeline-schedule gpipe" PP(3),
    "--world-size 2 --num-layers-per-virtual-pipeline-stage 1" PP(2),
    "--world-size 4 --global-batch-size 24 --num-layers 7 --ddp-bucket-size 3000" PP(2),
    "--world-size 2 --ddp-bucket-size 1",
    "--world-size 4 --no-overlap-grad-reduce",
    "--world-size 2 --recompute-activations --sequence-parallel" TP(2),
    "--world-size 2 --num-layers 5" TP(2) FULL "uniform --recompute-num-layers 2",
    "--world-size 2" TP(2) CHUNKS,
    "--world-size 4 --num-layers 5 --partition-activations" TP(2) PP(2) FULL "block --recompute-num-layers 1" CHUNKS,
    "--world-size 4" TP(2) LLAMA WHOLE CHUNKS,
    "--world-size 2 --bf16 --ds-sequence-parallel-fpdt-offloading" ZERO(3) CHUNKS,
    "--world-size 4 --num-layers 5 --partition-activations" TP(4) FULL "uniform --recompute-num-layers 2",
    "--world-size 2 --partition-activations --sequence-parallel" TP(2) FULL "uniform",
    "--world-size 2 --partition-activations --bf16 --fp32-residual-connection" TP(2) FULL "uniform",
    "--world-size 4 --partition-activations --checkpoint-in-cpu --bf16 --num-layers 6" TP(2) PP(2) FULL
    "block --recompute-num-layers 2",
    "--world-size 4 --partition-activations --num-layers-per-virtual-pipeline-stage 2 --num-layers 8" TP(2) PP(2) FULL
    "uniform --recompute-num-layers 2",
    "--world-size 4 --sequence-parallel" TP(2) PP(2) FULL "block --recompute-num-layers 1",
    "--world-size 4 --sequence-parallel --num-layers-per-virtual-pipeline-stage 1" TP(2) PP(2) FULL
    "uniform --recompute-num-layers 1",
    "--world-size 8 --sequence-parallel" TP(2) PP(2),
    "--world-size 8 --sequence-parallel --enable-zbh1-pipeline" TP(2) PP(4),
    "--world-size 8 --bf16" TP(2) PP(2) LLAMA,
    "--world-size 4 --sequence-parallel" TP(2) PP(2) LLAMA,
    "--world-size 4" TP(2) LLAMA WHOLE,
    "--world-size 4 --sequence-parallel" TP(2) PP(2) LLAMA WHOLE FULL "block --recompute-num-layers 1",
    "--world-size 4 --cp-comm-type a2a --context-parallel-size 4",
    "--world-size 8 --sequence-parallel --cp-comm-type a2a --context-parallel-size 2" TP(2) PP(2) LLAMA FULL "uniform",
    "--world-size 6 --seq-length 15 --global-batch-size 12 --ds-sequence-parallel-size 3" ZERO(1),
    "--world-size 4 --ds-sequence-parallel-size 2 --bf16" ZERO(3) LLAMA,
    "--world-size 4 --ds-sequence-parallel-size 2 --zero-hpz-partition-size 2 --bf16" ZERO(3),
    "--world-size 4 --ds-sequence-parallel-size 4" BERT,
    "--world-size 6 --seq-length 12 --global-batch-size 12 --ds-sequence-parallel-size 3 --bf16" ZERO(1) CHUNKS,
    "--world-size 8 --ds-sequence-parallel-size 2 --seq-length 12 --ds-sequence-parallel-fpdt-offloading" TP(2) PP(2)
        LLAMA FULL "block --recompute-num-layers 1" CHUNKS,
    /* norms of tensors */
    "--world-size 2 --optimizer lamb" TP(2),
    "--world-size 2 --optimizer lamb",
    "--world-size 8 --optimizer lamb --bf16" TP(2) PP(2) ZERO(1),
    "--world-size 4 --optimizer lamb --sequence-parallel" TP(2) ZERO(3) LLAMA,
    "--world-size 4 --optimizer lamb" EXPERTS EP(2),
    "--world-size 4 --optimizer lamb" EXPERTS EP(2) ZERO(2),
    "--world-size 4 --optimizer lamb" EXPERTS EP(2) TP(2) ZERO(1),
    /* ZeRO; tensors of more than 100 elements are divided, unless a line says something else */
    "--world-size 4" ZERO(1),
    "--world-size 2 --bf16 --ddp-bucket-size 1 --zero-reduce-bucket-size 20000" ZERO(1),
    "--world-size 2 --global-batch-size 4 --no-zero-reduce-scatter" ZERO(1),
    "--world-size 2 --reduce-every-micro-batch --no-zero-allgather-partitions" ZERO(1),
    "--world-size 2 --reduce-every-micro-batch" ZERO(0),
    "--world-size 8 --sequence-parallel --bf16" TP(2) PP(2) ZERO(1),
    "--world-size 2 --global-batch-size 4 --zero-reduce-bucket-size 20000" ZERO(2),
    "--world-size 4 --fp16 --initial-loss-scale 256 --no-overlap-grad-reduce --no-zero-allgather-partitions" ZERO(2),
    "--world-size 2 --no-zero-reduce-scatter" ZERO(2) FULL "uniform",
    "--world-size 4 --sequence-parallel --embed-layernorm" TP(2) ZERO(2),
    "--world-size 4 --num-layers-per-virtual-pipeline-stage 1 --bf16" PP(2) ZERO(2),
    "--world-size 8 --sequence-parallel --bf16" TP(2) PP(2) ZERO(2) LLAMA,
    "--world-size 2 --global-batch-size 4" ZERO(3),
    "--world-size 4 --bf16 --embed-layernorm" ZERO(3),
    "--world-size 2" ZERO(3) LLAMA,
    "--world-size 2 --zero-param-persistence-threshold 0 --zero-prefetch-bucket-size 0" ZERO(3),
    "--world-size 2 --zero-model-persistence-threshold 100" ZERO(3),
    "--world-size 2 --zero-param-persistence-threshold 1e5" ZERO(3),
    "--world-size 2 --zero-max-live-parameters 1" ZERO(3),
    "--world-size 2 --recompute-activations" ZERO(3),
    "--world-size 2 --num-layers 5" ZERO(3) FULL "uniform --recompute-num-layers 2",
    "--world-size 2" ZERO(3) FULL "block --recompute-num-layers 3",
    "--world-size 2 --zero-max-reuse-distance 1e9 --embed-layernorm" ZERO(3),
    "--world-size 2 --zero-max-reuse-distance 60000" ZERO(3) FULL "uniform --recompute-num-layers 2",
    "--world-size 4 --zero-max-reuse-distance 60000" PP(2) ZERO(3),
    "--world-size 4 --zero-max-reuse-distance 1e9 --num-layers-per-virtual-pipeline-stage 1" PP(2) ZERO(3),
    "--world-size 4 --pipeline-schedule gpipe --zero-param-persistence-threshold 0" PP(2) ZERO(3),
    "--world-size 4 --no-zero-reduce-scatter --no-zero-allgather-partitions" PP(2) ZERO(3),
    "--world-size 4 --sequence-parallel --embed-layernorm --zero-param-persistence-threshold 0" TP(2) ZERO(3),
    "--world-size 8 --sequence-parallel --fp16 --initial-loss-scale 256" TP(2) PP(2) ZERO(3) FULL "uniform",
    "--world-size 8 --num-layers-per-virtual-pipeline-stage 1 --bf16" TP(2) PP(2) ZERO(3) LLAMA,
    /* ZeRO++: in one hop, in two, with one row, and what waits between forward and backward */
    "--world-size 4 --zero-hpz-partition-size 2" ZERO(3),
    "--world-size 2 --zero-quantized-weights --bf16" ZERO(3) FULL "uniform",
    "--world-size 4 --zero-quantized-gradients" ZERO(3) LLAMA,
    "--world-size 8 --sequence-parallel --zero-quantized-weights --zero-quantized-gradients --zero-hpz-partition-size "
    "2" TP(2) ZERO(3),
    "--world-size 8 --zero-quantized-gradients --zero-hpz-partition-size 2 --bf16" PP(2) ZERO(3),
    "--world-size 4 --zero-quantized-weights --zero-quantized-gradients --zero-hpz-partition-size 4" ZERO(3) BERT,
    "--world-size 4 --zero-hpz-partition-size 2 --zero-max-reuse-distance 60000" ZERO(3) LLAMA,
    "--world-size 4 --zero-quantized-weights --zero-hpz-partition-size 2 --zero-max-live-parameters 1" ZERO(3),
    "--world-size 4 --zero-quantized-gradients --zero-loco-err-beta 0.8 --zero-hpz-partition-size 2 --bf16" ZERO(3),
    /* MiCS: rows of near ranks, one row, rows of one, and with 8 and 4 bits */
    "--world-size 4 --mics-shard-size 2" ZERO(3),
    "--world-size 4 --mics-shard-size 2 --bf16 --global-batch-size 8" ZERO(2) LLAMA,
    "--world-size 8 --sequence-parallel --mics-shard-size 2 --bf16 --grad-dtype bf16 --grad-reduce-dtype fp32" TP(2)
        ZERO(1),
    "--world-size 4 --mics-shard-size 4 --zero-max-reuse-distance 60000" ZERO(3),
    "--world-size 2 --mics-shard-size 1 --no-zero-reduce-scatter" ZERO(2),
    "--world-size 8 --mics-shard-size 2 --optimizer lamb" PP(2) ZERO(3),
    "--world-size 4 --mics-shard-size 2 --optimizer muon --no-zero-allgather-partitions" ZERO(3),
    "--world-size 4 --mics-shard-size 2 --optimizer adafactor" ZERO(1),
    "--world-size 4 --mics-shard-size 2 --zero-quantized-weights --zero-quantized-gradients" ZERO(3) BERT,
    "--world-size 4 --mics-shard-size 2 --bf16 --num-experts 4 --moe-router-topk 2" ZERO(3),
    /* experts that ranks divide, split over tensor ranks or whole */
    "--world-size 2" EXPERTS EP(2),
    "--world-size 4 --global-batch-size 8" TP(2) EXPERTS EP(2) " --expert-tensor-parallel-size 1" FULL "uniform",
    "--world-size 4 --sequence-parallel" TP(2) EXPERTS " --expert-tensor-parallel-size 1",
    "--world-size 8 --num-layers-per-virtual-pipeline-stage 1 --bf16" TP(2) PP(2) EXPERTS EP(2) ZERO(1),
    "--world-size 4 --no-zero-reduce-scatter --no-zero-allgather-partitions" EXPERTS EP(2) ZERO(2),
    "--world-size 4 --num-layers 5" EXPERTS EP(2) ZERO(3) FULL "block --recompute-num-layers 1",
    "--world-size 8 --sequence-parallel --zero-param-persistence-threshold 0" TP(2)
        EXPERTS EP(4) " --expert-tensor-parallel-size 1" ZERO(3),
    "--world-size 4 --num-experts 4 --expert-interval 2 --topk 2 --disable-moe-token-dropping" PP(
        2) " --moe-expert-parallel-size 2" ZERO(1),
    /* matrices that are updated whole */
    "--world-size 4 --optimizer adafactor" TP(2) ZERO(2) LLAMA,
    "--world-size 8 --optimizer adafactor" TP(2) PP(2) EXPERTS EP(2) ZERO(3),
    "--world-size 2 --optimizer muon",
    "--world-size 2 --optimizer muon --zero-reduce-bucket-size 20000" ZERO(1),
    "--world-size 4 --optimizer muon" TP(2) ZERO(2) LLAMA,
    "--world-size 4 --optimizer muon --muon-tp-mode distributed" TP(2) ZERO(3),
    "--world-size 4 --optimizer muon --muon-tp-mode blockwise --zero-param-persistence-threshold 0" TP(2) ZERO(3),
    "--world-size 8 --optimizer muon --muon-fp32-matmul-prec high --muon-tp-mode distributed" TP(2) PP(2) EXPERTS EP(2)
        ZERO(1),
    "--world-size 4 --optimizer muon" PP(2) BERT ZERO(2),
    /* gradients of 2 bytes, kept and on their way, or one of the two */
    "--world-size 4 --bf16 --grad-dtype bf16",
    "--world-size 8 --sequence-parallel --bf16 --grad-dtype bf16" TP(2) PP(2) ZERO(1),
    "--world-size 4 --fp16 --grad-dtype fp16 --initial-loss-scale 256 --no-overlap-grad-reduce" PP(2) ZERO(2),
    "--world-size 8 --sequence-parallel --bf16 --grad-dtype bf16" TP(2) PP(2) ZERO(3) LLAMA,
    "--world-size 4 --bf16 --grad-reduce-dtype bf16 --no-overlap-grad-reduce" PP(2) ZERO(1),
    "--world-size 4 --bf16 --grad-dtype bf16 --grad-reduce-dtype fp32" TP(2) ZERO(2),
    "--world-size 2 --grad-reduce-dtype fp16 --no-zero-reduce-scatter" ZERO(1),
    /* keys and values travel between ranks that divide positions */
    "--world-size 2 --context-parallel-size 2",
    "--world-size 8 --context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2 --bf16",
    "--world-size 8 --sequence-parallel --context-parallel-size 4 --bf16" TP(2) ZERO(1) LLAMA,
    "--world-size 8 --context-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1" PP(2) ZERO(2) FULL "uniform",
    "--world-size 4 --context-parallel-size 2 --cp-comm-type allgather --recompute-activations" ZERO(3),
    "--world-size 6 --context-parallel-size 3 --cp-comm-type allgather --seq-length 12 --global-batch-size 12" CHUNKS,
    "--world-size 4 --context-parallel-size 2 --cp-comm-type allgather --seq-length 12 --bf16" LLAMA FULL
    "block --recompute-num-layers 1" CHUNKS,
    "--world-size 4 --context-parallel-size 4 --cp-comm-type allgather --bf16" LLAMA FULL
    "block --recompute-num-layers 1",
    /* and their experts choose together */
    "--world-size 4 --context-parallel-size 2" EXPERTS,
    "--world-size 4 --context-parallel-size 4 --cp-comm-type allgather" EXPERTS EP(4) FULL
    "block --recompute-num-layers 3",
    "--world-size 8 --sequence-parallel --context-parallel-size 2 --bf16" TP(2) EXPERTS EP(4) ZERO(2),
    "--world-size 8 --ds-sequence-parallel-size 2 --expert-tensor-parallel-size 1" TP(2) EXPERTS EP(4) FULL "uniform",
    "--world-size 4 --context-parallel-size 2 --moe-expert-capacity-factor 1 --moe-token-drop-policy position" EXPERTS,
    "--world-size 4 --ds-sequence-parallel-size 2 --moe-expert-capacity-factor 1 --moe-token-drop-policy position" PP(2)
        EXPERTS FULL "uniform",
    /* the head reads some rows alone, and layers may normalise last */
    "--world-size 2" TP(2) BERT,
    "--world-size 8 --sequence-parallel --bf16" TP(4) BERT,
    "--world-size 4 --sequence-parallel --post-layernorm" TP(2) BERT,
    "--world-size 8 --bert-no-binary-head --sequence-parallel" TP(2) PP(2) BERT ZERO(1),
    "--world-size 4 --num-layers-per-virtual-pipeline-stage 1 --bf16" PP(2) BERT ZERO(2),
    "--world-size 3 --bf16 --zero-param-persistence-threshold 0" ZERO(3) BERT,
    "--world-size 8 --sequence-parallel --post-layernorm --pipeline-schedule gpipe" TP(2) PP(2) BERT ZERO(3),
    "--world-size 4 --fp16 --initial-loss-scale 256 --post-layernorm" PP(2) BERT ZERO(3) FULL "uniform",
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

static tx_config *parsed(const char *more)
{
    char all[1024];
    tx_config *cfg;
    snprintf(all, sizeof all, "%s%s", SMALL, more);
    ASSERT_OK(tx_config_parse_string(&cfg, strstr(all, "BERT") ? "pretrain-bert" : "pretrain-gpt", all));
    return cfg;
}

/* ---- counted in a run ---- */

typedef struct run {
    const tx_config *cfg;
    tx_volume volume[MAX_RANKS]; /* of the second iteration */
    tx_volume_sizes sizes[MAX_RANKS];
} run;

static tx_status read_tokens(void *user, int64_t micro, const void **rows)
{
    static const int32_t tokens[2 * (S + 1)] = { 1, 2, 3, 4, 5, 6, 299, 8, 9 };
    (void)user;
    (void)micro;
    *rows = tokens;
    return TX_OK;
}

enum { ROW = 3 * S + 2 };

/* In micro-batch i there are 3 i mod 9 tokens to predict, of 8 that may be. */
static tx_status read_pairs(void *user, int64_t micro, const void **rows)
{
    static const int32_t many[2 * ROW] = { 1, 2, 3, 4, 5, 6, 299, 8, 9 };
    int32_t *copy = user;
    memcpy(copy, many, sizeof many);
    for (int j = 0; j < 2; j++) {
        const tx_bert_ids to = tx_bert_ids_of(copy + j * ROW, S);
        *to.n_tokens = S - j;
        for (int i = 0; i < S; i++) to.labels[i] = i < 4 && 4 * j + i < micro * 3 % 9 ? 7 : -1;
    }
    *rows = copy;
    return TX_OK;
}

static tx_status train_as_a_rank(tx_world *world, void *user)
{
    run *r = user;
    const tx_config *cfg = r->cfg;
    tx_trainer *t = NULL;
    tx_grid grid;
    tx_volume before, *v = &r->volume[tx_world_rank(world)];
    bool bert = cfg->model_type == TX_MODEL_BERT;
    int32_t rows[2 * ROW];
    tx_status st;
    const tx_layout layout = tx_layout_of(cfg);
    TX_TRY(tx_grid_open(&grid, world, &layout, NULL));
    TX_GOTO(tx_trainer_create(&t, cfg, VOCAB, -1, true, &grid));
    TX_GOTO(tx_trainer_train(t, bert ? read_pairs : read_tokens, rows));
    tx_volume_read(&before, &grid);
    TX_GOTO(tx_trainer_train(t, bert ? read_pairs : read_tokens, rows));
    tx_volume_read(v, &grid);
    tx_volume_subtract(v, &before);
    r->sizes[grid.rank] = tx__plan_volume_sizes(t->model, cfg, &grid, t->n_micro, t->length, &t->zero);
out:
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

/* ---- against the formulas ---- */

static void assert_equal(const char *layout, int rank, const tx_volume *got, const tx_volume *expected)
{
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        for (int op = 0; op < TX_N_COMM_OPS; op++) {
            const tx_comm_volume *a = &got->of[i][op], *b = &expected->of[i][op];
            if (a->calls != b->calls || a->bytes != b->bytes)
                fail_msg("%s: rank %d, %s, %s: %lld calls and %lld bytes, expected %lld and %lld", layout, rank,
                         tx_group_names[i], tx_comm_op_names[op], (long long)a->calls, (long long)a->bytes,
                         (long long)b->calls, (long long)b->bytes);
        }
}

/* Whether a plan of the stage is that of its rank number `rank`: it is of the first data rank, and of matrices that are
 * updated whole others have others. */
static bool is_planned(const tx_config *cfg, int rank)
{
    return !(tx_optimizer_traits(cfg->optimizer) & TX_OPTIMIZER_MATRICES) || rank < cfg->tensor_model_parallel_size;
}

static void runs_and_plans_move_what_the_formulas_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        run r = { .cfg = parsed(layouts[i]) };
        int n = (int)r.cfg->world_size, each = n / (int)r.cfg->pipeline_model_parallel_size;
        ASSERT_OK(tx_world_threads(n, train_as_a_rank, &r));
        for (int rank = 0; rank < n; rank++) {
            tx_volume expected;
            tx_run_plan plan;
            tx_volume_expect(&expected, &r.sizes[rank]);
            assert_equal(layouts[i], rank, &r.volume[rank], &expected);
            ASSERT_OK(tx_plan_stage(&plan, r.cfg, VOCAB, rank / each));
            if (is_planned(r.cfg, rank % each)) assert_equal(layouts[i], rank, &plan.volume, &expected);
            tx_volume_expect(&expected, &plan.sizes);
            assert_equal(layouts[i], rank, &plan.volume, &expected);
            assert_true(tx_volume_sent(&plan.volume, &plan.sizes) > 0);
        }
        tx_config_free((tx_config *)(uintptr_t)r.cfg);
    }
}

/* The same at the papers' sizes, where nothing is run. GPT-3 on 1536 ranks: arXiv:2104.04473, table 1. */
static void plans_of_large_jobs_move_what_the_formulas_say(void **state)
{
    (void)state;
    static const char *const large[] = {
        "--world-size 1536 --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --global-batch-size 1536 "
        "--bf16 --sequence-parallel" TP(8) PP(8) " --num-layers-per-virtual-pipeline-stage 3",
        "--world-size 64 --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --global-batch-size 512 "
        "--micro-batch-size 8" TP(2) FULL "uniform",
        "--world-size 64 --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --global-batch-size 512 "
        "--micro-batch-size 8 --partition-activations" TP(8) FULL "uniform",
        "--world-size 64 --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --global-batch-size 512 "
        "--fp16 --zero-stage 3",
        "--world-size 256 --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --global-batch-size 512 "
        "--bf16 --zero-stage 2" TP(2) PP(4),
        "--world-size 64 --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --global-batch-size 1024 "
        "--fp16 --micro-batch-size 4 --sequence-parallel --model-type BERT" TP(2) PP(2),
    };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        char flags[1024];
        tx_config *cfg;
        snprintf(flags, sizeof flags, "--micro-batch-size 1 --seq-length 2048 --max-position-embeddings 2048 %s",
                 large[i]);
        ASSERT_OK(tx_config_parse_string(&cfg, "plan", flags));
        for (int stage = 0; stage < (int)cfg->pipeline_model_parallel_size; stage++) {
            tx_run_plan plan;
            tx_volume expected;
            ASSERT_OK(tx_plan_stage(&plan, cfg, 50257, stage));
            tx_volume_expect(&expected, &plan.sizes);
            assert_equal(large[i], stage, &plan.volume, &expected);
            if (i == 1) assert_true(plan.sizes.head_chunks > 1);
        }
        tx_config_free(cfg);
    }
}

/* ---- the formulas by hand ---- */

static void assert_moved(const tx_volume *v, int group, tx_comm_op op, int64_t calls, int64_t bytes)
{
    assert_int_equal(v->of[group][op].calls, calls);
    assert_int_equal(v->of[group][op].bytes, bytes);
}

/* Elements that a tensor takes in a flat buffer. */
static int64_t stored(int64_t n)
{
    return (n + TX_PARAM_ALIGN - 1) / TX_PARAM_ALIGN * TX_PARAM_ALIGN;
}

/* A micro-batch of b s h = 2 x 16 x 32 floats is 4096 bytes. */
static void the_papers_by_hand(void **state)
{
    (void)state;
    const int64_t bsh = 2 * 16 * 32 * 4;
    tx_run_plan plan;
    tx_config *cfg = parsed("--world-size 4" TP(2));
    ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, 0)); /* 4 layers, 4 micro-batches, 2 data ranks */
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, 4 * (4 * 4 + 2), 4 * (4 * 4 + 2) * bsh);
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_ALL_GATHER, 4, 4 * 2 * 16 * 4 * 4 * 2);
    int64_t h = 32, layer = 6 * stored(h) + stored(3 * h / 2) + stored(3 * h * h / 2) + stored(h * h / 2) +
                            stored(4 * h / 2) + 2 * stored(4 * h * h / 2);
    int64_t params =
        stored(512 / 2 * h) + stored(16 * h) + 4 * layer + 2 * stored(h); /* the vocabulary padded to 128 x 2 */
    assert_int_equal(plan.volume.of[TX_GROUP_DATA][TX_COMM_ALL_REDUCE].bytes, 4 * params);
    ASSERT_NEAR(tx_volume_sent(&plan.volume, &plan.sizes), (double)(72 * bsh + 4 * 1024 / 2 + 4 * params), 0, "sent");
    tx_config_free(cfg);

    cfg = parsed("--world-size 2 --sequence-parallel" TP(2));
    ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, 0)); /* 8 micro-batches */
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_REDUCE_SCATTER, 8 * (4 * 4 + 2), 8 * (4 * 4 + 2) * bsh);
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_ALL_GATHER, 8 * (4 * 6 + 2 + 1),
                 8 * ((4 * 6 + 2) * bsh + 2 * 16 * 4 * 4 * 2));
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, 5, (4 * 4 + 2) * 32 * 4); /* of norms */
    tx_config_free(cfg);

    cfg = parsed("--world-size 2 --partition-activations" TP(2) FULL "uniform --recompute-num-layers 3");
    ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, 0)); /* 2 groups */
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_ALL_GATHER, 8 * (2 + 1), 8 * (2 * bsh + 2 * 16 * 4 * 4 * 2));
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, 8 * (4 * 6 + 2), 8 * (4 * 6 + 2) * bsh);
    tx_config_free(cfg);

    cfg = parsed("--world-size 2 --num-layers-per-virtual-pipeline-stage 1" PP(2));
    ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, 0)); /* 2 borders behind, 1 before it */
    assert_moved(&plan.volume, TX_GROUP_PIPELINE, TX_COMM_SEND, 8 * 3, 8 * 3 * bsh);
    assert_moved(&plan.volume, TX_GROUP_ENDS, TX_COMM_ALL_REDUCE, 1, 384 * 32 * 4);
    tx_config_free(cfg);
}

/* 4 N h/P a layer and direction, arXiv:2309.14509, and P-1 of P parts of it go to other ranks; activations are a part
 * of one rank's, but for o, which is kept by heads and by positions. */
static void ulysses_by_hand(void **state)
{
    (void)state;
    const int64_t bsh = 2 * 16 * 32 * 4;
    tx_run_plan one, plan;
    tx_config *cfg = parsed("--world-size 1");
    ASSERT_OK(tx_plan_stage(&one, cfg, VOCAB, 0));
    tx_config_free(cfg);
    cfg = parsed("--world-size 4 --ds-sequence-parallel-size 4");
    ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, 0)); /* 4 layers, 8 micro-batches, as of one rank */
    assert_moved(&plan.volume, TX_GROUP_CONTEXT, TX_COMM_ALL_TO_ALL, 8 * 4 * 2 * 2, 8 * 4 * 2 * 4 * bsh);
    tx_volume heads = { 0 };
    heads.of[TX_GROUP_CONTEXT][TX_COMM_ALL_TO_ALL] = plan.volume.of[TX_GROUP_CONTEXT][TX_COMM_ALL_TO_ALL];
    ASSERT_NEAR(tx_volume_sent(&heads, &plan.sizes), 8 * 4 * 2 * (4 * (double)bsh / 4) * 3 / 4, 0, "sent");
    assert_true((double)plan.memory.activations <= ((double)one.memory.activations + 4 * (double)bsh) / 4 * 1.05);
    tx_config_free(cfg);
}

/* Of 2 x 16 tokens the heads read 2 pairs and 8 that are masked. */
static void a_bert_by_hand(void **state)
{
    (void)state;
    const int64_t bsh = 2 * 16 * 32 * 4, labels = 2 * 4, m = 12;
    tx_run_plan plan;
    tx_config *cfg = parsed("--world-size 2" TP(2) BERT);
    ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, 0));
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, m * (4 * 4 + 1 + 1),
                 m * ((4 * 4 + 1) * bsh + labels * 32 * 4));
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_ALL_GATHER, m, m * labels * 4 * 4 * 2);
    tx_config_free(cfg);

    cfg = parsed("--world-size 2 --sequence-parallel" TP(2) BERT);
    ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, 0));
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_REDUCE_SCATTER, m * (4 * 4 + 1), m * (4 * 4 + 1) * bsh);
    assert_moved(&plan.volume, TX_GROUP_TENSOR, TX_COMM_ALL_GATHER, m * (4 * 6 + 2 + 1),
                 m * ((4 * 6 + 2) * bsh + labels * 4 * 4 * 2));
    tx_config_free(cfg);
}

/* Elements that data-parallel ranks move for gradients and for parameters, a rank's own part counted: x (N - 1) / N is
 * what each sends. */
typedef struct elements {
    int64_t grads, params;
} elements;

static elements moved_elements(const tx_run_plan *p)
{
    const tx_comm_volume *v = p->volume.of[TX_GROUP_DATA];
    int64_t sums = v[TX_COMM_ALL_REDUCE].bytes * 2 + v[TX_COMM_REDUCE_SCATTER].bytes;
    return (elements){ sums / 4, (v[TX_COMM_ALL_GATHER].bytes + v[TX_COMM_BROADCAST].bytes) / p->sizes.value };
}

static tx_run_plan planned(const char *more)
{
    tx_run_plan plan;
    tx_config *cfg = parsed(more);
    ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, 0));
    tx_config_free(cfg);
    return plan;
}

/* arXiv:1910.02054 §7: 2 Psi as data parallelism has, 3 Psi in stage 3, of one micro-batch. Of m ones stage 2 moves
 * (m + 1) Psi and stage 3 3 m Psi, but for the words, which are read twice, and positions, which are read once. */
static void zero_by_hand(void **state)
{
    (void)state;
    const int64_t h = 32, words = stored(384 * h), positions = stored(16 * h);
    for (int m = 1; m <= 8; m += 7)
        for (int half = 0; half < 2; half++)
            for (int again = 0; again < 2; again++)
                for (int stage = 0; stage < 4; stage++) {
                    char flags[256];
                    snprintf(flags, sizeof flags,
                             "--world-size 4 --zero-param-persistence-threshold 0 --global-batch-size %d "
                             "--zero-stage %d %s%s",
                             8 * m, stage, half ? "--bf16" : "", again ? FULL "uniform" : "");
                    tx_run_plan p = planned(flags);
                    elements e = moved_elements(&p);
                    int64_t psi = p.sizes.shared[TX_SHARED_DATA].all.numel;
                    assert_true(psi >= words + positions);
                    assert_int_equal(e.grads, psi * (stage == 0 ? 2 : stage == 1 ? 1 : m));
                    assert_int_equal(e.params, stage == 0 ? 0 : stage < 3 ? psi : m * (2 * psi - positions));
                }
}

/* What waits for backward within --zero-max-live-parameters is between all of it and nothing of it. */
static void less_room_gathers_more(void **state)
{
    (void)state;
    int64_t before = 0;
    for (int live = 200000; live; live /= 2) {
        char flags[256];
        tx_str table = { 0 };
        snprintf(flags, sizeof flags,
                 "--world-size 2 --zero-max-reuse-distance 1e9 --zero-max-live-parameters %d" ZERO(3), live);
        tx_run_plan p = planned(flags);
        int64_t params = moved_elements(&p).params;
        assert_true(params >= before);
        assert_true(tx_volume_agrees(&p.volume, &p.sizes));
        ASSERT_OK(tx_volume_table(&table, &p.volume, &p.sizes));
        assert_true(p.sizes.bounded == (strstr(table.data, "      these are the most: ") != NULL));
        tx_str_free(&table);
        if (before && !p.sizes.bounded) assert_int_equal(params, before);
        before = params;
    }
    tx_run_plan none = planned("--world-size 2" ZERO(3));
    assert_true(before <= moved_elements(&none).params);
    none.volume.of[TX_GROUP_DATA][TX_COMM_ALL_GATHER].calls++;
    assert_false(tx_volume_agrees(&none.volume, &none.sizes));
}

/* ---- the table ---- */

static void the_table_says_whether_they_are_equal(void **state)
{
    (void)state;
    tx_config *cfg = parsed("--world-size 2 --sequence-parallel" TP(2));
    tx_run_plan plan;
    tx_str table = { 0 };
    ASSERT_OK(tx_plan_stage(&plan, cfg, VOCAB, 0));
    ASSERT_OK(tx_volume_table(&table, &plan.volume, &plan.sizes));
    ASSERT_CONTAINS(table.data,
                    "    2 tensor-parallel          all-gather               216          0.820          0.410\n");
    ASSERT_CONTAINS(table.data, "      2 b s h a layer, its inputs for backward           64          0.250\n");
    ASSERT_CONTAINS(table.data, "    calls and bytes are equal to the formulas'\n");
    assert_null(strstr(table.data, "NOT"));
    tx_str_free(&table);
    plan.volume.of[TX_GROUP_TENSOR][TX_COMM_ALL_GATHER].bytes++;
    ASSERT_OK(tx_volume_table(&table, &plan.volume, &plan.sizes));
    ASSERT_CONTAINS(table.data, "      NOT EQUAL: 216 calls and 860161 bytes, by the formulas 216 and 860160\n");
    ASSERT_CONTAINS(table.data, "    calls and bytes are NOT equal to the formulas'\n");
    tx_str_free(&table);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_and_plans_move_what_the_formulas_say),
        cmocka_unit_test(plans_of_large_jobs_move_what_the_formulas_say),
        cmocka_unit_test(the_papers_by_hand),
        cmocka_unit_test(ulysses_by_hand),
        cmocka_unit_test(a_bert_by_hand),
        cmocka_unit_test(zero_by_hand),
        cmocka_unit_test(less_room_gathers_more),
        cmocka_unit_test(the_table_says_whether_they_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
