/* labels: unit */
/* Rules across options: each one broken alone gives its sentence and nothing else. */
#include "support.h"

#include "config/config.h"

#define SHAPE  "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 64 "
#define SIZES  "--micro-batch-size 2 --seq-length 64 --lr 1e-3 --data-path d --vocab-file v --merge-file m "
#define ROTARY "--use-rotary-position-embeddings "
#define GOOD   SHAPE SIZES "--train-iters 10 "
#define APART  SHAPE "--micro-batch-size 2 --seq-length 64 --lr 1 --vocab-file v --merge-file m --train-iters 3 "
#define TALKS  SHAPE "--micro-batch-size 2 --seq-length 64 --lr 1e-3 --finetune-data d --vocab-file v --merge-file m "
#define BERT   SHAPE "--micro-batch-size 2 --seq-length 64 --lr 1e-3 --data-path d --vocab-file v --train-iters 10 "
#define SHOW   "--data-path d --seq-length 64 --micro-batch-size 2 --train-iters 3 "

static const struct broken {
    const char *command, *flags, *text;
} cases[] = {
    { "plan", GOOD "--gpus-per-node 4", "--gpus-per-node needs --machine: it takes the place of a number of its file" },
    { "plan", GOOD "--node-bandwidth 50",
      "--node-bandwidth needs --machine: it takes the place of a number of its file" },
    { "plan", GOOD "--global-batch-size 2 --world-size 2 --search",
      "--search needs --machine: which layout is fastest depends on it" },
    { "plan", GOOD "--global-batch-size 2 --gpus-for 30",
      "--gpus-for needs --machine: how long the run takes depends on it" },
    { "pretrain-gpt", GOOD "--num-attention-heads 5",
      "--hidden-size 64 is not divisible by --num-attention-heads 5; give --kv-channels" },
    { "pretrain-gpt", GOOD "--num-key-value-heads 3",
      "--num-attention-heads 4 is not divisible by --num-key-value-heads 3; try --num-key-value-heads 2 or 4" },
    { "pretrain-gpt", GOOD "--num-query-groups 2",
      "--num-query-groups 2 needs --group-query-attention; or give --num-key-value-heads alone" },
    { "pretrain-gpt", GOOD "--group-query-attention --num-key-value-heads 2",
      "--num-key-value-heads 2, but --group-query-attention has --num-query-groups 1: two names of one number, give "
      "one "
      "of them" },
    { "pretrain-gpt", GOOD "--group-query-attention --num-query-groups 3",
      "--num-attention-heads 4 is not divisible by --num-key-value-heads 3; try --num-query-groups 2 or 4" },
    { "pretrain-gpt", GOOD "--swiglu --squared-relu",
      "--openai-gelu, --squared-relu, --relu, --swiglu, --gated-activation and --glu-activation: give one of the six" },
    { "pretrain-gpt", GOOD "--swiglu --glu-activation swiglu --no-bias-gelu-fusion",
      "--openai-gelu, --squared-relu, --relu, --swiglu, --gated-activation and --glu-activation: give one of the six" },
    { "pretrain-gpt", GOOD "--glu-activation geglu", "if glu-activation is used, please set --no-bias-gelu-fusion" },
    { "pretrain-gpt", GOOD "--swiglu --hidden-size 20",
      "--swiglu and --gated-activation: 8/3 of --hidden-size 20 is less than 64; give --ffn-hidden-size" },
    { "pretrain-gpt", GOOD "--use-rotary-position-embeddings --rotary-percent 0.2",
      "--rotary-percent 0.2 of a head's width 16 is 3, which has to be even and at least 2" },
    { "pretrain-gpt", GOOD "--position-embedding-type alibi --use-rotary-position-embeddings",
      "--use-rotary-position-embeddings is --position-embedding-type rope, but alibi is given: give one of the two" },
    { "pretrain-gpt", GOOD "--position-embedding-type absolute --no-position-embedding",
      "--no-position-embedding, but --position-embedding-type learned_absolute adds learned positions: give one of the "
      "two" },
    { "pretrain-gpt", GOOD "--position-embedding-type sinus",
      "--position-embedding-type sinus is unknown; allowed: one of absolute, learned_absolute, alibi, rotary, rope, "
      "yarn, none" },
    { "pretrain-gpt", GOOD "--rotary-interleaved", "--rotary-interleaved needs --use-rotary-position-embeddings" },
    { "pretrain-gpt", GOOD "--no-rope-freq 4", "--no-rope-freq needs --use-rotary-position-embeddings" },
    { "pretrain-gpt", GOOD ROTARY "--window-rotary-base 1e4", "--window-rotary-base needs --window-size" },
    { "pretrain-gpt", GOOD ROTARY "--use-rope-scaling --rope-scaling-type linear --rope-scaling-factor 2",
      "--use-rope-scaling is --rope-scaling-type llama3, but linear is given: give one of the two" },
    { "pretrain-gpt", GOOD ROTARY "--rotary-seq-len-interpolation-factor 2 --use-rope-scaling",
      "--rotary-seq-len-interpolation-factor is --rope-scaling-type linear, but llama3 is given: give one of the two" },
    { "pretrain-gpt", GOOD ROTARY "--rotary-seq-len-interpolation-factor 2 --rope-scaling-factor 4",
      "--rotary-seq-len-interpolation-factor 2, but --rope-scaling-factor 4: two names of one number, give one of "
      "them" },
    { "pretrain-gpt", GOOD ROTARY "--rope-scaling-factor 4",
      "--rope-scaling-factor needs --rope-scaling-type linear, dynamic, yarn or llama3" },
    { "pretrain-gpt", GOOD ROTARY "--rope-scaling-type linear --rope-scaling-factor 2 --rope-original-positions 8",
      "--rope-original-positions needs --rope-scaling-type dynamic, yarn or llama3" },
    { "pretrain-gpt", GOOD ROTARY "--use-rope-scaling --yarn-beta-fast 8",
      "--yarn-beta-fast needs --rope-scaling-type yarn" },
    { "pretrain-gpt", GOOD ROTARY "--rope-scaling-type dynamic",
      "--rope-scaling-type dynamic needs --rope-scaling-factor" },
    { "pretrain-gpt", GOOD ROTARY "--use-rope-scaling --rope-low-freq-factor 4",
      "--rope-low-freq-factor 4 must be less than --rope-high-freq-factor 4" },
    { "pretrain-gpt", GOOD "--position-embedding-type yarn --rotary-scaling-factor 4 --yarn-beta-slow 33",
      "--yarn-beta-slow 33 must be at most --yarn-beta-fast 32" },
    { "pretrain-gpt", GOOD ROTARY "--rope-scaling-type yarn --rope-scaling-factor 4 --rope-base 1",
      "--rope-scaling-type yarn needs a --rotary-position-embeddings-theta above 1, not 1" },
    { "pretrain-gpt", GOOD ROTARY "--no-rope-freq 0.5",
      "--no-rope-freq 0.5 is neither a whole number of at least 1 nor a list of 0 and 1 such as ([0]*3+[1])*4" },
    { "pretrain-gpt", GOOD ROTARY "--no-rope-freq [0,1]*3",
      "--no-rope-freq [0,1]*3 is a list of 6 layers, and --num-layers is 2" },
    { "pretrain-gpt", GOOD "--normalization rmsnorm --qk-layernorm --qk-layernorm-whole",
      "--qk-layernorm normalises each head, --qk-layernorm-whole all at once: give one of the two" },
    { "pretrain-gpt", GOOD "--qk-layernorm-whole", "--qk-layernorm-whole needs --normalization rmsnorm" },
    { "pretrain-bert", BERT "--z-loss-weight 1e-4",
      "--model-type BERT: --z-loss-weight is of a GPT's output layer, leave it out" },
    { "pretrain-gpt", GOOD "--kd", "--kd needs --load-teacher, the model that teaches" },
    { "plan", GOOD "--mos", "--mos needs --load-teacher, the model that teaches, or its --num-layers-teacher" },
    { "pretrain-gpt", GOOD "--kd --mos --load-teacher t",
      "--kd and --mos: the same loss under two names, give one of the two" },
    { "pretrain-gpt",
      GOOD "--kd --load-teacher t --num-layers-teacher 1 --pipeline-model-parallel-size 2 --world-size 2",
      "the teacher's 1 layers are fewer than --pipeline-model-parallel-size 2: each stage has some of them" },
    { "pretrain-gpt",
      GOOD "--kd --load-teacher t --num-layers-teacher 6 --pipeline-model-parallel-size 2 --world-size 2 "
           "--global-batch-size 8 --num-layers 4 --num-layers-per-virtual-pipeline-stage 1",
      "the teacher's 6 layers are not divisible by the 4 parts that --num-layers-per-virtual-pipeline-stage makes of "
      "the "
      "student" },
    { "pretrain-gpt", GOOD "--kd-beta-ce 2", "--kd-beta-ce needs --kd or --mos" },
    { "pretrain-gpt", GOOD "--load-teacher t", "--load-teacher needs --kd or --mos" },
    { "pretrain-gpt", GOOD "--kd --load-teacher t --kd-temp 0", "--kd-temp 0 is too small; allowed: at least 0.001" },
    { "pretrain-bert", BERT "--kd --load-teacher t", "--kd is for a GPT: leave it out with --model-type BERT" },
    { "pretrain-bert", BERT "--position-embedding-type alibi",
      "--position-embedding-type alibi is for a GPT: its biases grow with how far back a key lies, and a BERT looks "
      "both "
      "ways; leave the flag out" },
    { "pretrain-bert", BERT "--window-size 8",
      "--window-size is for a GPT: its window reaches back, and a BERT looks both ways; leave the flag out" },
    { "pretrain-gpt", GOOD "--window-size 128,1",
      "--window-size 128,1 is not a whole number; allowed: at least 0 tokens" },
    { "pretrain-gpt", GOOD "--window-size (128,0",
      "--window-size (128,0 is not a whole number; allowed: at least 0 tokens" },
    { "pretrain-gpt", GOOD "--window-size -1,0", "--window-size -1,0 is too small; allowed: at least 0 tokens" },
    { "pretrain-gpt", GOOD "--window-attn-skip-freq 2",
      "--window-attn-skip-freq needs --window-size: it says which layers have that window" },
    { "pretrain-gpt", GOOD "--window-size 8 --window-attn-skip-freq [1,0,1]",
      "--window-attn-skip-freq [1,0,1] is a list of 3 layers, and --num-layers is 2" },
    { "pretrain-gpt", GOOD "--window-size 8 --window-attn-skip-freq 1",
      "--window-attn-skip-freq 1: no layer has the window of --window-size 8; leave both out" },
    { "pretrain-gpt", GOOD "--window-size 8 --window-attn-skip-freq some",
      "--window-attn-skip-freq some is neither a whole number of at least 2 nor a list of 0 and 1 such as [1]*5+[0] or "
      "([1]*3+[0])*4" },
    { "pretrain-gpt", GOOD "--attention-logit-softcap -1",
      "--attention-logit-softcap -1 is too small; allowed: at least 0" },
    { "pretrain-gpt", GOOD "--softmax-type offbyone",
      "--softmax-type offbyone is unknown; allowed: one of vanilla, off-by-one, learnable" },
    { "pretrain-gpt", GOOD "--position-embedding-type alibi --max-position-embeddings 32",
      "--seq-length 64 is more than --max-position-embeddings 32" },
    { "pretrain-gpt", GOOD "--mock-data",
      "--mock-data takes the place of a dataset: leave it out, or --data-path and its kin" },
    { "pretrain-gpt", SHAPE "--micro-batch-size 2 --seq-length 64 --lr 1 --train-iters 3 --mock-data",
      "--mock-data needs the size of the vocabulary: give --vocab-size, or the tokenizer's files" },
    { "pretrain-bert", SHAPE "--micro-batch-size 2 --seq-length 64 --lr 1 --train-iters 3 --vocab-file v --mock-data",
      "--mock-data is for a GPT: its documents have no sentences, which a BERT's samples are made of; give "
      "--data-path" },
    { "pretrain-gpt", GOOD "--rotary-percent 0.5",
      "--rotary-percent and --rotary-position-embeddings-theta need --use-rotary-position-embeddings" },
    { "pretrain-gpt", GOOD "--seq-length 65", "--seq-length 65 is more than --max-position-embeddings 64" },
    { "pretrain-gpt", GOOD "--global-batch-size 5",
      "global batch size (5) is not divisible by micro batch size (2) times data parallel size (1); try "
      "--global-batch-size 4 or 6, or --micro-batch-size 1 or 5" },
    { "pretrain-gpt", SHAPE SIZES,
      "either train-iters or train-samples should be provided: pretrain-gpt needs --train-iters" },
    { "pretrain-gpt", GOOD "--train-samples 10",
      "expected iteration-based training: give --train-iters or --train-samples, not both" },
    { "pretrain-gpt", GOOD "--lr-decay-samples 10",
      "expected iteration-based learning rate decay: with --train-iters use --lr-decay-iters" },
    { "pretrain-gpt", GOOD "--lr-warmup-samples 10",
      "expected iteration-based learning rate warmup: with --train-iters use --lr-warmup-iters" },
    { "pretrain-gpt", SHAPE SIZES "--train-samples 10 --lr-decay-iters 4",
      "expected sample-based learning rate decay: with --train-samples use --lr-decay-samples" },
    { "pretrain-gpt", SHAPE SIZES "--train-samples 10 --lr-warmup-iters 4",
      "expected sample-based learning rate warmup: with --train-samples use --lr-warmup-samples" },
    { "pretrain-gpt", SHAPE SIZES "--train-samples 1", "--train-samples 1 is less than one global batch of 2" },
    { "pretrain-gpt",
      GOOD "--train-iters 1e9 --eval-interval 1000000000 --eval-iters 1 --global-batch-size 200_000_000",
      "the run would read 2e+17 samples, more than 1e17: lower --train-iters" },
    { "pretrain-gpt", GOOD "--train-iters 1e6 --eval-interval 1 --eval-iters 1e9 --global-batch-size 2000",
      "evaluation would read 2e+18 samples, more than 1e17: lower --eval-iters" },
    { "pretrain-gpt", GOOD "--lr-warmup-fraction 0.1 --lr-warmup-iters 2",
      "can only specify one of lr-warmup-fraction and lr-warmup-iters" },
    { "pretrain-gpt", SHAPE SIZES "--train-samples 10 --lr-warmup-fraction 0.1 --lr-warmup-samples 2",
      "can only specify one of lr-warmup-fraction and lr-warmup-samples" },
    { "pretrain-gpt", GOOD "--lr-warmup-iters 10",
      "--lr-warmup-iters 10: the warm-up must be shorter than the decay span of 10 iterations" },
    { "pretrain-gpt", SHAPE SIZES "--train-samples 10 --lr-warmup-samples 11",
      "--lr-warmup-samples 11: the warm-up must be shorter than the decay span of 10 samples" },
    { "pretrain-gpt", GOOD "--lr-warmup-fraction 1",
      "--lr-warmup-fraction 1: the warm-up must be shorter than the decay span" },
    { "pretrain-gpt", GOOD "--skip-train-iteration-range 2-3 5-4",
      "--skip-train-iteration-range 5-4: skip train iterations should be specified as two numbers, i.e. start-end, "
      "with "
      "1 <= start <= end" },
    { "pretrain-gpt", GOOD "--skip-train-iteration-range 7",
      "--skip-train-iteration-range 7: skip train iterations should be specified as two numbers, i.e. start-end, with "
      "1 <= start <= end" },
    { "inspect-samples",
      "--data-path d --seq-length 8 --micro-batch-size 2 --train-iters 9 "
      "--skip-train-iteration-range 2-3",
      "inspect-samples shows the data in its order: leave --skip-train-iteration-range out" },
    { "pretrain-gpt",
      SHAPE SIZES "--train-samples 40 --global-batch-size 4 --rampup-batch-size 2 2 10 "
                  "--skip-train-iteration-range 2-3",
      "--skip-train-iteration-range needs batches of one size: leave --rampup-batch-size out" },
    { "pretrain-gpt", GOOD "--min-lr 1", "--min-lr 1 is more than --lr 0.001" },
    { "pretrain-gpt", GOOD "--decoupled-min-lr 1e-4", "--decoupled-min-lr needs --decoupled-lr" },
    { "pretrain-gpt", GOOD "--decoupled-lr 1e-5 --decoupled-min-lr 1e-4",
      "--decoupled-min-lr 0.0001 is more than --decoupled-lr 1e-05" },
    { "pretrain-gpt", GOOD "--decoupled-lr 1e-5 --min-lr 1e-4",
      "--min-lr 0.0001 is more than --decoupled-lr 1e-05: give --decoupled-min-lr" },
    { "pretrain-gpt", GOOD "--decoupled-lr 1e-5 --lr-warmup-init 1e-4",
      "--lr-warmup-init 0.0001 is more than --decoupled-lr 1e-05" },
    { "pretrain-gpt", GOOD "--decoupled-lr 1e-5 --lr-schedule LRRangeTest",
      "--decoupled-lr is of Megatron's schedule, in whose place --lr-schedule LRRangeTest stands: leave it out" },
    { "pretrain-gpt", GOOD "--decoupled-lr 1e-5 --save-format megatron --save x",
      "--save-format megatron holds one learning rate, not --decoupled-lr's: save native, or --no-save-optim" },
    { "engine", "--micro-batch-size 1 --lr 1 --label-smoothing 0.1",
      "--label-smoothing 0.1 is of the losses of GPT and BERT: a user-defined model computes its own, leave it out" },
    { "engine", "--micro-batch-size 1 --lr 1 --z-loss-weight 1e-4",
      "--z-loss-weight 0.0001 is of the losses of GPT and BERT: a user-defined model computes its own, leave it out" },
    { "engine", "--micro-batch-size 1 --lr 1 --decoupled-lr 1e-5",
      "--decoupled-lr is for a GPT and a BERT: which parameters of a client's model are meant is not known; give "
      "tx_engine_args.group" },
    { "pretrain-gpt", GOOD "--override-lr-scheduler --use-checkpoint-lr-scheduler",
      "both override and use-checkpoint are set: give --override-opt_param-scheduler or "
      "--use-checkpoint-opt_param-scheduler" },
    { "pretrain-gpt", GOOD "--start-weight-decay 0.1",
      "--start-weight-decay and --end-weight-decay need --weight-decay-incr-style linear or cosine" },
    { "pretrain-gpt", GOOD "--weight-decay-incr-style linear",
      "--weight-decay-incr-style linear needs --start-weight-decay and --end-weight-decay" },
    { "pretrain-gpt", GOOD "--weight-decay-incr-style linear --start-weight-decay 0.5 --end-weight-decay 0.1",
      "--end-weight-decay 0.1 is less than --start-weight-decay 0.5" },
    { "pretrain-gpt", GOOD "--log-optimizer-states-to-tensorboard --optimizer sgd",
      "--log-optimizer-states-to-tensorboard shows what Adam holds: not with --optimizer sgd" },
    { "pretrain-gpt", GOOD "--optimizer adafactor --zero-stage 1 --offload-optimizer cpu",
      "--optimizer adafactor sums rows and columns of matrices where layers compute: not with --offload-optimizer or "
      "--offload-param; its state is small" },
    { "pretrain-gpt", GOOD "--qk-clip-alpha 0.4", "--qk-clip-alpha needs --qk-clip" },
    { "pretrain-gpt", GOOD "--qk-clip-threshold 90", "--qk-clip-threshold needs --qk-clip" },
    { "pretrain-gpt", GOOD "--qk-clip --qk-clip-threshold 0", "--qk-clip-threshold 0 must be more than 0" },
    { "pretrain-gpt", GOOD "--qk-clip --qk-clip-alpha 1", "--qk-clip-alpha 1 must be more than 0 and less than 1" },
    { "pretrain-gpt", GOOD "--qk-clip --qk-clip-alpha 0", "--qk-clip-alpha 0 must be more than 0 and less than 1" },
    { "pretrain-gpt", GOOD "--qk-clip --qk-layernorm",
      "--qk-clip and --qk-layernorm: the norm undoes what clipping does to the weights, and keeps scores small by "
      "itself; leave one out" },
    { "pretrain-gpt", GOOD "--qk-clip --optimizer zerooneadam",
      "--qk-clip and --optimizer zerooneadam: weights follow from what its ranks have moved, where nothing is scaled; "
      "choose another optimizer, as muon or adam" },
    { "pretrain-gpt", GOOD "--z-loss-weight -1", "--z-loss-weight -1 is too small; allowed: at least 0" },
    { "pretrain-gpt", GOOD "--optimizer muon --muon-coefficient-type cubic5 --muon-num-ns-steps 6",
      "--muon-coefficient-type cubic5 is of 5 steps, but --muon-num-ns-steps is 6" },
    { "pretrain-gpt", GOOD "--optimizer muon --save-format megatron --save none",
      "--save-format megatron has no place for the state of --optimizer muon: save native, or --no-save-optim" },
    { "pretrain-gpt", GOOD "--optimizer onebitadam --bf16 --save-format deepspeed --save none",
      "--save-format deepspeed: with --bf16 DeepSpeed's pipeline engine would give each rank a part of the state of "
      "--optimizer onebitadam, which it needs whole: --no-pipeline-parallel and one stage, --fp16, or save native" },
    { "pretrain-gpt", GOOD "--muon-momentum 1", "--muon-momentum 1 must be less than 1" },
    { "pretrain-gpt", GOOD "--adam-beta2 1", "--adam-beta2 1 must be less than 1" },
    { "pretrain-gpt", GOOD "--optimizer lamb --lamb-min-coeff 3 --lamb-max-coeff 2",
      "--lamb-min-coeff 3 is more than --lamb-max-coeff 2" },
    { "pretrain-gpt", GOOD "--optimizer onebitlamb --lamb-min-coeff 0.1 --onebit-factor-min 3 --onebit-factor-max 2",
      "--onebit-factor-min 3 is more than --onebit-factor-max 2" },
    { "pretrain-gpt", GOOD "--optimizer onebitadam --onebit-factor-max 2",
      "--onebit-factor-max is for --optimizer onebitlamb, not onebitadam" },
    { "pretrain-gpt", GOOD "--optimizer onebitlamb --zero-stage 1",
      "--optimizer onebitlamb averages each rank's momentum of all parameters: not with --zero-stage; leave it out, or "
      "choose --optimizer adam" },
    { "pretrain-gpt", GOOD "--optimizer onebitlamb --onebit-coeff-beta 1",
      "--onebit-coeff-beta 1 must be less than 1" },
    { "pretrain-gpt", GOOD "--lamb-bias-correction none", "--lamb-bias-correction is for --optimizer lamb, not adam" },
    { "pretrain-gpt", GOOD "--optimizer lion --lion-beta1 1", "--lion-beta1 1 must be less than 1" },
    { "pretrain-gpt", GOOD "--optimizer lion --no-decoupled-weight-decay",
      "--no-decoupled-weight-decay is for --optimizer adam, not lion" },
    { "pretrain-gpt", GOOD "--sgd-nesterov", "--sgd-nesterov is for --optimizer sgd, not adam" },
    { "pretrain-gpt", GOOD "--optimizer adagrad --sgd-dampening 0.1",
      "--sgd-dampening is for --optimizer sgd, not adagrad" },
    { "pretrain-gpt", GOOD "--optimizer sgd --sgd-nesterov --sgd-momentum 0",
      "--sgd-nesterov needs a --sgd-momentum above 0" },
    { "pretrain-gpt", GOOD "--optimizer sgd --sgd-nesterov --sgd-dampening 0.1",
      "--sgd-nesterov and --sgd-dampening 0.1: Nesterov's momentum is not dampened; leave one out" },
    { "pretrain-gpt", GOOD "--hidden-dropout 1", "--hidden-dropout 1 must be less than 1" },
    { "pretrain-gpt", GOOD "--recompute-granularity full",
      "--recompute-granularity full needs --recompute-method uniform or block" },
    { "pretrain-gpt", GOOD "--recompute-granularity selective --recompute-method block",
      "--recompute-method block: recompute method is not yet supported for selective recomputing granularity; leave it "
      "out, or give --recompute-granularity full" },
    { "pretrain-gpt", GOOD "--recompute-activations --recompute-method uniform",
      "--recompute-method uniform: recompute method is not yet supported for selective recomputing granularity; leave "
      "it out, or give --recompute-granularity full" },
    { "pretrain-gpt", GOOD "--recompute-method uniform",
      "--recompute-method uniform needs --recompute-granularity full" },
    { "pretrain-gpt", GOOD "--recompute-activations --recompute-granularity full --recompute-method uniform",
      "--recompute-activations is --recompute-granularity selective, but full is given: give one of the two" },
    { "pretrain-gpt", GOOD "--recompute-num-layers 2",
      "--recompute-num-layers 2 needs --recompute-granularity full and --recompute-method" },
    { "pretrain-gpt", GOOD "--checkpoint-activations --recompute-num-layers 2",
      "--recompute-num-layers 2 needs --recompute-granularity full and --recompute-method" },
    { "pretrain-gpt", GOOD "--recompute-granularity full --recompute-method block --checkpoint-num-layers 2",
      "--checkpoint-num-layers 2 needs --checkpoint-activations" },
    { "pretrain-gpt", GOOD "--checkpoint-activations --recompute-activations",
      "--checkpoint-activations is --recompute-granularity full --recompute-method uniform already: leave "
      "--recompute-activations, --recompute-granularity and --recompute-method out" },
    { "pretrain-gpt", GOOD "--ds-sequence-parallel-fpdt-offloading",
      "--ds-sequence-parallel-fpdt-offloading needs --ds-sequence-parallel-fpdt" },
    { "pretrain-gpt", GOOD "--ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-nvme-path d",
      "--ds-sequence-parallel-fpdt-nvme-path needs --ds-sequence-parallel-fpdt-offloading" },
    { "pretrain-gpt", GOOD "--ds-sequence-parallel-fpdt --num-experts 4",
      "--ds-sequence-parallel-fpdt: layers with experts compute all tokens at once: leave it out, or --num-experts" },
    { "plan", GOOD "--ds-sequence-parallel-fpdt --sequence-parallel --tensor-model-parallel-size 2",
      "--ds-sequence-parallel-fpdt: the positions of a chunk are not divided over tensor-parallel ranks: leave it out, "
      "or --sequence-parallel" },
    { "evaluate", "--load d --valid-data f --ds-sequence-parallel-fpdt",
      "--ds-sequence-parallel-fpdt divides samples of --data-path, and --valid-data are texts: leave it out" },
    { "pretrain-bert", BERT "--ds-sequence-parallel-fpdt",
      "--ds-sequence-parallel-fpdt: a chunk's attention reads the chunks before it, and a BERT's reads all: leave it "
      "out" },
    { "pretrain-gpt", GOOD "--split-transformers",
      "--split-transformers is not built yet: a layer is one piece; leave the flag out" },
    { "pretrain-gpt", GOOD "--finetune", "--finetune needs --load" },
    { "pretrain-gpt", GOOD "--reset-iteration", "--reset-iteration needs --load" },
    { "pretrain-gpt", GOOD "--exit-on-missing-checkpoint", "--exit-on-missing-checkpoint needs --load" },
    { "pretrain-gpt", GOOD "--data-path 1 a 2", "--data-path has 3 values: one prefix, or pairs of weight and prefix" },
    { "pretrain-gpt", GOOD "--data-path 1 a -2 b",
      "--data-path: the weight -2 of b is negative; weights are at least 0" },
    { "pretrain-gpt", GOOD "--data-path 0 a 0.0 b", "--data-path: the weights have the sum 0, it must be above 0" },
    { "pretrain-gpt", GOOD "--train-data-path t",
      "--data-path with --split, or --train-data-path, --valid-data-path and --test-data-path: give one of the two" },
    { "pretrain-gpt", APART "--valid-data-path v --test-data-path t", "--valid-data-path needs --train-data-path" },
    { "pretrain-gpt", APART "--train-data-path t --valid-data-path 1 a 2",
      "--valid-data-path has 3 values: one prefix, or pairs of weight and prefix" },
    { "pretrain-gpt", APART "--train-data-path t --split 1,1,0",
      "--split divides --data-path, but --train-data-path is used whole: leave --split out" },
    { "pretrain-gpt", SHAPE "--micro-batch-size 2 --seq-length 64 --lr 1 --vocab-file v --merge-file m --train-iters 3",
      "pretrain-gpt needs --data-path" },
    { "evaluate", "--load L --data-path 1 a 2 b",
      "--data-path is a blend, which has no end: say with --eval-iters how much to evaluate" },
    { "pretrain-gpt", TALKS "--train-iters 3 --data-path d",
      "--finetune-data is the data, and another flag names some: give one of the two" },
    { "pretrain-gpt", TALKS "--train-iters 3 --finetune-epochs 2",
      "--finetune-epochs and --train-iters are the length of the run: give one of the two" },
    { "pretrain-gpt", TALKS "--finetune-epochs 2 --loss-on-targets-only --loss-on-all-tokens",
      "--loss-on-targets-only and --loss-on-all-tokens: give one of the two" },
    { "pretrain-gpt", TALKS "--finetune-epochs 2 --reset-attention-mask",
      "--eod-mask-loss, --reset-position-ids and --reset-attention-mask are for running text: conversations "
      "(--finetune-data) do not see each other anyway; leave them out" },
    { "pretrain-gpt", TALKS "--finetune-epochs 2 --fim-data",
      "--fim-data is for running text, not for --finetune-data: leave it out" },
    { "pretrain-gpt", TALKS "--finetune-epochs 2 --split 1,1,1",
      "--split divides --data-path: give --finetune-valid-data FILE, and leave it out" },
    { "pretrain-gpt", TALKS "--finetune-epochs 2 --data-order bigscience",
      "--data-order bigscience: conversations (--finetune-data) have the order keyed; leave it out" },
    { "pretrain-gpt", TALKS "--finetune-epochs 2 --tokenizer-type NullTokenizer --vocab-size 9",
      "--tokenizer-type NullTokenizer has no text, which --finetune-data is" },
    { "pretrain-gpt", TALKS "--finetune-epochs 2 --tokenizer-type BertWordPieceCase",
      "--tokenizer-type BertWordPieceCase is for BERT, and does not keep the text that --finetune-data is" },
    { "pretrain-gpt", TALKS "--finetune-epochs 2 --save-best", "--save-best needs --save" },
    { "pretrain-gpt", TALKS "--finetune-epochs 2 --save-best --save S --eval-iters 0",
      "--save-best needs evaluations, and there are none with --eval-iters 0" },
    { "pretrain-gpt", GOOD "--finetune-epochs 2", "--finetune-epochs needs --finetune-data" },
    { "pretrain-gpt", GOOD "--no-finetune-packing", "--no-finetune-packing needs --finetune-data" },
    { "pretrain-gpt", GOOD "--loss-on-targets-only",
      "--loss-on-targets-only needs --finetune-data, JSON lines that say what is an answer: running text has no "
      "targets "
      "of its own" },
    { "pretrain-gpt", GOOD "--data-path a 1", "--data-path: a stands where a weight should, before 1" },
    { "pretrain-gpt", GOOD "--dump-step zero D",
      "--dump-step zero is not a step; it takes a step from 1 on and a folder" },
    { "pretrain-gpt", GOOD "--tokenizer-type Llama2Tokenizer",
      "Llama2Tokenizer needs --tokenizer-model, a folder or file" },
    { "pretrain-gpt", GOOD "--vocab-extra-ids 100",
      "--vocab-extra-ids is for --tokenizer-type SentencePieceTokenizer; leave the flag out" },
    { "pretrain-gpt", GOOD "--tokenizer-type HFTokenizer", "HFTokenizer needs --tokenizer-model, a folder or file" },
    { "preprocess-data", "--input a --output-prefix b --tokenizer-type BertWordPieceCase",
      "BertWordPieceCase needs --vocab-file" },
    { "pretrain-gpt", GOOD "--tokenizer-type NullTokenizer", "NullTokenizer needs --vocab-size" },
    { "pretrain-gpt", GOOD "--lr-decay-style WSD", "--lr-decay-style WSD needs --lr-wsd-decay-iters" },
    { "pretrain-gpt", GOOD "--lr-wsd-decay-iters 5",
      "--lr-wsd-decay-style, -iters and -samples need --lr-decay-style WSD" },
    { "pretrain-gpt", GOOD "--lr-decay-style WSD --lr-wsd-decay-iters 5 --lr-decay-iters 4",
      "--lr-wsd-decay-iters 5 is longer than the whole decay span of 4" },
    { "pretrain-gpt", GOOD "--lr-decay-style WSD --lr-wsd-decay-iters 5 --lr-decay-tokens 4",
      "--lr-decay-style WSD is counted in iterations or samples; leave --lr-decay-tokens out" },
    { "pretrain-gpt", GOOD "--lr-decay-style WSD --lr-wsd-decay-iters 2 --lr-wsd-decay-samples 5",
      "expected iteration-based learning rate decay: with --train-iters use --lr-wsd-decay-iters" },
    { "pretrain-gpt", GOOD "--lr-warmup-tokens 5 --lr-warmup-iters 4",
      "can only specify one of lr-warmup-tokens, lr-warmup-fraction, lr-warmup-iters and lr-warmup-samples" },
    { "pretrain-gpt", GOOD "--lr-decay-tokens 5 --lr-decay-iters 4",
      "can only specify one of lr-decay-tokens, lr-decay-iters and lr-decay-samples" },
    { "pretrain-gpt", GOOD "--lr-decay-tokens 5 --lr-warmup-tokens 5",
      "--lr-warmup-tokens 5: the warm-up must be shorter than the decay span of 5 tokens" },
    { "pretrain-gpt", GOOD "--lr-warmup-init 1", "--lr-warmup-init 1 is more than --lr 0.001" },
    { "pretrain-gpt", GOOD "--eval-only 1", "--eval-only is --skip-train here: give that, without a value" },
    { "pretrain-gpt", GOOD "--data-impl lazy",
      "--data-impl lazy is not built yet: make the dataset again with preprocess-data" },
    { "pretrain-gpt", SHAPE "--seq-length 64 --train-iters 3 --lr 1 --data-path d --vocab-file v --merge-file m",
      "pretrain-gpt needs --micro-batch-size" },
    { "pretrain-gpt", SIZES "--train-iters 3",
      "pretrain-gpt needs --num-layers\npretrain-gpt needs --hidden-size\npretrain-gpt needs --num-attention-heads\n"
      "pretrain-gpt needs --max-position-embeddings" },
    { "preprocess-data", "--input f --vocab-file v --merge-file m", "preprocess-data needs --output-prefix" },
    { "preprocess-data", "--input f --output-prefix p --merge-file m", "GPT2BPETokenizer needs --vocab-file" },
    { "preprocess-data", "--input f --output-prefix p --vocab-file v --merge-file m --dataset-impl lazy",
      "--dataset-impl lazy is not built yet: use mmap, or leave the flag out" },
    { "train-tokenizer", "--input f --output-dir d", "train-tokenizer needs --vocab-size" },
    { "tokenize", "--vocab-file v",
      "GPT2BPETokenizer needs --merge-file; a tokenizer.json is read by --tokenizer-type HFTokenizer --tokenizer-model "
      "FILE, a vocab.txt by --tokenizer-type BertWordPieceLowerCase or BertWordPieceCase" },
    { "train-tokenizer", "--input f --output-dir d --vocab-size 300 --limit-alphabet 5",
      "--limit-alphabet is for BERT's WordPiece: the others have tokens for all bytes; leave the flag "
      "out, "
      "or give --tokenizer-type" },
    { "evaluate", "--data-path d", "evaluate needs --load" },
    { "evaluate", "--load L", "evaluate needs --data-path or --valid-data" },
    { "evaluate", "--load L --task LAMBADA", "--task needs --valid-data FILE" },
    { "evaluate", "--load L --data-path d --valid-data f", "--data-path and --valid-data: give one of the two" },
    { "evaluate", "--load L --valid-data f --strict-lambada", "--strict-lambada is for --task LAMBADA, not for text" },
    { "evaluate", "--load L --valid-data f --task LAMBADA --overlapping-eval 8",
      "--overlapping-eval is for --valid-data with --task text or WIKITEXT103" },
    { "evaluate", "--load L --data-path d --per-token",
      "--per-token is for --valid-data with --task text or WIKITEXT103" },
    { "evaluate", "--load L --valid-data f --detokenizer wiki",
      "--detokenizer is for --task WIKITEXT103, not for text" },
    { "evaluate", "--load L --valid-data f --eval-iters 3",
      "--split, --eval-split and --eval-iters are for --data-path: files are scored whole" },
    { "evaluate", "--load L --valid-data f --eod-mask-loss",
      "--eod-mask-loss, --reset-position-ids and --reset-attention-mask are for --data-path: leave them out" },
    { "pretrain-gpt", GOOD "--eval-tasks LAMBADA=f f",
      "--eval-tasks f: is not TASK=FILE, with text, WIKITEXT103, LAMBADA or multiple-choice as TASK" },
    { "pretrain-gpt", GOOD "--eval-tasks text=",
      "--eval-tasks text=: is not TASK=FILE, with text, WIKITEXT103, LAMBADA or multiple-choice as TASK" },
    { "pretrain-gpt", GOOD "--eval-tasks LAMBADA=f --overlapping-eval 8",
      "--overlapping-eval is for --eval-tasks text=FILE and WIKITEXT103=FILE" },
    { "pretrain-gpt", GOOD "--strict-lambada", "--strict-lambada is for --eval-tasks LAMBADA=FILE" },
    { "pretrain-gpt", GOOD "--eval-tasks text=f --zero-stage 3",
      "--eval-tasks needs a rank's parameters whole, with --zero-stage 3 they are not; triax evaluate does the same on "
      "checkpoints; try --zero-stage 1 or 2" },
    { "evaluate", "--load L --data-path d --eval-iters 0",
      "--eval-iters 0 evaluates nothing; leave it out for every sample" },
    { "evaluate", "--load L --data-path d --vocab-file v",
      "GPT2BPETokenizer needs --merge-file; a tokenizer.json is read by --tokenizer-type HFTokenizer --tokenizer-model "
      "FILE, a vocab.txt by --tokenizer-type BertWordPieceLowerCase or BertWordPieceCase" },
    { "generate", "--prompt x", "generate needs --load" },
    { "generate", "--load L --prompt-jsonl a --genfile f", "--prompt-jsonl and --genfile: give one of the two" },
    { "generate", "--load L --prompt x --num-samples 0", "--num-samples 0 makes nothing: give 1 or more" },
    { "generate", "--load L --genfile f --json",
      "--genfile writes a file of its own form: leave --json, --output-tokens, --logprobs, --top-logprobs and "
      "--beam-width out, or give the prompts by --prompt-file" },
    { "generate", "--load L --sample-output-file f", "--sample-output-file needs --sample-input-file" },
    { "generate-samples-gpt", "--load L --num-samples 3", "--num-samples 3 needs --genfile, the file for the samples" },
    { "generate-samples-gpt", "--genfile f", "generate-samples-gpt needs --load" },
    { "generate", "--load L --min-new-tokens 9 --max-new-tokens 8",
      "--min-new-tokens 9 is more than --out-seq-length 8" },
    { "generate", "--load L --top-p-decay 0.9", "--top-p-decay and --top-p-bound need --top_p" },
    { "generate", "--load L --top_p 0.5 --top-p-bound 0.6", "--top-p-bound 0.6 is more than --top_p 0.5" },
    { "generate", "--load L --stop-id 5 x", "--stop-id x is no token's id" },
    { "generate", "--load L --stop-id 99999999999", "--stop-id 99999999999 is no token's id" },
    { "generate", "--load L --stop=", "--stop: an empty text is everywhere; leave it out" },
    { "generate", "--load L --length-penalty 2", "--length-penalty needs --beam-width" },
    { "generate", "--load L --beam-width 2 --greedy",
      "--beam-width finds the likeliest texts, it samples none: leave --greedy out" },
    { "generate", "--load L --beam-width 2 --stop-id 1 2", "--beam-width takes one --stop-id" },
    { "generate", "--load L --prompt a --prompt-file f", "--prompt and --prompt-file: give one of the two" },
    { "pretrain-gpt", BERT "--model-type BERT",
      "pretrain-gpt trains a GPT, and this is --model-type BERT: use triax pretrain-bert" },
    { "pretrain-bert", GOOD "--model-type GPT",
      "pretrain-bert trains a BERT, and this is --model-type GPT: use triax pretrain-gpt" },
    { "pretrain-bert", BERT "--tokenizer-type NullTokenizer --vocab-size 9",
      "--model-type BERT needs --tokenizer-type BertWordPieceLowerCase or BertWordPieceCase, and --vocab-file" },
    { "inspect-samples", SHOW "--model-type BERT",
      "--model-type BERT needs --tokenizer-type BertWordPieceLowerCase or BertWordPieceCase, and --vocab-file" },
    { "pretrain-bert", SHAPE "--micro-batch-size 2 --seq-length 64 --lr 1e-3 --data-path d --train-iters 10",
      "BertWordPieceLowerCase needs --vocab-file" },
    { "pretrain-bert", BERT "--data-order keyed",
      "--model-type BERT has one order of samples, Megatron's: leave --data-order keyed out" },
    { "pretrain-bert", BERT "--train-data-exact-num-epochs 1",
      "--model-type BERT has no such index: leave --train-doc-idx-path, --train-sample-idx-path, "
      "--train-shuffle-idx-path and --train-data-exact-num-epochs out" },
    { "pretrain-gpt", GOOD "--train-idx-path x",
      "--train-idx-path is the index of a BERT dataset; for a GPT give --train-doc-idx-path, --train-sample-idx-path "
      "and --train-shuffle-idx-path" },
    { "inspect-samples", SHOW "--bert-max-ngrams 2",
      "--mask-prob, --short-seq-prob, --bert-mask-type, --bert-max-ngrams and --bert-no-binary-head need --model-type "
      "BERT" },
    { "pretrain-bert", BERT "--reset-position-ids",
      "--model-type BERT: --eod-mask-loss, --reset-position-ids and --reset-attention-mask are of a GPT, leave them "
      "out" },
    { "pretrain-bert", BERT "--untie-embeddings-and-output-weights",
      "--model-type BERT: its head has the embedding's weights, leave --untie-embeddings-and-output-weights out" },
    { "pretrain-bert", BERT "--embed-layernorm --post-layernorm",
      "--model-type BERT: --embed-layernorm is of BigScience's GPT, leave it out; --post-layernorm has a norm behind "
      "the embedding, too" },
    { "pretrain-bert", BERT "--eval-tasks text=f",
      "--model-type BERT continues no text, as --eval-tasks have it: leave the flag out" },
    { "pretrain-bert", BERT "--post-layernorm --apply-residual-connection-post-layernorm",
      "--post-layernorm has its residuals behind the norms already: leave --apply-residual-connection-post-layernorm "
      "out" },
    { "pretrain-bert", BERT "--post-layernorm --fp16 --fp32-residual-connection",
      "--post-layernorm: a residual is the output of a norm, which has the type of the weights: leave "
      "--fp32-residual-connection out" },
    { "pretrain-gpt", GOOD "--norm-placement both --parallel-residual one_norm",
      "--norm-placement both and --parallel-residual one_norm: attention and MLP that read one input have their norms "
      "in "
      "front; leave one of the two out" },
    { "pretrain-gpt", GOOD "--norm-placement branch --post-layernorm",
      "--norm-placement branch and --post-layernorm are two places of the norms: give one of the two" },
    { "pretrain-gpt", GOOD "--norm-placement branch --bf16 --fp32-residual-connection",
      "--norm-placement branch: attention and MLP read the residual itself, which has the type of the weights: leave "
      "--fp32-residual-connection out" },
    { "pretrain-gpt", GOOD "--parallel-residual two_norms --post-layernorm",
      "--parallel-residual two_norms needs norms in front of attention and MLP: leave --post-layernorm out" },
    { "pretrain-gpt", GOOD "--parallel-residual two_norms --apply-residual-connection-post-layernorm",
      "--apply-residual-connection-post-layernorm is of a layer with --norm-placement pre and --parallel-residual "
      "none: "
      "leave it out, or --parallel-residual two_norms" },
    { "pretrain-gpt", GOOD "--output-bias",
      "--output-bias is of an output layer with weights of its own: give --untie-embeddings-and-output-weights" },
    { "pretrain-gpt", GOOD "--disable-attention-bias --add-qkv-bias",
      "--disable-attention-bias, but --add-qkv-bias is given: leave one of the two out" },
    { "pretrain-gpt", GOOD "--disable-norm-bias --normalization rmsnorm",
      "--disable-norm-bias is for layer normalisation: --normalization rmsnorm has no bias, leave it out" },
    { "pretrain-gpt", GOOD "--gated-activation gelu --swiglu",
      "--openai-gelu, --squared-relu, --relu, --swiglu, --gated-activation and --glu-activation: give one of the six" },
    { "pretrain-gpt", GOOD "--final-logit-softcap 30 --save x --save-format megatron",
      "--save-format megatron cannot hold a model with --final-logit-softcap; save native, and leave the flag out" },
    { "pretrain-bert", BERT "--final-logit-softcap 30",
      "--model-type BERT: --final-logit-softcap is of a GPT's output layer, leave it out" },
    { "pretrain-gpt", GOOD "--post-layernorm --embed-layernorm",
      "--post-layernorm has a norm behind the embedding already: leave --embed-layernorm out" },
    { "pretrain-gpt", GOOD "--grad-dtype bf16",
      "--grad-dtype bf16 needs --bf16: gradients are fp32, or what weights and activations are" },
    { "pretrain-gpt", GOOD "--bf16 --grad-dtype fp16",
      "--grad-dtype fp16 needs --fp16: gradients are fp32, or what weights and activations are" },
    { "pretrain-gpt", GOOD "--fp16 --grad-reduce-in-bf16",
      "--grad-dtype bf16 needs --bf16: gradients are fp32, or what weights and activations are" },
    { "pretrain-gpt", GOOD "--fp16 --main-grads-dtype fp16 --accumulate-allreduce-grads-in-fp32",
      "--accumulate-allreduce-grads-in-fp32 is --grad-dtype fp32, but --grad-dtype fp16 is given: leave one out" },
    { "pretrain-gpt", GOOD "--bf16 --grad-dtype fp32 --grad-reduce-in-bf16",
      "--grad-reduce-in-bf16 is --grad-dtype bf16, but --grad-dtype fp32 is given: leave one out" },
    { "pretrain-gpt", GOOD "--bf16 --grad-dtype bf16 --grad-reduce-dtype fp16",
      "--grad-reduce-dtype fp16: gradients that are kept in bf16 are summed in bf16 or fp32" },
    { "pretrain-bert", BERT "--bert-mask-type t6", "--bert-mask-type t6 is unknown; allowed: one of bert, t5" },
};

