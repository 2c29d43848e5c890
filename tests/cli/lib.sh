# lib.sh - sourced by the tests that type commands: a scratch folder, the program, checks that say what went wrong.
set -euo pipefail
[ -x "${TRIAX:-none}" ] || { echo "skipped: TRIAX does not name the program"; exit 77; }
data=${TX_DATA:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

die() { echo "FAILED: $*" >&2; exit 1; }

# ok COMMAND...: must succeed; its output is in ./out and ./err
ok() {
    "$TRIAX" "$@" >out 2>err || { cat out err >&2; die "triax $* (exit $?)"; }
}

# refused TEXT COMMAND...: must fail with exit 1 or 2, and one line on standard error that contains TEXT
refused() {
    local text=$1 code=0
    shift
    "$TRIAX" "$@" >out 2>err || code=$?
    [ $code -eq 1 ] || [ $code -eq 2 ] || { cat err >&2; die "triax $*: exit $code, not 1 or 2"; }
    grep '^triax ' err >said || true
    grep -qF -- "$text" said || { cat err >&2; die "triax $*: does not say \"$text\""; }
    [ "$(wc -l <said)" -eq 1 ] || { cat err >&2; die "triax $*: not one line"; }
}

# small_data VOCABULARY: small_text_document.{bin,idx}, 3180 ids below VOCABULARY in 40 documents. Of --mock-data each run
# would shuffle millions of samples
small_data() {
    awk -v v="$1" 'BEGIN { for (i = 0; i < 40; i++) { printf "{\"text\": \""; for (k = 0; k < 60 + i; k++)
        printf "%d ", (i * 7 + k * k * 3 + k) % v; print "\"}" } }' >small.jsonl
    ok preprocess-data --input small.jsonl --output-prefix small --tokenizer-type NullTokenizer --vocab-size "$1"
}

# talks FIRST LAST: conversations on lines, every third with a prompt and a completion
talks() {
    local i
    for i in $(seq "$1" "$2"); do
        if [ $((i % 3)) -eq 0 ]; then
            printf '{"prompt": "Count to %d.", "completion": " %s"}\n' $i "$(seq -s ' ' $i)"
        else
            printf '{"messages": [{"role": "user", "content": "What is %d and %d?"}, {"role": "assistant", "content": "It is %d."}]}\n' \
                $i $i $((2 * i))
        fi
    done
}

# loss FILE: "iteration loss" of every log line
losses() { sed -nE 's/^ iteration +([0-9]+)\/.*lm loss: ([0-9.E+-]+).*/\1 \2/p' "$1"; }

# json_values FILE: of JSON on lines every value on a line of its own, "1.masks.0.word "king""; of an object or a list its brace
json_values() {
    awk '
    function value(text) { print path[depth] " " text }
    function open(text) { value(text); depth++; list[depth] = text == "["; at[depth] = 0; name() }
    function name() { if (list[depth]) path[depth] = path[depth - 1] "." at[depth] }
    { path[depth = 0] = NR }
    {
        for (rest = $0; rest != ""; rest = substr(rest, n + 1)) {
            match(rest, /^("([^"\\]|\\.)*"|[-+.0-9A-Za-z]+|.)/)
            token = substr(rest, 1, n = RLENGTH)
            if (token == "{" || token == "[") open(token)
            else if (token == "}" || token == "]") depth--
            else if (token == ",") { at[depth]++; name() }
            else if (token ~ /^"/ && substr(rest, n + 1, 1) == ":") { path[depth] = path[depth - 1] "." substr(token, 2, n - 2); n++ }
            else if (token != " ") value(token)
        }
    }' "$1"
}

# json_near BOUND FLOOR FILE FILE: the same values in the same order; numbers with a point differ by at most BOUND of
# themselves, or of FLOOR where that is more
json_near() {
    [ -s "$3" ] && paste -d '\n' <(json_values "$3") <(json_values "$4") | awk -v bound="$1" -v floor="$2" '
    function real(text) { return text ~ /^-?[0-9]+[.eE][-+.0-9eE]*$/ }
    function size(x) { return x < 0 ? -x : x }
    NR % 2 { first = $0; name = $1; value = $2; next }
    first == $0 { next }
    $1 != name || !real(value) || !real($2) || size($2 - value) > bound * (size(value) > floor ? size(value) : floor) {
        print first " / " $0
        failed = 1
    }
    END { exit failed }' >&2
}
