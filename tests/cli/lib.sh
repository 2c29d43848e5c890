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

# loss FILE: "iteration loss" of every log line
losses() { sed -nE 's/^ iteration +([0-9]+)\/.*lm loss: ([0-9.E+-]+).*/\1 \2/p' "$1"; }
