#!/bin/bash
# gpt_125m.sh from end to end on real prose, reduced to about 20 minutes of 2 cores: a smaller GPT on the King James Bible
# (Debian: bible-kjv), 8 ranks in the tutorial's layout, two checkpoints, made into Hugging Face's, asked for samples, and
# measured on chapters that were not trained on. It fails when the later checkpoint is not the better one.
#
#   examples/tutorials/gpt_125m_prose.sh [FLAGS...]       DIR=prose EARLY=100 LATE=400
#
# FLAGS are added after the training's own; the last of two equal ones counts.
set -euo pipefail
export TRIAX=${TRIAX:-triax}
dir=${DIR:-gpt-125m-prose}
here=$(cd "$(dirname "$0")" && pwd)
export EARLY=${EARLY:-100} LATE=${LATE:-400} GLOBAL_BATCH_SIZE=${GLOBAL_BATCH_SIZE:-32} MICRO_BATCH_SIZE=${MICRO_BATCH_SIZE:-4}
export TEXT=$dir/train.jsonl DATA=$dir/my-gpt2 OUTPUT=$dir/output
export PROMPT=${PROMPT:-And it came to pass in those days, that the king}
sequence=256

mkdir -p "$dir"
if [ ! -s "$dir/held_out.txt" ]; then
    command -v bible >/dev/null || { echo "there is no bible: apt-get install bible-kjv" >&2; exit 1; }
    # A document a chapter; every twentieth is held out.
    bible -f gen1:1-rev22:21 | awk -v train="$TEXT.part" -v held="$dir/held_out.part" '
        function end() {
            if (text == "") return
            if (++n % 20 == 0) { print text >held } else { gsub(/["\\]/, "\\\\&", text); gsub(/\n/, "\\n", text); print "{\"text\": \"" text "\"}" >train }
            text = ""
        }
        { split($1, label, ":"); if (label[1] != chapter) end(); chapter = label[1]; $1 = ""; text = text (text == "" ? "" : "\n") substr($0, 2) }
        END { end() }'
    mv "$TEXT.part" "$TEXT"
    mv "$dir/held_out.part" "$dir/held_out.txt"
fi

"$here/gpt_125m.sh" all --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length $sequence \
    --max-position-embeddings $sequence --train-samples $((LATE * GLOBAL_BATCH_SIZE)) --save-interval "$EARLY" \
    --eval-interval "$EARLY" --lr 2e-3 --min-lr 1e-4 --lr-warmup-tokens $((LATE * GLOBAL_BATCH_SIZE * sequence / 20)) \
    --lr-decay-tokens $((LATE * GLOBAL_BATCH_SIZE * sequence)) --hidden-dropout 0 --attention-dropout 0 "$@"

# nats a token, of the held-out chapters
loss() {
    local result
    result=$("$TRIAX" evaluate --task WIKITEXT103 --valid-data "$dir/held_out.txt" --json --vocab-file "$VOCAB_FILE" \
        --merge-file "$MERGE_FILE" --load "$OUTPUT/checkpoint/"gpt_0.125B_*"/HF/global_step$1")
    echo "$result" >&2
    sed 's/.*"loss":\([0-9.]*\).*/\1/' <<<"$result"
}
export VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json} MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
early=$(loss "$EARLY")
late=$(loss "$LATE")
echo "held-out text: $early after $EARLY iterations, $late after $LATE"
awk -v early="$early" -v late="$late" 'BEGIN { exit !(late < early) }' || { echo "the later checkpoint is not the better one" >&2; exit 1; }
