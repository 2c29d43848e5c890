#!/bin/bash
# labels: cli
# Learning vocabularies as a user types it.
. "$(dirname "$0")/lib.sh"
corpus=$data/tiny/tiny-corpus.jsonl

# byte-level BPE, from a file, from standard input and compressed: the same
ok train-tokenizer --input "$corpus" --vocab-size 600 --output-dir a --workers 2
grep -qE 'Read 260 documents, .* distinct words' out || die "no count of documents: $(cat out)"
grep -qF 'Wrote a/vocab.json, merges.txt and tokenizer.json' out || die "the files are not named: $(cat out)"
ok train-tokenizer --input - --vocab-size 600 --output-dir b <"$corpus"
gzip -c "$corpus" >corpus.gz
ok train-tokenizer --input corpus.gz --vocab-size 600 --output-dir c --threads 1
cmp a/vocab.json b/vocab.json && cmp a/merges.txt b/merges.txt && cmp a/tokenizer.json c/tokenizer.json || die "files differ"
echo '{"text": "the end"}' >line
ok tokenize --vocab-file a/vocab.json --merge-file a/merges.txt <line

# BERT's WordPiece
bert=(train-tokenizer --input "$corpus" --tokenizer-type BertWordPieceLowerCase)
ok "${bert[@]}" --vocab-size 600 --limit-alphabet 30 --output-dir w
cmp w/vocab.txt "$data/token/hf-wordpiece-uncased-600.txt" || die "another vocabulary than Hugging Face's"
[ "$(ls w)" = $'tokenizer.json\nvocab.txt' ] || die "other files: $(ls w)"
ok "${bert[@]}" --vocab-size 600 --limit-alphabet 30 --output-dir w --special-tokens '<|user|>' '[unused1]'
[ "$(sed -n 6,7p w/vocab.txt | xargs)" = '<|user|> [unused1]' ] || die "the special tokens are elsewhere"
ok tokenize --tokenizer-type BertWordPieceLowerCase --vocab-file w/vocab.txt <line

refused 'vocabulary size 257 is too small' "${bert[@]}" --vocab-size 257 --output-dir no
refused 'special token "word"' train-tokenizer --input "$corpus" --vocab-size 600 --output-dir no --special-tokens word
refused "--limit-alphabet is for BERT's WordPiece" train-tokenizer --input "$corpus" --vocab-size 600 --output-dir no --limit-alphabet 9
refused 'NullTokenizer' train-tokenizer --input "$corpus" --vocab-size 600 --output-dir no --tokenizer-type NullTokenizer
[ ! -e no ] || [ -z "$(ls -A no)" ] || die "something was written: $(ls no)"
