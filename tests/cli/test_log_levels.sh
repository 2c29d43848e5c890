#!/bin/bash
# labels: cli parallel
# What --log-level debug and trace show of a run, in the log and in each rank's file: messages with bytes and waits beside
# the formulas, checkpoints, data, schedules, offload, on 1, 2 and 4 ranks; nothing of it at the default level.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"

for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
shape=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 8)
flags=("${shape[@]}" --lr 2e-3 --train-iters 2 --tokenizer-type NullTokenizer --vocab-size 511 --data-path text --split 8,1,1
    --log-interval 1 --eval-iters 1 --threads 1)
tp=--tensor-model-parallel-size
pp=--pipeline-model-parallel-size

has() { grep -qE -- "$2" "$1" || { cat "$1" >&2; die "$1 has no \"$2\""; }; }
has_not() { ! grep -qE -- "$2" "$1" || { grep -E -- "$2" "$1" >&2; die "$1 has \"$2\""; }; }
ms='[0-9]+\.[0-9]{3} ms'

# told N: "group op calls bytes" of the debug lines of iteration N
told() { sed -nE "s/.*iteration $2: communication: (.*) ([a-z-]+): ([0-9]+) calls, ([0-9]+) bytes, waited $ms\$/\1 \2 \3 \4/p" "$1" | sort; }
# single FILE GROUPS: the same, summed over the trace lines of iteration 2's calls on tensors
single() {
    awk '/ iteration +1\// { on = 1 } / iteration +2\// { on = 0 } on' "$1" |
        sed -nE "s/.*communication: ([a-z-]+) #[0-9]+ of the (.*) group( \(layer.*\))?, ([0-9]+) bytes, waited $ms\$/\2 \1 \4/p" |
        grep -E '(all-reduce|reduce-scatter|all-gather|broadcast|send) [0-9]+$' |
        awk '{ bytes = $NF; NF--; n[$0]++; sum[$0] += bytes } END { for (k in n) print k, n[k], sum[k] }' | sort
}
# planned STAGE FLAGS...: the same of a plan, which counts without ranks
planned() {
    local stage=$1
    shift
    ok plan "${shape[@]}" --tokenizer-type NullTokenizer --vocab-size 511 "$@" --json
    json_values out | awk -v stage="$stage" '
        $1 ~ "^1\\.stages\\." stage "\\.messages\\.[0-9]+\\." { n = split($1, at, "."); name = at[n]; i = at[n - 1]; $1 = ""; v = substr($0, 2); gsub(/"/, "", v); got[i, name] = v; if (i > last) last = i }
        END { for (i = 0; i <= last; i++) if ((i, "calls") in got) print got[i, "group"], got[i, "op"], got[i, "calls"], got[i, "bytes"] }' | sort
}

# one rank: the default level has none of it; debug has a summary of each iteration, trace every instruction and micro-batch
ok pretrain-gpt "${flags[@]}"
has_not out '^(schedule|data|communication|checkpoint|iteration [0-9]+): '
ok pretrain-gpt "${flags[@]}" --log-level debug --save one
has out '^data: text: 260 documents; samples: train [1-9][0-9]*, valid [1-9][0-9]*, test [1-9][0-9]*; opened and indexed in '
has out '^schedule: stage 0 of 1, training, 4 micro-batches in 1 slots, 8 instructions: F0 B0 F1 B1 F2 B2 F3 B3$'
has out '^iteration 2: data: samples 8 to 15 of the training order, 8 of them for data rank 0 of 1$'
has out "^iteration 2: schedule: 4 forwards $ms, 4 backwards $ms, batches filled in $ms\$"
has_not out '^schedule: (forward|backward) of micro-batch'
bytes=$(stat -c %s one/iter_0000002/shard_00000.safetensors)
has out "^checkpoint: wrote one/iter_0000002/shard_00000.safetensors, $bytes bytes in [0-9]+ tensors, in [0-9.]+ s\$"
ok pretrain-gpt "${flags[@]}" --log-level trace --load one --train-iters 3 --override-opt_param-scheduler
has out '^checkpoint: read [1-9][0-9]* bytes of [1-9] parts from the 1 files of one/iter_0000002, in '
has out '^schedule: forward of micro-batch 3, chunk 0, slot 0$'
has out '^schedule: backward of micro-batch 3, chunk 0, slot 0$'
has out '^data: micro-batch of 2 behind 22 samples: text 22, 23$'

# layout N STAGE FLAGS...: as N ranks; the last rank's file has every kind of line, and bytes add up, call by call and to the plan's
layout() {
    local n=$1 stage=$2 file
    shift 2
    rm -rf logs saved
    all_ranks "$n" "$TRIAX" pretrain-gpt "${flags[@]}" "$@" --log-level trace --log-dir logs --save saved
    has out '^iteration 2: communication: '
    file=$(printf 'logs/rank_%05d.log' $((n - 1)))
    for kind in 'data: text: ' 'iteration 2: data: ' 'schedule: stage ' 'iteration 2: schedule: ' 'checkpoint: wrote ' \
        'communication: ' "iteration 2: communication: calls and bytes are equal to the formulas'"; do
        has "$file" "^[0-9-]+ [0-9:]+ $kind"
    done
    told "$file" 2 >debug
    single "$file" >trace
    planned "$stage" --world-size "$n" "$@" >plan
    [ -s debug ] || { cat "$file" >&2; die "$n ranks $*: no bytes"; }
    diff debug trace >&2 || die "$n ranks $*: single calls are not what debug says"
    diff debug plan >&2 || die "$n ranks $*: bytes are not the plan's"
}

layout 2 0 --zero-stage 3
layout 4 1 $pp 2 $tp 2
has logs/rank_00003.log 'schedule: receive the input of micro-batch 1, chunk 0, slot 0 from stage 0$'
has logs/rank_00003.log 'schedule: send the gradient of micro-batch 1, chunk 0, slot 0 to stage 0$'
has logs/rank_00000.log 'schedule: stage 0 of 2, training, 4 micro-batches in 2 slots, 20 instructions: F0 F1 B0 F2 B1 F3 B2 B3$'
has logs/rank_00001.log "communication: send #[0-9]+ of the pipeline group.*, 4096 bytes, waited $ms\$"

# without files the log is rank 0's, and says so
all_ranks 2 "$TRIAX" pretrain-gpt "${flags[@]}" $tp 2 --log-level debug
has out "^ > log: standard output of rank 0 \(--log-dir DIR has each rank's\) "
[ "$(grep -c '^iteration 2: data: ' out)" -eq 1 ] || die "more than one rank in the log"

# offload to a disk: all of the state comes and goes once an iteration
mkdir away
ok pretrain-gpt "${flags[@]}" --zero-stage 1 --offload-optimizer nvme --offload-optimizer-nvme-path away \
    --zero-sub-group-size 8192 --log-level debug
line=$(grep '^iteration 2: offload: ' out) || die "no line of offload"
[[ "$line" =~ ^iteration\ 2:\ offload:\ 0\ bytes\ in\ the\ host\'s\ memory,\ ([0-9]+)\ on\ a\ disk\;\ fetched\ ([0-9]+)\ bytes,\ stored\ ([0-9]+),\ to\ the\ device\ 0,\ from\ it\ 0$ ]] ||
    die "another line of offload: $line"
[ "${BASH_REMATCH[1]}" -gt 0 ] && [ "${BASH_REMATCH[2]}" -eq "${BASH_REMATCH[1]}" ] && [ "${BASH_REMATCH[3]}" -eq "${BASH_REMATCH[1]}" ] ||
    die "not all of the state, once: $line"

# a BERT's run has the same lines, of its own dataset
for end in bin idx; do cp "$data/dataset/tinybert_text_document.$end" bert.$end; done
all_ranks 2 "$TRIAX" pretrain-bert "${shape[@]}" --seq-length 64 --max-position-embeddings 64 --lr 2e-3 --train-iters 2 --threads 1 \
    --vocab-file "$data/tiny/tiny-bert-vocab.txt" --data-path bert --split 8,1,1 --eval-iters 1 --log-interval 1 $tp 2 --log-level trace
has out '^data: bert: [0-9]+ documents; samples: train [1-9][0-9]*, '
has out '^data: micro-batch of 2 behind 8 samples: bert [0-9]+, [0-9]+$'
has out "^iteration 2: communication: tensor-parallel all-reduce: [0-9]+ calls, [0-9]+ bytes, waited $ms\$"
has out "^iteration 2: communication: calls and bytes are equal to the formulas'"
