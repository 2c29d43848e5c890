/* loop.c - the pre-training loop. Order of events in an iteration as in Megatron-LM's train(): step, log, evaluate,
 * save, exits. */
#include "train/loop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/signals.h"
#include "train/bad_step.h"
#include "train/best.h"
#include "train/non_finite.h"
#include "train/saver.h"
#include "train/step_log.h"
#include "train/step_profile.h"
#include "train/trainer_feed.h"

/* What ranks tell each other behind an iteration. */
struct round {
    unsigned char exits, writes; /* a reason to end the run; a save beside the steps goes on */
};

typedef struct loop {
    tx_trainer *t;
    const tx_config *cfg;
    tx_loop_data data;
    tx_batch_reader *reader[TX_N_SPLITS]; /* one a group of the split's samples */
    tx_metrics *metrics;
    tx_step_profile profile;
    tx_step_log log;
    tx_saver saver;
    tx_best best;
    struct round *round; /* [ranks] */
    double start;        /* clock of the program's */
    const tx_also *also; /* NULL: nothing */
    tx_stop stop;        /* of evaluations, by a signal */
    bool save_is_due;    /* put off while steps are skipped: a run should not go on from where it may not get away */
    bool quiet;          /* a replay: what is bad is known, and nothing is written */
} loop;

void tx_train_sample_counts(const tx_config *cfg, int64_t *n)
{
    int64_t batch = cfg->global_batch_size;
    n[TX_SPLIT_TRAIN] = cfg->given.train_samples ? cfg->train_samples : cfg->train_iters * batch;
    if (cfg->data_efficiency_curriculum_learning) n[TX_SPLIT_TRAIN] = 0; /* of one epoch, from which all are drawn */
    n[TX_SPLIT_VALID] = (cfg->train_iters / cfg->eval_interval + 1) * cfg->eval_iters * batch;
    n[TX_SPLIT_TEST] = cfg->eval_iters * batch;
}

/* ---- steps of the run ---- */

/* Groups of samples that a split has. */
static int n_groups(const loop *l, tx_split k)
{
    return l->data.read[k] ? 1 : l->data.sets ? tx_train_data_groups(l->data.sets, k) : 0;
}

/* A tx_micro_batch_fn: this rank's part of what follows `begin` samples. */
typedef struct batches {
    tx_trainer *t;
    tx_batch_reader *from;
    int64_t begin;
    int64_t n_samples; /* of an evaluation, which is shown live; 0: training */
    double shown;      /* clock */
} batches;

static tx_status read_micro(void *user, int64_t micro, const void **rows)
{
    batches *r = user;
    int64_t each = r->t->b * tx_grid_size(r->t->grid, TX_AXIS_DATA), done = micro * each;
    TX_TRY(tx_batch_reader_read(r->from, r->t, r->begin + done));
    *rows = r->from->rows;
    if (!r->n_samples || tx_clock() - r->shown < TX_PROGRESS_SECONDS) return TX_OK;
    r->shown = tx_clock();
    tx_log(TX_LOG_PROGRESS, "evaluating %lld/%lld samples", (long long)done, (long long)r->n_samples);
    return TX_OK;
}

tx_status tx_train_evaluate(tx_trainer *t, tx_batch_reader *from, int64_t consumed, int64_t n_samples, double *loss,
                            tx_stop *stop)
{
    batches r = { .t = t, .from = from, .begin = consumed, .n_samples = n_samples, .shown = tx_clock() };
    return tx_trainer_score(t, n_samples, read_micro, &r, loss, stop);
}

