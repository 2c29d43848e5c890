#!/bin/bash
# labels: cli parallel extended
# The published texts themselves, where their folder is beside this project (TX_TUTORIALS names it): the commands in their
# blocks, typed as they stand but for what python, deepspeed and torchrun are, and for sizes behind their own flags.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
texts=${TX_TUTORIALS:-$(dirname "$0")/../../../shared/reference/tutorials}
[ -s "$texts/README.md" ] || { echo "skipped: the texts are not here (TX_TUTORIALS)"; exit 77; }
texts=$(cd "$texts" && pwd)

# The programs that the texts start. SIZES go behind what starts a training.
mkdir bin
for name in python python3 deepspeed torchrun; do
    cat >bin/$name <<SHIM
#!/bin/bash
case "\$*" in *pretrain_*) exec "$TRIAX" $name "\$@" \$SIZES ;; *) exec "$TRIAX" $name "\$@" ;; esac
SHIM
    chmod +x bin/$name
done
export PATH=$PWD/bin:$PATH

# block TEXT PATTERN [N]: the N-th of the fenced blocks of a text in which PATTERN is
block() {
    awk -v pattern="$2" -v n="${3:-1}" '
        /^ *```/ { if (inside && found && --n == 0) { printf "%s", text; exit } inside = !inside; text = ""; found = 0; next }
        inside { text = text $0 "\n"; if (index($0, pattern)) found = 1 }' "$texts"/"$1"_*.txt | grep .
}
# command PATTERN: of a block on standard input the command, with its continued lines, that begins so
command_of() { sed -n "/^ *$1/,/[^\\\\]\$/p" | awk '{ print } !/\\ *$/ { exit }'; }
# type NAME: the script on standard input
type_it() {
    cat >"$1.sh"
    [ -s "$1.sh" ] || die "$1: its text has changed"
    timeout -k 5 300 bash -e "$1.sh" >out 2>err </dev/null || { cat "$1.sh" out err >&2; die "$1 (exit $?)"; }
}
has() { grep -qE -- "$2" "$1" || { cat out err >&2; die "no \"$2\" in $1"; }; }
trained() { losses out >losses; [ "$(wc -l <losses)" -ge "$1" ] || { cat out err >&2; die "not $1 losses"; }; }
model="--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 96 --threads 1"
# their 2^32 as the first loss scale is halved for many iterations, in which nothing is learned
run="--initial-loss-scale 4096 --log-interval 1 --eval-iters 1 --eval-interval 4 --split 8,1,1"

# ---- 000: a GPT of 125M
home_dir=$PWD/home
mkdir -p $home_dir/Megatron-DeepSpeed/dataset
cp "$data/tiny/tiny-corpus.jsonl" $home_dir/Megatron-DeepSpeed/dataset/oscar-1GB.jsonl
cp "$data/tiny/tiny-vocab.json" $home_dir/Megatron-DeepSpeed/dataset/gpt2-vocab.json
cp "$data/tiny/tiny-merges.txt" $home_dir/Megatron-DeepSpeed/dataset/gpt2-merges.txt
{ echo "home_dir=$home_dir"; block 000 preprocess_data.py | grep '^export BASE_\|^python3 .*preprocess_data.py'; } | type_it preprocess_000
[ -s $home_dir/Megatron-DeepSpeed/dataset/my-gpt2_text_document.bin ] || die "000: no data"
# the checkpoints that its conversion expects; the folder is the one that its script trains into
job=gpt_0.125B_tok300B_lr6.0e-4_min1.0e-6_w3000M_d300B_cosine_gbs256_mbs2_g8_z1_mp2_pp2_seed1234_rebase
folder=$PWD/aac/Megatron-DeepSpeed/examples_deepspeed/rebase/output/checkpoint/$job
mkdir -p "$folder"
cat >ds.json <<JSON
{ "train_batch_size": 4, "train_micro_batch_size_per_gpu": 1, "zero_optimization": { "stage": 1 }, "gradient_clipping": 1.0,
  "fp16": { "enabled": true, "loss_scale": 0, "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1, "initial_scale_power": 11 } }
JSON
SIZES="$model ${run#* * }" deepspeed --num_gpus 8 pretrain_gpt.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
    --micro-batch-size 1 --global-batch-size 4 --train-iters 8000 --lr 6e-4 --lr-decay-style cosine --lr-warmup-fraction 0.1 \
    --fp16 --deepspeed --deepspeed_config ds.json --zero-stage 1 --checkpoint-activations --deepspeed-activation-checkpointing \
    --data-path $home_dir/Megatron-DeepSpeed/dataset/my-gpt2_text_document --vocab-file $home_dir/Megatron-DeepSpeed/dataset/gpt2-vocab.json \
    --merge-file $home_dir/Megatron-DeepSpeed/dataset/gpt2-merges.txt --save "$folder" --load "$folder" --save-interval 4 --exit-interval 8 \
    >out 2>err </dev/null || { cat out err; die "000: training"; }
trained 8
# of 2,000 and 8,000 iterations there are 4 and 8 here; paths are those of this folder
block 000 'Convert checkpoint at 8,000' | sed "1{/^%%/d}; /^pip/d; s,/home/aac,$PWD/aac,g; s,global_step8000,global_step8,g; s,global_step2000,global_step4,g" |
    type_it convert_000
for i in 4 8; do [ -s "$folder/HF/global_step$i/config.json" ] || die "000: nothing converted of $i"; done
# its Python asks for three samples; the same words as flags
flags=$(block 000 'num_return_sequences = 3' | awk '/sample_outputs = model0/ { on = 1; next } on && /^\)/ { exit } on' |
    sed -n 's/^ *\([a-z_]*\)=\(.*\),$/--\1 \2/p' | sed 's/ True$//')
prompt=$(block 000 'num_return_sequences = 3' | sed -n "s/^model_inputs = tokenizer('\([^']*\)'.*/\1/p" | head -n 1)
[ -n "$prompt" ] || die "000: no prompt"
ok generate --load "$folder/HF/global_step8" --vocab-file $home_dir/Megatron-DeepSpeed/dataset/gpt2-vocab.json \
    --merge-file $home_dir/Megatron-DeepSpeed/dataset/gpt2-merges.txt --prompt "$prompt" $flags --seed 1
for i in 0 1 2; do has out "^$i: $prompt"; done

# ---- 001: a GPT of 345M and ZeRO 3
mkdir gpt345 && cd gpt345
cp "$data/tiny/tiny-corpus.jsonl" oscar-1GB.jsonl
cp "$data/tiny/tiny-vocab.json" gpt2-vocab.json
cp "$data/tiny/tiny-merges.txt" gpt2-merges.txt
block 001 preprocess_data.py | type_it preprocess_001
block 001 'cp meg-gpt2' | type_it move_001
export SIZES="$model $run --micro-batch-size 1 --train-iters 4"
block 001 '"345M" parameter model' | type_it train_001
trained 4
[ -d checkpoints/gpt2/iter_0000004 ] || die "001: no checkpoint"
rm -rf checkpoints/gpt2/*
# "increase" of its second part: 4 ranks
block 001 '"345M" parameter model' | sed 's/^GPUS_PER_NODE=1/GPUS_PER_NODE=4/; s/--tensor-model-parallel-size 1/--tensor-model-parallel-size 4/' | type_it tensor_001
has out 'tensor x pipeline x data parallel 4 x 1 x 1'
trained 4
rm -rf checkpoints/gpt2/*
block 001 '"zero_optimization"' | grep -v '^root@' >deepspeed_config.json
block 001 'N_GPUS=4' | sed 1d | type_it zero_001
has out 'zero_stage \.* 3$|ZeRO.*3'
trained 4
cd ..

# ---- 002: GPT and BERT on AMD's GPUs
mkdir amd && cd amd
block 002 HIP_VISIBLE_DEVICES >environment
block 002 'GPUS_PER_NODE=4' | sed '/^python/,$d' >>environment
cat >>environment <<WORDS
export CHECKPOINT_PATH=checkpoints DATA_PATH=my_dataset_text_document VOCAB_FILE=vocab.json MERGE_FILE=merges.txt
WORDS
cp "$data/tiny/tiny-vocab.json" vocab.json
cp "$data/tiny/tiny-merges.txt" merges.txt
sed -n 's/.*"text": "\(.*\)".*/\1/p' "$data/tiny/tiny-corpus.jsonl" >my_dataset.txt
block 002 'my_dataset.txt' | type_it preprocess_002
has err 'warning.*one document'
SIZES="$model $run --micro-batch-size 1 --global-batch-size 4 --train-iters 4 --split 1,0,0 --eval-iters 0"
for n in 1 2; do
    { cat environment; block 002 'pretrain_gpt.py' $n | command_of python; } | type_it gpt_002
    has out 'tensor x pipeline x data parallel 2 x 2 x 1'
    trained 4
    [ -d checkpoints/iter_0000004 ] || die "002: not saved at its end"
    rm -r checkpoints
done
ok preprocess-data --input "$data/tiny/tiny-bert-sentences.jsonl" --output-prefix bert --split-sentences \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$data/tiny/tiny-bert-vocab.txt"
set -- bert_*.idx
SIZES="${SIZES/--seq-length 16/--seq-length 32}"
{ cat environment; echo "VOCAB_FILE=$data/tiny/tiny-bert-vocab.txt DATA_PATH=${1%.idx}"; block 002 pretrain_bert.py | command_of python; } | type_it bert_002
trained 4
[ -d checkpoints/iter_0000004 ] || die "002: the BERT is not saved at its end"
rm -r checkpoints
# the flags that its last chapters name, one block after the other
for words in --bf16 --checkpoint-activations '--tensor-model-parallel-size 4' '--log-level trace'; do
    block 002 -- "$words" >/dev/null 2>&1 || block 002 "$words" >/dev/null || die "002: $words is not in it"
done
{ cat environment; block 002 pretrain_gpt.py | command_of python | sed 's/--fp16/--bf16/; $s/$/ --checkpoint-activations --log-level trace/'; } | type_it debug_002
trained 4
cd ..

# ---- 003: the layouts of its table, planned on its devices of 64 GB; DP 8 misses by DeepSpeed's own formula
plan() { "$TRIAX" plan --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size 1 --vocab-size 50257 --fp16 --checkpoint-activations --deepspeed --deepspeed_config empty.json "$@" >out 2>err; }
echo '{ "fp16": { "enabled": true } }' >empty.json
sed -n 's/^| *\([0-9.]*[MB]\) *| *[0-9]* *| *\([0-9]*\) *| *\([0-9]*\) *| *\([0-9]*\) *| *\([0-9]\) *|.*/\1 \2 \3 \4 \5/p' "$texts"/003_*.txt | sort -u >rows
[ "$(wc -l <rows)" -ge 6 ] || die "003: its table has changed"
while read -r size pp tp dp stage; do
    [ "$size" = 13B ] || continue
    code=0
    plan --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" --world-size $((tp * pp * dp)) --zero-stage "$stage" \
        --global-batch-size $((dp * pp * 4)) --memory-limit 64GiB || code=$?
    echo "13B pp $pp tp $tp dp $dp ZeRO $stage: $(grep -hE 'it fits|the run would take' out err)"
    if [ "$pp $tp $dp $stage" = "1 1 8 1" ]; then
        [ $code -ne 0 ] || die "003: 8 ranks with ZeRO 1 take more by DeepSpeed's formula than there is"
        has err ': [0-9]+ MiB are missing; changes that make it fit'
        has err '^  --zero-stage 2 '
    else
        [ $code -eq 0 ] || { cat err >&2; die "003: published, and planned to be too large"; }
    fi
done <rows
echo "the texts passed"
