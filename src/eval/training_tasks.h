/* training_tasks.h - --eval-tasks: scores a run's current weights on tasks at each evaluation.
 *
 *  The ranks that see the same samples work together as the decoder describes. Each of the n data-parallel replicas
 * scores every n-th item, and the counts are summed. The trainer's state does not change. */
#ifndef TX_EVAL_TRAINING_TASKS_H
#define TX_EVAL_TRAINING_TASKS_H

#include "eval/task.h"
#include "train/loop.h"

typedef struct tx_training_tasks {
    const tx_trainer *t;
    tx_metrics *metrics;
    tx_task *task; /* [n]; on ranks that lead */
    int n;
    tx_decoder *decoder;
    tx_task_sums *sums; /* [n]: a leader's own; then all leaders' */
    tx_task_sums *all;  /* [ranks with the same parameters, n] */
    tx_also also;       /* for tx_train_loop */
} tx_training_tasks;

/* Reads the files and takes the decoder's memory. Collective; without --eval-tasks x->n is 0. x has to be closed also
 * when this fails. */
tx_status tx_training_tasks_open(tx_training_tasks *x, tx_trainer *t, const tx_tokenizer *tok, tx_metrics *metrics);
void tx_training_tasks_close(tx_training_tasks *x); /* a zeroed one is fine */

#endif