static tx_status train_iteration(loop *l)
{
    tx_trainer *t = l->t;
    tx_batch_reader *from = l->reader[TX_SPLIT_TRAIN];
    tx_micro_batch_fn *own = l->data.read[TX_SPLIT_TRAIN];
    tx_metrics *m = l->metrics;
    int64_t last, iteration = t->iteration + 1, begin = tx_train_position(t->cfg, iteration, t->consumed_train_samples);
    tx_config_skipped_iterations(t->cfg, iteration, &last);
    if (last)
        tx_info("Skipped iterations %lld to %lld due to --skip-train-iteration-range flag.", (long long)iteration,
                (long long)last);
    tx_step_log_begin(&l->log, t);
    tx_step_profile_begin(&l->profile, t);
    batches r = { .t = t, .from = from, .begin = begin };
    tx_status st = own ? tx_trainer_train(t, own, l->data.user) : tx_trainer_train(t, read_micro, &r);
    if (st && st != TX_ERR_NUMERIC) return st;
    tx_metrics_step(m, t);
    tx_step_profile_end(&l->profile, t);
    tx_step_log_end(&l->log, t, own ? -1 : begin);
    if (l->quiet || own) return st;
    return tx_non_finite_is_fault(t) && t->grid->size == 1 ? tx_bad_step(t, from, st != TX_OK) : st;
}

/* What all ranks have to tell, in l->round. */
static tx_status gather_round(loop *l, struct round mine)
{
    l->round[0] = mine;
    return l->t->grid->size > 1
               ? tx_comm_gather(tx_grid_group(l->t->grid, TX_GROUP_WORLD), l->round, &mine, sizeof mine)
               : TX_OK;
}

/* A tx_stop's: whether any rank has seen a signal. Once it is so it stays so. */
static tx_status ask_for_signals(tx_stop *stop, bool *yes)
{
    loop *l = stop->user;
    if (!*yes) TX_TRY(gather_round(l, (struct round){ .exits = tx_signals_seen() }));
    for (int i = 0; i < l->t->grid->size; i++) *yes = *yes || l->round[i].exits;
    return TX_OK;
}

static tx_status evaluate_group(loop *l, tx_split k, int g, int64_t consumed, int64_t n, double *loss)
{
    if (l->data.read[k]) return tx_trainer_score(l->t, n, l->data.read[k], l->data.user, loss, &l->stop);
    return tx_train_evaluate(l->t, &l->reader[k][g], consumed, n, loss, &l->stop);
}

/* Every group of the split's samples by itself: the n that come after `consumed`. *of_first: the loss of the first
 * group, if it has one. */
static tx_status evaluate_split(loop *l, tx_split k, int64_t consumed, int64_t n, const char *where, double *of_first)
{
    for (int g = 0; g < n_groups(l, k); g++) {
        const char *name = NULL;
        double loss[TX_MAX_LOSSES];
        if (!l->data.read[k]) tx_train_data_group(l->data.sets, k, g, &name);
        TX_TRY(ask_for_signals(&l->stop, &l->stop.stopped));
        if (!l->stop.stopped) TX_TRY(evaluate_group(l, k, g, consumed, n, loss));
        if (l->stop.stopped) {
            tx_info("a signal has come: no evaluation at %s", where);
            return TX_OK;
        }
        if (!g) *of_first = tx__trainer_total(l->t, loss);
        tx_metrics_evaluation(l->t, name, where, loss);
        tx_metrics_evaluated(l->metrics, l->t, k == TX_SPLIT_TEST ? "test" : "validation", name, loss);
    }
    return TX_OK;
}

/* Rows of --finetune-valid-data, where all of them are evaluated each time; else 0. */
static int64_t whole_validation(const loop *l)
{
    if (!l->cfg->finetune_valid_data.n || l->cfg->given.eval_iters || !l->data.sets) return 0;
    return tx_train_data_group(l->data.sets, TX_SPLIT_VALID, 0, NULL)->n_samples;
}

static tx_status validate(loop *l, const char *where)
{
    tx_trainer *t = l->t;
    double since = tx_clock(), loss = NAN;
    int64_t whole = whole_validation(l), n = whole ? whole : l->cfg->eval_iters * tx_trainer_batch_size(t);
    if (n_groups(l, TX_SPLIT_VALID) && n) {
        TX_TRY(evaluate_split(l, TX_SPLIT_VALID, whole ? 0 : t->consumed_valid_samples, n, where, &loss));
        t->consumed_valid_samples += n; /* also where a signal has ended it: those that follow it stay the same */
    }
    if (l->also && !l->stop.stopped) TX_TRY(l->also->evaluate(l->also->user));
    tx_metrics_time(l->metrics, TX_TIMER_EVALUATE, since);
    since = tx_clock();
    TX_TRY(tx_best_offer(&l->best, loss));
    tx_metrics_time(l->metrics, TX_TIMER_SAVE, since);
    return TX_OK;
}

