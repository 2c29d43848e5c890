# lib.sh - sourced by the tests with several hosts: network namespaces joined by a bridge, each with a name of its own, so
# that for MPI, Slurm and torchrun they are hosts. Needs root; skips aloud where something is missing.
#   hosts_up N          makes node0 .. node<N-1>, 10.x.0.1 ...; taken down at the end
#   on I COMMAND...     runs a command on node I
set -u
skip() { echo "skipped: $*"; exit 77; }
die() { echo "FAILED: $*" >&2; exit 1; }

[ -x "${TRIAX:-none}" ] || skip "TRIAX does not name the program"
[ -x "${RANK_HELLO:-none}" ] || skip "no program of MPI's was built (libopenmpi-dev)"
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || skip "there is no mpirun (openmpi-bin)"
case $("$mpirun" --version 2>&1) in *"(Open MPI)"* | *"(OpenRTE)"*) ;; *) skip "mpirun is not Open MPI's" ;; esac

work=$(mktemp -d /tmp/txdist-XXXXXX)
tag=t$$
export HOME=$work TX_LAUNCH_PROGRAM=$RANK_HELLO TX_HOSTS_TAG=$tag TX_HOSTS_FILE=$work/hosts
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=detect_leaks=0 # Open MPI's own
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$work"

hosts_down() {
    local n pid
    for n in $(ip netns list 2>/dev/null | awk -v t="^$tag" '$1 ~ t {print $1}'); do
        for pid in $(ip netns pids "$n"); do kill -9 "$pid"; done
        ip netns del "$n"
    done
    ip link del "${tag}b" 2>/dev/null
    rm -rf "$work"
}
trap hosts_down EXIT

hosts_up() {
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    command -v ip >/dev/null && command -v nsenter >/dev/null || skip "there is no ip or nsenter"
    ip link add "${tag}b" type bridge 2>/dev/null || skip "no network bridge can be made here"
    ip link set "${tag}b" up
    net=10.$(($$ % 200 + 20)).$(($$ / 200 % 250))
    echo "127.0.0.1 localhost" >hosts
    local i
    for i in $(seq 0 $(($1 - 1))); do echo "$net.$((i + 1)) node$i" >>hosts; done
    for i in $(seq 0 $(($1 - 1))); do
        ip netns add "$tag$i" && ip link add "${tag}v$i" type veth peer name eth0 netns "$tag$i" || skip "no network namespace can be made here"
        ip link set "${tag}v$i" master "${tag}b" up
        ip -n "$tag$i" link set lo up
        ip -n "$tag$i" addr add "$net.$((i + 1))/24" dev eth0
        ip -n "$tag$i" link set eth0 up
    done
}

on() { bash "$here/on_host.sh" "node$1" "${@:2}"; }

# What of a job is left on any node after a moment; "" is right.
left_over() {
    local i n
    for i in $(seq 20); do
        n=$(for ns in $(ip netns list | awk -v t="^$tag" '$1 ~ t {print $1}'); do ip netns pids "$ns"; done |
            while read -r pid; do tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline"; echo; done | grep -E 'rank_hello|orted|mpirun|torchrun' || true)
        [ -z "$n" ] && return
        sleep 0.1
    done
    echo "$n"
}

has() { grep -qE -- "$1" "$2" || { cat "$2" >&2; die "$2 does not have \"$1\""; }; }

# The last line that is not a rank's greeting: that comes by another pipe, and may come late.
last() { grep -vE '^rank [0-9]+ of ' "$1" | tail -1; }

# job N FLAGS... : torchruns on nodes N-1 .. 0 that run what follows; their output is in out<i>, exit codes in code<i>
job() {
    local n=$1 i
    shift
    for i in $(seq $((n - 1)) -1 0); do
        { on "$i" "$TRIAX" torchrun --nnodes "$n" --node_rank "$i" --master_addr node0 --rdzv_conf timeout=20 "$@" >"out$i" 2>&1
          echo $? >"code$i"; } &
    done
}
codes() { local i; for i in "$@"; do printf '%s ' "$(cat "code$i")"; done; }
started() { # N: that many ranks have spoken
    local i
    for i in $(seq 200); do [ "$(grep -c '^rank [0-9]* of' out0)" -ge "$1" ] && return; sleep 0.05; done
    cat out* >&2
    die "$1 ranks did not start"
}
pids() { local ns; for ns in $(ip netns list | awk -v t="^$tag" '$1 ~ t {print $1}'); do ip netns pids "$ns"; done; }
pid_of() { # PATTERN: the last process on any node whose command line has it
    local pid
    for pid in $(pids | sort -n); do grep -qazE -- "$1" <(tr '\0' ' ' <"/proc/$pid/cmdline") 2>/dev/null && echo "$pid"; done | tail -1
}
within() { [ $((SECONDS - began)) -le "$1" ] || die "$2 took $((SECONDS - began)) s, not $1"; }
clean() { local l; l=$(left_over); [ -z "$l" ] || die "$1 leaves: $l"; }
