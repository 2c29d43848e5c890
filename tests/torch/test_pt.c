/* labels: unit fault */
/* test_pt.c - .pt files: what torch writes is read, what is written is read again, and what is damaged or built to harm
 * is refused with the reason. */
#include "support.h"

#include "pt_text.h"

#include "base/half.h"
#include "torch/pt.h"

/* ---- files that torch wrote; how: tests/data/torch/README.md ---- */

static void assert_text(const tx_pt *f, const char *expected)
{
    tx_str want = read_file(expected), got = pt_text_file(f);
    size_t i = 0;
    while (i < want.len && i < got.len && want.data[i] == got.data[i]) i++;
    if (i < want.len || i < got.len)
        fail_msg("%s: from byte %zu on:\n%.80s\nexpected\n%.80s", tx_pt_path(f), i, got.data + i, want.data + i);
    tx_str_free(&want);
    tx_str_free(&got);
}

/* Reads it, writes it, reads that. */
static void goes_round(const char *name, const char *text)
{
    tx_pt *f, *again;
    char path[64], expected[64];
    snprintf(path, sizeof path, "torch/%s.pt", name);
    snprintf(expected, sizeof expected, "torch/%s.txt", text);
    ASSERT_OK(tx_pt_open(&f, data_path(path)));
    assert_string_equal(tx_pt_path(f), data_path(path));
    assert_text(f, data_path(expected));
    ASSERT_OK(tx_pt_verify(f, NULL));
    tx_pt_forget(f);
    ASSERT_OK(tx_pt_write(in_scratch("again.pt"), tx_pt_root(f), NULL, NULL));
    tx_pt_close(f);
    ASSERT_OK(tx_pt_open(&again, in_scratch("again.pt")));
    assert_text(again, data_path(expected));
    ASSERT_OK(tx_pt_verify(again, NULL));
    tx_pt_close(again);
}

static void reads_what_torch_writes(void **state)
{
    (void)state;
    goes_round("mixed", "mixed");
    goes_round("mixed_protocol_4", "mixed");
    goes_round("mixed_legacy", "mixed");
    goes_round("zip64", "zip64");
    goes_round("python2", "python2");
    goes_round("legacy_views", "legacy_views");
}

static void finds_values(void **state)
{
    (void)state;
    tx_pt *f;
    double x;
    int64_t i;
    ASSERT_OK(tx_pt_open(&f, data_path("torch/mixed.pt")));
    const tx_py *root = tx_pt_root(f);
    assert_true(tx_py_float(tx_py_at(root, "args.lr"), &x) && x == 1e-3);
    assert_true(tx_py_is_global(tx_py_at(root, "args.params_dtype"), "torch", "bfloat16"));
    assert_string_equal(tx_py_str(tx_py_item(tx_py_at(root, "args.names"), 1)), "b");
    assert_int_equal(tx_py_at(root, "args.nested.x")->kind, TX_PY_NONE);
    assert_ptr_equal(tx_py_at(root, "args.shared"), tx_py_get(root, "shared"));
    assert_null(tx_py_at(root, "args.nested.y.z"));
    assert_true(tx_py_float(tx_py_get(root, "scalar"), &x) && x == 2.5);
    assert_false(tx_py_int(tx_py_get(root, "scalar"), &i));
    assert_true(tx_py_true(tx_py_item(tx_py_get(root, "bools"), 0)));
    assert_null(tx_py_str(tx_py_item(tx_py_get(root, "texts"), 2))); /* holds a NUL */
    const tx_pt_tensor *t = tx_py_tensor(tx_py_item(tx_py_get(root, "views"), 2));
    assert_true(t->n_dims == 2 && t->dim[0] == 6 && t->stride[0] == 1 && t->stride[1] == 6 && tx_pt_numel(t) == 24);
    tx_pt_close(f);
}

/* Every part of a tensor is the same part of the whole, whatever its strides. */
static void reads_parts(void **state)
{
    (void)state;
    tx_pt *f;
    ASSERT_OK(tx_pt_open(&f, data_path("torch/mixed.pt")));
    const tx_py *views = tx_py_get(tx_pt_root(f), "views");
    for (size_t k = 0; k < tx_py_len(views); k++) {
        const tx_pt_tensor *t = tx_py_tensor(tx_py_item(views, k));
        float whole[24], part[25];
        int64_t n = tx_pt_numel(t);
        ASSERT_OK(tx_pt_read_f32(f, t, 0, n, whole));
        for (int64_t first = 0; first <= n; first++)
            for (int64_t m = 0; m <= n - first; m++) {
                part[m] = -1;
                ASSERT_OK(tx_pt_read_f32(f, t, first, m, part));
                assert_memory_equal(part, whole + first, (size_t)m * 4);
                assert_true(part[m] == -1);
            }
    }
    tx_pt_close(f);
}