static void each_rule_has_its_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *c = NULL;
        if (tx_config_parse_string(&c, cases[i].command, cases[i].flags) != TX_ERR_ARG ||
            strcmp(tx_last_error(), cases[i].text))
            fail_msg("%s %s\n  expected: %s\n  got: %s", cases[i].command, cases[i].flags, cases[i].text,
                     c ? "success" : tx_last_error());
    }
}

static void what_the_rules_allow(void **state)
{
    (void)state;
    static const char *const good[] = {
        GOOD,
        GOOD "--kv-channels 24 --num-key-value-heads 2 --ffn-hidden-size 100",
        GOOD "--num-key-value-heads 2 --group-query-attention --num-query-groups 2",
        GOOD "--num-attention-heads 5 --kv-channels 16",
        GOOD "--use-rotary-position-embeddings --rotary-percent 0.25 --swiglu --normalization rmsnorm",
        GOOD ROTARY "--rotary-interleaved --no-rope-freq [0,1] --use-rope-scaling --rope-scaling-factor 32",
        GOOD "--position-embedding-type yarn --rotary-scaling-factor 4 --mscale 0.7 --mscale-all-dim 1",
        GOOD "--weight-decay-incr-style cosine --start-weight-decay 0 --end-weight-decay 0.1",
        GOOD "--recompute-activations --recompute-granularity selective --recompute-num-layers 1",
        GOOD
        "--recompute-granularity full --recompute-method block --recompute-num-layers 100 --checkpoint-num-layers 1",
        GOOD "--checkpoint-activations --checkpoint-num-layers 3 --partition-activations --checkpoint-in-cpu",
        GOOD "--save S --save-interval 5 --dump-step 3 D",
        GOOD "--data-impl mmap",
        GOOD "--data-path 1.0 a --dataloader-type cyclic --no-data-sharding --data-order bigscience",
        GOOD "--data-path 0.3 a 0 b 1e-3 c --reset-position-ids",
        APART "--train-data-path 1 a 2 b --valid-data-path v",
        GOOD "--tokenizer-type NullTokenizer --vocab-size 100",
        GOOD "--bf16 --grad-dtype bf16 --grad-reduce-in-bf16 --grad-reduce-dtype fp32",
        GOOD "--fp16 --grad-dtype fp32 --accumulate-allreduce-grads-in-fp32 --grad-reduce-dtype fp16",
        GOOD "--lr-warmup-iters 9 --min-lr 1e-3 --eval-iters 0",
        SHAPE SIZES "--train-samples 10 --lr-warmup-samples 9",
        SIZES "--train-iters 3 --load L", /* the shape comes from the checkpoint */
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        tx_config *c = NULL;
        if (tx_config_parse_string(&c, "pretrain-gpt", good[i])) fail_msg("%s: %s", good[i], tx_last_error());
        tx_config_free(c);
    }
}

