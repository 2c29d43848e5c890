/* labels: unit */
/* What tasks make of files: windows that count every target once, LAMBADA's words, choices, and bad lines. */
#include "support.h"

#include "eval/task.h"

static tx_tokenizer *numbers, *words; /* whole numbers; the tiny GPT-2 vocabulary */

static int open_tokenizers(void **state)
{
    (void)state;
    if (tx_tokenizer_open_null(&numbers, 1000)) return -1;
    return tx_tokenizer_open_gpt2(&words, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")) ? -1
                                                                                                                : 0;
}

static int close_tokenizers(void **state)
{
    (void)state;
    tx_tokenizer_close(numbers);
    tx_tokenizer_close(words);
    return 0;
}

static tx_status open_text(tx_task *t, tx_task_opts o, const tx_tokenizer *tok, const char *text)
{
    o.file = write_text(in_scratch("file"), text);
    log_begin();
    tx_status st = tx_task_open(t, &o, tok);
    log_end();
    return st;
}

/* "0 1 2 ... n-1" */
static const char *count_to(int n)
{
    static char text[8192];
    size_t len = 0;
    text[0] = 0;
    for (int i = 0; i < n; i++) len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", i ? " " : "", i);
    return text;
}

/* Target k of upstream's sequences: in the first of them, or in the last `step` targets of sequence w, which begins at
 * w * step. */
static int64_t upstream_begin(int64_t k, int64_t seq, int64_t step)
{
    return k <= seq ? 0 : (k - seq + step - 1) / step * step;
}

static void windows_count_every_target_once(void **state)
{
    (void)state;
    static const int seq[] = { 1, 2, 5, 8 };
    static const enum tx_task_kind kinds[] = { TX_TASK_TEXT, TX_TASK_WIKITEXT103 };
    for (int c = 0; c < 8; c++)
        for (int step = 1; step <= seq[c / 2]; step++)
            for (int n = 2; n < 25; n++) {
                tx_task t;
                int64_t s = seq[c / 2], next = 1;
                ASSERT_OK(open_text(&t, (tx_task_opts){ .kind = kinds[c % 2], .seq_length = s, .overlap = step },
                                    numbers, count_to(n)));
                assert_int_equal(t.ids.n, n);
                for (int64_t i = 0; i < t.n_spans; i++) {
                    const tx_task_span *w = &t.span[i];
                    assert_int_equal(w->first, next);
                    for (int64_t k = w->first; k < w->end; k++) assert_int_equal(w->begin, upstream_begin(k, s, step));
                    assert_true(w->end - w->begin <= s + 1);
                    next = w->end;
                }
                assert_int_equal(next, n);
                assert_int_equal(t.n_items, t.n_spans);
                tx_task_close(&t);
            }
}

static void too_little_or_too_much(void **state)
{
    (void)state;
    static const char *const none[] = { "", "7", " " };
    tx_task t;
    for (int kind = TX_TASK_TEXT; kind <= TX_TASK_WIKITEXT103; kind++) {
        tx_task_opts o = { .kind = (enum tx_task_kind)kind, .seq_length = 4 };
        for (int i = 0; i < 3; i++)
            ASSERT_FAILS(open_text(&t, o, numbers, none[i]), TX_ERR_FORMAT, "file: no text in it has two tokens");
        o.overlap = 5;
        ASSERT_FAILS(open_text(&t, o, numbers, "1 2"), TX_ERR_ARG, "--overlapping-eval 5 is more than --seq-length 4");
        o.overlap = 0;
        ASSERT_OK(open_text(&t, o, numbers, "1 2"));
        assert_int_equal(t.opts.overlap, 4);
        tx_task_close(&t);
        o.seq_length = 100;
        ASSERT_OK(open_text(&t, o, numbers, "1 2"));
        assert_int_equal(t.opts.overlap, 32);
        tx_task_close(&t);
    }
    ASSERT_FAILS(open_text(&t, (tx_task_opts){ .kind = TX_TASK_WIKITEXT103, .seq_length = 4 }, words, "\n several\n"),
                 TX_ERR_FORMAT, "holds no two words");
    ASSERT_FAILS(tx_task_open(&t,
                              &(tx_task_opts){ .kind = TX_TASK_TEXT, .file = in_scratch("nowhere"), .seq_length = 4 },
                              numbers),
                 TX_ERR_NOTFOUND, "nowhere");
}

/* Documents are apart: no window reaches over their ends, and short ones have no target. */
static void documents_stand_alone(void **state)
{
    (void)state;
    static const char lines[] = "{\"text\": \"1 2 3\"}\n{\"text\": \"\"}\n{\"text\": \"4\"}\n{\"text\": \"5 6 7 8\"}\n";
    static const tx_task_span expect[] = { { 0, 1, 3, 0 }, { 4, 5, 7, 0 }, { 6, 7, 8, 0 } };
    tx_task t;
    ASSERT_OK(open_text(&t, (tx_task_opts){ .kind = TX_TASK_TEXT, .seq_length = 2, .overlap = 2 }, numbers, lines));
    assert_int_equal(t.n_spans, 3);
    assert_memory_equal(t.span, expect, sizeof expect);
    assert_int_equal(t.item[0].document, 0);
    assert_int_equal(t.item[1].document, 3);
    assert_true(t.item[0].begins && t.item[1].begins && !t.item[2].begins);
    assert_int_equal(t.n_bytes, 4 + 6); /* " 2 3", " 6 7 8" */
    tx_task_close(&t);
}

static void text_of(const tx_task *t, int64_t begin, int64_t end, const char *expect)
{
    tx_bytes b = { 0 };
    ASSERT_OK(tx_tokenizer_decode(words, t->ids.id + begin, (size_t)(end - begin), &b));
    if (b.n != strlen(expect) || memcmp(b.data, expect, b.n)) fail_msg("\"%s\", expected \"%s\"", b.data, expect);
    tx_bytes_free(&b);
}

static void lambada_words(void **state)
{
    (void)state;
    static const struct {
        const char *line, *before, *word;
    } strict[] = { { "{\"text\": \"the king said unto\"}", "the king said", " unto" },
                   { "{\"text\": \" the king\\n said unto!\\u00a0\\n\"}", "the king\n said", " unto!" },
                   { "{\"text\": \"unto the king unto\"}", "unto the king", " unto" },
                   { "{\"text\": \"a\\u3000b\"}", "a", " b" } };
    tx_task t;
    tx_task_opts o = { .kind = TX_TASK_LAMBADA, .seq_length = 64, .strict = true };
    for (size_t i = 0; i < sizeof strict / sizeof *strict; i++) {
        ASSERT_OK(open_text(&t, o, words, strict[i].line));
        text_of(&t, t.span[0].begin, t.span[0].first, strict[i].before);
        text_of(&t, t.span[0].first, t.span[0].end, strict[i].word);
        tx_task_close(&t);
    }
    o.strict = false;
    o.seq_length = 3;
    ASSERT_OK(open_text(&t, o, words, "{\"text\": \"the king said unto the king\"}\n"));
    assert_int_equal(t.span[0].first, (int64_t)t.ids.n - 1);
    assert_int_equal(t.span[0].end - t.span[0].begin, 4); /* what the model can see */
    assert_int_equal(t.n_cut, 1);
    ASSERT_CONTAINS(warned, "1 of its texts have more than --seq-length 3 tokens");
    tx_task_close(&t);
}

static void choices_behind_their_context(void **state)
{
    (void)state;
    static const struct {
        const char *context, *choice, *targets;
        int64_t chars;
    } c[] = { { "the king", "said", " said", 4 },
              { "the king", " said", " said", 5 },
              { "the king ", "said", " said", 4 },
              { "the king:\\n", "é€", "\né€", 2 },
              { "", "said", "said", 4 } };
    tx_task t;
    char line[256];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        snprintf(line, sizeof line, "{\"context\": \"%s\", \"choices\": [\"x\", \"%s\"], \"answer\": 1}", c[i].context,
                 c[i].choice);
        ASSERT_OK(open_text(&t, (tx_task_opts){ .kind = TX_TASK_CHOICE, .seq_length = 64 }, words, line));
        assert_int_equal(t.n_items, 1);
        assert_int_equal(t.item[0].n_spans, 2);
        assert_int_equal(t.item[0].answer, 1);
        text_of(&t, t.span[1].first, t.span[1].end, c[i].targets);
        assert_int_equal(t.span[1].n_chars, c[i].chars);
        if (!c[i].context[0]) assert_int_equal(t.ids.id[t.span[1].begin], tx_tokenizer_eod(words));
        tx_task_close(&t);
    }
}

