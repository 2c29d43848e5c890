/* sampling.c - samples in a batch, told in order.
 *
 *      number of a sample    0  1  2  3  4  5  6  7  8  9 ...
 *                            |told|  shown  |     | not begun
 *                                 ^current        ^next          next - current <= window
 *
 *  The current one is shown piece by piece; those behind it are kept until it is their turn. */
#include "api/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/beam.h"

#define WINDOW 4 /* samples that are kept, per slot */

/* One that is being made, or is done and waits for its turn. */
typedef struct making {
    tx_sequence s;
    struct run *run;
    int64_t prompt, sample;
    tx_text_stream text;
    size_t told; /* bytes of the text */
    tx_ids ids;
    double *logprob;
    tx_top_token *top;
    bool done;
    tx_status failed; /* in a callback, which cannot say so */
} making;

typedef struct run {
    const tx_sampling *o;
    const tx_prompts *p;
    const tx_generate_sink *sink;
    tx_batcher *batcher;
    making **ring; /* [window] */
    int64_t window, current, next, total;
    tx_token_probs probs; /* of the vocabulary */
    int32_t *likeliest;   /* [n_top] */
} run;

tx_status tx__sampling_init(tx_sampling *s, const tx_config *cfg, const tx_tokenizer *tok, int64_t vocab_size)
{
    *s = (tx_sampling){
        .cfg = cfg,
        .tok = tok,
        .eod = tx_tokenizer_eod(tok) < vocab_size ? tx_tokenizer_eod(tok) : -1,
        .sampler = { .top_k = cfg->top_k,
                     .top_p = cfg->top_p,
                     .top_p_decay = cfg->top_p_decay,
                     .top_p_bound = cfg->top_p_bound,
                     .repetition_penalty = cfg->repetition_penalty,
                     .greedy = cfg->greedy },
        .lines = { .prevent_newline_after_colon = cfg->prevent_newline_after_colon,
                   .stop_on_eol = cfg->stop_on_eol,
                   .stop_on_double_eol = cfg->stop_on_double_eol },
        .n_samples = cfg->given.num_return_sequences ? cfg->num_return_sequences : cfg->num_samples,
        .max_new = cfg->out_seq_length,
        .wants_beam = cfg->beam_width > 0,
    };
    tx_sampler_set_temperature(&s->sampler, cfg->temperature);
    TX_TRY(tx_line_rules_find(&s->lines, tok));
    TX_TRY(tx_alloc(&s->stop_id, (size_t)cfg->stop_id.n + 1, sizeof *s->stop_id, "the stop ids"));
    for (int i = 0; i < cfg->stop_id.n; i++) {
        long id = strtol(cfg->stop_id.item[i], NULL, 10); /* a number: config/rules_needs.c */
        if (id >= vocab_size)
            return TX_FAIL(TX_ERR_ARG, "--stop-id %ld: the model's ids end at %lld", id, (long long)vocab_size - 1);
        s->stop_id[s->n_stop_ids++] = (int32_t)id;
    }
    return TX_OK;
}

void tx__sampling_deinit(tx_sampling *s)
{
    tx_free(s->stop_id);
    s->stop_id = NULL;
}

int64_t tx__sampling_slots(const tx_sampling *s, int64_t n_prompts)
{
    if (s->wants_beam) return 2 * s->cfg->beam_width;
    int64_t at_once = s->cfg->samples_at_once;
    return n_prompts > at_once / s->n_samples ? at_once : n_prompts * s->n_samples;
}

/* ---- one sample ---- */

static void free_making(making *m)
{
    if (!m) return;
    tx_text_stream_deinit(&m->text);
    tx_ids_free(&m->ids);
    tx_free(m->logprob);
    tx_free(m->top);
    tx_free(m);
}

static int64_t n_top(const run *r)
{
    return r->o->cfg->top_logprobs;
}

static tx_status keep_top(making *m, const tx_token_made *t)
{
    run *r = m->run;
    size_t k = (size_t)n_top(r), row = TX_N_STAGES * k;
    TX_TRY(tx_realloc(&m->top, (m->ids.n + 1) * row, sizeof *m->top, "likely tokens"));
    for (size_t stage = 0; stage < TX_N_STAGES; stage++) {
        tx_top_token *out = m->top + m->ids.n * row + stage * k;
        tx_sample_filter(&r->probs, &m->s.sampler, t->past, (tx_sample_stage)stage, t->logits);
        size_t have = (size_t)tx_sample_top(r->probs.prob, r->probs.n, (int64_t)k, r->likeliest);
        for (size_t i = 0; i < k; i++)
            out[i] = i < have ? (tx_top_token){ r->likeliest[i], log(r->probs.prob[r->likeliest[i]]) }
                              : (tx_top_token){ -1, 0 };
    }
    return TX_OK;
}