static void what_the_rules_allow_of_a_plan(void **state)
{
    (void)state;
    static const char *const good[] = {
        GOOD "--global-batch-size 2 --world-size 2 --machine h100 --gpus-per-node 4 --node-bandwidth 50 --search",
        GOOD "--global-batch-size 2 --gpus-for 30 --machine m.json",
        GOOD "--schedule-svg f",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        tx_config *c = NULL;
        if (tx_config_parse_string(&c, "plan", good[i])) fail_msg("%s: %s", good[i], tx_last_error());
        tx_config_free(c);
    }
}

/* Megatron's script of a large BERT, with the ranks that it starts. */
static const char script[] =
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --world-size 8 --num-layers 24 --hidden-size 1024 "
    "--num-attention-heads 16 --seq-length 512 --max-position-embeddings 512 --micro-batch-size 2 --global-batch-size "
    "16 --lr 0.0001 --train-iters 1000000 --lr-decay-iters 990000 --lr-decay-style linear --min-lr 1.0e-5 "
    "--weight-decay 1e-2 --lr-warmup-fraction .01 --clip-grad 1.0 --fp16 --DDP-impl local --data-path d --vocab-file v "
    "--data-impl mmap --split 949,50,1 --log-interval 100 --save-interval 10000 --eval-interval 1000 --eval-iters 10 "
    "--distributed-backend nccl --save S --load S --mask-prob 0.15 --short-seq-prob 0.1 "
    "--use-distributed-optimizer --checkpoint-activations";