static void bad_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        enum tx_task_kind kind;
        const char *text, *message;
    } bad[] = {
        { TX_TASK_TEXT, "{\"text\": \"1 2\"}\n{\"text\": 3}\n", "line 2: \"text\" is not a string" },
        { TX_TASK_TEXT, "{\"texts\": \"1 2\"}\n", "line 1: has no member \"text\"" },
        { TX_TASK_LAMBADA, "{\"text\": \"a b\"}\n{\"text\": \"a b\"\n", "line 2, column " },
        { TX_TASK_LAMBADA, "{\"text\": \"a b\"}\n\n", "line 2" },
        { TX_TASK_LAMBADA, "some words\n", "line 1: is no JSON object" },
        { TX_TASK_LAMBADA, "{\"text\": \" \\n\"}\n", "line 1: \"text\" has no word" },
        { TX_TASK_LAMBADA, "{\"text\": \"alone\"}\n", "line 1: nothing stands before" },
        { TX_TASK_LAMBADA, "{\"text\": \"a bcdfghjklmnpqrstvwxzq\"}\n", "more than --seq-length 4" },
        { TX_TASK_LAMBADA, "", "holds no line" },
        { TX_TASK_CHOICE, "{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 2}",
          "\"answer\" is 2, the choices are 0 to 1" },
        { TX_TASK_CHOICE, "{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": -1}", "\"answer\" is -1" },
        { TX_TASK_CHOICE, "{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": \"1\"}",
          "\"answer\" is not a number" },
        { TX_TASK_CHOICE, "{\"context\": \"a\", \"choices\": [\"b\"], \"answer\": 0}", "not an array of 2 to 1000" },
        { TX_TASK_CHOICE, "{\"context\": \"a\", \"choices\": [\"b\", 3], \"answer\": 0}", "choice 1 is not a string" },
        { TX_TASK_CHOICE, "{\"context\": \"a\", \"choices\": [\"b\", \"\"], \"answer\": 0}", "a choice is empty" },
        { TX_TASK_CHOICE, "{\"choices\": [\"b\", \"c\"], \"answer\": 0}", "has no member \"context\"" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_task t;
        tx_task_opts o = { .kind = bad[i].kind, .seq_length = 4, .strict = true };
        ASSERT_FAILS(open_text(&t, o, words, bad[i].text), TX_ERR_FORMAT, bad[i].message);
        ASSERT_CONTAINS(tx_last_error(), "/file");
    }
}

