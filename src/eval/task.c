/* task.c - the table of tasks; reads a task, scores its items and counts. */
#include "eval/task.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

static const tx__task_type types[] = {
    [TX_TASK_TEXT] = { .read = tx__task_read_text, .figures = tx__task_text_figures, .words = tx__task_text_words },
    [TX_TASK_WIKITEXT103] = { .read = tx__task_read_wikitext,
                              .figures = tx__task_wikitext_figures,
                              .words = tx__task_wikitext_words },
    [TX_TASK_LAMBADA] = { .read = tx__task_read_lambada,
                          .figures = tx__task_lambada_figures,
                          .words = tx__task_lambada_words },
    [TX_TASK_CHOICE] = { .choices = true,
                         .read = tx__task_read_choices,
                         .figures = tx__task_choice_figures,
                         .words = tx__task_choice_words },
};

const tx__task_type *tx__task_type_of(const tx_task *t)
{
    return &types[t->opts.kind];
}

/* ---- reading ---- */

static tx_status grow(void *items, int64_t n, int64_t *cap, size_t size)
{
    if (n < *cap) return TX_OK;
    int64_t more = *cap ? 2 * *cap : 256;
    TX_TRY(tx_realloc(items, (size_t)more, size, "the items of a task"));
    *cap = more;
    return TX_OK;
}

tx_status tx__task_add_span(tx_task *t, tx_task_span s, const char *where)
{
    int64_t most = t->opts.seq_length + 1; /* the last one is seen by nobody */
    if (s.first == s.end) return TX_FAIL(TX_ERR_FORMAT, "%s: there is no token to predict", where);
    if (s.first == s.begin && !t->opts.masked)
        return TX_FAIL(TX_ERR_FORMAT, "%s: nothing stands before what is to be predicted", where);
    if (s.end - s.first >= most)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %lld tokens to predict, more than --seq-length %lld", where,
                       (long long)(s.end - s.first), (long long)t->opts.seq_length);
    if (s.end - s.begin > most) {
        s.begin = s.end - most;
        t->n_cut++;
    }
    TX_TRY(grow(&t->span, t->n_spans, &t->cap_spans, sizeof *t->span));
    t->span[t->n_spans++] = s;
    return TX_OK;
}

tx_status tx__task_add_item(tx_task *t, tx_task_item item)
{
    TX_TRY(grow(&t->item, t->n_items, &t->cap_items, sizeof *t->item));
    t->item[t->n_items++] = item;
    return TX_OK;
}

static tx_status take_scores(tx_task *t)
{
    int64_t most = 0;
    for (int64_t i = 0; i < t->n_spans; i++)
        if (t->span[i].end - t->span[i].first > most) most = t->span[i].end - t->span[i].first;
    return tx_alloc(&t->score, (size_t)most, sizeof *t->score, "the scores of a window");
}

static tx_status set_overlap(tx_task_opts *o)
{
    if (o->overlap > o->seq_length)
        return TX_FAIL(TX_ERR_ARG,
                       "--overlapping-eval %lld is more than --seq-length %lld: tokens between the windows would not "
                       "be counted",
                       (long long)o->overlap, (long long)o->seq_length);
    if (!o->overlap) o->overlap = o->seq_length < 32 ? o->seq_length : 32;
    return TX_OK;
}

tx_status tx_task_open(tx_task *t, const tx_task_opts *opts, const tx_tokenizer *tok)
{
    *t = (tx_task){ .opts = *opts };
    tx_status st;
    TX_GOTO(set_overlap(&t->opts));
    TX_GOTO(tx__task_type_of(t)->read(t, tok));
    TX_GOTO(take_scores(t));
    if (t->n_cut)
        tx_warn_once("%s: %lld of its texts have more than --seq-length %lld tokens: their beginnings are left out",
                     opts->file, (long long)t->n_cut, (long long)opts->seq_length);
out:
    if (st) tx_task_close(t);
    return st;
}

void tx_task_close(tx_task *t)
{
    tx_ids_free(&t->ids);
    tx_free(t->span);
    tx_free(t->item);
    tx_free(t->score);
    *t = (tx_task){ 0 };
}

