#!/bin/bash
# labels: extended parallel fault root
# triax torchrun on three hosts: whatever dies, the job ends on all of them, within seconds and with the right last word.
. "$(dirname "$0")/lib.sh"
hosts_up 3
# jobs sleep for 50 s: on a machine three times as slow, too, an end within 30 is none of theirs

# a rank fails, a rank is killed, a torchrun is killed: the job ends on all nodes
job 3 plan --fail 1 7 --sleep 50
began=$SECONDS; wait; within 30 "a rank's failure"
[ "$(codes 0 1 2)" = "7 7 7 " ] || die "codes $(codes 0 1 2), not 7"
[ "$(last out0)" = "rank 1 fails on purpose" ] || { cat out0; die "the rank's own message is not the last"; }
clean "a rank's failure"

job 3 --nproc_per_node 2 plan --sleep 50; started 6
began=$SECONDS; kill -9 "$(pid_of "$RANK_HELLO plan --sleep")"; wait; within 30 "kill -9 of a rank"
[ "$(codes 0 1 2)" = "137 137 137 " ] || die "codes $(codes 0 1 2), not 137"
last out0 | grep -qE '^error: rank [0-5] on node[012] was ended by signal 9 \(Killed\), and with it the job$' || { cat out0; die "killed rank"; }
clean "kill -9 of a rank"

for i in 1 0; do
    job 3 plan --sleep 50; started 3
    began=$SECONDS; kill -9 "$(pid_of "^$TRIAX torchrun --nnodes 3 --node_rank $i")"; wait; within 30 "kill -9 of torchrun $i"
    has "(the torchrun on node1|node 0 at node0:29500) does not answer any more" out2
    clean "kill -9 of torchrun $i"
done

# SIGTERM on any node: the ranks are told and save; those of commands that know of no signal end
for i in 0 2; do
    job 3 pretrain_gpt.py --sleep 50 --saves saved; started 3
    began=$SECONDS; kill -TERM "$(pid_of "^$TRIAX torchrun --nnodes 3 --node_rank $i")"; wait; within 30 "SIGTERM"
    [ "$(codes 0 1 2)" = "0 0 0 " ] && [ "$(cat saved)" = saved ] || { cat out*; die "SIGTERM on node $i: $(codes 0 1 2)"; }
    rm saved
    clean "SIGTERM"
done
job 3 plan --sleep 50; started 3
kill -TERM "$(pid_of "^$TRIAX torchrun --nnodes 3 --node_rank 1")"; wait
[ "$(codes 0 1 2)" = "143 143 143 " ] || die "SIGTERM, unheard: $(codes 0 1 2), not 143"

# a link goes down: both sides of it notice
job 3 plan --sleep 50; started 3
began=$SECONDS; ip -n "${tag}2" link set eth0 down; wait; within 30 "a link that went down"
has 'the torchrun on node2 does not answer any more' out0
has 'node 0 at node0:29500 does not answer any more' out2
clean "a link that went down"
echo "passed in $SECONDS s"
