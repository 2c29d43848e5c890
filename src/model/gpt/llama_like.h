/* llama_like.h - what the Hugging Face models that descend from Llama have in common: rows of their tables, and members
 * of their config.json. */
#ifndef TX_MODEL_GPT_LLAMA_LIKE_H
#define TX_MODEL_GPT_LLAMA_LIKE_H

#include "model/gpt/gpt.h"
#include "model/hf_format.h"

/* clang-format off */
#define TX__LLAMA_ATTENTION                                                                               \
    { "input_layernorm.weight",                "input_layernorm.weight",          TX_HF_ALL,    false },  \
    { "self_attention.query_key_value.weight", "self_attn.q_proj.weight",         TX_HF_Q,      false },  \
    { "self_attention.query_key_value.weight", "self_attn.k_proj.weight",         TX_HF_K,      false },  \
    { "self_attention.query_key_value.weight", "self_attn.v_proj.weight",         TX_HF_V,      false },  \
    { "self_attention.dense.weight",           "self_attn.o_proj.weight",         TX_HF_ALL,    false },  \
    { "post_attention_layernorm.weight",       "post_attention_layernorm.weight", TX_HF_ALL,    false },
#define TX__QKV_BIAS                                                                                      \
    { "self_attention.query_key_value.bias",   "self_attn.q_proj.bias",           TX_HF_Q,      false },  \
    { "self_attention.query_key_value.bias",   "self_attn.k_proj.bias",           TX_HF_K,      false },  \
    { "self_attention.query_key_value.bias",   "self_attn.v_proj.bias",           TX_HF_V,      false },
#define TX__QK_NORM                                                                                       \
    { "self_attention.q_layernorm.weight",     "self_attn.q_norm.weight",         TX_HF_ALL,    false },  \
    { "self_attention.k_layernorm.weight",     "self_attn.k_norm.weight",         TX_HF_ALL,    false },
/* A gated feed-forward half: ours, and theirs with the names of its three matrices there. */
#define TX__GATED(ours, theirs, gate, up, down)                                                           \
    { ours ".dense_h_to_4h.weight",            theirs "." gate ".weight",         TX_HF_FIRST,  false },  \
    { ours ".dense_h_to_4h.weight",            theirs "." up ".weight",           TX_HF_SECOND, false },  \
    { ours ".dense_4h_to_h.weight",            theirs "." down ".weight",         TX_HF_ALL,    false },
#define TX__LLAMA_MLP TX__GATED("mlp", "mlp", "gate_proj", "up_proj", "down_proj")

#define TX__LLAMA_SIZES                                                                         \
    TX_HF_SIZE("num_layers", "num_hidden_layers", n_layers),                                    \
    TX_HF_SIZE("hidden_size", "hidden_size", hidden),                                           \
    TX_HF_SIZE("num_attention_heads", "num_attention_heads", n_heads),                          \
    TX_HF_SIZE("ffn_hidden_size", "intermediate_size", ffn),                                    \
    TX_HF_SIZE("max_position_embeddings", "max_position_embeddings", max_positions),            \
    TX_HF_SIZE("vocab_size", "vocab_size", n_valid),                                            \
    TX_HF_SIZE_OR("num_key_value_heads", "num_key_value_heads", n_groups)
/* clang-format on */

/* Files' buffers without weights, options of the shape that config.json says nothing of. */
extern const tx_hf_extra tx__llama_extra[];
extern const char *const tx__llama_unsaid[];
extern const tx_hf_name tx__llama_top[];

/* What their formats have in common (tx_hf_format). */
#define TX__LLAMA_FORMAT                                                                                    \
    .model = "GPT", .prefix = "model.", .layers = "layers", .top = tx__llama_top, .extra = tx__llama_extra, \
    .unsaid = tx__llama_unsaid

/* Whether a model is a Llama but for its attention's biases and norms and its feed-forward halves: of TX_WITH_QKV_BIAS
 * and TX_WITH_QK_NORM it has just these traits. */
bool tx__llama_fits(const tx_model *m, unsigned traits);

/* What of config.json Llama's descendants have in common: all but sizes, biases and experts. */
tx_status tx__llama_read(json_t *o, const json_t *config);
/* The same of Qwen's, which may say that its attention has a window or other biases: that is refused. */
tx_status tx__qwen_read(json_t *o, const json_t *config);
tx_status tx__llama_write(json_t *o, const tx_model *m, const char *architecture);

#endif
