/* labels: unit */
/* test_safetensors.c - files of named tensors: what is written is read, and no header is believed. */
#include <inttypes.h>
#include <time.h>

#include "checkpoint_fixture.h"

#include "base/half.h"
#include "base/rng.h"
#include "checkpoint/safetensors.h"

/* A file from a header's text and n bytes of data (0, 1, 2, ...). */
static const char *make_file(const char *header, size_t n)
{
    const char *path = in_scratch("made.safetensors");
    tx_str s = { 0 };
    uint64_t len = strlen(header);
    ASSERT_OK(tx_str_append(&s, &len, 8));
    ASSERT_OK(tx_str_puts(&s, header));
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)i;
        ASSERT_OK(tx_str_append(&s, &c, 1));
    }
    write_file(path, s.data, s.len);
    tx_str_free(&s);
    return path;
}

static void reads_a_file_by_hand(void **state)
{
    (void)state;
    const char *path = make_file("{\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[12,20]},"
                                 "\"__metadata__\":{\"format\":\"pt\",\"who\":\"x\"},"
                                 "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                                 "\"none\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[12,12]}}   ",
                                 20);
    tx_safetensors *f;
    char text[64];
    ASSERT_OK(tx_safetensors_open(&f, path));
    assert_int_equal(tx_safetensors_count(f), 3);
    assert_string_equal(tx_safetensors_at(f, 0)->name, "a");
    assert_string_equal(tx_safetensors_at(f, 1)->name, "none");
    assert_null(tx_safetensors_find(f, "c"));
    const tx_st_tensor *a = tx_safetensors_find(f, "a"), *b = tx_safetensors_find(f, "b");
    assert_true(a->n_dims == 2 && a->dim[0] == 2 && a->dim[1] == 3 && a->bytes == 12 && a->data[3] == 3);
    assert_true(b->n_dims == 0 && b->bytes == 8 && b->data[0] == 12);
    assert_string_equal(tx_st_describe(a, text, sizeof text), "BF16[2,3]");
    float x[6], y[6];
    ASSERT_OK(tx_st_read_f32(a, x, false));
    ASSERT_OK(tx_st_read_f32(a, y, true));
    for (int i = 0; i < 6; i++) {
        assert_true(x[i] == tx_bf16_to_f32((uint16_t)(2 * i + 256 * (2 * i + 1))));
        assert_true(y[i % 3 * 2 + i / 3] == x[i]);
    }
    ASSERT_OK(tx_st_read_f32(tx_safetensors_find(f, "none"), x, true));
    ASSERT_FAILS(tx_st_read_f32(b, x, false), TX_ERR_FORMAT, "I64");
    tx_safetensors_close(f);
}

static void write_two(const char *path)
{
    static const tx_st_spec spec[] = { { "z.weight", TX_ST_F32, 2, { 2, 2 } }, { "a.weight", TX_ST_BF16, 1, { 3 } } };
    static const float z[4] = { 1, -2, 0.5f, 3e38f }, a[3] = { 1, 2, -3 };
    tx_writer file;
    tx_st_writer w;
    ASSERT_OK(tx_writer_open(&file, path));
    ASSERT_OK(tx_st_writer_begin(&w, &file, spec, 2, NULL, NULL));
    ASSERT_OK(tx_st_writer_put(&w, z, 10));
    ASSERT_OK(tx_st_writer_put(&w, (const char *)z + 10, 6));
    ASSERT_OK(tx_st_writer_put_f32(&w, a, 3, TX_ST_BF16));
    tx_st_writer_end(&w);
    ASSERT_OK(tx_writer_commit(&file));
}

static void writes_the_reference_bytes(void **state)
{
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"z.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                                 "\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]}}";
    static const unsigned char a[6] = { 0x80, 0x3f, 0x00, 0x40, 0x40, 0xc0 };
    write_two(in_scratch("two"));
    tx_str s = read_file(in_scratch("two"));
    uint64_t n;
    memcpy(&n, s.data, 8);
    assert_int_equal(n % 8, 0);
    assert_true(n >= sizeof header - 1 && n < sizeof header - 1 + 8);
    assert_memory_equal(s.data + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < n; i++) assert_int_equal(s.data[8 + i], ' ');
    assert_int_equal(s.len, 8 + n + 22);
    assert_memory_equal(s.data + 8 + n + 16, a, 6);
    tx_str_free(&s);
}

