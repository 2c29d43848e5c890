#!/bin/bash
# run.sh - builds the fuzz targets and runs each on its corpus, then on what libFuzzer makes of it.
#   tests/fuzz/run.sh [SECONDS per target, 5] [NAME ...]      NAME: of fuzz_<NAME>.c; default all
# Inputs that reach new code and inputs that fail are written to build/fuzz/corpus/<name> and build/fuzz/findings. An input
# that failed belongs into tests/fuzz/corpus/<name> together with the fix.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/packages.sh
need_packages $BUILD_PACKAGES $TEST_PACKAGES $CLANG_PACKAGES
seconds=${1:-5}
shift $(($# ? 1 : 0))

names=("$@") built=("${@/#/fuzz_}")
if [ ${#names[@]} -eq 0 ]; then
    built=(fuzzers) # all of them; one by one make would look at the whole library for each
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        names+=("${name%.c}")
    done
fi
run cmake --preset asan -DCMAKE_RULE_MESSAGES=OFF ${CI:+-DTX_WERROR=ON} >/dev/null
run cmake --build --preset asan -j "$(nproc)" --target "${built[@]}" -- --no-print-directory

at_a_time=$(nproc) # asked before: nproc counts no more than OMP_NUM_THREADS
export TX_DATA=$PWD/tests/data OMP_NUM_THREADS=1
mkdir -p build/fuzz/findings

# fuzz NAME: prints what came of it
fuzz() {
    local name=$1 new=build/fuzz/corpus/$1 log=build/fuzz/$1.log runs
    mkdir -p "$new"
    # -timeout: no input takes 10 s; -rss_limit_mb: no input makes a parser take memory that it does not need
    if build/asan/fuzz_"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=8192 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/findings/$name-" "$new" tests/fuzz/corpus/"$name" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        printf '%-12s %9d inputs, %4d kept as new: clean\n' "$name" "$runs" "$(sed -n 's/^stat::new_units_added: *//p' "$log")"
    else
        printf '%-12s FAILED, see %s:\n%s\n' "$name" "$log" "$(
            grep -E 'ERROR:|runtime error|last error|^.*fuzz_.*\.[ch]:[0-9]+:|Test unit written' "$log" | head -8 | sed 's/^/    /')"
        return 1
    fi
}
export -f fuzz
export seconds
printf '%s\n' "${names[@]}" | xargs -P "$at_a_time" -I{} bash -c 'fuzz {}' || { echo "some have failed: see above"; exit 1; }
