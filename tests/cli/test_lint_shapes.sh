#!/bin/bash
# labels: cli
# tools/lint_shapes counts doubled types, parameters, long functions and circles of includes; tools/lint_paths finds names of files
# that are not there; on a tree of their own.
. "$(dirname "$0")/lib.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)
command -v git >/dev/null || { echo "skipped: no git"; exit 77; }

mkdir -p tools src/base src/nn include/triax cmd
cp "$source/tools/"lint_{shapes,paths} tools/
git init -q .
cat >src/base/good.h <<'S'
/* typedef struct tx_thing { in a comment, f(a, b, c, d, e, f, g) */
typedef struct tx_thing {
    int a;
} tx_thing;
const char *text = "struct tx_other {";
int six(int a, int b, int (*c)(int, int), int d, int e, int f);
S
cat >src/base/good.c <<'S'
#include "base/good.h"
int six(int a, int b, int (*c)(int, int), int d, int e, int f)
{
    return seven_in_a_call(a, b, c, d, e, f, 0);
}
S
{ printf 'int sixty(void)\n{\n'; for i in $(seq 57); do echo "    f($i);"; done; printf '}\n'; } >src/base/sixty.c
cp src/base/good.h src/nn/
sed -i 's/tx_thing/tx_layer/' src/nn/good.h # which both include it
echo '#include "nn/good.h"' >src/nn/one.h
sed -i 's/^\([a-z_]*\)=[0-9]*/\1=0/' tools/lint_shapes
tools/lint_shapes >out || { cat out; die "a clean tree is complained about"; }

cat >src/nn/bad.c <<'S'
#include "nn/bad.h"
enum tx__thing {
    A
};
static int seven(int a, int b, int c, int d,
                 int e, int f, int g)
{
    return 0;
}
S
echo '#include "nn/worse.h"' >src/nn/bad.h
echo '#include "nn/bad.h"' >src/nn/worse.c
echo "int f(int);" >src/nn/worse.h
{ printf 'template <int n>\nint long_one(void)\n{\n'; for i in $(seq 58); do echo "    f($i);"; done; printf '}\n'; } >src/nn/long.cu
tools/lint_shapes >out && die "nothing was found"
cat >expected <<'S'
    tx_thing: src/base/good.h src/nn/bad.c
    src/nn/bad.c:5: seven, 7 parameters
    src/nn/long.cu:2: long_one, 61 lines
    src/nn/bad src/nn/worse
S
grep '^ ' out | sed 's,src/nn/worse src/nn/bad$,src/nn/bad src/nn/worse,' | diff - expected || { cat out; die "the list is another"; }

printf '%s\n' 'See `base/good.h`, `good.[ch]`, `src/base/`, `nn/<name>.h`, `sixty.c`, `tx_thing.h()`, `./tools/lint_shapes`, `.c`.' >ARCHITECTURE.md
cp ARCHITECTURE.md CONTRIBUTING.md
tools/lint_paths >out || { cat out; die "names of files that exist are complained about"; }
printf '%s\n' 'See `base/gone.h`,' '`good.cu` and `zero/`, `nn/<name>.cc`.' >CONTRIBUTING.md
tools/lint_paths >out && die "nothing was found"
cat >expected <<'S'
CONTRIBUTING.md:1: there is no file base/gone.h
CONTRIBUTING.md:2: there is no file good.cu
CONTRIBUTING.md:2: there is no folder zero/
CONTRIBUTING.md:2: there is no file nn/<name>.cc
S
diff out expected || die "the list is another"
