#!/bin/bash
# labels: extended cli
# examples/pretrain_bert.sh in short: with little text, in which a word's neighbours tell of it, the loss falls below the
# entropy of the words; after a few iterations it is not, and the script fails.
. "$(dirname "$0")/lib.sh"
example=$(cd "$(dirname "$0")/../../examples" && pwd)/pretrain_bert.sh
. "$(dirname "$0")/tiny_bert.sh"
printf 'the king of %s is [MASK].\n' egypt norway >sentences

export TRIAX CORPUS=kings.txt SENTENCES=sentences DIR=example VOCAB_SIZE=300 ITERS=400
MARGIN=1 timeout -k 5 300 bash "$example" --threads 1 >out 2>err || { cat out err; die "the example"; }
[ -d example/model/iter_0000400 ] || die "no checkpoint"
entropy=$(sed -n 's/^unigram entropy of the training text: *\([0-9.]*\) nats$/\1/p' out)
# 108 of 120 documents of 6 sentences of 7 tokens: six are in all, but that half are of kings; 6 lands, kings and towns
awk -v h="$entropy" 'BEGIN { each = 1 / 7; want = -4 * each * log(each) - 2 * (each / 2) * log(each / 2) - 6 * (each / 6) * log(each / 6) - 12 * (each / 12) * log(each / 12)
    exit !(h - want < 0.02 && want - h < 0.02) }' || die "an entropy of $entropy"
grep -qE '^below it by [0-9.]+, and 1\.00 is asked for$' out || { cat out; die "no margin"; }
grep -qE '^the king of egypt is [a-z]+\.$' out || { cat out; die "no words"; }

DIR=other ITERS=20 MARGIN=1 timeout -k 5 300 bash "$example" --threads 1 >out 2>err && die "20 iterations are enough"
grep -qx 'the model has learned too little' err || { cat err; die "fails otherwise"; }
echo "the example passed"
