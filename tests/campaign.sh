#!/bin/bash
# campaign.sh BUILD - the whole matrices of which the tests take samples: every layout, ZeRO stage and pair of layouts
# (tests/parallel/all.sh), every way to break a save (tests/fault/all.sh), every failing allocation of the public functions,
# and the fuzzers for a minute each. A table at the end says what was run. Over an hour on two cores.
set -uo pipefail
build=$(cd "${1:?usage: campaign.sh BUILD}" && pwd) || exit 2
here=$(cd "$(dirname "$0")" && pwd)
export TX_DATA=$here/data TRIAX=$build/triax OMP_WAIT_POLICY=passive HWLOC_COMPONENTS=-pci
table="" code=0

# part WHAT COMMAND...
part() {
    local what=$1 start=$SECONDS end=passed
    shift
    printf '\n== %s\n' "$what"
    "$@" || end=FAILED code=1
    table+=$(printf '%-60s %6d s  %s' "$what" $((SECONDS - start)) "$end")$'\n'
}

part "layouts, ZeRO's stages, pairs of layouts" bash "$here/parallel/all.sh" "$build"
part "breaking saves" bash "$here/fault/all.sh" "$build"
part "every allocation of the public functions fails" env TX_TEST_EVERY_ALLOCATION=1 "$build/test_lifetime"
part "fuzzers, 60 s each" bash "$here/fuzz/run.sh" 60
printf '\n%s' "$table"
exit $code
