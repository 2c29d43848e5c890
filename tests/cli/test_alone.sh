#!/bin/bash
# labels: cli
# What one process does alone is refused by all that a launcher has started, before anything is read or written; what takes
# ranks is not. The launcher is its variables.
. "$(dirname "$0")/lib.sh"
two_ranks() { OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 "$@"; }

alone="is done by one process, which has all threads, and Open MPI's mpirun has started 2: start it without"
vocab=(--vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
upstream=$data/upstream/ds_z3_tp2dp2_fp32
two_ranks refused "$alone" convert --to native "$upstream" made
two_ranks refused "$alone" deepspeed-to-megatron --input_folder "$upstream/global_step4" --output_folder made
two_ranks refused "$alone" deepspeed-to-transformers --input_folder "$upstream/global_step4" --output_folder made
two_ranks refused "$alone" zero-to-fp32 "$upstream" made
two_ranks refused "$alone" replay replay-iteration-4.json
two_ranks refused "$alone" inspect "$upstream"
two_ranks refused "$alone" tokenize "${vocab[@]}"
two_ranks refused "$alone" preprocess-data --input "$data/tiny/tiny-corpus.jsonl" --output-prefix made "${vocab[@]}"
two_ranks refused "$alone" merge-datasets --input "$data/dataset" --output-prefix made
two_ranks refused "$alone" train-tokenizer --input "$data/tiny/tiny-corpus.jsonl" --vocab-size 300 --output-dir made
two_ranks refused "$alone" report --output made made
[ -z "$(compgen -G 'made*')" ] || die "something was written: $(compgen -G 'made*')"

# a rank that is no first one says nothing before rank 0 has ended the job, and does nothing either
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 "$TRIAX" convert --to native "$upstream" made >out 2>err && die "rank 1 converts"
[ ! -e made ] || die "rank 1 has written"

# as one of one, and where only this host's place is told, nothing is refused
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 ok inspect "$upstream"
two_ranks ok plan --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 \
    --micro-batch-size 2 --global-batch-size 4
