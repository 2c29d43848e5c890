/* corpus_config.h - the corpus that --input, --text-split and --json-keys ask for. */
#ifndef TX_DATA_CORPUS_CONFIG_H
#define TX_DATA_CORPUS_CONFIG_H

#include "config/config.h"
#include "data/corpus.h"

/* The members of a JSON line that hold text: --json-keys, or "text" for commands without that flag. Borrowed. */
typedef struct tx_json_keys {
    const char *const *name;
    int n;
} tx_json_keys;
tx_json_keys tx__json_keys_from_config(const tx_config *cfg);

/* Without --input: standard input, a document a line. The corpus borrows from cfg. */
tx_status tx__corpus_from_config(const tx_config *cfg, tx_corpus **out);

#endif
