#!/bin/bash
# labels: cli
# The page of predicted and measured times is that of the machine files and of the time model as they are.
. "$(dirname "$0")/lib.sh"
[ -x "${FIT_MACHINES:-none}" ] || { echo "skipped: FIT_MACHINES does not name the program"; exit 77; }
source=$(cd "$(dirname "$0")/../.." && pwd)
fit=("$FIT_MACHINES" --machines "$source/machines" --quiet)

# wrong TEXT FILE: runs of this file are refused in a line with TEXT
wrong() {
    ! "${fit[@]}" --data "$2" >out 2>err || die "$2 is taken"
    grep -qF "$1" err || { cat err >&2; die "does not say \"$1\""; }
}

"${fit[@]}" --data "$source/machines/published.csv" --check "$source/docs/howto/predict-runs.md" >out 2>err ||
    { cat out err >&2; die "the page is not that of the machine files"; }
grep -q '^    bloom ' out || die "does not judge BLOOM's runs"

# a page that tells something else is noticed
sed 's/these five is \*\*/&9/' "$source/docs/howto/predict-runs.md" >page.md
! "${fit[@]}" --data "$source/machines/published.csv" --check page.md >out 2>err || die "a wrong page is taken"
grep -qF 'page.md: "The mean error of these five is **9' err || { cat err >&2; die "does not say what the page tells"; }

# so is a file of runs that is none
head -3 "$source/machines/published.csv" >three.csv
sed '1d' three.csv >headless.csv
wrong "its first line is not" headless.csv
sed '3s/,.*//' three.csv >short.csv
wrong "row 2 has 1 fields, not 13" short.csv
sed '3s/a100-80g/a100-81g/' three.csv >unknown.csv
wrong "a100-81g" unknown.csv
sed '3s/--num-layers 30/--num-layers 30 --no-such-flag/' three.csv >flags.csv
wrong "row 2: " flags.csv