static void refuses_other_types(void **state)
{
    (void)state;
    tx_pt *f;
    float x[24];
    double huge = 1e300;
    ASSERT_OK(tx_pt_open(&f, data_path("torch/mixed.pt")));
    const tx_py *s = tx_py_get(tx_pt_root(f), "state");
    ASSERT_FAILS(tx_pt_read_f32(f, s->as.dict.value[4]->as.tensor, 0, 4, x), TX_ERR_FORMAT, "int64");
    tx_pt_storage wide = { TX_PT_F64, 1, (const unsigned char *)&huge, NULL, 0 };
    tx_pt_tensor t = { .storage = &wide };
    ASSERT_FAILS(tx_pt_read_f32(f, &t, 0, 1, x), TX_ERR_NUMERIC, "too large for float32");
    tx_pt_close(f);
}

static void names_what_is_missing(void **state)
{
    (void)state;
    tx_pt *f;
    ASSERT_FAILS(tx_pt_open(&f, in_scratch("none.pt")), TX_ERR_NOTFOUND, "none.pt");
    ASSERT_FAILS(tx_pt_open(&f, scratch_dir), TX_ERR_IO, "directory");
    tx_pt_close(NULL);
}

/* ---- files that are damaged, or built to harm ---- */

static void refuses_hostile_files(void **state)
{
    (void)state;
    tx_str list = read_file(data_path("torch/hostile/expected.tsv"));
    int n = 0;
    for (char *line = list.data, *end; *line; line = end + 1, n++) {
        char *kind = strchr(line, '\t'), *part;
        end = strchr(line, '\n');
        part = kind ? strchr(kind + 1, '\t') : NULL;
        assert_true(kind && part && end && part < end);
        *kind++ = *part++ = *end = 0;
        char name[128];
        tx_pt *f;
        snprintf(name, sizeof name, "torch/hostile/%s.pt", line);
        const char *path = data_path(name);
        tx_status want = strcmp(kind, "format") == 0 ? TX_ERR_FORMAT : TX_ERR_UNSUPPORTED, got = tx_pt_open(&f, path);
        if (got != want || !strstr(tx_last_error(), part) || strncmp(tx_last_error(), path, strlen(path)) != 0 ||
            strchr(tx_last_error(), '\n'))
            fail_msg("%s: status %d, \"%s\"; expected %s, \"%s\"", line, (int)got, got ? tx_last_error() : "", kind,
                     part);
    }
    assert_true(n > 150);
    tx_str_free(&list);
}

/* A file that says false what `change` does to the good one, in every byte: never more than a wrong number. */
static void survives_every_byte(void **state)
{
    (void)state;
    static const char *const names[] = { "torch/zip64.pt", "torch/python2.pt", "torch/legacy_views.pt" };
    for (size_t k = 0; k < 3; k++) {
        tx_str good = read_file(data_path(names[k]));
        for (size_t i = 0; i < good.len; i++)
            for (int bit = 0; bit < 8; bit += 7) {
                tx_pt *f;
                good.data[i] = (char)(good.data[i] ^ 1 << bit);
                if (!tx_pt_open_unchecked(&f, write_file(in_scratch("changed.pt"), good.data, good.len))) {
                    tx_str text = pt_text_file(f);
                    tx_str_free(&text);
                    tx_pt_close(f);
                }
                good.data[i] = (char)(good.data[i] ^ 1 << bit);
            }
        for (size_t n = 0; n < good.len; n++) { /* and none that is cut off is taken */
            tx_pt *f;
            assert_true(tx_pt_open_unchecked(&f, write_file(in_scratch("cut.pt"), good.data, n)) != TX_OK);
        }
        tx_str_free(&good);
    }
}

/* A storage of 64 bytes, all 1; *data, where they lie in the file. */
static tx_str write_ones(const char *path, char **data)
{
    tx_py_arena *a;
    const int64_t dim[1] = { 64 };
    ASSERT_OK(tx_py_arena_create(&a));
    tx_pt_storage *s = tx_py_storage(a, TX_PT_U8, 64, NULL);
    unsigned char ones[64];
    memset(ones, 1, sizeof ones);
    s->data = ones;
    ASSERT_OK(tx_pt_write(path, tx_py_of_tensor(a, s, 0, 1, dim), NULL, NULL));
    tx_py_arena_destroy(a);
    tx_str good = read_file(path);
    *data = memmem(good.data, good.len, ones, sizeof ones);
    assert_non_null(*data);
    assert_int_equal((*data - good.data) % 64, 0);
    return good;
}

