#!/bin/bash
# test.sh - installs what the tests need, builds, runs every test.
#   ./test.sh              the release build
#   ./test.sh asan         another preset of CMakePresets.json; without the pages and examples of docs, whose commands are the
#                          other tests' too, cuDNN's plans, whose program has no sanitizer, and processes with GPUs: threads
#                          with GPUs and processes without are there
#   ./test.sh clang        another: of its tests those in which numbers or a room's functions are checked. Its warnings are
#                          of everything; what ranks, jobs and commands do, gcc's two builds run, and a compiler's fault
#                          would show in the functions below
#   ./test.sh tsan         another: of its tests those in which ranks are threads, which alone are built
set -euo pipefail
cd "$(dirname "$0")"
. tools/packages.sh
preset=${1:-release}
extra=""
only=""
[ "$preset" = clang ] && extra="clang libomp-dev"
[ "$preset" = asan ] && only="-E cli_test_howto|cli_test_bert_example|cudnn_sdpa_plans|cli_test_gpu_ranks"
[ "$preset" = clang ] && only="-L unit|op|golden -LE parallel|fault"
[ "$preset" = tsan ] && only="-L threads"
need_packages $BUILD_PACKAGES g++ libcmocka-dev xz-utils curl $extra

run cmake --preset "$preset" -DTX_TESTS=ON -DCMAKE_RULE_MESSAGES=OFF ${CI:+-DTX_WERROR=ON} >/dev/null
targets=all
[ "$preset" = tsan ] && targets=$(ctest --preset tsan -N $only | sed -n 's/^ *Test *#[0-9]*: //p')
run cmake --build --preset "$preset" -j "$(nproc)" --target $targets -- --no-print-directory
run ctest --preset "$preset" -j "$(nproc)" $only
