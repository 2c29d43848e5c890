#!/bin/bash
# labels: extended cli parallel
# triax evaluate and --eval-tasks on several ranks: the figures are those of one, and a run stays as it is.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
vocab=(--vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
model=(--load "$data/golden/generation/model" "${vocab[@]}")
sed -n '1{s/.*"text": "//; s/\\n/ \n /g; s/,/ ,/g; s/".*//; p}' "$data/tiny/tiny-corpus.jsonl" | cut -c 1-500 >wiki.txt
for word in so unto the thee; do printf '{"text": "And so, I have %s"}\n' $word; done >lambada.jsonl
printf '{"context": "And", "choices": ["so, I have", "x y z", "%s"], "answer": 0}\n' to unto the >choices.jsonl

# near A B: two lines of JSON that differ in the seventh digit of a number at most
near() {
    paste -d '\n' "$1" "$2" | sed -E 's/[{}"]//g' | awk -F '[:,]' 'NR % 2 { split($0, a, /[:,]/); n = NF; next }
        { if (NF != n) bad = 1; for (i = 1; i <= NF; i++) if ($i != a[i] && !($i - a[i] < 1e-6 * a[i] && a[i] - $i < 1e-6 * a[i])) bad = 1 }
        END { exit bad || NR < 2 }' || { cat "$1" "$2"; die "$3: other figures"; }
}

# a dataset, over every axis
ok evaluate "${model[@]}" --data-path "$data/dataset/tiny_text_document" --eval-iters 20 --json
cp out one
all_ranks 2 "$TRIAX" evaluate "${model[@]}" --data-path "$data/dataset/tiny_text_document" --eval-iters 10 --json
near out one "two data-parallel ranks"
for axis in tensor pipeline; do
    all_ranks 2 "$TRIAX" evaluate "${model[@]}" --data-path "$data/dataset/tiny_text_document" --eval-iters 20 --json \
        --$axis-model-parallel-size 2
    near out one "$axis"
done
all_ranks 2 "$TRIAX" evaluate "${model[@]}" --data-path "$data/dataset/tiny_text_document" --eval-iters 20 --json \
    --context-parallel-size 2
near out one "context"

# and in chunks of positions, which ranks may divide
chunks=(--ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-chunk-size)
ok evaluate "${model[@]}" --data-path "$data/dataset/tiny_text_document" --eval-iters 20 --json "${chunks[@]}" 20 \
    --ds-sequence-parallel-fpdt-offloading --ds-sequence-parallel-fpdt-nvme-path .
near out one "chunks in a file"
for how in "--ds-sequence-parallel-size 2" "--context-parallel-size 2 --cp-comm-type allgather"; do
    all_ranks 2 "$TRIAX" evaluate "${model[@]}" --data-path "$data/dataset/tiny_text_document" --eval-iters 20 --json $how "${chunks[@]}" 16
    near out one "chunks, $how"
done

# tasks on the ranks of one model
tasks() {
    for task in "LAMBADA --valid-data lambada.jsonl" "multiple-choice --valid-data choices.jsonl" \
        "WIKITEXT103 --valid-data wiki.txt --overlapping-eval 16"; do
        "$@" --json --task $task || return
        cat out >&3
    done
}
tasks ok evaluate "${model[@]}" 3>one
for layout in "2 2 1 1" "2 1 2 1" "4 2 2 1" "4 1 2 2"; do
    read -r n t p c <<<"$layout"
    tasks all_ranks "$n" "$TRIAX" evaluate "${model[@]}" --tensor-model-parallel-size "$t" --pipeline-model-parallel-size "$p" \
        --context-parallel-size "$c" 3>several
    near several one "tasks on $layout ranks"
done
ranks 2 "$TRIAX" evaluate "${model[@]}" --task LAMBADA --valid-data wiki.txt --tensor-model-parallel-size 2 && die "text as JSON lines"
[ "$(grep -c '^error: wiki.txt: line 1: is no JSON object' err)" -eq 1 ] || { cat err; die "not one message"; }

# beside a run, on all axes
train=(pretrain-gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32
    --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 "${vocab[@]}" --data-path "$data/dataset/tiny_text_document" --split 8,1,1
    --train-iters 4 --log-interval 2 --eval-interval 2 --eval-iters 1 --save-interval 4)
beside=(--eval-tasks LAMBADA=lambada.jsonl multiple-choice=choices.jsonl WIKITEXT103=wiki.txt --overlapping-eval 16)
for layout in "2 --zero-stage 1" "2 --tensor-model-parallel-size 2 --sequence-parallel" "4 --pipeline-model-parallel-size 2 --zero-stage 2" \
    "4 --context-parallel-size 2 --zero-stage 1"; do
    read -r n flags <<<"$layout"
    rm -rf with without
    all_ranks "$n" "$TRIAX" "${train[@]}" $flags --save without
    all_ranks "$n" "$TRIAX" "${train[@]}" $flags --save with "${beside[@]}"
    diff -r without/iter_0000004 with/iter_0000004 || die "$layout: --eval-tasks changes the run"
    grep 'validation results on' out | tail -n 3 >last
    tasks ok evaluate --load with "${vocab[@]}" 3>again
    [ "$(wc -l <last)" -eq 3 ] || die "$layout: not three tasks"
    for name in correct examples; do
        sed -n "s/.*\"$name\":\([0-9]*\).*/\1/p" again
    done >counts.again
    sed -n 's/.*number correct: \([0-9.E+-]*\) | total.*/\1/p' last | awk '{ print $1 + 0 }' >counts.last
    sed -n 's/.*total examples: \([0-9.E+-]*\) .*/\1/p' last | awk '{ print $1 + 0 }' >>counts.last
    cmp counts.again counts.last || die "$layout: other counts beside the run"
    a=$(sed -n 's/.*avg loss: \([0-9.E+-]*\) .*/\1/p' last) b=$(sed -n 's/.*WIKITEXT103.*"loss":\([0-9.]*\),.*/\1/p' again)
    awk -v a="$a" -v b="$b" 'BEGIN { exit !(a - b < 2e-4 && b - a < 2e-4) }' || die "$layout: loss $a beside the run, $b of its checkpoint"
done