/* A change of any stored byte is found by its CRC: when all is asked for, and when that tensor is. */
static void verifies(void **state)
{
    (void)state;
    tx_pt *f;
    char *data;
    int64_t x[64];
    uint64_t bytes = 0;
    tx_str good = write_ones(in_scratch("v.pt"), &data);
    for (int i = 0; i < 64; i++) {
        data[i] ^= 4;
        ASSERT_OK(tx_pt_open(&f, write_file(in_scratch("v.pt"), good.data, good.len)));
        ASSERT_FAILS(tx_pt_verify(f, NULL), TX_ERR_FORMAT, "entry v/data/0 is damaged");
        ASSERT_FAILS(pt_read_i64(f, tx_py_tensor(tx_pt_root(f)), 5, 1, x), TX_ERR_FORMAT, "--no-verify-load");
        ASSERT_OK(pt_read_i64(f, tx_py_tensor(tx_pt_root(f)), 5, 0, x));
        tx_pt_close(f);
        ASSERT_OK(tx_pt_open_unchecked(&f, in_scratch("v.pt")));
        ASSERT_OK(pt_read_i64(f, tx_py_tensor(tx_pt_root(f)), 0, 64, x));
        assert_int_equal(x[i], 5);
        tx_pt_close(f);
        data[i] ^= 4;
    }
    char *pickle = memmem(good.data, good.len, "_rebuild_tensor", 15);
    assert_non_null(pickle);
    *pickle = '.';
    ASSERT_FAILS(tx_pt_open(&f, write_file(in_scratch("v.pt"), good.data, good.len)), TX_ERR_FORMAT,
                 "entry v/data.pkl is damaged: its CRC-32 is ");
    *pickle = '_';
    ASSERT_OK(tx_pt_open(&f, write_file(in_scratch("v.pt"), good.data, good.len)));
    assert_null(tx_pt_unchecked(f));
    ASSERT_OK(tx_pt_verify(f, &bytes));
    assert_true(bytes > 64 && bytes < good.len);
    tx_pt_close(f);
    tx_str_free(&good);
}

/* More than one thread takes at a time: any byte of it, also of the last piece. */
static void verifies_in_pieces(void **state)
{
    (void)state;
    enum { N = (9 << 20) + 5 };
    static const size_t place[] = { 0, (4 << 20) - 1, 4 << 20, (8 << 20) + 3, N - 1 };
    tx_pt *f;
    tx_py_arena *a;
    const int64_t dim[1] = { N };
    int64_t x;
    unsigned char *bytes = malloc(N);
    for (size_t i = 0; i < N; i++) bytes[i] = (unsigned char)(i * i >> 7);
    ASSERT_OK(tx_py_arena_create(&a));
    tx_pt_storage *s = tx_py_storage(a, TX_PT_U8, N, NULL);
    s->data = bytes;
    ASSERT_OK(tx_pt_write(in_scratch("v.pt"), tx_py_of_tensor(a, s, 0, 1, dim), NULL, NULL));
    tx_py_arena_destroy(a);
    tx_str good = read_file(in_scratch("v.pt"));
    char *data = memmem(good.data, good.len, bytes, N);
    assert_non_null(data);
    ASSERT_OK(tx_pt_open(&f, in_scratch("v.pt")));
    ASSERT_OK(tx_pt_verify(f, NULL));
    ASSERT_OK(pt_read_i64(f, tx_py_tensor(tx_pt_root(f)), 77, 1, &x));
    tx_pt_close(f);
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        data[place[i]] ^= 1;
        ASSERT_OK(tx_pt_open(&f, write_file(in_scratch("v.pt"), good.data, good.len)));
        ASSERT_FAILS(pt_read_i64(f, tx_py_tensor(tx_pt_root(f)), 77, 1, &x), TX_ERR_FORMAT, "data/0 is damaged");
        tx_pt_close(f);
        data[place[i]] ^= 1;
    }
    tx_str_free(&good);
    free(bytes);
}

