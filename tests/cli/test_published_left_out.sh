#!/bin/bash
# labels: cli extended
# What the page says of predictions for a source by numbers that were fitted without it is so.
. "$(dirname "$0")/lib.sh"
[ -x "${FIT_MACHINES:-none}" ] || { echo "skipped: FIT_MACHINES does not name the program"; exit 77; }
source=$(cd "$(dirname "$0")/../.." && pwd)
"$FIT_MACHINES" --machines "$source/machines" --data "$source/machines/published.csv" --leave-one-out --quiet \
    --check "$source/docs/howto/predict-runs.md" >out 2>err || { cat out err >&2; die "the page is not what fitting gives"; }
