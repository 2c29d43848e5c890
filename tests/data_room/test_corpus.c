/* labels: unit golden */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include "data/corpus.h"
#include "support.h"

/* ---- reading everything into one list ---- */

#define MAX_TEXTS 8192

typedef struct texts {
    char *text[MAX_TEXTS];
    size_t n_bytes[MAX_TEXTS];
    int64_t line[MAX_TEXTS];
    size_t n;
    int64_t line_now;
} texts;

static texts got;

static tx_status keep_text(void *user, int key, int64_t item, const char *text, size_t n)
{
    texts *t = user;
    (void)key;
    (void)item;
    assert_true(t->n < MAX_TEXTS);
    t->text[t->n] = malloc(n + 1);
    memcpy(t->text[t->n], text, n);
    t->text[t->n][n] = 0;
    t->line[t->n] = t->line_now;
    t->n_bytes[t->n++] = n;
    return TX_OK;
}

static void forget(void)
{
    for (size_t i = 0; i < got.n; i++) free(got.text[i]);
    got.n = 0;
}

static tx_status read_inputs(const char *const *inputs, int n, tx_text_split split, const char *const *keys, int n_keys)
{
    tx_corpus *c;
    forget();
    tx_status st = tx_corpus_open(&c, &(tx_corpus_opts){ inputs, n, split, false });
    if (st) return st;
    for (;;) {
        tx_record r;
        bool more;
        TX_GOTO(tx_corpus_next(c, &r, &more));
        if (!more) break;
        got.line_now = r.line;
        TX_GOTO(tx_record_items(&r, keys, n_keys, keep_text, &got));
    }
out:
    tx_corpus_close(c);
    return st;
}

static tx_status read_one(const char *path, tx_text_split split)
{
    static const char *const key = "text";
    return read_inputs(&path, 1, split, &key, 1);
}

static void assert_texts(size_t n, const char *const *want)
{
    assert_int_equal(got.n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(got.n_bytes[i], strlen(want[i]));
        assert_string_equal(got.text[i], want[i]);
    }
}

#define TEXTS(...)                                                               \
    (sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), (const char *[]) \
    {                                                                            \
        __VA_ARGS__                                                              \
    }

/* ---- JSON lines ---- */

static size_t from_base64(unsigned char *out, const char *s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    unsigned bits = 0, n_bits = 0;
    for (; *s && *s != '='; s++) {
        bits = bits << 6 | (unsigned)(strchr(digits, *s) - digits);
        if ((n_bits += 6) >= 8) out[n++] = (unsigned char)(bits >> (n_bits -= 8));
    }
    return n;
}

typedef struct verdicts {
    int good, bad;
} verdicts;

static void check_case(json_t *c, void *user)
{
    verdicts *seen = user;
    json_t *want = json_object_get(c, "texts"), *v;
    unsigned char raw[1024];
    size_t n = from_base64(raw, json_string_value(json_object_get(c, "raw_b64"))), i;
    tx_status st = read_one(write_file(in_scratch("in"), raw, n), TX_TEXT_FILE);
    if (json_is_null(want)) {
        if (st != TX_ERR_FORMAT) print_error("%s was read\n", json_string_value(json_object_get(c, "name")));
        ASSERT_FAILS(st, TX_ERR_FORMAT, "/in: line 1");
        seen->bad++;
    } else {
        ASSERT_OK(st);
        assert_int_equal(got.n, json_array_size(want));
        json_array_foreach(want, i, v) assert_string_equal(got.text[i], json_string_value(v));
        seen->good++;
    }
}

/* What Python's json reads, Megatron reads; what it refuses is an error here. */
static void json_lines_as_megatron(void **state)
{
    (void)state;
    verdicts seen = { 0 };
    for_each_json_line(data_path("dataset/json_lines.jsonl"), check_case, &seen);
    assert_int_equal(seen.good, 8);
    assert_int_equal(seen.bad, 8);
}

