#!/bin/bash
# labels: extended cli
# CONTRIBUTING.md, "To add something", names every file: a dummy of each kind whose row is marked + is added to a copy of the sources.
# The files that are touched for it have to be those of its row, no more and no fewer. Then the copy is built, and each dummy used.
. "$(dirname "$0")/lib.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)
git -C "$source" rev-parse --git-dir >/dev/null 2>&1 || { echo "skipped: the sources are in no git repository"; exit 77; }

tree=$work/tree
mkdir "$tree"
(cd "$source" && git ls-files -co --exclude-standard | grep -v '^tests/' | while read -r file; do [ ! -e "$file" ] || echo "$file"; done | tar cf - -T -) |
    tar xf - -C "$tree"
cd "$tree"
git init -q . && git add -A
commit() { git -c user.name=t -c user.email=t@t commit -qam "$1"; }
commit sources

# row KIND: the files that its row names, one a line, sorted; <name> is dummy
row() {
    local line
    line=$(grep -F "| + | $1 |" CONTRIBUTING.md) || die "CONTRIBUTING.md has no row for $1"
    cut -d'|' -f4 <<<"$line" | grep -oE '`[^`]+`' | tr -d '`' | sed 's/<name>/dummy/g' | sort
}

# added KIND: what has been touched since the last call is what the row names; a folder of the row stands for all that is in it
added() {
    local file folder
    row "$1" >row
    git add -A && git reset -q row
    git diff --cached --name-only | while read -r file; do
        while read -r folder; do
            [[ $folder != */ || $file != "$folder"* ]] || file=$folder
        done <row
        echo "$file"
    done | sort -u >touched
    git reset -q touched 2>/dev/null || true
    diff row touched >differs || { cat differs >&2; die "$1: CONTRIBUTING.md (<) names other files than those that were touched (>)"; }
    echo "$1: $(wc -l <row) touched"
    rm row touched differs
    git add -A && commit "$1"
}

# after FILE PATTERN TEXT: puts lines behind the first one that matches
after() {
    grep -qE -- "$2" "$1" || die "$1 has no line like $2"
    awk -v pattern="$2" -v text="$3" '{ print } !done && $0 ~ pattern { print text; done = 1 }' "$1" >"$1.new"
    mv "$1.new" "$1"
}

# like FILE NEW SED...: a new file made of one that exists
like() {
    mkdir -p "$(dirname "$2")"
    sed -E "${@:3}" "$1" >"$2"
    ! cmp -s "$1" "$2" || die "$2 is no other than $1"
}

# row_like FILE LIST ROW SED: at the top of the list (a macro) a row made of one that is in it
row_like() {
    local row
    row=$(grep -m1 -E "^ *X\($3," "$1") || die "$1 has no row $3"
    after "$1" "^#define $2\(" "$(sed -E -e "$4" -e 's/[ \\]*$//' <<<"$row") \\"
}

# ---- a dummy of each ----

sed -i '0,/^FLAG(/s//FLAG(dummy, "dummy", LOGGING, NO, "Does nothing, and is in the list.")\nFLAG(/' src/config/options.def
added "a flag"

after src/kinds/schedules.h '^#define TX_LR_DECAY_STYLES' '    X(TX_LR_DECAY_DUMMY, "dummy", FALLS(0.25)) \'
added "a learning-rate decay style"

after src/backend/ops.def '^OP\(fill,' 'OP(dummy, OUT(y), MEMORY(x, B(x) + B(y)), NONE)'
after src/backend/ref/rows.def '^ROW\(fill\)' 'ROW(dummy)'
after include/triax/ops.h '^TX_API tx_status tx_op_fill' '
/* dummy: y = -x */
typedef struct tx_dummy_args {
    tx_tensor y, x; /* of one shape, contiguous */
} tx_dummy_args;
TX_API tx_status tx_op_dummy(tx_ctx *c, const tx_dummy_args *a);'
cat >>src/backend/check.c <<'S'

tx_status tx__check_dummy(const tx_dummy_args *a)
{
    if (!flat(a->x) || !flat(a->y) || tx_numel(a->x) != tx_numel(a->y)) return REFUSE("dummy", "x, y of one size", T(y), T(x));
    return TX_OK;
}
S
cat >src/backend/ref/ref_dummy.c <<'S'
/* ref_dummy.c - dummy. */
#include "backend/ref/ref.h"

tx_status tx__ref_dummy(tx_ctx *c, const tx_dummy_args *a, void *scratch)
{
    (void)c, (void)scratch;
    for (int64_t i = 0, n = tx_numel(a->x); i < n; i++) tx__ref_store(a->y, i, -tx__ref_load(a->x, i));
    return TX_OK;
}
S
added "an op"