static void what_the_rules_allow_of_a_bert(void **state)
{
    (void)state;
    static const struct {
        const char *command, *flags, *tokenizer;
    } good[] = {
        { "pretrain-bert", BERT, "BertWordPieceLowerCase" },
        { "pretrain-bert", BERT "--tokenizer-type BertWordPieceCase --train-idx-path x", "BertWordPieceCase" },
        { "pretrain-bert", BERT "--bert-no-binary-head --bert-mask-type t5 --bert-max-ngrams 10 --mask-prob 0.5",
          "BertWordPieceLowerCase" },
        { "pretrain-bert", BERT "--post-layernorm --bf16 --no-bias-gelu-fusion", "BertWordPieceLowerCase" },
        { "pretrain-bert", script, "BertWordPieceLowerCase" },
        { "plan", BERT "--model-type BERT", "BertWordPieceLowerCase" },
        { "plan", SHAPE "--model-type BERT --micro-batch-size 2 --seq-length 64", "BertWordPieceLowerCase" },
        { "plan", GOOD "--mask-prob 0.2", "GPT2BPETokenizer" }, /* as pretrain-gpt takes it: it does nothing */
        { "pretrain-gpt", GOOD "--mask-prob 0.2 --short-seq-prob 0 --bert-mask-type t5 --bert-no-binary-head",
          "GPT2BPETokenizer" },
        { "pretrain-gpt", GOOD "--post-layernorm", "GPT2BPETokenizer" },
        { "inspect-samples", SHOW "--model-type BERT --vocab-file v --bert-mask-type t5", "BertWordPieceLowerCase" },
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        tx_config *c = NULL;
        if (tx_config_parse_string(&c, good[i].command, good[i].flags))
            fail_msg("%s %s: %s", good[i].command, good[i].flags, tx_last_error());
        assert_string_equal(tx_tokenizer_type_word(c->tokenizer_type), good[i].tokenizer);
        assert_string_equal(tx_model_kind_word(c->model_type), strncmp(good[i].tokenizer, "Bert", 4) ? "GPT" : "BERT");
        tx_config_free(c);
    }
}

