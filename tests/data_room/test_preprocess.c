/* labels: unit golden fault */
/* The job preprocess-data against Megatron's own output, and its behaviour on bad input. */
#include <signal.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "data_room/data_test.h"
#include "triax/data.h"

/* Runs the job with the tiny vocabulary; `more` are further flags. */
static tx_status run(const char *more)
{
    char flags[4096];
    tx_config *cfg;
    snprintf(flags, sizeof flags, "--vocab-file %s --merge-file %s %s", data("tiny/tiny-vocab.json"),
             data("tiny/tiny-merges.txt"), more);
    tx_status st = tx_config_parse_string(&cfg, "preprocess-data", flags);
    if (st) return st;
    st = tx_preprocess_data(cfg);
    tx_config_free(cfg);
    return st;
}

static const char *flags(const char *fmt, const char *a, const char *b)
{
    static char buf[3072];
    snprintf(buf, sizeof buf, fmt, a, b);
    return buf;
}

static void assert_n_files(size_t n)
{
    tx_names names;
    assert_ok(tx_dir_list(scratch_dir, &names));
    if (names.n != n)
        for (size_t i = 0; i < names.n; i++) print_error("%s\n", names.name[i]);
    assert_int_equal(names.n, n);
    tx_names_free(&names);
}

static void bytes_are_megatrons(void **state)
{
    (void)state;
    static const char *const workers[] = { "1", "2", "7" };
    for (int i = 0; i < 3; i++) {
        char more[2048];
        snprintf(more, sizeof more, "--input %s --output-prefix %s --append-eod --workers %s --log-interval 100",
                 data("tiny/tiny-corpus.jsonl"), scratch("tiny"), workers[i]);
        log_begin();
        assert_ok(run(more));
        assert_same_file(scratch("tiny_text_document.bin"), data("dataset/tiny_text_document.bin"));
        assert_same_file(scratch("tiny_text_document.idx"), data("dataset/tiny_text_document.idx"));
        assert_logged("tiny-corpus.jsonl\n");
        assert_logged("\n> building GPT2BPETokenizer tokenizer ...\n");
        assert_logged("\nVocab size: 512\n");
        assert_logged("\nOutput prefix: ");
        assert_logged("\nTime to startup: ");
        assert_logged("\nProcessed 100 documents (");
        assert_logged("\nProcessed 200 documents (");
        assert_logged("\nProcessed 260 documents (");
        assert_logged(" docs/s, ");
        assert_logged(" MB/s).\n");
        log_end();
    }
    assert_n_files(2);
}

static void assert_document(const tx_dataset *ds, int64_t d, const tx_tokenizer *tok, const char *want)
{
    tx_ids ids = { 0 };
    tx_bytes text = { 0 };
    assert_ok(tx_dataset_read(ds, d, &ids));
    assert_ok(tx_tokenizer_decode(tok, ids.id, ids.n, &text));
    assert_string_equal(text.data, want);
    tx_bytes_free(&text);
    tx_ids_free(&ids);
}

static void keys_have_files_of_their_own(void **state)
{
    (void)state;
    tx_tokenizer *tok;
    tx_dataset *ds;
    tx_ids ids = { 0 };
    const char *in = write_text("in.jsonl", "{\"title\": \"T1\", \"text\": \"one\"}\n"
                                            "{\"text\": \"\", \"title\": \"T2\"}\r\n"
                                            "{\"text\": \"three\", \"title\": \"T3\"}");
    log_begin();
    assert_ok(run(flags("--input %s --output-prefix %s --json-keys text title", in, scratch("out"))));
    assert_logged("\n1 texts are empty and left out");
    log_end();
    assert_n_files(5);
    assert_ok(tx_tokenizer_open_gpt2(&tok, data("tiny/tiny-vocab.json"), data("tiny/tiny-merges.txt")));
    assert_ok(tx_dataset_open(&ds, scratch("out_text_document")));
    assert_int_equal(tx_dataset_documents(ds), 2); /* the empty one leaves no trace */
    assert_document(ds, 0, tok, "one");
    assert_document(ds, 1, tok, "three");
    assert_fails(tx_dataset_read(ds, 2, &ids), TX_ERR_ARG, "no document 2");
    assert_fails(tx_dataset_read(ds, -1, &ids), TX_ERR_ARG, "no document -1");
    assert_ok(tx_dataset_read(ds, 0, &ids)); /* appends */
    size_t n = ids.n;
    assert_ok(tx_dataset_read(ds, 1, &ids));
    assert_int_equal(ids.n, tx_dataset_tokens(ds));
    assert_true(ids.n > n);
    tx_dataset_close(ds);
    assert_ok(tx_dataset_open(&ds, scratch("out_title_document")));
    assert_int_equal(tx_dataset_documents(ds), 3);
    assert_document(ds, 2, tok, "T3");
    tx_dataset_close(ds);
    tx_tokenizer_close(tok);
    tx_ids_free(&ids);
}