static void round_trips_every_float(void **state)
{
    (void)state;
    enum { R = 131, C = 67 }; /* not multiples of a tile */
    static const tx_st_dtype type[] = { TX_ST_F64, TX_ST_F32, TX_ST_BF16, TX_ST_F16 };
    static float x[R * C], y[R * C], z[R * C];
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < R * C; i++) x[i] = (float)(i % 251 - 125) / 4; /* exact in all of them */
        x[5] = INFINITY;
        tx_st_spec spec = { "x", type[t], 2, { R, C } };
        tx_writer file;
        tx_st_writer w;
        ASSERT_OK(tx_writer_open(&file, in_scratch("one")));
        ASSERT_OK(tx_st_writer_begin(&w, &file, &spec, 1, NULL, NULL));
        ASSERT_OK(tx_st_writer_put_f32(&w, x, R * C, type[t]));
        tx_st_writer_end(&w);
        ASSERT_OK(tx_writer_commit(&file));
        tx_safetensors *f;
        ASSERT_OK(tx_safetensors_open(&f, in_scratch("one")));
        assert_int_equal((uintptr_t)tx_safetensors_at(f, 0)->data % 8, 0);
        ASSERT_OK(tx_st_read_f32(tx_safetensors_at(f, 0), y, false));
        ASSERT_OK(tx_st_read_f32(tx_safetensors_at(f, 0), z, true));
        assert_memory_equal(x, y, sizeof x);
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) assert_true(z[c * R + r] == x[r * C + c]);
        tx_safetensors_close(f);
    }
}

static void numbers_that_do_not_fit(void **state)
{
    (void)state;
    const float big = 70000;
    const double wide = 1e300;
    tx_st_spec half = { "x", TX_ST_F16, 1, { 1 } }, dbl = { "x", TX_ST_F64, 1, { 1 } };
    tx_writer file;
    tx_st_writer w;
    ASSERT_OK(tx_writer_open(&file, in_scratch("one")));
    ASSERT_OK(tx_st_writer_begin(&w, &file, &half, 1, NULL, NULL));
    ASSERT_FAILS(tx_st_writer_put_f32(&w, &big, 1, TX_ST_F16), TX_ERR_NUMERIC, "too large for F16");
    tx_writer_abort(&file);
    ASSERT_OK(tx_writer_open(&file, in_scratch("one")));
    ASSERT_OK(tx_st_writer_begin(&w, &file, &dbl, 1, NULL, NULL));
    ASSERT_OK(tx_st_writer_put(&w, &wide, 8));
    ASSERT_OK(tx_writer_commit(&file));
    tx_safetensors *f;
    float y;
    ASSERT_OK(tx_safetensors_open(&f, in_scratch("one")));
    ASSERT_FAILS(tx_st_read_f32(tx_safetensors_at(f, 0), &y, false), TX_ERR_NUMERIC, "too large for float32");
    ASSERT_FAILS(tx_st_read_f32(tx_safetensors_at(f, 0), &y, true), TX_ERR_SHAPE, "matrix");
    tx_safetensors_close(f);
}

static void reference_order(void **state)
{
    (void)state;
    tx_st_spec s[] = { { "b", TX_ST_F32, 0, { 0 } },
                       { "c", TX_ST_BF16, 0, { 0 } },
                       { "a", TX_ST_F32, 0, { 0 } },
                       { "d", TX_ST_I64, 0, { 0 } } };
    qsort(s, 4, sizeof *s, tx_st_spec_order);
    assert_string_equal(s[0].name, "d");
    assert_string_equal(s[1].name, "a");
    assert_string_equal(s[2].name, "b");
    assert_string_equal(s[3].name, "c");
}

static void writer_refuses(void **state)
{
    (void)state;
    tx_st_spec twice[] = { { "a", TX_ST_F32, 1, { 1 } }, { "a", TX_ST_F32, 1, { 1 } } };
    tx_st_spec bad_name = { "\xff\xfe", TX_ST_F32, 1, { 1 } }, reserved = { "__metadata__", TX_ST_F32, 1, { 1 } };
    tx_st_spec huge = { "a", TX_ST_F32, 2, { INT64_MAX, 16 } }, negative = { "a", TX_ST_F32, 1, { -1 } };
    tx_writer file;
    tx_st_writer w;
    ASSERT_OK(tx_writer_open(&file, in_scratch("one")));
    ASSERT_FAILS(tx_st_writer_begin(&w, &file, twice, 2, NULL, NULL), TX_ERR_ARG, "twice");
    ASSERT_FAILS(tx_st_writer_begin(&w, &file, &bad_name, 1, NULL, NULL), TX_ERR_ARG, "UTF-8");
    ASSERT_FAILS(tx_st_writer_begin(&w, &file, &reserved, 1, NULL, NULL), TX_ERR_ARG, "reserved");
    ASSERT_FAILS(tx_st_writer_begin(&w, &file, &huge, 1, NULL, NULL), TX_ERR_SHAPE, "no shape");
    ASSERT_FAILS(tx_st_writer_begin(&w, &file, &negative, 1, NULL, NULL), TX_ERR_SHAPE, "no shape");
    tx_writer_abort(&file);
    assert_false(tx_path_exists(in_scratch("one")));
}

