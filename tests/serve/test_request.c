/* labels: unit */
/* Requests: what each field becomes, what is refused in which words, and that no allocation's failure leaks. */
#include "support.h"

#include "serve/request.h"

static const tx_text_request_limits limits = { .max_new = 100, .vocab_size = 512 };

static tx_status megatron(tx_text_request *r, const char *body)
{
    return tx_text_request_megatron(r, body, strlen(body), &limits);
}

static tx_status completion(tx_text_request *r, const char *body)
{
    return tx_text_request_completion(r, body, strlen(body), &limits);
}

static void megatron_defaults(void **state)
{
    (void)state;
    tx_text_request r;
    ASSERT_OK(megatron(&r, "{\"prompts\": [\"ab\", \"c\"]}"));
    assert_int_equal(r.n_prompts, 2);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.prompt[0].text, "ab");
    assert_int_equal(r.max_new, 64);
    assert_true(r.sampler.temperature == 1 && !r.sampler.top_k && r.sampler.top_p == 0 && !r.sampler.greedy);
    assert_false(r.has_seed || r.logprobs || r.add_bos || r.stop_on_eol || r.no_log || r.beam_width);
    assert_true(r.length_penalty == 1);
    tx_text_request_free(&r);
}

static void megatron_fields(void **state)
{
    (void)state;
    tx_text_request r;
    ASSERT_OK(megatron(&r, "{\"prompts\": [\"\"], \"add_BOS\": true, \"tokens_to_generate\": 0, \"logprobs\": true, "
                           "\"temperature\": 2, \"top_p\": 0.5, \"top_p_decay\": 0.25, \"top_p_bound\": 0.125, "
                           "\"random_seed\": 77, \"stop_on_double_eol\": true, \"stop_on_eol\": true, "
                           "\"prevent_newline_after_colon\": true, \"no_log\": true}"));
    assert_true(r.add_bos && r.logprobs && r.stop_on_double_eol && r.stop_on_eol && r.no_log);
    assert_true(r.prevent_newline_after_colon && r.has_seed);
    assert_int_equal(r.seed, 77);
    assert_int_equal(r.max_new, 0);
    assert_true(r.sampler.temperature == 2 && r.sampler.top_p == .5);
    assert_true(r.sampler.top_p_decay == .25 && r.sampler.top_p_bound == .125);
    tx_text_request_free(&r);
    ASSERT_OK(megatron(&r, "{\"prompts\": [\"a\"], \"top_k\": 1}"));
    assert_true(r.sampler.greedy);
    tx_text_request_free(&r);
    ASSERT_OK(megatron(&r, "{\"prompts\": [\"a\"], \"temperature\": 0, \"top_k\": 5}"));
    assert_true(r.sampler.greedy && r.sampler.temperature > 0);
    tx_text_request_free(&r);
    ASSERT_OK(megatron(&r, "{\"prompts\": [\"a\"], \"beam_width\": 4, \"stop_token\": 50256, \"length_penalty\": 2}"));
    assert_int_equal(r.beam_width, 4);
    assert_true(r.has_stop_token && r.stop_token == 50256 && r.length_penalty == 2);
    tx_text_request_free(&r);
}