/* ---- running ---- */

typedef struct run {
    tx_task *t;
    tx_decoder *d;
    tx_task_sums *sums;
    const tx_task_listener *each; /* or NULL */
} run;

/* Sum of a span's log-probabilities.   @all_first every target is what the model would have taken */
static double sum_of(const tx_task *t, const tx_task_span *s, bool *all_first)
{
    double sum = 0;
    *all_first = true;
    for (int64_t i = 0; i < s->end - s->first; i++) {
        sum += t->score[i].logprob;
        *all_first = *all_first && t->score[i].rank == 1;
    }
    return sum;
}

static tx_status tell(const run *r, const tx_task_item *item, const tx_task_span *s)
{
    const int32_t *id = r->t->ids.id;
    const tx_task_listener *l = r->each;
    if (!l || !l->token) return TX_OK;
    if (item->begins) TX_TRY(l->token(l->user, item->document, id[s->begin], NULL));
    for (int64_t i = s->first; i < s->end; i++)
        TX_TRY(l->token(l->user, item->document, id[i], &r->t->score[i - s->first]));
    return TX_OK;
}

static tx_status run_one(const run *r, const tx_task_item *item)
{
    tx_task *t = r->t;
    const tx_task_span *s = &t->span[item->span];
    bool right;
    TX_TRY(tx_score_tokens(r->d, t->ids.id + s->begin, s->end - s->begin, s->first - s->begin, 0, t->score));
    r->sums->nats -= sum_of(t, s, &right);
    r->sums->n_targets += (double)(s->end - s->first);
    r->sums->n_items++;
    r->sums->n_correct += right;
    return tell(r, item, s);
}

/* Tokens that a span has in common with the one before it, which the decoder need not see again. */
static int64_t kept_of(const tx_task *t, const tx_task_span *s, const tx_task_span *before)
{
    const int32_t *a = t->ids.id + s->begin, *b = t->ids.id + before->begin;
    int64_t k = 0;
    while (k < s->first - s->begin - 1 && k < before->end - before->begin - 1 && a[k] == b[k]) k++;
    return k;
}

static tx_status run_choices(const run *r, const tx_task_item *item)
{
    tx_task *t = r->t;
    int best = -1, best_norm = -1; /* the first of equals */
    double most = -INFINITY, most_norm = -INFINITY;
    bool ignored;
    for (int i = 0; i < item->n_spans; i++) {
        const tx_task_span *s = &t->span[item->span + i];
        int64_t kept = i ? kept_of(t, s, s - 1) : 0;
        TX_TRY(tx_score_tokens(r->d, t->ids.id + s->begin, s->end - s->begin, s->first - s->begin, kept, t->score));
        double sum = sum_of(t, s, &ignored), norm = sum / (double)s->n_chars;
        if (sum > most) most = sum, best = i;
        if (norm > most_norm) most_norm = norm, best_norm = i;
        if (i != item->answer) continue;
        r->sums->nats -= sum;
        r->sums->n_targets += (double)(s->end - s->first);
    }
    r->sums->n_items++;
    r->sums->n_correct += best == item->answer;
    r->sums->n_correct_norm += best_norm == item->answer;
    return TX_OK;
}

tx_status tx_task_run(tx_task *t, tx_decoder *d, int64_t part, int64_t n_parts, tx_task_sums *out,
                      const tx_task_listener *each)
{
    run r = { .t = t, .d = d, .sums = out, .each = each };
    double shown = tx_clock();
    *out = (tx_task_sums){ 0 };
    for (int64_t i = part; i < t->n_items; i += n_parts) {
        const tx_task_item *item = &t->item[i];
        TX_TRY(tx__task_type_of(t)->choices ? run_choices(&r, item) : run_one(&r, item));
        if (tx_clock() - shown < TX_PROGRESS_SECONDS) continue;
        shown = tx_clock();
        tx_log(TX_LOG_PROGRESS, "%s: scored %lld/%lld", tx_task_kind_word(t->opts.kind), (long long)(i + 1),
               (long long)t->n_items);
    }
    tx_decoder_truncate(d, 0, 0);
    return TX_OK;
}
