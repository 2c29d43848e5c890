/* request.c - parses and checks the JSON of a request. */
#include "serve/request.h"

#include <string.h>

#include "base/alloc.h"
#include "serve/fields.h"

#define N_OF(list) (sizeof(list) / sizeof *(list))
#define MAX_ID     (((int64_t)1 << 31) - 2)

void tx_text_request_free(tx_text_request *r)
{
    for (int i = 0; i < r->n_prompts; i++) {
        tx_free(r->prompt[i].text);
        tx_free(r->prompt[i].id);
    }
    tx_free(r->prompt);
    for (int i = 0; i < r->n_stops; i++) tx_free(r->stop[i]);
    tx_free(r->model);
    *r = (tx_text_request){ 0 };
}

static tx__bounds from(double lo, double hi)
{
    return (tx__bounds){ .lo = lo, .hi = hi };
}

static tx__bounds above(double lo, double hi)
{
    return (tx__bounds){ .lo = lo, .hi = hi, .above = true };
}

static tx_status start(tx_text_request *r, int n_prompts)
{
    TX_TRY(tx_alloc(&r->prompt, (size_t)n_prompts, sizeof *r->prompt, "a request's prompts"));
    r->n_prompts = n_prompts;
    return TX_OK;
}

static tx_status take_text(tx_request_prompt *p, const json_t *v)
{
    p->n_bytes = json_string_length(v);
    return tx_memdup0(&p->text, json_string_value(v), p->n_bytes, "a prompt");
}

static tx_status take_ids(tx_request_prompt *p, const json_t *list, int32_t vocab_size)
{
    size_t n = json_array_size(list);
    if (!n) return TX_FAIL(TX_ERR_ARG, "prompt is a list of no tokens");
    TX_TRY(tx_alloc(&p->id, n, sizeof *p->id, "a prompt's tokens"));
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        int64_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= vocab_size)
            return TX_FAIL(TX_ERR_ARG, "prompt: tokens are integers from 0 to %d", vocab_size - 1);
        p->id[i] = (int32_t)id;
    }
    p->n_ids = n;
    return TX_OK;
}

/* ---------------------------------------------------------------- Megatron's */

static tx_status megatron_prompts(tx_text_request *r, const tx__fields *f)
{
    if (!tx__field(f, "prompts")) return TX_FAIL(TX_ERR_ARG, "prompts argument required");
    if (tx__field(f, "max_len"))
        return TX_FAIL(TX_ERR_ARG, "max_len is no longer used.  Replace with tokens_to_generate");
    if (tx__field(f, "sentences")) return TX_FAIL(TX_ERR_ARG, "sentences is no longer used.  Replace with prompts");
    const json_t *list = tx__field(f, "prompts");
    if (!json_is_array(list)) return TX_FAIL(TX_ERR_ARG, "prompts is not a list of strings");
    size_t n = json_array_size(list);
    if (!n) return TX_FAIL(TX_ERR_ARG, "prompts is empty");
    if (n > TX_REQUEST_TEXTS) return TX_FAIL(TX_ERR_ARG, "Maximum number of prompts is %d", TX_REQUEST_TEXTS);
    TX_TRY(start(r, (int)n));
    for (size_t i = 0; i < n; i++) {
        if (!json_is_string(json_array_get(list, i))) return TX_FAIL(TX_ERR_ARG, "prompts is not a list of strings");
        TX_TRY(take_text(&r->prompt[i], json_array_get(list, i)));
    }
    return TX_OK;
}