# SGD at twice the learning rate
after src/kinds/optimizers.h '^#define TX_OPTIMIZERS\(' '    X(TX_OPTIMIZER_DUMMY, "dummy", tx_optim_dummy, "Dummy", NULL, "momentum", TX_OPTIMIZER_PLAIN, { "dummy", TX_STATE_OF_ALL }) \'
like src/optim/sgd.c src/optim/dummy.c 's/tx_optim_sgd/tx_optim_dummy/; s/\.lr = s->lr/.lr = 2 * s->lr/'
added "an optimizer without a new op"

# numbers, as the NullTokenizer's
row_like src/kinds/tokenizers.h TX_TOKENIZERS TX_TOKENIZER_NULL 's/TX_TOKENIZER_NULL/TX_TOKENIZER_DUMMY/; s/NullTokenizer/DummyTokenizer/; s/ null,/ dummy,/'
like src/token/tokenizer_null.c src/token/tokenizer_dummy.c 's/tx__tokenizer_null/tx__tokenizer_dummy/; s/tx_status tx_tokenizer_open_null/static tx_status open_dummy/; s/tx_tokenizer_open_null/open_dummy/'
added "a tokenizer kind"

# a GPT
row_like src/kinds/models.h TX_MODELS TX_MODEL_GPT 's/TX_MODEL_GPT/TX_MODEL_DUMMY/; s/"GPT"/"DUMMY"/; s/tx_model_gpt/tx_model_dummy/'
like src/model/gpt/gpt_model.c src/model/dummy/dummy_model.c 's/tx_model_gpt/tx_model_dummy/; s/TX_MODEL_GPT/TX_MODEL_DUMMY/; s/"GPT"/"DUMMY"/; s,^#include "model/gpt/gpt.h",&\n\nextern const tx_model_type tx_model_dummy;\n,'
added "a model"

# all parameters in one file, one behind the other
sed -i 's/^    TX_FORMAT_ROW_PEFT(X)$/    TX_FORMAT_ROW_PEFT(X) \\\n    TX_FORMAT_ROW_DUMMY(X)/; /^\/\* Those that a run saves/i #define TX_FORMAT_ROW_DUMMY(X) X(TX_FORMAT_DUMMY, "dummy", TX_CKPT_DUMMY, "a dummy", "dummy.json", tx_source_dummy, tx_sink_dummy)\n' src/kinds/formats.h
cat >src/convert/dummy_sink.c <<'S'
/* dummy_sink.c - dummy.json has the options, dummy.bin the numbers. */
#include <stdio.h>

#include "base/file.h"
#include "convert/sink.h"

static tx_status write(tx_conversion *c)
{
    char path[4200];
    tx_status st = tx_make_dirs(c->out);
    snprintf(path, sizeof path, "%s/dummy.json", c->out);
    json_t *all = json_pack("{s:O, s:I}", "options", c->options, "vocab_size", (json_int_t)c->m->vocab_size);
    bool good = !st && all && !json_dump_file(all, path, JSON_SORT_KEYS);
    json_decref(all);
    snprintf(path, sizeof path, "%s/dummy.bin", c->out);
    FILE *f = good ? fopen(path, "wb") : NULL;
    for (int i = 0; f && !st && i < c->m->params.n; i++) {
        const tx_param *p = &c->m->params.param[i];
        const float *x = NULL;
        size_t n = (size_t)tx_param_whole_numel(p);
        st = tx_conversion_fetch(c, 0, i, &x);
        if (!st) good = good && fwrite(x, sizeof *x, n, f) == n;
    }
    good = f && !fclose(f) && good;
    return st || good ? st : TX_FAIL(TX_ERR_IO, "%s cannot be written", path);
}

static unsigned change(const tx_conversion *c, const tx_param *p)
{
    (void)c, (void)p;
    return TX_CHANGE_NONE;
}