static void plain_text_and_several_inputs(void **state)
{
    (void)state;
    tx_tokenizer *tok;
    tx_dataset *ds;
    char in[1024];
    snprintf(in, sizeof in, "%s %s", write_text("a", "one\n\ntwo\n"), write_text("b.jsonl", "{\"text\": \"three\"}"));
    assert_ok(run(flags("--input %s --output-prefix %s --text-split blank-line", in, scratch("out"))));
    assert_ok(tx_tokenizer_open_gpt2(&tok, data("tiny/tiny-vocab.json"), data("tiny/tiny-merges.txt")));
    assert_ok(tx_dataset_open(&ds, scratch("out_text_document")));
    assert_int_equal(tx_dataset_documents(ds), 3);
    assert_document(ds, 0, tok, "one");
    assert_document(ds, 1, tok, "two");
    assert_document(ds, 2, tok, "three");
    tx_dataset_close(ds);
    tx_tokenizer_close(tok);
    assert_fails(run(flags("--input %s --output-prefix %s --json-keys a b", in, scratch("x"))), TX_ERR_ARG,
                 "is plain text");
    assert_n_files(4);
}

/* The first bad line in the input's order is reported, whichever thread meets one first. */
static void bad_lines_stop_or_are_counted(void **state)
{
    (void)state;
    tx_dataset *ds;
    tx_str text = { 0 };
    for (int i = 0; i < 5000; i++)
        assert_ok(i % 1000 == 499 ? tx_str_puts(&text, "{\"text\": nothing}\n")
                                  : tx_str_printf(&text, "{\"text\": \"document %d, which says little\"}\n", i));
    const char *in = write_all("in.jsonl", text.data, text.len);
    tx_str_free(&text);
    for (int i = 0; i < 3; i++)
        assert_fails(run(flags("--input %s --output-prefix %s --workers 4", in, scratch("out"))), TX_ERR_FORMAT,
                     "in.jsonl: line 500, column ");
    assert_non_null(strstr(tx_last_error(), "--on-bad-line skip"));
    assert_n_files(1);
    log_begin();
    assert_ok(run(flags("--input %s --output-prefix %s --workers 4 --on-bad-line skip", in, scratch("out"))));
    assert_logged("left out: ");
    assert_logged("\n5 of 5000 lines left out by --on-bad-line skip\n");
    log_end();
    assert_ok(tx_dataset_open(&ds, scratch("out_text_document")));
    assert_int_equal(tx_dataset_documents(ds), 4995);
    tx_dataset_close(ds);
}

static void numbers_are_taken_as_they_are(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_dataset *ds;
    tx_ids ids = { 0 };
    const char *in = write_text("in", "1 2 70000\n3\n");
    const char *f = flags("--tokenizer-type NullTokenizer --vocab-size 70000 --append-eod --text-split line --input %s "
                          "--output-prefix %s",
                          in, scratch("out"));
    assert_ok(tx_config_parse_string(&cfg, "preprocess-data", f));
    assert_ok(tx_preprocess_data(cfg));
    assert_ok(tx_dataset_open(&ds, scratch("out_text_document")));
    assert_ok(tx_dataset_read(ds, 0, &ids));
    static const int32_t want[] = { 1, 2, 70000, 70000 };
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.id, want, sizeof want);
    write_text("in", "1 2\n\nfour\n");
    assert_fails(tx_preprocess_data(cfg), TX_ERR_ARG, "/in: line 3: ");
    tx_ids_free(&ids);
    tx_dataset_close(ds);
    tx_config_free(cfg);
}

