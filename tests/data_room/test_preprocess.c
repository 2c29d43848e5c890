/* labels: unit golden fault */
/* The job preprocess-data against Megatron's own output, and its behaviour on bad input. */
#include <signal.h>
#include <sys/resource.h>

#include "data/indexed.h"
#include "support.h"
#include "triax/data.h"

/* Runs the job with the tiny vocabulary; `more` are further flags. */
static tx_status run(const char *more)
{
    char flags[4096];
    tx_config *cfg;
    snprintf(flags, sizeof flags, "--vocab-file %s --merge-file %s %s", data_path("tiny/tiny-vocab.json"),
             data_path("tiny/tiny-merges.txt"), more);
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

static void bytes_are_megatrons(void **state)
{
    (void)state;
    static const char *const workers[] = { "1", "2", "7" };
    for (int i = 0; i < 3; i++) {
        char more[2048];
        snprintf(more, sizeof more, "--input %s --output-prefix %s --append-eod --workers %s --log-interval 100",
                 data_path("tiny/tiny-corpus.jsonl"), in_scratch("tiny"), workers[i]);
        log_begin();
        ASSERT_OK(run(more));
        assert_same_file(in_scratch("tiny_text_document.bin"), data_path("dataset/tiny_text_document.bin"));
        assert_same_file(in_scratch("tiny_text_document.idx"), data_path("dataset/tiny_text_document.idx"));
        ASSERT_CONTAINS(logged, "tiny-corpus.jsonl\n");
        ASSERT_CONTAINS(logged, "\n> building GPT2BPETokenizer tokenizer ...\n");
        ASSERT_CONTAINS(logged, "\nVocab size: 512\n");
        ASSERT_CONTAINS(logged, "\nOutput prefix: ");
        ASSERT_CONTAINS(logged, "\nTime to startup: ");
        ASSERT_CONTAINS(logged, "\nProcessed 100 documents (");
        ASSERT_CONTAINS(logged, "\nProcessed 200 documents (");
        ASSERT_CONTAINS(logged, "\nProcessed 260 documents (");
        ASSERT_CONTAINS(logged, " docs/s, ");
        ASSERT_CONTAINS(logged, " MB/s).\nWrote ");
        ASSERT_CONTAINS(logged, "/tiny_text_document.bin and .idx\n");
        log_end();
    }
    assert_n_files(scratch_dir, 2);
}

static void assert_document(const tx_dataset *ds, int64_t d, const tx_tokenizer *tok, const char *want)
{
    tx_ids ids = { 0 };
    tx_bytes text = { 0 };
    ASSERT_OK(tx_dataset_read(ds, d, &ids));
    ASSERT_OK(tx_tokenizer_decode(tok, ids.id, ids.n, &text));
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
    const char *in = write_text(in_scratch("in.jsonl"), "{\"title\": \"T1\", \"text\": \"one\"}\n"
                                                        "{\"text\": \"\", \"title\": \"T2\"}\r\n"
                                                        "{\"text\": \"three\", \"title\": \"T3\"}");
    log_begin();
    ASSERT_OK(run(flags("--input %s --output-prefix %s --json-keys text title", in, in_scratch("out"))));
    ASSERT_CONTAINS(logged, "\n1 texts are empty and left out");
    log_end();
    assert_n_files(scratch_dir, 5);
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    ASSERT_OK(tx_dataset_open(&ds, in_scratch("out_text_document")));
    assert_int_equal(tx_dataset_documents(ds), 2); /* the empty one leaves no trace */
    assert_document(ds, 0, tok, "one");
    assert_document(ds, 1, tok, "three");
    ASSERT_FAILS(tx_dataset_read(ds, 2, &ids), TX_ERR_ARG, "no document 2");
    ASSERT_FAILS(tx_dataset_read(ds, -1, &ids), TX_ERR_ARG, "no document -1");
    ASSERT_OK(tx_dataset_read(ds, 0, &ids)); /* appends */
    size_t n = ids.n;
    ASSERT_OK(tx_dataset_read(ds, 1, &ids));
    assert_int_equal(ids.n, tx_dataset_tokens(ds));
    assert_true(ids.n > n);
    tx_dataset_close(ds);
    ASSERT_OK(tx_dataset_open(&ds, in_scratch("out_title_document")));
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
    snprintf(in, sizeof in, "%s %s", write_text(in_scratch("a"), "one\n\ntwo\n"),
             write_text(in_scratch("b.jsonl"), "{\"text\": \"three\"}"));
    ASSERT_OK(run(flags("--input %s --output-prefix %s --text-split blank-line", in, in_scratch("out"))));
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    ASSERT_OK(tx_dataset_open(&ds, in_scratch("out_text_document")));
    assert_int_equal(tx_dataset_documents(ds), 3);
    assert_document(ds, 0, tok, "one");
    assert_document(ds, 1, tok, "two");
    assert_document(ds, 2, tok, "three");
    tx_dataset_close(ds);
    tx_tokenizer_close(tok);
    ASSERT_FAILS(run(flags("--input %s --output-prefix %s --json-keys a b", in, in_scratch("x"))), TX_ERR_ARG,
                 "is plain text");
    assert_n_files(scratch_dir, 4);
}

/* The first bad line in the input's order is reported, whichever thread meets one first. */
static void bad_lines_stop_or_are_counted(void **state)
{
    (void)state;
    tx_dataset *ds;
    tx_str text = { 0 };
    for (int i = 0; i < 5000; i++)
        ASSERT_OK(i % 1000 == 499 ? tx_str_puts(&text, "{\"text\": nothing}\n")
                                  : tx_str_printf(&text, "{\"text\": \"document %d, which says little\"}\n", i));
    const char *in = write_file(in_scratch("in.jsonl"), text.data, text.len);
    tx_str_free(&text);
    for (int i = 0; i < 3; i++)
        ASSERT_FAILS(run(flags("--input %s --output-prefix %s --workers 4", in, in_scratch("out"))), TX_ERR_FORMAT,
                     "in.jsonl: line 500, column ");
    ASSERT_CONTAINS(tx_last_error(), "--on-bad-line skip");
    assert_n_files(scratch_dir, 1);
    log_begin();
    ASSERT_OK(run(flags("--input %s --output-prefix %s --workers 4 --on-bad-line skip", in, in_scratch("out"))));
    ASSERT_CONTAINS(logged, "left out: ");
    ASSERT_CONTAINS(logged, "\n5 of 5000 lines left out by --on-bad-line skip\n");
    log_end();
    ASSERT_OK(tx_dataset_open(&ds, in_scratch("out_text_document")));
    assert_int_equal(tx_dataset_documents(ds), 4995);
    tx_dataset_close(ds);
}

static void numbers_are_taken_as_they_are(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_dataset *ds;
    tx_ids ids = { 0 };
    const char *in = write_text(in_scratch("in"), "1 2 70000\n3\n");
    const char *f = flags("--tokenizer-type NullTokenizer --vocab-size 70000 --append-eod --text-split line --input %s "
                          "--output-prefix %s",
                          in, in_scratch("out"));
    ASSERT_OK(tx_config_parse_string(&cfg, "preprocess-data", f));
    ASSERT_OK(tx_preprocess_data(cfg));
    ASSERT_OK(tx_dataset_open(&ds, in_scratch("out_text_document")));
    ASSERT_OK(tx_dataset_read(ds, 0, &ids));
    static const int32_t want[] = { 1, 2, 70000, 70000 };
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.id, want, sizeof want);
    write_text(in_scratch("in"), "1 2\n\nfour\n");
    ASSERT_FAILS(tx_preprocess_data(cfg), TX_ERR_ARG, "/in: line 3: ");
    tx_ids_free(&ids);
    tx_dataset_close(ds);
    tx_config_free(cfg);
}

