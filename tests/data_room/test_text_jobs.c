/* labels: unit */
/* The jobs tokenize, detokenize and train-tokenizer. */
#include <fcntl.h>
#include <unistd.h>

#include "support.h"
#include "triax/data.h"

typedef tx_status stream_job(const tx_config *cfg);

/* Runs a job with `input` as standard input; its output goes to the scratch file "out". */
static tx_status run(stream_job *job, const char *command, const char *input, size_t n)
{
    char flags[2048];
    tx_config *cfg;
    snprintf(flags, sizeof flags, "--vocab-file %s --merge-file %s", data_path("tiny/tiny-vocab.json"),
             data_path("tiny/tiny-merges.txt"));
    ASSERT_OK(tx_config_parse_string(&cfg, command, flags));
    int saved_in = dup(STDIN_FILENO), saved_out = dup(STDOUT_FILENO);
    int in = open(write_file(in_scratch("in"), input, n), O_RDONLY);
    int out = open(in_scratch("out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(saved_in >= 0 && saved_out >= 0 && in >= 0 && out >= 0);
    fflush(stdout);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    tx_status st = job(cfg);
    dup2(saved_in, STDIN_FILENO);
    dup2(saved_out, STDOUT_FILENO);
    close(saved_in);
    close(saved_out);
    close(in);
    close(out);
    tx_config_free(cfg);
    return st;
}

static tx_status tokenize(const char *input)
{
    return run(tx_tokenize_stream, "tokenize", input, strlen(input));
}

static tx_status detokenize(const char *input)
{
    return run(tx_detokenize_stream, "detokenize", input, strlen(input));
}

static void assert_out(const char *want)
{
    tx_str s = read_file(in_scratch("out"));
    assert_string_equal(s.data ? s.data : "", want);
    tx_str_free(&s);
}

static void there_and_back(void **state)
{
    (void)state;
    ASSERT_OK(tokenize("And it came to pass\n\nna\xc3\xafve\r\nthe end"));
    tx_str ids = read_file(in_scratch("out"));
    int lines = 0;
    for (size_t i = 0; i < ids.len; i++) lines += ids.data[i] == '\n';
    assert_int_equal(lines, 4); /* one for each line of input, empty ones too */
    ASSERT_CONTAINS(ids.data, "\n[]\n");
    ASSERT_OK(run(tx_detokenize_stream, "detokenize", ids.data, ids.len));
    assert_out("And it came to pass\n\nna\xc3\xafve\nthe end\n");
    tx_str_free(&ids);

    ASSERT_OK(tokenize("{\"text\": \"the end\"}\n"));
    tx_str json = read_file(in_scratch("out"));
    ASSERT_OK(tokenize("the end\n"));
    assert_out(json.data);
    tx_str_free(&json);
}

/* As preprocess-data reads them: sentence by sentence, one line of ids for the document. */
static void lists_of_sentences(void **state)
{
    (void)state;
    ASSERT_OK(tokenize("the end\nand\n"));
    tx_str lines = read_file(in_scratch("out"));
    char *end = strstr(lines.data, "]\n[");
    assert_non_null(end);
    memmove(end, ", ", 2);
    memmove(end + 2, end + 3, strlen(end + 3) + 1);
    ASSERT_OK(tokenize("{\"text\": [\"the end\", \"and\"]}\n"));
    assert_out(lines.data);
    tx_str_free(&lines);
    ASSERT_OK(tokenize("{\"text\": []}\n{\"text\": [\"\"]}\n"));
    assert_out("[]\n[]\n");
    ASSERT_FAILS(tokenize("{\"text\": [\"a\", 2]}\n"), TX_ERR_FORMAT, "line 1: entry 2 of member \"text\" is a number");
    ASSERT_FAILS(tokenize("{\"text\": {}}\n"), TX_ERR_FORMAT, "is an object, not a string or an array of strings");
}

static void bad_lines_are_named(void **state)
{
    (void)state;
    ASSERT_FAILS(tokenize("{\"text\": \"a\"}\n{}\n"), TX_ERR_FORMAT, "standard input: line 2: has no member \"text\"");
    ASSERT_OK(tokenize("")); /* a filter: nothing in, nothing out */
    assert_out("");
    ASSERT_FAILS(detokenize("[1]\n1 2\n"), TX_ERR_FORMAT, "standard input: line 2: is not a JSON array");
    ASSERT_FAILS(detokenize("[1, -2]\n"), TX_ERR_FORMAT, "line 1: entry 2 is not a token id");
    ASSERT_FAILS(detokenize("[1.5]\n"), TX_ERR_FORMAT, "line 1: entry 1 is not a token id");
    ASSERT_FAILS(detokenize("[\"1\"]\n"), TX_ERR_FORMAT, "line 1: entry 1 is not a token id");
    ASSERT_FAILS(detokenize("[4294967296]\n"), TX_ERR_FORMAT, "line 1: entry 1 is not a token id");
    ASSERT_FAILS(detokenize("[511]\n[512]\n"), TX_ERR_ARG, "standard input: line 2: ");
}

static tx_status train(const char *fmt, const char *a, const char *b)
{
    char flags[2048];
    tx_config *cfg;
    snprintf(flags, sizeof flags, fmt, a, b);
    tx_status st = tx_config_parse_string(&cfg, "train-tokenizer", flags);
    if (st) return st;
    st = tx_train_tokenizer(cfg);
    tx_config_free(cfg);
    return st;
}

static void a_vocabulary_is_learned_and_used(void **state)
{
    (void)state;
    tx_tokenizer *tok;
    ASSERT_OK(train("--input %s --output-dir %s/deep/vocab --vocab-size 400", data_path("tiny/tiny-corpus.jsonl"),
                    scratch_dir));
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, in_scratch("deep/vocab/vocab.json"), in_scratch("deep/vocab/merges.txt")));
    assert_int_equal(tx_tokenizer_vocab_size(tok), 400);
    assert_int_equal(tx_tokenizer_eod(tok), 399);
    tx_tokenizer_close(tok);
    ASSERT_FAILS(train("--input %s --output-dir %s --vocab-size 400", write_text(in_scratch("bad"), "{]"), scratch_dir),
                 TX_ERR_FORMAT, "/bad: line 1");
    assert_false(tx_path_exists(in_scratch("vocab.json")));
    ASSERT_FAILS(train("--input %s --output-dir %s --vocab-size 400", in_scratch("none"), scratch_dir), TX_ERR_NOTFOUND,
                 "none");
}

