#!/bin/bash
# labels: cli
# The transcript in README.md, "From nothing to sentences", is what quickstart.sh prints, numbers and the model's own
# sentences aside: every line of it stands in the output, in that order. Packages, build and Bible are stand-ins, and the
# model is tiny.
. "$(dirname "$0")/lib.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)
[ -e "$source/quickstart.sh" ] || { echo "skipped: no quickstart.sh lies beside the tests"; exit 77; }

mkdir -p bin tools build/release
cp "$source/quickstart.sh" .
printf '. "%s"\nneed_packages() { :; }\n' "$source/tools/packages.sh" >tools/packages.sh
touch build/release/CMakeCache.txt
printf '#!/bin/sh\necho "[100%%] Built target triax"\n' >bin/cmake
cat >bin/bible <<'S' # 60 chapters of 12 verses
#!/bin/sh
awk 'BEGIN {
    n = split("king people house land city word day hand man son heaven earth water priest servant father stone gate", noun)
    m = split("said gave went came saw made took heard brought sent", verb)
    for (c = 1; c <= 60; c++)
        for (v = 1; v <= 12; v++)
            print "gen" c ":" v " And the " noun[(c * 7 + v * 5) % n + 1] " " verb[(c * 3 + v) % m + 1] " unto the " \
                noun[(c * 11 + v * 13 + c * v) % n + 1] " of " c + v " days."
}'
S
cat >build/release/triax <<'S' # the same commands with smaller numbers
#!/bin/bash
smaller=(--vocab-size=300 --num-layers=1 --hidden-size=32 --train-iters=100 --eval-interval=100 --save-interval=100)
words=()
for word in "$@"; do
    [ ${#words[@]} -eq 0 ] || for s in "${smaller[@]}"; do [ "${words[-1]}" != "${s%=*}" ] || word=${s#*=}; done
    words+=("$word")
done
exec "$TRIAX" "${words[@]}"
S
chmod +x bin/* build/release/triax
unset MINUTES # which the README's run does not have
PATH=$work/bin:$PATH bash quickstart.sh >out 2>&1 || { cat out >&2; die "quickstart.sh (exit $?)"; }

# Commands stand there to the digit; in what they print a number is N. Several blanks are one, "..." stands for anything. Behind the last command come the model's own
# sentences, of which only the prompt is known.
masked() { sed -E '/^\$ /!s/[-+]?[0-9]+(\.[0-9]+)?([eE][-+][0-9]+)?/N/g; s/ +/ /g; s/ $//' "$@"; }
sed -n '/^## From nothing to sentences/,/^## Commands/p' "$source/README.md" |
    awk '/^```/ { fences++; next } fences == 1 && NF { print } sentences && fences == 1 { exit } /triax generate / { sentences = 1 }' |
    sed -E '$s/^(And the king said unto).*/\1.../' | masked >transcript
[ "$(grep -c '^\$ ' transcript)" -eq 4 ] && [ "$(wc -l <transcript)" -ge 12 ] || { cat transcript; die "README.md has another transcript"; }
masked out >printed
awk '
    function stands_for(shown, line, n, i, at, part) {
        n = split(shown, part, /\.\.\./)
        if (index(line, part[1]) != 1) return 0
        line = substr(line, length(part[1]) + 1)
        for (i = 2; i <= n; i++) {
            if (i == n && part[n] == "") return 1
            if (!(at = index(line, part[i]))) return 0
            line = substr(line, at + length(part[i]))
        }
        return line == ""
    }
    NR == FNR { printed[++n] = $0; next }
    {
        while (++at <= n && !stands_for($0, printed[at])) continue
        if (at > n) { print "README.md shows, and nothing like it is printed there: " $0; exit 1 }
    }' printed transcript >&2 || die "README.md is not what quickstart.sh prints"
echo "README.md shows what quickstart.sh prints"
