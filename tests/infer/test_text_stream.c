/* labels: unit */
/* Tokens to text piece by piece: characters cut in two, stop strings across tokens, bytes that are no text. */
#include "support.h"

#include "infer/text_stream.h"

static tx_tokenizer *tok;

static int open_bytes(void **state)
{
    (void)state;
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    return 0;
}

static int close_bytes(void **state)
{
    (void)state;
    tx_tokenizer_close(tok);
    return 0;
}

/* The one token that is this byte. */
static int32_t byte_token(unsigned char c)
{
    for (int32_t id = 0; id < tx_tokenizer_vocab_size(tok); id++) {
        tx_bytes bytes = { 0 };
        ASSERT_OK(tx_tokenizer_decode(tok, &id, 1, &bytes));
        bool same = bytes.n == 1 && (unsigned char)bytes.data[0] == c;
        tx_bytes_free(&bytes);
        if (same) return id;
    }
    fail_msg("no token is the byte %d", c);
    return -1;
}

static void put_bytes(tx_text_stream *t, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) ASSERT_OK(tx_text_stream_put(t, byte_token((unsigned char)bytes[i])));
}

static void is_out(const tx_text_stream *t, const char *text)
{
    assert_string_equal(t->text.data ? t->text.data : "", text);
    assert_int_equal(t->text.len, strlen(text));
}

static void characters(void **state)
{
    (void)state;
    tx_text_stream t;
    tx_text_stream_init(&t, tok, NULL, 0);
    put_bytes(&t, "a\xe2", 2);
    is_out(&t, "a");
    put_bytes(&t, "\x82", 1);
    is_out(&t, "a");
    put_bytes(&t, "\xac", 1);
    is_out(&t, "a\xe2\x82\xac");
    put_bytes(&t, "\xf0\x9f\x98", 3);
    is_out(&t, "a\xe2\x82\xac");
    put_bytes(&t, "\x80", 1);
    is_out(&t, "a\xe2\x82\xac\xf0\x9f\x98\x80");
    ASSERT_OK(tx_text_stream_end(&t));
    is_out(&t, "a\xe2\x82\xac\xf0\x9f\x98\x80");
    tx_text_stream_deinit(&t);
}

/* Every string over bytes that matter, byte by byte, becomes what all of it at once becomes. */
static void invalid_bytes(void **state)
{
    (void)state;
    static const char alphabet[] = { 'a', '\x80', '\x9f', '\xa0', '\xc2', '\xe0', '\xed', '\xf0', '\xf4', '\xff' };
    enum { N = sizeof alphabet, LEN = 4, ALL = N * N * N * N };
    int32_t token[N];
    for (int i = 0; i < N; i++) token[i] = byte_token((unsigned char)alphabet[i]);
    for (int code = 0; code < ALL; code++) {
        char bytes[LEN];
        tx_text_stream t;
        tx_bytes whole = { 0 };
        tx_text_stream_init(&t, tok, NULL, 0);
        for (int i = 0, c = code; i < LEN; i++, c /= N) {
            bytes[i] = alphabet[c % N];
            ASSERT_OK(tx_text_stream_put(&t, token[c % N]));
        }
        ASSERT_OK(tx_text_stream_end(&t));
        ASSERT_OK(tx_text_replace_invalid(bytes, LEN, &whole));
        is_out(&t, whole.data);
        tx_bytes_free(&whole);
        tx_text_stream_deinit(&t);
    }
}

static void stops_across_tokens(void **state)
{
    (void)state;
    const char *const stop[2] = { "\nUser:", "END" };
    tx_text_stream t;
    tx_text_stream_init(&t, tok, stop, 2);
    put_bytes(&t, "hi\nUs", 5);
    is_out(&t, "hi");
    put_bytes(&t, "a", 1); /* no, it was not */
    is_out(&t, "hi\nUsa");
    put_bytes(&t, "\nUser", 5);
    is_out(&t, "hi\nUsa");
    assert_false(t.stopped);
    put_bytes(&t, ":", 1);
    assert_true(t.stopped);
    is_out(&t, "hi\nUsa");
    put_bytes(&t, "more", 4);
    ASSERT_OK(tx_text_stream_end(&t));
    is_out(&t, "hi\nUsa");
    tx_text_stream_deinit(&t);

    tx_text_stream_init(&t, tok, stop, 2); /* a beginning that never goes on is text */
    put_bytes(&t, "the EN", 6);
    is_out(&t, "the ");
    ASSERT_OK(tx_text_stream_end(&t));
    is_out(&t, "the EN");
    tx_text_stream_deinit(&t);

    tx_text_stream_init(&t, tok, stop, 2); /* a beginning inside a beginning */
    put_bytes(&t, "EEND", 4);
    is_out(&t, "E");
    assert_true(t.stopped);
    tx_text_stream_deinit(&t);
}

/* The string that is complete first counts, also where one token brings several. */
static void first_of_several(void **state)
{
    (void)state;
    const char *const stop[3] = { "he cat", "e", "the" };
    const char text[] = "of the cat";
    tx_ids ids = { 0 };
    ASSERT_OK(tx_tokenizer_encode(tok, text, strlen(text), &ids));
    assert_true(ids.n < strlen(text)); /* some token has several bytes */
    tx_text_stream t;
    tx_text_stream_init(&t, tok, stop, 3);
    for (size_t i = 0; i < ids.n; i++) ASSERT_OK(tx_text_stream_put(&t, ids.id[i]));
    assert_true(t.stopped);
    is_out(&t, "of "); /* "e" and "the" are complete at once: the longer one */
    tx_text_stream_deinit(&t);
    tx_text_stream_init(&t, tok, stop, 2);
    put_bytes(&t, text, strlen(text));
    is_out(&t, "of th");
    tx_text_stream_deinit(&t);
    tx_ids_free(&ids);
}

/* Vocabularies that put blanks between tokens: the pieces are the text of all. */
static void blanks_between_tokens(void **state)
{
    (void)state;
    tx_tokenizer *null;
    const int32_t id[4] = { 12, 7, 7, 103 };
    ASSERT_OK(tx_tokenizer_open_null(&null, 200));
    tx_text_stream t;
    tx_text_stream_init(&t, null, NULL, 0);
    for (int i = 0; i < 4; i++) ASSERT_OK(tx_text_stream_put(&t, id[i]));
    is_out(&t, "12 7 7 103");
    ASSERT_FAILS(tx_text_stream_put(&t, 300), TX_ERR_ARG, "300");
    tx_text_stream_deinit(&t);
    tx_tokenizer_close(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters),
        cmocka_unit_test(invalid_bytes),
        cmocka_unit_test(stops_across_tokens),
        cmocka_unit_test(first_of_several),
        cmocka_unit_test(blanks_between_tokens),
    };
    return cmocka_run_group_tests(tests, open_bytes, close_bytes);
}