/* What cannot be read is told once; no rule adds that it is missing or does not fit. */
static void unreadable_values_are_told_once(void **state)
{
    (void)state;
    tx_config *c = NULL;
    assert_int_equal(tx_config_parse_string(&c, "pretrain-gpt",
                                            GOOD
                                            "--lr x --min-lr 5 --hidden-size 0 --seq-length -1 --micro-batch-size z "
                                            "--global-batch-size 7 --train-iters --save"),
                     TX_ERR_ARG);
    assert_string_equal(tx_last_error(), "--lr x is not a number; allowed: at least 0\n"
                                         "--hidden-size 0 is too small; allowed: at least 1\n"
                                         "--seq-length -1 is too small; allowed: at least 1 tokens\n"
                                         "--micro-batch-size z is not a whole number; allowed: at least 1 samples\n"
                                         "--train-iters needs a value\n"
                                         "--save needs a value");
}

static void complete_runs_again_after_the_shape_is_known(void **state)
{
    (void)state;
    tx_config *c = NULL;
    ASSERT_OK(tx_config_parse_string(&c, "pretrain-gpt", SIZES "--train-iters 3 --load L"));
    assert_int_equal(c->ffn_hidden_size, 0);
    c->num_layers = 3;
    c->hidden_size = 30;
    c->num_attention_heads = 4;
    c->max_position_embeddings = 32;
    assert_int_equal(tx_config_complete(c), TX_ERR_ARG);
    assert_string_equal(tx_last_error(),
                        "--hidden-size 30 is not divisible by --num-attention-heads 4; give --kv-channels\n"
                        "--seq-length 64 is more than --max-position-embeddings 32");
    c->hidden_size = 32;
    c->max_position_embeddings = 64;
    c->ffn_hidden_size = c->kv_channels = 0;
    ASSERT_OK(tx_config_complete(c));
    assert_int_equal(c->ffn_hidden_size, 128);
    assert_int_equal(c->kv_channels, 8);
    c->swiglu = c->use_rotary_position_embeddings = true;
    c->ffn_hidden_size = 0;
    ASSERT_OK(tx_config_complete(c));
    assert_int_equal(c->ffn_hidden_size, 64); /* 85, down to a multiple of 64 */
    assert_false(c->add_position_embedding);
    tx_config_free(c);
}