static void megatron_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *body, *says;
    } bad[] = {
        { "{}", "prompts argument required" },
        { "{\"prompts\": [\"a\"], \"max_len\": 1}", "max_len is no longer used.  Replace with tokens_to_generate" },
        { "{\"prompts\": [\"a\"], \"sentences\": 1}", "sentences is no longer used.  Replace with prompts" },
        { "{\"prompts\": null}", "prompts is not a list of strings" },
        { "{\"prompts\": [\"a\", 2]}", "prompts is not a list of strings" },
        { "{\"prompts\": []}", "prompts is empty" },
        { "{\"prompts\": [\"a\"], \"tokens_to_generate\": 101}", "an integer from 0 to 100" },
        { "{\"prompts\": [\"a\"], \"tokens_to_generate\": true}", "an integer from 0 to 100" },
        { "{\"prompts\": [\"a\"], \"tokens_to_generate\": 0}", "tokens_to_generate=0 implies logprobs should be True" },
        { "{\"prompts\": [\"a\"], \"logprobs\": 1}", "logprobs must be true or false" },
        { "{\"prompts\": [\"a\"], \"temperature\": -1}", "temperature must be" },
        { "{\"prompts\": [\"a\"], \"temperature\": 100.5}", "temperature must be" },
        { "{\"prompts\": [\"a\"], \"temperature\": \"1\"}", "temperature must be" },
        { "{\"prompts\": [\"a\"], \"top_k\": 1001}", "top_k must be an integer from 0 to 1000" },
        { "{\"prompts\": [\"a\"], \"top_p\": 1.5}", "top_p must be" },
        { "{\"prompts\": [\"a\"], \"top_p\": 0.5, \"top_k\": 1}", "cannot set both top-k and top-p samplings." },
        { "{\"prompts\": [\"a\"], \"top_p_decay\": 0.5}", "need top_p" },
        { "{\"prompts\": [\"a\"], \"top_p\": 0.5, \"top_p_bound\": 0.75}", "at most top_p" },
        { "{\"prompts\": [\"a\"], \"top_p\": 0.5, \"top_p_bound\": 0}", "top_p_bound must be above 0" },
        { "{\"prompts\": [\"\"]}", "Empty prompts require add_BOS=true" },
        { "{\"prompts\": [\"a\"], \"random_seed\": -1}", "random_seed must be" },
        { "{\"prompts\": [\"a\"], \"beam_width\": 0}", "beam_width must be" },
        { "{\"prompts\": [\"a\", \"b\"], \"beam_width\": 2}", "one prompt, not 2" },
        { "{\"prompts\": [\"a\"], \"beam_width\": 2, \"stop_on_eol\": true}", "does not go with" },
        { "{\"prompts\": [\"a\"], \"length_penalty\": 2}", "needs beam_width" },
        { "{\"prompts\": [\"a\"], \"what\": 2}", "what is not a field" },
    };
    tx_text_request r;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ASSERT_FAILS(megatron(&r, bad[i].body), TX_ERR_ARG, bad[i].says);
        tx_text_request_free(&r);
    }
}

static void many_prompts(void **state)
{
    (void)state;
    tx_str body = { 0 };
    tx_text_request r;
    for (int n = TX_REQUEST_TEXTS; n <= TX_REQUEST_TEXTS + 1; n++) {
        body.len = 0;
        for (int i = 0; i < n; i++) ASSERT_OK(tx_str_puts(&body, i ? ",\"a\"" : "{\"prompts\":[\"a\""));
        ASSERT_OK(tx_str_puts(&body, "]}"));
        if (n == TX_REQUEST_TEXTS)
            ASSERT_OK(megatron(&r, body.data));
        else
            ASSERT_FAILS(megatron(&r, body.data), TX_ERR_ARG, "Maximum number of prompts is 128");
        tx_text_request_free(&r);
    }
    tx_str_free(&body);
}

static void no_json(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",    "{",    "hello",     "{\"prompt\": \"\xff\"}", "{\"prompt\": 1e999}", "{\"a\": 1, \"a\": 2}",
        "[1]", "{} x", "\"prompt\""
    };
    tx_text_request r;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ASSERT_FAILS(completion(&r, bad[i]), TX_ERR_FORMAT, "JSON");
        tx_text_request_free(&r);
    }
}

static void completion_defaults(void **state)
{
    (void)state;
    tx_text_request r;
    ASSERT_OK(
        completion(&r, "{\"prompt\": \"a\", \"stop\": null, \"seed\": null, \"suffix\": null, \"logprobs\": null}"));
    assert_int_equal(r.n_prompts, 1);
    assert_int_equal(r.max_new, 16);
    assert_true(r.sampler.temperature == 1 && r.sampler.top_p == 1 && r.sampler.repetition_penalty == 1);
    assert_false(r.sampler.greedy || r.has_seed || r.logprobs || r.echo || r.stream || r.model);
    tx_text_request_free(&r);
}

static void completion_fields(void **state)
{
    (void)state;
    tx_text_request r;
    ASSERT_OK(completion(&r, "{\"model\": \"m\", \"prompt\": [[1, 2], \"x\\u0000y\"], \"max_tokens\": 9, "
                             "\"min_tokens\": 2, \"temperature\": 0, \"top_k\": 5, \"repetition_penalty\": 1.5, "
                             "\"n\": 3, \"best_of\": 3, \"logprobs\": 4, \"echo\": true, \"stop\": [\"p\", \"q\"], "
                             "\"seed\": 5, \"stream\": true, \"stream_options\": {\"include_usage\": true}}"));
    assert_string_equal(r.model, "m");
    assert_int_equal(r.n_prompts, 2);
    assert_int_equal(r.prompt[0].n_ids, 2);
    assert_int_equal(r.prompt[0].id[1], 2);
    assert_int_equal(r.prompt[1].n_bytes, 3);
    assert_memory_equal(r.prompt[1].text, "x\0y", 3);
    assert_true(r.sampler.greedy && r.sampler.top_k == 5 && r.sampler.repetition_penalty == 1.5);
    assert_true(r.n == 3 && r.alternatives == 4 && r.logprobs && r.echo && r.stream && r.stream_usage);
    assert_int_equal(r.n_stops, 2);
    assert_string_equal(r.stop[1], "q");
    assert_true(r.min_new == 2 && r.max_new == 9 && r.seed == 5);
    tx_text_request_free(&r);
    ASSERT_OK(completion(&r, "{\"prompt\": [3, 4, 5], \"max_tokens\": 0, \"echo\": true}"));
    assert_int_equal(r.prompt[0].n_ids, 3);
    tx_text_request_free(&r);
}

