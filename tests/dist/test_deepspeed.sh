#!/bin/bash
# labels: extended parallel fault root
# triax deepspeed: this host, hostfiles with filters, hosts that do not answer; nsenter stands for ssh.
. "$(dirname "$0")/lib.sh"

"$TRIAX" deepspeed --num_gpus 2 x/pretrain_gpt.py --a "b c" >out 2>&1 || { cat out; die "two ranks here"; }
[ "$(grep -c '^rank . of 2 .* \[pretrain-gpt\] \[--a\] \[b c\]$' out)" -eq 2 ] || { cat out; die "not two ranks"; }
"$TRIAX" deepspeed --include localhost:0 plan >out 2>&1 || { cat out; die "--include localhost:0"; }
has '^rank 0 of 1 ' out
"$TRIAX" deepspeed --dry-run --num_gpus 1 plan >out 2>&1 || { cat out; die "--dry-run of one rank"; }
has '^rank 0 +host [^ ]+ +cores [0-9]' out
"$TRIAX" deepspeed --dry-run --num_gpus 2 plan >out 2>&1 || { cat out; die "--dry-run of two ranks"; }
has '^ranks 0-1 +host [^ ]+ +cores [0-9]' out

refused() { # TEXT FLAGS...
    local text=$1
    shift
    "$TRIAX" deepspeed "$@" plan >out 2>&1 && die "deepspeed $* is taken"
    grep -qF -- "$text" out || { cat out; die "deepspeed $* does not say \"$text\""; }
}
printf 'a slots=2\nb slot=2\n' >typo
refused 'typo:2: "b slot=2" is not "host slots=N"' -H typo
refused 'nofile: cannot open' --hostfile nofile
printf 'node0 slots=2\nnode1 slots=3\nnode2 slots=1\n' >hostfile
refused -- '--include: host "node7" is not in the hostfile' -H hostfile --include node7
refused '--include and --exclude cannot both be given' -H hostfile --include node1 --exclude node2
refused '--num_nodes and --num_gpus cannot be given with' -H hostfile --include node1 --num_gpus 1
refused 'did you mean --num_nodes?' --num_node 2
refused 'triax torchrun, started on each of them, needs none' -H hostfile --no_ssh

hosts_up 3
export OMPI_MCA_plm_rsh_agent=$here/agent.sh
echo 'HANDED=over' >.deepspeed_env
OMP_NUM_THREADS=3 on 0 "$TRIAX" deepspeed -H hostfile pretrain_gpt.py >out 2>&1 || { cat out; die "three hosts"; }
for line in "0 of 6 on node0 local 0" "1 of 6 on node0 local 1" "2 of 6 on node1 local 0" "4 of 6 on node1 local 2" "5 of 6 on node2 local 0"; do
    has "^rank $line sum 15 .* OMP_NUM_THREADS 3 .* HANDED over DEVICES none " out
done
on 0 "$TRIAX" deepspeed -H hostfile --include node1:0,2@node2 plan >out 2>&1 || { cat out; die "--include"; }
has '^rank 0 of 3 on node1 local 0 .* DEVICES 0,2 ' out
has '^rank 1 of 3 on node1 local 1 .* DEVICES 0,2 ' out
has '^rank 2 of 3 on node2 local 0 .* DEVICES 0 ' out
on 0 "$TRIAX" deepspeed -H hostfile --include node1:2@node2@node1:0,2 plan >out 2>&1 || { cat out; die "--include of a host twice"; }
has '^rank 1 of 3 on node1 local 1' out
has '^rank 2 of 3 on node2 local 0' out
on 0 "$TRIAX" deepspeed -H hostfile --num_nodes 2 --num_gpus 1 plan >out 2>&1 || { cat out; die "--num_nodes"; }
has '^rank 1 of 2 on node1' out
unset OMPI_MCA_plm_rsh_agent
on 0 "$TRIAX" deepspeed -H hostfile --launcher_args "--mca plm_rsh_agent $here/agent.sh" plan >out 2>&1 || { cat out; die "--launcher_args"; }
has '^rank 5 of 6 on node2' out
export OMPI_MCA_plm_rsh_agent=$here/agent.sh

# who does not answer is named
printf 'node0 slots=1\nnode9 slots=1\n' >silent
began=$SECONDS
on 0 "$TRIAX" deepspeed -H silent --start-timeout 2 plan >out 2>&1 && die "a silent host is taken"
[ $((SECONDS - began)) -le 10 ] || die "a silent host took $((SECONDS - began)) s"
has 'host node9 does not answer: .* has started nothing there within 2 s' out
printf 'node0 slots=1\nnode7 slots=1\n' >unknown
on 0 "$TRIAX" deepspeed -H unknown plan >out 2>&1 && die "an unknown host is taken"
has 'host node7: nothing could be started there: .* ended with code 255' out

# a rank fails
on 0 "$TRIAX" deepspeed -H hostfile plan --fail 4 7 --sleep 50 >out 2>&1
[ $? -eq 7 ] || die "the exit code is not the rank's"
[ "$(last out)" = "rank 4 fails on purpose" ] || { cat out; die "the rank's own message is not the last"; }
l=$(left_over); [ -z "$l" ] || die "left: $l"
echo "passed in $SECONDS s"
