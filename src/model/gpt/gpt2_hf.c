/* gpt2_hf.c - Hugging Face's GPT2LMHeadModel. Linear weights are [in, out] there (Conv1D), [out, in] here. */
#include "model/gpt/llama_like.h"

/* clang-format off */
static const tx_hf_name top[] = {
    { "embedding.word_embeddings.weight",     "wte.weight",  TX_HF_VOCAB, false },
    { "embedding.position_embeddings.weight", "wpe.weight",  TX_HF_ALL, false },
    { "encoder.final_layernorm.weight",       "ln_f.weight", TX_HF_ALL, false },
    { "encoder.final_layernorm.bias",         "ln_f.bias",   TX_HF_ALL, false },
    { "output_layer.weight",                  "/lm_head.weight", TX_HF_VOCAB, false },
    { NULL, NULL, TX_HF_ALL, false },
};
static const tx_hf_name layer[] = {
    { "input_layernorm.weight",                "ln_1.weight",        TX_HF_ALL, false },
    { "input_layernorm.bias",                  "ln_1.bias",          TX_HF_ALL, false },
    { "self_attention.query_key_value.weight", "attn.c_attn.weight", TX_HF_QKV, true },
    { "self_attention.query_key_value.bias",   "attn.c_attn.bias",   TX_HF_QKV, false },
    { "self_attention.dense.weight",           "attn.c_proj.weight", TX_HF_ALL, true },
    { "self_attention.dense.bias",             "attn.c_proj.bias",   TX_HF_ALL, false },
    { "post_attention_layernorm.weight",       "ln_2.weight",        TX_HF_ALL, false },
    { "post_attention_layernorm.bias",         "ln_2.bias",          TX_HF_ALL, false },
    { "mlp.dense_h_to_4h.weight",              "mlp.c_fc.weight",    TX_HF_ALL, true },
    { "mlp.dense_h_to_4h.bias",                "mlp.c_fc.bias",      TX_HF_ALL, false },
    { "mlp.dense_4h_to_h.weight",              "mlp.c_proj.weight",  TX_HF_ALL, true },
    { "mlp.dense_4h_to_h.bias",                "mlp.c_proj.bias",    TX_HF_ALL, false },
    { NULL, NULL, TX_HF_ALL, false },
};
/* clang-format on */

/* Buffers of old files that hold no weights, and the head that is tied to the embedding. */
static const tx_hf_extra extra[] = { { ".attn.bias", "no weight" },
                                     { ".attn.masked_bias", "no weight" },
                                     { "lm_head.weight", "tied to the word embedding" },
                                     { NULL, NULL } };

/* ---- config.json ---- */

const tx_hf_choice tx__hf_activations[] = {
    { "gelu_new", { { "bias_gelu_fusion", "true" } } },
    { "gelu_pytorch_tanh", { { "bias_gelu_fusion", "true" } } },
    { "gelu_fast", { { "bias_gelu_fusion", "true" } } },
    { "relu2", { { "squared_relu", "true" } } },
    { "relu", { { "relu", "true" } } },
    { "gelu", { { "bias_gelu_fusion", "false" } } },
    { NULL, { { NULL, NULL } } },
};

static const tx_hf_key keys[] = {
    TX_HF_COUNT("num_layers", "n_layer"),
    TX_HF_COUNT("hidden_size", "n_embd"),
    TX_HF_COUNT("num_attention_heads", "n_head"),
    TX_HF_COUNT("max_position_embeddings", "n_positions"),
    TX_HF_COUNT_OR("ffn_hidden_size", "n_inner"),
    TX_HF_ONE_OF("activation_function", tx__hf_activations, "gelu_new"),
    TX_HF_NUM("layernorm_epsilon", "layer_norm_epsilon", "1e-5"),
    TX_HF_NOT("untie_embeddings_and_output_weights", "tie_word_embeddings", "true"),
    TX_HF_MUST("scale_attn_by_inverse_layer_idx", "false"),
    TX_HF_MUST("scale_attn_weights", "true"),
    TX_HF_MUST("add_cross_attention", "false"),
    TX_HF_ANY("reorder_and_upcast_attn"),
    TX_HF_ANY("n_ctx"),
    TX_HF_WRITES("bos_token_id", "null"),
    TX_HF_WRITES("eos_token_id", "null"),
    TX_HF_END,
};

/* Of older readers. */
static tx_status more(json_t *config, const tx_model *m)
{
    return tx_hf_say(config, "n_ctx", json_integer((json_int_t)m->max_positions));
}

extern const tx_hf_format tx_hf_gpt2; /* hf_format.c lists it */
const tx_hf_format tx_hf_gpt2 = {
    .model_type = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .model = "GPT",
    .prefix = "transformer.",
    .layers = "h",
    .top = top,
    .layer = layer,
    .extra = extra,
    .keys = keys,
    .more = more,
};
