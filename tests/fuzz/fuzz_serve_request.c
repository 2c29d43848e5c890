/* fuzz_serve_request.c - a body of /api and of /v1/completions. What is taken keeps every bound that the server relies
 * on. */
#include "fuzz.h"
#include "serve/request.h"

enum { VOCAB = 512, MAX_NEW = 100 };

static void check_sampler(const tx_sampler *s)
{
    FUZZ_CHECK(s->temperature > 0 && s->temperature <= 100);
    FUZZ_CHECK(s->top_k >= 0 && s->top_p >= 0 && s->top_p <= 1);
    FUZZ_CHECK(s->top_p_decay >= 0 && s->top_p_decay <= 1 && s->top_p_bound >= 0 && s->top_p_bound <= s->top_p);
    FUZZ_CHECK(s->repetition_penalty >= 0 && s->repetition_penalty <= 100);
}

static void check(const tx_text_request *r)
{
    FUZZ_CHECK(r->n_prompts >= 1 && r->n >= 1 && (int64_t)r->n_prompts * r->n <= TX_REQUEST_TEXTS);
    FUZZ_CHECK(r->max_new >= 0 && r->max_new <= MAX_NEW && r->min_new >= 0 && r->min_new <= r->max_new);
    FUZZ_CHECK(r->alternatives >= 0 && r->alternatives <= TX_REQUEST_ALTERNATIVES);
    FUZZ_CHECK(r->n_stops >= 0 && r->n_stops <= TX_REQUEST_STOPS);
    FUZZ_CHECK(r->beam_width >= 0 && r->beam_width <= TX_REQUEST_BEAM && r->stop_token >= 0);
    FUZZ_CHECK(!r->beam_width || (r->n_prompts == 1 && r->max_new));
    for (int i = 0; i < r->n_stops; i++) {
        FUZZ_CHECK(*r->stop[i]);
        fuzz_check_utf8(r->stop[i], strlen(r->stop[i]));
    }
    for (int i = 0; i < r->n_prompts; i++) {
        const tx_request_prompt *p = &r->prompt[i];
        FUZZ_CHECK(!p->text != !p->id && (p->text || p->n_ids));
        if (p->text) fuzz_check_utf8(p->text, p->n_bytes);
        for (size_t k = 0; k < p->n_ids; k++) FUZZ_CHECK(p->id[k] >= 0 && p->id[k] < VOCAB);
    }
    check_sampler(&r->sampler);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tx_text_request_limits limits = { .max_new = MAX_NEW, .vocab_size = VOCAB };
    char *body = malloc(size + !size); /* a sanitizer sees a byte too far */
    tx_text_request r;
    memcpy(body, data, size);
    if (fuzz_ok(tx_text_request_megatron(&r, body, size, &limits))) check(&r);
    tx_text_request_free(&r);
    if (fuzz_ok(tx_text_request_completion(&r, body, size, &limits))) check(&r);
    tx_text_request_free(&r);
    free(body);
    return 0;
}
