#!/bin/bash
# labels: extended cli parallel
# triax fill-mask and triax evaluate of a BERT on several processes: the answers and figures are those of one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
. "$(dirname "$0")/tiny_bert.sh"
train_bert bert --train-iters 600
printf 'the king of %s is [MASK]. [SEP] the town of [MASK] is oslo.\n' spain egypt india >texts

jobs=("fill-mask --prompt-file texts --words oslo" "evaluate --data-path kings_text_sentence --split 8,1,1"
    "evaluate --valid-data texts")
for job in "${jobs[@]}"; do
    ok $job --load bert --json --threads 1
    cp out one
    for layout in "2 2 1" "2 1 2" "4 2 2"; do
        read -r n t p <<<"$layout"
        all_ranks "$n" "$TRIAX" $job --load bert --json --tensor-model-parallel-size "$t" --pipeline-model-parallel-size "$p"
        json_near 1e-4 1 one out || die "$job, $layout: other figures"
    done
done
ok ${jobs[1]} --load bert --json --threads 1
cp out one
all_ranks 3 "$TRIAX" ${jobs[1]} --load bert --json
json_near 1e-4 1 one out || die "three data-parallel ranks: other figures"
ranks 2 "$TRIAX" fill-mask --load bert "the king" --tensor-model-parallel-size 2 && die "a text without [MASK]"
[ "$(grep -c '^error: prompt 1: there is no \[MASK\] in it' err)" -eq 1 ] || { cat err; die "not one message"; }
ranks 2 "$TRIAX" fill-mask --load bert "[MASK]" && die "two ranks for one"
grep -q 'start as many' err || die "ranks too many"
echo "fill-mask and evaluate of a BERT on several ranks passed"
