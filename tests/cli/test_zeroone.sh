#!/bin/bash
# labels: cli parallel resume
# 0/1 Adam between processes: phases are told, bytes are the formulas' and between averages nothing is sent but whether the
# step is taken; a resumed run has the same bits from every phase, with each layout and precision, and saving changes none.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
small_data 128

# sums in updates 2 3 4 6 8, signs in 5 7 9 10; then averages in 11 12 13 14 16 20 24
model="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --tokenizer-type NullTokenizer --vocab-size 128 --data-path small_text_document --micro-batch-size 2 --global-batch-size 8 --train-iters 23
    --lr 1e-3 --optimizer zerooneadam"
train() { # OUT RANKS FLAGS...
    timeout 120 "$TRIAX" torchrun --nproc-per-node "$2" pretrain-gpt $model --log-interval 1 --eval-interval 100 --eval-iters 0 \
        --var-freeze-step 9 --var-update-scaler 2 --local-step-scaler 3 --local-step-clipper 4 --threads 1 \
        "${@:3}" >"$1" 2>&1 || { cat "$1" >&2; die "training: ${*:2}"; }
}
sums() { (cd "$1/iter_0000023" && sha256sum ./*.safetensors); }

train bytes 4 --log-level debug --save once
for line in 'update 3: from the next one on gradients are summed in updates that 2 divides' 'update 6: .* that 4 divides' \
    'update 10 was the last before the freeze (--var-freeze-step)' 'update 13: .*what ranks moved is averaged after updates that 2 divides' \
    'update 16: .*after updates that 4 divides'; do
    grep -q "$line" bytes || { cat bytes; die "not told: $line"; }
done
grep -q "formulas'" bytes || die "bytes are not compared"
grep "formulas'" bytes | grep -v 'equal to' >differs || true
[ ! -s differs ] || { cat differs; die "bytes are not the formulas'"; }
# an all-reduce sends its tensor twice, an all-to-all a 4th of what 4 ranks have in all, a gather what it brings: all times 3/4
sent() {
    grep "iteration $1: communication: data-parallel" bytes |
        awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^bytes/) n = $(i - 1); s += /all-reduce/ ? 2 * n : /all-to-all/ ? n / 4 : n } END { printf "%d", s }'
}
for i in 5 9 11 16 20; do
    [ "$(sent $i)" -gt 0 ] && [ $((16 * $(sent $i))) -le "$(sent 4)" ] || die "update $i sends $(sent $i) bytes, with sums it is $(sent 4)"
done
for i in 15 17 18 19 21; do [ "$(sent $i)" = 16 ] || die "update $i sends $(sent $i) bytes, not 8 twice"; done

i=0
for how in "4" "4 --bf16 --async-save" "2 --fp16 --initial-loss-scale 1024" "4 --tensor-model-parallel-size 2 --decoupled-lr 2e-3" \
    "4 --pipeline-model-parallel-size 2 --lr-warmup-iters 20" "4 --onebit-worker-size 2"; do
    i=$((i + 1))
    train out $how --save "whole$i" --save-interval 3
    from=18
    [ $i -gt 1 ] || from="6 9 12 15 18"
    for at in $from; do
        train out $how --load "whole$i" --load-tag "iter_$(printf %07d "$at")" --save "again$i-$at" --save-interval 100
        [ "$(sums "whole$i")" = "$(sums "again$i-$at")" ] || die "a run resumed at $at has other bits: $how"
        grep 'begin at 0 again' out && die "errors are not read: $how, $at"
    done
done
[ "$(sums once)" = "$(sums whole1)" ] || die "a run that saves has other bits"

train out 2 --load whole1 --load-tag iter_0000018
grep -q 'no errors of compression of 2 data-parallel ranks: they begin at 0 again.*from the weights of the first' out ||
    { cat out; die "no word on other ranks"; }
train out 1 --load whole1 --load-tag iter_0000018
refused 'had different weights, which --var-freeze-step' pretrain-gpt $model --load whole1 --load-tag iter_0000018 --var-freeze-step 9 \
    --var-update-scaler 2 --local-step-scaler 3 --local-step-clipper 1
refused 'not with --zero-stage' pretrain-gpt $model --zero-stage 1
refused 'is for --optimizer zerooneadam' pretrain-gpt $model --optimizer onebitadam --local-step-clipper 4
