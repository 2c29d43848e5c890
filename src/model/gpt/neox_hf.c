/* neox_hf.c - Hugging Face's models in which attention and the MLP read the same input: GPTNeoXForCausalLM (Pythia),
 * GPTJForCausalLM, PhiForCausalLM (1, 1.5 and 2) and FalconForCausalLM. Rows of NeoX's and Falcon's query_key_value are
 * in our order: a group's queries, its key, its value. */
#include <string.h>

#include "model/gpt/llama_like.h"

/* clang-format off */
#define WORDS(theirs) { "embedding.word_embeddings.weight", theirs ".weight", TX_HF_VOCAB, false },
#define HEAD                                                                          \
    { "output_layer.weight",            "/lm_head.weight", TX_HF_VOCAB, false },      \
    { "output_layer.bias",              "/lm_head.bias",   TX_HF_VOCAB, false },
#define FUSED(attention)                                                              \
    TX__BOTH("self_attention.query_key_value", attention ".query_key_value")          \
    TX__BOTH("self_attention.dense", attention ".dense")
#define MLP(in, out) TX__BOTH("mlp.dense_h_to_4h", "mlp." in) TX__BOTH("mlp.dense_4h_to_h", "mlp." out)

static const tx_hf_name neox_top[] = {
    WORDS("embed_in") TX__BOTH("encoder.final_layernorm", "final_layer_norm")
    { "output_layer.weight",            "/embed_out.weight", TX_HF_VOCAB, false },
    TX__ROW_END,
};
static const tx_hf_name neox_layer[] = {
    TX__BOTH("input_layernorm", "input_layernorm") TX__BOTH("post_attention_layernorm", "post_attention_layernorm")
    FUSED("attention") MLP("dense_h_to_4h", "dense_4h_to_h") TX__ROW_END,
};
static const tx_hf_name gptj_top[] = {
    WORDS("wte") TX__BOTH("encoder.final_layernorm", "ln_f") HEAD TX__ROW_END,
};
static const tx_hf_name gptj_layer[] = {
    TX__BOTH("input_layernorm", "ln_1") TX__QKV_BOTH("attn") TX__BOTH("self_attention.dense", "attn.out_proj")
    MLP("fc_in", "fc_out") TX__ROW_END,
};
static const tx_hf_name phi_top[] = {
    WORDS("embed_tokens") TX__BOTH("encoder.final_layernorm", "final_layernorm") HEAD TX__ROW_END,
};
static const tx_hf_name phi_layer[] = {
    TX__BOTH("input_layernorm", "input_layernorm") TX__QKV_BOTH("self_attn")
    TX__BOTH("self_attention.dense", "self_attn.dense") MLP("fc1", "fc2") TX__ROW_END,
};
static const tx_hf_name falcon_top[] = {
    WORDS("word_embeddings") TX__BOTH("encoder.final_layernorm", "ln_f") HEAD TX__ROW_END,
};
static const tx_hf_name falcon_layer[] = {
    TX__BOTH("input_layernorm", "input_layernorm") TX__BOTH("post_attention_layernorm", "post_attention_layernorm")
    FUSED("self_attention") MLP("dense_h_to_4h", "dense_4h_to_h") TX__ROW_END,
};
static const tx_hf_name falcon_two_layer[] = {
    TX__BOTH("input_layernorm", "ln_attn") TX__BOTH("post_attention_layernorm", "ln_mlp")
    FUSED("self_attention") MLP("dense_h_to_4h", "dense_4h_to_h") TX__ROW_END,
};
/* clang-format on */

/* Files' buffers, and heads that are tied. */
static const tx_hf_extra extra[] = { { ".attention.bias", "no weight" },
                                     { ".attention.masked_bias", "no weight" },
                                     { ".attn.bias", "no weight" },
                                     { ".attn.masked_bias", "no weight" },
                                     { ".rotary_emb.inv_freq", "no weight" },
                                     { ".embed_positions", "no weight" },
                                     { "lm_head.weight", "tied to the word embedding" },
                                     { "embed_out.weight", "tied to the word embedding" },
                                     { NULL, NULL } };
static const tx_hf_old neox_old[] = { { "embed_out.weight", "lm_head.weight" }, { NULL, NULL } };

/* ---- config.json ---- */

static const tx_hf_choice two_norms[] = {
    { "true", { { "parallel_residual", "\"two_norms\"" } } },
    { "false", { { "parallel_residual", "\"none\"" } } },
    { NULL, { { NULL, NULL } } },
};

static const tx_hf_key neox_keys[] = {
    TX__LLAMA_SIZES,
    TX__TURNED,
    TX__LAYERNORM("layer_norm_eps", "1e-5"),
    TX_HF_ONE_OF("hidden_act", tx__hf_activations, "gelu"),
    TX_HF_ONE_OF("use_parallel_residual", two_norms, "true"),
    TX_HF_NOT("disable_attention_bias", "attention_bias", "true"),
    TX__TIED("false"),
    TX_HF_IS("rotary_percent", "0.25"),
    TX_HF_BY("rope_parameters", tx__rope_read, tx__rope_neox_write),
    TX_HF_ANY("rope_theta"),
    TX_HF_ANY("rope_scaling"),
    TX_HF_ANY("partial_rotary_factor"),
    TX_HF_ANY("rotary_pct"),
    TX_HF_ANY("rotary_emb_base"),
    TX_HF_MUST("is_decoder", "false"),
    TX__NO_TOKENS,
    TX_HF_END,
};

