# howto.sh - sourced by the tests of docs/howto, which share its pages: every command as it stands there, the lines
# "    triax ..." with what "\" continues, page by page in a folder that has the files which the pages speak of.
pages=$(cd "$(dirname "$0")/../../docs/howto" && pwd)
. "$(dirname "$0")/lib.sh"

# files the pages speak of, into the current folder
set_up() {
    local i end index
    ln -s "$data/token/"{gpt2-vocab.json,gpt2-merges.txt,bert-base-uncased-vocab.txt} .
    ln -s "$data/tiny/tiny-vocab.json" vocab.json
    ln -s "$data/tiny/tiny-merges.txt" merges.txt
    ln -s "$data/tiny/tiny-bert-vocab.txt" vocab.txt
    ln -s "$data/tiny/tiny-corpus.jsonl" docs.jsonl
    mkdir data model shards gpt2
    ln -s "$data/token/small-tokenizer.json" model/tokenizer.json
    ln -s "$data/token/tiktoken/small.tiktoken" cl100k_base.tiktoken
    ln -s "$data/token/tiktoken/small-core.json" tiktoken.json
    ln -s "$data/token/sp-bpe-bytes.model" tokenizer.model
    ln -s "$data/golden/generation/model/"* gpt2
    ln -s "$data/tiny/tiny-vocab.json" gpt2/vocab.json
    ln -s "$data/tiny/tiny-merges.txt" gpt2/merges.txt
    echo a-long-secret >token.txt
    printf 'hello\nhello world\n' >lines.txt
    sed -n '1{s/.*"text": "//; s/\\n/ \n /g; s/".*//; p}' docs.jsonl >wiki.txt
    printf '{"text": "and it came to %s"}\n' pass that >lambada.jsonl
    printf '{"context": "and it came", "choices": ["to pass", "%s"], "answer": %d}\n' unto 0 them 1 >questions.jsonl
    echo '31373 995' >numbers.txt
    talks 1 24 >chats.jsonl
    talks 25 30 >more-chats.jsonl
    head -n 130 docs.jsonl | tee 1 | gzip >data/1.jsonl.gz
    tail -n +131 docs.jsonl | tee 2 | gzip >data/2.jsonl.gz
    for i in 1 2; do
        ok preprocess-data --input $i --output-prefix shards/$i --append-eod --vocab-file vocab.json --merge-file merges.txt
    done
    for end in bin idx; do
        ln -s shards/1_text_document.$end news_text_document.$end
        ln -s shards/2_text_document.$end books_text_document.$end
        ln -s "$data/dataset/tiny_text_document.$end" my_text_document.$end
        ln -s "$data/dataset/tinybert_text_document.$end" my_text_sentence.$end
    done
    ln -s "$data/upstream/torch_dist_llama_tp2" megatron-core
    ln -s "$pages/../../examples/ds_config_345m_zero3.json" ds_config.json
    sed -n '/^```json$/,/^```$/{/^```/d; p}' "$pages/schedules.md" >scheduler.json
    sed -n '/^```json$/,/^```$/{/^```/d; p}' "$pages/data-efficiency.md" >by_difficulty.json
    for index in doc sample shuffle; do ln -s "$data/dataset/microsoft_${index}_idx.npy" ${index}_idx.npy; done
}

# commands FILE: one a line
commands() { sed -n '/^    triax /{:more; /\\$/{N; s/\\\n */ /; b more}; s/^    //; p}' "$1"; }

triax() { "$TRIAX" "$@"; }

# until_told SIGNAL PATTERN COMMAND: what goes on until it is told: once it has said that, it is ended, which is to succeed.
# Output is in ./out, ./err
until_told() {
    local i pid command=${3/#triax/\"\$TRIAX\"}
    : >out
    (trap - INT && eval "exec $command") </dev/null >out 2>err &
    pid=$!
    for i in $(seq 400); do
        grep -q "$2" out && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    kill -$1 $pid
    wait $pid
}

serve() {
    local command=$1
    [[ $command == *--port* ]] || command+=' --port 0' # 5000 may be somebody's
    until_told TERM '^Serving' "$command"
}

# try_command COMMAND: a run of a million iterations is one that the page ends by Ctrl-C
try_command() {
    case $1 in
    "triax serve"*) serve "$1" ;;
    *"--train-iters 1000000 "*) until_told INT '^ iteration' "$1" ;;
    *) (eval "$1") </dev/null >out 2>err ;;
    esac
}

# try_pages PAGE.md...
try_pages() {
    local page name command n=0
    for page in "$@"; do
        name=$(basename "$page" .md)
        mkdir "$name"
        cd "$name"
        set_up
        commands "$page" >commands
        [ -s commands ] || die "$page has no command"
        while IFS= read -r command <&3; do
            try_command "$command" || { cat out err >&2; die "$name.md: $command"; }
            n=$((n + 1))
        done 3<commands
        cd ..
    done
    [ $n -gt 0 ] || die "no page is $*"
    echo "$n commands passed"
}
