/* llama_hf.c - Hugging Face's LlamaForCausalLM: q, k and v, and gate and up, are tensors of their own there. */
#include <string.h>

#include "model/gpt/gpt.h"
#include "model/hf_format.h"

/* clang-format off */
static const tx_hf_name top[] = {
    { "embedding.word_embeddings.weight", "embed_tokens.weight", TX_HF_VOCAB, false },
    { "encoder.final_layernorm.weight",   "norm.weight",         TX_HF_ALL, false },
    { "output_layer.weight",              "/lm_head.weight",     TX_HF_VOCAB, false },
    { NULL, NULL, TX_HF_ALL, false },
};
static const tx_hf_name layer[] = {
    { "input_layernorm.weight",                "input_layernorm.weight",          TX_HF_ALL,    false },
    { "self_attention.query_key_value.weight", "self_attn.q_proj.weight",         TX_HF_Q,      false },
    { "self_attention.query_key_value.weight", "self_attn.k_proj.weight",         TX_HF_K,      false },
    { "self_attention.query_key_value.weight", "self_attn.v_proj.weight",         TX_HF_V,      false },
    { "self_attention.dense.weight",           "self_attn.o_proj.weight",         TX_HF_ALL,    false },
    { "post_attention_layernorm.weight",       "post_attention_layernorm.weight", TX_HF_ALL,    false },
    { "mlp.dense_h_to_4h.weight",              "mlp.gate_proj.weight",            TX_HF_FIRST,  false },
    { "mlp.dense_h_to_4h.weight",              "mlp.up_proj.weight",              TX_HF_SECOND, false },
    { "mlp.dense_4h_to_h.weight",              "mlp.down_proj.weight",            TX_HF_ALL,    false },
    { NULL, NULL, TX_HF_ALL, false },
};
/* clang-format on */

/* A buffer of old files, and the head where it is tied to the embedding. */
static const tx_hf_extra extra[] = { { ".rotary_emb.inv_freq", "no weight" },
                                     { "lm_head.weight", "tied to the word embedding" },
                                     { NULL, NULL } };

static bool fits(const tx_model *m)
{
    const tx_gpt *g = (const tx_gpt *)m;
    const tx_block *b = &g->t.block[0];
    return b->ln1.kind == TX_RMSNORM && !g->t.normed && !b->residual_post_norm && b->attn.n_rot == m->head_dim &&
           b->mlp.gated && !b->mlp.gate_second && !(g->t.traits & (TX_WITH_POS | TX_WITH_BIAS));
}

/* The rotation's base: transformers 5 keeps it in rope_parameters, older ones beside rope_scaling. */
static tx_status get_rope(const json_t *config, double *theta)
{
    const char *where = "rope_parameters";
    const json_t *rope = json_object_get(config, where);
    if (!rope || json_is_null(rope)) rope = json_object_get(config, where = "rope_scaling");
    if (rope && !json_is_null(rope) && !json_is_object(rope))
        return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be an object", where);
    const json_t *base = json_object_get(rope, "rope_theta"), *kind = json_object_get(rope, "rope_type");
    if (!kind) kind = json_object_get(rope, "type");
    if (!base) base = json_object_get(config, "rope_theta");
    if (kind && (!json_is_string(kind) || strcmp(json_string_value(kind), "default")))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: rope_type \"%.60s\" is not built yet (default is)",
                       json_is_string(kind) ? json_string_value(kind) : "");
    if (base && (!json_is_number(base) || !(json_number_value(base) > 0)))
        return TX_FAIL(TX_ERR_FORMAT, "config.json: \"rope_theta\" must be a positive number");
    *theta = base ? json_number_value(base) : 10000;
    return TX_OK;
}

