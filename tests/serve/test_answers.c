/* labels: unit */
/* Answers: JSON whatever bytes come in, and what a stream tells is what the whole answer tells. */
#include "support.h"

#include "serve/answers.h"

static tx_tokenizer *tok;

static int open_tokenizer(void **state)
{
    (void)state;
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    return 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    tx_tokenizer_close(tok);
    return 0;
}

static void strings_are_json(void **state)
{
    (void)state;
    static const char hostile[] = "a\"b\\c\n\t\0\x01 \xff\xe2\x82 \xe2\x82\xac\x7f";
    tx_str out = { 0 };
    ASSERT_OK(tx__answer_string(&out, hostile, sizeof hostile - 1));
    json_t *v = json_loadb(out.data, out.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(v);
    static const char expected[] = "a\"b\\c\n\t\0\x01 \xef\xbf\xbd\xef\xbf\xbd \xe2\x82\xac\x7f";
    assert_int_equal(json_string_length(v), sizeof expected - 1);
    assert_memory_equal(json_string_value(v), expected, sizeof expected - 1);
    json_decref(v);
    tx_str_free(&out);
}

static void errors_are_json(void **state)
{
    (void)state;
    tx_str out = { 0 };
    ASSERT_OK(tx__answer_error(&out, true, 400, "a \"b\""));
    assert_string_equal(out.data, "\"a \\\"b\\\"\"\n");
    out.len = 0;
    ASSERT_OK(tx__answer_error(&out, false, 404, "x"));
    assert_string_equal(out.data, "{\"error\":{\"message\":\"x\",\"type\":\"not_found_error\",\"param\":null,"
                                  "\"code\":404}}\n");
    tx_str_free(&out);
}

/* A generation of one prompt, whose choices the test fills in as the batching thread does. */
static tx__generation *generation_of(const char *body)
{
    const tx_text_request_limits limits = { .max_new = 50, .vocab_size = 512 };
    const tx__model_facts m = { .tok = tok, .max_len = 100, .beams = 2 };
    tx_text_request r;
    tx__generation *g;
    ASSERT_OK(tx_text_request_completion(&r, body, strlen(body), &limits));
    ASSERT_OK(tx__generation_create(&g, &r, false, &m));
    return g;
}

static void make(tx__choice *c, int32_t id, float *logits)
{
    const tx_token_made t = {
        .id = id, .index = (int64_t)c->seq.n_new++, .logprob = tx_logprob(logits, 512, id), .logits = logits
    };
    assert_true(c->seq.token(NULL, &c->seq, &t));
}

/* The member "text" of every event, and the lists of tokens, joined. */
static void join(const char *events, tx_str *text, json_t *tokens)
{
    for (const char *p = events; (p = strstr(p, "data: {")); p++) {
        json_t *v = json_loadb(p + 6, (size_t)(strstr(p, "\n\n") - p - 6), 0, NULL);
        assert_non_null(v);
        json_t *choice = json_array_get(json_object_get(v, "choices"), 0);
        ASSERT_OK(tx_str_puts(text, json_string_value(json_object_get(choice, "text"))));
        json_array_extend(tokens, json_object_get(json_object_get(choice, "logprobs"), "tokens"));
        json_decref(v);
    }
}

/* "€" is three tokens of this vocabulary, each by itself no character. */
static void a_stream_is_the_whole_answer(void **state)
{
    (void)state;
    static float logits[512];
    tx_ids ids = { 0 };
    tx_str events = { 0 }, whole = { 0 }, text = { 0 };
    json_t *tokens = json_array();
    const tx__answer_head head = { .id = "cmpl-1", .created = 5, .model = "m\"", .tok = tok };
    bool over;
    tx__generation *g = generation_of("{\"prompt\": \"F\", \"logprobs\": 2, \"echo\": true, \"stream\": true}");
    tx__choice *c = &g->choice[0];
    ASSERT_OK(tx_tokenizer_encode(tok, "so \xe2\x82\xac", 6, &ids));
    for (size_t i = 0; i < ids.n; i++) {
        logits[ids.id[i]] = 3;
        make(c, ids.id[i], logits);
        ASSERT_OK(tx__answer_events(&events, g, &head, &over));
        assert_false(over);
    }
    c->seq.finish = TX_FINISH_EOD;
    c->seq.finished(NULL, &c->seq);
    tx__generation_end(g, TX__COMPLETE);
    ASSERT_OK(tx__answer_events(&events, g, &head, &over));
    assert_true(over);
    assert_string_equal(events.data + events.len - 14, "data: [DONE]\n\n");
    join(events.data, &text, tokens);
    assert_string_equal(text.data, "Fso \xe2\x82\xac");
    assert_int_equal(json_array_size(tokens), ids.n);
    assert_string_equal(json_string_value(json_array_get(tokens, ids.n - 1)), "bytes:\\xac");
    ASSERT_CONTAINS(events.data, "\"finish_reason\":\"stop\"");

    c->n_told = c->n_sent = 0; /* the same once more, in one piece */
    c->n_chars = 0;
    c->begun = false;
    ASSERT_OK(tx__answer_completion(&whole, g, &head));
    json_t *v = json_loads(whole.data, 0, NULL), *choice = json_array_get(json_object_get(v, "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(choice, "text")), text.data);
    json_t *lists = json_object_get(choice, "logprobs");
    assert_true(json_equal(json_object_get(lists, "tokens"), tokens));
    assert_string_equal(json_string_value(json_object_get(v, "model")), "m\"");
    assert_int_equal(json_array_size(json_object_get(lists, "text_offset")), ids.n);
    assert_int_equal(json_object_size(json_array_get(json_object_get(lists, "top_logprobs"), 0)), 2);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(v, "usage"), "completion_tokens")), ids.n);
    json_decref(v);
    json_decref(tokens);
    tx_str_free(&text);
    tx_str_free(&events);
    tx_str_free(&whole);
    tx_ids_free(&ids);
    tx__generation_release(g);
}

static void a_request_fits_or_is_refused(void **state)
{
    (void)state;
    const tx_text_request_limits limits = { .max_new = 50, .vocab_size = 512 };
    const tx__model_facts m = { .tok = tok, .max_len = 10, .beams = 1 };
    static const struct {
        bool megatron;
        const char *body, *says;
    } bad[] = {
        { false, "{\"prompt\": \"KING RICHARD\", \"max_tokens\": 9}", "more than the 10 of this model's context" },
        { true, "{\"prompts\": [\"KING RICHARD\"], \"tokens_to_generate\": 9}",
          "Length of prompt + tokens_to_generate longer than allowed" },
        { true, "{\"prompts\": [\"a\"], \"tokens_to_generate\": 2, \"beam_width\": 2}", "searches for 1 at most" },
        { true, "{\"prompts\": [\"a\"], \"tokens_to_generate\": 2, \"stop_token\": 512}", "stop_token 512" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_text_request r;
        tx__generation *g;
        if (bad[i].megatron)
            ASSERT_OK(tx_text_request_megatron(&r, bad[i].body, strlen(bad[i].body), &limits));
        else
            ASSERT_OK(tx_text_request_completion(&r, bad[i].body, strlen(bad[i].body), &limits));
        ASSERT_FAILS(tx__generation_create(&g, &r, bad[i].megatron, &m), TX_ERR_ARG, bad[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_json),
        cmocka_unit_test(errors_are_json),
        cmocka_unit_test(a_stream_is_the_whole_answer),
        cmocka_unit_test(a_request_fits_or_is_refused),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