/* Numbers of a head that are turned; null is all. */
static tx_status read_turned(json_t *o, const json_t *config)
{
    int64_t d = tx_hf_size(o, "kv_channels"), n;
    const json_t *v = json_object_get(config, "rotary_dim");
    TX_TRY(tx_hf_get_size_or(config, "rotary_dim", v ? d : 64, &n));
    if (n > d) return TX_FAIL(TX_ERR_FORMAT, "config.json: \"rotary_dim\" is more than a head has");
    return tx_hf_put(o, "rotary_percent", json_real((double)n / (double)d));
}

static tx_status write_turned(json_t *config, const json_t *o)
{
    double n = tx_hf_number(o, "rotary_percent") * (double)tx_hf_size(o, "kv_channels");
    return tx_hf_say(config, "rotary_dim", json_integer((json_int_t)(n + 0.5)));
}

static const tx_hf_key gptj_keys[] = {
    TX_HF_COUNT("num_layers", "n_layer"),
    TX_HF_COUNT("hidden_size", "n_embd"),
    TX_HF_COUNT("num_attention_heads", "n_head"),
    TX_HF_COUNT("max_position_embeddings", "n_positions"),
    TX_HF_COUNT_OR("ffn_hidden_size", "n_inner"),
    TX_HF_ONE_OF("activation_function", tx__hf_activations, "gelu_new"),
    TX__LAYERNORM("layer_norm_epsilon", "1e-5"),
    TX__TURNED,
    TX_HF_IS("rotary_interleaved", "true"),
    TX_HF_BY("rotary_dim", read_turned, write_turned),
    TX_HF_IS("parallel_residual", "\"one_norm\""),
    TX_HF_IS("disable_attention_bias", "true"),
    TX_HF_IS("output_bias", "true"),
    TX_HF_MUST("tie_word_embeddings", "false"),
    TX_HF_IS("untie_embeddings_and_output_weights", "true"),
    TX_HF_MUST("rotary", "true"),
    TX_HF_MUST("scale_attn_weights", "true"),
    TX__NO_TOKENS,
    TX_HF_END,
};

static const tx_hf_key phi_keys[] = {
    TX__LLAMA_SIZES,
    TX__GROUPS,
    TX__TURNED,
    TX__LAYERNORM("layer_norm_eps", "1e-5"),
    TX_HF_ONE_OF("hidden_act", tx__hf_activations, "gelu_new"),
    TX_HF_IS("parallel_residual", "\"one_norm\""),
    TX_HF_IS("output_bias", "true"),
    TX_HF_MUST("tie_word_embeddings", "false"),
    TX_HF_IS("untie_embeddings_and_output_weights", "true"),
    TX_HF_IS("rotary_percent", "0.5"),
    TX__ROPE,
    TX_HF_MUST("qk_layernorm", "false"),
    TX__NO_TOKENS,
    TX_HF_END,
};

/* ---- Falcon: which of its layers ---- */

/* The old decoder has a key and value for all heads (multi_query), or one a head; the new one groups, and one norm or
 * two. */
static tx_status read_falcon(json_t *o, const json_t *config, bool two)
{
    bool renewed, shared, parallel;
    int64_t groups, norms;
    TX_TRY(tx_hf_get_bool(config, "new_decoder_architecture", false, &renewed));
    TX_TRY(tx_hf_get_bool(config, "multi_query", true, &shared));
    TX_TRY(tx_hf_get_bool(config, "parallel_attn", true, &parallel));
    TX_TRY(tx_hf_get_size_or(config, "num_kv_heads", tx_hf_size(o, "num_attention_heads"), &groups));
    TX_TRY(tx_hf_get_size_or(config, "num_ln_in_parallel_attn", renewed ? 2 : 1, &norms));
    if (norms > 2 || (norms == 2 && !renewed) || (renewed && !parallel))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "config.json: a falcon with num_ln_in_parallel_attn %lld, new_decoder_architecture %s and "
                       "parallel_attn %s is not built",
                       (long long)norms, renewed ? "true" : "false", parallel ? "true" : "false");
    if (!renewed) groups = shared ? 1 : tx_hf_size(o, "num_attention_heads");
    TX_TRY(tx_hf_put(o, "num_key_value_heads", json_integer(groups)));
    if (two != (parallel && norms == 2))
        return TX_FAIL(TX_ERR_FORMAT,
                       "config.json: \"num_ln_in_parallel_attn\" and the files' tensors (%s) are of "
                       "different falcons",
                       two ? "ln_attn" : "input_layernorm");
    return tx_hf_put(o, "parallel_residual", json_string(!parallel ? "none" : two ? "two_norms" : "one_norm"));
}

static tx_status read_falcon_one(json_t *o, const json_t *config)
{
    return read_falcon(o, config, false);
}

