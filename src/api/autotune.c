/* autotune.c - the job of triax deepspeed --autotuning: which layout is measured next, what that says of the others,
 * and when it is enough. */
#include "api/autotune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/tokenizer_of.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "triax/launch.h"

enum { VAIN_TRIALS = 3 }; /* no more, where the first ones all fail */

/* At the end so many layouts are measured again, so often, that took at most so much longer than the fastest. */
enum { FINALISTS = 4, LOOKS = 2 };
#define CLOSE 1.15

double tx__tuning_score(const tx__tuning_job *j, const tx__tuned *l, double seconds)
{
    return j->set.latency ? seconds : seconds / (double)l->global_batch;
}

tx__tuned *tx__tuning_best(tx__tuning_job *j)
{
    tx__tuned *best = NULL;
    for (int i = 0; i < j->n; i++) {
        tx__tuned *l = &j->layout[i];
        if (!(l->measured > 0)) continue;
        if (!best || tx__tuning_score(j, l, l->measured) < tx__tuning_score(j, best, best->measured)) best = l;
    }
    return best;
}

/* ---- which is next ---- */

/* The untried layout that may turn out to be the fastest. By a grid each will be tried; otherwise NULL where none can
 * be expected to be faster than the best. */
static tx__tuned *next_of(tx__tuning_job *j)
{
    bool all = j->set.grid;
    const tx__tuned *best = tx__tuning_best(j);
    tx__tuned *next = NULL;
    double least = !all && best ? tx__tuning_score(j, best, best->measured) : INFINITY, spread;
    for (int i = 0; i < j->n; i++) {
        tx__tuned *l = &j->layout[i];
        if (l->tried || !(l->predicted > 0)) continue;
        double times = tx_correction_of(&j->correction, &l->is, &spread);
        double score = tx__tuning_score(j, l, l->predicted) * (all ? 1 : times * exp(-spread));
        if (score >= least) continue;
        least = score;
        next = l;
    }
    return next;
}

static void learn(tx__tuning_job *j, const tx__tuned *l)
{
    if (l->measured > 0 && l->predicted > 0)
        tx_correction_learn(&j->correction, &l->is, l->measured / l->predicted, l->spread);
}

/* ---- trials ---- */

static tx_status say_begin(const tx__tuning_job *j, const tx__tuned *l)
{
    tx_str words = { 0 };
    char expected[96] = "";
    double spread, times = tx_correction_of(&j->correction, &l->is, &spread);
    if (l->predicted > 0) snprintf(expected, sizeof expected, ": %.1f ms predicted", 1e3 * l->predicted);
    if (l->predicted > 0 && j->n_tried)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), ", %.1f ms corrected",
                 1e3 * l->predicted * times);
    tx_status st = tx__tuning_words(&words, l);
    if (!st)
        tx_info("trial %d of at most %lld: %s%s", j->n_tried + 1, (long long)j->set.tuner_num_trials, words.data,
                expected);
    tx_str_free(&words);
    return st;
}

static void say_end(const tx__tuned *l)
{
    if (!(l->measured > 0))
        tx_warn("%s could not be measured: %s", l->name, l->why);
    else if (l->predicted > 0)
        tx_info("    %.1f ms measured; the prediction was off by %+.1f %%", 1e3 * l->measured,
                100 * (l->predicted / l->measured - 1));
    else
        tx_info("    %.1f ms measured", 1e3 * l->measured);
}

static tx_status recall(tx__tuning_job *j)
{
    for (int i = 0; i < j->n; i++) {
        if (j->layout[i].tried) continue; /* it does not fit */
        TX_TRY(tx__tuning_recall(j, &j->layout[i]));
        if (!j->layout[i].tried) continue;
        j->n_tried++;
        learn(j, &j->layout[i]);
    }
    if (j->n_tried) tx_info("%d layouts were measured by earlier calls (%s)", j->n_tried, j->set.results_dir);
    return TX_OK;
}

