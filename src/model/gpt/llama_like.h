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

#define TX__ROW_END { NULL, NULL, TX_HF_ALL, false }

/* Of config.json: sizes but for the heads' width, what a Llama is, and what it says in words of its own. */
#define TX__LLAMA_SIZES                                                                         \
    TX_HF_COUNT("num_layers", "num_hidden_layers"),                                             \
    TX_HF_COUNT("hidden_size", "hidden_size"),                                                  \
    TX_HF_COUNT("num_attention_heads", "num_attention_heads"),                                  \
    TX_HF_COUNT("ffn_hidden_size", "intermediate_size"),                                        \
    TX_HF_COUNT("max_position_embeddings", "max_position_embeddings")
#define TX__GROUPS TX_HF_COUNT_OR("num_key_value_heads", "num_key_value_heads")
#define TX__HEAD_DIM TX_HF_COUNT_OR("kv_channels", "head_dim")
/* Rotary positions; no table of them. */
#define TX__TURNED                                                                              \
    TX_HF_IS("add_position_embedding", "false"),                                                \
    TX_HF_IS("use_rotary_position_embeddings", "true")
#define TX__RMSNORM(default_)                                                                   \
    TX_HF_IS("normalization", "\"rmsnorm\""),                                                   \
    TX_HF_NUM("layernorm_epsilon", "rms_norm_eps", default_)
#define TX__SWIGLU                                                                              \
    TX_HF_IS("swiglu", "true"),                                                                 \
    TX_HF_IS("add_bias_linear", "false"),                                                       \
    TX_HF_ONE_OF("hidden_act", tx__hf_silu, "silu")
#define TX__TIED(default_) TX_HF_NOT("untie_embeddings_and_output_weights", "tie_word_embeddings", default_)
#define TX__NO_TOKENS TX_HF_WRITES("bos_token_id", "null"), TX_HF_WRITES("eos_token_id", "null")
#define TX__LLAMA_KEYS                                                                          \
    TX__LLAMA_SIZES, TX__GROUPS, TX__TURNED, TX__RMSNORM("1e-6"), TX__SWIGLU, TX__TIED("false"), TX__ROPE, TX__NO_TOKENS

/* clang-format on */

extern const tx_hf_choice tx__hf_activations[], tx__hf_silu[], tx__hf_geglu[];

/* Files' buffers without weights. */
extern const tx_hf_extra tx__llama_extra[];
extern const tx_hf_name tx__llama_top[], tx__llama_layer[];

/* What their formats have in common (tx_hf_format), and a whole one. */
#define TX__LLAMA_FORMAT \
    .model = "GPT", .prefix = "model.", .layers = "layers", .top = tx__llama_top, .extra = tx__llama_extra
#define TX__LLAMA_KIN(type, class, layer_, keys_)                                                                 \
    {                                                                                                             \
        .model_type = type, .architecture = class "ForCausalLM", TX__LLAMA_FORMAT, .layer = layer_, .keys = keys_ \
    }

/* clang-format off */
/* A layer norm that is theirs, with its bias where there is one; a product likewise. */
#define TX__BOTH(ours, theirs) { ours ".weight", theirs ".weight", TX_HF_ALL, false }, \
                               { ours ".bias",   theirs ".bias",   TX_HF_ALL, false },
#define TX__QKV_BOTH(prefix)                                                                \
    { "self_attention.query_key_value.weight", prefix ".q_proj.weight", TX_HF_Q, false },   \
    { "self_attention.query_key_value.weight", prefix ".k_proj.weight", TX_HF_K, false },   \
    { "self_attention.query_key_value.weight", prefix ".v_proj.weight", TX_HF_V, false },   \
    { "self_attention.query_key_value.bias",   prefix ".q_proj.bias",   TX_HF_Q, false },   \
    { "self_attention.query_key_value.bias",   prefix ".k_proj.bias",   TX_HF_K, false },   \
    { "self_attention.query_key_value.bias",   prefix ".v_proj.bias",   TX_HF_V, false },
#define TX__LAYERNORM(key, default_) TX_HF_NUM("layernorm_epsilon", key, default_)
/* clang-format on */

/* hf_rope.c: rope_parameters, or rope_theta, rope_scaling and partial_rotary_factor. */
#define TX__ROPE                                                                                                    \
    TX_HF_BY("rope_parameters", tx__rope_read, tx__rope_write), TX_HF_ANY("rope_theta"), TX_HF_ANY("rope_scaling"), \
        TX_HF_ANY("partial_rotary_factor")
tx_status tx__rope_read(json_t *o, const json_t *config);
tx_status tx__rope_write(json_t *config, const json_t *o);
tx_status tx__rope_neox_write(json_t *config, const json_t *o);
/* The same where layers with a window have a base of their own, in older files rope_local_base_freq; left out it is
 * 10000, or the others'. Read behind the window. */
#define TX__ROPES(read)                                                                                     \
    TX_HF_BY("rope_parameters", read, tx__ropes_write), TX_HF_ANY("rope_theta"), TX_HF_ANY("rope_scaling"), \
        TX_HF_ANY("rope_local_base_freq")
tx_status tx__ropes_10000_read(json_t *o, const json_t *config);
tx_status tx__ropes_read(json_t *o, const json_t *config);
tx_status tx__ropes_write(json_t *config, const json_t *o);

/* hf_window.c: sliding_window of all layers, of those that layer_types says (all but the last of every N where it is
 * left out), and Qwen's, with a switch. */
#define TX__WINDOW      TX_HF_BY("sliding_window", tx__window_read, tx__window_write)
#define TX__WINDOW_4096 TX_HF_BY("sliding_window", tx__window_4096_read, tx__window_write)
#define TX__WINDOW_LAYERS(n)                                                                           \
    TX_HF_BY("sliding_window", tx__every_##n##_read, tx__layer_types_write), TX_HF_ANY("layer_types"), \
        TX_HF_ANY("sliding_window_pattern"), TX_HF_ANY("_sliding_window_pattern")
#define TX__QWEN_WINDOW                                                                                       \
    TX_HF_BY("use_sliding_window", tx__qwen_window_read, tx__qwen_window_write), TX_HF_ANY("sliding_window"), \
        TX_HF_ANY("max_window_layers"), TX_HF_ANY("layer_types")
tx_hf_read_fn tx__window_read, tx__window_4096_read, tx__every_2_read, tx__every_4_read, tx__every_6_read,
    tx__qwen_window_read;
tx_hf_write_fn tx__window_write, tx__layer_types_write, tx__qwen_window_write;

/* Layers without rotary positions: those without a window; SmolLM 3's list. */
tx_hf_read_fn tx__turned_in_window_read, tx__no_rope_read;
tx_hf_write_fn tx__no_rope_write;

/* The embedding times the root of its width. */
tx_hf_read_fn tx__root_of_width_read;

#endif