const tx_sink_type tx_sink_dummy = { .format = TX_FORMAT_DUMMY, .write = write, .change = change };
S
cat >src/convert/dummy_source.c <<'S'
/* dummy_source.c - what dummy_sink.c writes. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "convert/source.h"

static tx_status open_folder(tx_source *src)
{
    char path[4200];
    TX_TRY(tx_memdup0(&src->path, src->folder, strlen(src->folder), "a path"));
    snprintf(path, sizeof path, "%s/dummy.json", src->path);
    json_t *all = json_load_file(path, 0, NULL);
    src->impl = all;
    src->part[src->n_parts++] = TX_CKPT_MODEL;
    src->vocab_size = json_integer_value(json_object_get(all, "vocab_size"));
    return all ? TX_OK : TX_FAIL(TX_ERR_FORMAT, "%s is no JSON", path);
}

static void close_folder(tx_source *src)
{
    json_decref(src->impl);
}

static tx_status options(tx_source *src, const json_t *all, json_t **out)
{
    (void)all;
    *out = json_deep_copy(json_object_get(src->impl, "options"));
    return *out ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for options");
}

static tx_status read(tx_source *src, const tx_model *m, int part, const tx_param *p, float *whole)
{
    char path[4200];
    (void)part;
    long at = 0;
    size_t n = (size_t)tx_param_whole_numel(p);
    for (const tx_param *q = m->params.param; q < p; q++) at += (long)(tx_param_whole_numel(q) * (int64_t)sizeof *whole);
    snprintf(path, sizeof path, "%s/dummy.bin", src->path);
    FILE *f = fopen(path, "rb");
    bool good = f && !fseek(f, at, SEEK_SET) && fread(whole, sizeof *whole, n, f) == n;
    if (f) fclose(f);
    return good ? TX_OK : TX_FAIL(TX_ERR_FORMAT, "%s is too short for %s", path, p->name);
}

static tx_status check(tx_source *src, const tx_model *m)
{
    (void)src, (void)m;
    return TX_OK;
}

static unsigned change(const tx_source *src, const tx_model *m, const tx_param *p)
{
    (void)src, (void)m, (void)p;
    return TX_CHANGE_NONE;
}

const tx_source_type tx_source_dummy = { .format = TX_FORMAT_DUMMY,
                                         .title = "dummy",
                                         .open = open_folder,
                                         .close = close_folder,
                                         .options = options,
                                         .check = check,
                                         .read = read,
                                         .change = change };
S
added "a checkpoint format"

# ---- built, with a program that runs the op ----

cat >use_op.c <<'S'
#include <stdio.h>

#include "backend/ctx.h"
#include "triax/ops.h"

int main(int argc, char **argv)
{
    tx_ctx c;
    float x[3] = { 1, -2, 0.5f }, y[3] = { 0 };
    tx_status st = argc == 2 ? tx_ctx_init(&c, argv[1], 1) : TX_ERR_ARG;
    if (!st) st = tx_ctx_take_memory(&c);
    if (!st) st = tx_op_dummy(&c, &(tx_dummy_args){ .y = tx_tensor1(y, TX_F32, 3), .x = tx_tensor1(x, TX_F32, 3) });
    printf("%g %g %g\n", y[0], y[1], y[2]);
    return (int)st;
}
S
echo 'add_executable(use_op use_op.c)
target_link_libraries(use_op PRIVATE triax_static)' >>CMakeLists.txt

export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
{ cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug -DTX_TESTS=OFF -DTX_WERROR=ON "${launcher[@]}" && cmake --build build -j "$(nproc)" --target triax use_op; } >build.log 2>&1 ||
    { tail -n 40 build.log >&2; die "the copy does not build"; }

# ---- used ----

TRIAX=$tree/build/triax
train() {
    ok pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 \
        --micro-batch-size 2 --global-batch-size 2 --train-iters 2 --eval-iters 0 --log-interval 1 --mock-data --vocab-size 60 --lr 1e-3 "$@"
}

ok pretrain-gpt --help dummy
grep -q -- '--dummy ' out || die "--help does not show --dummy"
train --dummy
grep -qE '^  dummy \.+ True' out || { cat out; die "--dummy is not among the arguments"; }

train --lr-decay-style dummy
[ "$(grep -c 'learning rate: 2\.500E-04' out)" -eq 2 ] || { cat out; die "--lr-decay-style dummy has another learning rate"; }

for backend in ref cpu; do
    [ "$(build/use_op $backend)" = '-1 2 -0.5' ] || die "the op dummy on $backend: $(build/use_op $backend)"
done

train --optimizer sgd --lr 2e-3
losses out >twice
train --optimizer dummy
losses out | diff - twice >&2 || die "--optimizer dummy is not SGD at twice the learning rate"

[ "$("$TRIAX" tokenize --tokenizer-type DummyTokenizer --vocab-size 60 <<<'7 59')" = '[7, 59]' ] || die "tokenize with DummyTokenizer"
train
losses out >plain
train --tokenizer-type DummyTokenizer
losses out | diff - plain >&2 || die "the DummyTokenizer's samples are not the NullTokenizer's"

train --model-type DUMMY
losses out | diff - plain >&2 || die "a DUMMY is no GPT"

train --save run --no-save-optim
ok convert --to dummy run made
[ -s made/dummy.bin ] || die "convert --to dummy"
ok convert --to native made back
cmp run/iter_0000002/shard_00000.safetensors back/*/shard_00000.safetensors || die "there and back is not the same"
echo "each of them works"
