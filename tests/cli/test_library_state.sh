#!/bin/bash
# labels: cli
# What of the library belongs to the whole process: its variables, and calls that print or end it. docs/decisions/abi.md
. "$(dirname "$0")/lib.sh"
build=$(dirname "$TRIAX") source=$(cd "$(dirname "$0")/../.." && pwd)
archive=$build/libtriax_static.a # the shared library's objects
if nm "$archive" 2>/dev/null | grep -E ' U __(asan|tsan)| __llvm_profile' >/dev/null; then
    echo "skipped: sanitizers and counters of coverage have variables of their own"
    exit 77
fi

# Variables, by file: what may be written while the library runs, and why that is the process's.
cat >allowed <<'END'
alloc.c current          the allocator: tests replace it
alloc.c n_allocs         number of allocations, atomic
bert_words.c bmp_flags   a table that the first who needs it fills, once
bert_words.c bmp_fold    likewise
bert_words.c bmp_once    likewise
char_class.c bmp_once    likewise
char_class.c tx__bmp_bits likewise
char_class.c tx__bmp_class likewise
char_class.c tx__char_class_ready likewise
comm_calls.c tx_comm_self      the group of one: never written, but passed as groups are
cores.c found            the process's number of cores, found once; atomic
cpu_backend.c line       of each thread: a text to be returned
cpu_gemm.c known         what oneDNN takes the processor's instructions for, asked once; atomic
gpu_module.c found       the module, opened once
gpu_module.c lock        of those around it
gpu_module.c where       in what none was found, so that it is not searched again
gpu_module.c why         likewise
hf_chars.c once          as in char_class.c
hf_chars.c tx__hf_bmp    likewise
hash_table.c once        a secret of the process, taken once
hash_table.c seed        likewise
log.c lock               the client's sink of messages
log.c own_copy           of each thread: the run's own log file
log.c own_rank           of each thread: its rank, for the line's beginning
log.c sink               the client's sink
log.c sink_is_live       likewise
log.c sink_level         likewise
log.c sink_user          likewise
shared.c blocks          which memory other processes can reach, by address; behind a lock
shared.c cap_blocks      likewise
shared.c enabled         likewise: ranks are processes
shared.c lock            likewise
shared.c n_blocks        likewise
signals.c before         signals are the process's: what was before a job held them
signals.c seen           which has come
signals.c watch          a run's: handlers have no handle
signals.c watch_lock     of the one above
status.c error_text      likewise
text_pattern.c onig_once the library of regular expressions is made ready once
END
# Variables that belong to a function are called NAME.NUMBER by gcc, FUNCTION.NAME by clang.
objdump -t "$archive" | awk '
    /file format/ { file = $1; sub(/:$/, "", file); sub(/\.o$/, "", file) }
    { for (i = 1; i <= NF; i++)
        if ($i ~ /^\.(data|bss|tdata|tbss)/ && $i !~ /^\.data\.rel\.ro/ && $NF !~ /^\./ && $i != $NF) {
            name = $NF; sub(/\.[0-9]+$/, "", name); sub(/^.*\./, "", name)
            print file, name; break } }' | sort -u >written
awk '{ print $1, $2 }' allowed | sort -u | diff - written ||
    die "writable variables that are not listed here, or listed and gone: state belongs to a handle"

# Calls that end the process or print to its streams, by file.
cat >allowed <<'END'
status.c abort           a bug in triax itself
status.c stderr          likewise
supervise.c _exit        the child of a launcher, before it is another program
supervise.c dprintf      likewise
END
nm -A -u "$archive" | awk '{ n = split($1, part, ":"); file = part[n - 1] != "" ? part[n - 1] : part[n]
    sub(/\.o$/, "", file); sub(/@.*/, "", $NF); print file, $NF }' |
    grep -E ' (_?_?exit|_Exit|quick_exit|abort|__assert_fail|(__)?v?d?printf(_chk)?|puts|putchar|perror|psignal|v?warnx?|v?errx?|error|stdout|stderr|system)$' |
    sort -u >calls
awk '{ print $1, $2 }' allowed | sort -u | diff - calls || die "the library prints or ends its process elsewhere"
# ... and those who write to its descriptors
cat >allowed <<'END'
src/data/text_jobs.c
src/launch/supervise.c
END
(cd "$source" && grep -rlE 'STD(OUT|ERR)_FILENO|\bwrite\((1|2),' src --include='*.c' | sort) | diff allowed - ||
    die "who writes to standard output or standard error"
echo "all passed"