/* Whether the run has its length. */
static bool has_ended(const tx_trainer *t)
{
    const tx_config *cfg = t->cfg;
    return t->iteration >= cfg->train_iters || (cfg->train_tokens && t->consumed_train_tokens >= cfg->train_tokens);
}

/* Of a run that had its length when it was loaded. */
static void say_finished(const tx_trainer *t)
{
    const tx_config *cfg = t->cfg;
    if (t->iteration < cfg->train_iters)
        tx_warn("%s has consumed %lld tokens, and --train-tokens is %lld: nothing is left to train; raise "
                "--train-tokens to go on",
                t->loaded, (long long)t->consumed_train_tokens, (long long)cfg->train_tokens);
    else if (cfg->given.train_samples)
        tx_warn("%s has consumed %lld samples, and --train-samples is %lld: nothing is left to train; raise "
                "--train-samples to go on",
                t->loaded, (long long)t->consumed_train_samples, (long long)cfg->train_samples);
    else
        tx_warn("%s is at iteration %lld, and --train-iters is %lld: nothing is left to train; raise --train-iters to "
                "go on",
                t->loaded, (long long)t->iteration, (long long)cfg->train_iters);
}

/* Not when that is under way beside the steps. */
static bool is_to_be_saved(const loop *l)
{
    return l->cfg->save && l->saver.iteration != l->t->iteration;
}

/* The time that the steps stood still for it. */
static void time_save(loop *l, double since)
{
    double ms = 1e3 * (tx_metrics_time(l->metrics, TX_TIMER_SAVE, since) - since);
    tx_log_timers(l->cfg, 1, (const char *const[]){ "save-checkpoint" }, &ms);
}

/* In mid-run. That of the last iteration is left to save_last, which makes more than one attempt; beside the steps it
 * may as well begin here. */
static tx_status save(loop *l)
{
    l->save_is_due = false;
    if (!is_to_be_saved(l) || (has_ended(l->t) && !l->cfg->async_save)) return TX_OK;
    double since = tx_clock();
    TX_TRY(tx_saver_save(&l->saver));
    time_save(l, since);
    return TX_OK;
}

static tx_status save_last(loop *l)
{
    if (!l->cfg->save) return TX_OK;
    double since = tx_clock();
    bool begins = is_to_be_saved(l);
    TX_TRY(tx_saver_save_last(&l->saver));
    if (begins)
        time_save(l, since);
    else
        tx_metrics_time(l->metrics, TX_TIMER_SAVE, since);
    return TX_OK;
}

static tx_status tell_profile(loop *l, bool over)
{
    double since = tx_clock();
    TX_TRY(tx_step_profile_tell(&l->profile, l->t, over));
    tx_metrics_pause(l->metrics, since);
    return TX_OK;
}

static bool kill_switch(const tx_config *cfg)
{
    return cfg->kill_switch_file && tx_path_exists(cfg->kill_switch_file);
}

/* Whether this rank sees a reason to end the run here, and which. */
static bool sees_exit(const loop *l, char *why, size_t cap)
{
    const tx_config *cfg = l->cfg;
    long long iteration = (long long)l->t->iteration;
    double minutes = (tx_clock() - l->start) / 60;
    if (tx_signals_seen())
        snprintf(why, cap, "exiting program after receiving %s.", tx_signals_name());
    else if (cfg->given.exit_duration_in_mins && minutes > (double)cfg->exit_duration_in_mins)
        snprintf(why, cap, "exiting program after %.1f minutes", minutes);
    else if (cfg->given.exit_interval && iteration % cfg->exit_interval == 0)
        snprintf(why, cap, "exiting program at iteration %lld", iteration);
    else if (kill_switch(cfg))
        snprintf(why, cap, "Detected kill switch at %.3000s, iteration=%lld. Exiting", cfg->kill_switch_file,
                 iteration);
    else
        return false;
    return true;
}

