#!/bin/bash
# labels: cli fault
# preprocess-data as typed: patterns, spellings, sentences, the live line, and nothing left of runs that are stopped or
# run out of space.
. "$(dirname "$0")/lib.sh"
tok=(--vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
pre=(preprocess-data "${tok[@]}")
corpus=$data/tiny/tiny-corpus.jsonl golden=$data/dataset/tiny_text_document

# same PREFIX OTHER: two datasets are the same
same() { cmp "$1.bin" "$2.bin" && cmp "$1.idx" "$2.idx" || die "$1 is not $2"; }

# nothing_of PREFIX: neither dataset nor what is unfinished of one
nothing_of() { ! compgen -G "$1*" >/dev/null || die "left behind: $(ls "$1"*)"; }

# patterns, several inputs, compressed ones
head -n 100 "$corpus" >part-1.jsonl
sed -n 101,200p "$corpus" | xz >part-2.xz
tail -n +201 "$corpus" | gzip >part-3.gz
ok "${pre[@]}" --append-eod --workers 2 --input 'part-*' --output-prefix pattern
same pattern_text_document "$golden"
[ "$(grep -c '^Opening part-' out)" -eq 3 ] || die "not three files"
ok "${pre[@]}" --append-eod --input part-1.jsonl 'part-[23].*' --output-prefix list
same list_text_document "$golden"
touch '[x]'
cat part-1.jsonl >'[x]'
ok "${pre[@]}" --input '[x]' --output-prefix literal # a name that exists is no pattern
mkdir folder
refused "no file matches this pattern" "${pre[@]}" --input 'nothing-*' --output-prefix x
refused "folder: is a directory" "${pre[@]}" --input folder --output-prefix x
refused "part-4: no such file" "${pre[@]}" --input part-1.jsonl part-4 --output-prefix x

# spellings of published scripts
ok preprocess-data --vocab "$data/tiny/tiny-vocab.json" --merges "$data/tiny/tiny-merges.txt" --input "$corpus" --json_keys text \
    --tokenizer_type GPT2BPETokenizer --dataset-impl mmap --append-eod --workers 4 --chunk-size 25 --output-prefix spelled \
    --make-vocab-size-divisible-by 128 --torch-backend gloo --local_rank 0 --lang english
same spelled_text_document "$golden"
ok preprocess-data --vocab_file "$data/tiny/tiny-vocab.json" --merge "$data/tiny/tiny-merges.txt" --input "$corpus" \
    --content-keys text --append-eod --output-prefix content --partitions 1 --keep-newlines
same content_text_document "$golden"
grep -q 'keep-newlines means nothing without --split-sentences' err || die "--keep-newlines is ignored in silence"
refused "--workers 4 is not divisible by --partitions 3" "${pre[@]}" --input "$corpus" --output-prefix x --workers 4 --partitions 3
refused "english" "${pre[@]}" --input "$corpus" --output-prefix x --split-sentences --lang german
nothing_of x

# sentences: of a list the list's, of a text those found; both ways the same here
bert=(preprocess-data --tokenizer-type BertWordPieceLowerCase --vocab-file "$data/tiny/tiny-bert-vocab.txt" --split-sentences)
printf '{"text": "He came. \\"Why?\\" she asked Dr. Who.\\n\\nIt rained..."}\n' >text.jsonl
printf '{"text": ["He came.", "\\"Why?\\"", "she asked Dr. Who.", "It rained..."]}\n' >text_ss.jsonl
for name in text text_ss; do ok "${bert[@]}" --append-eod --input $name.jsonl --output-prefix $name; done
same text_text_sentence text_ss_text_sentence
ok inspect text_text_sentence
ok "${bert[@]}" --keep-newlines --input text.jsonl --output-prefix kept

# a live line on a terminal, in the place of lines "Processed", which --log-interval still asks for
if command -v script >/dev/null; then
    for _ in $(seq 12); do cat "$corpus"; done >larger.jsonl
    ok "${pre[@]}" --input larger.jsonl --output-prefix live --log-interval 1000
    [ "$(grep -c '^Processed' out)" -eq 4 ] || die "not a line every 1000 documents"
    live="'$TRIAX' preprocess-data --vocab-file '${tok[1]}' --merge-file '${tok[3]}' --input - --output-prefix live"
    script -qec "(head -n 2000 larger.jsonl; sleep 0.7; tail -n +2001 larger.jsonl) | $live" typed </dev/null >/dev/null
    grep -qE 'documents \| [0-9.]+ MB/s \| [0-9]+ tokens/s' typed || die "no live line"
    [ "$(grep -c 'Processed' typed)" -eq 1 ] || die "lines in spite of the live line"
    script -qec "$live --log-interval 1000 <larger.jsonl" typed </dev/null >/dev/null
    [ "$(grep -c 'Processed' typed)" -eq 4 ] || die "no lines in spite of --log-interval"
fi

# stopped by a signal while it waits, and while it works: one line, nothing left, no old dataset harmed
for signal in INT TERM HUP; do
    for partitions in 1 2; do
        mkfifo feed
        env --default-signal=INT,HUP "$TRIAX" "${pre[@]}" --workers 2 --partitions $partitions --input - --output-prefix stopped <feed >out 2>err &
        pid=$!
        exec 3>feed
        cat "$corpus" "$corpus" >&3
        for _ in $(seq 100); do compgen -G 'stopped*' >/dev/null && break; sleep 0.05; done
        kill -$signal $pid
        code=0
        wait $pid || code=$?
        exec 3>&-
        [ $code -eq 1 ] || { cat err; die "SIG$signal: exit $code"; }
        grep -q 'stopped by a signal; nothing was written' err || { cat err; die "SIG$signal: no word of it"; }
        nothing_of stopped
        rm feed
    done
done

# a disk that is full
mkdir disk
if unshare -Urm true 2>/dev/null && unshare -Urm mount -t tmpfs -o size=128k none disk 2>/dev/null; then
    for partitions in 1 2; do
        # the second is full when its parts are joined
        cat >full.sh <<END
mount -t tmpfs -o size=$((partitions == 1 ? 600 : 1000))k none disk
"\$@" && exit 1
ls disk
END
        unshare -Urm bash full.sh "$TRIAX" "${pre[@]}" --input "$corpus" --output-prefix disk/full --workers 2 --partitions $partitions \
            >out 2>err || { cat out err; die "a full disk is no error"; }
        grep -q '^triax .*disk/full_text_document.*No space left on device' err || { cat err; die "another error than a full disk"; }
        ! grep '^full' out || die "left on a full disk"
    done
else
    echo "not tried here: a full disk, which needs a file system of one's own"
fi
echo "all passed"
