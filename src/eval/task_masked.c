/* task_masked.c - a text for a masked language model: each token is masked in turn, with the tokens around it as they
 * are. The sum of the log-probabilities is the pseudo-log-likelihood of Salazar et al., arXiv:1910.14659. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "eval/masked.h"
#include "eval/task.h"

typedef struct run {
    tx_task *t;
    tx_masked *m;
    int32_t cls, sep, mask;
    int64_t window, at; /* of the next sample: number of its span, and of its masked token in the task's ids */
} run;

/* [CLS] window [SEP], with [MASK] for one of the window's tokens, which is the label. */
static void put_sample(const run *r, int64_t k, const tx_task_span *s)
{
    tx_bert_ids row = tx_masked_row(r->m, k);
    int64_t n = s->end - s->begin, len = r->m->opts.s;
    memset(row.tokens, 0, (size_t)tx_bert_row_len(len) * sizeof *row.tokens);
    for (int64_t i = 0; i < len; i++) row.labels[i] = -1;
    row.tokens[0] = r->cls;
    memcpy(row.tokens + 1, r->t->ids.id + s->begin, (size_t)n * sizeof *row.tokens);
    row.tokens[n + 1] = r->sep;
    row.tokens[r->at - s->begin + 1] = r->mask;
    row.labels[r->at - s->begin + 1] = r->t->ids.id[r->at];
    *row.n_tokens = (int32_t)n + 2;
}

/* The next lot; how many samples it has. */
static int64_t put_lot(run *r)
{
    int64_t n = 0;
    for (; n < r->m->room && r->window < r->t->n_spans; n++) {
        const tx_task_span *s = &r->t->span[r->window];
        put_sample(r, n, s);
        if (++r->at == s->end) r->window++; /* the next one begins there, or with the next document's first token */
    }
    return n;
}

static tx_status take_lot(const run *r, int64_t first, int64_t n, tx_task_sums *sums, const tx_task_listener *each)
{
    int64_t window = 0;
    for (int64_t k = 0; k < n; k++) {
        const tx_token_score *score = &r->m->score[k];
        while (r->t->span[window].end <= first + k) window++;
        sums->nats -= score->logprob;
        sums->n_correct += score->rank == 1;
        sums->n_targets++;
        if (each && each->token)
            TX_TRY(each->token(each->user, r->t->item[window].document, r->t->ids.id[first + k], score));
    }
    return TX_OK;
}

tx_status tx_task_run_masked(tx_task *t, tx_masked *m, const tx_tokenizer *tok, tx_task_sums *out,
                             const tx_task_listener *each)
{
    run r = { .t = t,
              .m = m,
              .cls = tx_tokenizer_special(tok, "[CLS]"),
              .sep = tx_tokenizer_special(tok, "[SEP]"),
              .mask = tx_tokenizer_special(tok, "[MASK]") };
    double shown = tx_clock();
    *out = (tx_task_sums){ 0 };
    for (int64_t done = 0, n;; done += n) {
        n = t ? put_lot(&r) : 0;
        TX_TRY(tx_masked_share(m, &n));
        if (!n) return TX_OK;
        TX_TRY(tx_masked_run(m, n));
        if (!t) continue;
        TX_TRY(take_lot(&r, done, n, out, each));
        if (tx_clock() - shown < TX_PROGRESS_SECONDS) continue;
        shown = tx_clock();
        tx_log(TX_LOG_PROGRESS, "text: scored %lld/%zu tokens", (long long)done, t->ids.n);
    }
}
