/* qwen_hf.c - Hugging Face's Qwen2ForCausalLM, a Llama whose queries, keys and values have biases, and
 * Qwen3ForCausalLM, one whose queries and keys are normalised. */
#include "model/gpt/llama_like.h"

static const tx_hf_key keys_2[] = { TX__LLAMA_KEYS, TX__HEAD_DIM, TX_HF_IS("add_qkv_bias", "true"), TX__QWEN_WINDOW,
                                    TX_HF_END };
/* What a head's width is when it is left out is another number than hidden_size / num_attention_heads there. */
static const tx_hf_key keys_3[] = { TX__LLAMA_KEYS,
                                    TX_HF_COUNT("kv_channels", "head_dim"),
                                    TX_HF_IS("qk_layernorm", "true"),
                                    TX_HF_MUST("attention_bias", "false"),
                                    TX__QWEN_WINDOW,
                                    TX_HF_END };

extern const tx_hf_format tx_hf_qwen2, tx_hf_qwen3; /* hf_format.c lists them */
const tx_hf_format tx_hf_qwen2 = TX__LLAMA_KIN("qwen2", "Qwen2", tx__llama_layer, keys_2);
const tx_hf_format tx_hf_qwen3 = TX__LLAMA_KIN("qwen3", "Qwen3", tx__llama_layer, keys_3);
