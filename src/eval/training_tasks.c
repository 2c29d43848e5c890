/* training_tasks.c - tasks of --eval-tasks at an evaluation. */
#include "eval/training_tasks.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

/* "LAMBADA=FILE", which the rules have looked at. */
static tx_task_opts options_of(const tx_config *cfg, const char *item)
{
    tx_task_opts o = { .seq_length = cfg->seq_length, .strict = cfg->strict_lambada };
    o.kind = tx_task_of_item(item, &o.file);
    TX_ASSERT(o.kind);
    if (tx_task_has_windows(o.kind)) o.overlap = cfg->overlapping_eval;
    return o;
}

static tx_status open_tasks(tx_training_tasks *x, const tx_tokenizer *tok)
{
    const tx_config *cfg = x->t->cfg;
    for (int i = 0; i < x->n; i++) {
        const tx_task_opts o = options_of(cfg, cfg->eval_tasks.item[i]);
        TX_TRY(tx_task_open(&x->task[i], &o, tok));
        tx_info(" > task %s: %lld of %s", tx_task_kind_word(o.kind), (long long)x->task[i].n_items, o.file);
    }
    return TX_OK;
}

/* ---- at an evaluation ---- */

/* What the leaders have counted, of all tasks; others have counted nothing. */
static tx_status sum_over_data(const tx_training_tasks *x)
{
    const tx_grid *g = x->t->grid;
    TX_TRY(tx_comm_gather(tx_grid_group(g, TX_GROUP_DATA), x->all, x->sums, (size_t)x->n * sizeof *x->sums));
    memset(x->sums, 0, (size_t)x->n * sizeof *x->sums);
    for (int i = 0; i < tx_grid_sharers(g) * x->n; i++) {
        tx_task_sums *s = &x->sums[i % x->n];
        s->n_items += x->all[i].n_items;
        s->n_correct += x->all[i].n_correct;
        s->n_correct_norm += x->all[i].n_correct_norm;
        s->n_targets += x->all[i].n_targets;
        s->nats += x->all[i].nats;
    }
    return TX_OK;
}

static tx_status tell(const tx_training_tasks *x, const tx_task *t, const tx_task_result *r)
{
    const char *slash = strrchr(t->opts.file, '/');
    char name[320];
    tx_str line = { 0 };
    snprintf(name, sizeof name, "%s %.256s", tx_task_kind_word(t->opts.kind), slash ? slash + 1 : t->opts.file);
    tx_status st = tx_task_result_line(&line, t, r);
    if (!st) tx_boxed_lines(line.data, NULL, NULL);
    tx_str_free(&line);
    tx_metrics_scored(x->metrics, x->t, name, r->loss, r->number, r->n);
    return st;
}

static tx_status lead(const tx_training_tasks *x)
{
    const tx_axis *dp = &x->t->grid->axis[TX_AXIS_DATA];
    for (int i = 0; i < x->n; i++) TX_TRY(tx_task_run(&x->task[i], x->decoder, dp->rank, dp->size, &x->sums[i], NULL));
    return TX_OK;
}

static tx_status tell_all(const tx_training_tasks *x)
{
    for (int i = 0; i < x->n; i++) {
        tx_task_result r = tx_task_result_of(&x->task[i], &x->sums[i]);
        TX_TRY(tell(x, &x->task[i], &r));
    }
    return TX_OK;
}

/* tx_also.evaluate */
static tx_status evaluate(void *user)
{
    tx_training_tasks *x = user;
    tx_comm *world = tx_grid_group(x->t->grid, TX_GROUP_WORLD);
    tx_status st;
    memset(x->sums, 0, (size_t)x->n * sizeof *x->sums);
    tx__trainer_note(x->t, "at the tasks of --eval-tasks");
    if (tx_decoder_leads(x->decoder)) {
        st = lead(x);
        tx_status dismissed = tx_decoder_dismiss(x->decoder);
        if (!st) st = dismissed;
    } else {
        st = tx_decoder_follow(x->decoder);
    }
    TX_TRY(tx_comm_agree(world, st));
    TX_TRY(sum_over_data(x));
    return tx_comm_agree(world, tx_decoder_leads(x->decoder) ? tell_all(x) : TX_OK);
}

/* ---- opening ---- */

tx_status tx_training_tasks_open(tx_training_tasks *x, tx_trainer *t, const tx_tokenizer *tok, tx_metrics *metrics)
{
    const tx_config *cfg = t->cfg;
    const tx_grid *g = t->grid;
    *x = (tx_training_tasks){ .t = t, .metrics = metrics, .n = cfg->eval_tasks.n };
    x->also = (tx_also){ evaluate, x };
    if (!x->n) return TX_OK;
    tx_status st;
    TX_GOTO(tx_alloc(&x->all, (size_t)(tx_grid_sharers(g) * x->n), sizeof *x->all, "the counts of all ranks"));
    TX_GOTO(tx_alloc(&x->sums, (size_t)x->n, sizeof *x->sums, "the counts of the tasks"));
    TX_GOTO(tx_alloc(&x->task, (size_t)x->n, sizeof *x->task, "the tasks"));
    if (tx_comm_rank(tx_grid_samples_group(g)) == 0) TX_GOTO(open_tasks(x, tok));
out:
    TX_TRY(tx_comm_agree(tx_grid_group(g, TX_GROUP_WORLD), st));
    const tx_decoder_opts opts = { .backend = tx_device_choice_word(cfg->device),
                                   .n_threads = (int)cfg->threads,
                                   .n_slots = 1,
                                   .max_len = cfg->seq_length };
    return tx_comm_agree(tx_grid_group(g, TX_GROUP_WORLD), tx_decoder_create(&x->decoder, t->model, g, &opts));
}

void tx_training_tasks_close(tx_training_tasks *x)
{
    tx_decoder_destroy(x->decoder);
    for (int i = 0; x->task && i < x->n; i++) tx_task_close(&x->task[i]);
    tx_free(x->task);
    tx_free(x->sums);
    tx_free(x->all);
    *x = (tx_training_tasks){ 0 };
}
