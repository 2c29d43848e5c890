/* labels: unit golden */
/* Vocabularies equal to those that Hugging Face's trainers learned from the same documents, small cases counted by
 * hand, and the files that are written. */
#include "token_test.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static tx_vocab_opts bpe_opts(int32_t vocab_size, int64_t min_frequency)
{
    return (tx_vocab_opts){ .kind = TX_VOCAB_BPE, .vocab_size = vocab_size, .min_frequency = min_frequency };
}

static tx_vocab_trainer *trainer(tx_vocab_opts o)
{
    tx_vocab_trainer *t = NULL;
    ASSERT_OK(tx_vocab_trainer_create(&t, &o));
    return t;
}

/* Two trainers share the documents in turn; user is both. */
static void feed_in_turn(json_t *line, void *user)
{
    tx_vocab_trainer **t = user, *first = t[0];
    json_t *text = json_object_get(line, "text");
    ASSERT_OK(tx_vocab_trainer_feed(first, json_string_value(text), json_string_length(text)));
    t[0] = t[1];
    t[1] = first;
}

/* Learns from the texts of a data file, counted by two trainers, into the scratch folder. */
static void learn_file(const char *file, tx_vocab_opts o)
{
    tx_vocab_trainer *t[2] = { trainer(o), trainer(o) };
    for_each_json_line(data_path(file), feed_in_turn, t);
    ASSERT_OK(tx_vocab_trainer_absorb(t[0], t[1]));
    assert_int_equal(tx_vocab_trainer_words(t[1]), 0);
    assert_int_equal(tx_vocab_trainer_size(t[0]), 0);
    ASSERT_OK(tx_vocab_trainer_finish(t[0]));
    assert_int_equal(tx_vocab_trainer_size(t[0]), o.vocab_size);
    ASSERT_OK(tx_vocab_trainer_save(t[0], scratch_dir));
    tx_vocab_trainer_free(t[0]);
    tx_vocab_trainer_free(t[1]);
}

static void same_as_hugging_face(void **state)
{
    tx_tokenizer *tok = NULL;
    (void)state;
    learn_file("token/gpt2_cases.jsonl", bpe_opts(1500, 2));
    assert_same_file(in_scratch("merges.txt"), data_path("token/hf-merges-1500.txt"));
    /* the loader takes what the trainer writes */
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, in_scratch("vocab.json"), in_scratch("merges.txt")));
    assert_int_equal(tx_tokenizer_vocab_size(tok), 1500);
    assert_int_equal(tx_tokenizer_eod(tok), 1499);
    tx_tokenizer_close(tok);
}

static void wordpiece_same_as_hugging_face(void **state)
{
    tx_tokenizer *tok = NULL;
    (void)state;
    for (int lower = 0; lower < 2; lower++) {
        learn_file("tiny/tiny-corpus.jsonl",
                   (tx_vocab_opts){ .kind = lower ? TX_VOCAB_WORDPIECE_LOWER_CASE : TX_VOCAB_WORDPIECE_CASE,
                                    .vocab_size = 600,
                                    .min_frequency = 2,
                                    .limit_alphabet = lower ? 30 : 0 });
        assert_same_file(in_scratch("vocab.txt"),
                         data_path(lower ? "token/hf-wordpiece-uncased-600.txt" : "token/hf-wordpiece-cased-600.txt"));
        ASSERT_OK(tx_tokenizer_open_wordpiece(&tok, in_scratch("vocab.txt"), lower));
        assert_int_equal(tx_tokenizer_special(tok, "[MASK]"), 4);
        tx_tokenizer_close(tok);
    }
}

/* Trains on one document and gives the merges file. */
static tx_str merges_of(const char *text, int32_t vocab_size, int64_t min_frequency)
{
    tx_vocab_trainer *t = trainer(bpe_opts(vocab_size, min_frequency));
    ASSERT_OK(tx_vocab_trainer_feed(t, text, strlen(text)));
    ASSERT_OK(tx_vocab_trainer_finish(t));
    ASSERT_OK(tx_vocab_trainer_save(t, scratch_dir));
    tx_vocab_trainer_free(t);
    return read_file(in_scratch("merges.txt"));
}

