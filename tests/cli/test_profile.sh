#!/bin/bash
# labels: cli
# --profile N: the tables and the trace, where it goes, what is warned of, and that training is the same to the bit.
. "$(dirname "$0")/lib.sh"

train=(pretrain-gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 32
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 6 --log-interval 1 --eval-interval 3 --eval-iters 1
    --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt"
    --data-path "$data/dataset/tiny_text_document" --split 8,1,1)

# events FILE CATEGORY; lines of a trace, one an event
events() { grep -c "\"cat\":\"$2\"" "$1"; }

# table FILE HEADING: the lines of a table, "label<tab>calls<tab>share"; calls "-" where there are none
table() {
    awk -v heading="    $2 " 'index($0, heading) == 1 { on = 1; next } !on { next }
        { label = substr($0, 5, 42); sub(/ +$/, "", label); calls = substr($0, 48, 6); gsub(/ /, "", calls)
          share = substr($0, 65, 8); gsub(/[ %]/, "", share); print label "\t" (calls == "" ? "-" : calls) "\t" share }
        label == "iteration" { exit }' "$1"
}

# ---- the same training
ok "${train[@]}" --save without --save-interval 6
losses out >losses
ok "${train[@]}" --save with --save-interval 6 --profile 2
losses out | cmp - losses || die "other losses"
diff -r without/iter_0000006 with/iter_0000006 || die "another checkpoint"
[ ! -e without/profile-iteration-3-4.json ] && ! ls profile-* >/dev/null 2>&1 || die "a trace that nobody asked for"

# ---- the tables
grep -Eq '^ > profile of iterations 3 to 4, [0-9.]+ ms each:$' out || { cat out; die "no heading"; }
grep -Eq '^    matrix products [0-9.]+% \| attention [0-9.]+% \| memory-bound ops [0-9.]+% \| outside ops [0-9.]+%$' out ||
    die "no totals"
for by in "by op" "by part of the model"; do
    table out "$by" >rows
    awk -F'\t' '$1 != "iteration" { sum += $3; n++ } END { exit !(n > 10 && sum > 98 && sum < 102) }' rows ||
        { cat rows; die "$by: shares are not 100% together"; }
    awk -F'\t' '$1 != "outside ops" && $1 != "iteration" && !($2 > 0) { exit 1 }' rows || { cat rows; die "$by: no calls"; }
    awk -F'\t' '$1 != "iteration" { if (NR > 1 && $3 > last) exit 1; last = $3 }' rows || { cat rows; die "$by: not by time"; }
    for line in "outside ops" iteration; do grep -q "^$line	-" rows || die "$by: no $line"; done
done
table out "by op" | grep -qx 'gemm	54	[0-9.]*' || die "gemm: 2 micro-batches, 2 layers of 4 products and the head, three each"
table out "by op" | grep -qx 'attention_bwd	4	[0-9.]*' || die "attention_bwd: 2 micro-batches, 2 layers"
for part in self_attention.query_key_value "mlp.dense_4h_to_h, backward" output_layer "output_layer, backward" optimizer.step \
    optimizer.norms optimizer.zero_grad embedding "input_layernorm, backward"; do
    grep -q "^$part	" rows || { cat rows; die "no part $part"; }
done
grep -Eq '^    gemm +54 +[0-9.]+ +[0-9.]+% +[0-9.]+ +[0-9.]+% +- +-$' out || die "no GFLOP/s of gemm"
grep -Eq '^    adam +28 +[0-9.]+ +[0-9.]+% +- +- +[0-9.]+ +[0-9.]+%$' out || die "no GB/s of adam"

# ---- the trace
trace=with/profile-iteration-3-4.json
grep -q "^    trace for .*: $trace$" out || die "the log does not name the trace"
[ "$(events $trace iteration)" -eq 2 ] && [ "$(events $trace product)" -eq 108 ] && [ "$(events $trace attention)" -eq 16 ] &&
    [ "$(events $trace memory)" -gt 100 ] || die "events of the trace"
[ "$(head -n 1 $trace)" = '{"displayTimeUnit":"ms","traceEvents":[' ] && [ "$(tail -n 1 $trace)" = ']}' ] || die "no object"
grep -q '"name":"gemm".*"layer":2,"part":"mlp.dense_h_to_4h","pass":"backward","shape":"fp32\[' $trace || die "no place"

