/* pretrain.c - the whole of `triax pretrain-gpt` and `triax pretrain-bert`, over the public headers alone. */
#include "triax/data.h"
#include "triax/jobs.h"
#include "triax/run.h"

static tx_status pretrain(tx_run *run, tx_config *cfg)
{
    tx_engine *e = NULL;
    tx_status st = tx_train_data_prepare(cfg); /* before a large model is built */
    if (!st)
        st = tx_engine_initialize(&e, &(tx_engine_args){ .size = sizeof(tx_engine_args),
                                                         .config = cfg,
                                                         .world = tx_run_world(run),
                                                         .with_tokenizer = true });
    if (!st) st = tx_run_train(run, e, NULL);
    tx_engine_destroy(e);
    return st;
}

tx_status tx_pretrain(tx_config *cfg)
{
    tx_run *run;
    tx_status st = tx_run_open(&run, cfg, NULL);
    if (!st && run) st = pretrain(run, cfg);
    return tx_run_close(run, st);
}
