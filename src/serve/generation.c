/* generation.c - a request for texts that is being worked on. */
#include "serve/generation.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

static void choice_deinit(tx__choice *c)
{
    tx_text_stream_deinit(&c->stream);
    tx_free(c->made);
    tx_free(c->alternative);
}

void tx__generation_release(tx__generation *g)
{
    if (!g || atomic_fetch_sub(&g->holders, 1) > 1) return;
    for (int i = 0; i < g->n_choices; i++) choice_deinit(&g->choice[i]);
    for (int i = 0; g->prompt && i < g->request.n_prompts; i++) tx_ids_free(&g->prompt[i]);
    if (g->hypothesis) tx_hypotheses_free(g->hypothesis, g->request.beam_width);
    tx_free(g->hypothesis);
    tx_free(g->prompt);
    tx_free(g->choice);
    tx_text_request_free(&g->request);
    pthread_mutex_destroy(&g->lock);
    tx_free(g);
}

/* ---------------------------------------------------------------- tokens as they come */

/* The likeliest tokens by their logits. @best [n], largest first; `base` is subtracted from each. */
static void likeliest(tx__alternative *best, int n, const float *logits, int64_t n_vocab, double base)
{
    int have = 0;
    for (int64_t v = 0; v < n_vocab; v++) {
        if (have == n && !(logits[v] > best[n - 1].logprob)) continue;
        int at = have < n ? have++ : n - 1;
        for (; at > 0 && logits[v] > best[at - 1].logprob; at--) best[at] = best[at - 1];
        best[at] = (tx__alternative){ .id = (int32_t)v, .logprob = logits[v] };
    }
    for (int i = 0; i < have; i++) best[i].logprob = (float)(best[i].logprob - base);
    for (int i = have; i < n; i++) best[i] = (tx__alternative){ .id = -1 };
}

static tx_status keep(tx__choice *c, const tx_token_made *t, int64_t n_vocab)
{
    int n = c->generation->request.alternatives;
    if (c->n_made == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 64;
        TX_TRY(tx_realloc(&c->made, cap, sizeof *c->made, "a request's tokens"));
        if (n) TX_TRY(tx_realloc(&c->alternative, cap * (size_t)n, sizeof *c->alternative, "a request's tokens"));
        c->cap = cap;
    }
    c->made[c->n_made] = (tx__made){ .id = t->id, .of_prompt = t->of_prompt, .logprob = t->logprob };
    if (n) {
        tx__alternative *row = c->alternative + c->n_made * (size_t)n;
        if (t->logits)
            likeliest(row, n, t->logits, n_vocab, t->logits[t->id] - t->logprob);
        else
            for (int i = 0; i < n; i++) row[i].id = -1;
    }
    c->n_made++;
    return TX_OK;
}

/* Megatron's ends of a line, which belong to the text. */
static bool ends_line(const tx__choice *c, const tx_token_made *t)
{
    int32_t before = t->index ? c->made[c->n_made - 2].id : c->seq.prompt[c->seq.n_prompt - 1];
    return tx_line_rules_end(&c->generation->lines, before, t->id);
}

static void fail(tx__generation *g)
{
    tx_warn("a request failed: %s", tx_last_error());
    if (g->end == TX__GOES_ON) g->end = TX__FAILED;
}

static bool on_token(void *user, tx_sequence *s, const tx_token_made *t)
{
    tx__choice *c = s->user;
    tx__generation *g = c->generation;
    (void)user;
    pthread_mutex_lock(&g->lock);
    tx_status st = TX_OK;
    if (g->request.logprobs || g->is_megatron) st = keep(c, t, tx_tokenizer_vocab_size(c->stream.tok));
    if (!st && !t->of_prompt) st = tx_text_stream_put(&c->stream, t->id);
    if (!t->of_prompt && g->first_token == 0) g->first_token = tx_clock();
    if (st) fail(g);
    bool goes_on = !st && !c->stream.stopped && (t->of_prompt || !g->is_megatron || !ends_line(c, t));
    if (g->wake && g->request.stream) g->wake(g->user);
    pthread_mutex_unlock(&g->lock);
    return goes_on;
}

static void on_finished(void *user, tx_sequence *s)
{
    tx__choice *c = s->user;
    tx__generation *g = c->generation;
    (void)user;
    pthread_mutex_lock(&g->lock);
    c->in_batch = false;
    c->done = true;
    if (tx_text_stream_end(&c->stream)) fail(g);
    g->n_left--;
    if (g->wake && g->request.stream && g->n_left) g->wake(g->user);
    pthread_mutex_unlock(&g->lock);
}

void tx__generation_end(tx__generation *g, tx__end end)
{
    pthread_mutex_lock(&g->lock);
    if (g->end == TX__GOES_ON) g->end = end;
    if (g->wake) g->wake(g->user);
    pthread_mutex_unlock(&g->lock);
}

/* ---------------------------------------------------------------- making one */

/* The tokens of a prompt; one that is empty, or wants it so, begins with the end of the document before it. */
static tx_status encode(tx_ids *out, tx_request_prompt *p, bool add_bos, const tx_tokenizer *tok)
{
    if (p->id) {
        *out = (tx_ids){ .id = p->id, .n = p->n_ids, .cap = p->n_ids };
        p->id = NULL;
        return TX_OK;
    }
    if (add_bos || !p->n_bytes) {
        int32_t eod = tx_tokenizer_eod(tok);
        if (eod < 0)
            return TX_FAIL(TX_ERR_ARG, "%s: the vocabulary has no end of document to begin with",
                           add_bos ? "add_BOS" : "an empty prompt");
        TX_TRY(tx_realloc(&out->id, 1, sizeof *out->id, "a prompt's tokens"));
        out->id[0] = eod;
        out->n = out->cap = 1;
    }
    TX_TRY(tx_tokenizer_encode(tok, p->text, p->n_bytes, out));
    if (!out->n) return TX_FAIL(TX_ERR_ARG, "a prompt has no token of this vocabulary");
    return TX_OK;
}

