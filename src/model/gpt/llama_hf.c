/* llama_hf.c - Hugging Face's LlamaForCausalLM: q, k and v, and gate and up, are tensors of their own there; and its
 * nearest relatives, which are it but for a member or two of config.json. */
#include "model/gpt/llama_like.h"

/* clang-format off */
const tx_hf_name tx__llama_top[] = {
    { "embedding.word_embeddings.weight", "embed_tokens.weight", TX_HF_VOCAB, false },
    { "encoder.final_layernorm.weight",   "norm.weight",         TX_HF_ALL, false },
    { "encoder.final_layernorm.bias",     "norm.bias",           TX_HF_ALL, false },
    { "output_layer.weight",              "/lm_head.weight",     TX_HF_VOCAB, false },
    TX__ROW_END,
};
/* With what some of them have beside a Llama's: biases, norms of q and k. */
const tx_hf_name tx__llama_layer[] = {
    TX__BOTH("input_layernorm", "input_layernorm")
    TX__QKV_BOTH("self_attn")
    TX__BOTH("self_attention.dense", "self_attn.o_proj")
    TX__QK_NORM
    TX__BOTH("post_attention_layernorm", "post_attention_layernorm")
    TX__LLAMA_MLP
    TX__ROW_END,
};
/* Without a gate: Nemotron, Arcee. */
static const tx_hf_name plain_layer[] = {
    TX__BOTH("input_layernorm", "input_layernorm")
    TX__QKV_BOTH("self_attn")
    TX__BOTH("self_attention.dense", "self_attn.o_proj")
    TX__BOTH("post_attention_layernorm", "post_attention_layernorm")
    TX__BOTH("mlp.dense_h_to_4h", "mlp.up_proj")
    TX__BOTH("mlp.dense_4h_to_h", "mlp.down_proj")
    TX__ROW_END,
};
/* q, k and v, and gate and up, are one tensor each. */
static const tx_hf_name phi3_layer[] = {
    { "input_layernorm.weight",                "input_layernorm.weight",          TX_HF_ALL, false },
    { "self_attention.query_key_value.weight", "self_attn.qkv_proj.weight",       TX_HF_QKV, false },
    { "self_attention.dense.weight",           "self_attn.o_proj.weight",         TX_HF_ALL, false },
    { "post_attention_layernorm.weight",       "post_attention_layernorm.weight", TX_HF_ALL, false },
    { "mlp.dense_h_to_4h.weight",              "mlp.gate_up_proj.weight",         TX_HF_ALL, false },
    { "mlp.dense_4h_to_h.weight",              "mlp.down_proj.weight",            TX_HF_ALL, false },
    TX__ROW_END,
};
/* Norms of what branches give, none of what they read; of a Llama's place the first is another one. */
static const tx_hf_name branch_layer[] = {
    TX__QKV_BOTH("self_attn")
    TX__BOTH("self_attention.dense", "self_attn.o_proj")
    TX__QK_NORM
    TX__BOTH("attention_output_layernorm", "post_attention_layernorm")
    TX__LLAMA_MLP
    TX__BOTH("mlp_output_layernorm", "post_feedforward_layernorm")
    TX__ROW_END,
};
/* clang-format on */

/* A buffer of old files, and the head where it is tied to the embedding. */
const tx_hf_extra tx__llama_extra[] = { { ".rotary_emb.inv_freq", "no weight" },
                                        { "lm_head.weight", "tied to the word embedding" },
                                        { NULL, NULL } };

const tx_hf_choice tx__hf_silu[] = { { "silu", { { NULL, NULL } } }, { NULL, { { NULL, NULL } } } };

/* Of q, k, v and of the product behind attention. */
static const tx_hf_choice all_biases[] = {
    { "true", { { "add_qkv_bias", "true" }, { "add_attention_dense_bias", "true" } } },
    { "false", { { "add_qkv_bias", "false" }, { "add_attention_dense_bias", "false" } } },
    { NULL, { { NULL, NULL } } },
};
#define BIASES    TX_HF_ONE_OF("attention_bias", all_biases, "false"), TX_HF_MUST("mlp_bias", "false")
#define NO_BIASES TX_HF_MUST("attention_bias", "false"), TX_HF_MUST("mlp_bias", "false")

