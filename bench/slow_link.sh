#!/bin/bash
# What the ways to send less bring over a slow link: tokens/s of the same small GPT on two hosts, network namespaces of this
# machine that a link of so many Mbit/s joins, by plain data parallelism (sums flat, and host by host), 1-bit Adam after its
# freeze with ranks and with hosts as workers, ZeRO-3, and ZeRO-3 with ZeRO++. And a pipeline whose stages take turns on the
# hosts, by each schedule, with MICRO micro-batches a step (8). Needs root and Open MPI.
#   bench/slow_link.sh [TRIAX [MBIT [RANKS_OF_A_HOST [STEPS]]]]
# WAYS in the environment: some of "flat dp onebit workers zero3 zeropp", or of "1f1b gpipe interleaved zbh1"; MODEL: other
# flags of size.
triax=$(realpath "${1:-build/release/triax}") mbit=${2:-100} each=${3:-4} steps=${4:-8}
export TRIAX=$triax RANK_HELLO=$triax # lib.sh asks for both
. "$(dirname "$0")/../tests/dist/lib.sh"
unset TX_LAUNCH_PROGRAM
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMP_WAIT_POLICY=passive TX_HOST_COMM=
model=${MODEL:---num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --vocab-size 4096}
length=$(sed -E 's/.*--seq-length ([0-9]+).*/\1/' <<<"$model")
n=$((2 * each)) freeze=3

hosts_up 2
for i in 0 1; do
    tc -n "$tag$i" qdisc add dev eth0 root tbf rate "${mbit}mbit" burst 64kb latency 100ms || skip "tc cannot limit a link here"
done
sent() { ip netns exec "${tag}0" cat /sys/class/net/eth0/statistics/tx_bytes; }

# Milliseconds of the median step after the freeze, and what a host sends in one: read off as the log's lines come; by how the
# model is trained.
way() { # NAME HOST_COMM FLAGS...
    local name=$1 first=0 last ms line
    TX_HOST_COMM=$2 on 0 timeout -k 5 600 "$mpirun" --mca plm_rsh_agent "$here/agent.sh" -x TX_HOST_COMM -x OMP_WAIT_POLICY \
        --host "node0:$each,node1:$each" -n "$n" "$triax" pretrain-gpt $model --max-position-embeddings "$length" --bf16 \
        --train-iters $((freeze + steps)) --lr 1e-4 --lr-decay-style constant \
        --tokenizer-type NullTokenizer --mock-data --log-interval 1 --eval-iters 0 --eval-interval 1000 --threads 1 --micro-batch-size 1 \
        --global-batch-size "$batch" "${@:3}" \
        2>&1 </dev/null | while IFS= read -r line; do
        [[ $line =~ iteration\ +([0-9]+)/ ]] && echo "sent $(sent) at ${BASH_REMATCH[1]}"
        printf '%s\n' "$line"
    done >"out-$name" || { cat "out-$name" >&2; die "$name"; }
    first=$(sed -n "s/^sent \([0-9]*\) at $freeze$/\1/p" "out-$name")
    last=$(sed -n "s/^sent \([0-9]*\) at $((freeze + steps))$/\1/p" "out-$name")
    ms=$(grep -oE 'time per iteration \(ms\): [0-9.]+' "out-$name" | tail -n "$steps" | grep -oE '[0-9.]+$' | sort -n |
        awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')
    awk -v name="$name" -v ms="$ms" -v tokens=$((batch * length)) -v kib=$(((last - first) >> 10)) -v steps="$steps" \
        'BEGIN { printf "%-11s %8.0f ms a step %8.0f tokens/s %8.2f MiB a step from a host\n", name, ms, 1000 * tokens / ms, kib / 1024 / steps }'
}
echo "2 hosts of $each ranks, $mbit Mbit/s between them, $(nproc) processors"
batch=$n micro=${MICRO:-8} pipeline="--pipeline-model-parallel-size $n"
zero="--zero-stage 3 --zero-param-persistence-threshold 1000"
for w in ${WAYS:-flat dp onebit workers zero3 zeropp}; do
    case $w in
    1f1b | gpipe | interleaved | zbh1) batch=$micro ;;
    *) batch=$n ;;
    esac
    case $w in
    1f1b) way 1f1b "" $pipeline ;;
    gpipe) way gpipe "" $pipeline --pipeline-schedule gpipe ;;
    interleaved) way interleaved "" $pipeline --num-layers-per-virtual-pipeline-stage 1 ;;
    zbh1) way zbh1 "" $pipeline --enable-zbh1-pipeline ;;
    flat) way flat flat ;;
    dp) way dp "" ;;
    onebit) way onebit "" --optimizer onebitadam --onebit-freeze-step $freeze ;;
    workers) way workers "" --optimizer onebitadam --onebit-freeze-step $freeze --onebit-worker-size "$each" ;;
    zero3) way zero3 "" $zero ;;
    zeropp) way zeropp "" $zero --zero-quantized-weights --zero-quantized-gradients --zero-hpz-partition-size "$each" ;;
    esac
done
