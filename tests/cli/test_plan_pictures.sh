#!/bin/bash
# labels: cli
# plan --schedule-picture and --schedule-svg with a machine: to scale, in milliseconds that add up to the iteration.
. "$(dirname "$0")/lib.sh"
said() { grep -qF -- "$1" out || { cat out; die "does not say: $1"; }; }
shape=(--num-layers 32 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 50304
    --bf16 --micro-batch-size 1 --machine a100-80g)

# number TEXT AFTER: the number in front of AFTER
number() { sed -nE "s/.*[^0-9.]([0-9.]+) $2.*/\1/p" <<<"$1"; }

# adds_up FLAGS...: what is drawn and what is told to be left out is the whole iteration
adds_up() {
    ok plan "${shape[@]}" "$@" --json
    local iteration drawn besides heading
    iteration=$(grep -oE '"iteration_s":[0-9.e-]+' out | cut -d: -f2)
    ok plan "${shape[@]}" "$@" --schedule-picture --schedule-svg drawn.svg
    heading=$(grep '^schedule: .* on a100-80g: ' out) || { cat out; die "no heading"; }
    drawn=$(number "$heading" 'ms[,;]')
    besides=$(number "$heading" 'ms for stragglers and overhead')
    [ -z "$besides" ] || drawn=$(sed -nE 's/.* on a100-80g: ([0-9.]+) ms.*/\1/p' <<<"$heading")
    awk -v i="$iteration" -v d="$drawn" -v b="${besides:-0}" \
        'BEGIN { off = 1000 * i - d - b; exit !(d > 0 && off < 0.11 + 0.0011 * d && off > -0.11) }' ||
        die "drawn $drawn ms and $besides ms of $iteration s: $heading"
    grep -qF "on a100-80g: $drawn ms" drawn.svg || die "the SVG says another time: $(head -3 drawn.svg)"
    grep -qF '>ms</text>' drawn.svg || die "no unit in the SVG"
}

adds_up --pipeline-model-parallel-size 4 --global-batch-size 8
grep -qF '<title id="title">32 layers, hidden size 1024, sequence length 1024, 4 ranks</title>' drawn.svg || die "another title"
[ "$(grep -cE '^    stage [0-3] .*F0.*B7' out)" -eq 4 ] || die "not a line a stage: $(cat out)"
grep -qE '^    ms +\|0 ' out || die "no axis: $(cat out)"
for part in 'F forward' 'B backward' 'U update' '>F7</text>' '>B7</text>'; do
    grep -qF "$part" drawn.svg || die "no $part in the SVG"
done
adds_up --pipeline-model-parallel-size 4 --global-batch-size 2048 --world-size 64
grep -qE '^    stage 0 .*F0.* \.\.\. .*B127' out || die "no end of a picture that is too wide: $(cat out)"
grep -qF 'ms left out' drawn.svg || die "128 micro-batches fit into the SVG"
adds_up --pipeline-model-parallel-size 32 --global-batch-size 64
said "(16 stages between them)"
[ "$(awk 'length > 200' out | grep -c stage)" -le 1 ] || die "too wide: $(cat out)"
adds_up --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 --global-batch-size 64
said "interleaved 1F1B, 4 stages with 4 runs of layers each, 64 micro-batches on a100-80g"

# a divided backward: less waiting
adds_up --pipeline-model-parallel-size 4 --global-batch-size 8
waited=$(sed -nE 's/.*a stage waits ([0-9.]+) %.*/\1/p' out)
adds_up --pipeline-model-parallel-size 4 --global-batch-size 8 --enable-zbh1-pipeline
said "ZB-H1, 4 stages, 8 micro-batches on a100-80g"
said "B gradient of the input, W gradients of weights, "
[ "$(grep -cE '^    stage [1-3] .*F0.*B7.*W' out)" -eq 3 ] || die "not a W in each stage but the first: $(cat out)"
for part in 'W gradients of weights' '#f3b183'; do grep -qF "$part" drawn.svg || die "no $part in the SVG"; done
awk -v a="$waited" -v b="$(sed -nE 's/.*a stage waits ([0-9.]+) %.*/\1/p' out)" 'BEGIN { exit !(b < a) }' ||
    die "waits as long as the $waited % of 1F1B: $(cat out)"

adds_up --global-batch-size 4 --world-size 2 --zero-stage 2
said "schedule: 1F1B, 1 stage, 2 micro-batches on a100-80g"
