#!/bin/bash
# labels: extended cli parallel
# --profile N with several ranks: their calls are lines of the tables, what they moved is what the formulas say, there is
# one trace, and training is the same to the bit; examples/pretrain_gpt_tp2_pp2.sh, made small by flags behind it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
examples=$(cd "$(dirname "$0")/../../examples" && pwd)

small=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 32 --micro-batch-size 2
    --global-batch-size 16 --lr 1e-3 --train-iters 4 --log-interval 1 --eval-iters 0 --threads 1)
train=(pretrain-gpt "${small[@]}" --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt"
    --data-path "$data/dataset/tiny_text_document" --split 8,1,1)

# profiled LAYOUT...: tables, volumes, and the losses without the profile
profiled() {
    local n=$1
    shift
    all_ranks "$n" "$TRIAX" "${train[@]}" "$@"
    losses out >losses
    [ "$(wc -l <losses)" -eq 4 ] || die "$*: no losses"
    all_ranks "$n" "$TRIAX" "${train[@]}" "$@" --profile 2 --tensorboard-dir tb
    losses out | cmp - losses || die "$*: other losses with --profile"
    grep -q "^    so are those of all $n ranks$" out || { cat out err; die "$*: other volumes"; }
    grep -qx "    calls and bytes are equal to the formulas'" out || die "$*: does not say that they are equal"
    grep -Eq '\| between ranks [0-9.]+% \| waiting for ranks [0-9.]+% \| outside ops [0-9.]+%$' out || die "$*: no totals"
    awk 'index($0, "    by op") == 1 { on = 1; next } !on { next } index($0, "    iteration") == 1 { exit }
        { sum += $(NF - 4) } END { exit !(sum > 98 && sum < 102) }' out || { cat out; die "$*: not 100% together"; }
    [ "$(ls tb/profile-iteration-* | wc -l)" -eq 1 ] || die "$*: not one trace"
    grep -q '"cat":"messages"' tb/profile-iteration-3-4.json || die "$*: no messages in the trace"
    rm -r tb
}

# line TEXT: begins a line of the tables
line() { grep -qF "    $1" out || { cat out; die "no line \"$1\""; }; }

profiled 2 --tensor-model-parallel-size 2
line "all-reduce (tensor-parallel)"
line "tensor-parallel, backward"
line "  2 b s h a layer, backward                          64          0.250"
profiled 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel --recompute-granularity full \
    --recompute-method uniform
for text in "reduce-scatter (tensor-parallel)" "receive (pipeline)" "waiting (pipeline)" "2 first and last stage     all-reduce"; do
    line "$text"
done
profiled 4 --zero-stage 3 --pipeline-model-parallel-size 2 --zero-param-persistence-threshold 100 --fp16 \
    --initial-loss-scale 256
line "  a layer, forward and backward"
grep -q "^ > ZeRO 3: the optimizer's state, gradients and parameters are divided among 2 data-parallel ranks$" out || die "no stage"
line "DeepSpeed refuses ZeRO 3 with a pipeline; here each of 4 micro-batches gathers parameters"
grep -Eq "^    model states by the ZeRO formula: 18 Psi / 2 = " out || die "no formula"
profiled 2 --no-shared-memory
line "all-reduce (data-parallel)"
line "gather (data-parallel)"

# ---- the example
export TRIAX CHECKPOINT_PATH=ck VOCAB_FILE=$data/tiny/tiny-vocab.json MERGE_FILE=$data/tiny/tiny-merges.txt
export DATA_PATH=$data/dataset/tiny_text_document
timeout -k 5 120 bash "$examples/pretrain_gpt_tp2_pp2.sh" "${small[@]}" --lr-warmup-fraction 0.25 --split 8,1,1 >out 2>err ||
    { cat out err; die "the example"; }
grep -q "8 ranks on 1 host, tensor x pipeline x data parallel 2 x 2 x 2" out || { cat out; die "the example: another layout"; }
[ "$(losses out | wc -l)" -eq 4 ] || die "the example: no losses"
[ -d ck/iter_0000004 ] || die "the example: no checkpoint"
echo "profiles of several ranks passed"
