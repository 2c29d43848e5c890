/* best.h - --save-best: the checkpoint of the lowest validation loss, in a folder of its own.
 *
 *      SAVE/best/iter_0000040, latest, ...     a folder of checkpoints like SAVE, with one of them
 *      SAVE/best/best.json                     {"iteration": 40, "loss": 2.25}
 *
 *  A run that resumes goes on from what best.json says, unless that is of a later iteration than it resumes at: then it
 *  finds that again. What --keep-last removes are checkpoints of SAVE, and what a run goes on from are those, too. */
#ifndef TX_TRAIN_BEST_H
#define TX_TRAIN_BEST_H

#include "train/trainer.h"

typedef struct tx_best {
    tx_trainer *t;  /* borrowed; NULL: nothing is saved */
    char dir[4096]; /* SAVE/best */
    double loss;    /* the lowest so far; infinite: none is known */
} tx_best;

/* Without --save-best it saves nothing. Collective, like the other.  TX_ERR_FORMAT: best.json cannot be read */
tx_status tx_best_open(tx_best *b, tx_trainer *t);

/* Saves the trainer's iteration if its loss is lower than all before. That the disk does not take it is a warning, and
 * the next lower loss is saved.   @loss the same on all ranks */
tx_status tx_best_offer(tx_best *b, double loss);

#endif