/* Bytes of an .idx without an item: the header and one entry of the document index. */
static void assert_hollow(const char *name)
{
    static const unsigned char want[42] = "MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\0\0\0\0\0\0\0\0\1";
    tx_str idx = read_file(in_scratch("%s.idx", name));
    assert_int_equal(idx.len, sizeof want);
    assert_memory_equal(idx.data, want, sizeof want);
    tx_str_free(&idx);
    idx = read_file(in_scratch("%s.bin", name));
    assert_int_equal(idx.len, 0);
    tx_str_free(&idx);
}

/* As Megatron's tool, whose parts of a large job may well be empty. */
static void nothing_makes_an_empty_dataset(void **state)
{
    (void)state;
    const char *none = write_text(in_scratch("none"), ""),
               *in = write_text(in_scratch("in.jsonl"),
                                "{\"text\": \"\", \"b\": \"x\"}\n{\"text\": \"\", \"b\": \"\"}\n");
    log_begin();
    ASSERT_OK(run(flags("--input %s --output-prefix %s", none, in_scratch("a"))));
    ASSERT_CONTAINS(logged, "none: there is no text under \"text\": its dataset is empty");
    log_end();
    assert_hollow("a_text_document");
    ASSERT_OK(run(flags("--input %s --output-prefix %s --json-keys text b", in, in_scratch("b"))));
    assert_hollow("b_text_document");
    ASSERT_OK(run(flags("--input %s --output-prefix %s --workers 4 --partitions 4", in, in_scratch("c"))));
    assert_hollow("c_text_document");
    assert_n_files(scratch_dir, 10);
    in = write_text(in_scratch("in.jsonl"), "{\"b\": 1}\n{\n");
    ASSERT_FAILS(run(flags("--input %s --output-prefix %s --on-bad-line skip", in, in_scratch("d"))), TX_ERR_FORMAT,
                 "every line was left out");
    assert_n_files(scratch_dir, 10);
}

