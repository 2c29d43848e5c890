#!/bin/bash
# labels: cli
# The library as a client meets it: installed headers alone, the shared library, the example that engine.h promises.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$TRIAX") source=$(cd "$(dirname "$0")/../.." && pwd)
if nm -D "$build/libtriax.so" | grep ' U __asan' >/dev/null; then # not -q: nm must not die of a closed pipe
    echo "skipped: a client of a sanitized library would have to be sanitized too"
    exit 77
fi
cmake --install "$build" --prefix "$work/usr" >/dev/null
cc -std=c11 -Wall -Wextra -Werror -pedantic -I"$work/usr/include" "$source/examples/train_tiny.c" -L"$work/usr/lib" \
    -L"$(dirname "$(find "$work/usr" -name libtriax.so)")" -ltriax -o client
LD_LIBRARY_PATH=$(dirname "$(find "$work/usr" -name libtriax.so)") ./client | tee said
learned() { awk '/final loss/ { n++; bad = !($3 < 0.5) } END { exit bad || n != 1 }' said || die "$1 did not learn to count"; }
learned "the model"
if command -v mpirun >/dev/null && [ -e "$build/libtriax_mpi.so" ]; then
    . "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/mpi.sh"
    all_ranks 2 env "LD_LIBRARY_PATH=$(dirname "$(find "$work/usr" -name libtriax.so)")" ./client
    cp out said
    learned "the model of two ranks"
fi
for header in "$work"/usr/include/triax/*.h; do
    printf '#include "triax/%s"\n' "$(basename "$header")" >one.c
    cc -std=c11 -Wall -Wextra -Werror -pedantic -I"$work/usr/include" -fsyntax-only one.c
    if command -v c++ >/dev/null; then c++ -std=c++17 -Wall -Wextra -Werror -x c++ -I"$work/usr/include" -fsyntax-only one.c; fi
done
# exactly what the headers declare is exported
nm -D --defined-only "$build/libtriax.so" | awk '$2 == "T" { print $3 }' | grep -v '^_' | sort >exported
grep -hE '^TX_API' "$work"/usr/include/triax/*.h | grep -oE 'tx_[a-z0-9_]+\(' | tr -d '(' | sort >declared
diff declared exported || die "exported and declared functions differ"
echo "all passed"