static tx_status megatron_sampling(tx_text_request *r, const tx__fields *f)
{
    tx_sampler *s = &r->sampler;
    double temperature = 1;
    TX_TRY(tx__field_number(f, "temperature", from(0, 100), NULL, &temperature));
    TX_TRY(tx__field_int(f, "top_k", 0, 1000, NULL, &s->top_k));
    TX_TRY(tx__field_number(f, "top_p", from(0, 1), NULL, &s->top_p));
    if (s->top_p > 0 && s->top_k > 0) return TX_FAIL(TX_ERR_ARG, "cannot set both top-k and top-p samplings.");
    bool follows = tx__field(f, "top_p_decay") || tx__field(f, "top_p_bound");
    if (follows && s->top_p <= 0) return TX_FAIL(TX_ERR_ARG, "top_p_decay and top_p_bound need top_p above 0");
    TX_TRY(tx__field_number(f, "top_p_decay", from(0, 1), NULL, &s->top_p_decay));
    TX_TRY(tx__field_number(f, "top_p_bound", above(0, s->top_p), "top_p_bound must be above 0 and at most top_p",
                            &s->top_p_bound));
    s->greedy = s->top_k == 1;
    tx_sampler_set_temperature(s, temperature);
    if (!tx__field(f, "random_seed")) return TX_OK;
    int64_t seed = 0;
    TX_TRY(tx__field_int(f, "random_seed", 0, INT64_MAX, "random_seed must be an integer from 0 on", &seed));
    r->has_seed = true;
    r->seed = (uint64_t)seed;
    return TX_OK;
}

static tx_status megatron_beam(tx_text_request *r, const tx__fields *f)
{
    int64_t width = 0, stop = 0;
    TX_TRY(tx__field_int(f, "beam_width", 1, TX_REQUEST_BEAM, NULL, &width));
    TX_TRY(tx__field_int(f, "stop_token", 0, MAX_ID, NULL, &stop));
    r->has_stop_token = tx__field(f, "stop_token");
    r->stop_token = (int32_t)stop;
    r->length_penalty = 1;
    TX_TRY(tx__field_number(f, "length_penalty", from(-100, 100), NULL, &r->length_penalty));
    r->beam_width = (int)width;
    if (!width && r->length_penalty != 1) return TX_FAIL(TX_ERR_ARG, "length_penalty needs beam_width");
    if (!width) return TX_OK;
    if (r->n_prompts > 1) return TX_FAIL(TX_ERR_ARG, "with beam_width there can be one prompt, not %d", r->n_prompts);
    if (r->logprobs || r->stop_on_eol || r->stop_on_double_eol || r->prevent_newline_after_colon)
        return TX_FAIL(TX_ERR_ARG, "beam_width does not go with logprobs, stop_on_eol, stop_on_double_eol and "
                                   "prevent_newline_after_colon");
    if (!r->max_new) return TX_FAIL(TX_ERR_ARG, "beam_width needs tokens_to_generate above 0");
    return TX_OK;
}

static tx_status megatron(tx_text_request *r, const tx__fields *f, const tx_text_request_limits *limits)
{
    static const char *const known[] = {
        "prompts",        "max_len",
        "sentences",      "tokens_to_generate",
        "logprobs",       "temperature",
        "top_k",          "top_p",
        "top_p_decay",    "top_p_bound",
        "add_BOS",        "stop_on_double_eol",
        "stop_on_eol",    "prevent_newline_after_colon",
        "random_seed",    "no_log",
        "beam_width",     "stop_token",
        "length_penalty",
    };
    TX_TRY(megatron_prompts(r, f));
    TX_TRY(tx__fields_known(f, known, N_OF(known)));
    r->n = 1;
    r->max_new = limits->max_new < 64 ? limits->max_new : 64;
    TX_TRY(tx__field_int(f, "tokens_to_generate", 0, limits->max_new, NULL, &r->max_new));
    TX_TRY(tx__field_bool(f, "logprobs", &r->logprobs));
    if (!r->max_new && !r->logprobs) return TX_FAIL(TX_ERR_ARG, "tokens_to_generate=0 implies logprobs should be True");
    TX_TRY(megatron_sampling(r, f));
    TX_TRY(tx__field_bool(f, "add_BOS", &r->add_bos));
    for (int i = 0; i < r->n_prompts; i++)
        if (!r->prompt[i].n_bytes && !r->add_bos) return TX_FAIL(TX_ERR_ARG, "Empty prompts require add_BOS=true");
    TX_TRY(tx__field_bool(f, "stop_on_double_eol", &r->stop_on_double_eol));
    TX_TRY(tx__field_bool(f, "stop_on_eol", &r->stop_on_eol));
    TX_TRY(tx__field_bool(f, "prevent_newline_after_colon", &r->prevent_newline_after_colon));
    TX_TRY(tx__field_bool(f, "no_log", &r->no_log));
    return megatron_beam(r, f);
}

