#!/bin/bash
# labels: parallel root
# triax torchrun on one host and on several, without ssh: ranks, exit codes, restarts, keys, nodes that do not
# belong together.
. "$(dirname "$0")/lib.sh"

# one host: one rank is the program itself, several are mpirun's, and flags come as they were typed
"$TRIAX" torchrun x/pretrain_gpt.py --a "b c" '$d' >out 2>&1 || die "one rank"
has '^rank 0 of 1 on .* OMP_NUM_THREADS none OMP_PLACES none .* \[pretrain-gpt\] \[--a\] \[b c\] \[\$d\]$' out
OMP_NUM_THREADS=1 "$TRIAX" torchrun --standalone --nproc-per-node=3 pretrain_gpt.py >out 2>&1 || die "three ranks"
[ "$(grep -c '^rank . of 3 .* sum 3 .* OMP_NUM_THREADS 1 OMP_PLACES none' out)" -eq 3 ] || { cat out; die "not three ranks"; }
"$TRIAX" torchrun --nproc_per_node 2 plan --fail 1 7 --sleep 30 >out 2>&1
[ $? -eq 7 ] || die "the exit code is not the rank's"
[ "$(last out)" = "rank 1 fails on purpose" ] || { cat out; die "the rank's own message is not the last"; }

# two nodes on one host with one name
"$TRIAX" torchrun --nnodes 2 --nproc_per_node 2 --node_rank 1 --master_addr localhost --master_port 29611 plan >out1 2>&1 &
"$TRIAX" torchrun --nnodes 2 --nproc_per_node 2 --node_rank 0 --master_addr localhost --master_port 29611 plan >out 2>&1 || { cat out out1; die "two nodes here"; }
wait $! || die "the second node's exit code"
[ "$(grep -c '^rank . of 4 .* local [01] sum 6' out)" -eq 4 ] || { cat out; die "not four ranks"; }

# flags
"$TRIAX" torchrun --dry-run --nnodes 2 --node_rank 0 --master_addr h --nproc_per_node 3 plan >out 2>&1 || die "--dry-run"
has 'mpirun.* -np 6 ' out
has '^ranks 0-2 .* cores [0-9]' out
"$TRIAX" torchrun --nnodes 1:4 plan 2>&1 | grep -q 'does not change its number of nodes' || die "--nnodes 1:4"
"$TRIAX" torchrun --nnodes 2 --node_rank 2 --master_addr h plan 2>&1 | grep -q -- '--node_rank 2: with --nnodes 2 it is 0 to 1' || die "--node_rank 2"

# restarts: while something new is saved, then twice more
cat >saver <<'S'
#!/bin/bash
n=$(cat runs 2>/dev/null || echo 0); echo $((n + 1)) >runs; mkdir -p save; [ $n -lt 2 ] && echo $n >save/latest; exit ${CODE:-3}
S
chmod +x saver
TX_LAUNCH_PROGRAM=$work/saver "$TRIAX" torchrun --max_restarts 9 plan --save save --load save >out 2>&1
[ $? -eq 3 ] && [ "$(cat runs)" -eq 4 ] || { cat out; die "restarts: $(cat runs) runs, not 4"; }
has 'two starts in a row have saved nothing new' out
rm runs
CODE=2 TX_LAUNCH_PROGRAM=$work/saver "$TRIAX" torchrun --max_restarts 9 plan >out 2>&1
[ "$(cat runs)" -eq 1 ] || die "flags that are wrong are tried again"

# ranks that do not listen are ended after their time, and at once by a second signal
printf '#!/bin/bash\ntrap "" USR1\nfor i in $(seq 300); do sleep 0.1; done\n' >deaf
chmod +x deaf
for signals in 1 2; do
    TX_LAUNCH_PROGRAM=$work/deaf "$TRIAX" torchrun --nproc_per_node 2 --grace $((signals == 1 ? 1 : 60)) plan >out 2>&1 &
    sleep 0.7
    for i in $(seq $signals); do kill -TERM $!; sleep 0.2; done
    began=$SECONDS
    wait $!
    [ $? -eq 143 ] && [ $((SECONDS - began)) -le 8 ] || { cat out; die "deaf ranks, $signals signals"; }
done

hosts_up 3

job 3 --nproc_per_node 2 pretrain_gpt.py --x
wait
[ "$(codes 0 1 2)" = "0 0 0 " ] || { cat out*; die "three hosts: $(codes 0 1 2)"; }
for i in 0 1 2; do
    has "^rank $((2 * i)) of 6 on node$i local 0 sum 15" out0
    has "^rank $((2 * i + 1)) of 6 on node$i local 1" out0
    has "^ranks $((2 * i))-$((2 * i + 1)) +host node$i +cores" out0
done
[ "$(stat -c %a .triax/launch.key)" = 600 ] || die "the key can be read by others"

# nodes without numbers
for i in 1 2 0; do on $i "$TRIAX" torchrun --nnodes 3 --rdzv_backend c10d --rdzv_id 5 --rdzv_endpoint node0:29502 plan >"out$i" 2>&1 & done
wait
[ "$(cat out? | grep -c '^rank . of 3')" -eq 3 ] || { cat out?; die "c10d"; }

# the example: one line a node
for i in 1 0; do
    NODE_RANK=$i MASTER_ADDR=node0 NPROC=1 on $i bash "$here/../../examples/pretrain_gpt_two_nodes.sh" --num-layers 2 >"out$i" 2>&1 &
done
wait
has '^rank 1 of 2 on node1 .* \[pretrain-gpt\] .*\[--num-layers\] \[2\]$' out0

# bad meetings
head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n' >other.key
chmod 600 other.key
on 0 "$TRIAX" torchrun --nnodes 2 --node_rank 0 --master_addr node0 --rdzv_conf timeout=2 plan >out0 2>&1 &
TRIAX_LAUNCH_KEY_FILE=$work/other.key on 1 "$TRIAX" torchrun --nnodes 2 --node_rank 1 --master_addr node0 --rdzv_conf timeout=4 plan >out1 2>&1 &&
    die "another key is taken"
has 'node0:29500 has another key than .*/other.key; .* scp -p ' out1
wait $! && die "node 0 did without node 1"
has 'node 1 of 2 did not come to node0:29500 within 2 s' out0
on 1 "$TRIAX" torchrun --nnodes 2 --node_rank 1 --master_addr node2 --rdzv_conf timeout=1 plan >out1 2>&1 && die "nobody is taken for node 0"
has 'node 0 does not answer at node2:29500 \(Connection refused\), tried for 1 s' out1
on 0 "$TRIAX" torchrun --nnodes 2 --node_rank 0 --master_addr node0 plan --a >out0 2>&1 &
on 1 "$TRIAX" torchrun --nnodes 2 --node_rank 1 --master_addr node0 plan --b >out1 2>&1 && die "other flags are taken"
wait $! && die "other flags are taken"
has 'node1 was given another script or other flags' out0
has 'node1 was given another script or other flags' out1

echo "passed in $SECONDS s"