/* A tensor of one number is given without its file (tx_py_int), so it is compared when the file is opened. */
static void verifies_single_numbers(void **state)
{
    (void)state;
    static const unsigned char number[8] = { 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x08 };
    tx_pt *f;
    tx_py_arena *a;
    int64_t x;
    ASSERT_OK(tx_py_arena_create(&a));
    tx_pt_storage *s = tx_py_storage(a, TX_PT_I64, 1, NULL);
    s->data = number;
    ASSERT_OK(tx_pt_write(in_scratch("v.pt"), tx_py_of_tensor(a, s, 0, 0, NULL), NULL, NULL));
    tx_py_arena_destroy(a);
    tx_str good = read_file(in_scratch("v.pt"));
    char *data = memmem(good.data, good.len, number, sizeof number);
    assert_non_null(data);
    ASSERT_OK(tx_pt_open(&f, in_scratch("v.pt")));
    assert_true(tx_py_int(tx_pt_root(f), &x) && x == 0x0877665544332211);
    tx_pt_close(f);
    *data ^= 1;
    ASSERT_FAILS(tx_pt_open(&f, write_file(in_scratch("v.pt"), good.data, good.len)), TX_ERR_FORMAT,
                 "entry v/data/0 is damaged");
    tx_str_free(&good);
}

/* What cannot be compared is taken, and said. */
static void says_what_has_no_checksum(void **state)
{
    (void)state;
    static const struct {
        const char *name, *said;
        bool any;
    } c[] = { { "torch/mixed.pt", NULL, true },
              { "torch/no_crc.pt", "has no checksums: it was saved without them", false },
              { "torch/crc_of_some.pt", "has no checksums of some of its entries", true },
              { "torch/mixed_legacy.pt", "has no checksums, as files of PyTorch before 1.6", false } };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tx_pt *f;
        uint64_t bytes = 0;
        ASSERT_OK(tx_pt_open(&f, data_path(c[i].name)));
        const char *said = tx_pt_unchecked(f);
        if (c[i].said)
            assert_string_equal(said, c[i].said);
        else
            assert_null(said);
        ASSERT_OK(tx_pt_verify(f, &bytes));
        assert_int_equal(bytes > 0, c[i].any);
        tx_pt_close(f);
    }
    goes_round("no_crc", "no_crc");
}

/* Lists of lists of the same list, 2^100 if they were written out: read, and made JSON of as far as it goes. */
static void does_not_unfold(void **state)
{
    (void)state;
    tx_py_arena *a;
    tx_pt *f;
    ASSERT_OK(tx_py_arena_create(&a));
    tx_py *v = tx_py_list(a);
    for (int i = 0; i < 100; i++) {
        tx_py *twice = tx_py_list(a);
        v = tx_py_append(a, tx_py_append(a, twice, v), v);
    }
    ASSERT_OK(tx_pt_write(in_scratch("bomb.pt"), v, NULL, NULL));
    ASSERT_OK(tx_pt_open(&f, in_scratch("bomb.pt")));
    json_t *j = tx_py_to_json(tx_pt_root(f));
    assert_true(json_is_array(j));
    json_decref(j);
    tx_pt_close(f);
    tx_py_arena_destroy(a);
}

/* ---- writing ---- */

static const float float_value[] = { 0, -0.0f, 1, -2.5f, 65504, 1.1754944e-38f, 3.1415927f, INFINITY, -INFINITY };
enum { N_FLOATS = sizeof float_value / sizeof *float_value };

static float float_at(int64_t i)
{
    return i % 17 < N_FLOATS ? float_value[i % 17] : (float)(i % 1000) / 8;
}

static int64_t n_fetched, last_first;
static tx_status fetch_result;

static tx_status fetch(void *user, const tx_pt_storage *s, int64_t first, int64_t n, void *buf)
{
    assert_int_equal(n_fetched, (long long)first); /* in order, without a hole */
    assert_true(n > 0 && n <= TX_PT_CHUNK && first + n <= s->numel);
    n_fetched = first + n == s->numel ? 0 : first + n;
    last_first = first;
    assert_ptr_equal(user, &n_fetched);
    for (int64_t i = 0; i < n; i++) {
        if (s->dtype < TX_PT_I64)
            ((float *)buf)[i] = float_at(first + i);
        else
            ((int64_t *)buf)[i] = (first + i) % 2;
    }
    return fetch_result ? TX_FAIL(fetch_result, "the caller's own words") : TX_OK;
}

