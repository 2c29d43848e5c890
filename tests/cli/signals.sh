# signals.sh - sourced after lib.sh by the tests that send signals: a run that goes on until it is told, and waiting for what it
# says. Nothing is asserted about time: what is waited for comes, or the test fails after a minute.
run=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --lr-decay-style constant --vocab-file "$data/tiny/tiny-vocab.json"
    --merge-file "$data/tiny/tiny-merges.txt" --data-path "$data/dataset/tiny_text_document" --split 8,1,1 --log-interval 1
    --eval-interval 1000000 --eval-iters 0 --save-interval 1000000 --train-iters 1000000 --threads 1)

pid= # of what runs; a test that fails ends it, and what launchers have started ends with them
trap '[ -z "$pid" ] || kill -KILL "$pid"; rm -rf "$work"' EXIT

# starts COMMAND...: in the background, with SIGINT as in a terminal's foreground; its number is $pid, its output ./out and ./err
starts() {
    : >out
    : >err
    (
        trap - INT
        exec "$@"
    ) >out 2>err </dev/null &
    pid=$!
}

# comes FILE PATTERN: waits for a line
comes() {
    local i
    for i in $(seq 1200); do
        grep -qaE -- "$2" "$1" && return
        sleep 0.05
    done
    tail out err >&2
    die "\"$2\" does not come"
}

# ends CODE
ends() {
    local code=0
    wait "$pid" || code=$?
    pid=
    [ $code -eq "$1" ] || { tail out >&2; cat err >&2; die "exit code $code, not $1"; }
}

last_iteration() { sed -nE 's/^ iteration +([0-9]+)\/.*/\1/p' out | tail -1; }
