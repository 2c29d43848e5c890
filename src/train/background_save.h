/* background_save.h - --async-save: steps go on while a checkpoint is written.
 *
 *      the rank's thread     step | copy, begin | step | step | step | finish | step
 *      one of its own                           | write .........|
 *
 *  The copy is memory that is taken at the start (tx_memory.saving). At most one iteration is under way. Ranks speak to
 * each other at begin and finish only, between steps, by their own thread; that all have written is found with what
 * they exchange behind each step anyway (loop.c). An attempt that fails for want of space, memory or a sound disk is
 * told in a warning and made again from the same copy, until it succeeds or the next iteration to be saved needs the
 * room. */
#ifndef TX_TRAIN_BACKGROUND_SAVE_H
#define TX_TRAIN_BACKGROUND_SAVE_H

#include <pthread.h>
#include <stdatomic.h>

#include "train/trainer.h"

typedef struct tx_background_save {
    tx_trainer *t;   /* borrowed, as is dir */
    const char *dir; /* --save; NULL: nothing is saved */
    /* the same on all ranks: */
    bool pending;     /* the copy is of an iteration that is not safe yet */
    bool under_way;   /* an attempt has begun */
    int n_failed;     /* attempts */
    int64_t retry_at; /* iteration */
    /* this rank's: */
    tx_snapshot what;
    tx_ckpt_save *save; /* of the attempt; NULL: this rank writes nothing */
    pthread_t thread;
    bool threaded;
    atomic_bool written;
    double since; /* clock of the attempt */
    tx_status why_status;
    char why[1024]; /* the last attempt failed */
} tx_background_save;

/* Whether this rank still writes. */
bool tx_background_save_writes(const tx_background_save *b);

/* Copies the trainer's state and begins to save it. Nothing may be pending. Collective, as those below. Errors: those
 * of tx_trainer_snapshot and of the communication; what a later attempt may cure is a warning. */
tx_status tx_background_save_start(tx_background_save *b);

/* Behind a step. @all_written: no rank writes. Finishes an attempt, or makes the next one. */
tx_status tx_background_save_step(tx_background_save *b, bool all_written);

/* Waits until nothing is under way. With `last` a failed attempt is made again some times, and its failure is the
 * error; else the iteration is given up with a warning. */
tx_status tx_background_save_settle(tx_background_save *b, bool last);

/* Ends it. @st how the run ended: an attempt under way is finished where all ranks can be expected to come. Keeps the
 * sentence of the error. */
void tx_background_save_close(tx_background_save *b, tx_status st);

#endif
