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
 *  What a run says goes to the log's sink (log.h), Megatron's lines in Megatron's order. One thread uses a run. */
#ifndef TRIAX_RUN_H
#define TRIAX_RUN_H

#include "triax/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tx_run tx_run;

/* Begins a run of `cfg`, which is borrowed; its time counts from here (--exit-duration-in-mins).
 * From here to tx_run_close SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGPIPE are the run's, as far as nobody handles or
 * ignores them: the
 * first one ends the process as ever before tx_run_train has come to its steps, and from then on it makes the run
 * finish its iteration, save and end; tx_run_train comes back with TX_OK. A second SIGINT, SIGTERM or SIGHUP ends it.
 * What the first one means is said in the log by rank 0, from a thread of the library's.
 * @world the ranks, borrowed; NULL: this process as its launcher started it, which is opened here, with MPI. Its lines
 * in the log are marked by rank, and go to a file of --log-dir, too
 * *out is NULL, with TX_OK and a line that says so, where --kill-switch-file is there already: nothing is to be done.
 * Collective: all ranks have the same options (TX_ERR_ARG names the first that differs). Also TX_ERR_ARG: other ranks
 * than --world-size says; TX_ERR_COMM; TX_ERR_IO of --log-dir. */
TX_API tx_status tx_run_open(tx_run **out, const tx_config *cfg, tx_world *world);

/* The ranks, for tx_engine_args.world: the run's, until it is closed. */
TX_API tx_world *tx_run_world(const tx_run *run);

/* User-defined micro-batches in place of the options' datasets, read as tx_engine_train_batch and
 * tx_engine_eval_batch do: `micro` counts from 0 in every iteration and every evaluation. NULL: there are none. */
typedef struct tx_run_data {
    size_t size; /* sizeof(tx_run_data) */
    tx_read_fn *train, *valid, *test;
    void *user;
} tx_run_data;

/* Trains from where the engine stands to --train-iters, --train-tokens or an exit that the options ask for: shows the
 * setup; opens the datasets that the options name; steps, with a line every --log-interval; evaluates every
 * --eval-interval and at the end; saves every --save-interval and at the end, with the tokenizer beside it;
 * --exit-*, --profile*, --eval-tasks, --tensorboard-dir, --metrics-file and the others as `triax pretrain-gpt --help`
 * has them; or to a signal (tx_run_open). Once for an engine of the run's world, between iterations (else
 * TX_ERR_STATE). Collective.
 * @data NULL: the engine's (tx_engine_args.data), or else the datasets of the options, for which the engine of a BERT
 * has to be made with_tokenizer, as for --eval-tasks. A user-defined model needs user-defined data. Errors: TX_ERR_ARG,
 * also for a split without samples; those of reading datasets, of `data`, of tx_engine_train_batch and of saving. */
TX_API tx_status tx_run_train(tx_run *run, tx_engine *e, const tx_run_data *data);

/* Ends it after its engine; `st` is what it came to on this rank, and comes back. Where it has failed and the process
 * is one of several, it says why, once for all ranks, and the launcher ends them: the call does not come back. In a
 * given world it only frees. NULL allowed. */
TX_API tx_status tx_run_close(tx_run *run, tx_status st);

#ifdef __cplusplus
}
#endif
#endif
