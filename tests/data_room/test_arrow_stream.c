/* labels: unit golden
 * test_arrow_stream.c - Arrow files of datasets and pyarrow (data/arrow/README.md) have the rows of rows.jsonl; damaged
 * ones are refused, or have other rows, and nothing else happens. */
#include <jansson.h>

#include "data/arrow_stream.h"
#include "data/corpus.h"
#include "data/saved_dataset.h"
#include "support.h"

static tx_status read_rows(const char *path, tx_str *out)
{
    tx_arrow *a;
    bool more = true;
    TX_TRY(tx__arrow_open(&a, path));
    tx_status st = TX_OK;
    while (!st && !(st = tx__arrow_next(a, out, &more)) && more) st = tx_str_puts(out, "\n");
    tx__arrow_close(a);
    return st;
}

/* As JSON: floats may be spelled in another way. */
static void compare_rows(const char *got, const char *want)
{
    while (*got && *want) {
        json_t *a = json_loads(got, JSON_DISABLE_EOF_CHECK, NULL), *b = json_loads(want, JSON_DISABLE_EOF_CHECK, NULL);
        assert_non_null(a);
        assert_non_null(b);
        const char *key;
        json_t *v;
        json_object_foreach(b, key, v)
        {
            const json_t *mine = json_object_get(a, key);
            if (json_is_real(v))
                assert_true(json_number_value(mine) == json_real_value(v));
            else if (!json_equal(mine, v))
                fail_msg("%s is other than in rows.jsonl", key);
        }
        assert_int_equal(json_object_size(a), json_object_size(b));
        json_decref(a);
        json_decref(b);
        got = strchr(got, '\n') + 1;
        want = strchr(want, '\n') + 1;
    }
    assert_int_equal(*got, *want);
}

static void rows_are_those(void **state)
{
    (void)state;
    static const char *const files[] = { "arrow/file.arrow", "arrow/stream.arrow" };
    tx_str want = read_file(data_path("arrow/rows.jsonl")), got = { 0 };
    for (size_t i = 0; i < 2; i++) {
        got.len = 0;
        ASSERT_OK(read_rows(data_path(files[i]), &got));
        compare_rows(got.data, want.data);
    }
    got.len = 0;
    tx_names names;
    ASSERT_OK(tx__saved_dataset_files(data_path("arrow/saved"), &names));
    assert_int_equal(names.n, 2);
    for (size_t i = 0; i < names.n; i++) ASSERT_OK(read_rows(names.name[i], &got));
    compare_rows(got.data, want.data);
    tx_names_free(&names);
    tx_str_free(&got);
    tx_str_free(&want);
}

static void refused(void **state)
{
    (void)state;
    tx_str got = { 0 };
    tx_names names;
    ASSERT_FAILS(read_rows(data_path("arrow/compressed.feather"), &got), TX_ERR_UNSUPPORTED, "are compressed");
    ASSERT_FAILS(read_rows(data_path("arrow/rows.jsonl"), &got), TX_ERR_FORMAT, "");
    static const char splits[] = "{\"splits\": [\"train\", \"test\"]}";
    write_file(in_scratch("dataset_dict.json"), splits, sizeof splits - 1);
    ASSERT_FAILS(tx__saved_dataset_files(scratch_dir, &names), TX_ERR_ARG, "several splits (train, test)");
    write_file(in_scratch("dataset_dict.json"), "{\"splits\"", 9);
    ASSERT_FAILS(tx__saved_dataset_files(scratch_dir, &names), TX_ERR_FORMAT, "dataset_dict.json");
    tx_str_free(&got);
}

static void counted(void **state)
{
    (void)state;
    tx_arrow *a;
    tx_str line = { 0 };
    int64_t n = 0, all = 0;
    bool more = true;
    ASSERT_OK(tx__arrow_open(&a, data_path("arrow/stream.arrow")));
    assert_true(tx__arrow_column(a, 0, &line));
    assert_string_equal(line.data, "\"text\": text");
    line.len = 0;
    assert_true(tx__arrow_column(a, 8, &line));
    assert_string_equal(line.data, "\"raw\": bytes (left out)");
    assert_false(tx__arrow_column(a, 11, &line));
    while (more) {
        ASSERT_OK(tx__arrow_skip(a, &n, &more));
        all += n;
    }
    assert_int_equal(all, 7);
    tx__arrow_close(a);
    tx_str_free(&line);
}

/* Every byte turned around, and every length: a sentence, or rows. */
static void damaged(void **state)
{
    (void)state;
    tx_str good = read_file(data_path("arrow/stream.arrow")), got = { 0 };
    const char *path = in_scratch("bad.arrow");
    size_t n_refused = 0;
    for (size_t i = 0; i < good.len; i += 11) {
        good.data[i] = (char)~good.data[i];
        got.len = 0;
        n_refused += read_rows(write_file(path, good.data, good.len), &got) != TX_OK;
        good.data[i] = (char)~good.data[i];
        got.len = 0;
        if (i % 8 == 0 && read_rows(write_file(path, good.data, i), &got)) n_refused++;
    }
    assert_true(n_refused > good.len / 64);
    tx_str_free(&got);
    tx_str_free(&good);
}

/* Through the corpus: members by a path of names, where no member has that name. */
static tx_status see(void *user, int key, int64_t item, const char *text, size_t n)
{
    (void)item;
    return tx_str_append(user, text, n) || tx_str_puts(user, key ? "\n" : " | ") ? TX_ERR_NOMEM : TX_OK;
}

static void keys_inside(void **state)
{
    (void)state;
    static const char *const keys[] = { "some", "meta.text" }, *const other[] = { "a.b", "a.b.c" };
    const char *input = data_path("arrow/saved");
    tx_corpus *c;
    tx_record r;
    bool more;
    tx_str got = { 0 };
    ASSERT_OK(tx_corpus_open(&c, &(tx_corpus_opts){ &input, 1, TX_TEXT_FILE, false }));
    ASSERT_OK(tx_corpus_next(c, &r, &more));
    ASSERT_OK(tx_record_items(&r, keys, 2, see, &got));
    assert_string_equal(got.data, "there | meta 0\n");
    ASSERT_OK(tx_corpus_next(c, &r, &more));
    ASSERT_FAILS(tx_record_items(&r, keys, 2, see, &got), TX_ERR_FORMAT, "line 2: member \"some\" is null");
    tx_corpus_close(c);
    got.len = 0;
    static const char line[] = "{\"a.b\": \"literal\", \"a\": {\"b\": {\"c\": \"inside\"}}}";
    r = (tx_record){ line, sizeof line - 1, "line", 1, true, false };
    ASSERT_OK(tx_record_items(&r, other, 2, see, &got));
    assert_string_equal(got.data, "literal | inside\n");
    tx_str_free(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those), SCRATCH_TEST(refused), cmocka_unit_test(counted), SCRATCH_TEST(damaged),
        cmocka_unit_test(keys_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
