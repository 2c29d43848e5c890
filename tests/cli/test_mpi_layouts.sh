#!/bin/bash
# labels: cli parallel resume fault
# Ranks as processes, as a user starts them: layouts beside one process, checkpoints from layout to layout, one voice,
# and one end when a rank fails.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"

for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
train=(pretrain-gpt --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 16 --lr 2e-3 --lr-decay-style cosine --lr-warmup-iters 2 --train-iters 10
    --clip-grad 1.0 --weight-decay 0.1 --hidden-dropout 0.1 --attention-dropout 0.1 --tokenizer-type NullTokenizer
    --vocab-size 511 --make-vocab-size-divisible-by 384 --data-path text --split 8,1,1 --log-interval 1 --eval-interval 5 --eval-iters 1 --threads 1)

# numbers FILE: what a run's log says of it, a line each: iteration loss norm, or "valid" loss
numbers() {
    sed -nE -e 's/^ iteration +([0-9]+)\/.*lm loss: (\S+) .*grad norm: (\S+) .*/\1 \2 \3/p' \
        -e 's/.*lm loss value: (\S+) .*/valid \1/p' "$1"
}

# same_run WHAT A B: losses within 1e-5, norms but for their last printed place
same_run() {
    [ -s "$3" ] && [ "$(wc -l <"$2")" -eq "$(wc -l <"$3")" ] || die "$1: not as many lines of numbers"
    paste -d' ' "$2" "$3" | awk '
        function off(a, b) { return a < b ? b / a - 1 : a / b - 1 }
        $1 == "valid" { if ($1 != $3 || !(off($2, $4) <= 1e-5)) bad = 1; next }
        { if ($1 != $4 || !(off($2, $5) <= 1e-5) || !($3 - $6 <= 0.0011 && $6 - $3 <= 0.0011)) bad = 1 }
        END { exit bad }' || { paste "$2" "$3" >&2; die "$1: other numbers"; }
}

ok "${train[@]}" --save one --save-interval 5
numbers out >straight
[ "$(wc -l <straight)" -eq 14 ] || die "one process: $(wc -l <straight) lines of numbers, not 10 and 4 evaluations"

# layout N FLAGS...: must be the run of one process, told once
layout() {
    local n=$1
    shift
    all_ranks "$n" "$TRIAX" "${train[@]}" "$@"
    numbers out >these
    same_run "$n ranks $*" straight these
}
tp=--tensor-model-parallel-size
pp=--pipeline-model-parallel-size
layout 2
layout 4 --ddp-bucket-size 1000
layout 4 --no-shared-memory --no-overlap-grad-reduce
layout 2 $tp 2
layout 4 $tp 4 --sequence-parallel
layout 4 $tp 2 --sequence-parallel --recompute-granularity selective
layout 2 $pp 2
layout 4 $pp 4 --pipeline-schedule gpipe
layout 4 $pp 2 --num-layers-per-virtual-pipeline-stage 1
layout 4 $tp 2 $pp 2 --checkpoint-activations --partition-activations --checkpoint-in-cpu
layout 4 $tp 2 $pp 2 --sequence-parallel --no-shared-memory
layout 8 $tp 2 $pp 2 --sequence-parallel --num-layers-per-virtual-pipeline-stage 1 --recompute-granularity full \
    --recompute-method uniform --metrics-file eight.jsonl
grep -q '"layout":{"ranks":8,"tensor":2,"pipeline":2,"data":2,"context":1,"zero_stage":0}' eight.jsonl || die "no layout in the metrics file"
parameters() { sed -nE '1s/.*"parameters":([0-9]+),"machine".*/\1/p' "$1"; }
[ "$(parameters eight.jsonl)" = "$(parameters one/metrics.jsonl)" ] || die "not all of the model's parameters"
grep -q '8 ranks on 1 host, tensor x pipeline x data parallel 2 x 2 x 2' out || die "no table of ranks"
[ "$(grep -c 'rank  *[0-7]: tensor [01], pipeline [01], data [01] | host ' out)" -eq 8 ] || die "not eight ranks in the table"
[ "$(grep -c 'training \.\.\.$' out)" -eq 1 ] || die "more than one voice"

# From layout to layout: five steps of TP2 x PP2, then one process; five of one process, then TP2 x PP2; and again itself.
four=($tp 2 $pp 2)
all_ranks 4 "$TRIAX" "${train[@]}" "${four[@]}" --save four --save-interval 5 --log-dir logs
numbers out >four.straight
same_run "four ranks that save" straight four.straight
for rank in 0 1 2 3; do
    grep -q 'successfully saved checkpoint at iteration *10 ' logs/rank_0000$rank.log || die "--log-dir: rank $rank"
done
[ "$(ls logs | wc -l)" -eq 4 ] || die "--log-dir: not four files"
[ "$(ls four/iter_0000005/*.safetensors | wc -l)" -eq 4 ] || die "not four shards"
rest() { sed '1,6d' "$1"; } # behind five iterations and an evaluation
cp -r four/iter_0000005 from-four
cp -r one/iter_0000005 from-one
ok "${train[@]}" --load from-four
rest straight >expected
numbers out >these
same_run "one process after four ranks" expected these
all_ranks 4 "$TRIAX" "${train[@]}" "${four[@]}" --load from-one
numbers out >these
same_run "four ranks after one process" expected these
all_ranks 4 "$TRIAX" "${train[@]}" "${four[@]}" --load from-four --save again --save-interval 5
numbers out >these
rest four.straight | cmp - these || die "four ranks after themselves: other numbers"
diff -r four/iter_0000010 again/iter_0000010 || die "four ranks after themselves: other bits"

