#!/bin/bash
# scoreboard.sh - the table of CPU speed by one command: of every row what triax does, what a peer does, and what this
# machine allows, all measured in this run.
#   bench/scoreboard.sh [--build FOLDER, build/release] [--out NAME, scoreboard] [--list] [ROW ...]
# Writes NAME.md and NAME.json, and the table to the terminal. A ROW is a name of --list or the beginning of one, such as
# "train"; without one all are measured. The programs of bench/ have to be built: cmake --build FOLDER --target bench triax.
#
# A turn is triax, peer and bound one after the other. A turn during which other processes, or other machines on the same
# host, took more than OTHERS % of the processors is thrown away and repeated. Figures are medians over the turns that are kept.
# A row whose peer is missing says so, and so does one that the machine was never left alone for.
#
#   TX_PEER_PYTHON  a Python that has the peers (torch, transformers, deepspeed, safetensors, gigatoken, tokenizers): each row
#                   needs its own; without it triax is measured alone
#   TURNS           3
#   OTHERS          2, %
#   TRIES           10 turns for each that is kept, at most
#   THREADS         the physical cores in use
#   TEXT            what is encoded; this project's own sources and pages
#   FOLDER          on the disk whose reading is measured; the current one
#   TINY            1: the smallest sizes, to see whether everything can be started
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=$root/build/release out=$PWD/scoreboard rows=() list=
while [ $# -gt 0 ]; do
    case $1 in
    --build | --out) [ $# -gt 1 ] || { echo "scoreboard.sh: $1 needs a value" >&2; exit 2; } ;;&
    --build) build=$2 && shift ;;
    --out) out=$(realpath -m "$2") && shift ;;
    --list) list=1 ;;
    -*) echo "scoreboard.sh: no option $1; --build, --out and --list are there" >&2; exit 2 ;;
    *) rows+=("$1") ;;
    esac
    shift
done
build=$(realpath -m "$build")
turns=${TURNS:-3} most=${OTHERS:-2} tries=${TRIES:-10} tiny=${TINY:-}
threads=${THREADS:-$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)}
folder=$(realpath -m "${FOLDER:-.}") peer=${TX_PEER_PYTHON:-}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none
vocab=$root/tests/data/token/gpt2-vocab.json merges=$root/tests/data/token/gpt2-merges.txt

# A group is a function below; it measures these rows together.
declare -A rows_of=(
    [encode]="encode-cold encode-again"
    [decode]="decode-fp32 decode-bf16 decode-int8 decode-q4"
    [all_reduce]="all-reduce-64"
    [checkpoint]="checkpoint-load checkpoint-load-2-ranks checkpoint-load-hf"
    [train_10m]="train-10m-fp32 train-10m-bf16"
    [train_256]="train-124m-4x256-fp32 train-124m-4x256-bf16"
    [train_1024]="train-124m-4x1024-fp32 train-124m-4x1024-bf16"
    [train_bert]="train-bert-8x128-fp32 train-bert-8x128-bf16"
    [norms]="norm-backward-fp32 norm-backward-bf16"
    [zero]="zero-0 zero-1 zero-2 zero-3"
    [preprocess]="preprocess-data"
)
groups="encode decode all_reduce checkpoint train_10m train_256 train_1024 train_bert norms zero preprocess"
if [ "$list" ]; then
    for g in $groups; do printf '%s\n' ${rows_of[$g]}; done
    exit 0
fi

