/* run.h - pre-training around an engine, as `triax pretrain-gpt` and `pretrain-bert` do it: Megatron's pretrain().
 *
 *      static tx_status train(tx_run *run, tx_config *cfg)
 *      {
 *          tx_engine *e = NULL;
 *          tx_engine_args args = { .size = sizeof args, .config = cfg, .world = tx_run_world(run),
 *                                  .with_tokenizer = true };
 *          tx_status st = tx_engine_initialize(&e, &args);
 *          if (!st) st = tx_run_train(run, e, NULL);
 *          tx_engine_destroy(e);
 *          return st;
 *      }
 *      ...
 *      tx_run *run;
 *      tx_status st = tx_run_open(&run, cfg, NULL);
 *      if (!st && run) st = train(run, cfg);
 *      return tx_run_close(run, st);
 *
 * A run logs to the sink of log.h, with Megatron's lines in Megatron's order. Only one thread uses a run. */
#ifndef TRIAX_RUN_H
#define TRIAX_RUN_H

#include "triax/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tx_run tx_run;

/* Begins a run of `cfg`, which is borrowed. The time of --exit-duration-in-mins counts from here. Collective.
 *
 * From here to tx_run_close the run handles SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGPIPE, except those that the
 * program already handles or ignores. Before the first step of tx_run_train, the first signal ends the process as
 * usual. From then on it makes the run finish its iteration, save and end, and tx_run_train returns TX_OK. A second
 * SIGINT, SIGTERM or SIGHUP ends the process. Rank 0 logs what the first signal means, from a thread of the library.
 *
 * @out is set to NULL, with TX_OK and a line in the log, if the file of --kill-switch-file exists: there is nothing to
 * do
 * @world the ranks, borrowed; NULL: this process as its launcher started it. The run then opens the world, and MPI
 * with it. Its log lines are marked with their rank and also go to a file in --log-dir
 *
 * TX_ERR_ARG: options differ between ranks (the message names the first difference), or the number of ranks is not
 * --world-size. TX_ERR_COMM. TX_ERR_IO: a problem with --log-dir. */
TX_API tx_status tx_run_open(tx_run **out, const tx_config *cfg, tx_world *world);

/* The run's world, for tx_engine_args.world. It belongs to the run and is valid until the run is closed. */
TX_API tx_world *tx_run_world(const tx_run *run);

/* User-defined micro-batches in place of the datasets that the options name. The functions are called as
 * tx_engine_train_batch and tx_engine_eval_batch do; `micro` counts from 0 in every iteration and every evaluation.
 * NULL: there is no such split. */
typedef struct tx_run_data {
    size_t size; /* sizeof(tx_run_data) */
    tx_read_fn *train, *valid, *test;
    void *user;
} tx_run_data;

/* Trains from the engine's current iteration until --train-iters, --train-tokens, an exit condition of the options, or
 * a signal (tx_run_open). Collective.
 *
 * It logs the setup, opens the datasets that the options name, and runs the steps, with a log line every
 * --log-interval. It evaluates every --eval-interval and at the end, and saves every --save-interval and at the end,
 * with the tokenizer beside the checkpoint. --exit-*, --profile*, --eval-tasks, --tensorboard-dir, --metrics-file and
 * the others work as described by `triax pretrain-gpt --help`.
 *
 * Call it once per engine, whose world must be the run's, between iterations (else TX_ERR_STATE).
 * @data NULL: the engine's (tx_engine_args.data), or else the datasets that the options name. A BERT engine must then
 * have been created with_tokenizer, as it must for --eval-tasks. A user-defined model needs user-defined data.
 * Errors: TX_ERR_ARG, also for a split without samples; those of reading datasets, of `data`, of tx_engine_train_batch
 * and of saving. */
TX_API tx_status tx_run_train(tx_run *run, tx_engine *e, const tx_run_data *data);

/* Ends the run; destroy its engine first. Returns `st`, the status of the run on this rank. If `st` is a failure and
 * the process is one of several, the call does not return: the error is reported once for all ranks, and the launcher
 * ends the processes. If the world was passed to tx_run_open, the call only frees. NULL allowed. */
TX_API tx_status tx_run_close(tx_run *run, tx_status st);

#ifdef __cplusplus
}
#endif
#endif
