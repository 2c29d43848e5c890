#!/bin/bash
# labels: cli parallel
# triax deepspeed --autotuning: two ranks measure layouts of a tiny model; what is written where, what a second call takes over,
# what is refused. The machine's numbers are given: how good they are is no matter here.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"

cat >machine.json <<'END'
{ "name": "here", "memory": {"gib": 4, "gb_per_s": 20}, "ranks_per_node": 2,
  "matrix": {"fp32": {"peak_tflops": 0.05}, "bf16": {"peak_tflops": 0.05}, "fp16": {"peak_tflops": 0.05}},
  "node": {"pair_gb_per_s": 4, "all_gb_per_s": 4}, "network": {"node_gb_per_s": 1} }
END
shape=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16)
run=("${shape[@]}" --micro-batch-size 2 --global-batch-size 8 --train-iters 40 --lr 1e-3 --threads 1 --split 8,1,1
    --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt" --data-path "$data/dataset/tiny_text_document")
tuned=(deepspeed --num_gpus 2 --autotuning)
json() { printf '%s\n' "$1" >ds.json; }
fresh() { rm -rf autotuning_results autotuning_exps; mkdir autotuning_results; cp machine.json autotuning_results; }

# ---- refused
refused "--autotuning best is unknown; allowed: one of tune, run" "${tuned[@]}" best pretrain_gpt.py "${run[@]}"
refused "generate_samples_gpt.py is triax generate-samples-gpt, which does not train" "${tuned[@]}" tune tools/generate_samples_gpt.py --load x
refused "leave --dry-run out" "${tuned[@]}" tune --dry-run pretrain_gpt.py "${run[@]}"
refused "give the model's shape" "${tuned[@]}" tune pretrain_gpt.py --seq-length 16 "${run[@]:10}" --load x
json '{"autotuning": {"start_profile_step": 9, "end_profile_step": 8}}'
refused "start_profile_step 9 is beyond end_profile_step 8" "${tuned[@]}" tune pretrain_gpt.py "${run[@]}" --deepspeed_config ds.json
[ ! -e autotuning_results ] || die "what is refused has made a folder"
fresh
echo '{"name": "here"}' >autotuning_results/machine.json
refused "autotuning_results/machine.json" "${tuned[@]}" tune pretrain_gpt.py "${run[@]}"
fresh
refused "no layout could be measured" "${tuned[@]}" tune pretrain_gpt.py "${run[@]}" --data-path none
[ "$(grep -c "^trial " out)" -eq 2 ] || { cat out; die "a run that fails in any layout is tried on"; }
grep -q "could not be measured: .*none" err || { cat err; die "why a trial failed is not told"; }

fresh
sed 's/"gib": 4/"gib": 0.001/' machine.json >autotuning_results/machine.json
refused "no layout on 2 ranks fits: the smallest takes" "${tuned[@]}" tune pretrain_gpt.py "${run[@]}" --num-layers 20

# ---- measured
fresh
json '{"train_batch_size": 8, "autotuning": {"enabled": true, "start_profile_step": 2, "end_profile_step": 4, "tuner_num_trials": 3}}'
ok "${tuned[@]}" tune pretrain_gpt.py "${run[@]}" --deepspeed_config ds.json --save ck --eval-interval 2
cp out first
[ ! -e ck ] || die "a trial has saved"
grep -q "trial 1 of at most 3: TP 1, PP 1, DP 2, ZeRO 0, micro-batch 2, the flags as given: .* ms predicted" out || { cat out; die "not the run's own first"; }
own=z0_tp1_pp1_tmbspg2_gas2_as_given
for file in cmd.txt ds_config.json exp.json metrics.json metrics.jsonl stdout.log stderr.log; do
    [ -e "autotuning_results/$own/$file" ] || die "no $file of a trial"
done
[ -e "autotuning_exps/$own.json" ] || die "no description of a trial"
[ "$(grep -c '"kind":"step"' "autotuning_results/$own/metrics.jsonl")" -eq 4 ] || die "a trial has not 4 iterations"
grep -q "^| $own .* %" autotuning_results/summary.txt || { cat autotuning_results/summary.txt; die "no summary"; }
grep -q "Total number of experiments: [123]\.$" autotuning_results/summary.txt || die "no number of experiments"
grep -q '"train_batch_size": 8' autotuning_results/ds_config_optimal.json || die "another global batch"
! grep -q autotuning autotuning_results/ds_config_optimal.json || die "the best configuration would be tuned again"

# the best command line runs, and DeepSpeed's file says nothing else
read -r -a best <autotuning_results/cmd_optimal.txt
rm -f ck
ok "${best[@]:1}" --deepspeed_config autotuning_results/ds_config_optimal.json --exit-interval 2 --save ck
[ -d ck/iter_0000002 ] || die "the best command line does not train"

# ---- a second call takes over what was measured, also what has failed, and goes on
json '{"train_batch_size": 8, "autotuning": {"start_profile_step": 2, "end_profile_step": 4, "tuner_num_trials": 1}}'
ok "${tuned[@]}" tune pretrain_gpt.py "${run[@]}" --deepspeed_config ds.json --eval-interval 2
grep -q "layouts* \(was\|were\) measured by earlier calls" out || { cat out; die "nothing is taken over"; }
! grep -q "^trial " out || { cat out; die "measured again"; }

# ---- a stop signal ends the trial, which the next call measures again
fresh
json '{"autotuning": {"start_profile_step": 2, "end_profile_step": 1000000, "tuner_num_trials": 1}}'
"$TRIAX" "${tuned[@]}" tune pretrain_gpt.py "${run[@]}" --train-iters 1000000 --deepspeed_config ds.json >out 2>err &
tuner=$! steps=autotuning_results/$own/metrics.jsonl
until [ -s "$steps" ]; do kill -0 $tuner || { cat err; die "the tuner has ended"; }; sleep 0.05; done
kill -TERM $tuner
code=0
wait $tuner || code=$?
[ $code -eq 143 ] || { cat out err; die "exit $code after SIGTERM, not 143"; }
grep -q "stopped: autotuning_results has what was measured" err || { cat err; die "that it was stopped is not told"; }
[ ! -e "autotuning_results/$own/metrics.json" ] || die "a trial that was stopped counts"

# ---- where the batch is free, others are tried as well
fresh
json '{"train_batch_size": "auto", "autotuning": {"start_profile_step": 2, "end_profile_step": 3, "tuner_num_trials": 2, "tuner_type": "gridsearch",
    "min_train_batch_size": 16, "max_train_batch_size": 16}}'
ok "${tuned[@]}" tune pretrain_gpt.py "${run[@]}" --deepspeed_config ds.json
grep -hq -- "--global-batch-size=16 " autotuning_results/z*/cmd.txt || { cat out; die "no other global batch"; }

# ---- each layout of a grid; run trains in the best one
fresh
json '{"autotuning": {"tuner_type": "gridsearch", "tuner_num_trials": 3, "start_profile_step": 2, "end_profile_step": 3, "mp_size": 2,
    "max_train_micro_batch_size_per_gpu": 4}}'
ok "${tuned[@]}" run pretrain_gpt.py "${run[@]}" --deepspeed_config ds.json --train-iters 4 --log-interval 2
[ "$(grep -c "^trial " out)" -eq 3 ] || { cat out; die "not three trials"; }
[ "$(ls -d autotuning_results/z* | grep -cv "as_given\|tp2_pp1\|tp1_pp2")" -eq 0 ] || die "mp_size is 2"
[ "$(losses out | wc -l)" -eq 2 ] || { cat out; die "the run does not train"; }
echo "autotuning passed"