/* Which layers have a window, as Megatron Core says it: of a number all but the last of each group. */
static void windows_are_of_layers(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int64_t window[6];
    } said[] = {
        { "", { 0 } },
        { "--window-size 0", { 0 } },
        { "--window-size 7", { 7, 7, 7, 7, 7, 7 } },
        { "--window-size 7,0", { 7, 7, 7, 7, 7, 7 } },
        { "--window-size (7,0)", { 7, 7, 7, 7, 7, 7 } },
        { "--window-size 7 --window-attn-skip-freq 2", { 7, 0, 7, 0, 7, 0 } },
        { "--window-size 7 --window-attn-skip-freq 3", { 7, 7, 0, 7, 7, 0 } },
        { "--window-size 7 --window-attn-skip-freq 7", { 7, 7, 7, 7, 7, 7 } },
        { "--window-size 7 --window-attn-skip-freq [0]+[1]*4+[0]", { 0, 7, 7, 7, 7, 0 } },
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char flags[1024];
        tx_config *c;
        snprintf(flags, sizeof flags, "%s --num-layers 6 %s", GOOD, said[i].flags);
        ASSERT_OK(tx_config_parse_string(&c, "pretrain-gpt", flags));
        for (int k = 0; k < 6; k++) assert_int_equal(tx_config_window(c, k), said[i].window[k]);
        assert_true(tx_config_attention_scale(c) == 0.25);
        tx_config_free(c);
    }
}

