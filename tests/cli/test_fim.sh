#!/bin/bash
# labels: extended cli resume
# --fim-data: the same losses with another micro-batch and after a restart; what a vocabulary lacks is said.
. "$(dirname "$0")/lib.sh"
corpus=$data/tiny/tiny-corpus.jsonl
ok train-tokenizer --input "$corpus" --vocab-size 512 --output-dir code \
    --special-tokens '<fim_prefix>' '<fim_middle>' '<fim_suffix>' '<fim_pad>'
vocabulary=(--vocab-file code/vocab.json --merge-file code/merges.txt)
ok preprocess-data --input "$corpus" --output-prefix my --append-eod "${vocabulary[@]}"
run=(pretrain-gpt --num-layers 2 --hidden-size 16 --num-attention-heads 2 --max-position-embeddings 32 --seq-length 32 --micro-batch-size 2
    --global-batch-size 8 --lr 1e-3 --train-iters 6 --log-interval 1 --eval-iters 1 --data-path my_text_document "${vocabulary[@]}" --seed 7)
losses() { sed -n 's/.*iteration *\([0-9]*\)\/.*lm loss: *\([^ ]*\).*/\1 \2/p' "$@"; }
ok "${run[@]}"
losses out err >plain
ok "${run[@]}" --fim-data --fim-rate 0.7
losses out err >whole
[ "$(wc -l <whole)" -eq 6 ] || die "no losses"
cmp -s plain whole && die "nothing is permuted"
ok "${run[@]}" --fim-data --fim-rate 0.7 --micro-batch-size 4
losses out err >other
cmp whole other || die "another micro-batch, other samples"
ok "${run[@]}" --fim-data --fim-rate 0.7 --save cut --save-interval 3 --exit-interval 3
losses out err >parts
ok "${run[@]}" --fim-data --fim-rate 0.7 --load cut
losses out err >>parts
cmp whole parts || die "a restart changes samples"
refused "--fim-prefix-token <fim_prefix>: the vocabulary has no such token" "${run[@]}" --fim-data \
    --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt"
ok inspect-samples --seq-length 32 --micro-batch-size 2 --train-iters 6 --eval-iters 0 --data-path my_text_document "${vocabulary[@]}" \
    --fim-data --fim-rate 1
grep -F '<fim_middle>' out >/dev/null || die "no middle in: $(head -c 600 out)"
refused "--fim-data needs the tokenizer" inspect-samples --seq-length 32 --micro-batch-size 2 --train-iters 6 --eval-iters 0 \
    --data-path my_text_document --fim-data
