/* peft_folder.h - an adapter as PEFT saves it, as named tensors. Knows no model: what the tensors mean is the caller's
 * business (model/peft_format.h).
 *
 *      adapter_config.json         peft_type "LORA", r, lora_alpha, target_modules, ...
 *      adapter_model.safetensors   base_model.model.<module>.lora_A.weight [r, in], .lora_B.weight [out, r] */
#ifndef TX_CHECKPOINT_PEFT_FOLDER_H
#define TX_CHECKPOINT_PEFT_FOLDER_H

#include <jansson.h>

#include "checkpoint/huggingface.h"

#define TX_PEFT_CONFIG  "adapter_config.json"
#define TX_PEFT_WEIGHTS "adapter_model.safetensors"

/* Reads both files. *config is the caller's (json_decref), and *file (tx_safetensors_close). TX_ERR_NOTFOUND,
 * TX_ERR_IO, TX_ERR_FORMAT; TX_ERR_UNSUPPORTED: something that adds to a model otherwise than a plain low-rank adapter
 * does. */
tx_status tx_peft_open(json_t **config, tx_safetensors **file, const char *dir);

/* Publishes both, the tensors first. */
tx_status tx_peft_write(const char *dir, const json_t *config, const tx_hf_tensors *tensors);

#endif