/* One word for each kind, whichever flag says it, and only a table of positions has to be told its size. */
static void positions_are_of_one_kind(void **state)
{
    (void)state;
    static const struct {
        const char *flags, *type;
        tx_positions kind;
    } said[] = {
        { "", "learned_absolute", TX_POSITIONS_LEARNED },
        { "--position-embedding-type absolute", "learned_absolute", TX_POSITIONS_LEARNED },
        { "--position-embedding-type alibi", "alibi", TX_POSITIONS_ALIBI },
        { "--position-embedding-type alibi --no-position-embedding", "alibi", TX_POSITIONS_ALIBI },
        { "--position-embedding-type rotary", "rope", TX_POSITIONS_ROPE },
        { "--position-embedding-type rope --no-position-embedding", "rope", TX_POSITIONS_ROPE },
        { "--use-rotary-position-embeddings --position-embedding-type rope", "rope", TX_POSITIONS_ROPE },
        { "--use-rotary-position-embeddings", "rope", TX_POSITIONS_ROPE },
        { "--no-position-embedding", "none", TX_POSITIONS_NONE },
        { "--position-embedding-type none", "none", TX_POSITIONS_NONE },
    };
    static const char *const sizes =
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 " SIZES "--train-iters 3 ";
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char flags[1024];
        tx_config *c;
        snprintf(flags, sizeof flags, "%s %s", sizes, said[i].flags);
        if (said[i].kind == TX_POSITIONS_LEARNED) {
            ASSERT_FAILS(tx_config_parse_string(&c, "pretrain-gpt", flags), TX_ERR_ARG,
                         "needs --max-position-embeddings");
            snprintf(flags, sizeof flags, "%s --max-position-embeddings 64 %s", sizes, said[i].flags);
        }
        ASSERT_OK(tx_config_parse_string(&c, "pretrain-gpt", flags));
        assert_string_equal(tx_position_embedding_word(c->position_embedding_type), said[i].type);
        assert_int_equal(tx_config_positions(c), said[i].kind);
        assert_int_equal(c->add_position_embedding, said[i].kind == TX_POSITIONS_LEARNED);
        assert_int_equal(c->use_rotary_position_embeddings, said[i].kind == TX_POSITIONS_ROPE);
        assert_int_equal(c->max_position_embeddings, 64);
        tx_config_free(c);
    }
}

