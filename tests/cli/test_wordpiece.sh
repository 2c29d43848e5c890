#!/bin/bash
# labels: cli
# BERT's tokenizers as a user types them.
. "$(dirname "$0")/lib.sh"
vocab=$data/token/bert-base-uncased-vocab.txt
lower=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$vocab")

printf '%s\n' '{"text": "Hello, WORLD!"}' '{"text": "\u0000"}' >lines
ok tokenize "${lower[@]}" <lines
[ "$(cat out)" = $'[7592, 1010, 2088, 999]\n[]' ] || die "other ids: $(cat out)"
grep -q '> building BertWordPieceLowerCase tokenizer' err || die "the tokenizer is not named"
cp out ids
ok detokenize "${lower[@]}" <ids
[ "$(head -1 out)" = 'hello, world!' ] || die "other text: $(cat out)"
ok tokenize --tokenizer-type BertWordPieceCase --vocab-file "$vocab" --merge-file none <lines
[ "$(head -1 out)" = '[100, 1010, 100, 999]' ] || die "cased: other ids: $(cat out)"
grep -q -- '--merge-file: is not read' err || die "--merge-file is ignored in silence"

ok preprocess-data "${lower[@]}" --input lines --output-prefix d --append-eod
grep -q "Bert tokenizer detected, are you sure you don't want to split sentences?" out err || die "no warning"
grep -q 'Vocab size: 30524' out err || die "[BOS] and [EOS] are not counted"
# 7592 1010 2088 999 30523 as 16-bit numbers; the empty document is left out
[ "$(od -An -tu2 d_text_document.bin | xargs)" = '7592 1010 2088 999 30523' ] || die "other bytes"

refused 'BertWordPieceCase needs --vocab-file' tokenize --tokenizer-type BertWordPieceCase
printf '[PAD]\n[UNK]\n[PAD]\n' >twice.txt
refused 'twice.txt:3: is the same token as line 1' tokenize --tokenizer-type BertWordPieceCase --vocab-file twice.txt
refused 'merges.txt' tokenize --tokenizer-type BertWordPieceCase --vocab-file "$data/token/gpt2-merges.txt"