static const tx_hf_key llama[] = { TX__LLAMA_KEYS, TX__HEAD_DIM, BIASES, TX_HF_END };
static const tx_hf_key mistral[] = { TX__LLAMA_KEYS, TX__HEAD_DIM, TX__WINDOW_4096, TX_HF_END };
static const tx_hf_key seed_oss[] = { TX__LLAMA_KEYS,
                                      TX_HF_COUNT("kv_channels", "head_dim"),
                                      TX_HF_FLAG("add_qkv_bias", "attention_bias", "true"),
                                      TX_HF_FLAG("add_attention_dense_bias", "attention_out_bias", "false"),
                                      TX_HF_MUST("mlp_bias", "false"),
                                      TX_HF_ANY("residual_dropout"),
                                      TX_HF_END };
static const tx_hf_key helium[] = { TX__LLAMA_KEYS, TX_HF_IS("rotary_interleaved", "true"), TX__HEAD_DIM, NO_BIASES,
                                    TX_HF_END };
static const tx_hf_key granite[] = { TX__LLAMA_KEYS,
                                     BIASES,
                                     TX_HF_NUM("embedding_scale", "embedding_multiplier", "1"),
                                     TX_HF_NUM("residual_scale", "residual_multiplier", "1"),
                                     TX_HF_NUM("attention_scale", "attention_multiplier", "1"),
                                     TX_HF_INVERSE("logits_scale", "logits_scaling", "1"),
                                     TX_HF_END };
static const tx_hf_key smollm3[] = { TX__LLAMA_SIZES,
                                     TX__GROUPS,
                                     TX__TURNED,
                                     TX__RMSNORM("1e-6"),
                                     TX__SWIGLU,
                                     TX__TIED("true"),
                                     TX_HF_IS("rope_theta", "2000000.0"),
                                     TX__ROPE,
                                     TX__NO_TOKENS,
                                     TX_HF_BY("no_rope_layers", tx__no_rope_read, tx__no_rope_write),
                                     TX_HF_ANY("no_rope_layer_interval"),
                                     TX_HF_MUST("use_sliding_window", "false"),
                                     TX_HF_ANY("sliding_window"),
                                     TX_HF_ANY("max_window_layers"),
                                     TX_HF_ANY("layer_types"),
                                     BIASES,
                                     TX_HF_END };
static const tx_hf_key phi3[] = { TX__LLAMA_SIZES,
                                  TX__GROUPS,
                                  TX__TURNED,
                                  TX__RMSNORM("1e-5"),
                                  TX__SWIGLU,
                                  TX__TIED("false"),
                                  TX__ROPE,
                                  TX__NO_TOKENS,
                                  TX__WINDOW,
                                  TX_HF_MUST("attention_bias", "false"),
                                  TX_HF_ANY("original_max_position_embeddings"),
                                  TX_HF_WRITES("pad_token_id", "null"),
                                  TX_HF_END };
static const tx_hf_key stablelm[] = {
    TX__LLAMA_SIZES,
    TX__GROUPS,
    TX__TURNED,
    TX__LAYERNORM("layer_norm_eps", "1e-5"),
    TX__SWIGLU,
    TX__TIED("false"),
    TX_HF_IS("rotary_percent", "0.25"),
    TX__ROPE,
    TX_HF_ANY("rope_pct"),
    TX__NO_TOKENS,
    TX_HF_FLAG("add_qkv_bias", "use_qkv_bias", "false"),
    TX_HF_MUST("qk_layernorm", "false"),
    TX_HF_ONE_OF("use_parallel_residual",
                 ((const tx_hf_choice[]){ { "true", { { "parallel_residual", "\"one_norm\"" } } },
                                          { "false", { { "parallel_residual", "\"none\"" } } },
                                          { NULL, { { NULL, NULL } } } }),
                 "false"),
    TX_HF_END,
};

/* ---- without a gate ---- */

#define PLAIN                                                                                         \
    TX__LLAMA_SIZES, TX__GROUPS, TX__TURNED, TX_HF_IS("add_bias_linear", "false"), TX__TIED("false"), \
        TX_HF_ONE_OF("hidden_act", tx__hf_activations, "relu2"), TX__HEAD_DIM, TX__NO_TOKENS, NO_BIASES
