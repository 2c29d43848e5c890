/* hf_export.h - a model's numbers under Hugging Face's names and in its layouts, fp32. Rows that pad the vocabulary are
 * left out. */
#ifndef TX_TRAIN_HF_EXPORT_H
#define TX_TRAIN_HF_EXPORT_H

#include "model/model.h"

/* Writes the folder: config.json and, from the flat buffer, model.safetensors. */
tx_status tx_hf_export_model(const tx_model *m, float *flat, const char *dir);

/* Publishes one safetensors file of a flat buffer times a factor: gradients, say, over their loss scale. */
tx_status tx_hf_export_tensors(const tx_model *m, float *flat, double factor, const char *path);

#endif