static void nothing_is_left_of_a_failed_run(void **state)
{
    (void)state;
    const char *in = write_text("in.jsonl", "{\"text\": \"\"}\n"), *out = scratch("out");
    assert_fails(run(flags("--input %s --output-prefix %s", in, out)), TX_ERR_FORMAT, "is empty or was left out");
    assert_fails(run(flags("--input %s --output-prefix %s", scratch("none"), out)), TX_ERR_NOTFOUND,
                 "none: no such file");
    assert_fails(run(flags("--input %s --output-prefix %s", write_text("zero", ""), out)), TX_ERR_FORMAT,
                 "no document");
    assert_fails(run(flags("--input %s --output-prefix %s/no/such/out", in, scratch_dir)), TX_ERR_NOTFOUND, "no/such");
    assert_fails(run(flags("--input %s --output-prefix %s --json-keys a a", in, out)), TX_ERR_ARG, "twice");
    assert_fails(run(flags("--input %s --output-prefix %s --json-keys a/b", in, out)), TX_ERR_ARG, "slash");
    assert_n_files(2);

    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){ 100000, old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tx_status st = run(flags("--input %s --output-prefix %s", data("tiny/tiny-corpus.jsonl"), out));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_fails(st, TX_ERR_IO, "out_text_document.bin");
    assert_n_files(2);
}

static void missing_vocabulary_flags_are_named(void **state)
{
    (void)state;
    tx_config *cfg;
    const char *in = write_text("in.jsonl", "{\"text\": \"x\"}\n");
    tx_status st =
        tx_config_parse_string(&cfg, "preprocess-data", flags("--input %s --output-prefix %s", in, scratch("o")));
    if (!st) {
        st = tx_preprocess_data(cfg);
        tx_config_free(cfg);
    }
    assert_int_equal(st, TX_ERR_ARG);
    assert_non_null(strstr(tx_last_error(), "--vocab-file"));
    /* a vocabulary without <|endoftext|> cannot end documents */
    const char *no_eod = write_text("vocab.json", "{}");
    st = tx_config_parse_string(&cfg, "preprocess-data",
                                flags("--input in --output-prefix o --append-eod --vocab-file %s --merge-file %s",
                                      no_eod, data("tiny/tiny-merges.txt")));
    assert_ok(st);
    assert_int_not_equal(tx_preprocess_data(cfg), TX_OK);
    tx_config_free(cfg);
}

/* ---- each allocation failing in turn ---- */

static int64_t allocs_left; /* one worker: no other thread allocates */

static void *failing_alloc(void *user, size_t bytes)
{
    (void)user;
    return allocs_left-- <= 0 ? NULL : malloc(bytes);
}

static void *failing_realloc(void *user, void *p, size_t bytes)
{
    (void)user;
    return allocs_left-- <= 0 ? NULL : realloc(p, bytes);
}

static void plain_free(void *user, void *p)
{
    (void)user;
    free(p);
}

static void out_of_memory_anywhere_is_an_error(void **state)
{
    (void)state;
    const tx_allocator failing = { failing_alloc, failing_realloc, plain_free, NULL };
    tx_config *cfg;
    char f[2048];
    snprintf(f, sizeof f,
             "--tokenizer-type NullTokenizer --vocab-size 9 --append-eod --json-keys a b --input %s %s "
             "--output-prefix %s",
             write_text("in", "{\"a\": \"1 2\", \"b\": \"3\"}\n{\"a\": \"4\", \"b\": \"5\", \"v\": NaN}\n"),
             write_text("in2", "{\"a\": \"1 2\", \"b\": \"3\"}\n"), scratch("out"));
    assert_ok(tx_config_parse_string(&cfg, "preprocess-data", f));
    int failures = 0;
    for (int64_t k = 0;; k++) {
        allocs_left = k;
        tx_allocator_set(&failing);
        tx_status st = tx_preprocess_data(cfg);
        tx_allocator_set(NULL);
        if (!st) break;
        assert_int_equal(st, TX_ERR_NOMEM);
        assert_n_files(2);
        failures++;
    }
    assert_true(failures > 20);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_are_megatrons, scratch_begin, scratch_end),
        cmocka_unit_test_setup_teardown(keys_have_files_of_their_own, scratch_begin, scratch_end),
        cmocka_unit_test_setup_teardown(plain_text_and_several_inputs, scratch_begin, scratch_end),
        cmocka_unit_test_setup_teardown(bad_lines_stop_or_are_counted, scratch_begin, scratch_end),
        cmocka_unit_test_setup_teardown(numbers_are_taken_as_they_are, scratch_begin, scratch_end),
        cmocka_unit_test_setup_teardown(nothing_is_left_of_a_failed_run, scratch_begin, scratch_end),
        cmocka_unit_test_setup_teardown(out_of_memory_anywhere_is_an_error, scratch_begin, scratch_end),
        cmocka_unit_test_setup_teardown(missing_vocabulary_flags_are_named, scratch_begin, scratch_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