# What every rank finds, rank 0 alone says: other options than the checkpoint's, options without effect, another order.
# Each rank's own log has it.
all_ranks 4 "$TRIAX" "${train[@]}" "${four[@]}" --load from-four --train-iters 7 --clip-grad 0.5 --data-order keyed \
    --override-opt_param-scheduler --keep-last 2 --tensorboard-log-interval 2 --log-dir warned
grep '^warning: ' err >said || true
for text in '--clip-grad  *1.0  *0.5$' '--keep-last: nothing is saved' 'flags for TensorBoard' "came in Megatron's order"; do
    [ "$(grep -c -e "$text" said)" -eq 1 ] || { cat err >&2; die "not one warning of \"$text\""; }
done
! grep '^warning: rank' said || die "a rank repeats what rank 0 says"
[ "$(grep -l -e "warning: .*came in Megatron's order" warned/*.log | wc -l)" -eq 4 ] || die "a rank's log lacks the warning"

# The other errors: in seconds, by one line that says what to do, and with an exit code.
# job_fails TEXT MPIRUN'S WORDS...
job_fails() {
    local text=$1 code=0 start=$SECONDS
    shift
    timeout -k 5 60 mpirun "$@" >out 2>err </dev/null || code=$?
    [ $code -ne 0 ] && [ $code -ne 124 ] || die "mpirun $*: exit $code"
    [ $((SECONDS - start)) -le 20 ] || die "mpirun $*: took $((SECONDS - start)) s"
    grep -E '^(triax [a-z-]+|error): ' err >said || true
    grep -qF -- "$text" said || { cat err >&2; die "mpirun $*: does not say \"$text\""; }
    [ "$(wc -l <said)" -eq 1 ] || { cat err >&2; die "mpirun $*: not one message"; }
}
job_fails 'rank 1: this rank was started with other options than rank 0: "--lr=0.001", there "--lr=0.002"' \
    -n 1 "$TRIAX" "${train[@]}" : -n 1 "$TRIAX" "${train[@]}" --lr 1e-3
job_fails 'world size (3) is not divisible by --tensor-model-parallel-size 2' -n 3 "$TRIAX" "${train[@]}" $tp 2

# all that does not divide is told at once, and nothing that only follows from it
code=0
timeout -k 5 60 mpirun -n 3 "$TRIAX" "${train[@]}" $tp 3 $pp 5 --sequence-parallel >out 2>err </dev/null || code=$?
[ $code -ne 0 ] && [ $code -ne 124 ] || die "sizes that do not divide: exit $code"
for text in '--num-attention-heads 4 is not divisible' '--pipeline-model-parallel-size 5 is more than --num-layers 4' \
    'try --tensor-model-parallel-size 1 --pipeline-model-parallel-size 3'; do
    [ "$(grep -cF -- "$text" err)" -eq 1 ] || { cat err >&2; die "sizes that do not divide: \"$text\""; }
done
! grep -qE 'world size|--seq-length 16' err || { cat err >&2; die "what follows from wrong sizes is told, too"; }

# rank 1 is somewhere else, where there is no data, and then other data: ids that the vocabulary does not have
mkdir -p elsewhere
job_fails 'text.idx' -n 1 "$TRIAX" "${train[@]}" : -n 1 --wdir "$work/elsewhere" "$TRIAX" "${train[@]}"
cp text.idx elsewhere
tr '\000-\377' '\377' <text.bin >elsewhere/text.bin
job_fails 'holds token id 65535 at position' \
    -n 1 "$TRIAX" "${train[@]}" : -n 1 --wdir "$work/elsewhere" "$TRIAX" "${train[@]}" : -n 2 "$TRIAX" "${train[@]}"
! grep -q '^ iteration' out || die "an iteration with a rank that failed is told"
job_fails 'holds token id 65535 at position' \
    -n 1 "$TRIAX" "${train[@]}" $pp 2 --no-shared-memory : \
    -n 1 --wdir "$work/elsewhere" "$TRIAX" "${train[@]}" $pp 2 --no-shared-memory

# A BERT, likewise: both losses are in the gradient's norm.
for end in bin idx; do cp "$data/dataset/tinybert_text_document.$end" sentences.$end; done
train=(pretrain-bert --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --micro-batch-size 2 --global-batch-size 16 --lr 2e-3 --lr-decay-style linear --lr-warmup-iters 2 --train-iters 6
    --clip-grad 1.0 --weight-decay 0.1 --vocab-file "$data/tiny/tiny-bert-vocab.txt" --data-path sentences --split 8,1,1
    --log-interval 1 --eval-interval 3 --eval-iters 1 --threads 1)
ok "${train[@]}"
numbers out >straight
[ "$(wc -l <straight)" -ge 9 ] || die "a BERT in one process: $(wc -l <straight) lines of numbers"
layout 2
layout 2 --zero-stage 3
layout 4 $tp 4 --sequence-parallel
layout 4 $pp 2 --num-layers-per-virtual-pipeline-stage 1
layout 4 $tp 2 $pp 2 --no-shared-memory
layout 8 $tp 2 $pp 2 --sequence-parallel --zero-stage 1
echo "all passed"
