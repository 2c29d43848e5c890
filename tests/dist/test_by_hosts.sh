#!/bin/bash
# labels: extended parallel root
# Calls that go host by host, between processes on hosts that a slow link joins: the bits of a serial loop with even and
# uneven numbers of ranks, and fewer bytes on the link. How long it takes is shown, not checked: that follows from the bytes.
. "$(dirname "$0")/lib.sh"
unset TX_LAUNCH_PROGRAM
build=$(dirname "$TRIAX")
[ -e "$build/libtriax_mpi.so" ] || skip "built without MPI (libopenmpi-dev)"
command -v tc >/dev/null || skip "there is no tc"
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none

# ranks HOSTS N COMMAND...: as N ranks there, bounded in time
ranks() {
    on 0 timeout -k 5 150 "$mpirun" --mca plm_rsh_agent "$here/agent.sh" -x TX_HOST_COMM --host "$1" -n "${@:2}" >out 2>err </dev/null ||
        { cat out err >&2; die "mpirun --host $*"; }
}
sent() { ip netns exec "$tag$1" cat /sys/class/net/eth0/statistics/tx_bytes; } # by a host so far

hosts_up 3
export TX_HOST_COMM=
ranks node0:2,node1:2,node2:1 5 "$build/comm_ranks" seats
[ "$(cut -d: -f2 out | tr '\n' ';')" = " host 0, 0 of 2; host 0, 1 of 2; host 1, 0 of 2; host 1, 1 of 2; host 2, 0 of 1;" ] || die "$(cat out)"
for hosts in node0:2,node1:2 node0:3,node1:1 node0:1,node1:2,node2:1; do
    n=$(($(tr -cd '0-9,:' <<<"$hosts" | sed -E 's/[0-9]+:([0-9]+),?/+\1/g')))
    ranks "$hosts" "$n" "$build/comm_ranks" all
done

# A run whose gradients go host by host is that in which each rank sends to each other, and that of four ranks on one host.
data=${TX_DATA:?}/dataset/tiny_text_document
flags="--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --micro-batch-size 1
    --global-batch-size 8 --train-samples 32 --lr 1e-3 --min-lr 1e-4 --lr-decay-style linear --tokenizer-type NullTokenizer
    --vocab-size 50257 --data-path $data --split 80,10,10 --log-interval 1 --eval-iters 1 --eval-interval 100 --threads 1"
for way in "" flat one; do
    hosts=node0:2,node1:2
    [ "$way" = one ] && hosts=node0:4
    TX_HOST_COMM=${way#one} ranks $hosts 4 "$TRIAX" pretrain-gpt $flags --save "ck$way" --save-interval 4
    grep -oE 'iteration +[0-9]+/.*' out | sed -E 's/ elapsed[^|]*\|//' >"steps$way"
    [ "$(grep -c 'lm loss' "steps$way")" -eq 4 ] || { cat out; die "${way:-host by host}: no four steps"; }
    "$TRIAX" inspect "ck$way" --verify >"inspect$way" 2>&1 || { cat "inspect$way"; die "the checkpoint of ${way:-host by host}"; }
    (cd "ck$way" && find . -name '*.safetensors' -exec sha256sum {} + | sort -k2) >"sums$way"
done
[ -s sums ] && cmp sums sumsflat && cmp sums sumsone || die "weights depend on the way that sums take"

# 100 Mbit/s each way
for i in 0 1; do
    tc -n "$tag$i" qdisc add dev eth0 root tbf rate 100mbit burst 64kb latency 100ms || skip "tc cannot limit a link here"
done
for way in "" flat; do
    before=$(sent 0)
    TX_HOST_COMM=$way ranks node0:4,node1:4 8 "$build/comm_ranks" sum
    bytes=$(($(sent 0) - before))
    echo "an all-reduce of 8 MiB, 2 hosts of 4 ranks, ${way:-host by host}: $(cat out), node0 sends $((bytes >> 10)) KiB"
    [ -n "$way" ] || by_hosts=$bytes
done
# 8 MiB instead of 32, and what starting the ranks takes
[ "$by_hosts" -ge $((8 << 20)) ] && [ "$by_hosts" -le $((11 << 20)) ] || die "host by host: $by_hosts bytes"
[ "$bytes" -ge $((32 << 20)) ] || die "from each rank to each other: $bytes bytes"
