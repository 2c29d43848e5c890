#!/bin/bash
# labels: extended cli parallel
# triax generate on the ranks of one model: the tokens of one process, told once; prompts come to the first rank alone.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"

model=(--load "$data/golden/generation/model" --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
tp=--tensor-model-parallel-size
pp=--pipeline-model-parallel-size
cp=--context-parallel-size

# same WHAT FLAGS...: on two ranks by tensors, by layers and by the cache's heads what one process prints
same() {
    local what=$1
    shift
    ok generate "${model[@]}" "$@" </dev/null
    grep -v '^score ' out >expected
    for layout in $tp $pp $cp; do
        all_ranks 2 "$TRIAX" generate "${model[@]}" "$@" $layout 2
        cmp <(grep -v '^score ' out) expected || die "$what, $layout 2"
    done
}
same "greedy" --prompt 'First Citizen:' 'KING RICHARD III:' --greedy --max-new-tokens 30 --output-tokens
same "samples" --prompt 'First Citizen:' 'KING' --num-samples 3 --max-new-tokens 16 --top_k 50 --top_p 0.95 --seed 5
same "beam search" --prompt 'First Citizen:' --beam-width 3 --max-new-tokens 8 --output-tokens
same "stop texts" --prompt 'First Citizen:' --greedy --max-new-tokens 30 --stop have

ok generate "${model[@]}" --prompt 'First Citizen:' 'KING' --greedy --max-new-tokens 20
cp out expected
all_ranks 4 "$TRIAX" generate "${model[@]}" --prompt 'First Citizen:' 'KING' --greedy --max-new-tokens 20 $tp 2 $pp 2
cmp out expected || die "four ranks"
all_ranks 4 "$TRIAX" generate "${model[@]}" --prompt 'First Citizen:' 'KING' --greedy --max-new-tokens 20 $pp 2 --ds-sequence-parallel-size 2
cmp out expected || die "four ranks, two of them divide long prompts"
printf 'First Citizen:\nKING\n' >lines
timeout -k 5 120 mpirun -n 2 "$TRIAX" generate "${model[@]}" --greedy --max-new-tokens 20 $tp 2 <lines >out 2>err || { cat err >&2; die "standard input"; }
cmp out expected || die "prompts on standard input"
all_ranks 2 "$TRIAX" generate_samples_gpt.py "${model[@]}" --genfile free.jsonl --num-samples 4 --out-seq-length 10 $tp 2
[ "$(grep -c '^{"text":' free.jsonl)" -eq 4 ] || die "--genfile"

# one voice, and one end for all
all_refused() {
    local text=$1
    shift
    ranks 2 "$TRIAX" generate "${model[@]}" "$@" && die "$*: succeeds"
    [ "$(grep -cF -- "$text" err)" -eq 1 ] || { cat err >&2; die "$*: \"$text\" is not said once"; }
}
all_refused "the model has 128 positions" --prompt x --max-new-tokens 200 $tp 2
echo '{"x": 1}' >bad.jsonl
all_refused "bad.jsonl:1: neither" --prompt-jsonl bad.jsonl $tp 2
all_refused "start as many" --prompt x
