#!/bin/bash
# labels: cli
# tools/lint_words finds words of options that fall to a default, and lists of words that are not the row's; on a tree of its own.
. "$(dirname "$0")/lib.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)
command -v git >/dev/null || { echo "skipped: no git"; exit 77; }

mkdir -p tools src/config src/train
cp "$source/tools/lint_words" tools/
git init -q .
cat >src/config/options.def <<'S'
ENUM(order, "order", "a", "a|b|c", DATA, HINT,
    "Help, with a comma.")
ENUM(long_words, "long-words", NULL,
    "first|second|"
    "third", DATA, NO,
    "Help.")
STR(path, "path", NULL, "FILE", DATA, NO, "Help.")
S
cat >src/config/rules_x.c <<'S'
bool r = !strcmp(c->order, "a"); /* rules may */
S
cat >src/train/good.c <<'S'
int a = tx_word_index(cfg->order, "a|b|c");
int b = tx_word_index(cfg->long_words, "first|second|"
                                       "third");
int c = tx_word_index(order, "a|b|c") == 1;
bool d = !strcmp(cfg->path, "-");
S
tools/lint_words >out || { cat out; die "a clean tree is complained about"; }
cat >src/train/bad.c <<'S'
bool a = !strcmp(cfg->order, "b");
int b = tx_word_index(cfg->order, "a|b");
int c = tx_word_index(order, "a|c|b");
int d = tx_word_index(t->cfg->long_words, "first|"
                                          "second|fourth");
bool e = x && strncmp(o.long_words, "fir", 3) == 0;
S
tools/lint_words >out && die "nothing was found"
cat >expected <<'S'
src/train/bad.c:1
src/train/bad.c:2
src/train/bad.c:3
src/train/bad.c:4
src/train/bad.c:6
S
cut -d: -f1,2 out | diff expected - || { cat out; die "the list is another"; }
