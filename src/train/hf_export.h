/* hf_export.h - a model's numbers under Hugging Face's names and in its layouts, fp32. Rows that pad the vocabulary are
 * left out. Written by a rank that has the whole model. */
#ifndef TX_TRAIN_HF_EXPORT_H
#define TX_TRAIN_HF_EXPORT_H

#include "comm/comm.h"
#include "model/model.h"

/* Whether a model can be written so by a rank of `group`, the ranks that hold it together. TX_ERR_UNSUPPORTED, on all
 * of them: Hugging Face has no such model, or the ranks are several. */
tx_status tx_hf_export_check(const tx_model *m, const tx_comm *group);

/* Writes the folder: config.json and, from the flat buffer, model.safetensors. */
tx_status tx_hf_export_model(const tx_model *m, float *flat, const char *dir, const tx_comm *group);

/* Publishes one safetensors file of a flat buffer times a factor: gradients, say, over their loss scale. */
tx_status tx_hf_export_tensors(const tx_model *m, float *flat, double factor, const char *path, const tx_comm *group);

#endif