# wanted ROW
wanted() {
    local name
    [ ${#rows[@]} -gt 0 ] || return 0
    for name in "${rows[@]}"; do [[ $1 != "$name"* ]] || return 0; done
    return 1
}
for name in "${rows[@]}"; do
    found=
    for g in $groups; do for row in ${rows_of[$g]}; do [[ $row != "$name"* ]] || found=1; done; done
    [ "$found" ] || { echo "scoreboard.sh: no row is called $name; --list shows them" >&2; exit 2; }
done
for program in triax tokenize generate all_reduce checkpoint train ceiling op_bench peak; do
    [ -x "$build/$program" ] ||
        { echo "scoreboard.sh: $build has no $program: cmake --build $build --target bench triax" >&2; exit 2; }
done
work=$(mktemp -d) && disk=$(mktemp -d "$folder/scoreboard-XXXXXX") || exit 1
trap 'rm -rf "$work" "$disk"' EXIT
cd "$work" || exit 1

# ---- turns ----

# Ticks of the processors, of all and of this shell's children that are through.
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat; }
own() { awk '{ print $16 + $17 }' "/proc/$$/stat"; }
ticks=$(getconf CLK_TCK) cores=$(nproc --all)

# take FUNCTION: so many turns of it. It runs commands and notes figures (note); returns 1 where it fails.
take() {
    local i=0 left=$((turns * tries)) b o start
    kept=0 thrown=0
    rm -f noted.* now.*
    while [ $kept -lt "$turns" ] && [ $((left--)) -gt 0 ]; do
        b=$(busy) o=$(own) start=$EPOCHREALTIME
        rm -f now.*
        "$1" || { echo "scoreboard.sh: $1 fails:" >&2; tail -n 20 log >&2; return 1; }
        if awk -v n="$(($(busy) - b - $(own) + o))" -v t="$ticks" -v a="$start" -v z="$EPOCHREALTIME" -v c="$cores" -v m="$most" \
            'BEGIN { exit !(100 * n / t / (z - a) / c > m) }'; then
            thrown=$((thrown + 1))
            continue
        fi
        for i in now.*; do [ ! -e "$i" ] || cat "$i" >>"noted.${i#now.}"; done
        kept=$((kept + 1))
    done
    [ $kept -gt 0 ]
}
# run COMMAND...: its output is in log
run() { "$@" >log 2>errors || { cat errors >>log; return 1; }; }
# note KEY VALUE: a figure of this turn; nothing where there is none
note() { [ -z "${2:-}" ] || echo "$2" >>"now.$1"; }
# find PATTERN: what its group has in the first line of log that matches
find_in_log() { sed -nE "s/$1/\\1/p" log | head -n 1; }
median() { [ ! -s "noted.$1" ] || sort -g "noted.$1" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
has() {
    local module
    [ "$peer" ] || return 1
    for module; do
        DS_ACCELERATOR=cpu "$peer" -c "import importlib.util as u, sys; sys.exit(not u.find_spec('$module'))" 2>/dev/null || return 1
    done
}

# give ROW UNIT more|less OURS PEER THEIRS BOUND LIMIT [SHARE]: a line of the table. `more`: higher is better. Empty: there is
# none. SHARE: of the bound in %, where it is not OURS and LIMIT alone that say it.
give() {
    wanted "$1" || return 0
    awk -v OFS='\t' -v row="$1" -v unit="$2" -v more="$3" -v ours="$4" -v peer="$5" -v theirs="$6" -v bound="$7" -v limit="$8" \
        -v share="${9:-}" -v kept="$kept" -v thrown="$thrown" '
        function speed(a, b) { return a == "" || b == "" ? "" : more == "more" ? a / b : b / a }
        BEGIN {
            if (share == "" && speed(ours, limit) != "") share = 100 * speed(ours, limit)
            times = speed(ours, theirs)
            print row, unit, ours, peer, theirs, times, bound, limit, share, kept, thrown
        }' >>table
    tail -n 1 table | awk -F '\t' '{ printf "%-24s %s %s", $1, $3 == "" ? "-" : $3, $2
        if ($4 != "") printf "; %s %s", $4, $5 == "" ? "missing" : $5
        if ($6 != "") printf " (%.2f times)", $6
        if ($9 != "") printf "; %.0f %% of %s", $9, $7; printf "; %d turns, %d thrown away\n", $10, $11 }'
}
# Rows of a group that could not be measured.
give_none() {
    local row why="not measured: it failed"
    [ $thrown -eq 0 ] || why="not measured: other processes never left the machine alone"
    for row; do give "$row" "($why)" more "" "" "" "" ""; done
}

# ---- rows ----

# The text: what TEXT names, or all that is written here.
make_text() {
    [ ! -e text ] || return 0
    if [ "${TEXT:-}" ]; then
        cp "$TEXT" text
    elif [ "$tiny" ]; then
        cp "$root/README.md" text
    else
        find "$root"/{src,include,docs,tests,bench} -name '*.[ch]' -o -name '*.md' -o -name '*.sh' | LC_ALL=C sort | xargs cat >text
    fi
}

encode_turn() {
    if has gigatoken awkward tokenizers; then
        run "$peer" "$here/tokenize_peers.py" "$build/tokenize" "$vocab" "$merges" text --threads 1 --rounds 1 --peers gigatoken || return 1
        for kind in cold again; do
            note "$kind" "$(awk -v k=$kind '$1 == k && $2 == "triax" { print $3 }' log)"
            note "$kind.peer" "$(awk -v k=$kind '$1 == k && $2 == "gigatoken" { print $3 }' log)"
        done
    else
        run "$build/tokenize" "$vocab" "$merges" text 1 || return 1
        for kind in cold again; do
            note $kind "$(sed -nE "s/.*\"mb\": ([0-9.]+).*\"${kind}_s\": ([0-9.]+).*/\\1 \\2/p" log | awk '{ print $1 / $2 }')"
        done
    fi
    run "$build/peak" 1 512 || return 1
    note read "$(find_in_log '.*: read ([0-9.]+), copy.*' | awk '{ print 1e3 * $1 }')"
}
encode() {
    make_text
    take encode_turn || { give_none ${rows_of[encode]}; return; }
    for kind in cold again; do
        give encode-$kind "MB/s of one thread" more "$(median $kind)" gigatoken "$(median $kind.peer)" \
            "reading memory, MB/s" "$(median read)"
    done
}