static void nothing_is_left_of_a_failed_run(void **state)
{
    (void)state;
    const char *in = write_text(in_scratch("in.jsonl"), "{\"text\": \"x\"}\n{\n"), *out = in_scratch("out");
    ASSERT_FAILS(run(flags("--input %s --output-prefix %s", in, out)), TX_ERR_FORMAT, "in.jsonl: line 2, column");
    ASSERT_FAILS(run(flags("--input %s --output-prefix %s", in_scratch("none"), out)), TX_ERR_NOTFOUND,
                 "none: no such file");
    ASSERT_FAILS(run(flags("--input %s --output-prefix %s/no/such/out", in, scratch_dir)), TX_ERR_NOTFOUND, "no/such");
    ASSERT_FAILS(run(flags("--input %s --output-prefix %s --json-keys a a", in, out)), TX_ERR_ARG, "twice");
    ASSERT_FAILS(run(flags("--input %s --output-prefix %s --json-keys a/b", in, out)), TX_ERR_ARG, "slash");
    assert_n_files(scratch_dir, 1);

    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){ 100000, old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tx_status st = run(flags("--input %s --output-prefix %s", data_path("tiny/tiny-corpus.jsonl"), out));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    ASSERT_FAILS(st, TX_ERR_IO, "out_text_document.bin");
    assert_n_files(scratch_dir, 1);
}

/* ---- sentences ---- */

static tx_status run_bert(const char *more)
{
    char flags_of_bert[8192];
    tx_config *cfg;
    snprintf(flags_of_bert, sizeof flags_of_bert, "--tokenizer-type BertWordPieceLowerCase --vocab-file %s %s",
             data_path("tiny/tiny-bert-vocab.txt"), more);
    tx_status st = tx_config_parse_string(&cfg, "preprocess-data", flags_of_bert);
    if (st) return st;
    st = tx_preprocess_data(cfg);
    tx_config_free(cfg);
    return st;
}

