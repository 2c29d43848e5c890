#!/bin/bash
# all.sh BUILD [PARTS [PART ...]] - trains every combination of tests/parallel/layout_cases.h that all_of in
# test_layouts.c names beside one rank, every one that all_of in test_zero.c names beside stage 0, and every pair of
# test_any_to_any.c, and counts. Takes about forty minutes on two cores; in PARTS parts, of which only those numbered
# PART (from 0) are run.
set -uo pipefail
build=${1:?usage: all.sh BUILD [PARTS [PART ...]]}
parts=${2:-2}
shift $(($# > 2 ? 2 : $#))
[ $# -gt 0 ] || set -- $(seq 0 $((parts - 1)))
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export OMP_WAIT_POLICY=passive
failed_tests=0
for test in test_layouts test_zero test_any_to_any; do
    mkdir "$out/$test"
    printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} sh -c '"$1" all {} "$2" >"$3/{}" 2>&1 || true' sh "$build/$test" "$parts" \
        "$out/$test"
    cat "$out/$test"/*
    passed=0 failed=0 ended=0
    while read -r p f; do passed=$((passed + p)) failed=$((failed + f)) ended=$((ended + 1)); done \
        < <(sed -nE 's/.*combinations: ([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' "$out/$test"/*)
    echo "all.sh: $test: $passed passed, $failed failed in $ended of $# parts"
    [ "$failed" -eq 0 ] && [ "$ended" -eq $# ] || failed_tests=$((failed_tests + 1))
done
[ "$failed_tests" -eq 0 ]