/* The same for all ranks: the reason of the first one that has any, for signals, clocks and files show at different
 * times. *writing: any of them still writes a checkpoint. */
static tx_status wants_exit(loop *l, char *why, size_t cap, bool *yes, bool *writing)
{
    tx_comm *world = tx_grid_group(l->t->grid, TX_GROUP_WORLD);
    int n = tx_comm_size(world), first = 0;
    struct round mine = { .exits = sees_exit(l, why, cap), .writes = tx_saver_writes(&l->saver) };
    TX_TRY(gather_round(l, mine));
    *writing = false;
    for (int i = 0; i < n; i++) *writing = *writing || l->round[i].writes;
    while (first < n && !l->round[first].exits) first++;
    *yes = first < n;
    return *yes && n > 1 ? tx_comm_spread(world, why, cap, first) : TX_OK;
}

/* What is left to do for a checkpoint that steps go on beside. */
static tx_status go_on_saving(loop *l, bool writing)
{
    double since = tx_clock();
    if (!l->saver.pending) return TX_OK;
    TX_TRY(tx_saver_step(&l->saver, !writing));
    tx_metrics_time(l->metrics, TX_TIMER_SAVE, since);
    return TX_OK;
}

/* *left: by one of the exits, which end the program without the closing evaluation. */
static tx_status train(loop *l, bool *left)
{
    tx_trainer *t = l->t;
    const tx_config *cfg = l->cfg;
    char text[3200];
    bool writing;
    if (has_ended(t) && t->loaded && t->grid->rank == 0) say_finished(t);
    tx_metrics_phase("before the start of training step");
    while (!has_ended(t)) {
        TX_TRY(train_iteration(l));
        TX_TRY(tell_profile(l, false));
        if (t->iteration % cfg->eval_interval == 0) {
            snprintf(text, sizeof text, "iteration %lld", (long long)t->iteration);
            TX_TRY(validate(l, text));
        }
        if (cfg->given.save_interval && t->iteration % cfg->save_interval == 0) l->save_is_due = true;
        if (l->save_is_due && !tx_non_finite_is_fault(t)) TX_TRY(save(l));
        TX_TRY(wants_exit(l, text, sizeof text, left, &writing));
        if (!*left) TX_TRY(go_on_saving(l, writing));
        if (!*left) continue;
        TX_TRY(tell_profile(l, true));
        TX_TRY(save_last(l));
        tx_metrics_phase(text);
        return TX_OK;
    }
    TX_TRY(tell_profile(l, true));
    tx_metrics_phase("after training is done");
    return t->iteration ? save_last(l) : TX_OK;
}

/* What comes before the next step of the loop, as the words of a signal that comes now have it. */
static void say_what_signals_do(const loop *l)
{
    const tx_config *cfg = l->cfg;
    bool trains = !cfg->skip_train && !has_ended(l->t);
    tx_signals_take(!trains     ? "the run ends after this step of the evaluation; there is nothing left to save"
                    : cfg->save ? "the run saves and ends after this iteration"
                                : "the run ends after this iteration and saves nothing, for there is no --save");
}