decode_turn() {
    local type
    run "$build/generate" "$threads" 1 ${tiny:+1x64x2x512} || return 1
    for type in fp32 bf16 int8 q4; do
        note $type "$(find_in_log "^$type median +one stream +([0-9.]+) tokens\/s.*")"
        note $type.share "$(find_in_log "^$type median .*one stream[^;]*, +([0-9.]+) % of.*;.*16 streams.*")"
        note $type.bound "$(find_in_log "^$type median .*one stream[^;]* % of ([0-9.]+);.*16 streams.*")"
    done
    [ -z "$tiny" ] && has torch transformers || return 0
    run "$peer" "$here/generate_peers.py" "$build/generate" --threads "$threads" --rounds 1 || return 1
    for type in fp32 bf16; do
        note $type.peer "$(sed -nE "s/^$type median .*transformers' [^ ]+ +([0-9.]+):.*/\\1/p" log | sort -g | tail -n 1)"
    done
}
decode() {
    local type
    take decode_turn || { give_none ${rows_of[decode]}; return; }
    for type in fp32 bf16 int8 q4; do
        [ "$(median $type)" ] || { give decode-$type "(bench/generate has no such weights)" more "" "" "" "" ""; continue; }
        give decode-$type "tokens/s, 124M" more "$(median $type)" "transformers" "$(median $type.peer)" \
            "reading the weights, GB/s" "$(median $type.bound)" "$(median $type.share)"
    done
}

all_reduce_turn() {
    local mib=${tiny:+1}
    run mpirun -n 2 "$build/all_reduce" "${tiny:-21}" "${mib:-64}" "${mib:-64}" || return 1
    note ours "$(find_in_log ".* MiB +triax +([0-9.]+) ms.*")"
    note mpi "$(find_in_log ".* MPI +([0-9.]+) ms.*")"
    note sum "$(find_in_log ".*the sum alone +([0-9.]+) ms.*")"
}
all_reduce() {
    command -v mpirun >/dev/null && [ -e "$build/libtriax_mpi.so" ] || {
        kept=0 thrown=0
        give all-reduce-64 "(not measured: there is no MPI)" more "" "" "" "" ""
        return
    }
    take all_reduce_turn || { give_none ${rows_of[all_reduce]}; return; }
    give all-reduce-64 "ms, 64 MiB, 2 ranks" less "$(median ours)" "MPI_Allreduce" "$(median mpi)" "an in-place sum, ms" "$(median sum)"
}

checkpoint_turn() {
    local small="--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 \
--micro-batch-size 1 --train-iters 1 --lr 1 --data-path x --vocab-file x --merge-file x"
    run "$build/checkpoint" "$disk" 1 ${tiny:+"$small"} || return 1
    local key
    for key in "read" "8 at once" "load" "2 ranks" "hf read" "hf load"; do
        note "${key// /_}" "$(find_in_log "^$key +([0-9.]+) s .*")"
    done
    [ -z "$tiny" ] && has torch safetensors || return 0
    run "$peer" "$here/checkpoint_peers.py" "$disk" 1 || return 1
    note peer "$(find_in_log '^safetensors load: ([0-9.]+) s.*')"
}
checkpoint() {
    take checkpoint_turn || { give_none ${rows_of[checkpoint]}; return; }
    local read="reading the file, s"
    give checkpoint-load "s, 1.5 GB with checksums" less "$(median load)" "safetensors, without" "$(median peer)" "$read" "$(median read)"
    give checkpoint-load-2-ranks "s, 1.5 GB with checksums" less "$(median 2_ranks)" "" "" "$read" "$(median read)"
    give checkpoint-load-hf "s, 0.5 GB of Hugging Face" less "$(median hf_load)" "" "" "$read" "$(median hf_read)"
}