static tx_status keep_token(making *m, const tx_token_made *t)
{
    run *r = m->run;
    if (m->ids.n == m->ids.cap) {
        size_t cap = m->ids.cap ? 2 * m->ids.cap : 64;
        TX_TRY(tx_realloc(&m->ids.id, cap, sizeof *m->ids.id, "a sample"));
        if (r->o->cfg->logprobs) TX_TRY(tx_realloc(&m->logprob, cap, sizeof *m->logprob, "a sample"));
        m->ids.cap = cap;
    }
    if (n_top(r)) TX_TRY(keep_top(m, t));
    if (m->logprob) m->logprob[m->ids.n] = t->logprob;
    m->ids.id[m->ids.n++] = t->id;
    /* rows that pad the model's vocabulary beyond the tokenizer's are no text */
    return t->id < tx_tokenizer_vocab_size(r->o->tok) ? tx_text_stream_put(&m->text, t->id) : TX_OK;
}

static bool take_token(void *user, tx_sequence *s, const tx_token_made *t)
{
    making *m = user;
    int32_t before = m->ids.n ? m->ids.id[m->ids.n - 1] : s->prompt[s->n_prompt - 1];
    m->failed = keep_token(m, t);
    return !m->failed && !m->text.stopped && !tx_line_rules_end(&m->run->o->lines, before, t->id);
}

static void take_end(void *user, tx_sequence *s)
{
    making *m = user;
    (void)s;
    m->done = true;
    if (!m->failed && !m->text.stopped) m->failed = tx_text_stream_end(&m->text);
}

/* Sample number `next` into the batch. */
static tx_status begin(run *r)
{
    const tx_sampling *o = r->o;
    making *m;
    TX_TRY(tx_alloc(&m, 1, sizeof *m, "a sample"));
    r->ring[r->next % r->window] = m;
    m->run = r;
    m->prompt = r->next / o->n_samples;
    m->sample = r->next % o->n_samples;
    const tx_prompt *p = &r->p->item[m->prompt];
    int64_t room = o->max_len - (int64_t)p->ids.n;
    tx_text_stream_init(&m->text, o->tok, (const char *const *)o->cfg->stop.item, o->cfg->stop.n);
    m->s = (tx_sequence){ .prompt = p->ids.id,
                          .n_prompt = (int64_t)p->ids.n,
                          .max_new = o->max_new < room ? o->max_new : room,
                          .min_new = o->cfg->min_new_tokens,
                          .eod = o->eod,
                          .stop_id = o->stop_id,
                          .n_stop_ids = o->n_stop_ids,
                          .sampler = o->sampler,
                          .seed = (uint64_t)o->cfg->seed,
                          .sample = o->first_sample + (uint64_t)r->next,
                          .logprobs = o->cfg->logprobs,
                          .token = take_token,
                          .finished = take_end,
                          .user = m };
    tx_line_rules_apply(&o->lines, &m->s);
    r->next++;
    /* what was asked for is a list, also where no token comes */
    if (o->cfg->logprobs) TX_TRY(tx_alloc(&m->logprob, 1, sizeof *m->logprob, "a sample"));
    if (o->cfg->top_logprobs) TX_TRY(tx_alloc(&m->top, 1, sizeof *m->top, "likely tokens"));
    return tx_batcher_add(r->batcher, &m->s);
}

/* ---- telling ---- */

static tx_sample sample_of(const run *r, const making *m)
{
    static const char *const why[] = {
        [TX_UNFINISHED] = NULL, [TX_FINISH_EOD] = "eod", [TX_FINISH_STOP] = "stop", [TX_FINISH_LENGTH] = "length"
    };
    const tx_prompt *p = &r->p->item[m->prompt];
    return (tx_sample){ .prompt_index = m->prompt,
                        .sample_index = m->sample,
                        .prompt = p->text,
                        .n_prompt = p->n_text,
                        .prompt_ids = p->ids.id,
                        .n_prompt_ids = p->ids.n,
                        .text = m->text.text.data ? m->text.text.data : "",
                        .n_text = m->text.text.len,
                        .ids = m->ids.id,
                        .n_ids = m->ids.n,
                        .logprob = m->logprob,
                        .top = m->top,
                        .n_top = (int)n_top(r),
                        .finish = why[m->s.finish],
                        .tok = r->o->tok };
}