static tx_status run(loop *l)
{
    tx_trainer *t = l->t;
    const tx_config *cfg = l->cfg;
    char where[96];
    bool left = false;
    if (cfg->skip_train) {
        tx_info("skipping training (--skip-train is on) ...");
    } else {
        tx_info("training ...");
        TX_TRY(train(l, &left));
    }
    if (left) return TX_OK;
    say_what_signals_do(l);
    l->metrics->closing = true;
    int64_t n = cfg->eval_iters * tx_trainer_batch_size(t), consumed = t->consumed_valid_samples;
    long long shown = (long long)(cfg->eval_iters * cfg->global_batch_size); /* upstream's count in a ramp-up, too */
    double loss;
    snprintf(where, sizeof where, "iteration %lld on %lld-sample draw from validation set", (long long)t->iteration,
             whole_validation(l) ? (long long)whole_validation(l) : shown);
    TX_TRY(validate(l, where));
    t->consumed_valid_samples = consumed; /* the closing evaluation is no part of the run's history */
    snprintf(where, sizeof where, "iteration %lld on %lld-sample draw from test set", (long long)t->iteration, shown);
    return n ? evaluate_split(l, TX_SPLIT_TEST, 0, n, where, &loss) : TX_OK;
}

static tx_status open_readers(loop *l)
{
    for (int k = 0; k < TX_N_SPLITS; k++) {
        int n = n_groups(l, (tx_split)k);
        if (l->data.read[k]) continue;
        TX_TRY(tx_alloc(&l->reader[k], (size_t)n, sizeof *l->reader[k], "a batch"));
        for (int g = 0; g < n; g++)
            TX_TRY(
                tx_batch_reader_open(&l->reader[k][g], l->t, tx_train_data_group(l->data.sets, (tx_split)k, g, NULL)));
        if (k == TX_SPLIT_TRAIN && n && l->cfg->data_efficiency_curriculum_learning && !l->cfg->skip_train)
            TX_TRY(tx_batch_reader_draw(l->reader[k], l->t));
    }
    return TX_OK;
}

static void close_readers(loop *l)
{
    for (int k = 0; k < TX_N_SPLITS; k++) {
        for (int g = 0; l->reader[k] && g < n_groups(l, (tx_split)k); g++) tx_batch_reader_close(&l->reader[k][g]);
        tx_free(l->reader[k]);
    }
}

/* What there is to be trained on is there. */
static tx_status check_data(const loop *l)
{
    if (n_groups(l, TX_SPLIT_TRAIN) || l->cfg->skip_train) return TX_OK;
    if (!l->data.sets) return TX_FAIL(TX_ERR_ARG, "a run needs data for training, or --skip-train");
    return TX_FAIL(TX_ERR_ARG, "--split %s leaves no document for training", l->cfg->split);
}

tx_status tx_train_loop(tx_trainer *t, const tx_loop_data *data, tx_metrics *metrics, double start, const tx_also *also)
{
    loop l = {
        .t = t,
        .cfg = t->cfg,
        .data = *data,
        .metrics = metrics,
        .start = start,
        .also = also,
    };
    tx_status st;
    TX_TRY(check_data(&l));
    l.stop = (tx_stop){ .ask = ask_for_signals, .user = &l };
    TX_GOTO(tx_alloc(&l.round, (size_t)t->grid->size, sizeof *l.round, "the ranks' exits"));
    TX_GOTO(tx_saver_open(&l.saver, t));
    TX_GOTO(tx_saver_foresee(&l.saver));
    TX_GOTO(tx_best_open(&l.best, t));
    TX_GOTO(open_readers(&l));
    tx_metrics_start(metrics, t);
    if (!t->cfg->skip_train) TX_GOTO(tx_step_profile_open(&l.profile, t, metrics->peak_flops));
    say_what_signals_do(&l);
    TX_GOTO(run(&l));
out:
    tx_saver_close(&l.saver, st);
    tx_step_profile_close(&l.profile, t);
    close_readers(&l);
    tx_free(l.round);
    return st;
}

tx_status tx_train_until(tx_trainer *t, const tx_train_data *data, int64_t iteration)
{
    tx_metrics metrics = { 0 };
    loop l = { .t = t, .cfg = t->cfg, .data = { .sets = data }, .metrics = &metrics, .quiet = true };
    tx_status st;
    TX_GOTO(open_readers(&l));
    tx_metrics_start(&metrics, t);
    while (t->iteration < iteration) TX_GOTO(train_iteration(&l));
out:
    close_readers(&l);
    return st;
}