static void python_numbers_are_let_pass(void **state)
{
    (void)state;
    static const char *const good[] = {
        "-Infinity", "Infinity", "NaN", "1e999", "-0", "0.5e-3", "[NaN, {\"a\": -Infinity}]"
    };
    static const char *const wrong[] = { "nan", "inf",  "+1",  "01",   "1.",   ".5",   "1e", "-",
                                         "--1", "NaNa", "1 2", "True", "NaN1", "1NaN", "0x1" };
    char text[1024];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, "{\"v\": %s, \"text\": \"NaN -Infinity \\\" 1e999\"}\n", good[i]);
        ASSERT_OK(read_one(write_text(in_scratch("in"), text), TX_TEXT_FILE));
        assert_texts(TEXTS("NaN -Infinity \" 1e999"));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "{\"v\": %s, \"text\": \"x\"}\n", wrong[i]);
        if (!read_one(write_text(in_scratch("in"), text), TX_TEXT_FILE)) print_error("%s was read\n", wrong[i]);
        assert_int_equal(read_one(write_text(in_scratch("in"), text), TX_TEXT_FILE), TX_ERR_FORMAT);
    }
    tx_str digits = { 0 };
    ASSERT_OK(tx_str_puts(&digits, "{\"v\": 1"));
    for (int i = 0; i < 5000; i++) ASSERT_OK(tx_str_puts(&digits, "0"));
    ASSERT_OK(tx_str_puts(&digits, ", \"text\": \"x\"}"));
    ASSERT_OK(read_one(write_file(in_scratch("in"), digits.data, digits.len), TX_TEXT_FILE));
    assert_texts(TEXTS("x"));
    tx_str_free(&digits);
}

/* Surrogates anywhere but in a wanted text, NUL in names, but no NUL that is a byte of the line. */
static void python_strings_are_let_pass(void **state)
{
    (void)state;
    static const char *const good[] = { "{\"o\": \"\\uD83D \\ude00\", \"text\": \"x\"}",
                                        "{\"\\ud83d\": 1, \"text\": \"x\"}",
                                        "{\"te\\u0000xt\": \"a\\u0000\", \"text\": \"x\"}",
                                        "{\"o\": [\"\\\\ud83d\\ud83d\"], \"text\": \"x\", \"n\": NaN}" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ASSERT_OK(read_one(write_text(in_scratch("in"), good[i]), TX_TEXT_FILE));
        assert_texts(TEXTS("x"));
    }
    const char *path = write_file(in_scratch("in"), "{\"n\": 1.5\0, \"text\": \"x\"}", 25), *const key = "text";
    ASSERT_FAILS(read_one(path, TX_TEXT_FILE), TX_ERR_FORMAT, "line 1, column 10: a NUL byte");

    tx_corpus *c; /* to BERT's tokenizers they are unknown words */
    tx_record r;
    bool more;
    forget();
    path = write_text(in_scratch("in"), "{\"text\": \"a\\udc00\\ud83d\\ude00\"}");
    ASSERT_OK(tx_corpus_open(&c, &(tx_corpus_opts){ .inputs = &path, .n_inputs = 1, .pass_surrogates = true }));
    ASSERT_OK(tx_corpus_next(c, &r, &more));
    ASSERT_OK(tx_record_items(&r, &key, 1, keep_text, &got));
    assert_texts(TEXTS("a\xEF\xBF\xBE\xF0\x9F\x98\x80"));
    tx_corpus_close(c);
}