/* Megatron Core's word for an option that is left out. */
static void gradients_in_bf16(void **state)
{
    (void)state;
    tx_config *c;
    ASSERT_OK(tx_config_parse_string(&c, "pretrain-gpt", GOOD "--bf16 --grad-reduce-in-bf16"));
    assert_string_equal(tx_float_type_word(c->grad_dtype), "bf16");
    tx_config_free(c);
}

static void a_config_made_by_hand_can_be_completed(void **state)
{
    (void)state;
    tx_config *c = NULL;
    ASSERT_OK(tx_config_new(&c, "generate"));
    assert_int_equal(tx_config_complete(c), TX_ERR_ARG);
    ASSERT_OK(tx_config_set_text(&c->load, "L"));
    ASSERT_OK(tx_config_set_text(&c->prompt_file, "old"));
    ASSERT_OK(tx_config_set_text(&c->prompt_file, "new"));
    ASSERT_OK(tx_config_complete(c));
    assert_string_equal(c->prompt_file, "new");
    tx_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_has_its_sentence),
        cmocka_unit_test(what_the_rules_allow),
        cmocka_unit_test(what_the_rules_allow_of_a_plan),
        cmocka_unit_test(what_the_rules_allow_of_a_bert),
        cmocka_unit_test(unreadable_values_are_told_once),
        cmocka_unit_test(complete_runs_again_after_the_shape_is_known),
        cmocka_unit_test(windows_are_of_layers),
        cmocka_unit_test(positions_are_of_one_kind),
        cmocka_unit_test(gradients_in_bf16),
        cmocka_unit_test(a_config_made_by_hand_can_be_completed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