/* A member may be a list of sentences, with and without --split-sentences. */
static void sentences_are_megatrons(void **state)
{
    (void)state;
    const char *in = data_path("tiny/tiny-bert-sentences.jsonl");
    log_begin();
    ASSERT_OK(run_bert(flags("--input %s --output-prefix %s", in, in_scratch("a"))));
    ASSERT_CONTAINS(warned, "Bert tokenizer detected, are you sure you don't want to split sentences?");
    log_end();
    log_begin();
    ASSERT_OK(run_bert(flags("--input %s --output-prefix %s --split-sentences --workers 3", in, in_scratch("b"))));
    assert_string_equal(warned, "");
    log_end();
    static const char *const name[] = { "a_text_document", "b_text_sentence" }, *const ext[] = { "bin", "idx" };
    for (int i = 0; i < 2; i++)
        for (int e = 0; e < 2; e++)
            assert_same_file(in_scratch("%s.%s", name[i], ext[e]), data_path(e ? "dataset/tinybert_text_document.idx"
                                                                               : "dataset/tinybert_text_document.bin"));
    assert_n_files(scratch_dir, 4);
}

/* The items of every document as "4 3, 5, ..." tokens; the null tokenizer's words are ids. */
static const char *item_sizes(const char *prefix)
{
    static char out[512];
    tx_indexed ix;
    ASSERT_OK(tx_indexed_open(&ix, prefix));
    out[0] = 0;
    for (int64_t d = 0; d < ix.n_docs; d++) {
        for (int64_t i = tx_indexed_doc_begin(&ix, d); i < tx_indexed_doc_begin(&ix, d + 1); i++)
            sprintf(out + strlen(out), "%d ", tx_indexed_size(&ix, i));
        strcpy(out + strlen(out) - 1, ", ");
    }
    tx_indexed_close(&ix);
    return out;
}

static void a_document_is_its_sentences(void **state)
{
    (void)state;
    const char *in =
        write_text(in_scratch("in.jsonl"), "{\"a\": \"the end. and the\\nlast! \", \"b\": [\"the end. the\"]}\n"
                                           "{\"a\": \" \\t \", \"b\": []}\n"
                                           "{\"a\": \"the\", \"b\": [\"the\", \"\", \"the the\"]}\n");
    const char *f = flags("--input %s --output-prefix %s --json-keys a b --split-sentences", in, in_scratch("o"));
    ASSERT_OK(run_bert(f));
    /* [UNK] is what the tiny vocabulary makes of an unknown word, and a period is a word */
    assert_string_equal(item_sizes(in_scratch("o_b_sentence")), "4, 1 2, ");
    char with_eod[6144];
    tx_indexed ix, eod;
    ASSERT_OK(tx_indexed_open(&ix, in_scratch("o_a_sentence")));
    snprintf(with_eod, sizeof with_eod, "%s --append-eod --keep-newlines --output-prefix %s", f, in_scratch("e"));
    ASSERT_OK(run_bert(with_eod));
    ASSERT_OK(tx_indexed_open(&eod, in_scratch("e_a_sentence")));
    assert_int_equal(ix.n_docs, 2);
    assert_int_equal(ix.n_items, 3);
    assert_int_equal(eod.n_items, 3);
    for (int64_t i = 0; i < 3; i++) /* the last of each document is longer by one */
        assert_int_equal(tx_indexed_size(&eod, i), tx_indexed_size(&ix, i) + (i > 0));
    tx_indexed_close(&ix);
    tx_indexed_close(&eod);
    ASSERT_FAILS_LINES(run_bert(flags("--input %s --output-prefix %s --split-sentences --lang german", in, "x")),
                       TX_ERR_ARG, "english");
    write_text(in, "{\"text\": [\"a\", 7]}\n");
    ASSERT_FAILS(run_bert(flags("--input %s --output-prefix %s", in, in_scratch("x"))), TX_ERR_FORMAT,
                 "line 1: entry 2 of member \"text\" is a number, not a string");
    write_text(in, "{\"text\": {}}\n");
    ASSERT_FAILS(run_bert(flags("--input %s --output-prefix %s", in, in_scratch("x"))), TX_ERR_FORMAT,
                 "member \"text\" is an object, not a string or an array of strings");
}

