/* layout_cases.h - which runs there are: axes of choices, the flags of a choice, and a sample of combinations in which
 * every two choices that go together meet. A test takes the axes that it is about, and of the others the first choice.
 */
#ifndef TX_TESTS_LAYOUT_CASES_H
#define TX_TESTS_LAYOUT_CASES_H

#include "support.h"

#include "base/rng.h"

/* ---- the axes ---- */

typedef struct sizes {
    int tp, pp, dp;
} sizes;

/* Every product of at most 8 with 1, 2 or 4 tensor-parallel ranks and stages. */
static const sizes layouts[] = {
    { 1, 1, 2 }, { 1, 1, 3 }, { 1, 1, 4 }, { 1, 1, 5 }, { 1, 1, 6 }, { 1, 1, 7 }, { 1, 1, 8 }, { 2, 1, 1 },
    { 2, 1, 2 }, { 2, 1, 3 }, { 2, 1, 4 }, { 4, 1, 1 }, { 4, 1, 2 }, { 1, 2, 1 }, { 1, 2, 2 }, { 1, 2, 3 },
    { 1, 2, 4 }, { 2, 2, 1 }, { 2, 2, 2 }, { 4, 2, 1 }, { 1, 4, 1 }, { 1, 4, 2 }, { 2, 4, 1 }, { 1, 1, 1 },
};

enum {
    LAYOUT,
    SEQUENCE, /* how */
    CONTEXT,
    SCHEDULE,
    RECOMPUTE,
    CHUNKS,
    EXPERTS,
    SUMS,
    DROPOUT, /* what */
    RAMP,
    RATE,
    LAYERS,
    VOCAB,
    MODEL,
    MICRO,
    DTYPE,
    OPTIMIZER,
    CLIP,
    ADAPTERS,
    ROUTING,
    STAGE, /* who keeps it */
    OFFLOAD,
    BUCKETS,
    STAYS,
    N_AXES
};
enum { ONE_F_ONE_B, INTERLEAVED, GPIPE, ZBH1 };

typedef struct axis_choice {
    const char *word, *flags;
} axis_choice;

/* How: only the layout's run has these flags, and what ZeRO is compared with. */
static const axis_choice sequence_choices[] = { { "-", "" }, { "sequence", "--sequence-parallel" } };
/* Of the data ranks so many divide the positions of samples. */
static const axis_choice context_choices[] = { { "-", "" },
                                               { "ulysses2", "--context-parallel-size 2 --cp-comm-type a2a" },
                                               { "ulysses4", "--ds-sequence-parallel-size 4" },
                                               { "ring2", "--context-parallel-size 2" },
                                               { "ring4", "--context-parallel-size 4" },
                                               { "gather2", "--context-parallel-size 2 --cp-comm-type allgather" },
                                               { "gather4", "--context-parallel-size 4 --cp-comm-type allgather" },
                                               { "both4", "--context-parallel-size 4 --cp-comm-type a2a+p2p "
                                                          "--hierarchical-context-parallel-sizes 2 2" } };
static const axis_choice schedule_choices[] = { { "1f1b", "" },
                                                { "interleaved", "--num-layers-per-virtual-pipeline-stage 1" },
                                                { "gpipe", "--pipeline-schedule gpipe" },
                                                { "zbh1", "--enable-zbh1-pipeline" },
                                                { "embedding", "--standalone-embedding-stage" } };
