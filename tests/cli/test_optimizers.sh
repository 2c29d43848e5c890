#!/bin/bash
# labels: cli resume
# Every optimizer with an op of its own: a run that goes on from native, DeepSpeed's and Megatron's folders ends with the
# bytes of one that was not interrupted, in other layouts, too; another optimizer's state is refused; convert keeps it;
# plan counts it. Ranks are threads.
. "$(dirname "$0")/lib.sh"
rank_threads=$(dirname "$TRIAX")/rank_threads
[ -x "$rank_threads" ] || { echo "skipped: rank_threads is not built"; exit 77; }
for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
train=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1
    --global-batch-size 4 --lr 1e-3 --lr-decay-style cosine --lr-decay-iters 8 --hidden-dropout 0.1 --tokenizer-type NullTokenizer
    --vocab-size 511 --data-path text --split 1,0,0 --eval-iters 0 --log-interval 1 --threads 1)

# run N FLAGS...: as N ranks; its output is in ./out
run() {
    local n=$1 command=("$TRIAX" pretrain-gpt)
    shift
    [ "$n" -eq 1 ] || command=("$rank_threads" "$n" --world-size "$n")
    timeout -k 5 300 "${command[@]}" "${train[@]}" "$@" >out 2>err </dev/null || { cat out err >&2; die "$n ranks, $*"; }
}
numbers() { sed -nE 's/.*(lm loss: \S+).*(grad norm: \S+).*/\1 \2/p' "$@"; }
# goes_on FORMAT N FLAGS...: two iterations and two, as four; the folders are in ./cut/
goes_on() {
    local format=$1 n=$2 last=iter_0000004
    shift 2
    [ "$format" != deepspeed ] || last=global_step4
    rm -rf whole cut
    run "$n" "$@" --save-format "$format" --save whole --save-interval 4 --train-iters 4
    numbers out >expected
    run "$n" "$@" --save-format "$format" --save cut --load cut --save-interval 2 --train-iters 4 --exit-interval 2
    cp out first
    run "$n" "$@" --save-format "$format" --save cut --load cut --save-interval 2 --train-iters 4
    numbers first out | cmp -s - expected || die "$format, $n ranks, $*: other numbers"
    diff -r whole/$last cut/$last || die "$format, $n ranks, $*: other bytes than without an interruption"
}
# same_as_cut N FLAGS...: one more iteration of ./cut has the loss that it has in its own layout
same_as_cut() {
    local n=$1
    shift
    run "$n" "$@" --load cut --train-iters 5 --override-opt_param-scheduler
    numbers out | cut -d' ' -f3 | cut -c1-8
}
tp=--tensor-model-parallel-size pp=--pipeline-model-parallel-size

sgd=(--optimizer sgd --sgd-nesterov)
dampened=(--optimizer sgd --sgd-dampening 0.25)
lion=(--optimizer lion --lr 1e-4)
adagrad=(--optimizer adagrad --lr 1e-2)
l2=(--no-decoupled-weight-decay --weight-decay 0.1)

goes_on native 4 "${sgd[@]}" --zero-stage 3 --bf16
goes_on native 1 "${dampened[@]}" --async-save
goes_on native 2 "${lion[@]}" --zero-stage 2 --offload-optimizer cpu --fp16 --initial-loss-scale 1024
goes_on native 2 "${adagrad[@]}" $pp 2
goes_on native 2 "${l2[@]}" $tp 2
goes_on megatron 4 "${sgd[@]}" $tp 2 $pp 2
goes_on megatron 2 "${lion[@]}" --bf16
goes_on deepspeed 2 "${sgd[@]}" --zero-stage 2
goes_on deepspeed 1 "${lion[@]}" --bf16
goes_on deepspeed 2 "${l2[@]}" --zero-stage 1
goes_on deepspeed 2 "${adagrad[@]}" --zero-stage 1 --bf16
goes_on deepspeed 2 "${adagrad[@]}" --zero-stage 3
goes_on deepspeed 2 "${lion[@]}" --zero-stage 3
own=$(same_as_cut 2 "${lion[@]}" --zero-stage 3)
[ "$own" ] && [ "$own" = "$(same_as_cut 1 "${lion[@]}")" ] && [ "$own" = "$(same_as_cut 2 "${lion[@]}" $tp 2)" ] ||
    die "Lion's state of ZeRO-3 in DeepSpeed's files is another in other layouts: $own"

# to native and back, the state with it
run 2 "${lion[@]}" --zero-stage 3 --load cut --save native --save-interval 4 --train-iters 4 --exit-interval 4 --override-opt_param-scheduler ||
    die "no native copy"
ok convert --to native cut copy
ok convert --to deepspeed copy there
ok inspect there
[ "$(same_as_cut 1 "${lion[@]}")" = "$own" ] || die "convert: another state"
mv there cut.there && rm -rf cut && mv cut.there cut
[ "$(same_as_cut 1 "${lion[@]}")" = "$own" ] || die "convert there and back: another state"
ok convert --to universal copy universal
ok convert --to native universal lion-again
cmp copy/iter_0000004/shard_00000.safetensors lion-again/iter_0000004/shard_00000.safetensors || die "universal: another state of Lion's"
run 1 "${adagrad[@]}" --save sums --save-interval 2 --train-iters 2
refused "only Adam's, SGD's and Lion's state can be written in this format" convert --to megatron sums megatron
refused "only Adam's, SGD's and Lion's state can be written in this format" convert --to universal sums universal2

# another optimizer's state
no() { local text=$1; shift; refused "$text" pretrain-gpt "${train[@]}" --train-iters 5 --override-opt_param-scheduler "$@"; }
run 1 --save adam --save-interval 2 --train-iters 2
run 1 --save ds-adam --save-format deepspeed --save-interval 2 --train-iters 2 --zero-stage 1
for from in adam ds-adam; do
    no "holds the state of another optimizer (there is exp_avg_sq, too)" --load $from "${lion[@]}"
    no "there is no sum" --load $from "${adagrad[@]}"
done
no "there is no exp_avg_sq" --load cut
no "there is no exp_avg" --load sums "${lion[@]}"
run 1 --load adam "${lion[@]}" --no-load-optim --train-iters 4 --override-opt_param-scheduler

# bytes of a parameter's state: two buffers or one
optimizer_of() { ok plan "${train[@]}" --hidden-size 512 --train-iters 2 "$@"; awk '$1 == "optimizer" { print $2; exit }' out; }
two=$(optimizer_of) one=$(optimizer_of "${lion[@]}")
[ "$two" ] && [ "$one" = "$(optimizer_of "${adagrad[@]}")" ] && [ "$one" = "$(optimizer_of "${sgd[@]}")" ] &&
    [ "$two" = "$(optimizer_of "${l2[@]}")" ] || die "plan: $two and $one"
awk -v two="$two" -v one="$one" 'BEGIN { exit !(two > 1.9 * one && two < 2.1 * one) }' || die "plan: $two is not two of $one"
