/* batcher.c - slots, the sequences in them, and the step. */
#include "infer/batcher.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"

/* Shorter beginnings are computed again rather than copied: they are in every text. */
#define COMMON_MIN 8

struct tx_batcher {
    tx_decoder *d; /* borrowed */
    int64_t n_slots, max_len;
    tx_sequence **in;             /* [n_slots], NULL: free */
    tx_sequence *first, *last;    /* who waits */
    tx_sequence *reading;         /* its prompt is not all in; or NULL */
    int64_t n_waiting, n_running; /* n_running with the one that reads */
    int *slot;                    /* of a step: [n_slots], as the next two */
    int32_t *token;
    tx_finish *ended;
    tx_token_probs probs; /* of the vocabulary */
};

tx_status tx_batcher_create(tx_batcher **out, tx_decoder *d)
{
    tx_batcher *b;
    TX_TRY(tx_alloc(&b, 1, sizeof *b, "the batch"));
    tx_status st;
    b->d = d;
    b->n_slots = tx_decoder_slots(d);
    b->max_len = tx_decoder_max_len(d);
    b->probs.n = tx_decoder_vocab(d);
    TX_GOTO(tx_alloc(&b->in, (size_t)b->n_slots, sizeof(tx_sequence *), "the batch"));
    TX_GOTO(tx_alloc(&b->slot, (size_t)b->n_slots, sizeof *b->slot, "the batch"));
    TX_GOTO(tx_alloc(&b->token, (size_t)b->n_slots, sizeof *b->token, "the batch"));
    TX_GOTO(tx_alloc(&b->ended, (size_t)b->n_slots, sizeof *b->ended, "the batch"));
    TX_GOTO(tx_alloc(&b->probs.prob, (size_t)b->probs.n, sizeof *b->probs.prob, "the sampler"));
    TX_GOTO(tx_alloc(&b->probs.work, (size_t)b->probs.n, sizeof *b->probs.work, "the sampler"));
    *out = b;
out:
    if (st) tx_batcher_destroy(b);
    return st;
}

void tx_batcher_destroy(tx_batcher *b)
{
    if (!b) return;
    for (int64_t i = 0; b->in && i < b->n_slots; i++)
        if (b->in[i]) tx_free(b->in[i]->all);
    for (tx_sequence *s = b->first; s; s = s->next) tx_free(s->all);
    tx_free(b->in);
    tx_free(b->slot);
    tx_free(b->token);
    tx_free(b->ended);
    tx_free(b->probs.prob);
    tx_free(b->probs.work);
    tx_free(b);
}

static tx_status check_ids(const tx_batcher *b, const int32_t *id, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (id[i] < 0 || id[i] >= b->probs.n)
            return TX_FAIL(TX_ERR_ARG, "%s %d is no token: the model has %lld", what, id[i], (long long)b->probs.n);
    return TX_OK;
}

tx_status tx_batcher_add(tx_batcher *b, tx_sequence *s)
{
    if (s->n_prompt < 1) return TX_FAIL(TX_ERR_ARG, "a prompt needs at least one token");
    if (s->n_prompt > b->max_len)
        return TX_FAIL(TX_ERR_ARG, "the prompt has %lld tokens, there is room for %lld", (long long)s->n_prompt,
                       (long long)b->max_len);
    TX_TRY(check_ids(b, s->prompt, s->n_prompt, "the prompt's"));
    TX_TRY(check_ids(b, s->stop_id, s->n_stop_ids, "stop id"));
    TX_TRY(check_ids(b, s->forbidden, s->n_forbidden, "forbidden id"));
    if (s->prevent) TX_TRY(check_ids(b, (int32_t[]){ s->after, s->then }, 2, "forbidden id"));
    s->room = s->max_new < b->max_len - s->n_prompt ? s->n_prompt + s->max_new : b->max_len;
    int64_t banned = s->n_forbidden + s->n_stop_ids + 2;
    TX_TRY(tx_alloc(&s->all, (size_t)(s->room + banned), sizeof *s->all, "a sequence"));
    memcpy(s->all, s->prompt, (size_t)s->n_prompt * sizeof *s->all);
    s->finish = TX_UNFINISHED;
    s->n_new = s->n_in = 0;
    s->slot = -1;
    s->cancelled = false;
    s->next = NULL;
    if (b->last)
        b->last->next = s;
    else
        b->first = s;
    b->last = s;
    b->n_waiting++;
    return TX_OK;
}

void tx_batcher_cancel(tx_batcher *b, tx_sequence *s)
{
    (void)b;
    s->cancelled = true;
}

