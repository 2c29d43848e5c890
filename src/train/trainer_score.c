/* trainer_score.c - evaluation: losses without dropout and without gradients. */
#include "train/trainer_feed.h"

/* ---- one micro-batch ---- */

typedef struct one_batch {
    tx_trainer_feed feed; /* first: a tx_feed's user is both */
    tx_loss_sum *sum;     /* [n_losses] */
} one_batch;

/* A tx_feed.losses. */
static tx_status take_sums(void *user, int64_t micro, const tx_batch *batch)
{
    one_batch *one = user;
    (void)micro;
    return tx__trainer_losses_of(one->feed.t, batch, one->feed.n_samples, one->sum);
}

tx_status tx_trainer_evaluate(tx_trainer *t, const void *rows, int64_t n_samples, tx_loss_sum *sum)
{
    one_batch one = { .sum = sum };
    TX_TRY(tx__trainer_no_pipeline(t));
    if (t->want != TX_WANT_FORWARD) return TX_FAIL(TX_ERR_STATE, "evaluate was called between forward and step");
    tx__trainer_whole_length(t);
    tx__trainer_feed_init(&one.feed, t);
    one.feed.is.losses = take_sums;
    one.feed.rows = rows;
    one.feed.n_samples = n_samples;
    void *sums = t->model->expert_sums.data; /* those of an iteration, which may have begun */
    t->model->expert_sums.data = NULL;
    tx_stage_begin(&t->stage, &one.feed.is);
    tx_status st = tx_stage_forward(&t->stage, 0, true, false);
    t->model->expert_sums.data = sums;
    return st ? st : tx_stage_end(&t->stage);
}

/* ---- many ---- */

/* A tx_feed.losses: micro-batches weigh as their samples do. */
static tx_status add_score(void *user, int64_t micro, const tx_batch *batch)
{
    tx_trainer_feed *f = user;
    const tx_trainer *t = f->t;
    micro += f->first;
    int64_t left =
        f->n_samples - (micro * tx_grid_size(t->grid, TX_AXIS_DATA) + tx_grid_rank(t->grid, TX_AXIS_DATA)) * t->b;
    int64_t rows = left < 0 ? 0 : left < t->b ? left : t->b;
    return rows ? tx__trainer_feed_add(f, batch, rows, (double)rows) : TX_OK;
}

/* The n micro-batches of an evaluation; where it may be stopped, an iteration's worth at a time. */
static tx_status score(tx_trainer_feed *f, int64_t n, tx_stop *stop)
{
    tx_trainer *t = f->t;
    for (int64_t each = stop ? t->n_micro : n; f->first < n; f->first += each) {
        int64_t left = n - f->first;
        if (stop && f->first) TX_TRY(stop->ask(stop, &stop->stopped));
        if (stop && stop->stopped) return TX_OK;
        tx_stage_begin(&t->stage, &f->is);
        TX_TRY(tx_stage_run(&t->stage, left < each ? left : each, false));
        TX_TRY(tx_stage_end(&t->stage));
    }
    return TX_OK;
}

tx_status tx_trainer_score(tx_trainer *t, int64_t n_samples, tx_micro_batch_fn *read, void *user, double *mean,
                           tx_stop *stop)
{
    TX_ASSERT(t->want == TX_WANT_FORWARD && n_samples > 0);
    int64_t each = t->b * tx_grid_size(t->grid, TX_AXIS_DATA), n = (n_samples + each - 1) / each,
            p = tx_grid_size(t->grid, TX_AXIS_PIPELINE);
    if (t->model->n_chunks > 1) n = (n + p - 1) / p * p; /* the schedule's; what is too many has no samples */
    tx_trainer_feed f;
    tx__trainer_whole_length(t);
    tx__trainer_feed_init(&f, t);
    f.is.losses = add_score;
    f.read = read;
    f.read_user = user;
    f.n_samples = n_samples;
    TX_TRY(tx__trainer_begin_experts(t));
    TX_TRY(score(&f, n, stop));
    TX_TRY(tx__trainer_sum_experts(t, n));
    TX_TRY(tx_trainer_sum(t, f.sum, t->model->n_losses));
    for (int k = 0; k < t->model->n_losses; k++) mean[k] = f.sum[k] / (double)n_samples;
    return TX_OK;
}