static void completion_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *more, *says;
    } bad[] = {
        { "\"max_tokens\": -1", "max_tokens must be an integer from 0 to 100" },
        { "\"max_tokens\": 1.5", "max_tokens must be" },
        { "\"max_tokens\": 0", "needs echo" },
        { "\"min_tokens\": 17", "min_tokens must be an integer from 0 to 16" },
        { "\"temperature\": -0.1", "temperature must be a number from 0 and at most 100" },
        { "\"top_p\": 0", "top_p must be a number above 0" },
        { "\"top_k\": -1", "top_k must be" },
        { "\"repetition_penalty\": 0", "repetition_penalty must be" },
        { "\"n\": 129", "n must be" },
        { "\"n\": 2, \"best_of\": 3", "best_of is not built" },
        { "\"logprobs\": 21", "logprobs must be an integer from 0 to 20" },
        { "\"echo\": 1", "echo must be true or false" },
        { "\"stop\": \"\"", "stop must be" },
        { "\"stop\": [1]", "stop must be" },
        { "\"stop\": \"a\\u0000\"", "stop must be" },
        { "\"stop\": "
          "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]",
          "more than 16" },
        { "\"seed\": -3", "seed must be" },
        { "\"stream_options\": {}", "stream_options needs stream" },
        { "\"stream\": true, \"stream_options\": {\"x\": 1}", "x is not a field" },
        { "\"presence_penalty\": 0.5", "presence_penalty is not built" },
        { "\"frequency_penalty\": 0.5", "frequency_penalty is not built" },
        { "\"logit_bias\": {\"5\": 1}", "logit_bias is not built" },
        { "\"suffix\": \"x\"", "suffix is not built" },
        { "\"user\": 1", "user must be" },
        { "\"model\": 1", "model must be" },
        { "\"messages\": []", "messages is not a field" },
    };
    static const char *const prompts[] = { "null", "1", "{}", "[]", "[[]]", "[512]", "[-1]", "[1, \"a\"]", "[{}]" };
    tx_text_request r;
    char body[256];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, "{\"prompt\": \"a\", %s}", bad[i].more);
        ASSERT_FAILS(completion(&r, body), TX_ERR_ARG, bad[i].says);
        tx_text_request_free(&r);
    }
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        snprintf(body, sizeof body, "{\"prompt\": %s}", prompts[i]);
        ASSERT_FAILS(completion(&r, body), TX_ERR_ARG, "prompt");
        tx_text_request_free(&r);
    }
    ASSERT_FAILS(completion(&r, "{\"prompt\": [\"a\", \"b\"], \"n\": 65}"), TX_ERR_ARG, "a request can ask for 128");
    tx_text_request_free(&r);
}

/* Under AddressSanitizer nothing is lost either. */
static void every_allocation_fails_once(void **state)
{
    (void)state;
    static const char body[] = "{\"model\": \"m\", \"prompt\": [[1, 2], \"x\"], \"stop\": [\"p\", \"q\"]}";
    tx_text_request r;
    tx_status st = TX_ERR_NOMEM;
    int64_t n = 0;
    for (; st && n < 100; n++) {
        allocation_fails_at(n);
        st = completion(&r, body);
        allocations_succeed();
        assert_true(!st || st == TX_ERR_NOMEM);
        tx_text_request_free(&r);
    }
    assert_in_range(n, 6, 99); /* a name, the prompts, two of them, two stops */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_defaults),
        cmocka_unit_test(megatron_fields),
        cmocka_unit_test(megatron_refusals),
        cmocka_unit_test(many_prompts),
        cmocka_unit_test(no_json),
        cmocka_unit_test(completion_defaults),
        cmocka_unit_test(completion_fields),
        cmocka_unit_test(completion_refusals),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
