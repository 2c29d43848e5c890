#!/bin/bash
# labels: cli
# The library as a client meets it: an installation in a folder of its own that was moved, its headers alone, the example
# that engine.h promises built by compiler flags, by pkg-config and by find_package.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$TRIAX") source=$(cd "$(dirname "$0")/../.." && pwd)
if nm -D "$build/libtriax.so" | grep ' U __asan' >/dev/null; then # not -q: nm must not die of a closed pipe
    echo "skipped: a client of a sanitized library would have to be sanitized too"
    exit 77
fi
cmake --install "$build" --prefix "$work/installed" >/dev/null
mv "$work/installed" "$work/usr"
lib=$(dirname "$(find "$work/usr" -name libtriax.so)")
flags=(-std=c11 -Wall -Wextra -Werror -pedantic)

learned() { awk '/final loss/ { n++; bad = !($3 < 0.5) } END { exit bad || n != 1 }' said || die "$1 did not learn to count"; }
cc "${flags[@]}" -I"$work/usr/include" "$source/examples/train_tiny.c" -L"$lib" -ltriax -o client
LD_LIBRARY_PATH=$lib ./client | tee said
learned "the model"

if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$lib/pkgconfig
    version=$("$TRIAX" --version)
    [ "$(pkg-config --modversion triax)" = "${version##* }" ] || die "triax.pc has another version than $version"
    read -ra found <<<"$(pkg-config --cflags --libs triax)"
    cc "${flags[@]}" "$source/examples/train_tiny.c" "${found[@]}" -o by_pkg_config
    LD_LIBRARY_PATH=$lib ./by_pkg_config >said
    learned "the model built by pkg-config"
    pkg-config --static --libs triax | grep -- -ljansson >/dev/null || die "triax.pc lacks what a static library needs"
else
    echo "left out: there is no pkg-config"
fi

mkdir project
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(x LANGUAGES C)
find_package(triax 0.1 REQUIRED)
add_executable(x $source/examples/train_tiny.c)
target_link_libraries(x triax::triax)
END
cmake -S project -B project/build -DCMAKE_PREFIX_PATH="$work/usr" >out 2>&1 || { cat out >&2; die "find_package(triax)"; }
cmake --build project/build >out 2>&1 || { cat out >&2; die "building with triax::triax"; }
project/build/x >said # finds the library by itself: CMake notes where it was
learned "the model built by find_package"
sed -i 's/triax 0.1/triax 0.2/' project/CMakeLists.txt
cmake -S project -B project/build2 -DCMAKE_PREFIX_PATH="$work/usr" >out 2>&1 && die "find_package(triax 0.2) takes 0.1"
grep 'compatible' out >/dev/null || { cat out >&2; die "find_package(triax 0.2) fails for another reason"; }

# the module that knows MPI is found from the moved library and from the moved program
if command -v mpirun >/dev/null && [ -e "$build/libtriax_mpi.so" ]; then
    . "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/mpi.sh"
    all_ranks 2 env "LD_LIBRARY_PATH=$lib" ./client
    cp out said
    learned "the model of two ranks"
    for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
    all_ranks 2 "$work/usr/bin/triax" pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 1 \
        --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 2 --train-iters 1 --lr 1e-3 \
        --tokenizer-type NullTokenizer --vocab-size 511 --data-path text --split 1,0,0 --log-interval 1
    grep 'iteration *1/' out >/dev/null || { cat out >&2; die "the installed program trained nothing on two ranks"; }
fi

for header in "$work"/usr/include/triax/*.h; do
    printf '#include "triax/%s"\n' "$(basename "$header")" >one.c
    cc "${flags[@]}" -I"$work/usr/include" -fsyntax-only one.c
    if command -v c++ >/dev/null; then c++ -std=c++17 -Wall -Wextra -Werror -x c++ -I"$work/usr/include" -fsyntax-only one.c; fi
done
# the manual: a page for each command and header, without a word that troff does not understand
for header in "$work"/usr/include/triax/*.h; do
    [ -s "$work/usr/share/man/man3/triax_$(basename "$header" .h).3" ] || die "no manual page of $header"
done
"$TRIAX" --help | sed -nE 's/^  ([a-z][a-z0-9-]+) +[^< ].*/\1/p' >commands
[ "$(wc -l <commands)" -gt 15 ] || die "--help lists no commands"
while read -r command; do
    [ -s "$work/usr/share/man/man1/triax-$command.1" ] || die "no manual page of triax $command"
done <commands
cmp -s "$work/usr/share/triax/machines/h100.json" "$source/machines/h100.json" || die "the machine files are not installed"
grep -F -- '\-\-num\-layers' "$work/usr/share/man/man1/triax-plan.1" >/dev/null || die "triax-plan.1 has no options"
grep -F 'tx_engine_forward(tx_engine *e' "$work/usr/share/man/man3/triax_engine.3" >/dev/null || die "triax_engine.3 is empty"
if command -v groff >/dev/null; then
    for page in "$work"/usr/share/man/man[13]/*; do
        groff -K utf8 -t -man -Tutf8 -ww "$page" >/dev/null 2>said || die "groff $page"
        [ ! -s said ] || { cat said >&2; die "$page"; }
    done
else
    echo "left out: there is no groff to read the manual"
fi
# exactly what the headers declare is exported
nm -D --defined-only "$build/libtriax.so" | awk '$2 == "T" { print $3 }' | grep -v '^_' | sort >exported
grep -hE '^TX_API' "$work"/usr/include/triax/*.h | grep -oE 'tx_[a-z0-9_]+\(' | tr -d '(' | sort >declared
diff declared exported || die "exported and declared functions differ"
echo "all passed"