static tx_status encode_prompts(tx__generation *g, const tx_tokenizer *tok, int64_t max_len)
{
    tx_text_request *r = &g->request;
    TX_TRY(tx_alloc(&g->prompt, (size_t)r->n_prompts, sizeof *g->prompt, "a request's prompts"));
    for (int i = 0; i < r->n_prompts; i++) {
        TX_TRY(encode(&g->prompt[i], &r->prompt[i], r->add_bos, tok));
        if ((int64_t)g->prompt[i].n + r->max_new <= max_len) continue;
        if (g->is_megatron) return TX_FAIL(TX_ERR_ARG, "Length of prompt + tokens_to_generate longer than allowed");
        return TX_FAIL(
            TX_ERR_ARG,
            "the prompt has %zu tokens, with max_tokens %lld that is more than the %lld of this model's context",
            g->prompt[i].n, (long long)r->max_new, (long long)max_len);
    }
    return TX_OK;
}

static void choice_init(tx__choice *c, tx__generation *g, int index, const tx__model_facts *m)
{
    const tx_text_request *r = &g->request;
    const tx_ids *prompt = &g->prompt[index / r->n];
    c->generation = g;
    c->prompt = index / r->n;
    tx_text_stream_init(&c->stream, m->tok, (const char *const *)r->stop, r->n_stops);
    c->seq = (tx_sequence){
        .prompt = prompt->id,
        .n_prompt = (int64_t)prompt->n,
        .max_new = r->max_new,
        .min_new = r->min_new,
        .eod = g->eod,
        .forbidden = m->forbidden,
        .n_forbidden = m->n_forbidden,
        .sampler = r->sampler,
        .seed = g->seed,
        .sample = (uint64_t)index,
        .logprobs = r->logprobs,
        .prompt_logprobs = r->logprobs && (r->echo || g->is_megatron),
        .token = on_token,
        .finished = on_finished,
        .user = c,
    };
    tx_line_rules_apply(&g->lines, &c->seq);
}

static tx_status prepare(tx__generation *g, const tx__model_facts *m)
{
    const tx_text_request *r = &g->request;
    int n_vocab = tx_tokenizer_vocab_size(m->tok);
    if (r->beam_width > m->beams)
        return TX_FAIL(TX_ERR_ARG, "beam_width is %d: with its --max-batch this server searches for %lld at most",
                       r->beam_width, (long long)m->beams);
    if (r->has_stop_token && r->stop_token >= n_vocab)
        return TX_FAIL(TX_ERR_ARG, "stop_token %d is not in the vocabulary of %d tokens", r->stop_token, n_vocab);
    g->eod = r->has_stop_token ? r->stop_token : tx_tokenizer_eod(m->tok);
    TX_TRY(encode_prompts(g, m->tok, m->max_len));
    g->lines = (tx_line_rules){ .prevent_newline_after_colon = r->prevent_newline_after_colon,
                                .stop_on_eol = r->stop_on_eol,
                                .stop_on_double_eol = r->stop_on_double_eol };
    TX_TRY(tx_line_rules_find(&g->lines, m->tok));
    if (r->beam_width)
        return tx_alloc(&g->hypothesis, (size_t)r->beam_width, sizeof *g->hypothesis, "a request's beam");
    g->seed = r->seed;
    if (!r->has_seed && getrandom(&g->seed, sizeof g->seed, 0) != (ssize_t)sizeof g->seed)
        return TX_FAIL(TX_ERR_IO, "the system has no random numbers");
    int n = r->n_prompts * r->n;
    TX_TRY(tx_alloc(&g->choice, (size_t)n, sizeof *g->choice, "a request's texts"));
    g->n_choices = g->n_left = n;
    for (int i = 0; i < n; i++) choice_init(&g->choice[i], g, i, m);
    return TX_OK;
}

tx_status tx__generation_create(tx__generation **out, tx_text_request *request, bool is_megatron,
                                const tx__model_facts *m)
{
    tx__generation *g;
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "a request"));
    pthread_mutex_init(&g->lock, NULL);
    atomic_store(&g->holders, 1);
    g->request = *request;
    *request = (tx_text_request){ 0 };
    g->is_megatron = is_megatron;
    g->created = tx_clock();
    tx_status st = prepare(g, m);
    if (st)
        tx__generation_release(g);
    else
        *out = g;
    return st;
}

/* ---------------------------------------------------------------- */

tx_status tx__generation_search(tx__generation *g, tx_decoder *d, bool (*cancelled)(void *user), void *user)
{
    const tx_text_request *r = &g->request;
    const tx_beam_opts opts = { .width = r->beam_width,
                                .max_new = r->max_new,
                                .stop = g->eod,
                                .length_penalty = r->length_penalty,
                                .cancelled = cancelled,
                                .user = user };
    return tx_beam_search(d, g->prompt[0].id, (int64_t)g->prompt[0].n, &opts, g->hypothesis);
}

int64_t tx__generation_new_tokens(const tx__generation *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_choices; i++) n += g->choice[i].seq.n_new;
    for (int i = 0; g->hypothesis && i < g->request.beam_width; i++) n += g->hypothesis[i].n;
    return n;
}

int64_t tx__generation_prompt_tokens(const tx__generation *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->request.n_prompts; i++) n += (int64_t)g->prompt[i].n;
    return n;
}
