/* hf_export.h - writes a model under Hugging Face's names and in its layouts, in fp32.
 *
 * Padding rows of the vocabulary are left out. The rank that writes must have the whole model. */
#ifndef TX_TRAIN_HF_EXPORT_H
#define TX_TRAIN_HF_EXPORT_H

#include "comm/comm.h"
#include "model/model.h"

/* Checks whether a rank of `group`, the ranks that hold the model together, can write it. TX_ERR_UNSUPPORTED, on all
 * of them: Hugging Face has no such model, or there are several ranks. */
tx_status tx_hf_export_check(const tx_model *m, const tx_comm *group);

/* Writes the folder: config.json and, from the flat buffer, model.safetensors. */
tx_status tx_hf_export_model(const tx_model *m, float *flat, const char *dir, const tx_comm *group);

/* Writes one safetensors file of a flat buffer times a factor, such as gradients divided by their loss scale. */
tx_status tx_hf_export_tensors(const tx_model *m, float *flat, double factor, const char *path, const tx_comm *group);

#endif