static const axis_choice recompute_choices[] = {
    { "-", "" },
    { "uniform", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2" },
    { "block", "--recompute-granularity full --recompute-method block --recompute-num-layers 1" },
    { "selective", "--recompute-granularity selective" }
};
/* Positions of a layer at a time. */
#define FPDT "--ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-chunk-size "
static const axis_choice chunks_choices[] = { { "-", "" },
                                              { "chunks", FPDT "5" },
                                              { "chunks-host", FPDT "8 --ds-sequence-parallel-fpdt-offloading" },
                                              { "small-chunks", FPDT "4" } };
/* Ranks that divide the experts, which are split over tensor ranks or whole. */
static const axis_choice experts_choices[] = {
    { "-", "" },
    { "ep2", "--moe-expert-parallel-size 2 --enable-expert-tensor-parallelism" },
    { "ep4", "--moe-expert-parallel-size 4 --enable-expert-tensor-parallelism" },
    { "whole", "--expert-tensor-parallel-size 1" },
    { "ep2-whole", "--moe-expert-parallel-size 2 --expert-tensor-parallel-size 1" },
    { "ep4-whole", "--moe-expert-parallel-size 4 --expert-tensor-parallel-size 1" },
};
static const axis_choice sums_choices[] = { { "-", "" },
                                            { "no-overlap", "--no-overlap-grad-reduce" },
                                            { "buckets", "--ddp-bucket-size 500" } };

/* What: all have them. Of batch and layers the numbers depend on the layout. */
static const axis_choice dropout_choices[] = { { "-", "--hidden-dropout 0 --attention-dropout 0" },
                                               { "dropout", "--hidden-dropout 0.1 --attention-dropout 0.1" } };
static const axis_choice ramp_choices[] = { { "-", NULL }, { "ramp-up", NULL } };
enum { ONE_CYCLE = 1, DECOUPLED };
static const axis_choice rate_choices[] = { { "-", NULL }, { "one-cycle", NULL }, { "decoupled", NULL } };
static const axis_choice layers_choices[] = { { "even", NULL }, { "uneven", NULL } };
/* Rows of the last are so many that all but the first tensor rank's are padding. */
static const axis_choice vocab_choices[] = { { "512", "" },
                                             { "509", "" },
                                             { "509/1", "--make-vocab-size-divisible-by 1" },
                                             { "509/512", "--make-vocab-size-divisible-by 512" } };
#define BERT                                                                                       \
    "--model-type BERT --tokenizer-type BertWordPieceLowerCase --vocab-file none --mask-prob 0.5 " \
    "--num-attention-heads 4 "
static const axis_choice model_choices[] = {
    { "gpt2", "--num-attention-heads 4" },
    { "llama", "--num-attention-heads 4 --swiglu --normalization rmsnorm --use-rotary-position-embeddings "
               "--untie-embeddings-and-output-weights --disable-bias-linear --no-position-embedding" },
    { "gqa", "--num-attention-heads 8 --group-query-attention --num-query-groups 4 --swiglu" },
    { "qk-norm", "--num-attention-heads 8 --num-key-value-heads 4 --qk-layernorm --add-qkv-bias --disable-bias-linear "
                 "--normalization rmsnorm --use-rotary-position-embeddings --swiglu" },
    { "whole-norm", "--num-attention-heads 8 --num-key-value-heads 4 --qk-layernorm-whole --normalization rmsnorm "
                    "--disable-bias-linear --use-rotary-position-embeddings --rope-scaling-type yarn "
                    "--rope-scaling-factor 4 --rope-original-positions 8 --no-rope-freq 2 --window-size 5 "
                    "--window-attn-skip-freq 2 --window-rotary-base 100" },
    { "neighbours",
      "--num-attention-heads 4 --use-rotary-position-embeddings --rotary-interleaved --rotary-percent 0.5 "
      "--rope-scaling-type dynamic --rope-scaling-factor 2 --rope-original-positions 8" },
    { "embed-norm", "--num-attention-heads 4 --embed-layernorm" },
    { "alibi", "--num-attention-heads 12 --kv-channels 4 --num-key-value-heads 4 --position-embedding-type alibi "
               "--reset-attention-mask" },
    { "windows", "--num-attention-heads 8 --num-key-value-heads 4 --window-size 3 --window-attn-skip-freq 3 "
                 "--attention-logit-softcap 2 --softmax-type learnable --attention-scale 0.3 --swiglu "
                 "--use-rotary-position-embeddings --reset-attention-mask" },
    { "documents", "--num-attention-heads 4 --reset-attention-mask --reset-position-ids --eod-mask-loss" },
    { "smooth", "--num-attention-heads 4 --label-smoothing 0.1 --untie-embeddings-and-output-weights" },
    { "z-loss", "--num-attention-heads 4 --z-loss-weight 0.1" },
    { "neox", "--num-attention-heads 4 --parallel-residual two_norms --use-rotary-position-embeddings "
              "--untie-embeddings-and-output-weights --residual-scale 0.7" },
    /* not --relu, whose derivative jumps: one number that is 0 but for rounding is then as much as a gradient */
    { "phi", "--num-attention-heads 4 --parallel-residual one_norm --untie-embeddings-and-output-weights --output-bias "
             "--disable-attention-bias --disable-norm-bias --squared-relu" },
    { "gemma2", "--num-attention-heads 8 --num-key-value-heads 4 --norm-placement both --gated-activation gelu_tanh "
                "--normalization rmsnorm --disable-bias-linear --use-rotary-position-embeddings --embedding-scale 6 "
                "--final-logit-softcap 3" },
    { "olmo2", "--num-attention-heads 4 --norm-placement branch --swiglu --normalization rmsnorm --disable-bias-linear "
               "--use-rotary-position-embeddings --logits-scale 0.5" },
    /* In half precision a token whose experts are nearly even may choose others in another layout: in fp32 alone. */
    { "mixtral", "--num-attention-heads 4 --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 32 --swiglu "
                 "--moe-aux-loss-coeff 0.05 --moe-z-loss-coeff 0.01 --disable-bias-linear" },
    { "residual", "--num-attention-heads 4 --num-experts 4 --expert-interval 1 --mlp-type residual --topk 1 "
                  "--disable-moe-token-dropping" },
    { "shared",
      "--num-attention-heads 4 --num-experts 4 --moe-router-topk 2 --moe-layer-freq 2 "
      "--moe-router-score-function sigmoid --moe-shared-expert-intermediate-size 16 --moe-shared-expert-gate" },
    { "bert", BERT },
    { "bert-post", BERT "--post-layernorm" },
    { "bert-words", BERT "--bert-no-binary-head" },
};
static const axis_choice micro_choices[] = { { "many", NULL }, { "one", NULL } }; /* of a rank and step */
static const axis_choice dtype_choices[] = { { "fp32", "" },
                                             { "bf16", "--bf16" },
                                             { "fp16", "--fp16 --initial-loss-scale 1024" },
                                             { "bf16-grads", "--bf16 --grad-dtype bf16" },
                                             { "fp16-grads", "--fp16 --grad-dtype fp16 --initial-loss-scale 1024" },
                                             { "fp32-sums", "--bf16 --grad-dtype bf16 --grad-reduce-dtype fp32" },
                                             { "bf16-sums", "--bf16 --grad-reduce-dtype bf16" } };
#define MUON "--optimizer muon --muon-fp32-matmul-prec high "
/* With an eps1 that is above the squares of what rounding leaves of the biases of keys, whose gradient is 0. */
#define ADAFACTOR "--optimizer adafactor --adafactor-eps1 1e-10 --lr 3e-2 --min-lr 3e-3"
/* A row for each that updates in another way; its rate changes weights about as much as Adam's does. */
static const axis_choice optimizer_choices[] = {
    { "adam", "" },
    { "sgd", "--optimizer sgd --lr 5e-2 --min-lr 5e-3" },
    { "nesterov", "--optimizer sgd --sgd-nesterov --lr 1e-2 --min-lr 1e-3" },
    { "adam-l2", "--no-decoupled-weight-decay" },
    { "adagrad", "--optimizer adagrad --lr 5e-3 --min-lr 5e-4" },
    { "lion", "--optimizer lion --lr 1e-4 --min-lr 1e-5" },
    { "lamb", "--optimizer lamb --lr 2e-2 --min-lr 2e-3" },
    { "adafactor", ADAFACTOR },
    { "muon", MUON "--muon-nesterov --muon-coefficient-type simple" },
    { "muon-parts", MUON "--muon-tp-mode distributed --muon-scale-mode unit_rms_norm --muon-no-split-qkv" },
};

/* Of queries and keys: a threshold that scores of these models are above in most iterations. */
static const axis_choice clip_choices[] = { { "-", "" },
                                            { "qk-clip", "--qk-clip --qk-clip-threshold 0.1 --qk-clip-alpha 0.3" } };

/* Of whole matrices; and, of a gated MLP, of parts of them. */
#define ALL_MATRICES "--lora-targets query_key_value dense dense_h_to_4h dense_4h_to_h "
static const axis_choice adapters_choices[] = {
    { "-", "" },
    { "lora", "--lora-rank 4 " ALL_MATRICES },
    { "lora-dropout", "--lora-rank 3 --lora-dropout 0.2 --lora-alpha 6 " ALL_MATRICES },
    { "lora-parts", "--lora-rank 2 --lora-dropout 0.1 --lora-targets q_proj k_proj v_proj o_proj gate_proj up_proj "
                    "down_proj" },
    { "lora-few", "--lora-rank 8 --lora-targets v_proj dense_4h_to_h" },
};

/* Tokens and micro-batches that pass layers by. */
static const axis_choice routing_choices[] = {
    { "-", "" },
    { "drops", "--random-ltd --random-ltd-min-value 8 --random-ltd-max-value 8 --random-ltd-require-steps 1 "
               "--random-ltd-seq-per-step 8" },
    { "fades", "--progressive-layer-drop --pld-theta 0 --pld-gamma 0.3" },
};

/* Who keeps it: ZeRO's run alone has these flags. A path in them is a folder for files. */
#define TO_CPU    "--offload-optimizer cpu"
#define TO_FILES  "--offload-optimizer nvme --offload-optimizer-nvme-path @"
#define RATIO     " --offload-optimizer-ratio "
#define NONE_STAY "--zero-param-persistence-threshold 0"
static const axis_choice stage_choices[] = {
    { "stage0", "" },
    { "stage1", "--zero-stage 1" },
    { "stage2", "--zero-stage 2" },
    { "stage3", "--zero-stage 3" },
    { "near", "--zero-stage 3 --zero-hpz-partition-size 2" },
    { "mics", "--zero-stage 3 --mics-shard-size 2" },
};
static const axis_choice offload_choices[] = {
    { "-", "" },
    { "cpu", TO_CPU },
    { "nvme", TO_FILES },
    { "some-cpu", TO_CPU RATIO "0.3" },
    { "most-nvme", TO_FILES RATIO "0.7" },
    { "params-cpu", TO_CPU " --offload-param cpu" },
    { "params-nvme", TO_FILES " --offload-param nvme --offload-param-nvme-path @" },
    { "params-some", TO_CPU RATIO "0.4 --offload-param nvme --offload-param-nvme-path @" },
};
static const axis_choice buckets_choices[] = {
    { "-", "" },
    { "wait", "--no-overlap-grad-reduce" },
    { "small", "--zero-reduce-bucket-size 500" },
    { "all-reduce", "--no-zero-reduce-scatter" },
    { "broadcast", "--no-zero-allgather-partitions --zero-allgather-bucket-size 20000" },
    { "pieces", "--zero-sub-group-size 2048 --zero-allgather-bucket-size 3000" },
};
/* Every parameter of these models is small by default, and stays. */
static const axis_choice stays_choices[] = {
    { "-", "" },
    { "nothing", NONE_STAY },
    { "norms", "--zero-param-persistence-threshold 200" },
    { "few", "--zero-param-persistence-threshold 2000 --zero-model-persistence-threshold 300" },
    { "reused", NONE_STAY " --zero-max-reuse-distance 1e9" },
    { "late", NONE_STAY " --zero-prefetch-bucket-size 0" },
    { "one-live", NONE_STAY " --zero-max-live-parameters 1" },
};

#define LENGTH(a) ((int)(sizeof(a) / sizeof *(a)))

static const struct axis {
    const axis_choice *choice; /* NULL: layouts */
    int n;
} axes[N_AXES] = {
    [LAYOUT] = { NULL, LENGTH(layouts) },
    [SEQUENCE] = { sequence_choices, LENGTH(sequence_choices) },
    [CONTEXT] = { context_choices, LENGTH(context_choices) },
    [SCHEDULE] = { schedule_choices, LENGTH(schedule_choices) },
    [RECOMPUTE] = { recompute_choices, LENGTH(recompute_choices) },
    [CHUNKS] = { chunks_choices, LENGTH(chunks_choices) },
    [EXPERTS] = { experts_choices, LENGTH(experts_choices) },
    [SUMS] = { sums_choices, LENGTH(sums_choices) },
    [DROPOUT] = { dropout_choices, LENGTH(dropout_choices) },
    [RAMP] = { ramp_choices, LENGTH(ramp_choices) },
    [RATE] = { rate_choices, LENGTH(rate_choices) },
    [LAYERS] = { layers_choices, LENGTH(layers_choices) },
    [VOCAB] = { vocab_choices, LENGTH(vocab_choices) },
    [MODEL] = { model_choices, LENGTH(model_choices) },
    [MICRO] = { micro_choices, LENGTH(micro_choices) },
    [DTYPE] = { dtype_choices, LENGTH(dtype_choices) },
    [OPTIMIZER] = { optimizer_choices, LENGTH(optimizer_choices) },
    [CLIP] = { clip_choices, LENGTH(clip_choices) },
    [ADAPTERS] = { adapters_choices, LENGTH(adapters_choices) },
    [ROUTING] = { routing_choices, LENGTH(routing_choices) },
    [STAGE] = { stage_choices, LENGTH(stage_choices) },
    [OFFLOAD] = { offload_choices, LENGTH(offload_choices) },
    [BUCKETS] = { buckets_choices, LENGTH(buckets_choices) },
    [STAYS] = { stays_choices, LENGTH(stays_choices) },
};

/* A choice on each axis. */
typedef struct layout_case {
    int at[N_AXES];
} layout_case;

static inline sizes sizes_of(const layout_case *c)
{
    return layouts[c->at[LAYOUT]];
}

/* Whether an update is the sign of a number, which rounding may turn where the number is next to nothing. */
static inline bool has_signs(const layout_case *c)
{
    return strstr(optimizer_choices[c->at[OPTIMIZER]].flags, "lion") != NULL;
}

/* Whether an update is as long where the gradient is nothing but rounding, as a bias of keys' is: that adds the same to
 * all scores of a query, which a softmax does not see, but a largest score does. */
static inline bool magnifies_rounding(int optimizer)
{
    const char *flags = optimizer_choices[optimizer].flags;
    return strstr(flags, "lion") || strstr(flags, "adagrad");
}

/* Whether gradients are summed over near ranks first, and then over the rows of these. */
static inline bool sums_rows(const layout_case *c)
{
    return strstr(stage_choices[c->at[STAGE]].flags, "--mics") && sizes_of(c).dp > 2;
}

static inline int n_ranks_of(const layout_case *c)
{
    sizes l = sizes_of(c);
    return l.tp * l.pp * l.dp;
}

/* Whether a stage's ranks divide experts so. */
static inline bool divide_experts(sizes l, int choice)
{
    static const int each[] = { 1, 2, 4, 1, 2, 4 };
    bool whole = choice > 2;
    return (whole ? l.tp * l.dp : l.dp) % each[choice] == 0 && (!whole || l.tp > 1);
}

/* Whether tokens, or micro-batches, may pass a model's layers by. */
static inline bool are_passed_by(const char *model, int routing)
{
    if (routing == 1 && (strstr(model, "alibi") || strstr(model, "--window-size"))) return false;
    if (routing == 1 && strstr(model, "--rope-scaling-type dynamic")) return false;
    return !strstr(model, "--num-experts") && (routing == 1 || !strstr(model, "--post-layernorm"));
}

/* Whether a layout's ranks divide positions so; models have 4 heads or more, which Ulysses' ranks divide. */
static inline bool divide_positions(sizes l, int choice)
{
    static const int each[] = { 1, 2, 4, 2, 4, 2, 4, 4 };
    int n = each[choice];
    return l.dp % n == 0 && (l.tp * (choice == 7 ? 2 : n) <= 4 || (choice > 2 && choice < 7));
}

static inline bool is_gated(const char *model)
{
    return strstr(model, "--swiglu") || strstr(model, "--gated-activation");
}

/* Whether ranks may divide chunks, all of one size: they exchange heads or gather keys. */
static inline bool divide_chunks(const char *context, const char *chunks)
{
    bool ring = !strstr(context, "a2a") && !strstr(context, "--ds-") && !strstr(context, "allgather");
    return !ring && !strstr(context, "p2p") && 16 % atoi(chunks + strlen(FPDT)) == 0;
}

/* Whether a model's layers may compute their positions in chunks. */
static inline bool are_in_chunks(const char *model)
{
    return !strstr(model, "--num-experts") && !strstr(model, "BERT");
}

/* Whether two choices go together. */
static inline bool go_together(int a, int i, int b, int k)
{
    if (a > b) return go_together(b, k, a, i);
    if (a == LAYOUT && b == SEQUENCE && k) return layouts[i].tp > 1;
    if (a == LAYOUT && b == CONTEXT && k) return divide_positions(layouts[i], k);
    if (a == LAYOUT && b == SCHEDULE && k) return layouts[i].pp > 1;
    if (a == LAYOUT && b == SUMS && k) return layouts[i].dp > 1;
    if (a == LAYOUT && b == EXPERTS && k) return divide_experts(layouts[i], k);
    if (a == SEQUENCE && b == CHUNKS && k) return !i;
    if (a == CONTEXT && b == CHUNKS && i && k)
        return divide_chunks(axes[CONTEXT].choice[i].flags, axes[CHUNKS].choice[k].flags);
    if (a == CHUNKS && b == EXPERTS && k) return !i;
    if (a == CHUNKS && b == MODEL && i) return are_in_chunks(axes[MODEL].choice[k].flags);
    if (a == CHUNKS && b == ROUTING && i) return k != 1;
    if (a == EXPERTS && b == MODEL && i) return strstr(axes[MODEL].choice[k].flags, "--num-experts") != NULL;
    if (a == LAYOUT && b == STAGE && k > 3) return layouts[i].dp % 2 == 0;
    if (a == EXPERTS && b == STAGE && k > 3) return i == 0;
    if (a == EXPERTS && b == DTYPE && i) return !k;           /* as their models */
    if (a == RATE && b == DTYPE && i == DECOUPLED) return !k; /* larger rates magnify what two bytes round */
    if (a == SCHEDULE && b == LAYERS && k) return i != INTERLEAVED;
    if (a == SCHEDULE && b == MICRO && k) return i != INTERLEAVED;
    if (a == RAMP && b == MICRO && k) return !i;
    /* sums over rows of ranks round each time: test_mics has them */
    if (a == DTYPE && b == STAGE && i) return !strstr(stage_choices[k].flags, "--mics");
    if (a == STAGE && b == BUCKETS && k) return i > 0;
    if (a == STAGE && b == OFFLOAD && k) return i >= 3 || (i > 0 && !strstr(offload_choices[k].flags, "-param "));
    if (a == STAGE && b == STAYS && k) return i >= 3;
    if (a == RATE && b == OPTIMIZER && k) return i != ONE_CYCLE || !strstr(optimizer_choices[k].flags, "--min-lr");
    if (a == OPTIMIZER && b == OFFLOAD && k) return strcmp(optimizer_choices[i].flags, ADAFACTOR) != 0;
    if (a == OPTIMIZER && b == CLIP && k) return !magnifies_rounding(i);
    if (a == MODEL && b == CLIP && k) return !strstr(axes[MODEL].choice[i].flags, "--qk-layernorm");
    if (a == MODEL && b == ADAPTERS && k == 3 && !is_gated(axes[MODEL].choice[i].flags)) return false;
    if (a == MODEL && b == ADAPTERS && k)
        return !strstr(axes[MODEL].choice[i].flags, "--num-experts") && !strstr(axes[MODEL].choice[i].flags, "BERT");
    if (a == EXPERTS && b == ADAPTERS && k) return !i;
    if (a == CLIP && b == ADAPTERS && k) return !i;
    if (a == ADAPTERS && b == OFFLOAD && k) return !i;
    if (a == MODEL && b == ROUTING && k) return are_passed_by(axes[MODEL].choice[i].flags, k);
    if (a == MODEL && b == DTYPE && k) return !strstr(axes[MODEL].choice[i].flags, "--num-experts");
    return true;
}

static inline bool is_possible(const layout_case *c)
{
    for (int a = 0; a < N_AXES; a++)
        for (int b = a + 1; b < N_AXES; b++)
            if (!go_together(a, c->at[a], b, c->at[b])) return false;
    return true;
}

/* ---- flags ---- */

/* Ones that the number of data ranks divides, also at half their size. */
static inline int global_batch(const layout_case *c)
{
    switch (sizes_of(c).dp) {
    case 3:
    case 6:
        return 24;
    case 5:
        return 20;
    case 7:
        return 28;
    case 8:
        return 32;
    default:
        return 16;
    }
}

/* The flags of axes [from, end). */
static inline int axes_flags(char *text, size_t cap, const layout_case *c, int from, int end)
{
    int n = 0;
    text[0] = 0;
    for (int a = from; a < end; a++)
        if (axes[a].choice[c->at[a]].flags)
            n += snprintf(text + n, cap - (size_t)n, "%s ", axes[a].choice[c->at[a]].flags);
    return n;
}

/* Learning rates; momentum, too, goes with a cycle, whose second beta would have Adam magnify rounding where gradients
 * are hardly more: eps is above that. */
static inline const char *rate_flags(const layout_case *c)
{
    if (!c->at[RATE]) return "--lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine ";
    if (c->at[RATE] == 2) return "--lr 2e-3 --min-lr 2e-4 --decoupled-lr 5e-3 --lr-decay-style linear ";
    return "--lr-schedule OneCycle --cycle-min-lr 2e-4 --cycle-max-lr 1e-3 --cycle-first-step-size 3 "
           "--cycle-second-step-size 4 --decay-step-size 2 --decay-lr-rate 0.5 --adam-eps 1e-6 ";
}

static int layout_seed = 5; /* of initial weights and dropout */

/* What is computed. */
static inline void what_flags(char *text, size_t cap, const layout_case *c)
{
    int batch = c->at[MICRO] ? 2 * sizes_of(c).dp : global_batch(c);
    int layers = c->at[LAYERS] ? sizes_of(c).pp == 2 ? 5 : 7 : sizes_of(c).pp == 4 ? 8 : 4;
    int n = snprintf(text, cap,
                     "--num-layers %d --hidden-size 32 --seq-length 16 --max-position-embeddings 16 --clip-grad 1 "
                     "--weight-decay 0.1 --init-method-std 0.05 --seed %d --tokenizer-type NullTokenizer --vocab-size "
                     "511 --data-path none --threads 1 --global-batch-size %d %s",
                     layers, layout_seed, batch, rate_flags(c));
    if (c->at[RAMP]) /* six iterations of half the batch */
        n +=
            snprintf(text + n, cap - (size_t)n, "--micro-batch-size 1 --train-samples %d --rampup-batch-size %d %d %d ",
                     7 * batch, batch / 2, batch / 2, 3 * batch);
    else
        n += snprintf(text + n, cap - (size_t)n, "--micro-batch-size 2 --train-iters 10 ");
    if (c->at[RATE] != 1 && c->at[RAMP])
        n += snprintf(text + n, cap - (size_t)n, "--lr-warmup-samples %d ", batch);
    else if (c->at[RATE] != 1)
        n += snprintf(text + n, cap - (size_t)n, "--lr-warmup-iters 2 ");
    axes_flags(text + n, cap - (size_t)n, c, DROPOUT, STAGE);
}

/* How, the sizes of the axes left out. */
static inline void how_flags(char *text, size_t cap, const layout_case *c)
{
    axes_flags(text, cap, c, SEQUENCE, DROPOUT);
}

/* Who keeps it.   @dir an empty folder */
static inline void zero_flags(char *text, size_t cap, const layout_case *c, const char *dir)
{
    char flags[1024];
    int n = 0;
    axes_flags(flags, sizeof flags, c, STAGE, N_AXES);
    text[0] = 0;
    for (char *at = NULL, *w = strtok_r(flags, " ", &at); w; w = strtok_r(NULL, " ", &at))
        n += snprintf(text + n, cap - (size_t)n, "%s ", *w == '@' ? dir : w);
}

static inline int64_t vocab_of(const layout_case *c)
{
    return c->at[VOCAB] ? 509 : 512;
}

/* ---- in words: "2x2x2 sequence 1f1b - - dropout - even 509 gpt2 many fp32 adam - - stage0 - - -" ---- */

static inline void words_of(char *text, size_t cap, const layout_case *c)
{
    sizes l = sizes_of(c);
    int n = snprintf(text, cap, "%dx%dx%d", l.tp, l.pp, l.dp);
    for (int a = SEQUENCE; a < N_AXES; a++)
        n += snprintf(text + n, cap - (size_t)n, " %s", axes[a].choice[c->at[a]].word);
}

/* The first choice of each axis where no word tells another. false: a word is none. */
static inline bool case_from_words(layout_case *c, int n, char *const *word)
{
    memset(c, 0, sizeof *c);
    for (int w = 0; w < n; w++) {
        bool known = !strcmp(word[w], "-");
        for (int i = 0; i < LENGTH(layouts); i++) {
            char name[32];
            snprintf(name, sizeof name, "%dx%dx%d", layouts[i].tp, layouts[i].pp, layouts[i].dp);
            if (!strcmp(name, word[w])) c->at[LAYOUT] = i, known = true;
        }
        for (int a = SEQUENCE; a < N_AXES; a++)
            for (int i = 0; i < axes[a].n; i++)
                if (!strcmp(axes[a].choice[i].word, word[w])) c->at[a] = i, known = true;
        if (!known) return false;
    }
    return true;
}

static inline layout_case case_of(const char *words)
{
    char copy[256], *word[N_AXES];
    int n = 0;
    layout_case c;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *at = NULL, *w = strtok_r(copy, " ", &at); w && n < N_AXES; w = strtok_r(NULL, " ", &at)) word[n++] = w;
    if (!case_from_words(&c, n, word) || !is_possible(&c)) fail_msg("%s: no combination", words);
    return c;
}

