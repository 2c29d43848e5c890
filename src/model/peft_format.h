/* peft_format.h - what PEFT calls the adapters (nn/lora.h) of a Hugging Face model: "base_model.model.", the name of
 * the matrix that an adapter is beside, ".lora_A.weight" or ".lora_B.weight". A and B are [r, in] and [out, r] also
 * where the matrix itself is [in, out] there (a GPT-2's Conv1D, fan_in_fan_out). */
#ifndef TX_MODEL_PEFT_FORMAT_H
#define TX_MODEL_PEFT_FORMAT_H

#include "model/hf_format.h"
#include "nn/lora.h"

/* The target of kinds/lora_targets.h that a tensor there is of; -1: none. *word: what --lora-targets calls it. */
int tx_peft_target_of(const char *name, const char **word);

/* The last part of a target's name there, as target_modules has it: "c_attn"; NULL: the format has no such matrix. */
const char *tx_peft_module(const tx_hf_format *f, int target);

/* The tensor that holds an adapter's row p of the model's table. TX_ERR_UNSUPPORTED: the format has no such matrix. */
tx_status tx_peft_part(const tx_hf_format *f, const tx_model *m, const tx_param *p, tx_hf_part *out);

/* Whether linear weights are [in, out] in the format: fan_in_fan_out. */
bool tx_peft_is_transposed(const tx_hf_format *f);

#endif