static tx_status read_falcon_two(json_t *o, const json_t *config)
{
    return read_falcon(o, config, true);
}

static tx_status write_falcon(json_t *config, const json_t *o)
{
    int64_t groups = tx_hf_size(o, "num_key_value_heads");
    const char *parallel = tx_hf_word(o, "parallel_residual");
    bool two = !strcmp(parallel, "two_norms"), one = groups == 1;
    bool renewed = two || (!one && groups != tx_hf_size(o, "num_attention_heads"));
    TX_TRY(tx_hf_say(config, "new_decoder_architecture", json_boolean(renewed)));
    TX_TRY(tx_hf_say(config, "multi_query", json_boolean(renewed || one)));
    TX_TRY(tx_hf_say(config, "parallel_attn", json_boolean(two || !strcmp(parallel, "one_norm"))));
    TX_TRY(tx_hf_say(config, "num_ln_in_parallel_attn", renewed ? json_integer(two ? 2 : 1) : json_null()));
    return tx_hf_say(config, "num_kv_heads", json_integer(groups));
}

static const tx_hf_choice biases[] = {
    { "true", { { "add_bias_linear", "true" } } },
    { "false", { { "add_bias_linear", "false" } } },
    { NULL, { { NULL, NULL } } },
};

/* The first files do not say it. */
static tx_status read_reach(json_t *o, const json_t *config)
{
    int64_t n;
    TX_TRY(tx_hf_get_size_or(config, "max_position_embeddings", 2048, &n));
    return tx_hf_put(o, "max_position_embeddings", json_integer(n));
}

static tx_status write_reach(json_t *config, const json_t *o)
{
    return tx_hf_say(config, "max_position_embeddings", json_integer(tx_hf_size(o, "max_position_embeddings")));
}

/* ALiBi is divided by the root of a head's width there, and its slopes are rounded to bf16. */
#define FALCON                                                                                                      \
    { .kind = TX_HF_SIZE, .option = "num_layers", .theirs = "num_hidden_layers", .also = "n_layer" },               \
        { .kind = TX_HF_SIZE, .option = "hidden_size", .theirs = "hidden_size", .also = "n_embed" },                \
        { .kind = TX_HF_SIZE, .option = "num_attention_heads", .theirs = "num_attention_heads", .also = "n_head" }, \
        TX_HF_COUNT_OR("ffn_hidden_size", "ffn_hidden_size"),                                                       \
        TX_HF_BY("max_position_embeddings", read_reach, write_reach), TX__TURNED,                                   \
        TX__LAYERNORM("layer_norm_epsilon", "1e-5"), TX_HF_ONE_OF("activation", tx__hf_activations, "gelu"),        \
        TX_HF_ONE_OF("bias", biases, "false"), TX_HF_MUST("alibi", "false"), TX__TIED("true"),                      \
        TX_HF_ANY("multi_query"), TX_HF_ANY("parallel_attn"), TX_HF_ANY("num_kv_heads"), TX_HF_ANY("n_head_kv"),    \
        TX_HF_ANY("num_ln_in_parallel_attn"), TX__ROPE,                                                             \
        TX_HF_MUST("apply_residual_connection_post_layernorm", "false"), TX__NO_TOKENS
static const tx_hf_key falcon_keys[] = {
    FALCON,
    TX_HF_BY("new_decoder_architecture", read_falcon_one, write_falcon),
    TX_HF_END,
};
static const tx_hf_key falcon_two_keys[] = {
    FALCON,
    TX_HF_BY("new_decoder_architecture", read_falcon_two, write_falcon),
    TX_HF_END,
};

/* ---- the formats ---- */

extern const tx_hf_format tx_hf_gpt_neox, tx_hf_gptj, tx_hf_phi, tx_hf_falcon,
    tx_hf_falcon_two; /* hf_format.c lists them */
#define FORMAT(type, class, prefix_, layers_, top_, layer_, keys_)                                                 \
    .model_type = type, .architecture = class "ForCausalLM", .model = "GPT", .prefix = prefix_, .layers = layers_, \
    .top = top_, .layer = layer_, .extra = extra, .keys = keys_

const tx_hf_format tx_hf_gpt_neox = {
    FORMAT("gpt_neox", "GPTNeoX", "gpt_neox.", "layers", neox_top, neox_layer, neox_keys), .old = neox_old
};
const tx_hf_format tx_hf_gptj = { FORMAT("gptj", "GPTJ", "transformer.", "h", gptj_top, gptj_layer, gptj_keys) };
const tx_hf_format tx_hf_phi = { FORMAT("phi", "Phi", "model.", "layers", phi_top, phi_layer, phi_keys) };
const tx_hf_format tx_hf_falcon = { FORMAT("falcon", "Falcon", "transformer.", "h", falcon_top, falcon_layer,
                                           falcon_keys) };
const tx_hf_format tx_hf_falcon_two = { FORMAT("falcon", "Falcon", "transformer.", "h", falcon_top, falcon_two_layer,
                                               falcon_two_keys),
                                        .sign = "transformer.h.0.ln_attn.weight" };
