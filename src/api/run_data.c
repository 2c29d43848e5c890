/* run_data.c - the datasets of a run. */
#include "api/run_common.h"
#include "base/log.h"
#include "train/loop.h"

tx_status tx__run_data_open(tx_train_data **out, const tx_config *cfg, int64_t vocab_size, int32_t eod,
                            const tx_tokenizer *tok)
{
    int64_t n_samples[TX_N_SPLITS];
    tx_train_sample_counts(cfg, n_samples);
    tx_info(" > datasets target sizes (minimum size):");
    tx_info("    train:      %lld", (long long)n_samples[TX_SPLIT_TRAIN]);
    tx_info("    validation: %lld", (long long)n_samples[TX_SPLIT_VALID]);
    tx_info("    test:       %lld", (long long)n_samples[TX_SPLIT_TEST]);
    return tx_train_data_open(out, cfg, n_samples, vocab_size, eod, tok);
}

tx_status tx__run_data_carry(tx_trainer *t, tx_train_data *data)
{
    json_t *now;
    int64_t position = tx_train_position(t->cfg, t->iteration, t->consumed_train_samples);
    TX_TRY(tx_train_data_phase(data, t->blend_phase, position, &now));
    json_decref(t->blend_phase);
    t->blend_phase = now;
    return TX_OK;
}