tx_status tx_text_request_megatron(tx_text_request *out, const char *body, size_t n,
                                   const tx_text_request_limits *limits)
{
    json_t *root;
    *out = (tx_text_request){ 0 };
    TX_TRY(tx__fields_parse(&root, body, n));
    const tx__fields f = { .object = root };
    tx_status st = megatron(out, &f, limits);
    json_decref(root);
    return st;
}

/* ---------------------------------------------------------------- completions */

/* A text, a list of texts, a list of tokens, or a list of those. */
static tx_status completion_prompts(tx_text_request *r, const tx__fields *f, int32_t vocab_size)
{
    const json_t *v = tx__field(f, "prompt");
    if (!v) return TX_FAIL(TX_ERR_ARG, "prompt is required: a text, a list of texts, or token ids");
    if (json_is_string(v)) {
        TX_TRY(start(r, 1));
        return take_text(&r->prompt[0], v);
    }
    size_t n = json_array_size(v); /* 0 of anything else */
    if (!n) return TX_FAIL(TX_ERR_ARG, "prompt must be a text, a list of texts, or token ids, and not empty");
    if (json_is_integer(json_array_get(v, 0))) {
        TX_TRY(start(r, 1));
        return take_ids(&r->prompt[0], v, vocab_size);
    }
    if (n > TX_REQUEST_TEXTS) return TX_FAIL(TX_ERR_ARG, "prompt has %zu texts, at most %d", n, TX_REQUEST_TEXTS);
    TX_TRY(start(r, (int)n));
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(v, i);
        if (json_is_string(item))
            TX_TRY(take_text(&r->prompt[i], item));
        else if (json_is_array(item))
            TX_TRY(take_ids(&r->prompt[i], item, vocab_size));
        else
            return TX_FAIL(TX_ERR_ARG, "prompt must be a text, a list of texts, or token ids");
    }
    return TX_OK;
}

static tx_status take_stop(tx_text_request *r, const json_t *v)
{
    size_t n = json_string_length(v);
    if (!json_is_string(v) || !n || strlen(json_string_value(v)) != n)
        return TX_FAIL(TX_ERR_ARG, "stop must be a text or a list of texts, none empty, without NUL characters");
    if (r->n_stops == TX_REQUEST_STOPS) return TX_FAIL(TX_ERR_ARG, "stop has more than %d texts", TX_REQUEST_STOPS);
    TX_TRY(tx_memdup0(&r->stop[r->n_stops], json_string_value(v), n, "a stop string"));
    r->n_stops++;
    return TX_OK;
}

static tx_status completion_stops(tx_text_request *r, const tx__fields *f)
{
    const json_t *v = tx__field(f, "stop");
    if (!v) return TX_OK;
    if (!json_is_array(v)) return take_stop(r, v);
    for (size_t i = 0; i < json_array_size(v); i++) TX_TRY(take_stop(r, json_array_get(v, i)));
    return TX_OK;
}

static tx_status completion_sampling(tx_text_request *r, const tx__fields *f)
{
    tx_sampler *s = &r->sampler;
    double temperature = 1, top_p = 1, penalty = 1;
    TX_TRY(tx__field_number(f, "temperature", from(0, 100), NULL, &temperature));
    TX_TRY(tx__field_number(f, "top_p", above(0, 1), NULL, &top_p));
    TX_TRY(tx__field_int(f, "top_k", 0, MAX_ID, NULL, &s->top_k));
    TX_TRY(tx__field_number(f, "repetition_penalty", above(0, 100), NULL, &penalty));
    tx_sampler_set_temperature(s, temperature);
    s->top_p = top_p;
    s->repetition_penalty = penalty;
    if (!tx__field(f, "seed")) return TX_OK;
    int64_t seed = 0;
    TX_TRY(tx__field_int(f, "seed", 0, INT64_MAX, "seed must be an integer from 0 on", &seed));
    r->has_seed = true;
    r->seed = (uint64_t)seed;
    return TX_OK;
}