/* ---- partitions, patterns ---- */

/* Lines are dealt out in turn, across files and with the bad ones; what is empty leaves no trace. */
static void partitions_permute_the_documents(void **state)
{
    (void)state;
    static const char *const null = "--tokenizer-type NullTokenizer --vocab-size 100 --workers 6 --on-bad-line skip "
                                    "--input %s --output-prefix %s";
    static const struct {
        const char *more, *want;
    } cases[] = {
        { "", "0 1 3 4 6 7 8 9 10 " },
        { "--partitions 1", "0 1 3 4 6 7 8 9 10 " },
        { "--partitions 2", "0 4 6 8 10 1 3 7 9 " },
        { "--partitions 3", "0 3 6 9 1 4 7 10 8 " },
        { "--partitions 6", "0 6 1 7 8 3 9 4 10 " },
        { "--partitions 6 --keep-sequential-samples", "0 1 3 4 6 7 8 9 10 " },
    };
    write_text(in_scratch("in1.jsonl"), "{\"text\": \"0\"}\n{\"text\": \"1\"}\nbad\n{\"text\": \"3\"}\n{\"text\": "
                                        "\"4\"}\n{\"text\": \"\"}");
    write_text(in_scratch("in2.jsonl"), "{\"text\": \"6\"}\n{\"text\": \"7\"}\n{\"text\": \"8\"}\n{\"text\": "
                                        "\"9\"}\n{\"text\": \"10\"}\n");
    const char *in = in_scratch("in[0-9].jsonl");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char f[4096], got[256] = "";
        tx_config *cfg;
        tx_indexed ix;
        snprintf(f, sizeof f, "%s %s", flags(null, in, in_scratch("o")), cases[i].more);
        ASSERT_OK(tx_config_parse_string(&cfg, "preprocess-data", f));
        ASSERT_OK(tx_preprocess_data(cfg));
        tx_config_free(cfg);
        ASSERT_OK(tx_indexed_open(&ix, in_scratch("o_text_document")));
        assert_int_equal(ix.n_docs, ix.n_items);
        for (int64_t k = 0; k < ix.n_items; k++) {
            int32_t id;
            ASSERT_OK(tx_indexed_get(&ix, &id, k, 0, 1));
            sprintf(got + strlen(got), "%d ", id);
        }
        tx_indexed_close(&ix);
        assert_string_equal(got, cases[i].want);
        assert_n_files(scratch_dir, 4);
    }
    ASSERT_FAILS_LINES(run(flags("--input %s --output-prefix %s --workers 3 --partitions 2", in, in_scratch("x"))),
                       TX_ERR_ARG, "--workers 3 is not divisible by --partitions 2");
    assert_n_files(scratch_dir, 4);
}

/* Joining parts gives the bytes of Megatron's merge, which test_merge checks; here: of the golden documents, twice. */
static void partitions_of_the_golden_documents(void **state)
{
    (void)state;
    const char *in = data_path("tiny/tiny-corpus.jsonl");
    ASSERT_OK(run(flags("--input %s --output-prefix %s --append-eod --workers 4 --partitions 4", in, in_scratch("p"))));
    tx_indexed a, b;
    ASSERT_OK(tx_indexed_open(&a, data_path("dataset/tiny_text_document")));
    ASSERT_OK(tx_indexed_open(&b, in_scratch("p_text_document")));
    assert_int_equal(b.n_docs, 260);
    for (int64_t i = 0; i < 260; i++) {
        static int32_t x[1 << 16], y[1 << 16];
        int64_t from = i / 65 + i % 65 * 4; /* 0, 4, 8, ..., 1, 5, ... */
        int32_t n = tx_indexed_size(&b, i);
        assert_int_equal(n, tx_indexed_size(&a, from));
        assert_true(n < 1 << 16);
        ASSERT_OK(tx_indexed_get(&a, x, from, 0, n));
        ASSERT_OK(tx_indexed_get(&b, y, i, 0, n));
        assert_memory_equal(x, y, (size_t)n * sizeof *x);
    }
    tx_indexed_close(&a);
    tx_indexed_close(&b);
}

