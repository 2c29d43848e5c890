#!/bin/bash
# labels: extended cli parallel resume
# ZeRO's stages with ranks as processes, as a user starts them: every number of the log is stage 0's, and a checkpoint
# goes on at another stage.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"

for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
# two samples of a rank at a time, so that there is one micro-batch: then all stages sum in one order
train=(pretrain-gpt --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --lr 2e-3 --lr-decay-style cosine --lr-warmup-iters 2 --train-iters 10 --clip-grad 1.0
    --weight-decay 0.1 --hidden-dropout 0.1 --attention-dropout 0.1 --tokenizer-type NullTokenizer --vocab-size 511
    --data-path text --split 8,1,1 --log-interval 1 --eval-interval 5 --eval-iters 1 --threads 1 --log-num-zeros-in-grad)
tp=--tensor-model-parallel-size
pp=--pipeline-model-parallel-size
moving=(--zero-stage 3 --zero-param-persistence-threshold 0)

# numbers FILE: what a run's log says of it, a line each: iteration loss norm zeros, or "valid" loss
numbers() {
    sed -nE -e 's/^ iteration +([0-9]+)\/.*lm loss: (\S+) .*grad norm: (\S+) .*num zeros: (\S+) .*/\1 \2 \3 \4/p' \
        -e 's/.*lm loss value: (\S+) .*/valid \1/p' "$1"
}

# stage_0 N FLAGS...: the layout that the next ones have, as N ranks
stage_0() {
    n=$1 layout=("${@:2}")
    all_ranks "$n" "$TRIAX" "${train[@]}" "${layout[@]}"
    numbers out >expected
    [ "$(wc -l <expected)" -eq 14 ] || { cat out >&2; die "$n ranks: not 10 iterations and 4 evaluations"; }
}

# same FLAGS...: these flags change no number
same() {
    all_ranks "$n" "$TRIAX" "${train[@]}" "${layout[@]}" "$@"
    numbers out >these
    cmp -s expected these || { diff expected these >&2; die "$n ranks ${layout[*]}: other numbers with $*"; }
}

stage_0 2 --global-batch-size 4
same --zero-stage 1
same --zero-stage 2 --no-overlap-grad-reduce
same "${moving[@]}"
stage_0 4 --global-batch-size 8 --bf16
same --zero-stage 1 --no-zero-allgather-partitions
same --zero-stage 2 --zero-reduce-bucket-size 500
same "${moving[@]}" --no-shared-memory
stage_0 4 --global-batch-size 8 --fp16 --initial-loss-scale 1024 --grad-dtype fp16
same --zero-stage 1 --no-overlap-grad-reduce
same --zero-stage 2 --zero-reduce-bucket-size 500
same "${moving[@]}" --no-shared-memory
stage_0 4 --global-batch-size 4 $tp 2 --sequence-parallel
same --zero-stage 2 --no-shared-memory
same --zero-stage 3 --zero-param-persistence-threshold 200
# several micro-batches, which stages 2 and 3 sum over the ranks one by one
stage_0 4 --global-batch-size 16 $pp 2 --num-layers-per-virtual-pipeline-stage 1 --fp16 --initial-loss-scale 1024 \
    --reduce-every-micro-batch
same --zero-stage 2
same "${moving[@]}" --zero-max-reuse-distance 1e9
stage_0 8 --global-batch-size 8 $tp 2 $pp 2 --sequence-parallel --recompute-granularity full --recompute-method uniform \
    --reduce-every-micro-batch
same --zero-stage 1
same "${moving[@]}" --zero-prefetch-bucket-size 0

# From stage to stage: five iterations of ZeRO-3, the other five of ZeRO-1, and of one process.
stage_0 2 --global-batch-size 4
same "${moving[@]}" --save three --save-interval 5
cp -r three/iter_0000005 from-three
sed '1,6d' expected >rest # behind five iterations and an evaluation
all_ranks 2 "$TRIAX" "${train[@]}" "${layout[@]}" --zero-stage 1 --load from-three
numbers out | cmp - rest || die "stage 1 after stage 3: other numbers"
ok "${train[@]}" "${layout[@]}" --load from-three
numbers out >these
[ "$(wc -l <these)" -eq "$(wc -l <rest)" ] || die "one process after stage 3: not as many lines of numbers"
paste -d' ' these rest | awk '
    function off(a, b) { return a < b ? b / a - 1 : a / b - 1 }
    { n = NF / 2; if ($1 != $(n + 1) || !(off($2, $(n + 2)) <= 1e-5)) bad = 1 }
    END { exit bad }' || { paste these rest >&2; die "one process after stage 3: other numbers"; }
echo "all passed"