/* What can be told now: of the current one what is new, and whole ones as long as they are done. */
static tx_status tell(run *r)
{
    while (r->current < r->next) {
        making *m = r->ring[r->current % r->window];
        if (m->failed) return m->failed;
        tx_sample s = sample_of(r, m);
        if (s.n_text > m->told && r->sink->piece)
            r->sink->piece(r->sink->user, &s, s.text + m->told, s.n_text - m->told);
        m->told = s.n_text;
        if (!m->done) return TX_OK;
        if (r->sink->sample) r->sink->sample(r->sink->user, &s);
        free_making(m);
        r->ring[r->current++ % r->window] = NULL;
    }
    return TX_OK;
}

static tx_status sample_all(run *r)
{
    while (r->current < r->total) {
        while (r->next < r->total && r->next - r->current < r->window) TX_TRY(begin(r));
        TX_TRY(tx_batcher_step(r->batcher));
        TX_TRY(tell(r));
    }
    return TX_OK;
}

/* ---- beam search ---- */

/* A hypothesis as a sample that has been made. */
static tx_status tell_hypothesis(run *r, int64_t prompt, int rank, const tx_hypothesis *h)
{
    making m = { .run = r, .prompt = prompt, .sample = rank, .ids = { .id = h->token, .n = (size_t)h->n } };
    tx_status st;
    tx_text_stream_init(&m.text, r->o->tok, NULL, 0);
    for (int64_t i = 0; i < h->n; i++)
        if (h->token[i] < tx_tokenizer_vocab_size(r->o->tok)) TX_GOTO(tx_text_stream_put(&m.text, h->token[i]));
    TX_GOTO(tx_text_stream_end(&m.text));
    tx_sample s = sample_of(r, &m);
    s.finish = h->stopped ? r->o->n_stop_ids ? "stop" : "eod" : "length";
    s.is_scored = true;
    s.score = h->score;
    if (r->sink->piece && s.n_text) r->sink->piece(r->sink->user, &s, s.text, s.n_text);
    if (r->sink->sample) r->sink->sample(r->sink->user, &s);
out:
    tx_text_stream_deinit(&m.text);
    return st;
}

static tx_status search_all(run *r, tx_decoder *d)
{
    const tx_sampling *o = r->o;
    int width = (int)o->cfg->beam_width;
    tx_hypothesis *h;
    tx_status st = TX_OK;
    TX_TRY(tx_alloc(&h, (size_t)width, sizeof *h, "the hypotheses"));
    for (int64_t i = 0; i < r->p->n && !st; i++) {
        const tx_ids *ids = &r->p->item[i].ids;
        int64_t room = o->max_len - (int64_t)ids->n;
        const tx_beam_opts opts = { .width = width,
                                    .max_new = o->max_new < room ? o->max_new : room,
                                    .stop = o->n_stop_ids ? o->stop_id[0] : o->eod,
                                    .length_penalty = o->cfg->length_penalty,
                                    .prevent = o->lines.prevent_newline_after_colon,
                                    .after = o->lines.colon,
                                    .then = o->lines.eol };
        st = tx_beam_search(d, ids->id, (int64_t)ids->n, &opts, h);
        for (int k = 0; k < width && !st; k++) st = tell_hypothesis(r, i, k, &h[k]);
        tx_hypotheses_free(h, width);
    }
    tx_free(h);
    return st;
}

/* ---- all of it ---- */

tx_status tx__samples_run(const tx_sampling *s, tx_decoder *d, const tx_prompts *p, const tx_generate_sink *sink)
{
    run r = { .o = s, .p = p, .sink = sink, .total = p->n * s->n_samples, .probs.n = tx_decoder_vocab(d) };
    tx_status st;
    if (s->wants_beam) return search_all(&r, d);
    r.window = WINDOW * tx_decoder_slots(d);
    TX_GOTO(tx_alloc(&r.ring, (size_t)r.window, sizeof(making *), "the samples"));
    if (n_top(&r)) {
        TX_GOTO(tx_alloc(&r.probs.prob, (size_t)r.probs.n, sizeof *r.probs.prob, "likely tokens"));
        TX_GOTO(tx_alloc(&r.probs.work, (size_t)r.probs.n, sizeof *r.probs.work, "likely tokens"));
        TX_GOTO(tx_alloc(&r.likeliest, (size_t)n_top(&r), sizeof *r.likeliest, "likely tokens"));
    }
    TX_GOTO(tx_batcher_create(&r.batcher, d));
    st = sample_all(&r);
out:
    tx_batcher_destroy(r.batcher);
    for (int64_t i = 0; r.ring && i < r.window; i++) free_making(r.ring[i]);
    tx_free(r.ring);
    tx_free(r.probs.prob);
    tx_free(r.probs.work);
    tx_free(r.likeliest);
    return st;
}
