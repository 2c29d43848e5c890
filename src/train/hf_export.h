/* hf_export.h - a model's numbers under Hugging Face's names and in its layouts. */
#ifndef TX_TRAIN_HF_EXPORT_H
#define TX_TRAIN_HF_EXPORT_H

#include "model/model.h"

/* Publishes DIR/config.json. */
tx_status tx_hf_export_config(const tx_model *m, const char *dir);

/* Publishes a safetensors file of one flat buffer (values or gradients), fp32. Rows that pad the vocabulary are left
 * out. */
tx_status tx_hf_export_tensors(const tx_model *m, float *flat, const char *path);

#endif
