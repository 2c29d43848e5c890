#!/bin/bash
# labels: cli parallel resume
# MiCS between processes: what is sent is the formulas', one row saves, a resumed run has the same bits, other rows and other
# stages read its checkpoint, and what does not go together is refused.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
small_data 128

MODEL="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
    --tokenizer-type NullTokenizer --vocab-size 128 --data-path small_text_document --micro-batch-size 2 --global-batch-size 8 --train-iters 6 \
    --lr 1e-3 --log-interval 1 --eval-interval 100 --eval-iters 0"
train() { # OUT RANKS FLAGS...
    timeout 120 "$TRIAX" torchrun --nproc-per-node "$2" pretrain-gpt $MODEL --threads 1 "${@:3}" >"$1" 2>&1 ||
        { cat "$1" >&2; die "training: ${*:2}"; }
}
sums() { (cd "$1/iter_0000006" && sha256sum ./*.safetensors); }
MICS="--zero-stage 3 --zero-param-persistence-threshold 200 --mics-shard-size 2"

train out 4 $MICS --log-level debug --save whole0 --save-interval 100
grep "formulas'" out >formulas && ! grep -v 'equal to' formulas || { cat out; die "bytes are not the formulas'"; }
grep -q 'parameters are divided among 2 near data-parallel ranks, in each of 2 rows (MiCS)' out ||
    { cat out; die "the log does not say what is divided"; }
for group in 'near data-parallel' 'far data-parallel'; do
    grep -q "iteration 6: communication: $group" out || { cat out; die "nothing is sent among $group ranks"; }
done
! grep "iteration 6: communication: data-parallel" out || die "all data-parallel ranks sum or gather"
ls whole0/iter_0000006/*.safetensors >files
[ "$(wc -l <files)" = 2 ] || { cat files; die "not the two ranks of one row save"; }

i=0
for how in "4" "4 --bf16 --async-save --num-experts 2" "4 --fp16 --initial-loss-scale 1024 --tensor-model-parallel-size 2 \
    --mics-shard-size 1" "4 --zero-quantized-weights --zero-quantized-gradients"; do
    i=$((i + 1))
    train out ${how%% *} $MICS ${how#4} --save "whole$i" --save-interval 4
    train out ${how%% *} $MICS ${how#4} --load "whole$i" --load-tag iter_0000004 --save "again$i" --save-interval 100
    [ "$(sums "whole$i")" = "$(sums "again$i")" ] || die "a resumed run has other bits: $how"
done
train out 2 --load whole1 --load-tag iter_0000004 --zero-stage 1
train out 4 --load whole1 --load-tag iter_0000004 --zero-stage 2 --mics-shard-size 4
train out 4 $MICS --save megatron --save-format megatron --save-interval 100
train out 1 --load megatron

refused 'is of what --zero-stage 1, 2 or 3 divides' pretrain-gpt $MODEL --mics-shard-size 1
refused 'does not divide the 4 data-parallel ranks' pretrain-gpt $MODEL --zero-stage 3 --mics-shard-size 3 --world-size 4
refused 'leave one of them out' pretrain-gpt $MODEL --zero-stage 3 --mics-shard-size 2 --zero-hpz-partition-size 2 --world-size 4
refused 'not with experts that they divide' pretrain-gpt $MODEL --zero-stage 3 --mics-shard-size 2 --world-size 4 \
    --num-experts 4 --moe-router-topk 2 --moe-expert-parallel-size 2
refused 'not with --mics-shard-size' pretrain-gpt $MODEL --mics-shard-size 1 --optimizer onebitadam