/* s has left everything; it is not touched after `finished`, which may free it. */
static void finish(tx_batcher *b, tx_sequence *s, tx_finish why)
{
    if (s->slot >= 0) {
        tx_decoder_truncate(b->d, s->slot, 0);
        b->in[s->slot] = NULL;
        b->n_running--;
    }
    if (b->reading == s) b->reading = NULL;
    s->slot = -1;
    s->finish = why;
    tx_free(s->all);
    s->all = NULL;
    if (s->finished) s->finished(s->user, s);
}

/* Taken out one by one: `finished` may add others behind. */
static void drop_cancelled(tx_batcher *b)
{
    for (int64_t i = 0; i < b->n_slots; i++)
        if (b->in[i] && b->in[i]->cancelled) finish(b, b->in[i], TX_FINISH_CANCELLED);
    for (tx_sequence *s = b->first, *before = NULL, *next; s; s = next) {
        if (s->cancelled) {
            if (before)
                before->next = s->next;
            else
                b->first = s->next;
            if (b->last == s) b->last = before;
            b->n_waiting--;
            finish(b, s, TX_FINISH_CANCELLED);
            next = before ? before->next : b->first;
            continue;
        }
        before = s;
        next = s->next;
    }
}

/* ---- tokens ---- */

/* The ids that must not come now, behind the sequence's tokens. */
static int64_t banned_now(const tx_sequence *s, int32_t *id)
{
    int64_t n = 0, at = s->n_prompt + s->n_new;
    for (int64_t i = 0; i < s->n_forbidden; i++) id[n++] = s->forbidden[i];
    if (s->n_new < s->min_new) {
        if (s->eod >= 0) id[n++] = s->eod;
        for (int64_t i = 0; i < s->n_stop_ids; i++) id[n++] = s->stop_id[i];
    }
    if (s->prevent && s->all[at - 1] == s->after) id[n++] = s->then;
    return n;
}

static int32_t draw(tx_batcher *b, const tx_sequence *s, const tx_sample_past *past, const float *logits)
{
    const tx_rng rng = { .seed = s->seed,
                         .stream = tx_rng_stream("generate") + (uint32_t)(s->sample >> 32),
                         .step = (uint32_t)s->sample };
    return tx_sample_token(&b->probs, &s->sampler, past, logits, tx_rng_uniform(&rng, (uint64_t)s->n_new));
}

static bool is_stop_id(const tx_sequence *s, int32_t id)
{
    for (int64_t i = 0; i < s->n_stop_ids; i++)
        if (s->stop_id[i] == id) return true;
    return false;
}

static bool tell(const tx_batcher *b, tx_sequence *s, const tx_token_made *made, bool logprob)
{
    tx_token_made t = *made;
    t.logprob = logprob && t.logits ? tx_logprob(t.logits, b->probs.n, t.id) : NAN;
    return !s->token || s->token(s->user, s, &t);
}

/* The next token of s from the logits behind its last one; why that was the end of it, if it was. */
static tx_finish go_on(tx_batcher *b, tx_sequence *s, const float *logits)
{
    int64_t at = s->n_prompt + s->n_new;
    if (s->cancelled) return TX_FINISH_CANCELLED; /* by somebody's callback in this step */
    if (at == s->room) return TX_FINISH_LENGTH;
    const tx_sample_past past = { .token = s->all,
                                  .n = at,
                                  .n_new = s->n_new,
                                  .forbidden = s->all + s->room,
                                  .n_forbidden = banned_now(s, s->all + s->room) };
    int32_t id = draw(b, s, &past, logits);
    if (id == s->eod) return TX_FINISH_EOD;
    if (is_stop_id(s, id)) return TX_FINISH_STOP;
    s->all[at] = id;
    const tx_token_made made = { .id = id, .index = s->n_new++, .logits = logits, .past = &past };
    if (!tell(b, s, &made, s->logprobs)) return TX_FINISH_STOP;
    return at + 1 == s->room ? TX_FINISH_LENGTH : TX_UNFINISHED;
}

/* ---- prompts ---- */

static int64_t common(const tx_sequence *a, int64_t n, const tx_sequence *s)
{
    int64_t i = 0;
    while (i < n && a->all[i] == s->prompt[i]) i++;
    return i;
}

/* The longest beginning of the prompt that some slot has, without the last token, whose logits are wanted. */
static tx_status copy_common(tx_batcher *b, tx_sequence *s)
{
    int64_t best = 0;
    int from = -1;
    if (!tx_decoder_keeps_keys(b->d)) return TX_OK;
    for (int i = 0; i < b->n_slots && !s->prompt_logprobs; i++) {
        if (!b->in[i] || i == s->slot) continue;
        int64_t n = tx_decoder_length(b->d, i);
        n = common(b->in[i], n < s->n_prompt - 1 ? n : s->n_prompt - 1, s);
        if (n <= best) continue;
        best = n;
        from = i;
    }
    if (best < COMMON_MIN && best < s->n_prompt - 1) return TX_OK;
    if (best == 0) return TX_OK;
    TX_TRY(tx_decoder_copy(b->d, s->slot, from));
    tx_decoder_truncate(b->d, s->slot, best);
    s->n_in = best;
    return TX_OK;
}

