#!/bin/bash
# labels: cli resume
# --save-format megatron and deepspeed: the folders are upstream's, for the run's own ranks; a run that goes on from them ends
# with the bytes of one that was not interrupted; whose folder it is, what is removed, what cannot be. Ranks are threads.
. "$(dirname "$0")/lib.sh"
rank_threads=$(dirname "$TRIAX")/rank_threads
[ -x "$rank_threads" ] || { echo "skipped: rank_threads is not built"; exit 77; }
for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
train=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1
    --global-batch-size 12 --lr 1e-3 --lr-decay-style cosine --lr-decay-iters 8 --lr-warmup-iters 2 --hidden-dropout 0.1
    --tokenizer-type NullTokenizer --vocab-size 511 --make-vocab-size-divisible-by 20 --data-path text --split 8,1,1 --eval-interval 3 --eval-iters 1
    --log-interval 3 --threads 1)

# run N FLAGS...: as N ranks; its output is in ./out
run() {
    local n=$1 command=("$TRIAX" pretrain-gpt)
    shift
    [ "$n" -eq 1 ] || command=("$rank_threads" "$n" --world-size "$n")
    timeout -k 5 300 "${command[@]}" "${train[@]}" "$@" >out 2>err </dev/null || { cat out err >&2; die "$n ranks, $*"; }
}
# holds DIR NAME...: these files and folders, and nothing else but a run's records
holds() {
    local dir=$1
    shift
    [ "$(ls -A "$dir" | grep -v '^metrics.jsonl$' | LC_ALL=C sort | xargs)" = "$*" ] || die "$dir holds $(ls -A "$dir" | xargs), not $*"
}
# files DIR NAME...: all files below DIR
files() {
    local dir=$1
    shift
    [ "$(cd "$dir" && find . -type f | sed 's/^..//' | LC_ALL=C sort | xargs)" = "$*" ] || die "$dir: $(cd "$dir" && find . -type f | xargs)"
}

# goes_on FORMAT N FLAGS...: four iterations and four, as eight; the folders are in ./cut/, and stay
goes_on() {
    local format=$1 n=$2 last=iter_0000008
    shift 2
    [ "$format" = megatron ] || last=global_step8
    rm -rf whole cut
    run "$n" "$@" --save-format "$format" --save whole --save-interval 8 --train-iters 8
    sed -nE 's/.*(lm loss: \S+).*(grad norm: \S+).*/\1 \2/p; s/.*(lm loss value: \S+).*/\1/p' out >expected
    run "$n" "$@" --save-format "$format" --save cut --load cut --save-interval 2 --train-iters 8 --exit-interval 4
    cp out first
    run "$n" "$@" --save-format "$format" --save cut --load cut --save-interval 2 --train-iters 8
    grep -q 'checkpoint from cut/.* at iteration 4$' out || { cat out >&2; die "$format $*: does not go on from iteration 4"; }
    cat first out | sed -nE 's/.*(lm loss: \S+).*(grad norm: \S+).*/\1 \2/p; s/.*(lm loss value: \S+).*/\1/p' >these
    cmp -s these expected || { diff these expected >&2; die "$format $*: other numbers"; }
    diff -r whole/$last cut/$last || die "$format, $n ranks, $*: other bytes than without an interruption"
    [ "$(cat cut/latest_checkpointed_iteration.txt)" = 8 ] || die "$format: the tracker"
}
tp=--tensor-model-parallel-size pp=--pipeline-model-parallel-size

goes_on megatron 1
holds cut iter_0000002 iter_0000004 iter_0000006 iter_0000008 latest_checkpointed_iteration.txt
files cut/iter_0000008 mp_rank_00/model_optim_rng.pt
rm cut/latest_checkpointed_iteration.txt # as a crash does before the first is written
run 1 --save-format megatron --save cut --load cut --save-interval 2 --train-iters 8
grep -q 'cut has no file `latest_checkpointed_iteration.txt`; taking its newest checkpoint, iteration 8' err out || die "Megatron: no newest"
goes_on deepspeed 1 --async-save --fp16 --initial-loss-scale 1024 --keep-last 2
holds cut global_step4 global_step6 global_step8 latest latest_checkpointed_iteration.txt
[ "$(cat cut/latest)" = global_step8 ] || die "latest is $(cat cut/latest)"
files cut/global_step8 layer_0{1,2,3,4}-model_00-model_states.pt mp_rank_00_model_states.pt
rm cut/latest
run 1 --save-format deepspeed --save cut --load cut --save-interval 2 --train-iters 8 --fp16 --initial-loss-scale 1024
grep -q 'cut has no file `latest`; taking its newest checkpoint, iteration 8' err out || die "DeepSpeed: no newest"
goes_on megatron 8 $tp 2 $pp 2 --zero-stage 1 --bf16 --async-save --micro-batch-size 2
files cut/iter_0000008 mp_rank_0{0_000,0_001,1_000,1_001}/model_optim_rng.pt
goes_on deepspeed 4 $tp 2 $pp 2 --bf16
files cut/global_step8 bf16_zero_pp_rank_0_mp_rank_0{0,1,2,3}_optim_states.pt layer_0{1,2,3,4}-model_0{0,1}-model_states.pt \
    mp_rank_0{0,1,2,3}_model_states.pt
