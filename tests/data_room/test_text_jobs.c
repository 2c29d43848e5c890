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

static void bad_lines_are_named(void **state)
{
    (void)state;
    ASSERT_FAILS(tokenize("{\"text\": \"a\"}\n{}\n"), TX_ERR_FORMAT, "standard input: line 2: has no member \"text\"");
    ASSERT_FAILS(tokenize(""), TX_ERR_FORMAT, "standard input: no document");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(there_and_back),
        SCRATCH_TEST(bad_lines_are_named),
        SCRATCH_TEST(a_vocabulary_is_learned_and_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
