#!/bin/bash
# labels: cli
# tools/lint_unused finds what only tests call, and nothing else; on a tree of its own.
. "$(dirname "$0")/lib.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)
command -v git >/dev/null || { echo "skipped: no git"; exit 77; }

mkdir -p tools src/base cmd include/triax tests
cp "$source/tools/lint_unused" tools/
git init -q .
cat >src/base/thing.h <<'S'
/* thing.h - tx_in_a_comment is mentioned here, and nowhere called. */
int tx_called(int x); /* trailing words that
                       * go on, for tests: not about the next one */
int tx_in_a_comment(void);
int tx_calls_itself(int n,
                    int m);
extern const char *const tx_names[];
void *tx_in_a_table(void);
int tx_nobody(void);
/* for tests: the clock stands still */
void tx_marked(void);
void tx_marked_behind(void); /* for tests: likewise */
/* for tests: but the program calls it */
int tx_marked_and_called(void);
static inline int twice(int x) { return tx_called_inline(x); }
int tx_called_inline(int x);
int tx_by_program(void);
S
cat >src/base/thing.c <<'S'
#include "base/thing.h"
int tx_called(int x)
{
    return x; // tx_nobody()
}
int tx_in_a_comment(void) { return tx_called(1); }
int tx_calls_itself(int n, int m)
{
    return n ? tx_calls_itself(n - 1, m) : m;
}
void *tx_in_a_table(void) { return 0; }
static void *(*const table[])(void) = { tx_in_a_table };
int tx_nobody(void) { return tx_marked_and_called(); }
void tx_marked(void) {}
S
echo 'int main(void) { return tx_by_program() + tx_called(0); }' >cmd/main.c
echo 'void t(void) { tx_nobody(); tx_calls_itself(1, 2); tx_marked(); }' >tests/test_thing.c
tools/lint_unused | sort >out && die "nothing was found"
cat >expected <<'S'
src/base/thing.h:14: tx_marked_and_called is not for tests alone
src/base/thing.h:4: nothing but tests calls tx_in_a_comment
src/base/thing.h:5: nothing but tests calls tx_calls_itself
src/base/thing.h:9: nothing but tests calls tx_nobody
S
diff expected <(sort out) || die "the list is another"
sed -i '/tx_in_a_comment(/d; /tx_nobody(/d; /^int tx_calls_itself/,/;/d; s/for tests: but/but/' src/base/thing.h
sed -i '/tx_in_a_comment/d; s/^int tx_nobody/static int nobody/; /^int tx_calls/,/^}/d' src/base/thing.c
tools/lint_unused >out || { cat out; die "a clean tree is complained about"; }
[ ! -s out ] || die "a clean tree is complained about"