/* ---- all of some axes ---- */

/* How many choices of each axis a test takes: 0 is 1, and too many are all there are. */
static inline int n_choices(const int n[N_AXES], int a)
{
    return n[a] < 1 ? 1 : n[a] < axes[a].n ? n[a] : axes[a].n;
}

/* The next one behind it, the first axis fastest; false: that was the last. */
static inline bool next_case(layout_case *c, const int n[N_AXES])
{
    for (int a = 0; a < N_AXES; a++) {
        if (++c->at[a] < n_choices(n, a)) return true;
        c->at[a] = 0;
    }
    return false;
}

/* ---- pairs ---- */

enum { MAX_CHOICES = 32 };

typedef struct pairs {
    bool met[N_AXES][MAX_CHOICES][N_AXES][MAX_CHOICES];
    int first[N_AXES], n[N_AXES]; /* choices that are taken */
    int left;
} pairs;

/* Of an axis with one choice there is nothing to meet. */
static inline bool is_free(const pairs *p, int a)
{
    return p->n[a] - p->first[a] > 1;
}

/* Of axis a the choices [first[a], n[a]) (n_choices). */
static inline void pairs_begin(pairs *p, const int first[N_AXES], const int n[N_AXES])
{
    memset(p, 0, sizeof *p);
    for (int a = 0; a < N_AXES; a++) p->first[a] = first[a], p->n[a] = n_choices(n, a);
    for (int a = 0; a < N_AXES; a++)
        for (int b = a + 1; b < N_AXES && is_free(p, a); b++)
            for (int i = p->first[a]; i < p->n[a] && is_free(p, b); i++)
                for (int k = p->first[b]; k < p->n[b]; k++) p->left += go_together(a, i, b, k);
}