static void errors_name_line_and_place(void **state)
{
    (void)state;
    const struct {
        const char *text, *error;
    } cases[] = {
        { "{\"text\": \"a\"}\n{\"text\": \"b\"\n", "/in: line 2, column " },
        { "{\"text\": \"a\"}\r{\"text\": 5}\r", "/in: line 2: member \"text\" is a number, not a string" },
        { "{\"text\": \"a\"}\r\n\r\n", "/in: line 2: is blank" },
        { "{\"text\": \"a\"}\n  \t \n", "/in: line 2: is blank" },
        { "{\"body\": \"a\"}\n", "/in: line 1: has no member \"text\"" },
        { "{\"text\": [\"a\", 1]}\n", "entry 2 of member \"text\" is a number, not a string" },
        { "{\"text\": \"a\"} {\"text\": \"b\"}\n", "/in: line 1, column " },
        { "{\n\"text\": \"a\"}\n", "/in: line 1, column " },
        { "\xef\xbb\xbf{\"text\": \"a\"}\n", "byte order mark" },
        { "[{\"text\": \"a\"}]\n", "is an array, not a JSON object" },
        { "{\"text\": \"\\udc00\"}", "line 1: member \"text\" has an unpaired surrogate" },
        { "{\"text\": [\"a\", \"\\ud83d\\ud83d\\ude00\"]}", "line 1: member \"text\" has an unpaired surrogate" },
        { "{\"text\": \"a\", \"b\": \"\\ud83d\\x\"}", "line 1, column " },
        { "{\"text\": \"\xff\"}", "line 1, column " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ASSERT_FAILS(read_one(write_text(in_scratch("in"), cases[i].text), TX_TEXT_FILE), TX_ERR_FORMAT,
                     cases[i].error);
}

static void several_keys_come_in_order_and_nul_is_text(void **state)
{
    (void)state;
    const char *path = write_text(in_scratch("in"), "{\"b\": \"B\", \"a\": \"x\\u0000y\", \"b\": \"last\"}");
    const char *const keys[] = { "a", "b" }, *const missing[] = { "a", "c" };
    ASSERT_OK(read_inputs(&path, 1, TX_TEXT_FILE, keys, 2));
    assert_int_equal(got.n, 2);
    assert_int_equal(got.n_bytes[0], 3);
    assert_memory_equal(got.text[0], "x\0y", 3);
    assert_string_equal(got.text[1], "last");
    ASSERT_FAILS(read_inputs(&path, 1, TX_TEXT_FILE, missing, 2), TX_ERR_FORMAT, "no member \"c\"");
    assert_int_equal(got.n, 0); /* all or none */
}

/* ---- plain text ---- */

static void plain_text_is_cut_as_asked(void **state)
{
    (void)state;
    const char *path = write_text(in_scratch("in"), "\n \nOne\r\ntwo\n\t\n\nthree\rfour\n\n");
    ASSERT_OK(read_one(path, TX_TEXT_FILE));
    assert_texts(TEXTS("\n \nOne\r\ntwo\n\t\n\nthree\rfour\n\n"));
    ASSERT_OK(read_one(path, TX_TEXT_BLANK_LINE));
    assert_texts(TEXTS("One\ntwo", "three\nfour"));
    assert_int_equal(got.line[0], 3);
    assert_int_equal(got.line[1], 7);
    ASSERT_OK(read_one(path, TX_TEXT_LINE));
    assert_texts(TEXTS("", " ", "One", "two", "\t", "", "three", "four", ""));
    ASSERT_OK(read_one(write_text(in_scratch("in"), "a\xe2\x80\xa8z\r\rb"), TX_TEXT_LINE)); /* U+2028 ends no line */
    assert_texts(TEXTS("a\xe2\x80\xa8z", "", "b"));
    ASSERT_OK(read_one(write_text(in_scratch("in"), "one\n\ntwo"), TX_TEXT_BLANK_LINE));
    assert_texts(TEXTS("one", "two"));
    ASSERT_OK(read_one(write_text(in_scratch("in"), "\xef\xbb\xbfmarked"), TX_TEXT_FILE));
    assert_texts(TEXTS("marked"));
    ASSERT_FAILS(read_one(write_text(in_scratch("in"), "fine\nna\xefve\n"), TX_TEXT_FILE), TX_ERR_FORMAT,
                 "/in: line 2: byte 0xef");
    ASSERT_FAILS(read_one(write_text(in_scratch("in"), "fine\nna\xefve\n"), TX_TEXT_LINE), TX_ERR_FORMAT,
                 "/in: line 2: byte 0xef");
}

static void content_decides(void **state)
{
    (void)state;
    ASSERT_FAILS(read_one(write_text(in_scratch("a.txt"), "\t{\"text\": 1}"), TX_TEXT_FILE), TX_ERR_FORMAT,
                 "is a number");
    ASSERT_OK(read_one(write_text(in_scratch("b.jsonl"), "[\"Foo\" by Bar]\n"), TX_TEXT_FILE));
    assert_texts(TEXTS("[\"Foo\" by Bar]\n"));
    ASSERT_OK(read_one(write_text(in_scratch("c"), "[1] a footnote\n"), TX_TEXT_FILE));
    assert_texts(TEXTS("[1] a footnote\n"));
    ASSERT_FAILS(read_one(write_text(in_scratch("c.txt"), "[\"x\"]\n"), TX_TEXT_FILE), TX_ERR_FORMAT, "is an array");
    ASSERT_FAILS(read_one(write_text(in_scratch("c.txt"), "[{\"text\": \"x\"},\n"), TX_TEXT_FILE), TX_ERR_FORMAT,
                 "c.txt: line 1, column");
    log_begin();
    ASSERT_OK(read_one(write_text(in_scratch("d.jsonl"), "hello\n"), TX_TEXT_FILE));
    assert_texts(TEXTS("hello\n"));
    ASSERT_CONTAINS(logged,
                    "d.jsonl: does not begin with {, so it is plain text in spite of its name; a document is the file");
    ASSERT_OK(read_one(write_text(in_scratch("e.txt"), "{\"text\": \"x\"}"), TX_TEXT_LINE));
    ASSERT_CONTAINS(logged, "e.txt: JSON lines");
    ASSERT_OK(read_one(write_text(in_scratch("f.txt"), "x"), TX_TEXT_LINE));
    ASSERT_CONTAINS(logged, "f.txt: plain text, a document is a line (--text-split)");
    log_end();
    char tar[512] = "file.txt";
    memcpy(tar + 257, "ustar", 5);
    ASSERT_FAILS(read_one(write_file(in_scratch("e"), tar, sizeof tar), TX_TEXT_FILE), TX_ERR_FORMAT, "tar archive");
}

/* Line ends and characters on every side of the border between two blocks of input. */
static void blocks_do_not_show(void **state)
{
    (void)state;
    static const char *const ends[] = { "\n", "\r\n", "\r" };
    const size_t block = 256 << 10;
    char *big = malloc(block + 64);
    for (size_t before = block - 4; before <= block + 1; before++)
        for (int e = 0; e < 3; e++) {
            memset(big, 'x', before);
            strcpy(big + before, ends[e]);
            strcat(big + before, "z");
            ASSERT_OK(read_one(write_text(in_scratch("in"), big), TX_TEXT_LINE));
            assert_int_equal(got.n, 2);
            assert_int_equal(got.n_bytes[0], before);
            assert_string_equal(got.text[1], "z");
            ASSERT_OK(read_one(write_text(in_scratch("in"), big), TX_TEXT_BLANK_LINE));
            assert_int_equal(got.n, 1);
            assert_int_equal(got.n_bytes[0], before + 2);
            ASSERT_OK(read_one(write_text(in_scratch("in"), big), TX_TEXT_FILE));
            assert_int_equal(got.n_bytes[0], strlen(big));
        }
    free(big);
}

/* ---- compressed ---- */

static const char *compress_to(const char *name, int filter, const char *text, size_t n)
{
    const char *path = in_scratch("%s", name);
    struct archive *a = archive_write_new();
    struct archive_entry *e = archive_entry_new();
    archive_write_add_filter(a, filter);
    archive_write_set_format_raw(a);
    assert_int_equal(archive_write_open_filename(a, path), ARCHIVE_OK);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_pathname(e, "x");
    assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
    assert_int_equal(archive_write_data(a, text, n), (la_ssize_t)n);
    archive_entry_free(e);
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
    return path;
}

static void compressed_input_is_seen_by_content(void **state)
{
    (void)state;
    static const int filter[] = { ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_ZSTD };
    tx_str text = { 0 };
    for (int i = 0; i < 3000; i++)
        ASSERT_OK(tx_str_printf(&text, "{\"text\": \"line %d %d\"}\n", i, (i * 7919) % 10007));
    for (int f = 0; f < 3; f++) {
        ASSERT_OK(read_one(compress_to("no-suffix", filter[f], text.data, text.len), TX_TEXT_FILE));
        assert_int_equal(got.n, 3000);
        assert_string_equal(got.text[2999], "line 2999 2470");
        tx_str packed = read_file(in_scratch("no-suffix"));
        static const size_t keep[] = { 7, 20, 300 }; /* and all but some of the end */
        for (int k = 0; k < 5; k++) {
            size_t n = k < 3 ? keep[k] : packed.len - (k == 3 ? 1 : 40);
            write_file(in_scratch("cut"), packed.data, n);
            if (!read_one(in_scratch("cut"), TX_TEXT_FILE)) print_error("filter %d cut to %zu was read\n", f, n);
            ASSERT_FAILS(read_one(in_scratch("cut"), TX_TEXT_FILE), TX_ERR_FORMAT, "/cut: cannot decompress");
        }
        tx_str twice = { 0 }; /* two streams in a row are one text */
        ASSERT_OK(tx_str_append(&twice, packed.data, packed.len));
        ASSERT_OK(tx_str_append(&twice, packed.data, packed.len));
        ASSERT_OK(read_one(write_file(in_scratch("twice"), twice.data, twice.len), TX_TEXT_FILE));
        assert_int_equal(got.n, 6000);
        tx_str_free(&twice);
        tx_str_free(&packed);
        ASSERT_OK(read_one(compress_to("empty", filter[f], "", 0), TX_TEXT_FILE));
        assert_int_equal(got.n, 0);
    }
    tx_str_free(&text);
}

/* ---- inputs ---- */

static void several_inputs_are_one_corpus(void **state)
{
    (void)state;
    const char *const key = "text";
    const char *in[] = { write_text(in_scratch("a.jsonl"), "{\"text\": \"A\"}\n"), write_text(in_scratch("empty"), ""),
                         write_text(in_scratch("b"), "B"), write_text(in_scratch("c"), "{\"text\": \"C\"}") };
    log_begin();
    ASSERT_OK(read_inputs(in, 4, TX_TEXT_FILE, &key, 1));
    assert_texts(TEXTS("A", "B", "C"));
    ASSERT_CONTAINS(logged, "empty: holds no document");
    ASSERT_CONTAINS(logged, "Opening ");
    log_end();
    ASSERT_OK(read_inputs(in + 1, 1, TX_TEXT_FILE, &key, 1));
    assert_int_equal(got.n, 0);
    const char *bad[] = { in[0], in_scratch("missing"), scratch_dir, "-", "-" };
    ASSERT_FAILS(read_inputs(bad, 2, TX_TEXT_FILE, &key, 1), TX_ERR_NOTFOUND, "missing: no such file");
    ASSERT_FAILS(read_inputs(bad + 2, 1, TX_TEXT_FILE, &key, 1), TX_ERR_IO, "is a directory");
    ASSERT_FAILS(read_inputs(bad + 3, 2, TX_TEXT_FILE, &key, 1), TX_ERR_ARG, "twice");
    ASSERT_FAILS(read_inputs(bad, 0, TX_TEXT_FILE, &key, 1), TX_ERR_ARG, "--input");
}

static void standard_input_may_come_in_pieces(void **state)
{
    (void)state;
    static const char *const pieces[] = { "", "\n", " {\"te", "xt\": \"a\"}\r", "\n{\"text\": \"b\"}" };
    int fds[2], saved = dup(STDIN_FILENO);
    assert_int_equal(pipe(fds), 0);
    if (fork() == 0) {
        close(fds[0]);
        for (int i = 1; i < 5; i++) {
            if (write(fds[1], pieces[i], strlen(pieces[i])) < 0) _exit(1);
            usleep(20000);
        }
        _exit(0);
    }
    close(fds[1]);
    dup2(fds[0], STDIN_FILENO);
    close(fds[0]);
    tx_status st = read_one("-", TX_TEXT_FILE); /* the first line is blank: it is JSON, so that is an error */
    dup2(saved, STDIN_FILENO);
    close(saved);
    ASSERT_FAILS(st, TX_ERR_FORMAT, "standard input: line 1: is blank");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(json_lines_as_megatron),
        SCRATCH_TEST(python_numbers_are_let_pass),
        SCRATCH_TEST(python_strings_are_let_pass),
        SCRATCH_TEST(errors_name_line_and_place),
        SCRATCH_TEST(several_keys_come_in_order_and_nul_is_text),
        SCRATCH_TEST(plain_text_is_cut_as_asked),
        SCRATCH_TEST(content_decides),
        SCRATCH_TEST(blocks_do_not_show),
        SCRATCH_TEST(compressed_input_is_seen_by_content),
        SCRATCH_TEST(several_inputs_are_one_corpus),
        SCRATCH_TEST(standard_input_may_come_in_pieces),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    forget();
    return rc;
}
