/* pt_tool.c - reads and writes .pt files for tests/peer/test_torch.sh.
 *   pt_tool show FILE          its values as one line of text (pt_text.h)
 *   pt_tool copy FROM TO       reads and writes it
 *   pt_tool make SEED TO       writes values made by chance, and shows them as the file then holds them
 *   pt_tool large GIB TO       writes a tensor of so many GiB and one behind it */
#include <stdio.h>

#include "pt_text.h"

#include "base/status.h"

static tx_status show(const char *path)
{
    tx_pt *f;
    TX_TRY(tx_pt_open(&f, path));
    tx_status st = tx_pt_verify(f, NULL);
    if (!st) {
        tx_str text = pt_text_file(f);
        fwrite(text.data, 1, text.len, stdout);
        tx_str_free(&text);
    }
    tx_pt_close(f);
    return st;
}

static tx_status copy(const char *from, const char *to)
{
    tx_pt *f;
    TX_TRY(tx_pt_open(&f, from));
    tx_status st = tx_pt_write(to, tx_pt_root(f), NULL, NULL);
    tx_pt_close(f);
    return st;
}

/* ---- values by chance ---- */

static uint64_t state;

static uint64_t chance(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static tx_status fetch(void *user, const tx_pt_storage *s, int64_t first, int64_t n, void *buf)
{
    (void)user, (void)first;
    for (int64_t i = 0; i < n; i++) {
        if (s->dtype < TX_PT_I64)
            ((float *)buf)[i] = (float)((int64_t)chance(2001) - 1000) / 16;
        else
            ((int64_t *)buf)[i] = (int64_t)chance(2);
    }
    return TX_OK;
}

static tx_py *tensor(tx_py_arena *a)
{
    static tx_pt_storage *last;
    int64_t dim[3] = { (int64_t)chance(4), (int64_t)chance(5), 1 + (int64_t)chance(3) }, need = 1;
    int n = (int)chance(4);
    for (int i = 0; i < n; i++) need *= dim[i];
    bool again = last && chance(3) == 0 && last->numel >= need;
    int64_t more = (int64_t)chance(9);
    if (!again) last = tx_py_storage(a, (tx_pt_dtype)chance(TX_PT_N_DTYPES), need + more, NULL);
    return tx_py_of_tensor(a, last, last ? (int64_t)chance((uint64_t)(last->numel - need) + 1) : 0, n, dim);
}

static tx_py *value(tx_py_arena *a, int depth)
{
    static const int64_t ints[] = { 0,         -1,        255,       256,       65535,           65536,
                                    INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, (int64_t)1 << 31 };
    static const char *const texts[] = { "", "a", "weight", "\xC3\xA9\xE4\xB8\xAD", "a.b.c" };
    tx_py *v;
    char key[16];
    switch (chance(depth > 0 ? 13 : 8)) {
    case 0:
        return tx_py_none(a);
    case 1:
        return tx_py_of_bool(a, chance(2));
    case 2:
        return tx_py_of_int(a, ints[chance(sizeof ints / sizeof *ints)]);
    case 3:
        return tx_py_of_float(a, (double)chance(1000) / 7);
    case 4:
        return tx_py_of_str(a, texts[chance(5)]);
    case 5:
        return tx_py_of_global(a, "torch", chance(2) ? "float16" : "bfloat16");
    case 6:
    case 7:
        return tensor(a);
    case 8:
        v = tx_py_list(a);
        for (uint64_t n = chance(50) ? chance(5) : 2003; n; n--)
            v = tx_py_append(a, v, value(a, n > 5 ? 0 : depth - 1));
        return v;
    case 9:
        v = tx_py_tuple(a);
        for (uint64_t n = chance(6); n; n--) v = tx_py_append(a, v, value(a, depth - 1));
        return v;
    default:
        v = chance(2) ? tx_py_dict(a) : tx_py_ordered_dict(a);
        for (uint64_t n = chance(50) ? chance(6) : 1001; n; n--) {
            snprintf(key, sizeof key, "k%d", (int)n);
            v = tx_py_set(a, v, key, value(a, n > 6 ? 0 : depth - 1));
            if (n < 3) v = tx_py_set_int(a, v, (int64_t)n, tx_py_none(a));
        }
        if (chance(3) || !getenv("TX_PT_OBJECTS") || !tx_py_len(v)) return v; /* Python gives an empty one no state */
        if (v) v->as.dict.ordered = false;
        return tx_py_object(a, "argparse", "Namespace", tx_py_tuple(a), v);
    }
}

static tx_status make(const char *seed, const char *to)
{
    tx_py_arena *a;
    TX_TRY(tx_py_arena_create(&a));
    state = strtoull(seed, NULL, 10) * 7919 + 1;
    tx_py *root = tx_py_dict(a);
    for (int i = 0; i < 8; i++) {
        char key[16];
        snprintf(key, sizeof key, "part%d", i);
        root = tx_py_set(a, root, key, value(a, 5));
    }
    tx_status st = tx_pt_write(to, root, fetch, NULL);
    tx_py_arena_destroy(a);
    return st ? st : show(to);
}

static tx_status fetch_place(void *user, const tx_pt_storage *s, int64_t first, int64_t n, void *buf)
{
    (void)user, (void)s;
    for (int64_t i = 0; i < n; i++) ((float *)buf)[i] = (float)((first + i) / 1000);
    return TX_OK;
}

static tx_status large(const char *gib, const char *to)
{
    tx_py_arena *a;
    TX_TRY(tx_py_arena_create(&a));
    int64_t n = strtoll(gib, NULL, 10) << 28, few = 10;
    tx_py *root =
        tx_py_set(a, tx_py_dict(a), "large", tx_py_of_tensor(a, tx_py_storage(a, TX_PT_F32, n, NULL), 0, 1, &n));
    root = tx_py_set(a, root, "behind", tx_py_of_tensor(a, tx_py_storage(a, TX_PT_F32, few, NULL), 0, 1, &few));
    tx_status st = tx_pt_write(to, root, fetch_place, NULL);
    tx_py_arena_destroy(a);
    return st;
}

int main(int argc, char **argv)
{
    tx_status st = TX_ERR_ARG;
    if (argc == 3 && !strcmp(argv[1], "show"))
        st = show(argv[2]);
    else if (argc == 4 && !strcmp(argv[1], "copy"))
        st = copy(argv[2], argv[3]);
    else if (argc == 4 && !strcmp(argv[1], "make"))
        st = make(argv[2], argv[3]);
    else if (argc == 4 && !strcmp(argv[1], "large"))
        st = large(argv[2], argv[3]);
    if (st) fprintf(stderr, "pt_tool: %s\n", tx_last_error());
    return st != TX_OK;
}
