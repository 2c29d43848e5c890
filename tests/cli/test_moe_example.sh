#!/bin/bash
# labels: extended cli
# examples/pretrain_gpt_moe.sh in short: both models of each seed take the same operations, land in a table of their losses,
# and the script fails when one with experts is not the better one.
. "$(dirname "$0")/lib.sh"
example=$(cd "$(dirname "$0")/../../examples" && pwd)/pretrain_gpt_moe.sh
. "$(dirname "$0")/tiny_bert.sh"

export TRIAX CORPUS=kings.txt DIR=example VOCAB_SIZE=300 ITERS=25
code=0
SEEDS="1 2" timeout -k 5 120 bash "$example" --threads 1 >out 2>err || code=$?
[ "$(wc -l <example/losses.txt)" -eq 3 ] || { cat out err; die "no table"; }
tail -n 3 example/losses.txt | cmp -s - <(tail -n 3 out) || { cat out; die "another table is printed"; }
awk 'NR > 1 { if ($1 != NR - 1 || !($2 > 0.5 && $2 < 6) || !($3 > 0.5 && $3 < 6)) exit 1 }' example/losses.txt ||
    { cat out; die "the table"; }
better=$(awk 'NR > 1 && $3 < $2' example/losses.txt | wc -l)
[ $((better == 2 ? 0 : 1)) -eq $code ] || { cat out err; die "exit $code, and $better of 2 are better"; }

# the last run is told again by the same seed
cp example/losses.txt first
SEEDS=2 timeout -k 5 120 bash "$example" --threads 1 >out 2>err || true
cmp -s <(tail -n 1 first) <(tail -n 1 example/losses.txt) || { cat first out; die "another loss of the same seed"; }

# operations of the two, as the script has them
operations() {
    ok plan --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --vocab-size 2047 \
        --micro-batch-size 8 --global-batch-size 8 --tokenizer-type NullTokenizer --world-size 1 "$@"
    sed -n 's/^iteration: .* \([0-9.]* [MG]FLOPs\), .*/\1/p' out
}
dense=$(operations --ffn-hidden-size $((4 * 64 + 4)))
moe=$(operations --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 128)
[ -n "$dense" ] && [ "$dense" = "$moe" ] || die "the twin takes $dense and the model with experts $moe"
echo "the example passed"
