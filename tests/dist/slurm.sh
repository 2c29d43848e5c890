# slurm.sh - sourced behind lib.sh: a real Slurm on the hosts of hosts_up.
#   slurm_up N     slurmctld on node0, slurmd on node0 .. node<N-1>; ends with the test
for c in srun sbatch slurmctld slurmd munged pgrep; do
    command -v $c >/dev/null || [ -x /usr/sbin/$c ] || skip "there is no $c (slurm-wlm, slurm-wlm-basic-plugins, munge, procps)"
done
[ "$(id -u)" -eq 0 ] || skip "Slurm's daemons need root here"
PATH=$PATH:/usr/sbin
. "$here/again.sh"

slurm_down() {
    local f
    for f in "$work"/slurm/*.pid; do [ -s "$f" ] && kill "$(cat "$f")" 2>/dev/null; done
    [ "${munge_pid:-}" ] && kill "$munge_pid" 2>/dev/null
    sleep 0.3
    hosts_down
}

slurm_up() {
    local n=$1 i s=$work/slurm
    trap slurm_down EXIT
    chmod 755 "$work"
    if ! munge -n >/dev/null 2>&1; then
        install -d -o munge -g munge -m 755 /run/munge
        runuser -u munge -- munged --force || skip "munged does not start"
        munge_pid=$(pgrep -n -x munged)
    fi
    mkdir -p "$s/state"
    for i in $(seq 0 $((n - 1))); do mkdir -p "$s/spool.node$i" "$s/tmp.node$i"; done
    cat >"$s/slurm.conf" <<C
ClusterName=tx
SlurmctldHost=node0($net.1)
SlurmctldPort=$((20000 + $$ % 10000))
SlurmdPort=$((30000 + $$ % 10000))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmctldPidFile=$s/ctld.pid
SlurmdPidFile=$s/slurmd.%n.pid
SlurmdSpoolDir=$s/spool.%n
TmpFS=$s/tmp.%n
StateSaveLocation=$s/state
SlurmctldLogFile=$s/ctld.log
SlurmdLogFile=$s/slurmd.%n.log
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdTimeout=5
KillWait=5
SlurmdParameters=config_overrides
JobRequeue=1
NodeName=node[0-$((n - 1))] CPUs=8 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
C
    export SLURM_CONF=$s/slurm.conf
    on 0 slurmctld -c
    for i in $(seq 0 $((n - 1))); do on "$i" slurmd -N "node$i"; done
    for i in $(seq 100); do
        [ "$(on 0 sinfo -h -N -o %T 2>/dev/null | sort -u)" = idle ] && return
        sleep 0.2
    done
    cat "$s"/*.log >&2
    skip "Slurm's nodes do not come up here"
}
