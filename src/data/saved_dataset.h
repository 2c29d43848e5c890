/* saved_dataset.h - a folder of Hugging Face's datasets, as save_to_disk makes it: dataset_info.json, state.json and
 * data-*.arrow; of several splits one such folder each, beside dataset_dict.json. */
#ifndef TX_DATA_SAVED_DATASET_H
#define TX_DATA_SAVED_DATASET_H

#include "base/file.h"

/* The paths of its Arrow files, in order (tx_names_free); none: it is no such folder. Errors: TX_ERR_FORMAT for one
 * that is damaged, TX_ERR_ARG for one with several splits, which names them. */
tx_status tx__saved_dataset_files(const char *dir, tx_names *out);

#endif