/* Whether the run itself seems to fail, not a layout. */
static bool all_in_vain(const tx__tuning_job *j)
{
    int n = 0;
    for (int i = 0; i < j->n; i++) {
        if (j->layout[i].measured > 0) return false;
        n += j->layout[i].why != NULL;
    }
    return n >= VAIN_TRIALS;
}

/* *recalled: trials of earlier calls */
static tx_status try_all(tx__tuning_job *j, int *recalled)
{
    int64_t idle = 0;
    TX_TRY(recall(j));
    *recalled = j->n_tried;
    tx__tuned *next = j->layout[0].tried ? next_of(j) : &j->layout[0];
    for (; next && j->n_tried < j->set.tuner_num_trials; next = next_of(j)) {
        if (idle >= j->set.tuner_early_stopping || all_in_vain(j)) return TX_OK;
        TX_TRY(say_begin(j, next));
        TX_TRY(tx__tuning_measure(j, next));
        if (j->stopped) return TX_OK;
        j->n_tried++;
        idle = tx__tuning_best(j) == next ? 0 : idle + 1;
        say_end(next);
        learn(j, next);
        TX_TRY(tx__tuning_publish(j));
    }
    return TX_OK;
}

/* ---- the last look ---- */

/* The layout of those not in `seen` that took the least time, if it may be the fastest for all that a busy machine has
 * added; NULL: no more. */
static tx__tuned *next_close(tx__tuning_job *j, tx__tuned *const *seen, int n)
{
    const tx__tuned *best = tx__tuning_best(j);
    tx__tuned *next = NULL;
    for (int i = 0; i < j->n && best; i++) {
        tx__tuned *l = &j->layout[i];
        bool again = false;
        for (int k = 0; k < n; k++) again = again || seen[k] == l;
        if (again || !(l->measured > 0)) continue;
        if (tx__tuning_score(j, l, l->measured) > CLOSE * tx__tuning_score(j, best, best->measured)) continue;
        if (!next || tx__tuning_score(j, l, l->measured) < tx__tuning_score(j, next, next->measured)) next = l;
    }
    return next;
}

/* Whatever else runs makes a layout slower, not faster: of its times the shortest counts. */
static tx_status measure_again(tx__tuning_job *j, tx__tuned *l)
{
    tx__tuned before = *l;
    TX_TRY(tx__tuning_measure(j, l));
    if (!j->stopped)
        tx_info("%s once more: %.1f ms, %.1f ms before", l->name, 1e3 * l->measured, 1e3 * before.measured);
    if (!j->stopped && !l->why && l->measured < before.measured) return TX_OK;
    tx_free(l->why);
    *l = before;
    return tx__tuning_keep(j, l);
}

/* The fastest ones once more, in turns, so that luck does not choose among them. */
static tx_status compare_best(tx__tuning_job *j)
{
    tx__tuned *seen[FINALISTS];
    int n = 0;
    while (n < FINALISTS && (seen[n] = next_close(j, seen, n))) n++;
    for (int i = 0; i < LOOKS * n && n > 1 && !j->stopped; i++) TX_TRY(measure_again(j, seen[i % n]));
    return TX_OK;
}

/* ---- the run that is tuned ---- */

static tx_status find_vocabulary(tx__tuning_job *j)
{
    tx_tokenizer *tok;
    TX_TRY(tx__tokenizer_of(j->cfg, NULL, &tok));
    j->vocab_size = tx_tokenizer_vocab_size(tok);
    tx_tokenizer_close(tok);
    return TX_OK;
}

