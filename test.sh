#!/bin/bash
# test.sh - installs what the tests need, builds, and runs them.
#   ./test.sh              the default set of the release build; it says which tests it leaves out;
#                          with TX_SAMPLES_LATER=1 those that take samples, too, which `more` behind it has take them whole
#   ./test.sh all          all tests of the release build, with whole samples
#   ./test.sh more         of these what the default set leaves out: behind ./test.sh the rest of ./test.sh all
#   ./test.sh root         of these what looks at something only as root
#   ./test.sh asan         the default set by clang, under AddressSanitizer and UndefinedBehaviorSanitizer, without whole
#                          models whose numbers are checked, a transcript, a terminal, and ranks as processes, which are looked at as
#                          threads: it is the layers and ops in them that are looked at, one by one
#   ./test.sh tsan         of the default set the tests in which ranks are threads, under ThreadSanitizer
# Samples of combinations are drawn anew each day: by the day of the last commit, or by TX_TEST_SEED.
set -euo pipefail
cd "$(dirname "$0")"
. tools/packages.sh
set=${1:-default}
preset=release extended=OFF packages="" select=() target=all
case $set in
default) [ -z "${TX_SAMPLES_LATER:-}" ] || select=(-LE sampled) ;;
all) extended=ON packages=$ROOT_PACKAGES ;;
more) extended=ON select=(-L 'extended|sampled') ;;
root) extended=ON packages=$ROOT_PACKAGES select=(-L root) ;;
asan) preset=asan packages=$CLANG_PACKAGES select=(-E 'test_golden_|test_precision|test_recompute|cli_test_readme|cli_test_mpi_layouts|cli_test_comm_mpich|cli_test_transports|cli_test_signals_ranks|cli_test_terminal') ;;
tsan) preset=tsan select=(-L threads) target=thread_tests ;;
*) sed -n '2,13p' "$0"; exit 2 ;;
esac
need_packages $BUILD_PACKAGES $TEST_PACKAGES $packages
export TX_TEST_SEED=${TX_TEST_SEED:-$(git log -1 --format=%cd --date=format:%Y%m%d 2>/dev/null || echo 0)}

run cmake --preset "$preset" -DTX_TESTS=ON -DTX_EXTENDED=$extended -DCMAKE_RULE_MESSAGES=OFF ${CI:+-DTX_WERROR=ON} >/dev/null
run cmake --build --preset "$preset" -j "$(nproc)" --target "$target" -- --no-print-directory
# more at a time than there are processors: many wait for others
run ctest --preset "$preset" -j "$((2 * $(nproc)))" "${select[@]}"
echo "samples were drawn with TX_TEST_SEED=$TX_TEST_SEED"
if [ "$set" = default ]; then
    printf '\nLeft to ./test.sh all, besides larger samples:\n'
    grep -lE 'labels:.* extended' tests/*/test_*.{c,sh} | sed 's,^,    ,'
fi