static void opening_fails_without_memory(void **state)
{
    (void)state;
    static const char *const text[] = {
        [TX_TASK_TEXT] = "1 2 3 4 5",
        [TX_TASK_WIKITEXT103] = "1 2 3 4 5",
        [TX_TASK_LAMBADA] = "{\"text\": \"a b\"}",
        [TX_TASK_CHOICE] = "{\"context\": \"\", \"choices\": [\"b\", \"c\"], \"answer\": 0}",
    };
    for (int kind = TX_TASK_TEXT; kind <= TX_TASK_CHOICE; kind++) {
        tx_task_opts o = { .kind = (enum tx_task_kind)kind,
                           .seq_length = 4,
                           .file = write_text(in_scratch("f"), text[kind]) };
        for (int64_t n = 0;; n++) {
            tx_task t;
            allocation_fails_at(n);
            tx_status st = tx_task_open(&t, &o, kind < TX_TASK_LAMBADA ? numbers : words);
            allocations_succeed();
            if (!st) tx_task_close(&t);
            if (!st) break;
            assert_int_equal(st, TX_ERR_NOMEM);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(windows_count_every_target_once), SCRATCH_TEST(too_little_or_too_much),
        SCRATCH_TEST(documents_stand_alone),           SCRATCH_TEST(lambada_words),
        SCRATCH_TEST(choices_behind_their_context),    SCRATCH_TEST(bad_lines_are_named),
        SCRATCH_TEST(opening_fails_without_memory),
    };
    return cmocka_run_group_tests(tests, open_tokenizers, close_tokenizers);
}
