#!/bin/bash
# labels: cli parallel resume
# ZeRO++ between processes: what is sent is the formulas', far ranks get a quarter of the bytes at most, a resumed run has the
# same bits, a plain run reads its checkpoint, and what does not go together is refused.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
small_data 128

MODEL="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
    --tokenizer-type NullTokenizer --vocab-size 128 --data-path small_text_document --micro-batch-size 2 --global-batch-size 8 --train-iters 6 \
    --lr 1e-3 --log-interval 1 --eval-interval 100 --eval-iters 0 --zero-param-persistence-threshold 200"
train() { # OUT RANKS FLAGS...
    timeout 120 "$TRIAX" torchrun --nproc-per-node "$2" pretrain-gpt $MODEL --threads 1 "${@:3}" >"$1" 2>&1 ||
        { cat "$1" >&2; die "training: ${*:2}"; }
}
sums() { (cd "$1/iter_0000006" && sha256sum ./*.safetensors); }
ALL="--zero-stage 3 --zero-quantized-weights --zero-quantized-gradients --zero-hpz-partition-size 2"

# bytes of the whole data-parallel group, and of far ranks
sent() { awk '/iteration 6: communication: (far )?data-parallel/ { for (i = 2; i <= NF; i++) if ($i ~ /^bytes/) n += $(i - 1) } END { print n }' "$1"; }
train plain 4 --zero-stage 3 --log-level debug
train zeropp 4 $ALL --log-level debug
for out in plain zeropp; do
    grep "formulas'" $out >formulas && ! grep -v 'equal to' formulas || die "$out: bytes are not the formulas'"
done
grep -q 'ZeRO++: parameters are gathered as 8 bits each, again from 2 near ranks; gradients are sent as 4 bits each' zeropp ||
    { cat zeropp; die "the log does not say what is sent"; }
[ "$(sent zeropp)" -gt 0 ] && [ $((4 * $(sent zeropp))) -le "$(sent plain)" ] || die "$(sent zeropp) bytes are sent, without $(sent plain)"

i=0
for how in "4" "4 --bf16 --async-save" "4 --fp16 --initial-loss-scale 1024"; do
    i=$((i + 1))
    train out $how $ALL --save "whole$i" --save-interval 4
    train out $how $ALL --load "whole$i" --load-tag iter_0000004 --save "again$i" --save-interval 100
    [ "$(sums "whole$i")" = "$(sums "again$i")" ] || die "a resumed run has other bits: $how"
done
LOCO="$ALL --zero-loco-err-beta 0.8 --zero-loco-reset-t 5 --async-save"
train out 4 $LOCO --save loco --save-interval 4
train out 4 $LOCO --load loco --load-tag iter_0000004 --save loco_again --save-interval 100
[ "$(sums loco)" = "$(sums loco_again)" ] || die "a resumed run with LoCo has other bits"
train out 2 $ALL --zero-loco-err-beta 0.8 --load loco --load-tag iter_0000004
grep -q 'has no errors of quantized gradients of 2 data-parallel ranks' out || { cat out; die "errors of 4 ranks are those of 2"; }
train out 2 --load loco --load-tag iter_0000004 --zero-stage 1
train out 2 --load whole1 --load-tag iter_0000004 --zero-stage 1

refused 'needs --zero-stage 3, not 2' pretrain-gpt $MODEL --zero-stage 2 --zero-quantized-weights
refused 'does not divide the 1 data-parallel ranks' pretrain-gpt $MODEL --zero-stage 3 --zero-hpz-partition-size 2
refused 'leave one of them out' pretrain-gpt $MODEL --zero-stage 3 --zero-quantized-gradients --no-zero-reduce-scatter
refused 'leave one of them out' pretrain-gpt $MODEL --zero-stage 3 --zero-quantized-gradients --bf16 --grad-reduce-dtype bf16
refused 'gradients are not quantized: give that' pretrain-gpt $MODEL --zero-stage 3 --zero-loco-err-beta 0.8
refused 'leave one of them out' pretrain-gpt $MODEL $ALL --zero-loco-err-beta 0.8 --zero-hpz-partition-size 1 --mics-shard-size 1
refused 'must be from 0 to 1' pretrain-gpt $MODEL --zero-stage 3 --zero-quantized-gradients --zero-loco-err-beta -0.5
refused 'not with experts that they divide' pretrain-gpt $MODEL --zero-stage 3 --zero-hpz-partition-size 2 --world-size 4 \
    --num-experts 4 --moe-router-topk 2 --moe-expert-parallel-size 2
