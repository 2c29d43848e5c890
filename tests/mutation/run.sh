#!/bin/bash
# run.sh - changes one line of src/ at a time and asks the tests whether they see it; a table of what they said.
#   tests/mutation/run.sh [--seed S, 1] [--count N, 30] [--list] [--unchecked] [--timeout SECONDS, 60] [--seconds N]
#                         PRESET [ARGUMENTS of ctest ...]
#
#   PRESET, ARGUMENTS  which build and which of its tests: "release -LE extended", "asan", "release -L unit"
#   --list             prints the mutants and ends
#   --unchecked        does not first make sure that all these tests pass on the tree as it is
#   --timeout          of a test: a mutant that hangs is caught by the first test that it keeps longer, and longer than five times
#                      what the test took when it last passed here
#   --seconds          ends with 3 when so many are over; the same command continues there. So does one that was interrupted
#   JOBS               tests and compilers at a time, all processors
#
# The tree is that of the last commit, copied to build/mutation. README.md says which lines are changed and how.
set -uo pipefail
seed=1 count=30 list= checked=1 timeout=60 seconds=
usage() { sed -n 's/^# \{0,1\}//; 2,4p' "$0" >&2; exit 2; }
number() { [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "run.sh: $1 takes a whole number, not \"${2:-}\"" >&2; exit 2; }; }
while [[ ${1:-} == --* ]]; do
    case $1 in
    --list) list=1 ;;
    --unchecked) checked= ;;
    --seed | --count | --timeout | --seconds) number "$1" "${2:-}" && printf -v "${1#--}" %s "$2" && shift ;;
    *) usage ;;
    esac
    shift