# train_rows NAME SHAPE [--bert]: train_peers.py takes turns by itself and throws away what others disturb; the ceiling's
# share is of its own run.
ceiling_turn() {
    run "$build/ceiling" ${shape//x/ } ${bert:+--bert} --threads "$threads" $type || return 1
    note step "$(find_in_log '^step ([0-9.]+) ms: .*')"
    note share "$(find_in_log '^step .* ms: ([0-9.]+) %.*')"
    note ceiling "$(find_in_log '.*: ceiling ([0-9.]+) ms$')"
}
train_rows() {
    local name=$1 shape=$2 bert=${3:-} type dtype ours theirs again
    for dtype in fp32 bf16; do
        wanted "$name-$dtype" || continue
        type=$([ $dtype = fp32 ] || echo --bf16)
        take ceiling_turn || { give_none "$name-$dtype"; continue; }
        ours=$(median step) theirs=
        if [ -z "$tiny" ] && has torch ${bert:+transformers} &&
            run "$peer" "$here/train_peers.py" "$build/train" --threads "$threads" --rounds "$turns" --dtype $dtype $bert \
                --others "$(awk -v m="$most" 'BEGIN { print m / 100 }')" "$shape"; then
            again=$(find_in_log '.*: triax ([0-9.]+) ms,.*')
            theirs=$(sed -nE 's/.*: triax [0-9.]+ ms, (.*); .* \/ triax.*/\1/p' log | grep -oE '[0-9.]+ ms' | sort -g | head -n 1)
            ours=${again:-$ours} theirs=${theirs% ms}
            thrown=$((thrown + $(find_in_log '.*; ([0-9]+) turns thrown away' | grep . || echo 0)))
        fi
        give "$name-$dtype" "ms a step" less "$ours" PyTorch "$theirs" "its products, attention and memory, ms" "$(median ceiling)" "$(median share)"
    done
}
small=2x32x2x64x16x2
train_10m() { train_rows train-10m "$([ "$tiny" ] && echo $small || echo 6x384x6x65x256x12)"; }
train_256() { train_rows train-124m-4x256 "$([ "$tiny" ] && echo $small || echo 12x768x12x50257x256x4)"; }
train_1024() { train_rows train-124m-4x1024 "$([ "$tiny" ] && echo $small || echo 12x768x12x50257x1024x4)"; }
train_bert() { train_rows train-bert-8x128 "$([ "$tiny" ] && echo $small || echo 12x768x12x30522x128x8)" --bert; }

norms_turn() {
    local dtype
    run "$build/peak" "$threads" 512 || return 1
    note triad "$(find_in_log '.*triad ([0-9.]+) GB.*')"
    for dtype in fp32 bf16; do
        run "$build/op_bench" "$threads" ${tiny:-32768} $dtype rows ${tiny:+--runs 1} || return 1
        note $dtype "$(find_in_log '^layernorm_bwd .* ms +([0-9.]+) GB.*')"
    done
}
norms() {
    take norms_turn || { give_none ${rows_of[norms]}; return; }
    for dtype in fp32 bf16; do
        give norm-backward-$dtype "GB/s, 32768 tokens" more "$(median $dtype)" "" "" "memory (triad), GB/s" "$(median triad)"
    done
}

zero_shape=$([ "$tiny" ] && echo $small || echo 6x320x10x8192x256x64)
zero_turn() {
    local stage with=$peer
    [ -z "$tiny" ] && has deepspeed || with=
    TX_PEER_PYTHON=$with FORMS="0 1 2 3" STEPS=$([ "$tiny" ] && echo 2 || echo 5) THREADS=$((threads > 1 ? threads / 2 : 1)) \
        run "$here/zero.sh" "$build/triax" "$zero_shape" fp32 1 || return 1
    for stage in 0 1 2 3; do
        note $stage "$(awk -v s=$stage '$1 == s { print $2 }' log)"
        note $stage.peer "$(awk -v s=$stage '$1 == s && $10 ~ /^[0-9]+$/ { print $10 }' log)"
    done
    run "$build/ceiling" ${zero_shape//x/ } --threads "$threads" || return 1
    IFS=x read -r _ _ _ _ seq batch <<<"$zero_shape"
    note ceiling "$(find_in_log '.*: ceiling ([0-9.]+) ms$' | awk -v n=$((seq * batch)) '{ print 1e3 * n / $1 }')"
}
zero() {
    command -v mpirun >/dev/null && [ -e "$build/libtriax_mpi.so" ] || {
        kept=0 thrown=0
        for row in ${rows_of[zero]}; do give "$row" "(not measured: there is no MPI)" more "" "" "" "" ""; done
        return
    }
    take zero_turn || { give_none ${rows_of[zero]}; return; }
    for stage in 0 1 2 3; do
        give zero-$stage "tokens/s, 10M, 2 ranks" more "$(median $stage)" DeepSpeed "$(median $stage.peer)" \
            "one process' products, attention and memory, tokens/s" "$(median ceiling)"
    done
}

# JSON of documents of 200 lines, some hundred megabytes, so that starting is little of it; the encoder's rate is of the same.
preprocess_turn() {
    local start=$EPOCHREALTIME
    run "$build/triax" preprocess-data --input many.jsonl --output-prefix ids --vocab-file "$vocab" --merge-file "$merges" \
        --append-eod --workers "$threads" || return 1
    note ours "$(awk -v a="$start" -v z="$EPOCHREALTIME" -v n="$(wc -c <many)" 'BEGIN { print n / 1e6 / (z - a) }')"
    run "$build/tokenize" "$vocab" "$merges" many 1 || return 1
    note encoder "$(sed -nE 's/.*"mb": ([0-9.]+).*"cold_s": ([0-9.]+).*/\1 \2/p' log | awk -v w="$threads" '{ print w * $1 / $2 }')"
}
preprocess() {
    make_text
    : >many
    while cat text >>many && [ -z "$tiny" ] && [ "$(wc -c <many)" -lt 200000000 ]; do :; done
    LC_ALL=C awk '{ gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\t/, "\\t"); gsub(/[\001-\037]/, " "); text = text $0 "\\n" }
        NR % 200 == 0 { print "{\"text\": \"" text "\"}"; text = "" } END { print "{\"text\": \"" text "\"}" }' many >many.jsonl
    take preprocess_turn || { give_none ${rows_of[preprocess]}; return; }
    give preprocess-data "MB/s of text" more "$(median ours)" "" "" "the encoder's rate times workers, MB/s" "$(median encoder)"
    rm -f many many.jsonl ids_text_document.*
}

# ---- the table ----

processor=$(sed -nE 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
"$build/peak" "$threads" 512 >peak
about="${processor:-an unknown processor}, $threads threads ($(head -n 1 peak)), $(sed -nE 's/^memory, .*: (read .*)$/memory \1/p' peak), $(date +%F)"
echo "$about"
[ "$peer" ] || echo "no peers: TX_PEER_PYTHON names no Python"
: >table
for g in $groups; do
    for row in ${rows_of[$g]}; do
        wanted "$row" || continue
        "$g"
        break
    done
done
{
    echo "$about."
    echo "Medians of $turns turns; those of which others took more than $most % of the processors are thrown away."
    echo
    echo "| row | triax | | peer | | triax / peer | bound | | share | turns |"
    echo "|---|--:|---|---|--:|--:|---|--:|--:|--:|"
    awk -F '\t' 'function short(x) { return x == "" ? "" : x >= 100 ? sprintf("%.0f", x) : sprintf("%.3g", x) }
        { printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, short($3), $2, $4, $4 == "" ? "" : $5 == "" ? "missing" : short($5),
            $6 == "" ? "" : sprintf("%.2f", $6), $7, short($8), $9 == "" ? "" : sprintf("%.0f %%", $9), $10 }' table
} >"$out.md"
awk -F '\t' -v about="$about" '
    function text(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); return s == "" ? "null" : "\"" s "\"" }
    function number(x) { return x == "" ? "null" : x + 0 "" }
    BEGIN { printf "{\n  \"machine\": %s,\n  \"rows\": [", text(about) }
    { printf "%s\n    { \"row\": %s, \"unit\": %s, \"triax\": %s, \"peer\": %s, \"peer_value\": %s, \"triax_over_peer\": %s, ",
          (NR > 1 ? "," : ""), text($1), text($2), number($3), text($4), number($5), number($6)
      printf "\"bound\": %s, \"bound_value\": %s, \"percent_of_bound\": %s, \"turns\": %s, \"thrown_away\": %s }",
          text($7), number($8), number($9), number($10), number($11) }
    END { print "\n  ]\n}" }' table >"$out.json"
echo "written: $out.md, $out.json"