static tx_status options(json_t **out, const json_t *config)
{
    const char *act;
    int64_t layers, hidden, heads, groups, d, positions, vocab, inner;
    double theta, eps;
    bool attention_bias, mlp_bias, tied;
    TX_TRY(tx_hf_get_size(config, "num_hidden_layers", &layers));
    TX_TRY(tx_hf_get_size(config, "hidden_size", &hidden));
    TX_TRY(tx_hf_get_size(config, "num_attention_heads", &heads));
    TX_TRY(tx_hf_get_size(config, "intermediate_size", &inner));
    TX_TRY(tx_hf_get_size(config, "max_position_embeddings", &positions));
    TX_TRY(tx_hf_get_size(config, "vocab_size", &vocab));
    TX_TRY(tx_hf_get_size_or(config, "num_key_value_heads", heads, &groups));
    TX_TRY(tx_hf_get_size_or(config, "head_dim", hidden / heads, &d));
    if (d < 1) return TX_FAIL(TX_ERR_FORMAT, "config.json: hidden_size is less than num_attention_heads");
    TX_TRY(get_rope(config, &theta));
    TX_TRY(tx_hf_get_word(config, "hidden_act", "silu", &act));
    if (strcmp(act, "silu"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: hidden_act \"%.60s\" is not built (silu is)", act);
    TX_TRY(tx_hf_get_bool(config, "attention_bias", false, &attention_bias));
    TX_TRY(tx_hf_get_bool(config, "mlp_bias", false, &mlp_bias));
    TX_TRY(tx_hf_get_bool(config, "tie_word_embeddings", false, &tied));
    if (attention_bias || mlp_bias)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a Llama with attention_bias or mlp_bias is not built yet");
    TX_TRY(tx_hf_get_number(config, "rms_norm_eps", 1e-6, &eps));
    json_t *o =
        json_pack("{ss sb sI sI sI sI sI sI sI ss sf sb sb sb sn sb sb sb sf sf sb sb sb sb sI}", "model_type", "GPT",
                  "post_layernorm", 0, "num_layers", layers, "hidden_size", hidden, "num_attention_heads", heads,
                  "num_key_value_heads", groups, "kv_channels", d, "ffn_hidden_size", inner, "max_position_embeddings",
                  positions, "normalization", "rmsnorm", "layernorm_epsilon", eps, "openai_gelu", 0, "squared_relu", 0,
                  "swiglu", 1, "glu_activation", "add_bias_linear", 0, "add_position_embedding", 0,
                  "use_rotary_position_embeddings", 1, "rope_theta", theta, "rotary_percent", 1.0,
                  "untie_embeddings_and_output_weights", !tied, "apply_residual_connection_post_layernorm", 0,
                  "apply_layernorm_1p", 0, "embed_layernorm", 0, "vocab_size", vocab);
    if (!o) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    *out = o;
    return TX_OK;
}

/* Both ways of writing the base, for old and new readers. */
static tx_status config(json_t **out, const tx_model *m)
{
    const tx_gpt *g = (const tx_gpt *)m;
    const tx_block *b = &g->t.block[0];
    json_t *o =
        json_pack("{ss s[s] sI sI sI sI sI sI sI sI ss sf sf s{ss sf} sb sb sb sn sn}", "model_type", "llama",
                  "architectures", "LlamaForCausalLM", "num_hidden_layers", (json_int_t)m->n_layers, "hidden_size",
                  (json_int_t)m->hidden, "num_attention_heads", (json_int_t)m->n_heads, "num_key_value_heads",
                  (json_int_t)m->n_groups, "head_dim", (json_int_t)m->head_dim, "intermediate_size", (json_int_t)m->ffn,
                  "max_position_embeddings", (json_int_t)m->max_positions, "vocab_size", (json_int_t)m->n_valid,
                  "hidden_act", "silu", "rms_norm_eps", b->ln1.eps, "rope_theta", b->attn.rope_theta, "rope_parameters",
                  "rope_type", "default", "rope_theta", b->attn.rope_theta, "attention_bias", 0, "mlp_bias", 0,
                  "tie_word_embeddings", !(g->t.traits & TX_WITH_OUTPUT), "bos_token_id", "eos_token_id");
    if (!o) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    *out = o;
    return TX_OK;
}

extern const tx_hf_format tx_hf_llama; /* hf_format.c lists it */
const tx_hf_format tx_hf_llama = {
    .model_type = "llama",
    .model = "GPT",
    .prefix = "model.",
    .layers = "layers",
    .top = top,
    .layer = layer,
    .extra = extra,
    .fits = fits,
    .options = options,
    .config = config,
};