static tx_status parse_run(tx__tuning_job *j)
{
    char ranks[40], **argv = NULL;
    const char *name = j->line.program[0];
    if (tx_command_find(name)->load != TX_LOAD_RESUMES)
        return TX_FAIL(TX_ERR_ARG,
                       "--autotuning: %.80s is triax %s, which does not train; pretrain-gpt and pretrain-bert do",
                       j->line.cfg->script, name);
    if (j->line.cfg->dry_run)
        return TX_FAIL(TX_ERR_ARG, "--autotuning measures: leave --dry-run out; triax plan --search only predicts");
    TX_TRY(tx_alloc(&argv, (size_t)j->line.n_program, sizeof *argv, "a command line"));
    snprintf(ranks, sizeof ranks, "--world-size=%d", j->line.n_ranks);
    argv[0] = ranks;
    for (int i = 1; i < j->line.n_program; i++) argv[i] = j->line.program[i];
    tx_status st = tx_config_parse(&j->cfg, name, j->line.n_program, argv);
    tx_free(argv);
    if (st) return st;
    if (!j->cfg->num_layers || !j->cfg->hidden_size)
        return TX_FAIL(TX_ERR_ARG, "--autotuning starts from initial weights: give the model's shape, --num-layers, "
                                   "--hidden-size and their kin, besides --load");
    TX_TRY(tx_tuning_read(&j->set, j->cfg->deepspeed_config));
    return find_vocabulary(j);
}

/* ---- the end of it ---- */

static tx_status show_table(tx__tuning_job *j)
{
    tx_str text = { 0 };
    tx_status st = tx__tuning_table(&text, j);
    for (char *rest = NULL, *line = st ? NULL : strtok_r(text.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        tx_info("%s", line);
    tx_str_free(&text);
    return st;
}

static tx_status finish(tx__tuning_job *j)
{
    const tx__tuned *best = tx__tuning_best(j);
    if (!best && j->n_tried)
        return TX_FAIL(TX_ERR_STATE, "--autotuning: no layout could be measured; of %s: %s", j->layout[0].name,
                       j->layout[0].why ? j->layout[0].why : "not tried");
    if (!best) return TX_OK;
    TX_TRY(tx__tuning_publish(j));
    TX_TRY(show_table(j));
    tx_info("%s is the fastest that was measured; %s/cmd_optimal.txt has its command, ds_config_optimal.json beside it "
            "what of that DeepSpeed's file can say",
            best->name, j->set.results_dir);
    return TX_OK;
}

/* Trains in the best layout, in this process's place. */
static tx_status train(tx__tuning_job *j, int *code)
{
    json_t *words, *word;
    char **argv = NULL;
    size_t i;
    TX_TRY(tx__tuning_line(&words, j, tx__tuning_best(j), NULL));
    tx_status st = tx_alloc(&argv, json_array_size(words) + 1, sizeof *argv, "a command line");
    if (!st) {
        json_array_foreach(words, i, word) argv[i] = (char *)json_string_value(word);
        st = tx_deepspeed((int)json_array_size(words) - 1, argv + 1, code);
    }
    tx_free(argv);
    json_decref(words);
    return st;
}

static void close_job(tx__tuning_job *j)
{
    for (int i = 0; i < j->n; i++) tx_free(j->layout[i].why);
    tx_free(j->layout);
    tx_machine_free(&j->machine);
    tx_tuning_free(&j->set);
    tx_config_free(j->cfg);
    tx_deepspeed_line_free(&j->line);
}

static tx_status tune(tx__tuning_job *j, int *code)
{
    enum tx_autotuning mode = j->line.cfg->autotuning;
    TX_TRY(parse_run(j));
    TX_TRY(tx__tuning_open(j));
    if (!j->stopped) TX_TRY(tx__tuning_list(j));
    int recalled = 0;
    if (!j->stopped) TX_TRY(try_all(j, &recalled));
    if (!j->stopped && j->n_tried > recalled) TX_TRY(compare_best(j));
    TX_TRY(finish(j));
    if (j->stopped) {
        *code = 128 + j->stopped;
        tx_warn("stopped: %s has what was measured, and the next call goes on from there", j->set.results_dir);
        return TX_OK;
    }
    return mode == TX_AUTOTUNING_RUN ? train(j, code) : TX_OK;
}

tx_status tx_autotune(int argc, char *const *argv, int *code)
{
    tx__tuning_job j = { .start = tx_clock() };
    *code = 0;
    tx_correction_start(&j.correction);
    tx_status st = tx_deepspeed_line_read(&j.line, argc, argv);
    if (!st) st = j.line.cfg->autotuning ? tune(&j, code) : tx_deepspeed(argc, argv, code);
    close_job(&j);
    return st;
}