/* Pairs of the case that none before had; with `take` they are had from now on. */
static inline int new_pairs(pairs *p, const layout_case *c, bool take)
{
    int n = 0;
    for (int a = 0; a < N_AXES; a++)
        for (int b = a + 1; b < N_AXES; b++) {
            if (!is_free(p, a) || !is_free(p, b)) continue;
            bool *met = &p->met[a][c->at[a]][b][c->at[b]];
            n += !*met;
            if (take) *met = true;
        }
    if (take) p->left -= n;
    return n;
}

/* Below n. */
static inline int draw_below(const tx_rng *rng, uint64_t *drawn, int n)
{
    uint32_t w[4];
    tx_rng_u32x4(rng, (*drawn)++, w);
    return (int)(w[0] % (uint32_t)n);
}

/* Two choices that have not met. */
typedef struct choice_pair {
    int a, i, b, k;
} choice_pair;

/* @nth of those that have not met, below p->left */
static inline choice_pair pair_left(const pairs *p, int nth)
{
    for (int a = 0; a < N_AXES; a++)
        for (int b = a + 1; b < N_AXES && is_free(p, a); b++)
            for (int i = p->first[a]; i < p->n[a] && is_free(p, b); i++)
                for (int k = p->first[b]; k < p->n[b]; k++)
                    if (!p->met[a][i][b][k] && go_together(a, i, b, k) && !nth--) return (choice_pair){ a, i, b, k };
    fail_msg("fewer pairs are left than are counted");
    return (choice_pair){ 0 };
}

