# tiny_bert.sh - sourced after lib.sh: kings.txt, sentences of which each has one answer; train_bert DIR FLAGS... trains a
# BERT on them, in seconds.
awk 'BEGIN {
    n = split("france spain egypt persia norway india", land)
    split("louis carlos ramses cyrus olaf ashok", king)
    split("paris madrid thebes susa oslo delhi", town)
    for (d = 0; d < 120; d++) {
        for (s = 0; s < 3; s++) {
            k = (d * 5 + s * (1 + d % 4)) % n + 1
            print "The king of " land[k] " is " king[k] "."
            print "The town of " land[k] " is " town[k] "."
        }
        print ""
    }
}' >kings.txt
ok train-tokenizer --input kings.txt --text-split blank-line --tokenizer-type BertWordPieceLowerCase --vocab-size 300 --output-dir .
ok preprocess-data --input kings.txt --text-split blank-line --split-sentences --output-prefix kings \
    --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt

train_bert() {
    ok pretrain-bert --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 24 --max-position-embeddings 24 \
        --micro-batch-size 16 --global-batch-size 16 --lr 4e-3 --lr-decay-style linear --lr-warmup-fraction 0.1 --init-method-std 0.1 \
        --hidden-dropout 0 --attention-dropout 0 --bert-max-ngrams 1 --vocab-file vocab.txt --data-path kings_text_sentence \
        --split 8,1,1 --eval-iters 2 --eval-interval 1000 --save-interval 1000 --log-interval 100 --threads 1 --save "$@"
}
