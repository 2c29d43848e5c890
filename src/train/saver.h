/* saver.h - the checkpoints of a run: while the steps stand still, or with --async-save while they go on.
 *
 *      the rank's thread     step | copy, begin | step | step | step | finish | step
 *      one of its own                           | write .........|
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
    bool pending;       /* an iteration is to be saved and is not yet */
    bool under_way;     /* an attempt has begun */
    bool beside;        /* of a copy, beside the steps */
    bool ending;        /* there is no later iteration to be saved */
    int64_t iteration;  /* that is pending, or was saved last; -1: none */
    int n_failed;       /* attempts at it */
    int64_t retry_at;   /* iteration of the next one */
    int64_t n_given_up; /* iterations in a row that could not be saved */
    int64_t good;       /* the last iteration that was saved; -1: none was */
    /* this rank's: */
    tx_snapshot what; /* config NULL: not taken yet */
    tx_save *save;    /* of the attempt; NULL: this rank writes nothing */
    pthread_t thread;
    bool threaded;
    atomic_bool written;
    double since; /* clock of the attempt */
    tx_status why_status;
    char why[4096]; /* the last attempt failed */
} tx_saver;

/* Of a zeroed struct; close frees it. For a run that resumes from a checkpoint in --save, that one counts as safe.
 * Collective. */
tx_status tx_saver_open(tx_saver *s, tx_trainer *t);

/* Before the first step: a warning where the saves to come take more than the disk of --save has free. Collective. */
tx_status tx_saver_foresee(const tx_saver *s);

/* Saves from `iteration` on until the run's end, which --train-tokens and --exit-interval may bring earlier than
 * --train-iters. @tokens consumed */
int64_t tx__saver_to_come(const tx_config *cfg, int64_t iteration, int64_t tokens);

/* Whether the trainer's iteration is safe: it was saved last. */
static inline bool tx_saver_has(const tx_saver *s)
{
    return !s->pending && s->iteration == s->t->iteration;
}

/* Whether this rank still writes beside the steps. */
bool tx_saver_writes(const tx_saver *s);

/* Saves the trainer's iteration in mid-run; with --async-save begins to. What is still pending is waited for and, if it
 * fails, given up. Collective, as those below. Errors: what no later attempt may cure, and more failures in a row than
 * --max-failed-saves. */
tx_status tx_saver_save(tx_saver *s);

/* After a step. @all_written: no rank writes. Finishes an attempt of --async-save, or makes the next one. */
tx_status tx_saver_step(tx_saver *s, bool all_written);

/* At the end of a run: waits for what is pending, and saves the trainer's iteration if that is not safe yet. */
tx_status tx_saver_save_last(tx_saver *s);

/* Ends it. @st how the run ended: an attempt that has begun is finished where all ranks can be expected to take part.
 * Keeps the sentence of the error. */
void tx_saver_close(tx_saver *s, tx_status st);

#endif
