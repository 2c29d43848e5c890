#!/bin/bash
# labels: cli golden
# Runs of Megatron and DeepSpeed go on here with their own losses, from their folders, from what convert made of them, on one
# rank and on several; what convert and upstream's converters refuse.
. "$(dirname "$0")/lib.sh"
upstream=$data/upstream
same_run="--data-path $data/dataset/tiny_text_document --vocab-file $data/tiny/tiny-vocab.json
    --merge-file $data/tiny/tiny-merges.txt --split 949,50,1 --seq-length 64 --micro-batch-size 2 --global-batch-size 8
    --train-iters 20 --exit-interval 8 --lr 1e-3 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-fraction 0.1
    --weight-decay 0.01 --hidden-dropout 0 --attention-dropout 0 --log-interval 1 --eval-iters 0 --threads 1"

# theirs NAME: "iteration loss" of the program's own iterations 5 to 8
theirs() {
    sed -n "/\"$1\"/,/\"validation\"/s/^ *\"\([5-8]\)\": \([0-9.e-]*\).*/\1 \2/p" "$upstream/losses.json"
}

# goes_on BOUND NAME FOLDER FLAGS...: from FOLDER on the losses are NAME's
goes_on() {
    local bound=$1 name=$2 folder=$3
    shift 3
    ok pretrain-gpt --load "$folder" $same_run "$@"
    losses out >mine
    theirs "$name" >want
    [ "$(wc -l <want)" -eq 4 ] || die "losses.json has no $name"
    paste mine want | awk -v b="$bound" '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > b) exit 1 } END { if (NR != 4) exit 1 }' ||
        { paste mine want >&2; die "$name from $folder: other losses"; }
}

# Megatron's decays nothing with ZeRO-3: as if it had --weight-decay 0 (docs/howto/convert.md)
goes_on 2e-5 ds_z3_tp2dp2_fp32 "$upstream/ds_z3_tp2dp2_fp32" --weight-decay 0 --override-opt_param-scheduler --lr-decay-iters 20
goes_on 2e-5 llama_z1_tp2_fp32 "$upstream/llama_z1_tp2_fp32"
goes_on 2e-5 classic_pp4vp2_fp32 "$upstream/classic_pp4vp2_fp32"
goes_on 1e-3 ds_z1_pp2tp2_bf16 "$upstream/ds_z1_pp2tp2_bf16" --bf16
goes_on 1e-3 classic_dp2_distopt_bf16 "$upstream/classic_dp2_distopt_bf16" --bf16

# through every format
ok convert --to native "$upstream/llama_z1_tp2_fp32" native
goes_on 2e-5 llama_z1_tp2_fp32 native
ok convert --to megatron --target-tp 2 native megatron
goes_on 2e-5 llama_z1_tp2_fp32 megatron
ok convert --to deepspeed --target-zero-stage 3 --target-dp 3 megatron deepspeed
goes_on 2e-5 llama_z1_tp2_fp32 deepspeed
ok convert --to universal deepspeed universal
goes_on 2e-5 llama_z1_tp2_fp32 universal
ok convert --to native universal again
# iter_0000004/shard_00000.safetensors: the same numbers, bit for bit, through four programs' formats
cmp native/iter_0000004/shard_00000.safetensors again/iter_0000004/shard_00000.safetensors ||
    die "weights and moments are others after four conversions"

# a ZeRO-3 run of DeepSpeed's engine, through its own ds_to_universal; token i of every sample is i % 16
awk 'BEGIN { printf "{\"text\": \""; for (k = 0; k < 4096; k++) printf "%d ", k % 16; print "\"}" }' >turns.jsonl
ok preprocess-data --input turns.jsonl --output-prefix turns --tokenizer-type NullTokenizer --vocab-size 63
ok pretrain-gpt --load "$upstream/universal_z3_dp2_fp32" --data-path turns_text_document --split 1,0,0 --tokenizer-type NullTokenizer \
    --vocab-size 63 --seq-length 16 --micro-batch-size 2 --global-batch-size 4 --train-iters 8 --lr 1e-3 --lr-decay-style constant --weight-decay 0 \
    --hidden-dropout 0 --attention-dropout 0 --log-interval 1 --eval-iters 0 --threads 1 --override-opt_param-scheduler