static tx_str learned(const char *fmt, const char *input, const char *file)
{
    ASSERT_OK(train(fmt, input, in_scratch("w")));
    return read_file(in_scratch("%s", file));
}

static void a_list_of_sentences_is_learned_from(void **state)
{
    (void)state;
    const char *flags = "--input %s --output-dir %s --vocab-size 260 --min-frequency 1";
    write_text(in_scratch("list"), "{\"text\": [\"ab ab\", \"abc\"]}\n{\"text\": []}\n");
    write_text(in_scratch("texts"), "{\"text\": \"ab ab\"}\n{\"text\": \"abc\"}\n");
    tx_str list = learned(flags, in_scratch("list"), "w/merges.txt");
    tx_str texts = learned(flags, in_scratch("texts"), "w/merges.txt");
    ASSERT_CONTAINS(list.data, "\na b\n");
    assert_string_equal(list.data, texts.data);
    tx_str_free(&list);
    tx_str_free(&texts);
}

static void workers_make_no_difference(void **state)
{
    (void)state;
    for (int bert = 0; bert < 2; bert++) {
        const char *file = bert ? "w/vocab.txt" : "w/merges.txt";
        tx_str one = { 0 };
        for (int workers = 1; workers <= 3; workers++) {
            char flags[256];
            snprintf(flags, sizeof flags, "--input %%s --output-dir %%s --vocab-size 1500 --workers %d %s", workers,
                     bert ? "--tokenizer-type BertWordPieceCase --limit-alphabet 50 --special-tokens [unused1]" : "");
            tx_str got = learned(flags, data_path("tiny/tiny-corpus.jsonl"), file);
            if (workers == 1)
                one = got;
            else
                assert_string_equal(got.data, one.data);
            if (workers > 1) tx_str_free(&got);
        }
        tx_str_free(&one);
    }
}

/* Plain text is cut for the threads where no word is cut: the words, and so the merges, are those of the one document.
 */
