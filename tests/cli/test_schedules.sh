#!/bin/bash
# labels: cli resume
# DeepSpeed's scheduler in pretraining, and a learning rate of its own for the embedding: what is logged, and runs that go on.
. "$(dirname "$0")/lib.sh"

for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
run=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 4 --tokenizer-type NullTokenizer --vocab-size 511 --data-path text
    --split 1,0,0 --log-interval 1 --eval-iters 0 --threads 1 --train-iters 8)
said() { grep -qF -- "$1" out err || { cat out err >&2; die "does not say \"$1\""; }; }

# of every line of the log, in one
rates() { sed -nE 's/^ iteration .*[|] '"$1"': ([0-9.E+-]+) [|] .*/\1/p' out | paste -sd' '; }
rates_are() { [ "$(rates "$1")" = "$2" ] || die "$1 is $(rates "$1"), not $2"; }

# goes_on NAME FLAGS...: from the middle the run comes to the same bytes
goes_on() {
    local name=$1
    shift
    ok "${run[@]}" "$@" --save "$name" --save-interval 4
    cp -r "$name" "$name.again"
    rm -r "$name.again/iter_0000008"
    echo iter_0000004 >"$name.again/latest"
    ok "${run[@]}" "$@" --save "$name.again" --save-interval 4 --load "$name.again"
    [ "$(grep -cE "^ iteration +[0-9]" out)" = 4 ] || die "$name: not four iterations more"
    diff -r "$name/iter_0000008" "$name.again/iter_0000008" || die "$name: another checkpoint after going on"
}

# the section counts on request
cat >range.json <<'END'
{ "scheduler": { "type": "LRRangeTest",
    "params": { "lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 2, "lr_range_test_step_rate": 3 } } }
END
ok "${run[@]}" --lr 1e-3 --lr-decay-style constant --deepspeed_config range.json
said "scheduler: accepted, without effect here"
rates_are "learning rate" "$(printf '1.000E-03 %.0s' {1..8} | sed 's/ $//')"
ok "${run[@]}" --deepspeed_config range.json --deepspeed-scheduler
said "DeepSpeed using configured LR scheduler = LRRangeTest"
rates_are "learning rate" "2.500E-04 4.000E-04 5.500E-04 7.000E-04 8.500E-04 1.000E-03 1.150E-03 1.300E-03"
losses out >by_file
ok "${run[@]}" --lr-schedule LRRangeTest --lr-range-test-min-lr 1e-4 --lr-range-test-step-size 2 --lr-range-test-step-rate 3
losses out | diff by_file - || die "flags are not the file"
refused "the two say the same thing" "${run[@]}" --deepspeed_config range.json --deepspeed-scheduler --lr-schedule WarmupLR
sed 's/min_lr": 1e-4/min_lr": -1/' range.json >negative.json
refused "negative.json: line 2, column 17: scheduler.params.lr_range_test_min_lr: --lr-range-test-min-lr -1 is too small" \
    "${run[@]}" --deepspeed_config negative.json --deepspeed-scheduler

# runs that go on, momentum and all
goes_on cycle --lr-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --cycle-first-step-size 3 --decay-step-size 1 \
    --decay-lr-rate 0.5 --decay-mom-rate 0.001
goes_on cosine --lr 1e-2 --lr-schedule WarmupCosineLR --total-num-steps 7 --warmup-num-steps 3
goes_on sgd --optimizer sgd --lr-schedule WarmupDecayLR --total-num-steps 7 --warmup-num-steps 3 --warmup-max-lr 0.1
goes_on range --lr-schedule LRRangeTest --lr-range-test-step-size 2 --fp16
cycle=(--lr-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --cycle-first-step-size 4)
refused "first_steps of the run's OneCycle is 4, of the checkpoint's 3" "${run[@]}" "${cycle[@]}" --load cycle
refused "the run's is none of DeepSpeed's, the checkpoint's OneCycle" "${run[@]}" --lr 1e-3 --load cycle
ok "${run[@]}" "${cycle[@]}" --load cycle --override-opt_param-scheduler --train-iters 9

# through a checkpoint for DeepSpeed
flags=(--lr 1e-2 --lr-schedule WarmupLR --warmup-num-steps 6)
ok "${run[@]}" "${flags[@]}"
losses out | tail -4 >straight
ok "${run[@]}" "${flags[@]}" --save ds --save-format deepspeed --save-interval 4 --exit-interval 4
ok "${run[@]}" "${flags[@]}" --load ds
losses out | diff straight - || die "other losses after a checkpoint for DeepSpeed"

# a rate of its own for the embedding
goes_on decoupled --lr 1e-3 --min-lr 1e-4 --decoupled-lr 4e-3 --lr-warmup-iters 2
ok "${run[@]}" --lr 1e-3 --min-lr 1e-4 --decoupled-lr 4e-3 --lr-warmup-iters 2 --metrics-file m.jsonl
rates_are "learning rate" "5.000E-04 1.000E-03 8.500E-04 7.000E-04 5.500E-04 4.000E-04 2.500E-04 1.000E-04"
rates_are "decoupled learning rate" "2.000E-03 4.000E-03 3.350E-03 2.700E-03 2.050E-03 1.400E-03 7.500E-04 1.000E-04"
grep -q '"decoupled_learning_rate":0.002,' m.jsonl || die "no decoupled rate in the metrics"
refused "class input value none and checkpoint value 0.004 for decoupled learning rate do not match (--decoupled-lr)" \
    "${run[@]}" --lr 1e-3 --min-lr 1e-4 --lr-warmup-iters 2 --load decoupled
refused "has a learning rate of its own for the embedding (--decoupled-lr)" \
    convert --to megatron decoupled x