goes_on deepspeed 3 --zero-stage 2 --bf16 --async-save
files cut/global_step8 bf16_zero_pp_rank_{0,1,2}_mp_rank_00_optim_states.pt mp_rank_00_model_states.pt
experts=(--num-experts 4 --expert-interval 1 --topk 2) # whole on tensor ranks, or split
goes_on deepspeed 4 "${experts[@]}" --moe-expert-parallel-size 2 --zero-stage 2
goes_on deepspeed 4 "${experts[@]}" $tp 2 --moe-expert-parallel-size 4 --zero-stage 1
goes_on deepspeed 4 "${experts[@]}" $tp 2 --moe-expert-parallel-size 2 --enable-expert-tensor-parallelism --zero-stage 0
goes_on deepspeed 4 $tp 2 --zero-stage 3 --untie-embeddings-and-output-weights --megatron-padded-logits
files cut/global_step8 zero_pp_rank_0_mp_rank_00_{model,optim}_states.pt zero_pp_rank_0_mp_rank_01_{model,optim}_states.pt \
    zero_pp_rank_1_mp_rank_00_{model,optim}_states.pt zero_pp_rank_1_mp_rank_01_{model,optim}_states.pt

# in another layout, and as a native run
run 2 $tp 2 --load cut --save native --save-interval 8 --train-iters 10 --override-opt_param-scheduler
[ "$(cat native/latest native/latest_checkpointed_iteration.txt)" = "iter_0000010
10" ] || die "native: $(head native/latest*)"
# what scripts that resume do with it
[ -f native/iter_"$(printf %07d "$(cat native/latest_checkpointed_iteration.txt)")"/manifest.json ] || die "no iteration of that number"

# what convert writes of a native checkpoint has the same bytes as what the run writes
run 2 $tp 2 --zero-stage 1 --save-format deepspeed --save direct --save-interval 2 --train-iters 2
run 2 $tp 2 --zero-stage 1 --save then --save-interval 2 --train-iters 2
ok convert --to deepspeed --target-tp 2 --target-pipeline-engine then converted
diff -r direct/global_step2 converted/global_step2 || die "convert writes another folder"

# whose folder it is
native=(--save native --save-interval 2 --train-iters 2)
refused "--save: cut holds a DeepSpeed checkpoint, and the next start would take that for this run's own (--save-format megatron): save into another folder, or with --save-format deepspeed" \
    pretrain-gpt "${train[@]}" --save-format megatron --save cut --save-interval 2 --train-iters 2
refused "native holds triax's own checkpoints" pretrain-gpt "${train[@]}" --save-format deepspeed "${native[@]}"
refused "native holds triax's own checkpoints" pretrain-gpt "${train[@]}" --save-format deepspeed "${native[@]}" --load native
cp -r cut untied
goes_on deepspeed 1 --zero-stage 1
refused "its --untie-embeddings-and-output-weights is True, this run's False" \
    pretrain-gpt "${train[@]}" --save-format deepspeed --save untied --save-interval 2 --train-iters 2
refused "--save cut holds another run: it is at iteration 8, this run begins at 0; go on with that one (--load cut), save into another folder, or replace it (--overwrite-run)" \
    pretrain-gpt "${train[@]}" --save-format deepspeed --save cut --save-interval 2 --train-iters 2
refused "its --hidden-size is 16, this run's 32" \
    pretrain-gpt "${train[@]}" --save-format deepspeed --save cut --save-interval 2 --train-iters 2 --hidden-size 32
run 1 --save-format deepspeed --save cut --save-interval 2 --train-iters 2 --overwrite-run --zero-stage 1
holds cut global_step2 latest latest_checkpointed_iteration.txt

# goes back, and writes an iteration that is there anew
run 1 --save-format deepspeed --save cut --load cut --save-interval 1 --train-iters 4 --override-opt_param-scheduler --zero-stage 1
cp -r cut/global_step3 third
run 1 --save-format deepspeed --save cut --load cut --load-tag global_step2 --save-interval 1 --train-iters 4 --exit-interval 3 --override-opt_param-scheduler \
    --zero-stage 1
grep -q 'cut has iteration 4, and this run goes on from 2' err out || die "going back is not told"
diff -r cut/global_step3 third || die "iteration 3 is another one"
[ "$(cat cut/latest)" = global_step3 ] || die "latest is $(cat cut/latest)"

# what cannot be
no() { local text=$1; shift; refused "$text" pretrain-gpt "${train[@]}" --save x --save-interval 2 --train-iters 2 "$@"; }
no "--save-format megatron has no place for the state of --optimizer adagrad" --save-format megatron --optimizer adagrad
no "stages of consecutive layers" --save-format megatron --world-size 2 $pp 2 --num-layers-per-virtual-pipeline-stage 1 --num-layers 4
no "DeepSpeed's pipeline engine has no ZeRO-2" --save-format deepspeed --world-size 2 $pp 2 --zero-stage 2
no "with ZeRO-3 weights are in the optimizer's files" --save-format deepspeed --zero-stage 3 --no-save-optim
run 1 --save-format megatron --save weights --save-interval 2 --train-iters 2 --optimizer adagrad --no-save-optim
run 1 --load weights --finetune --train-iters 2
[ ! -e x ] || die "a refused run left something"

# a BERT, from sentences; --load is the folder of either format
. "$(dirname "$0")/tiny_bert.sh"
for format in megatron deepspeed; do
    train_bert bert-$format --train-iters 3 --save-format $format --zero-stage 1
    cp out whole
    train_bert bert-$format --train-iters 6 --save-format $format --zero-stage 1 --load bert-$format --override-opt_param-scheduler
    grep -q "checkpoint from bert-$format/.* at iteration 3$" out || die "$format: a BERT does not go on"
done
[ -f bert-megatron/iter_0000003/vocab.txt ] && [ -f bert-deepspeed/global_step3/vocab.txt ] || die "a BERT's vocabulary"
refused "DeepSpeed's pipeline engine has no BERT" pretrain-bert --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 24 \
    --max-position-embeddings 24 --micro-batch-size 1 --lr 1e-3 --vocab-file vocab.txt --data-path kings_text_sentence --train-iters 2 \
    --save x --save-interval 2 --world-size 2 $pp 2 --save-format deepspeed