static void a_long_text_is_cut_between_words(void **state)
{
    static const char *const phrase[] = { "it's the  end\n\n", "\xE3\x80\x80 na\xC3\xAFve? ", "we'll 12 ... go ",
                                          "x\t y " };
    enum { N = 100000 };
    (void)state;
    tx_str text = { 0 }, json = { 0 };
    uint32_t x = 7;
    for (int i = 0; i < N; i++) {
        x = x * 1664525 + 1013904223;
        ASSERT_OK(tx_str_puts(&text, phrase[x >> 30]));
    }
    json_t *object = json_pack("{s:s#}", "text", text.data, (int)text.len);
    char *line = json_dumps(object, 0);
    ASSERT_OK(tx_str_puts(&json, line));
    write_file(in_scratch("a.txt"), text.data, text.len);
    write_file(in_scratch("a.jsonl"), json.data, json.len);
    const char *flags = "--input %s --output-dir %s --vocab-size 320 --workers 2 --min-frequency 1";
    tx_str cut = learned(flags, in_scratch("a.txt"), "w/merges.txt");
    tx_str whole = learned(flags, in_scratch("a.jsonl"), "w/merges.txt");
    assert_string_equal(cut.data, whole.data);
    text.data[text.len - 3] = (char)0xFF; /* in the last part: the line is counted through all parts */
    int lines = 1;
    char want[64];
    for (size_t i = 0; i < text.len - 3; i++) lines += text.data[i] == '\n';
    snprintf(want, sizeof want, "a.txt: line %d: byte 0xff is not UTF-8", lines);
    write_file(in_scratch("a.txt"), text.data, text.len);
    ASSERT_FAILS(train(flags, in_scratch("a.txt"), in_scratch("w")), TX_ERR_FORMAT, want);
    json_decref(object);
    free(line);
    tx_str_free(&text);
    tx_str_free(&json);
    tx_str_free(&cut);
    tx_str_free(&whole);
}

static void bad_lines_stop_or_are_left_out(void **state)
{
    (void)state;
    const char *good = "{\"text\": \"ab ab\"}\n";
    tx_str text = { 0 };
    for (int i = 0; i < 30; i++) ASSERT_OK(tx_str_puts(&text, i == 17 || i == 21 ? "{\"txt\": 1}\n" : good));
    write_file(in_scratch("bad.jsonl"), text.data, text.len);
    for (int workers = 1; workers <= 2; workers++) {
        ASSERT_FAILS(train(workers == 1 ? "--input %s --output-dir %s --vocab-size 258"
                                        : "--input %s --output-dir %s --vocab-size 258 --workers 2",
                           in_scratch("bad.jsonl"), in_scratch("w")),
                     TX_ERR_FORMAT, "bad.jsonl: line 18: has no member \"text\"");
    }
    assert_false(tx_path_exists(in_scratch("w/vocab.json")));
    log_begin();
    ASSERT_OK(train("--input %s --output-dir %s --vocab-size 258 --on-bad-line skip", in_scratch("bad.jsonl"),
                    in_scratch("w")));
    log_end();
    ASSERT_CONTAINS(warned, "2 lines left out by --on-bad-line skip");
    assert_true(tx_path_exists(in_scratch("w/vocab.json")));
    tx_str_free(&text);
}

/* Whichever allocation fails, that is the error. */
static void learning_without_memory(void **state)
{
    (void)state;
    write_text(in_scratch("t.jsonl"), "{\"text\": \"the cat and the hat\"}\n{\"text\": \"the rat\"}\n");
    tx_status st;
    int n = 0;
    char flags[1024];
    snprintf(flags, sizeof flags, "--input %s --output-dir %s --vocab-size 262 --workers 2", in_scratch("t.jsonl"),
             in_scratch("w"));
    tx_config *cfg;
    ASSERT_OK(tx_config_parse_string(&cfg, "train-tokenizer", flags));
    do {
        allocations_fail_from(n++);
        st = tx_train_tokenizer(cfg);
        allocations_succeed();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
    } while (st && n < 2000);
    ASSERT_OK(st);
    assert_true(n > 10);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(there_and_back),
        SCRATCH_TEST(lists_of_sentences),
        SCRATCH_TEST(bad_lines_are_named),
        SCRATCH_TEST(a_vocabulary_is_learned_and_used),
        SCRATCH_TEST(a_list_of_sentences_is_learned_from),
        SCRATCH_TEST(workers_make_no_difference),
        SCRATCH_TEST(a_long_text_is_cut_between_words),
        SCRATCH_TEST(bad_lines_stop_or_are_left_out),
        SCRATCH_TEST(learning_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