/* Who is being read, or the first that waits, if there is a slot. */
static tx_status next_to_read(tx_batcher *b, tx_sequence **out)
{
    *out = b->reading;
    if (b->reading || !b->first) return TX_OK;
    int slot = 0;
    while (slot < b->n_slots && b->in[slot]) slot++;
    if (slot == b->n_slots) return TX_OK;
    tx_sequence *s = b->first;
    b->first = s->next;
    if (!b->first) b->last = NULL;
    b->n_waiting--;
    b->n_running++;
    b->in[slot] = b->reading = *out = s;
    s->slot = slot;
    s->next = NULL;
    return copy_common(b, s);
}

typedef struct reader {
    tx_batcher *b;
    tx_sequence *s;
    tx_finish ended;
} reader;

/* Logits of the prompt's positions that are wanted: all that have a token behind them in the prompt, and the last. */
static tx_status read_logits(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride)
{
    reader *r = user;
    tx_sequence *s = r->s;
    for (int64_t i = 0; i < n_rows && !r->ended; i++) {
        const float *row = logits + i * stride;
        int64_t next = first + i + 1;
        if (next == s->n_prompt) {
            r->ended = go_on(r->b, s, row);
            continue;
        }
        tx_token_made t = { .id = s->prompt[next], .of_prompt = true, .index = next, .logits = row };
        if (!tell(r->b, s, &t, true)) r->ended = TX_FINISH_STOP;
    }
    return TX_OK;
}

/* A piece of the prompt of s, of at most `room` positions. The slot is freed behind the decoder's call, not in it. */
static tx_status read_piece(tx_batcher *b, tx_sequence *s, int64_t room, int64_t *n_read)
{
    int64_t left = s->n_prompt - s->n_in, n = left < room ? left : room;
    int64_t wanted = s->prompt_logprobs ? 0 : s->n_prompt - 1;
    reader r = { .b = b, .s = s };
    if (s->n_in == 0 && s->prompt_logprobs)
        if (!tell(b, s, &(tx_token_made){ .id = s->prompt[0], .of_prompt = true }, true)) r.ended = TX_FINISH_STOP;
    tx_decoder_expect(b->d, s->slot, s->n_prompt);
    if (!r.ended)
        TX_TRY(
            tx_decoder_append(b->d, s->slot, s->prompt + s->n_in, n, &(tx_logits_wanted){ wanted, read_logits, &r }));
    s->n_in += n;
    *n_read = n;
    if (s->n_in == s->n_prompt) b->reading = NULL;
    if (r.ended) finish(b, s, r.ended);
    return TX_OK;
}

static tx_status read_prompts(tx_batcher *b)
{
    for (int64_t room = TX_BATCHER_PIECE, n; room > 0; room -= n) {
        tx_sequence *s;
        TX_TRY(next_to_read(b, &s));
        if (!s) break;
        TX_TRY(read_piece(b, s, room, &n));
    }
    return TX_OK;
}

/* ---- the step ---- */

/* One token more of everyone whose prompt is in. */
static tx_status advance(tx_batcher *b)
{
    int64_t n = 0, stride;
    const float *logits;
    for (int i = 0; i < b->n_slots; i++) {
        tx_sequence *s = b->in[i];
        if (!s || s == b->reading) continue;
        b->slot[n] = i;
        b->token[n++] = s->all[s->n_prompt + s->n_new - 1];
    }
    if (n == 0) return TX_OK;
    TX_TRY(tx_decoder_step(b->d, b->slot, b->token, n, &logits, &stride));
    for (int64_t i = 0; i < n; i++) b->ended[i] = go_on(b, b->in[b->slot[i]], logits + i * stride);
    for (int64_t i = 0; i < n; i++)
        if (b->ended[i]) finish(b, b->in[b->slot[i]], b->ended[i]);
    return TX_OK;
}

tx_status tx_batcher_step(tx_batcher *b)
{
    drop_cancelled(b);
    TX_TRY(advance(b));
    return read_prompts(b);
}

int64_t tx_batcher_waiting(const tx_batcher *b)
{
    return b->n_waiting;
}

int64_t tx_batcher_running(const tx_batcher *b)
{
    return b->n_running;
}
