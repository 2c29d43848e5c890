#!/bin/bash
# labels: cli
# Every command of docs/howto, as it stands there: the lines "    triax ..." with what "\" continues, page by page in a
# folder that has the files which the pages speak of.
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
    mkdir data model shards
    ln -s "$data/token/small-tokenizer.json" model/tokenizer.json
    printf 'hello\nhello world\n' >lines.txt
    echo '31373 995' >numbers.txt
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
    ln -s "$pages/../../examples/ds_config_345m_zero3.json" ds_config.json
    for index in doc sample shuffle; do ln -s "$data/dataset/microsoft_${index}_idx.npy" ${index}_idx.npy; done
}

# commands FILE: one a line
commands() { sed -n '/^    triax /{:more; /\\$/{N; s/\\\n */ /; b more}; s/^    //; p}' "$1"; }

triax() { "$TRIAX" "$@"; }

n=0
for page in "$pages"/*.md; do
    name=$(basename "$page" .md)
    mkdir "$name"
    cd "$name"
    set_up
    commands "$page" >commands
    [ -s commands ] || die "$page has no command"
    while IFS= read -r command <&3; do
        (eval "$command") </dev/null >out 2>err || { cat out err >&2; die "$name.md: $command"; }
        n=$((n + 1))
    done 3<commands
    cd ..
done

# what the pages say of ids
cmp <(printf '[31373]\n[31373, 995]\n') tokenize/ids.txt || die "hello is another id"
echo '[31414]' | triax detokenize --vocab-file tokenize/gpt2-vocab.json --merge-file tokenize/gpt2-merges.txt 2>err | grep -qx ' oddly' ||
    die "31414 is not \" oddly\""
echo "$n commands passed"
