#!/bin/bash
# labels: cli parallel extended
# examples/tutorials, made small by flags behind their own: each runs as it stands on 1 to 8 ranks, saves, and where it says so
# converts and samples; layouts of one training have the same losses.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
tutorials=$(cd "$(dirname "$0")/../../examples/tutorials" && pwd)
export TRIAX VOCAB_FILE=$data/tiny/tiny-vocab.json MERGE_FILE=$data/tiny/tiny-merges.txt
export HIP_VISIBLE_DEVICES= CUDA_VISIBLE_DEVICES= # the emulated GPUs of other tests are not for these
shape=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 96 --threads 1)
run=(--log-interval 1 --eval-iters 1 --eval-interval 4 --split 8,1,1)

# tutorial SCRIPT ARGUMENTS...: must succeed; its output is in ./out and ./err
tutorial() {
    timeout -k 5 240 bash "$tutorials/$1" "${@:2}" >out 2>err </dev/null || { local code=$?; cat out err >&2; die "$* (exit $code)"; }
}
has() { grep -qE -- "$2" "$1" || { cat out err >&2; die "no \"$2\" in $1"; }; }
losses_of() { losses out >"$1"; [ "$(wc -l <"$1")" -eq "$2" ] || { cat out err >&2; die "$1: not $2 losses"; }; }
ok preprocess-data --input "$data/tiny/tiny-corpus.jsonl" --output-prefix tiny --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" --append-eod
export DATA_PATH=tiny_text_document

# ---- 125M: from text to samples, 8 ranks
export TEXT=$data/tiny/tiny-corpus.jsonl EARLY=4 LATE=8 GLOBAL_BATCH_SIZE=4 MICRO_BATCH_SIZE=1
tutorial gpt_125m.sh all "${shape[@]}" "${run[@]}" --train-samples 32 --save-interval 4
has out 'tensor x pipeline x data parallel 2 x 2 x 2'
losses_of losses 8
[ "$(cat output/checkpoint/gpt_*/latest_checkpointed_iteration.txt)" = 8 ] || die "latest_checkpointed_iteration.txt"
has out '^Output with checkpoint from 8 iterations:$'
for i in 0 1 2; do
    [ "$(grep -c "^$i: I like to play golf\. Today is a sunny day and I plan to" out)" -eq 2 ] || { cat out; die "sample $i"; }
done
for folder in output/checkpoint/gpt_*/HF/global_step{4,8}; do [ -s "$folder/config.json" ] || die "$folder"; done
# what the published script writes before it goes on
for folder in output/checkpoint/gpt_*; do echo global_step8 >"$folder/latest"; done
tutorial gpt_125m.sh train "${shape[@]}" "${run[@]}" --train-samples 32 --save-interval 4
has out 'at iteration 8'
N_RANKS=1 TP=1 PP=1 OUTPUT=alone tutorial gpt_125m.sh train "${shape[@]}" "${run[@]}" --train-samples 32 --save-interval 4
losses_of alone.losses 8
# fp16 in another layout rounds elsewhere
paste losses alone.losses | awk '{ d = $2 - $4; if (d < 0) d = -d; if (d > 2e-3 * $2) exit 1 }' || die "another layout: $(paste losses alone.losses)"

# ---- 345M: without DeepSpeed, tensor parallel, ZeRO 3 with what is offloaded
# their 2^32 as the first loss scale is halved for many iterations, in which nothing is learned
small=("${shape[@]}" "${run[@]}" --micro-batch-size 1 --global-batch-size 4 --train-iters 4 --initial-loss-scale 4096)
tutorial gpt_345m.sh one "${small[@]}"
losses_of one 4
tutorial gpt_345m.sh tensor "${small[@]}"
losses_of tensor 4
N_RANKS=4 TP=2 tutorial gpt_345m.sh zero3 "${small[@]}"
has out 'tensor x pipeline x data parallel 2 x 1 x 2'
losses_of zero3 4
for kind in tensor zero3; do
    paste one $kind | awk '{ d = $2 - $4; if (d < 0) d = -d; if (d > 2e-3 * $2) exit 1 }' || die "$kind: $(paste one $kind)"
    [ -d checkpoints/gpt2_$kind/iter_0000004 ] || die "$kind: no checkpoint"
done

# ---- the guide for AMD's GPUs: GPT and BERT on 4 ranks, saved at the end though --save-interval is not given
tutorial amd_gpus.sh gpt "${small[@]}"
has out 'tensor x pipeline x data parallel 2 x 2 x 1'
[ -d checkpoints/gpt/iter_0000004 ] || die "the GPT is not saved at its end"
ok preprocess-data --input "$data/tiny/tiny-bert-sentences.jsonl" --output-prefix bert --split-sentences \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$data/tiny/tiny-bert-vocab.txt"
set -- bert_*.idx
VOCAB_FILE=$data/tiny/tiny-bert-vocab.txt DATA_PATH=${1%.idx} tutorial amd_gpus.sh bert "${small[@]}" --seq-length 32
[ -d checkpoints/bert/iter_0000004 ] || die "the BERT is not saved at its end"

# ---- LUMI's script, without Slurm here: one node, 4 ranks

NPROC=4 TP=2 PP=1 GLOBAL_BATCH_SIZE=4 MICRO_BATCH_SIZE=1 tutorial lumi_gpt_13b.sh "${shape[@]}" "${run[@]}" --train-samples 16
has out 'tensor x pipeline x data parallel 2 x 1 x 2'
losses_of lumi 4

# ---- 2020: JSON lines as training data, made ready beside themselves once
mkdir web
cp "$data/tiny/tiny-corpus.jsonl" web/train.json
export TRAIN_DATA=web/train.json
small=("${shape[@]}" "${run[@]}" --batch-size 2 --train-iters 4 --initial-loss-scale 4096)
tutorial gpt2_2020.sh plain "${small[@]}"
losses_of plain 4
tutorial gpt2_2020.sh model-parallel "${small[@]}"
losses_of parallel 4
paste plain parallel | awk '{ d = $2 - $4; if (d < 0) d = -d; if (d > 2e-3 * $2) exit 1 }' || die "2020: $(paste plain parallel)"
DS_CONFIG=ds.json
sed 's/"train_micro_batch_size_per_gpu": 8/"train_micro_batch_size_per_gpu": 2/' "$tutorials/gpt2_2020.sh" >small.sh
timeout -k 5 240 bash small.sh zero2 "${small[@]}" >out 2>err </dev/null || { cat out err >&2; die "gpt2_2020.sh zero2"; }
has out 'tensor x pipeline x data parallel 2 x 1 x 2'
losses_of zero2 4
echo "the tutorials passed"
