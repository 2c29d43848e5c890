#!/bin/bash
# async_save.sh - what a save beside the steps costs them: median ms an iteration while none is under way and while one is, and
# the longest pause at a save, for --async-save and without it. GPT-2 124M, short samples, so that a save is several steps long.
#   bench/async_save.sh TRIAX DATA_PREFIX VOCAB MERGES FOLDER [ITERATIONS, 40] [FLAGS ...]
set -euo pipefail
triax=$1 data=$2 vocab=$3 merges=$4 folder=$5 n=${6:-40}
shift $(($# > 6 ? 6 : $#))
for mode in --async-save ""; do
    rm -rf "$folder/run"
    "$triax" pretrain-gpt --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 64 \
        --max-position-embeddings 1024 --make-vocab-size-divisible-by 50304 --micro-batch-size 4 --global-batch-size 4 \
        --train-iters "$n" --lr 1e-4 --data-path "$data" --vocab-file "$vocab" --merge-file "$merges" --split 1,0,0 \
        --data-order keyed --eval-iters 0 --log-interval 1 --save "$folder/run" --save-interval 10 --keep-last 1 \
        --timing-log-level 1 $mode "$@" >"$folder/log"
    # an iteration's line stands before the save that follows it
    awk '
        / iteration / && match($0, /per iteration \(ms\): [0-9.]+/) {
            if (++seen > 2) print saving ? "beside" : "alone", substr($0, RSTART + 20, RLENGTH - 20)
        }
        /^saving checkpoint/ { saving = 1 }
        /successfully saved/ { saving = 0 }
        /save-checkpoint/ && match($0, /\([0-9.]+/) { print "pause", substr($0, RSTART + 1, RLENGTH - 1) }' "$folder/log" >"$folder/times"
    median() { grep "^$1 " "$folder/times" | sort -k 2 -n | awk '{ x[NR] = $2 } END { print NR ? x[int((NR + 1) / 2)] : 0 }'; }
    printf '%s: %d steps alone, median %.0f ms; %d beside a save, median %.0f ms; longest pause at a save %.0f ms\n' \
        "${mode:---save}" "$(grep -c ^alone "$folder/times")" "$(median alone)" "$(grep -c ^beside "$folder/times")" \
        "$(median beside)" "$(grep ^pause "$folder/times" | sort -k 2 -n | tail -1 | cut -d' ' -f2)"
done
rm -rf "$folder/run" "$folder/log" "$folder/times"
