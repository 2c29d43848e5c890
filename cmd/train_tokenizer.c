/* train_tokenizer.c - triax train-tokenizer: text in, vocab.json and merges.txt out. */
#include "cmd.h"
#include "triax/data.h"

tx_status cmd_train_tokenizer(tx_config *cfg)
{
    return tx_train_tokenizer(cfg);
}