static void by_hand(void **state)
{
    static const struct {
        const char *text;
        int32_t vocab_size;
        int64_t min_frequency;
        const char *merges;
    } c[] = {
        { "ab ab ab", 258, 0, "a b\n" },               /* 3 x (a,b) against 2 x (blank,a) */
        { "ab ab ab", 300, 0, "a b\n\xC4\xA0 ab\n" },  /* all there is */
        { "cd ab", 258, 0, "a b\n" },                  /* equal counts: the smaller left id */
        { "ac ab", 258, 0, "a b\n" },                  /* ... then the smaller right id */
        { "\xC3\xA9", 258, 0, "\xC3\x83 \xC2\xA9\n" }, /* one letter of two bytes */
        { "aaaaa", 300, 0, "a a\naa a\naa aaa\n" },    /* aa aa a: then a before aa, its id is smaller */
        { "aaa aaa", 300, 0, "a a\naa a\n\xC4\xA0 aaa\n" },
        { "ab ab cd", 300, 2, "a b\n" }, /* nothing else occurs twice */
        { "ab", 300, 2, "" },
        { "", 300, 0, "" },
        { "\"\\\"\\", 258, 0, "\" \\\n" }, /* what JSON has to escape */
        { "ab ab", 257, 0, "" },
        { "aaaa aaaa", 300, 0, "a a\naa aa\n\xC4\xA0 aaaa\n" },
        { "abab", 300, 0, "a b\nab ab\n" }, /* the right neighbour goes with the next occurrence */
        { "ababab", 300, 0, "a b\nab ab\nabab ab\n" },
        { "aabaab", 300, 2, "a a\naa b\n" },
        { "abcabcabc bc", 300, 2, "b c\na bc\nabc abc\n" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tx_str got = merges_of(c[i].text, c[i].vocab_size, c[i].min_frequency);
        assert_true(got.len >= 14 && !memcmp(got.data, "#version: 0.2\n", 14));
        assert_string_equal(got.data + 14, c[i].merges);
        tx_str_free(&got);
    }
}

static void vocabulary_layout(void **state)
{
    tx_str m = merges_of("ab ab ab \"\"", 259, 0), v = read_file(in_scratch("vocab.json"));
    json_t *j = json_loadb(v.data, v.len, JSON_REJECT_DUPLICATES, NULL);
    (void)state;
    assert_non_null(j);
    assert_int_equal(json_object_size(j), 259);
    assert_int_equal(json_integer_value(json_object_get(j, "!")), 0); /* GPT-2's order of bytes */
    assert_int_equal(json_integer_value(json_object_get(j, "\"")), 1);
    assert_int_equal(json_integer_value(json_object_get(j, "\\")), 59);
    assert_int_equal(json_integer_value(json_object_get(j, "\xC4\x80")), 188);
    assert_int_equal(json_integer_value(json_object_get(j, "\xC5\x83")), 255);
    assert_int_equal(json_integer_value(json_object_get(j, "ab")), 256);
    assert_int_equal(json_integer_value(json_object_get(j, "<|endoftext|>")), 258);
    assert_ptr_equal(strstr(v.data, "{\"!\": 0, \"\\\"\": 1, "), v.data);
    json_decref(j);
    tx_str_free(&m);
    tx_str_free(&v);
}

static void too_little_text(void **state)
{
    (void)state;
    log_begin();
    tx_str m = merges_of("ab ab", 1000, 2);
    log_end();
    ASSERT_CONTAINS(warned, "asked for a vocabulary of 1000 tokens, but the text gives only 258");
    tx_str_free(&m);
}

static void wordpiece_by_hand(void **state)
{
    static const struct {
        const char *text;
        bool lower;
        int32_t vocab_size, limit_alphabet;
        int64_t min_frequency;
        const char *tokens; /* after [MASK] */
    } c[] = {
        { "ab ab b", true, 100, 0, 2, "a\nb\n##b\nab\n" },
        { "AB ab", false, 100, 0, 1, "A\nB\na\nb\n##B\n##b\nAB\nab\n" },
        { "AB ab", true, 100, 0, 1, "a\nb\n##b\nab\n" },
        { "xab yab", true, 100, 0, 2, "a\nb\nx\ny\n##a\n##b\n##ab\n" },
        { "ab ab cab", true, 100, 2, 1, "a\nb\n##a\n##b\nab\n##ab\n" }, /* c is passed over, its word begins with ##a */
        { "b a", true, 100, 1, 1, "a\n" },                              /* equally frequent: the smaller stays */
        { "\xE4\xB8\xAD\xE6\x96\x87", true, 100, 0, 1, "\xE4\xB8\xAD\n\xE6\x96\x87\n" }, /* a word each */
        { "", true, 100, 0, 1, "" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tx_vocab_trainer *t =
            trainer((tx_vocab_opts){ .kind = c[i].lower ? TX_VOCAB_WORDPIECE_LOWER_CASE : TX_VOCAB_WORDPIECE_CASE,
                                     .vocab_size = c[i].vocab_size,
                                     .limit_alphabet = c[i].limit_alphabet,
                                     .min_frequency = c[i].min_frequency });
        ASSERT_OK(tx_vocab_trainer_feed(t, c[i].text, strlen(c[i].text)));
        ASSERT_OK(tx_vocab_trainer_finish(t));
        ASSERT_OK(tx_vocab_trainer_save(t, scratch_dir));
        tx_vocab_trainer_free(t);
        tx_str got = read_file(in_scratch("vocab.txt"));
        const char *special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
        assert_ptr_equal(strstr(got.data, special), got.data);
        assert_string_equal(got.data + strlen(special), c[i].tokens);
        tx_str_free(&got);
    }
}

/* Words of 201 letters are no words to WordPiece. */
static void too_long_words(void **state)
{
    char text[600];
    tx_vocab_trainer *t = trainer((tx_vocab_opts){ .kind = TX_VOCAB_WORDPIECE_CASE, .vocab_size = 100 });
    (void)state;
    int n = snprintf(text, sizeof text, "%0200d %0201d", 0, 0);
    ASSERT_OK(tx_vocab_trainer_feed(t, text, (size_t)n));
    assert_int_equal(tx_vocab_trainer_words(t), 1);
    tx_vocab_trainer_free(t);
}

static void special_tokens(void **state)
{
    const char *const good[] = { "<|user|>", "[unused1]" };
    tx_vocab_opts o = bpe_opts(260, 0);
    o.special = good;
    o.n_special = 2;
    (void)state;
    for (int kind = TX_VOCAB_BPE; kind <= TX_VOCAB_WORDPIECE_CASE; kind++) {
        o.kind = (tx_vocab_kind)kind;
        tx_vocab_trainer *t = trainer(o);
        ASSERT_OK(tx_vocab_trainer_feed(t, "ab ab", 5));
        ASSERT_OK(tx_vocab_trainer_finish(t));
        ASSERT_OK(tx_vocab_trainer_save(t, scratch_dir));
        tx_vocab_trainer_free(t);
        tx_str vocab = read_file(in_scratch(kind == TX_VOCAB_BPE ? "vocab.json" : "vocab.txt"));
        ASSERT_CONTAINS(vocab.data, kind == TX_VOCAB_BPE
                                        ? "\"ab\": 256, \"<|endoftext|>\": 257, \"<|user|>\": 258, \"[unused1]\": 259}"
                                        : "[MASK]\n<|user|>\n[unused1]\na\nb\n##b\nab\n");
        tx_str_free(&vocab);
        json_t *j = load_json(in_scratch("tokenizer.json"));
        json_t *added = json_object_get(j, "added_tokens"), *last = json_array_get(added, json_array_size(added) - 1);
        assert_string_equal(json_string_value(json_object_get(last, "content")), "[unused1]");
        assert_int_equal(json_integer_value(json_object_get(last, "id")), kind == TX_VOCAB_BPE ? 259 : 6);
        json_decref(j);
    }
    static const char *const bad[] = { "", "ab", "<>", "<a b>", "<a", "a>", "<\xC3\xA9>", "<a\n>", "<|endoftext|>" };
    o.kind = TX_VOCAB_BPE;
    o.n_special = 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_vocab_trainer *t = NULL;
        o.special = &bad[i];
        ASSERT_FAILS(tx_vocab_trainer_create(&t, &o), TX_ERR_ARG, "special token \"");
        assert_null(t);
    }
}

static void wrong_calls(void **state)
{
    tx_vocab_trainer *t = NULL, *other = NULL, *bert = NULL;
    tx_vocab_opts o = bpe_opts(256, 0);
    (void)state;
    ASSERT_FAILS(tx_vocab_trainer_create(&t, &o), TX_ERR_ARG, "vocabulary size 256 is too small: 256 bytes and 1");
    o.vocab_size = -5;
    ASSERT_FAILS(tx_vocab_trainer_create(&t, &o), TX_ERR_ARG, "need 257");
    o = bpe_opts(258, -1);
    ASSERT_FAILS(tx_vocab_trainer_create(&t, &o), TX_ERR_ARG, "minimum frequency -1");
    o = bpe_opts(258, 0);
    o.limit_alphabet = -1;
    ASSERT_FAILS(tx_vocab_trainer_create(&t, &o), TX_ERR_ARG, "limit -1 of the alphabet");
    t = trainer(bpe_opts(258, 0));
    other = trainer(bpe_opts(258, 0));
    bert = trainer((tx_vocab_opts){ .kind = TX_VOCAB_WORDPIECE_CASE, .vocab_size = 8 });
    ASSERT_OK(tx_vocab_trainer_feed(t, "ab ab", 5));
    ASSERT_FAILS(tx_vocab_trainer_absorb(t, bert), TX_ERR_ARG, "two trainers of one kind");
    ASSERT_FAILS(tx_vocab_trainer_absorb(t, t), TX_ERR_ARG, "two trainers of one kind");
    ASSERT_FAILS(tx_vocab_trainer_save(t, scratch_dir), TX_ERR_STATE, "has not finished");
    ASSERT_OK(tx_vocab_trainer_finish(t));
    assert_int_equal(tx_vocab_trainer_size(t), 258);
    ASSERT_FAILS(tx_vocab_trainer_finish(t), TX_ERR_STATE, "has finished already");
    ASSERT_FAILS(tx_vocab_trainer_feed(t, "x", 1), TX_ERR_STATE, "takes no more text");
    ASSERT_FAILS(tx_vocab_trainer_absorb(other, t), TX_ERR_STATE, "takes no more text");
    ASSERT_FAILS(tx_vocab_trainer_save(t, in_scratch("no")), TX_ERR_NOTFOUND, "vocab.json");
    ASSERT_OK(tx_vocab_trainer_feed(bert, "abcd", 4));
    ASSERT_FAILS(
        tx_vocab_trainer_finish(bert), TX_ERR_ARG,
        "vocabulary size 8 is too small: 5 special tokens and 4 characters, alone and inside of words, need 12");
    tx_vocab_trainer_free(t);
    tx_vocab_trainer_free(other);
    tx_vocab_trainer_free(bert);
    tx_vocab_trainer_free(NULL);
}

static int names_in_scratch(void)
{
    tx_names names;
    ASSERT_OK(tx_dir_list(scratch_dir, &names));
    int n = (int)names.n;
    tx_names_free(&names);
    return n;
}

/* A later file that cannot be made, that finds its name taken or no space leaves the old vocabulary in place, and
 * nothing else. */
static void all_or_none(void **state)
{
    static const char *const file[] = { "vocab.json", "merges.txt", "tokenizer.json" };
    tx_str merges = merges_of("ab ab", 258, 0), before[3], after;
    tx_vocab_trainer *t = trainer(bpe_opts(258, 0));
    struct rlimit old, less;
    int n_names = names_in_scratch();
    char tmp[64];
    (void)state;
    for (int i = 0; i < 3; i++) before[i] = read_file(in_scratch("%s", file[i]));
    ASSERT_OK(tx_vocab_trainer_feed(t, "cd cd", 5));
    ASSERT_OK(tx_vocab_trainer_finish(t));
    snprintf(tmp, sizeof tmp, "tokenizer.json.tmp-%d", (int)getpid());
    for (int way = 0; way < 3; way++) {
        const char *taken = in_scratch("%s", way == 0 ? tmp : "tokenizer.json");
        if (way == 1) unlink(taken);
        if (way < 2) ASSERT_OK(tx_make_dirs(taken));
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        less = (struct rlimit){ before[2].len - 1, old.rlim_max };
        assert_true(before[0].len < less.rlim_cur && before[2].len < 100000); /* less than a writer's buffer */
        signal(SIGXFSZ, SIG_IGN);
        if (way == 2) setrlimit(RLIMIT_FSIZE, &less);
        tx_status st = tx_vocab_trainer_save(t, scratch_dir);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(st, TX_ERR_IO);
        ASSERT_CONTAINS(tx_last_error(), "tokenizer.json");
        assert_int_equal(names_in_scratch(), n_names + (way == 0));
        if (way < 2) rmdir(taken);
        if (way == 1) write_file(taken, before[2].data, before[2].len);
        for (int i = 0; i < 3; i++) {
            after = read_file(in_scratch("%s", file[i]));
            assert_string_equal(after.data, before[i].data);
            tx_str_free(&after);
        }
    }
    ASSERT_OK(tx_vocab_trainer_save(t, scratch_dir));
    after = read_file(in_scratch("merges.txt"));
    assert_string_equal(after.data, "#version: 0.2\nc d\n");
    assert_int_equal(names_in_scratch(), n_names);
    for (int i = 0; i < 3; i++) tx_str_free(&before[i]);
    tx_vocab_trainer_free(t);
    tx_str_free(&merges);
    tx_str_free(&after);
}

/* One word of 400,000 letters: looking through it for each merge would take many minutes. */
static void long_word(void **state)
{
    enum { N = 400000 };
    char *text = malloc(N);
    uint32_t x = 1;
    tx_vocab_trainer *t = trainer(bpe_opts(15000, 2));
    (void)state;
    for (int i = 0; i < N; i++) {
        x = x * 1664525 + 1013904223;
        text[i] = (char)('a' + (x >> 24) % 20);
    }
    ASSERT_OK(tx_vocab_trainer_feed(t, text, N));
    ASSERT_OK(tx_vocab_trainer_finish(t));
    assert_int_equal(tx_vocab_trainer_size(t), 15000);
    tx_vocab_trainer_free(t);
    free(text);
}

/* ---- no memory ---- */

static tx_status train_and_save(tx_vocab_kind kind)
{
    tx_vocab_opts o = { .kind = kind, .vocab_size = 270, .limit_alphabet = 5 };
    tx_vocab_trainer *t = NULL, *other = NULL;
    const char *text = "the cat and the hat and the rat";
    tx_status st = tx_vocab_trainer_create(&t, &o);
    if (!st) st = tx_vocab_trainer_create(&other, &o);
    if (!st) st = tx_vocab_trainer_feed(other, text, strlen(text));
    if (!st) st = tx_vocab_trainer_absorb(t, other);
    if (!st) st = tx_vocab_trainer_finish(t);
    if (!st) st = tx_vocab_trainer_save(t, scratch_dir);
    tx_vocab_trainer_free(t);
    tx_vocab_trainer_free(other);
    return st;
}

static void every_allocation_fails(void **state)
{
    (void)state;
    for (int kind = TX_VOCAB_BPE; kind <= TX_VOCAB_WORDPIECE_LOWER_CASE; kind++) {
        int n = 0;
        tx_status st;
        do {
            allocations_fail_from(n++);
            st = train_and_save((tx_vocab_kind)kind);
            if (st) assert_int_equal(st, TX_ERR_NOMEM);
        } while (st && n < 1000);
        allocations_succeed();
        ASSERT_OK(st);
        assert_true(n > 10);
    }
}

static int clean(void **state)
{
    remove(in_scratch("vocab.json"));
    remove(in_scratch("merges.txt"));
    remove(in_scratch("vocab.txt"));
    remove(in_scratch("tokenizer.json"));
    int left_over = rmdir(scratch_dir); /* fails if a temporary file was left behind */
    return scratch_teardown(state) || left_over ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_hugging_face),
        cmocka_unit_test(wordpiece_same_as_hugging_face),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(wordpiece_by_hand),
        cmocka_unit_test(too_long_words),
        cmocka_unit_test(special_tokens),
        cmocka_unit_test(vocabulary_layout),
        cmocka_unit_test(too_little_text),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(all_or_none),
        cmocka_unit_test(long_word),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, scratch_setup, clean);
}