static void writes_every_type(void **state)
{
    (void)state;
    enum { N = TX_PT_CHUNK + 37 };
    tx_py_arena *a;
    tx_pt *f;
    const int64_t dim[2] = { 1, N };
    static float x[N];
    static int64_t y[N];
    ASSERT_OK(tx_py_arena_create(&a));
    tx_py *root = tx_py_dict(a);
    for (int t = 0; t < TX_PT_N_DTYPES; t++)
        root = tx_py_set(a, root, tx_pt_dtype_name((tx_pt_dtype)t),
                         tx_py_of_tensor(a, tx_py_storage(a, (tx_pt_dtype)t, N, NULL), 0, 2, dim));
    n_fetched = 0;
    ASSERT_OK(tx_pt_write(in_scratch("types.pt"), root, fetch, &n_fetched));
    tx_py_arena_destroy(a);
    ASSERT_OK(tx_pt_open(&f, in_scratch("types.pt")));
    ASSERT_OK(tx_pt_verify(f, NULL));
    for (int t = 0; t < TX_PT_N_DTYPES; t++) {
        const tx_pt_tensor *v = tx_py_tensor(tx_py_get(tx_pt_root(f), tx_pt_dtype_name((tx_pt_dtype)t)));
        assert_true(v && (int)v->storage->dtype == t && v->n_dims == 2 && v->dim[1] == N);
        assert_int_equal((uintptr_t)v->storage->data % 64, 0);
        if (t < TX_PT_I64)
            ASSERT_OK(tx_pt_read_f32(f, v, 0, N, x));
        else
            ASSERT_OK(pt_read_i64(f, v, 0, N, y));
        for (int64_t i = 0; i < N; i++) {
            float want = float_at(i);
            if (t == TX_PT_F16) want = tx_f16_to_f32(tx_f32_to_f16(want));
            if (t == TX_PT_BF16) want = tx_bf16_to_f32(tx_f32_to_bf16(want));
            if (t < TX_PT_I64 ? memcmp(&x[i], &want, 4) != 0 : y[i] != i % 2)
                fail_msg("dtype %d, element %d", t, (int)i);
        }
    }
    tx_pt_close(f);
}

static int64_t wrong_number;

static tx_status fetch_wrong(void *user, const tx_pt_storage *s, int64_t first, int64_t n, void *buf)
{
    (void)user, (void)first;
    memset(buf, 0, (size_t)n * (s->dtype < TX_PT_I64 ? 4 : 8));
    if (s->dtype < TX_PT_I64)
        ((float *)buf)[n - 1] = (float)wrong_number;
    else
        ((int64_t *)buf)[n - 1] = wrong_number;
    return TX_OK;
}

static tx_status write_one(tx_py_arena *a, tx_pt_dtype dtype, int64_t number)
{
    const int64_t dim[1] = { 3 };
    wrong_number = number;
    return tx_pt_write(in_scratch("one.pt"), tx_py_of_tensor(a, tx_py_storage(a, dtype, 3, NULL), 0, 1, dim),
                       fetch_wrong, NULL);
}

static void refuses_numbers_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        tx_pt_dtype dtype;
        int64_t good, bad;
    } c[] = { { TX_PT_F16, 65519, 65520 }, { TX_PT_I32, INT32_MIN, (int64_t)INT32_MIN - 1 },
              { TX_PT_I16, 32767, 32768 }, { TX_PT_I8, -128, -129 },
              { TX_PT_U8, 255, 256 },      { TX_PT_U8, 0, -1 },
              { TX_PT_BOOL, 1, 2 } };
    tx_py_arena *a;
    ASSERT_OK(tx_py_arena_create(&a));
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        ASSERT_OK(write_one(a, c[i].dtype, c[i].good));
        ASSERT_OK(tx_remove_tree(in_scratch("one.pt")));
        ASSERT_FAILS(write_one(a, c[i].dtype, c[i].bad), TX_ERR_NUMERIC, tx_pt_dtype_name(c[i].dtype));
        assert_n_files(scratch_dir, 0);
    }
    tx_py_arena_destroy(a);
}

