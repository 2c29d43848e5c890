#!/bin/bash
# labels: cli
# What goes wrong on a first day: a mistyped command or flag, a file of the wrong kind, a forgotten unit.
. "$(dirname "$0")/lib.sh"
vocab=$data/tiny/tiny-vocab.json merges=$data/tiny/tiny-merges.txt dataset=$data/dataset/tiny_text_document

# a mistyped command: the nearest one in the first line, and no list
mistyped() { # TYPED MEANT
    local code=0
    "$TRIAX" "$1" >out 2>err || code=$?
    [ $code -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 2 ] || { cat out err >&2; die "triax $1: exit $code"; }
    [ "$(head -1 err)" = "triax: there is no command \"${3-$1}\"${2:+; did you mean $2?}" ] || { cat err >&2; die "triax $1"; }
    grep -qxF 'triax --help lists the commands' err || die "triax $1: it is not said where the list is"
}
mistyped pretrian-gpt pretrain-gpt
mistyped genrate generate
mistyped pretrain_gpt pretrain-gpt
mistyped pretrian_gpt.py pretrain-gpt pretrian-gpt
mistyped pretrain 'pretrain-gpt or pretrain-bert'
mistyped eval evaluate
mistyped xyzzy ''
refused "needs --micro-batch-size" pretrain_gpt.py
code=0; "$TRIAX" torchrun --nproc_per_node 2 pretrian_gpt.py >out 2>err || code=$?
[ $code -eq 2 ] && grep -q '"pretrian_gpt.py" is no command of triax; did you mean pretrain-gpt?' err || { cat err >&2; die "torchrun pretrian_gpt.py"; }

# --help: what is required comes first, a word narrows it
first_flags() { sed -nE '/^Required$/,/^$/s/^  --([a-z_-]+) .*/\1/p' out | sort | tr '\n' ' '; }
ok pretrain-gpt --help
[ "$(grep -n '^[A-Z]' out | sed -n 2,3p | tr '\n' ' ' | sed 's/[0-9]*://g')" = "Train a GPT model from a dataset made by preprocess-data. Required " ] ||
    grep -B3 -m1 '^Required$' out >/dev/null || die "what is required is not first"
[ "$(first_flags)" = "data-path hidden-size lr max-position-embeddings merge-file micro-batch-size num-attention-heads num-layers seq-length train-iters vocab-file " ] ||
    die "pretrain-gpt requires $(first_flags)"
[ "$(grep -c '^  --lr X' out)" -eq 1 ] || die "--lr is listed twice"
ok generate --help
[ "$(first_flags)" = "load " ] || die "generate requires $(first_flags)"
grep -q 'triax generate --help WORD' out || die "--help does not say that a word narrows it"
ok convert --help
[ "$(first_flags)" = "to " ] || die "convert requires $(first_flags)"
ok doctor --help
! grep -q '^Required' out || die "doctor requires nothing"
ok pretrain-gpt --help lr_warmup
grep -q '^  --lr-warmup-iters' out && ! grep -q '^  --num-layers' out || { cat out; die "--help lr_warmup"; }
ok pretrain-gpt --lr 1 --help Activation_Recomputation
grep -q '^  --recompute-method' out && ! grep -q '^  --lr ' out || { cat out; die "--help with a group's words"; }
ok help pretrain_gpt.py lr-warmup
grep -q '^  --lr-warmup-iters' out || die "help COMMAND WORD"
ok help temperature
grep -qx '  triax generate --help temperature' out && ! grep -q 'pretrain' out || { cat out; die "help WORD"; }
refused 'no flag of generate has "xyzzy" in its name, group or text' generate --help xyzzy
ok torchrun --help rdzv
grep -q -- '--rdzv' out && ! grep -q -- '--nproc' out || { cat out; die "torchrun --help WORD"; }

echo "all passed"
