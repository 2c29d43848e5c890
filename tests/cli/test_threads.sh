#!/bin/bash
# labels: cli
# Where threads run: --cpu-bind, --threads, the user's own settings, affinity masks and launchers.
. "$(dirname "$0")/lib.sh"
unset OMP_NUM_THREADS OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY

# expect PATTERN [NAME=VALUE ...] COMMAND...: what doctor says of its threads; it is ended by its next line after that
expect() {
    local pattern=$1 said
    shift
    said=$({ env "$@" || true; } 2>/dev/null | sed -nE '/^  threads +/{s///p;q}')
    grep -Exq -- "$pattern" <<<"$said" || die "$*: threads \"$said\", not \"$pattern\""
}

mask=$(taskset -cp $$ | sed 's/.*: //')
one=${mask%%[,-]*}
expect "1 thread on core $one, node [0-9]+" taskset -c "$one" "$TRIAX" doctor
expect "1 thread, free to move among 1 processors" taskset -c "$one" "$TRIAX" doctor --cpu-bind none
expect "[0-9]+ threads?, free to move among [0-9]+ processors" "$TRIAX" doctor --cpu-bind none
expect "3 threads, free to move among 1 processors" taskset -c "$one" "$TRIAX" doctor --threads 3
expect "3 threads, free to move among 1 processors" OMP_NUM_THREADS=3 taskset -c "$one" "$TRIAX" doctor
expect "2 threads, free to move among [0-9]+ processors" OMP_PROC_BIND=false "$TRIAX" doctor --threads 2
expect "1 thread on core $one, node [0-9]+" OMP_PLACES="{$one}" "$TRIAX" doctor --threads 1
refused "--cpu-bind" doctor --cpu-bind socket

[ "$mask" = "${mask%%[,-]*}" ] && exit 0 # what follows needs two processors
expect "1 thread, free to move among [0-9]+ processors" "$TRIAX" doctor --threads 1
expect "1 thread on core $one, node [0-9]+" LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "$TRIAX" doctor --threads 1
expect "[0-9]+ threads? on cores? [0-9,-]+, node [0-9,-]+" OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "$TRIAX" doctor