#define T(name, dtype, shape, at) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" at "}"

static void hostile_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header, *message;
    } bad[] = {
        { "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[4,12]") "}",
          "inside the tensor" }, /* 12 bytes of data */
        { "{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}", "leaving a hole from" },
        { "{" T("a", "F32", "[2]", "[4,12]") "}", "leaving a hole from" },
        { "{" T("a", "F32", "[2]", "[0,8]") "}", "belong to none" },
        { "{}", "belong to none" },
        { "{" T("a", "F32", "[3]", "[0,12]") "," T("b", "U8", "[0]", "[5,5]") "}", "inside the tensor" },
        { "{" T("a", "F32", "[4]", "[0,16]") "}", "are not inside" },
        { "{" T("a", "F32", "[3]", "[12,0]") "}", "are not inside" },
        { "{" T("a", "F32", "[3]", "[0,9223372036854775807]") "}", "are not inside" },
        { "{" T("a", "F32", "[3]", "[0,9223372036854775808]") "}", "too big" },
        { "{" T("a", "F32", "[3]", "[-12,0]") "}", "needs exactly" },
        { "{" T("a", "F32", "[3]", "[0.0,12.0]") "}", "needs exactly" },
        { "{" T("a", "F32", "[3]", "[0,12,12]") "}", "needs exactly" },
        { "{" T("a", "F32", "[-3]", "[0,12]") "}", "integers >= 0" },
        { "{" T("a", "F32", "[\"3\"]", "[0,12]") "}", "integers >= 0" },
        { "{" T("a", "F32", "[2]", "[0,12]") "}", "need 8 bytes" },
        { "{" T("a", "F32", "[4294967296,4294967296,4294967296]", "[0,12]") "}", "larger than any file" },
        { "{" T("a", "F32", "[4611686018427387904,4]", "[0,0]") "}", "larger than any file" },
        { "{" T("a", "F32", "[4611686018427387907]", "[0,12]") "}", "larger than any file" },
        { "{" T("a", "F32", "[1,1,1,1,1,1,1,1,3]", "[0,12]") "}", "at most 8" },
        { "{" T("a", "F31", "[3]", "[0,12]") "}", "dtype F31" },
        { "{" T("a", "F32\\n", "[3]", "[0,12]") "}", "(unprintable)" },
        { "{" T("a", "F32", "[3]", "[0,12]") "," T("a", "F32", "[3]", "[0,12]") "}", "is given twice" },
        { "{" T("", "F32", "[3]", "[0,12]") "}", "name is empty" },
        { "{" T("a\\nb", "F32", "[3]", "[0,12]") "}", "control characters" },
        { "{" T("a\\u0000b", "F32", "[3]", "[0,12]") "}", "NUL" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12],\"x\":1}}", "needs exactly" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3]}}", "needs exactly" },
        { "{\"a\":{\"dtype\":7,\"shape\":[3],\"data_offsets\":[0,12]}}", "needs exactly" },
        { "{\"a\":[]}", "needs exactly" },
        { "{\"a\":null}", "needs exactly" },
        { "{\"__metadata__\":{\"a\":1}," T("a", "F32", "[3]", "[0,12]") "}", "not a text" },
        { "{\"__metadata__\":[]," T("a", "F32", "[3]", "[0,12]") "}", "not an object" },
        { " {" T("a", "F32", "[3]", "[0,12]") "}", "begin with '{'" },
        { "[]", "begin with '{'" },
        { "{" T("a", "F32", "[3]", "[0,12]") "} x", "not valid JSON" },
        { "{" T("a", "F32", "[3]", "[0,12]"), "not valid JSON" },
        { "{\"a\xff\":1}", "not valid JSON" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_safetensors *f = NULL;
        tx_status st = tx_safetensors_open(&f, make_file(bad[i].header, 12));
        if (!st || f || !strstr(tx_last_error(), bad[i].message) || strchr(tx_last_error(), '\n'))
            fail_msg("%s: %d: %s", bad[i].header, st, tx_last_error());
    }
}

