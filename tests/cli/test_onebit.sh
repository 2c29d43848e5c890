#!/bin/bash
# labels: cli parallel resume
# 1-bit Adam between processes: the freeze is told, bytes are the formulas' and after it a 16th of fp32's sums at most, a
# resumed run has the same bits with each layout and precision, and another number of data-parallel ranks is told, too.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
small_data 128

train() { # OUT RANKS FLAGS...
    timeout 120 "$TRIAX" torchrun --nproc-per-node "$2" pretrain-gpt --num-layers 2 --hidden-size 64 --num-attention-heads 4 \
        --seq-length 32 --max-position-embeddings 32 --tokenizer-type NullTokenizer --vocab-size 128 --data-path small_text_document \
        --micro-batch-size 2 --global-batch-size 8 --train-iters 12 --lr 1e-3 --log-interval 1 --eval-interval 100 --eval-iters 0 \
        --optimizer onebitadam --onebit-freeze-step 5 --threads 1 "${@:3}" >"$1" 2>&1 || { cat "$1" >&2; die "training: ${*:2}"; }
}
sums() { (cd "$1/iter_0000012" && sha256sum ./*.safetensors); }

train bytes 4 --log-level debug
grep -q 'update 5 was the last of --onebit-freeze-step' bytes || die "the freeze is not told"
grep -q "formulas'" bytes && ! grep "formulas'" bytes | grep -v 'equal to' || die "bytes are not the formulas'"
# an all-reduce sends its tensor twice, an all-to-all a 4th of what 4 ranks have in all, a gather what it brings: all times 3/4
sent() {
    grep "iteration $1: communication: data-parallel" bytes |
        awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^bytes/) n = $(i - 1); s += /all-reduce/ ? 2 * n : /all-to-all/ ? n / 4 : n } END { printf "%d", s }'
}
[ "$(sent 12)" -gt 0 ] && [ $((16 * $(sent 12))) -le "$(sent 2)" ] || die "after the freeze $(sent 12) bytes are sent, before it $(sent 2)"

train workers 4 --log-level debug --onebit-worker-size 2 --save by2 --save-interval 4
grep -q "formulas'" workers || die "bytes of workers are not compared"
grep "formulas'" workers | grep -v 'equal to' >differs || true
[ ! -s differs ] || { cat differs; die "bytes of workers are not the formulas'"; }

i=0
for how in "4" "4 --onebit-worker-size 2 --bf16 --async-save" "4 --bf16 --async-save" "2 --fp16 --initial-loss-scale 1024" "4 --tensor-model-parallel-size 2" "4 --pipeline-model-parallel-size 2"; do
    i=$((i + 1))
    train out $how --save "whole$i" --save-interval 4
    train out $how --load "whole$i" --load-tag iter_0000008 --save "again$i" --save-interval 100
    [ "$(sums "whole$i")" = "$(sums "again$i")" ] || die "a resumed run has other bits: $how"
    ! grep -q 'begin at 0 again' out || die "errors are not read: $how"
done
train out 2 --load whole1 --load-tag iter_0000008
grep -q 'has no errors of compression of 2 data-parallel ranks: they begin at 0 again' out || { cat out; die "no word on other ranks"; }
train out 2 --load by2 --load-tag iter_0000008
! grep -q 'begin at 0 again' out || { cat out; die "errors of 2 workers are not those of 2 ranks"; }
train out 4 --load by2 --load-tag iter_0000008
grep -q 'has no errors of compression of 4 data-parallel ranks' out || { cat out; die "no word on other workers"; }
model="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --tokenizer-type
    NullTokenizer --vocab-size 128 --data-path small_text_document --micro-batch-size 2 --global-batch-size 8 --train-iters 12 --lr 1e-3"
refused 'is for an --optimizer that sends signs (onebitadam, ' pretrain-gpt $model --onebit-worker-size 2
refused '--onebit-worker-size 2 does not divide the 1 data-parallel ranks' pretrain-gpt $model --optimizer onebitadam --onebit-worker-size 2
refused 'not with --zero-stage' pretrain-gpt --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 \
    --max-position-embeddings 32 --tokenizer-type NullTokenizer --vocab-size 128 --data-path small_text_document --micro-batch-size 2 \
    --global-batch-size 8 --train-iters 12 --lr 1e-3 --optimizer onebitadam --zero-stage 1