losses out >mine
theirs universal_z3_dp2_fp32 >want
paste mine want | awk '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 5e-6) exit 1 } END { if (NR != 4) exit 1 }' ||
    { paste mine want >&2; die "universal_z3_dp2_fp32: other losses"; }
ok convert --to universal --target-zero-stage 3 "$upstream/universal_z3_dp2_fp32" uz3
ok convert --to native uz3 z3-native
ok convert --to native "$upstream/universal_z3_dp2_fp32" z3-direct
cmp z3-native/iter_0000004/shard_00000.safetensors z3-direct/iter_0000004/shard_00000.safetensors || die "a universal checkpoint for ZeRO-3"
mkdir mixed && cp -r "$upstream/universal_z3_dp2_fp32/." mixed && touch mixed/global_step4_universal/zero_pp_rank_0_mp_rank_01_model_states.pt
refused "which DeepSpeed's converter mixes up" convert --to native mixed x
refused "no universal checkpoint over tensor- or pipeline-parallel" convert --to universal --target-zero-stage 3 --target-tp 2 native x
refused "is for --to deepspeed and universal" convert --to megatron --target-zero-stage 3 native x

# a Hugging Face model of many files
ok convert --to huggingface --max-shard-size 20KB native sharded
[ -f sharded/model.safetensors.index.json ] && [ ! -e sharded/model.safetensors ] || die "not in shards"
ok convert --to huggingface sharded whole
ok convert --to huggingface native direct
cmp whole/model.safetensors direct/model.safetensors || die "shards hold other weights"
grep -q 'likeliest token the same at 32 of 32' out || die "no proof"

# upstream's converters
ok deepspeed_to_transformers.py --input_folder "$upstream/ds_z3_tp2dp2_fp32/global_step4" --output_folder t
[ -f t/model.safetensors ] && [ -f t/config.json ] || die "deepspeed_to_transformers.py wrote no model"
ok tools/convert_checkpoint/deepspeed_to_megatron.py --input_folder "$upstream/ds_z1_pp2tp2_bf16" --output_folder m \
    --target_tp 2 --target_pp 2 --for_release
[ -f m/iter_0000004/mp_rank_01_001/model_optim_rng.pt ] || die "deepspeed_to_megatron.py wrote no second rank"
ok zero_to_fp32.py "$upstream/ds_z2_dp3_bf16_rr" z --tag global_step4
[ -f z/model.safetensors ] || die "zero_to_fp32.py wrote no model"

# the same of native folders, in which iter_0000004 is what they call global_step4; how people type them
ok python tools/convert_checkpoint/deepspeed_to_transformers.py --input_folder native/global_step4/ --output_folder HF/global_step4
grep -q 'native/global_step4/ is not there: taking native/iter_0000004, the same iteration of this run' out || die "what is taken is not told"
cmp direct/model.safetensors HF/global_step4/model.safetensors || die "deepspeed_to_transformers.py of a native folder: other weights"
ok tools/convert_checkpoint/deepspeed_to_megatron.py --input_folder native --output_folder m2 --target_tp 2
[ -f m2/iter_0000004/mp_rank_01/model_optim_rng.pt ] || die "deepspeed_to_megatron.py of a native folder"
ok ./zero_to_fp32.py native z2 -t global_step4 --safe_serialization --exclude_frozen_parameters -d --max_shard_size 20KB
[ -f z2/model.safetensors.index.json ] || die "zero_to_fp32.py of a native folder"
ok zero_to_fp32.py "$upstream/ds_z2_dp3_bf16_rr" z3 --tag iter_0000004
cmp z/model.safetensors z3/model.safetensors || die "zero_to_fp32.py --tag iter_0000004"
cp -r native run
ok python3 deepspeed/checkpoint/ds_to_universal.py --input_folder run/global_step4 --output_folder run/global_step4_universal \
    --num_extract_workers 4 --num_merge_workers 2 --keep_temp_folder --no_strict --inject_missing_state
