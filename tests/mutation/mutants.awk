# mutants.awk - every one-line mutant of C sources: awk -v seed=S -f mutants.awk src/<room>/<file>.c ...
# A line each, of fields parted by tabs: a number drawn from the seed, room, file, line, before, after; the last two are whole
# lines of the source without their indentation. The same seed and sources give the same list, and the number depends on what
# the line says and not on where it stands, so a change elsewhere in the file moves no mutant.
#
# Left alone: comments, strings, preprocessor lines, what stands outside of braces, arguments of messages and of asserts, and
# calls that only give something back or say something, whose loss a test could not see.

BEGIN {
    n_ops = split(" < | <= | <= | < | > | >= | >= | > | == | != | != | == | + | - | - | + | * | + | += | -= | -= | += " \
        "| + 1| | - 1| |true|false|false|true|min(|max(|max(|min(|(!|(|break;|continue;", part, "|")
    QUIET = "(free|decref|leave|deinit|destroy|close|give|release|unlink|report|show|say|print|warn|log|flush|trace|barrier|line|puts)[a-z_]*\\("
    MESSAGE = "TX[A-Z_]*_FAIL[A-Z_]*\\(|TX_ASSERT\\(|_Static_assert\\(|tx_(warn|info|debug|trace)[a-z_]*\\(|tx_log[a-z_]*\\(|printf\\(|tx__report_[a-z]*\\("
    for (i = 32; i < 127; i++) code[sprintf("%c", i)] = i
}

FNR == 1 {
    room = FILENAME
    sub(/^.*src\//, "", room)
    sub(/\/.*/, "", room)
    depth = comment = message = directive = 0
    before = ";"
    split("", seen)
}

# The line with blanks for what is no code, of the same length.
function code_of(line,    i, c, out, quote, n) {
    n = length(line)
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        if (comment) {
            if (c == "*" && substr(line, i + 1, 1) == "/") { comment = 0; i++; out = out "~" }
            c = "~"
        } else if (quote != "") {
            if (c == "\\") { i++; out = out "~" } else if (c == quote) quote = ""
            c = "~"
        } else if (c == "/" && substr(line, i + 1, 1) == "*") {
            comment = 1; i++; out = out "~"; c = "~"
        } else if (c == "/" && substr(line, i + 1, 1) == "/") {
            while (i++ <= n) out = out "~"
            break
        } else if (c == "\"" || c == "'") {
            quote = c; c = "~"
        }
        out = out c
    }
    return out
}

function balance(text, open, shut) { return gsub(open, "", text) - gsub(shut, "", text) }

function hash(text,    h, i) {
    h = seed % 1000003 + 7
    for (i = 1; i <= length(text); i++) h = (h * 8191 + code[substr(text, i, 1)]) % 2147483647
    return (h * 16807) % 2147483647
}

function trim(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); gsub(/\t/, " ", text); return text }

function emit(after,    what) {
    if (index(after, "{ 1 }") && index($0, "{ 0 }")) return
    what = room "/" FILENAME ":" trim($0) ">" trim(after) "#" seen[$0]
    printf "%010d\t%s\t%s\t%d\t%s\t%s\n", hash(what), room, FILENAME, FNR, trim($0), trim(after)
}

function is_word(c) { return c ~ /[A-Za-z0-9_.]/ }

{
    code_line = code_of($0)
    stripped = trim(code_line)
    gsub(/~/, "", stripped)
    stripped = trim(stripped)
    if (directive || stripped ~ /^#/) {
        directive = $0 ~ /\\$/
        next
    }
    if (message) {
        message = stripped !~ /;/
        if (!message) before = ";"
        next
    }
    inside = depth > 0
    depth += balance(code_line, "{", "}")
    if (stripped == "") next
    at = match(code_line, MESSAGE)
    if (at) {
        rest = substr(code_line, at)
        message = rest !~ /;/
        code_line = substr(code_line, 1, at - 1)
    }
    last = before
    before = stripped
    if (!inside) next
    seen[$0]++

    for (k = 1; k < n_ops; k += 2) {
        from = part[k]
        for (i = 1; (p = index(substr(code_line, i), from)) > 0; i += p) {
            q = i + p - 1
            if (from ~ /^[a-z(]/ && from !~ /^\(/ && q > 1 && is_word(substr(code_line, q - 1, 1))) { if (from !~ /^m/) continue }
            if (from ~ /[a-z1]$/ && is_word(substr(code_line, q + length(from), 1))) continue
            emit(substr($0, 1, q - 1) part[k + 1] substr($0, q + length(from)))
        }
    }
    for (i = 1; (p = index(substr(code_line, i), "&&")) > 0; i += p) emit(substr($0, 1, i + p - 2) "||" substr($0, i + p + 1))
    for (i = 1; (p = index(substr(code_line, i), "||")) > 0; i += p) emit(substr($0, 1, i + p - 2) "&&" substr($0, i + p + 1))
    for (i = 1; (p = index(substr(code_line, i), "0")) > 0; i += p) {
        q = i + p - 1
        if (!is_word(substr(code_line, q - 1, 1)) && !is_word(substr(code_line, q + 1, 1))) emit(substr($0, 1, q - 1) "1" substr($0, q + 1))
    }
    # a statement of one line, behind the end of another
    if (!at && balance(code_line, "[(]", "[)]") == 0 && last ~ /[;{}:)]$|else$/ && stripped !~ QUIET &&
        (stripped ~ /^[A-Za-z_][A-Za-z0-9_.>\[\]-]* [-+*|&]?= [^{}]*;$/ || stripped ~ /^[A-Za-z_][A-Za-z0-9_]*\([^{}]*\);$/))
        emit(";")
}