static void refuses_values_that_cannot_be_saved(void **state)
{
    (void)state;
    tx_py_arena *a;
    ASSERT_OK(tx_py_arena_create(&a));
    const char *path = in_scratch("bad.pt");
    tx_py *self = tx_py_list(a), *deep = tx_py_list(a);
    tx_py_append(a, self, self);
    ASSERT_FAILS(tx_pt_write(path, self, NULL, NULL), TX_ERR_ARG, "contains itself");
    for (int i = 1; i < TX_PT_MAX_DEPTH; i++) deep = tx_py_append(a, tx_py_list(a), deep);
    ASSERT_OK(tx_pt_write(path, deep, NULL, NULL));
    tx_pt *f;
    ASSERT_OK(tx_pt_open(&f, path)); /* as deep as may be read */
    tx_pt_close(f);
    ASSERT_OK(tx_remove_tree(path));
    deep = tx_py_append(a, tx_py_tuple(a), deep);
    ASSERT_FAILS(tx_pt_write(path, deep, NULL, NULL), TX_ERR_ARG, "deeper than 128");
    ASSERT_FAILS(tx_pt_write(path, tx_py_of_global(a, "os\nsystem\n", "x"), NULL, NULL), TX_ERR_ARG, "no name");
    ASSERT_FAILS(tx_pt_write(path, NULL, NULL, NULL), TX_ERR_NOMEM, "bad.pt");
    const int64_t dim[1] = { 5 };
    fetch_result = TX_ERR_COMM;
    n_fetched = 0;
    ASSERT_FAILS(
        tx_pt_write(path, tx_py_of_tensor(a, tx_py_storage(a, TX_PT_F32, 5, NULL), 0, 1, dim), fetch, &n_fetched),
        TX_ERR_COMM, "the caller's own words");
    fetch_result = TX_OK;
    assert_n_files(scratch_dir, 0);
    tx_py_arena_destroy(a);
}

/* The folder inside of the archive is the file's name, as torch has it, or one that no reader minds. */
static void names_the_folder(void **state)
{
    (void)state;
    static const char *const c[][2] = { { "a.b.pt", "a.b/data.pkl" },      { "plain", "plain/data.pkl" },
                                        { ".hidden", ".hidden/data.pkl" }, { "a\\b.pt", "archive/data.pkl" },
                                        { "x:y.pt", "archive/data.pkl" },  { "\xC3\xA9.pt", "archive/data.pkl" },
                                        { "...pt", "archive/data.pkl" },   { "xy:z", "xy:z/data.pkl" } };
    tx_py_arena *a;
    ASSERT_OK(tx_py_arena_create(&a));
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tx_pt *f;
        const char *path = in_scratch("%s", c[i][0]);
        ASSERT_OK(tx_pt_write(path, tx_py_none(a), NULL, NULL));
        tx_str s = read_file(path);
        assert_memory_equal(s.data + 30, c[i][1], strlen(c[i][1]));
        tx_str_free(&s);
        ASSERT_OK(tx_pt_open(&f, path));
        tx_pt_close(f);
    }
    tx_py_arena_destroy(a);
}

/* ---- memory ---- */

static void survives_failing_allocations(void **state)
{
    (void)state;
    static const char *const names[] = { "torch/mixed.pt", "torch/legacy_views.pt" };
    for (size_t k = 0; k < 2; k++) {
        tx_status st = TX_ERR_NOMEM;
        for (int64_t n = 0; st; n++) {
            tx_pt *f = NULL;
            allocation_fails_at(n);
            st = tx_pt_open(&f, data_path(names[k]));
            if (!st) st = tx_pt_write(in_scratch("mem.pt"), tx_pt_root(f), NULL, NULL);
            allocations_succeed();
            tx_pt_close(f);
            if (st && st != TX_ERR_NOMEM) fail_msg("allocation %d: %d, %s", (int)n, (int)st, tx_last_error());
            if (st) ASSERT_CONTAINS(tx_last_error(), "not enough memory");
        }
        ASSERT_OK(tx_remove_tree(in_scratch("mem.pt")));
        assert_n_files(scratch_dir, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(reads_what_torch_writes),
        cmocka_unit_test(finds_values),
        cmocka_unit_test(reads_parts),
        cmocka_unit_test(refuses_other_types),
        SCRATCH_TEST(names_what_is_missing),
        cmocka_unit_test(refuses_hostile_files),
        SCRATCH_TEST(survives_every_byte),
        SCRATCH_TEST(verifies),
        SCRATCH_TEST(verifies_in_pieces),
        SCRATCH_TEST(verifies_single_numbers),
        SCRATCH_TEST(says_what_has_no_checksum),
        SCRATCH_TEST(does_not_unfold),
        SCRATCH_TEST(writes_every_type),
        SCRATCH_TEST(refuses_numbers_that_do_not_fit),
        SCRATCH_TEST(refuses_values_that_cannot_be_saved),
        SCRATCH_TEST(names_the_folder),
        SCRATCH_TEST(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