static void missing_vocabulary_flags_are_named(void **state)
{
    (void)state;
    tx_config *cfg;
    const char *in = write_text(in_scratch("in.jsonl"), "{\"text\": \"x\"}\n");
    tx_status st =
        tx_config_parse_string(&cfg, "preprocess-data", flags("--input %s --output-prefix %s", in, in_scratch("o")));
    if (!st) {
        st = tx_preprocess_data(cfg);
        tx_config_free(cfg);
    }
    ASSERT_FAILS_LINES(st, TX_ERR_ARG, "--vocab-file");
    /* a vocabulary without <|endoftext|> cannot end documents */
    const char *no_eod = write_text(in_scratch("vocab.json"), "{}");
    st = tx_config_parse_string(&cfg, "preprocess-data",
                                flags("--input in --output-prefix o --append-eod --vocab-file %s --merge-file %s",
                                      no_eod, data_path("tiny/tiny-merges.txt")));
    ASSERT_OK(st);
    assert_int_not_equal(tx_preprocess_data(cfg), TX_OK);
    tx_config_free(cfg);
}

/* ---- each allocation failing in turn ---- */

static void no_memory(const char *more)
{
    tx_config *cfg;
    char f[2048];
    snprintf(f, sizeof f,
             "--tokenizer-type NullTokenizer --vocab-size 9 --append-eod --json-keys a b %s --input %s %s "
             "--output-prefix %s",
             more,
             write_text(in_scratch("in"), "{\"a\": \"1 2\", \"b\": \"3\"}\n{\"a\": \"4\", \"b\": \"5\", \"v\": NaN}\n"),
             write_text(in_scratch("in2"), "{\"a\": \"1 2\", \"b\": \"3\"}\n"), in_scratch("out"));
    ASSERT_OK(tx_config_parse_string(&cfg, "preprocess-data", f));
    int failures = 0;
    for (int64_t k = 0;; k++) {
        allocations_fail_from(k); /* one worker: no other thread allocates */
        tx_status st = tx_preprocess_data(cfg);
        allocations_succeed();
        if (!st) break;
        assert_int_equal(st, TX_ERR_NOMEM);
        assert_n_files(scratch_dir, 2);
        failures++;
    }
    assert_true(failures > 20);
    tx_config_free(cfg);
}

static void out_of_memory_anywhere_is_an_error(void **state)
{
    (void)state;
    no_memory("");
    for (int k = 0; k < 2; k++) {
        assert_int_equal(remove(in_scratch("out_%c_document.bin", 'a' + k)), 0);
        assert_int_equal(remove(in_scratch("out_%c_document.idx", 'a' + k)), 0);
    }
    no_memory("--partitions 2 --workers 2 --split-sentences");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(bytes_are_megatrons),
        SCRATCH_TEST(keys_have_files_of_their_own),
        SCRATCH_TEST(plain_text_and_several_inputs),
        SCRATCH_TEST(bad_lines_stop_or_are_counted),
        SCRATCH_TEST(numbers_are_taken_as_they_are),
        SCRATCH_TEST(nothing_makes_an_empty_dataset),
        SCRATCH_TEST(nothing_is_left_of_a_failed_run),
        SCRATCH_TEST(sentences_are_megatrons),
        SCRATCH_TEST(a_document_is_its_sentences),
        SCRATCH_TEST(partitions_permute_the_documents),
        SCRATCH_TEST(partitions_of_the_golden_documents),
        SCRATCH_TEST(out_of_memory_anywhere_is_an_error),
        SCRATCH_TEST(missing_vocabulary_flags_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