/* Choices at random that go with the pair and with each other. false: none is left for an axis. */
static inline bool draw_case(layout_case *c, const pairs *p, const choice_pair *with, const tx_rng *rng,
                             uint64_t *drawn)
{
    bool is_set[N_AXES] = { [0] = false };
    is_set[with->a] = is_set[with->b] = true;
    c->at[with->a] = with->i;
    c->at[with->b] = with->k;
    for (int a = 0; a < N_AXES; a++) {
        int n = p->n[a] - p->first[a], at = is_set[a] || n == 1 ? 0 : draw_below(rng, drawn, n);
        bool fits = is_set[a];
        for (int turn = 0; turn < n && !fits; turn++) {
            c->at[a] = p->first[a] + (at + turn) % n;
            fits = true;
            for (int b = 0; b < N_AXES && fits; b++) fits = !is_set[b] || go_together(a, c->at[a], b, c->at[b]);
        }
        if (!fits) return false;
        is_set[a] = true;
    }
    return true;
}

/* The next case of the sample: of many at random, which have a pair that none before had, the one with the most. */
static inline layout_case next_of_sample(pairs *p, const tx_rng *rng, uint64_t *drawn)
{
    layout_case best, c;
    int most = 0;
    memcpy(best.at, p->first, sizeof best.at);
    while (p->left && !most) {
        const choice_pair new = pair_left(p, draw_below(rng, drawn, p->left));
        for (int tries = 0; tries < 300; tries++) {
            int n = draw_case(&c, p, &new, rng, drawn) ? new_pairs(p, &c, false) : 0;
            if (n > most) most = n, best = c;
        }
        if (most) break;
        print_message("axes %d and %d: no combination has choices %d and %d; go_together could say so\n", new.a, new.b,
                      new.i, new.k);
        p->met[new.a][new.i][new.b][new.k] = true;
        p->left--;
    }
    new_pairs(p, &best, true);
    return best;
}

#endif