[ "$(cat run/latest_universal)" = global_step4_universal ] && [ -d run/global_step4_universal/zero ] || die "no universal checkpoint"
goes_on 2e-5 llama_z1_tp2_fp32 run --universal-checkpoint
grep -q 'loading universal checkpoint from run/global_step4_universal' out || die "--universal-checkpoint"
echo '{"checkpoint": {"load_universal": true}}' >universal.json
goes_on 2e-5 llama_z1_tp2_fp32 run --deepspeed --deepspeed_config universal.json
grep -q 'loading universal checkpoint from run/global_step4_universal' out || die "checkpoint.load_universal"
goes_on 2e-5 llama_z1_tp2_fp32 run # which is still a native one
ok ds_to_universal.py --input_folder "$upstream/ds_z1_pp2tp2_bf16/global_step4" --output_folder u4
[ "$(ls u4 | grep -c mp_rank_)" -eq 4 ] || die "ds_to_universal.py: $(ls u4 | xargs), not a file of each rank"
ok tools/convert_checkpoint/inspect_deepspeed_checkpoint.py --folder "$upstream/ds_z3_tp2dp2_fp32/global_step4" --target_tp 2 --target_pp 1
grep -q 'iteration 4, ' out || die "inspect_deepspeed_checkpoint.py"
ok inspect_deepspeed_checkpoint.py --folder native/global_step4
grep -q 'a checkpoint of triax' out || die "inspect_deepspeed_checkpoint.py of a native folder"
ok tools/convert_checkpoint/inspect_checkpoint.py megatron/iter_0000004/mp_rank_00/model_optim_rng.pt
grep -q '^\[tensor\] model.language_model.embedding.word_embeddings.weight = float32 \[[0-9]*, [0-9]*\]$' out &&
    grep -q '^\[other\] iteration = 4$' out && grep -q '^\[other\] args.num_layers = ' out || die "inspect_checkpoint.py"
ok inspect_checkpoint.py native
refused "universal checkpoint is for any ranks" ds_to_universal.py --input_folder native --output_folder u5 --target_tp 2
refused "direct: is a Hugging Face model already: triax generate --load direct" deepspeed_to_transformers.py --input_folder direct --output_folder x
refused "which has no state of an optimizer, as universal checkpoints have: triax convert --to megatron direct OUT" \
    ds_to_universal.py --input_folder direct --output_folder x
mkdir -p outputs/checkpoint && cp -r native outputs/checkpoint/gpt_125M
refused "outputs/checkpoint/gpt_125M does: triax deepspeed-to-megatron ... outputs/checkpoint/gpt_125M" \
    deepspeed_to_megatron.py --input_folder outputs/checkpoint --output_folder x
refused "native/global_step5 does not exist; there are iter_" zero_to_fp32.py native x --tag global_step5
refused "needs --folder" inspect_deepspeed_checkpoint.py --target_tp 2

# the padding of a vocabulary
ok convert --to huggingface --true-vocab-size 509 "$upstream/universal_v509_z1_tp2_fp32" v509
grep -q '"vocab_size": 509' v509/config.json || die "padding was kept"
grep -q 'embedding.word_embeddings.weight.*padding dropped' out || die "padding was dropped in silence"

# what it refuses
refused "convert needs --to" convert native x
refused "takes 2 values (IN OUT)" convert --to native native
refused "IN and OUT are the same folder" convert --to native native native
refused "give a new folder" convert --to huggingface native direct
refused "triax convert: nowhere does not exist" convert --to huggingface nowhere x
refused "--target-tp 3 does not divide" convert --to megatron --target-tp 3 native x
refused "--target-tp and --target-pp are for" convert --to huggingface --target-tp 2 native x
refused "--max-shard-size 5XB" convert --to huggingface --max-shard-size 5XB native x
refused "needs --output_folder" deepspeed_to_megatron.py --input_folder native
refused "has no ZeRO-2" convert --to deepspeed --target-zero-stage 2 --target-pp 2 native x
[ ! -e x ] || [ -z "$(ls -A x)" ] || die "a refused conversion left something"