static const tx_hf_key arcee[] = { PLAIN, TX__RMSNORM("1e-5"), TX__ROPE, TX_HF_END };
static const tx_hf_key nemotron[] = { PLAIN,
                                      TX__LAYERNORM("norm_eps", "1e-5"),
                                      TX_HF_IS("apply_layernorm_1p", "true"),
                                      TX_HF_IS("rotary_percent", "0.5"),
                                      TX__ROPE,
                                      TX_HF_END };

/* ---- norms of branches ---- */

#define BRANCH                                                                                                  \
    TX__LLAMA_SIZES, TX__GROUPS, TX__TURNED, TX__RMSNORM("1e-5"), TX__SWIGLU, TX__TIED("false"), TX__NO_TOKENS, \
        TX_HF_IS("norm_placement", "\"branch\"")
static const tx_hf_key olmo2[] = { BRANCH, TX_HF_IS("qk_layernorm_whole", "true"), TX__ROPE,
                                   TX_HF_MUST("attention_bias", "false"), TX_HF_END };
static const tx_hf_key olmo3[] = { BRANCH,
                                   TX_HF_IS("qk_layernorm_whole", "true"),
                                   TX_HF_IS("rope_theta", "500000.0"),
                                   TX__WINDOW_LAYERS(4),
                                   TX__ROPES(tx__ropes_read),
                                   TX_HF_MUST("attention_bias", "false"),
                                   TX_HF_END };
static const tx_hf_key exaone4[] = { BRANCH,
                                     TX_HF_IS("qk_layernorm", "true"),
                                     TX__ROPE,
                                     TX__HEAD_DIM,
                                     TX__WINDOW_LAYERS(4),
                                     TX_HF_BY("layer_types", tx__turned_in_window_read, NULL),
                                     TX_HF_END };

/* ---- the formats ---- */

extern const tx_hf_format tx_hf_llama, tx_hf_mistral, tx_hf_seed_oss, tx_hf_helium, tx_hf_granite, tx_hf_smollm3,
    tx_hf_stablelm, tx_hf_phi3, tx_hf_arcee, tx_hf_nemotron, tx_hf_olmo2, tx_hf_olmo3,
    tx_hf_exaone4; /* hf_format.c lists them */

const tx_hf_format tx_hf_llama = TX__LLAMA_KIN("llama", "Llama", tx__llama_layer, llama);
const tx_hf_format tx_hf_mistral = TX__LLAMA_KIN("mistral", "Mistral", tx__llama_layer, mistral);
const tx_hf_format tx_hf_seed_oss = TX__LLAMA_KIN("seed_oss", "SeedOss", tx__llama_layer, seed_oss);
const tx_hf_format tx_hf_helium = TX__LLAMA_KIN("helium", "Helium", tx__llama_layer, helium);
const tx_hf_format tx_hf_granite = TX__LLAMA_KIN("granite", "Granite", tx__llama_layer, granite);
const tx_hf_format tx_hf_smollm3 = TX__LLAMA_KIN("smollm3", "SmolLM3", tx__llama_layer, smollm3);
const tx_hf_format tx_hf_stablelm = TX__LLAMA_KIN("stablelm", "StableLm", tx__llama_layer, stablelm);
const tx_hf_format tx_hf_phi3 = TX__LLAMA_KIN("phi3", "Phi3", phi3_layer, phi3);
const tx_hf_format tx_hf_arcee = TX__LLAMA_KIN("arcee", "Arcee", plain_layer, arcee);
const tx_hf_format tx_hf_nemotron = TX__LLAMA_KIN("nemotron", "Nemotron", plain_layer, nemotron);
const tx_hf_format tx_hf_olmo2 = TX__LLAMA_KIN("olmo2", "Olmo2", branch_layer, olmo2);
const tx_hf_format tx_hf_olmo3 = TX__LLAMA_KIN("olmo3", "Olmo3", branch_layer, olmo3);
const tx_hf_format tx_hf_exaone4 = TX__LLAMA_KIN("exaone4", "Exaone4", branch_layer, exaone4);
