#!/bin/bash
# labels: extended cli fault
# A run whose states exceed the memory that its process may have trains with them on a disk, and not without; a checkpoint
# of the one goes on as the other; folders that will not do.
. "$(dirname "$0")/lib.sh"

for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
run=(pretrain-gpt --num-layers 8 --hidden-size 384 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --lr 2e-3 --train-iters 4 --clip-grad 1.0 --bf16 --tokenizer-type NullTokenizer --vocab-size 511
    --make-vocab-size-divisible-by 40960 --data-path text --split 1,0,0 --log-interval 1 --eval-iters 0 --threads 2)
disk=(--zero-stage 3 --offload-optimizer nvme --offload-optimizer-nvme-path files --offload-param nvme
    --offload-param-nvme-path files)
export TX_AIO_IN_MEMORY=1 # a scratch folder may be on tmpfs

ok "${run[@]}" --save whole --save-interval 2
losses out >expected
[ "$(wc -l <expected)" -eq 4 ] || die "not four iterations"

# an address space of 600 MB holds the program and what passes, not 515 MB of states; a sanitizer's own
# memory needs more
limited=
(ulimit -v 600000 && "$TRIAX" --version) >/dev/null 2>&1 && limited=600000
if [ "$limited" ]; then
    (ulimit -v $limited && refused "changes that make it fit, cheapest first" "${run[@]}") || exit 1
    grep -q -- "--offload-optimizer nvme --offload-optimizer-nvme-path DIR" err || { cat err >&2; die "no advice to offload"; }
fi
([ -z "$limited" ] || ulimit -v $limited; ok "${run[@]}" "${disk[@]}" --save divided --save-interval 2) || exit 1
losses out | cmp -s expected - || { losses out | diff expected - >&2; die "offloaded: other losses"; }
[ -z "$(ls files)" ] || die "files are left behind: $(ls files)"

# each goes on as the other
sed -n 3,4p expected >last
rm -r whole/iter_0000004 divided/iter_0000004
echo iter_0000002 | tee whole/latest >divided/latest
ok "${run[@]}" "${disk[@]}" --load whole
losses out | cmp -s last - || { losses out | diff last - >&2; die "a checkpoint does not go on offloaded"; }
ok "${run[@]}" --load divided
losses out | cmp -s last - || { losses out | diff last - >&2; die "an offloaded checkpoint does not go on"; }

# to memory: the same
near=(--zero-stage 3 --offload-optimizer cpu --offload-param cpu)
ok "${run[@]}" "${near[@]}" --load whole --save near --save-interval 4
losses out | cmp -s last - || { losses out | diff last - >&2; die "a checkpoint does not go on offloaded to memory"; }
ok "${run[@]}" "${near[@]}" --save nearby --save-interval 2
rm -r nearby/iter_0000004
echo iter_0000002 >nearby/latest
ok "${run[@]}" --load nearby
losses out | cmp -s last - || { losses out | diff last - >&2; die "one offloaded to memory does not go on"; }

unset TX_AIO_IN_MEMORY
touch file
refused "file: is not a folder" "${run[@]}" --zero-stage 1 --offload-optimizer nvme --offload-optimizer-nvme-path file
refused "the folder above it does not exist" "${run[@]}" --zero-stage 1 --offload-optimizer nvme \
    --offload-optimizer-nvme-path none/here
[ "$(stat -f -c %T /dev/shm)" != tmpfs ] || refused "is in memory, not on a disk" "${run[@]}" --zero-stage 1 \
    --offload-optimizer nvme --offload-optimizer-nvme-path /dev/shm