# ---- where else it goes, and what it says of other runs
ok "${train[@]}" --train-iters 3 --tensorboard-dir tb --profile 1
[ -s tb/profile-iteration-3-3.json ] || die "no trace beside TensorBoard's files"
ok "${train[@]}" --load with --train-iters 10 --override-opt_param-scheduler --profile 5
[ -s profile-iteration-9-10.json ] || die "a run that goes on: no trace of its third iteration and on"
grep -q 'profile 5: the run ended after 2 of the iterations' err || die "silent about a run that is too short"
ok "${train[@]}" --train-iters 2 --profile 1
grep -q 'profile 1: nothing is profiled, the run ended at iteration 2, before 3' err || die "silent about nothing"
ok "${train[@]}" --profile 1 --skip-train
grep -q 'nothing is profiled with --skip-train' err || die "silent about --skip-train"
ok "${train[@]}" --train-iters 3 --profile 1 --backend ref --bf16 --normalization rmsnorm --swiglu \
    --use-rotary-position-embeddings --recompute-activations
for op in rmsnorm_bwd glu_bwd rope; do
    table out "by op" | grep -q "^$op	" || { cat out; die "no $op"; }
done
grep -Eq '^    gemm +[0-9]+ +[0-9.]+ +[0-9.]+% +[0-9.]+ +- +- +-$' out || die "a share of a peak that is not known"
mkdir here
mkdir here/profile-iteration-3-3.json
ok "${train[@]}" --train-iters 3 --profile 1 --tensorboard-dir here
grep -q 'there is no trace of the profile' err || die "silent about a trace that cannot be written"
for value in word 0 10001; do refused "--profile $value: allowed are a number of iterations, 1 to 10000, pt, pt-full or pytorch" "${train[@]}" --profile $value; done

# ---- upstream's spellings: Megatron-DeepSpeed's words and steps, Megatron-LM's switch and steps
for words in "pt" "pt-full --profile_steps 2,3" "pytorch --tensorboard-dir boards --use-pytorch-profiler"; do
    # shellcheck disable=SC2086 # several words
    ok "${train[@]}" --train-iters 5 --profile $words --profile-ranks 0
    grep -q '^ > profile of iterations 3 to 4, ' out || { cat out err; die "--profile $words: other iterations"; }
done
grep -q 'trace for chrome://tracing or ui.perfetto.dev: boards/profile-iteration-3-4.json$' out || die "--profile pytorch: no trace"
ok "${train[@]}" --train-iters 5 --profile pt --profile-steps 1,1
grep -q '^ > profile of iterations 2 to 2, ' out || die "--profile-steps 1,1: other iterations"
ok "${train[@]}" --train-iters 5 --profile --profile-step-start 3 --profile-step-end 5
grep -q '^ > profile of iterations 4 to 5, ' out || die "--profile-step-start, -end: other iterations"
ok "${train[@]}" --train-iters 12 --lr-decay-iters 6 --profile
grep -q '^ > profile of iterations 11 to 12, ' out || die "--profile alone is not Megatron-LM's 10 to 12"
ok "${train[@]}" --load with --train-iters 10 --override-opt_param-scheduler --profile --profile-step-start 1 --profile-step-end 3
grep -q 'nothing is profiled, the run goes on at iteration 6, behind what was asked for' err || die "silent about steps that are over"
refused "give one of the two" "${train[@]}" --profile 3 --profile-step-start 2
refused "--profile-steps 3,1: must be A,B" "${train[@]}" --profile pt --profile-steps 3,1
refused "--profile-step-end 2 is not behind --profile-step-start 5" "${train[@]}" --profile --profile-step-start 5 --profile-step-end 2
ok "${train[@]}" --profile-step-start 3
grep -q 'nothing is profiled without --profile' out || die "silent about steps without --profile"

# ---- of layers that are computed again
times() { grep -cE "^    checkpointed-layers-$1 \.+: \([0-9.]+, [0-9.]+\)" out; }
ok "${train[@]}" --checkpoint-activations --profile-backward
losses out | cmp - losses || die "--profile-backward: other losses"
for what in forward forward-again backward; do [ "$(times $what)" -eq 6 ] || die "--profile-backward: not six times of $what"; done
ok "${train[@]}" --checkpoint-activations
! grep -q checkpointed-layers out || die "times that nobody asked for"
echo "profiles passed"