/* Fields of OpenAI's that can only have the value that asks for nothing. */
static tx_status completion_not_built(const tx_text_request *r, const tx__fields *f)
{
    double penalty = 0;
    TX_TRY(tx__field_number(f, "presence_penalty", from(0, 0), "presence_penalty is not built: leave it out, or 0",
                            &penalty));
    TX_TRY(tx__field_number(f, "frequency_penalty", from(0, 0), "frequency_penalty is not built: leave it out, or 0",
                            &penalty));
    const json_t *bias = tx__field(f, "logit_bias"), *suffix = tx__field(f, "suffix"), *user = tx__field(f, "user");
    if (bias && !(json_is_object(bias) && !json_object_size(bias)))
        return TX_FAIL(TX_ERR_ARG, "logit_bias is not built: leave it out");
    if (suffix && !(json_is_string(suffix) && !json_string_length(suffix)))
        return TX_FAIL(TX_ERR_ARG, "suffix is not built: leave it out");
    if (user && !json_is_string(user)) return TX_FAIL(TX_ERR_ARG, "user must be a text");
    int64_t best = r->n;
    TX_TRY(tx__field_int(f, "best_of", r->n, r->n, "best_of is not built: leave it out, or n", &best));
    return TX_OK;
}

static tx_status completion_stream(tx_text_request *r, const tx__fields *f)
{
    static const char *const known[] = { "include_usage" };
    TX_TRY(tx__field_bool(f, "stream", &r->stream));
    const json_t *v = tx__field(f, "stream_options");
    if (!v) return TX_OK;
    if (!json_is_object(v)) return TX_FAIL(TX_ERR_ARG, "stream_options must be an object");
    if (!r->stream) return TX_FAIL(TX_ERR_ARG, "stream_options needs stream");
    const tx__fields options = { .object = v, .null_is_absent = true };
    TX_TRY(tx__fields_known(&options, known, N_OF(known)));
    return tx__field_bool(&options, "include_usage", &r->stream_usage);
}

static tx_status completion(tx_text_request *r, const tx__fields *f, const tx_text_request_limits *limits)
{
    static const char *const known[] = {
        "model",
        "prompt",
        "max_tokens",
        "min_tokens",
        "temperature",
        "top_p",
        "top_k",
        "repetition_penalty",
        "n",
        "best_of",
        "stream",
        "stream_options",
        "logprobs",
        "echo",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "suffix",
        "user",
    };
    TX_TRY(tx__fields_known(f, known, N_OF(known)));
    const json_t *model = tx__field(f, "model");
    if (model && !json_is_string(model)) return TX_FAIL(TX_ERR_ARG, "model must be a text");
    if (model) TX_TRY(tx_memdup0(&r->model, json_string_value(model), json_string_length(model), "a model's name"));
    TX_TRY(completion_prompts(r, f, limits->vocab_size));
    int64_t n = 1, alternatives = 0;
    TX_TRY(tx__field_int(f, "n", 1, TX_REQUEST_TEXTS, NULL, &n));
    if (n * r->n_prompts > TX_REQUEST_TEXTS)
        return TX_FAIL(TX_ERR_ARG, "n is %lld of %d prompts: a request can ask for %d texts", (long long)n,
                       r->n_prompts, TX_REQUEST_TEXTS);
    r->n = (int)n;
    TX_TRY(tx__field_bool(f, "echo", &r->echo));
    r->max_new = limits->max_new < 16 ? limits->max_new : 16;
    TX_TRY(tx__field_int(f, "max_tokens", 0, limits->max_new, NULL, &r->max_new));
    if (!r->max_new && !r->echo) return TX_FAIL(TX_ERR_ARG, "max_tokens 0 needs echo: nothing would come back");
    TX_TRY(tx__field_int(f, "min_tokens", 0, r->max_new, NULL, &r->min_new));
    TX_TRY(tx__field_int(f, "logprobs", 0, TX_REQUEST_ALTERNATIVES, NULL, &alternatives));
    r->logprobs = tx__field(f, "logprobs");
    r->alternatives = (int)alternatives;
    TX_TRY(completion_sampling(r, f));
    TX_TRY(completion_stops(r, f));
    TX_TRY(completion_stream(r, f));
    return completion_not_built(r, f);
}

tx_status tx_text_request_completion(tx_text_request *out, const char *body, size_t n,
                                     const tx_text_request_limits *limits)
{
    json_t *root;
    *out = (tx_text_request){ 0 };
    TX_TRY(tx__fields_parse(&root, body, n));
    const tx__fields f = { .object = root, .null_is_absent = true };
    tx_status st = completion(out, &f, limits);
    json_decref(root);
    return st;
}
