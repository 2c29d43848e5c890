/* saver.h - saves the checkpoints of a run: between steps, or with --async-save while the steps continue.
 *
 *      the rank's thread     step | copy, begin | step | step | step | finish | step
 *      a second thread                          | write .........|
 *
 *  With --async-save the state is copied to memory that is taken at the start (tx_memory.saving), else it is written
 * from where it is, by the rank's own thread. At most one iteration is being saved. Ranks communicate at begin and
 * finish only, between steps, by their own threads; that all have written is found with what they exchange after each
 * step anyway (loop.c). An attempt may fail for a curable reason: no space, no memory, a disk's error. In mid-run the
 * next attempt is that of the next iteration to be saved, and with --async-save the copy is tried again until then. An
 * iteration that could not be saved is a warning, more than --max-failed-saves of them in a row are the error that ends
 * the run. At the end of a run there is no later one: some attempts are made, and the failure of the last is the error.
 */
#ifndef TX_TRAIN_SAVER_H
#define TX_TRAIN_SAVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "train/trainer.h"

typedef struct tx_saver {
    tx_trainer *t;   /* borrowed, as is dir */
    const char *dir; /* --save; NULL: nothing is saved */
    int *results;    /* [ranks] of an attempt; owned */
    /* the same on all ranks: */
    bool pending;       /* an iteration is still to be saved */
    bool under_way;     /* an attempt is in progress */
    bool beside;        /* it writes a copy while steps continue */
    bool ending;        /* there is no later iteration to be saved */
    int64_t iteration;  /* the iteration that is pending, or was saved last; -1: none */
    int n_failed;       /* failed attempts to save it */
    int64_t retry_at;   /* iteration of the next attempt */
    int64_t n_given_up; /* iterations in a row that could not be saved */
    int64_t good;       /* the last iteration that was saved; -1: none was */
    /* this rank's: */
    tx_snapshot what; /* config NULL: none yet */
    tx_save *save;    /* the attempt's; NULL: this rank writes nothing */
    pthread_t thread;
    bool threaded;
    atomic_bool written;
    double since; /* clock of the attempt */
    tx_status why_status;
    char why[4096]; /* why the last attempt failed */
} tx_saver;

/* Of a zeroed struct; close frees it. For a run that resumes from a checkpoint in --save, that one counts as safe.
 * Collective. */
tx_status tx_saver_open(tx_saver *s, tx_trainer *t);

/* Before the first step: warns if the coming saves need more space than the disk of --save has free. Collective. */
tx_status tx_saver_foresee(const tx_saver *s);

/* Number of saves from `iteration` to the end of the run, which --train-tokens and --exit-interval may move before
 * --train-iters. @tokens consumed */
int64_t tx__saver_to_come(const tx_config *cfg, int64_t iteration, int64_t tokens);

/* Whether the trainer's iteration is saved. */
static inline bool tx_saver_has(const tx_saver *s)
{
    return !s->pending && s->iteration == s->t->iteration;
}

/* Whether this rank is still writing while steps continue. */
bool tx_saver_writes(const tx_saver *s);

/* Saves the trainer's iteration during the run; with --async-save it only begins to. First waits for a pending save,
 * which is given up if it fails. Collective, like the calls below. Errors: those that no later attempt can cure, and
 * more failures in a row than --max-failed-saves. */
tx_status tx_saver_save(tx_saver *s);

/* After a step: finishes an attempt of --async-save, or starts the next one.
 * @all_written no rank is writing */
tx_status tx_saver_step(tx_saver *s, bool all_written);

/* At the end of a run: waits for the pending save, and saves the trainer's iteration if it is not saved yet. */
tx_status tx_saver_save_last(tx_saver *s);

/* Ends it. @st how the run ended: an attempt that has begun is finished where all ranks can be expected to take part.
 * Keeps the sentence of the error. */
void tx_saver_close(tx_saver *s, tx_status st);

#endif