done
[ $# -ge 1 ] || [ "$list" ] || usage
preset=${1:-} jobs=${JOBS:-$(nproc)}
shift $(($# ? 1 : 0))
cd "$(dirname "$0")/../.." || exit 2
here=$PWD/tests/mutation
tests=("$@")

# mutants: "number room file line before after", by turns of a room each, a line of a file once
mutants() {
    git ls-files 'src/*.c' | grep -v '^src/backend/gpu/' | xargs awk -v seed="$seed" -f "$here/mutants.awk" |
        sort -t$'\t' -k2,2 -k1,1n -k6 | awk -F'\t' '!seen[$3 ":" $4]++ { print ++n[$2] "\t" $0 }' | sort -t$'\t' -k1,1n -k2,2n | cut -f 2-
}
if [ "$list" ]; then
    mutants | awk -F'\t' -v n="$count" 'NR <= n { printf "%s:%d\n    - %s\n    + %s\n", $3, $4, $5, $6 }'
    exit
fi

# ---- the copy ----
commit=$(git rev-parse --short=12 HEAD) || exit 2
memory=$PWD/build/mutation/$commit-$preset-$(cksum <<<"${tests[*]:-}" | cut -d' ' -f1)
tree=$PWD/build/mutation/tree
log=$memory/log
mkdir -p "$memory"
[ -d "$tree" ] || git clone -q --no-checkout . "$tree" || exit 2
exec 8>"$tree/.git/lock.mutation"
flock -n 8 || { echo "run.sh: another one is at work in $tree" >&2; exit 2; }
cd "$tree" || exit 2
git fetch -q origin HEAD && git checkout -q --force --detach "$commit" || exit 2
bin=$tree/build/$preset
stop() { cat "$log" >&2; echo "run.sh: $1" >&2; exit 2; }
# -Werror would refuse mutants that leave something unused
cmake --preset "$preset" -DTX_TESTS=ON -DTX_WERROR=OFF -DCMAKE_RULE_MESSAGES=OFF >"$log" 2>&1 || stop "cmake --preset $preset failed"
[ -d "$bin" ] || stop "preset $preset does not build in build/$preset"
ctest --preset "$preset" ${tests[@]+"${tests[@]}"} -N >"$log" 2>&1 || stop "ctest --preset $preset ${tests[*]:-} failed"
mapfile -t all < <(sed -n 's/^ *Test *#[0-9]*: \([^ ]*\).*/\1/p' "$log")
[ ${#all[@]} -gt 0 ] || stop "there is no test: ctest --preset $preset ${tests[*]:-}"

costs=$bin/Testing/Temporary/CTestCostData.txt # name, runs, mean seconds
mkdir -p "${costs%/*}" && touch "$costs"
end=$((SECONDS + ${seconds:-1000000000}))
in_time() { [ $SECONDS -lt $end ] || { echo "not finished: the same command continues" >&2; exit 3; }; }
build() { cmake --build --preset "$preset" -j "$jobs" "$@" -- --no-print-directory >"$log" 2>&1; }

# ordered ROOM: all tests, those of the room first, then those that took the least time
programs_of() {
    local name
    for name in "${all[@]}"; do [ ! -e "tests/$1/$name.c" ] && [ ! -e "tests/$1_room/$name.c" ] || echo "$name"; done
}
ordered() {
    { programs_of "$1" | sed 's/^/! /'; cat "$costs"; printf '? %s\n' "${all[@]}"; } |
        awk '$1 == "!" { cost[$2] = -1; next }
            $1 == "?" { printf "%f %s\n", $2 in cost ? cost[$2] : 1e6, $2; next }
            NF == 3 && !($1 in cost) { cost[$1] = $3 }' | sort -g -s | cut -d' ' -f2
}

# passes ID TEST...: all of them, those left out that passed before; else $by. A few at a time, so that a run may be cut off.
by=
passes() {
    local passed=$memory/$1.passed batch=() name code limit
    shift
    touch "$passed"
    for name in "$@" ""; do
        if [ "$name" ]; then
            grep -qxF "$name" "$passed" || batch+=("$name")
            [ ${#batch[@]} -ge $((3 * jobs)) ] || continue
        fi
        [ ${#batch[@]} -gt 0 ] || continue
        in_time
        code=0
        limit=$(awk -v most="$timeout" -v names="${batch[*]}" '
            BEGIN { n = split(names, name, " "); while (n) asked[name[n--]] }
            $1 in asked && 5 * $3 > most { most = 5 * $3 }
            END { print int(most) }' "$costs" /dev/null)
        sed -i -E "s/ TIMEOUT \"[0-9]+\"/ TIMEOUT \"$limit\"/" "$bin/CTestTestfile.cmake"
        ctest --preset "$preset" ${tests[@]+"${tests[@]}"} -j "$jobs" --timeout "$limit" --stop-on-failure \
            -R "^($(IFS='|' && echo "${batch[*]}"))\$" >"$log" 2>&1 || code=$?
        by=$(sed -nE 's/^\t *[0-9]+ - ([^ ]+) \((Skipped|Disabled|Not Run)?([^)]*)\).*/\1 \3/p' "$log" | sed -n '/ ./{p;q}')
        if [ $code -ne 0 ]; then
            [ "$by" ] || stop "ctest: exit $code"
            return 1
        fi
        printf '%s\n' "${batch[@]}" >>"$passed"
        batch=()
    done
}

if [ "$checked" ] && [ ! -e "$memory/unmutated" ]; then
    in_time
    build || stop "the tree as it is does not build"
    passes tree $(ordered "") || stop "$by of the tree as it is: nothing can be said of mutants"
    : >"$memory/unmutated"
fi

# What a file was compiled to, without what debuggers read.
code_of() {
    find "$bin" -path "*/$1.o" | sort | while read -r object; do
        strip -g -o "$memory/stripped" "$object" && cksum <"$memory/stripped"
    done
}

# judge ID ROOM FILE LINE AFTER: caught TEST, survived, or why there is nothing to judge
judge() {
    local id=$1 room=$2 file=$3 line=$4 after=$5 was programs
    build --target triax_static || stop "the tree as it is does not build"
    was=$(code_of "$file")
    awk -v line="$line" 'NR == FNR { after = $0; next }
        FNR == line { match($0, /^ */); print substr($0, 1, RLENGTH) after; next } { print }' <(printf '%s\n' "$after") "$file" >"$memory/mutant.c"
    cat "$memory/mutant.c" >"$file"
    build --target triax_static || { echo "does not compile"; return; }
    [ "$was" != "$(code_of "$file")" ] || { echo "the same code"; return; }
    programs=$(programs_of "$room")
    if [ "$programs" ]; then
        build --target $programs || { echo "does not compile"; return; }
        passes "$id" $programs || { echo "caught by $by"; return; }
    fi
    build || { echo "does not compile"; return; }
    passes "$id" $(ordered "$room") || { echo "caught by $by"; return; }
    echo survived
}

n=0 said=()
while [ $n -lt "$count" ] && IFS=$'\t' read -r key room file line before after; do
    id=$(basename "$file"):$line.$key
    if [ ! -e "$memory/$id" ]; then
        in_time
        git checkout -q --force . || exit 2
        start=$SECONDS
        # not in a subshell: what stops it stops all
        judge "$id" "$room" "$file" "$line" "$after" >"$memory/verdict"
        mv "$memory/verdict" "$memory/$id"
        rm -f "$memory/$id.passed"
        printf '%-40s %s, %d s\n' "$file:$line" "$(cat "$memory/$id")" $((SECONDS - start)) >&2
    fi
    verdict=$(cat "$memory/$id")
    case $verdict in
    caught* | survived) n=$((n + 1)) ;;
    esac
    said+=("$verdict"$'\t'"$file:$line"$'\t'"$before"$'\t'"$after")
done < <(mutants)
git checkout -q --force .

printf '%s\n' ${said[@]+"${said[@]}"} | awk -F'\t' '
    $1 ~ /^caught/ { caught++; what = $1 }
    $1 == "survived" { survived++; what = "SURVIVED" }
    $1 == "does not compile" { broken++; next }
    $1 == "the same code" { same++; next }
    { printf "%-40s %s\n    - %s\n    + %s\n", $2, what, $3, $4 }
    END { printf "%d mutants: %d caught, %d survived; left out: %d that do not compile, %d that are the same code\n",
        caught + survived, caught, survived, broken, same }'
