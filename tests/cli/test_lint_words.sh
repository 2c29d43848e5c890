#!/bin/bash
# labels: cli
# tools/lint_words finds what compares the words of kinds instead of their constants; on a tree of its own.
. "$(dirname "$0")/lib.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)
command -v git >/dev/null || { echo "skipped: no git"; exit 77; }

mkdir -p tools src/config src/kinds src/train
cp "$source/tools/lint_words" tools/
git init -q .
cat >src/kinds/orders.h <<'S'
#define TX_ORDERS(X)             \
    X(TX_ORDER_UP, "upward")     \
    X(TX_ORDER_DOWN, "downward")
S
cat >src/config/rules_x.c <<'S'
bool r = !strcmp(word, "upward"); /* the room that reads them may */
S
cat >src/train/good.c <<'S'
bool a = cfg->order == TX_ORDER_UP;
bool b = tx_order_of(word) == TX_ORDER_UP;
bool c = !strcmp(cfg->path, "-") && !strcmp(name, "up");
tx_info("%s is upward", tx_order_word(cfg->order));
S
tools/lint_words >out || { cat out; die "a clean tree is complained about"; }
cat >src/train/bad.c <<'S'
bool a = !strcmp(word, "upward");
bool b = !strcmp(word, "up") || !strcmp(word, "downward");
bool c = x && strncmp("upward", o.word, 3) == 0;
bool d = !strcasecmp(tx_order_word(cfg->order), other);
bool e = !strcmp(other, tx_order_word(cfg->order));
S
tools/lint_words >out && die "nothing was found"
cat >expected <<'S'
src/train/bad.c:1
src/train/bad.c:2
src/train/bad.c:3
src/train/bad.c:4
src/train/bad.c:5
S
cut -d: -f1,2 out | diff expected - || { cat out; die "the list is another"; }
