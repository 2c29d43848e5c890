/* train_tokenizer.c - triax train-tokenizer: text in, a vocabulary out. */
#include "cmd.h"
#include "triax/data.h"

tx_status cmd_train_tokenizer(tx_config *cfg)
{
    return tx_train_tokenizer(cfg);
}
