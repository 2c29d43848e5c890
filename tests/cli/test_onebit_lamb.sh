#!/bin/bash
# labels: cli parallel resume
# 1-bit LAMB between processes: the freeze is told, bytes are the formulas' and after it a 16th of fp32's sums at most, a run
# resumed before, at and after the freeze has the same bits, with each layout and precision; what it cannot do is refused.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
small_data 128

model="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --tokenizer-type NullTokenizer --vocab-size 128 --data-path small_text_document --micro-batch-size 2 --global-batch-size 8 --train-iters 12
    --lr 1e-2 --optimizer onebitlamb"
train() { # OUT RANKS FLAGS...
    timeout 240 "$TRIAX" torchrun --nproc-per-node "$2" pretrain-gpt $model --log-interval 1 --eval-interval 100 --eval-iters 0 \
        --onebit-freeze-step 6 --threads 1 "${@:3}" >"$1" 2>&1 || { cat "$1" >&2; die "training: ${*:2}"; }
}
sums() { (cd "$1/iter_0000012" && sha256sum ./*.safetensors); }

for how in "" "--tensor-model-parallel-size 2"; do
    train bytes 4 --log-level debug $how
    grep -q 'update 6 was the last of --onebit-freeze-step' bytes || die "the freeze is not told"
    grep -q "formulas'" bytes || die "bytes are not compared"
    grep "formulas'" bytes | grep -v 'equal to' >differs || true
    [ ! -s differs ] || { cat differs; die "bytes are not the formulas': $how"; }
    [ -n "$how" ] || cp bytes data
done
# an all-reduce sends its tensor twice, an all-to-all a 4th of what 4 ranks have in all, a gather what it brings: all times 3/4
sent() {
    grep "iteration $1: communication: data-parallel" data |
        awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^bytes/) n = $(i - 1); s += /all-reduce/ ? 2 * n : /all-to-all/ ? n / 4 : n } END { printf "%d", s }'
}
[ "$(sent 12)" -gt 0 ] && [ $((16 * $(sent 12))) -le "$(sent 2)" ] || die "after the freeze $(sent 12) bytes are sent, before it $(sent 2)"

i=0
for how in "4" "4 --bf16 --async-save" "2 --fp16 --initial-loss-scale 1024" "4 --tensor-model-parallel-size 2" "4 --pipeline-model-parallel-size 2"; do
    i=$((i + 1))
    train out $how --save "whole$i" --save-interval 3
    from=9
    [ $i -gt 1 ] || from="3 6 9"
    for at in $from; do
        train out $how --load "whole$i" --load-tag "iter_$(printf %07d "$at")" --save "again$i-$at" --save-interval 100
        [ "$(sums "whole$i")" = "$(sums "again$i-$at")" ] || die "a run resumed at $at has other bits: $how"
        ! grep 'begin at 0 again' out || die "errors are not read: $how, $at"
    done
done
train out 2 --load whole1 --load-tag iter_0000009
grep -q 'has no errors of compression of 2 data-parallel ranks: they begin at 0 again' out || { cat out; die "no word on other ranks"; }
refused 'not with --zero-stage' pretrain-gpt $model --zero-stage 1
refused 'is for --optimizer onebitlamb, not lamb' pretrain-gpt $model --optimizer lamb --onebit-coeff-beta 0.5
