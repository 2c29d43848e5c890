#!/bin/bash
# labels: cli fault
# --save into a folder that holds another run: refused, naming what differs; nothing of it is touched. The tokenizer lies
# with the iteration.
. "$(dirname "$0")/lib.sh"

tiny=(--vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
ok preprocess-data --input "$data/tiny/tiny-corpus.jsonl" --output-prefix ts "${tiny[@]}" --append-eod
train=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --lr 1e-3 --data-path ts_text_document --split 8,1,1 --eval-iters 1 --log-interval 1 --train-iters 6
    --save-interval 2)

# unchanged: of run, everything
keep() { rm -rf before; cp -r run before; }
unchanged() { diff -r before run || die "$1: the run was touched"; }

ok "${train[@]}" "${tiny[@]}" --save run
[ ! -e run/vocab.json ] || die "the tokenizer lies beside the iterations"
for i in 2 4 6; do
    cmp run/iter_000000$i/vocab.json "$data/tiny/tiny-vocab.json" && cmp run/iter_000000$i/merges.txt "$data/tiny/tiny-merges.txt" ||
        die "iteration $i has no tokenizer"
done
keep

# ---- a first start finds what a script put there before it, and no checkpoint; another folder's is not taken so
mkdir first
echo '{}' >first/ds_config.json
ok "${train[@]}" "${tiny[@]}" --save first --load first --train-iters 2
grep -qF "starting from fresh weights: --load is the same folder as --save and first holds no checkpoint but other things (1, such as ds_config.json)" \
    out err || { cat out err >&2; die "a first start beside other files"; }
[ -e first/ds_config.json ] && [ -d first/iter_0000002 ] || die "a first start beside other files"
mkdir others
echo >others/log.txt
refused "others holds no checkpoint but other things" "${train[@]}" "${tiny[@]}" --save first --load others --train-iters 2

# ---- DeepSpeed's name of an iteration; one that is not there is answered with those that are
ok "${train[@]}" "${tiny[@]}" --load run/global_step4
grep -qF "run/global_step4 is not there: taking run/iter_0000004" out err || { cat out err >&2; die "global_step4 of a native folder"; }
refused "--load run/global_step5: run/global_step5 does not exist; there are iter_0000002, iter_0000004, iter_0000006" \
    "${train[@]}" "${tiny[@]}" --load run/global_step5

# ---- the same model from the start, another model, another vocabulary, of another size and of the same
refused "--save run holds another run: it is at iteration 6, this run begins at 0; go on with that one (--load run), save into another folder, or replace it (--overwrite-run)" \
    "${train[@]}" "${tiny[@]}" --save run
unchanged "a fresh start"
refused "its --hidden-size is 16, this run's 32" "${train[@]}" "${tiny[@]}" --save run --hidden-size 32
unchanged "another model"

sed -E 's/.*"text": "([^"]*)".*/\1/' "$data/tiny/tiny-corpus.jsonl" >part.txt
ok train-tokenizer --input part.txt --text-split blank-line --vocab-size 300 --output-dir small
other=(--vocab-file small/vocab.json --merge-file small/merges.txt)
ok preprocess-data --input part.txt --text-split blank-line --output-prefix small "${other[@]}" --append-eod
refused "its vocabulary has 512 tokens, this run's 300" "${train[@]}" "${other[@]}" --data-path small_text_document --save run
unchanged "another vocabulary"
sed 's/"\\u0120the": 260/"\\u0120the": X/; s/"\\u0120and": 281/"\\u0120and": 260/; s/: X/: 281/' "$data/tiny/tiny-vocab.json" >swap.json
swapped=(--vocab-file swap.json --merge-file "$data/tiny/tiny-merges.txt")
! cmp -s swap.json "$data/tiny/tiny-vocab.json" || die "the vocabularies are one"
refused "its tokenizer is another one" "${train[@]}" "${swapped[@]}" --save run
unchanged "another tokenizer of the same size"

# ---- what goes on in the folder, and what may be there
ok "${train[@]}" "${tiny[@]}" --load run --save run --train-iters 8 --override-opt_param-scheduler
[ "$(cat run/latest)" = iter_0000008 ] || die "the run did not go on"
ok "${train[@]}" "${tiny[@]}" --load run --load-tag iter_0000004 --save run --train-iters 5 --override-opt_param-scheduler
grep -q 'run has iteration 8, and this run goes on from 4' err out || die "going back is not told"
ok "${train[@]}" "${tiny[@]}" --load run --save run2 --train-iters 10 --override-opt_param-scheduler
mkdir notes && echo x >notes/x
ok "${train[@]}" "${tiny[@]}" --save notes
cp -r run run3
keep
refused "this run begins at 0" "${train[@]}" "${tiny[@]}" --load run3 --finetune --save run
unchanged "--finetune"

# ---- the three ways out
ok "${train[@]}" "${other[@]}" --data-path small_text_document --save run --overwrite-run
grep -q 'overwrite-run: the run in run (iteration 8) is removed' err out || die "what is removed is not told"
[ "$(cd run && echo iter_*)" = "iter_0000002 iter_0000004 iter_0000006" ] || die "left: $(ls run)"
ok generate --load run --prompt 'First' --max-new-tokens 2
refused "--overwrite-run needs --save" "${train[@]}" "${tiny[@]}" --overwrite-run

# ---- a run that fails before its first checkpoint leaves the other one whole
keep
refused "" "${train[@]}" "${tiny[@]}" --save run --overwrite-run --data-path nowhere
unchanged "a failed start"

# ---- another program's folder
mkdir -p ds/global_step5 && echo global_step5 >ds/latest && touch ds/global_step5/mp_rank_00_model_states.pt
refused "the next start would take that for this run's own" "${train[@]}" "${tiny[@]}" --save ds
[ "$(cat ds/latest)" = global_step5 ] || die "DeepSpeed's latest was touched"