static void hostile_sizes(void **state)
{
    (void)state;
    static const uint64_t length[] = { 0, 1, (uint64_t)1 << 60, UINT64_MAX, UINT64_MAX - 7, 100000001, 19 };
    unsigned char bytes[8 + 18] = { 0 };
    tx_safetensors *f = NULL;
    memcpy(bytes + 8, "{}                ", 18);
    for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
        memcpy(bytes, &length[i], 8);
        write_file(in_scratch("x"), bytes, sizeof bytes);
        assert_int_equal(tx_safetensors_open(&f, in_scratch("x")), TX_ERR_FORMAT);
    }
    memcpy(bytes, &(uint64_t){ 18 }, 8);
    for (size_t n = 0; n < sizeof bytes; n++) {
        write_file(in_scratch("x"), bytes, n);
        assert_int_equal(tx_safetensors_open(&f, in_scratch("x")), TX_ERR_FORMAT);
    }
    write_file(in_scratch("x"), bytes, sizeof bytes);
    ASSERT_OK(tx_safetensors_open(&f, in_scratch("x")));
    assert_int_equal(tx_safetensors_count(f), 0);
    tx_safetensors_close(f);
    ASSERT_FAILS(tx_safetensors_open(&f, in_scratch("absent")), TX_ERR_NOTFOUND, "absent");
    ASSERT_FAILS(tx_safetensors_open(&f, scratch_dir), TX_ERR_IO, "directory");
}

static void deep_json(void **state)
{
    (void)state;
    enum { DEPTH = 1000000 };
    tx_str s = { 0 };
    tx_safetensors *f;
    ASSERT_OK(tx_str_puts(&s, "{\"a\":"));
    for (int i = 0; i < DEPTH; i++) ASSERT_OK(tx_str_puts(&s, "["));
    ASSERT_FAILS(tx_safetensors_open(&f, make_file(s.data, 0)), TX_ERR_FORMAT, "depth");
    tx_str_free(&s);
}

static void every_truncation(void **state)
{
    (void)state;
    write_two(in_scratch("two"));
    tx_str s = read_file(in_scratch("two"));
    for (size_t n = 0; n < s.len; n++) {
        tx_safetensors *f;
        write_file(in_scratch("cut"), s.data, n);
        assert_int_equal(tx_safetensors_open(&f, in_scratch("cut")), TX_ERR_FORMAT);
    }
    tx_str_free(&s);
}

/* Random changes for two seconds. A header that is still accepted must describe tensors that lie inside the file. */
static void mutated_headers(void **state)
{
    (void)state;
    static const char words[] = "{}[],:\"0123456789-eE.\\ntfuFBI \x7f\x80\xff";
    write_two(in_scratch("two"));
    tx_str good = read_file(in_scratch("two"));
    tx_rng rng = { .seed = 20, .stream = 7 };
    unsigned char *bytes = malloc(good.len);
    uint64_t n_rounds = 0, n_accepted = 0, at = 0;
    for (time_t end = time(NULL) + 2; time(NULL) < end; n_rounds++) {
        uint32_t w[4];
        memcpy(bytes, good.data, good.len);
        for (int k = 0; k < 3; k++) {
            tx_rng_u32x4(&rng, at++, w);
            size_t where = w[0] % (k ? good.len - 22 : good.len);
            bytes[where] =
                (unsigned char)(w[1] & 1 ? words[w[2] % (sizeof words - 1)] : (char)(bytes[where] ^ (1u << w[2] % 8)));
            if (w[3] & 1) break;
        }
        write_file(in_scratch("fuzz"), bytes, good.len);
        tx_safetensors *f;
        if (tx_safetensors_open(&f, in_scratch("fuzz"))) continue;
        n_accepted++;
        size_t total = 0;
        for (size_t i = 0; i < tx_safetensors_count(f); i++) {
            const tx_st_tensor *t = tx_safetensors_at(f, i);
            static float numbers[32];
            assert_true(t->bytes <= 22 && tx_safetensors_find(f, t->name) == t);
            total += t->bytes;
            (void)tx_st_read_f32(t, numbers, t->n_dims == 2);
        }
        assert_true(total < good.len - 8);
        tx_safetensors_close(f);
    }
    assert_true(n_rounds > 100 && n_accepted > 0 && n_accepted < n_rounds);
    free(bytes);
    tx_str_free(&good);
}

/* Opening with the N-th allocation failing, all N, leaks nothing and says so. */
static void out_of_memory(void **state)
{
    (void)state;
    write_two(in_scratch("two"));
    int n = 0;
    for (tx_status st = TX_ERR_NOMEM; st; n++) {
        tx_safetensors *f = NULL;
        allocation_fails_at(n);
        st = tx_safetensors_open(&f, in_scratch("two"));
        assert_true(st == TX_OK || st == TX_ERR_NOMEM);
        tx_safetensors_close(f);
    }
    allocations_succeed();
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(reads_a_file_by_hand),
        SCRATCH_TEST(writes_the_reference_bytes),
        SCRATCH_TEST(round_trips_every_float),
        SCRATCH_TEST(numbers_that_do_not_fit),
        SCRATCH_TEST(reference_order),
        SCRATCH_TEST(writer_refuses),
        SCRATCH_TEST(hostile_headers),
        SCRATCH_TEST(hostile_sizes),
        SCRATCH_TEST(deep_json),
        SCRATCH_TEST(every_truncation),
        SCRATCH_TEST(mutated_headers),
        SCRATCH_TEST(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
