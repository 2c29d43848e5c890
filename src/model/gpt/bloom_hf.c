/* bloom_hf.c - Hugging Face's relatives of GPT-2 and GPT-3 whose matrices are [out, in] there as here:
 * BloomForCausalLM, OPTForCausalLM, MptForCausalLM, GPTBigCodeForCausalLM (SantaCoder, StarCoder) and
 * Starcoder2ForCausalLM. */
#include "model/gpt/llama_like.h"

/* clang-format off */
#define WORDS(theirs)     { "embedding.word_embeddings.weight",     theirs ".weight", TX_HF_VOCAB, false },
#define POSITIONS(theirs) { "embedding.position_embeddings.weight", theirs ".weight", TX_HF_ALL, false },
#define HEAD              { "output_layer.weight",                  "/lm_head.weight", TX_HF_VOCAB, false },
#define MLP(in, out) TX__BOTH("mlp.dense_h_to_4h", in) TX__BOTH("mlp.dense_4h_to_h", out)
#define NORMS(first, second) TX__BOTH("input_layernorm", first) TX__BOTH("post_attention_layernorm", second)

static const tx_hf_name bloom_top[] = {
    WORDS("word_embeddings") TX__BOTH("embedding.word_embeddings.norm", "word_embeddings_layernorm")
    TX__BOTH("encoder.final_layernorm", "ln_f") HEAD TX__ROW_END,
};
static const tx_hf_name bloom_layer[] = {
    NORMS("input_layernorm", "post_attention_layernorm")
    TX__BOTH("self_attention.query_key_value", "self_attention.query_key_value")
    TX__BOTH("self_attention.dense", "self_attention.dense")
    MLP("mlp.dense_h_to_4h", "mlp.dense_4h_to_h") TX__ROW_END,
};
/* Positions begin behind two rows. */
static const tx_hf_name opt_top[] = {
    WORDS("embed_tokens") { "embedding.position_embeddings.weight", "embed_positions.weight", TX_HF_BEHIND_2, false },
    TX__BOTH("encoder.final_layernorm", "final_layer_norm") HEAD TX__ROW_END,
};
static const tx_hf_name opt_layer[] = {
    NORMS("self_attn_layer_norm", "final_layer_norm") TX__QKV_BOTH("self_attn")
    TX__BOTH("self_attention.dense", "self_attn.out_proj") MLP("fc1", "fc2") TX__ROW_END,
};
static const tx_hf_name gpt2_like_top[] = {
    WORDS("wte") POSITIONS("wpe") TX__BOTH("encoder.final_layernorm", "ln_f") HEAD TX__ROW_END,
};
static const tx_hf_name bigcode_layer[] = {
    NORMS("ln_1", "ln_2") TX__BOTH("self_attention.query_key_value", "attn.c_attn")
    TX__BOTH("self_attention.dense", "attn.c_proj") MLP("mlp.c_fc", "mlp.c_proj") TX__ROW_END,
};
static const tx_hf_name mpt_top[] = {
    WORDS("wte") TX__BOTH("encoder.final_layernorm", "norm_f") HEAD TX__ROW_END,
};
static const tx_hf_name mpt_layer[] = {
    NORMS("norm_1", "norm_2")
    { "self_attention.query_key_value.weight", "attn.Wqkv.weight", TX_HF_QKV, false },
    TX__BOTH("self_attention.dense", "attn.out_proj") MLP("ffn.up_proj", "ffn.down_proj") TX__ROW_END,
};
static const tx_hf_name starcoder2_layer[] = {
    NORMS("input_layernorm", "post_attention_layernorm") TX__QKV_BOTH("self_attn")
    TX__BOTH("self_attention.dense", "self_attn.o_proj") MLP("mlp.c_fc", "mlp.c_proj") TX__ROW_END,
};
/* clang-format on */

static const tx_hf_extra extra[] = { { ".attn.bias", "no weight" },
                                     { ".attn.masked_bias", "no weight" },
                                     { ".attn.attention.bias", "no weight" },
                                     { ".attn.attention.masked_bias", "no weight" },
                                     { "lm_head.weight", "tied to the word embedding" },
                                     { NULL, NULL } };

/* ---- BLOOM ---- */

#define ALIBI TX_HF_IS("add_position_embedding", "false")

/* What it was made for, if it is said; it can read any length. */
static tx_status read_bloom(json_t *o, const json_t *config)
{
    int64_t n;
    TX_TRY(tx_hf_get_size_or(config, "seq_length", 2048, &n));
    TX_TRY(tx_hf_put(o, "max_position_embeddings", json_integer(n)));
    return json_object_set_new(o, "position_embedding_type", json_string("alibi"))
               ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json")
               : TX_OK;
}

static tx_status write_bloom(json_t *config, const json_t *o)
{
    return tx_hf_say(config, "seq_length", json_integer(tx_hf_size(o, "max_position_embeddings")));
}

/* The norm of embeddings is of epsilon 1e-5 here, whatever the others' is. */
static const tx_hf_key bloom_keys[] = {
    { .kind = TX_HF_SIZE, .option = "num_layers", .theirs = "n_layer", .also = "num_hidden_layers" },
    { .kind = TX_HF_SIZE, .option = "hidden_size", .theirs = "hidden_size", .also = "n_embed" },
    { .kind = TX_HF_SIZE, .option = "num_attention_heads", .theirs = "n_head", .also = "num_attention_heads" },
    ALIBI,
    TX_HF_BY("seq_length", read_bloom, write_bloom),
    TX_HF_IS("embed_layernorm", "true"),
    TX_HF_IS("bias_gelu_fusion", "true"),
    TX_HF_MUST("layer_norm_epsilon", "1e-5"),
    TX_HF_FLAG("apply_residual_connection_post_layernorm", "apply_residual_connection_post_layernorm", "false"),
    TX__TIED("true"),
    TX_HF_ANY("slow_but_exact"),
    TX_HF_ANY("attention_softmax_in_fp32"),
    TX_HF_ANY("masked_softmax_fusion"),
    TX_HF_ANY("bias_dropout_fusion"),
    TX_HF_ANY("offset_alibi"),
    TX_HF_ANY("skip_bias_add"),
    TX_HF_ANY("skip_bias_add_qkv"),
    TX__NO_TOKENS,
    TX_HF_END,
};

/* ---- MPT ---- */

static tx_status read_mpt(json_t *o, const json_t *config)
{
    int64_t ratio, n = tx_hf_size(o, "num_attention_heads");
    TX_TRY(tx_hf_get_size_or(config, "expansion_ratio", 4, &ratio));
    if (ratio != 4)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: \"expansion_ratio\" must be 4, as the class has it");
    if (n & (n - 1))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "config.json: an mpt of %lld \"n_heads\" is not built, whose slopes are in another order than "
                       "BLOOM's (a power of two is)",
                       (long long)n);
    return json_object_set_new(o, "position_embedding_type", json_string("alibi"))
               ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json")
               : TX_OK;
}

static const tx_hf_key mpt_keys[] = {
    TX_HF_COUNT("num_layers", "n_layers"),
    TX_HF_COUNT("hidden_size", "d_model"),
    TX_HF_COUNT("num_attention_heads", "n_heads"),
    TX_HF_COUNT("max_position_embeddings", "max_seq_len"),
    ALIBI,
    TX_HF_BY("expansion_ratio", read_mpt, NULL),
    TX_HF_WRITES("expansion_ratio", "4"),
    TX_HF_IS("add_bias_linear", "false"),
    TX_HF_IS("disable_norm_bias", "true"),
    TX_HF_IS("bias_gelu_fusion", "false"),
    TX__LAYERNORM("layer_norm_epsilon", "1e-5"),
    TX__TIED("true"),
    TX_HF_MUST("no_bias", "true"),
    TX_HF_MUST("embedding_fraction", "1.0"),
    TX_HF_MUST("logit_scale", "null"),
    TX_HF_ANY("learned_pos_emb"),
    TX_HF_ANY("norm_type"),
    TX_HF_ANY("verbose"),
    TX_HF_MUST("attn_config.alibi", "true"),
    TX_HF_MUST("attn_config.alibi_bias_max", "8"),
    TX_HF_MUST("attn_config.attn_type", "\"multihead_attention\""),
    TX_HF_MUST("attn_config.clip_qkv", "null"),
    TX_HF_MUST("attn_config.softmax_scale", "null"),
    TX_HF_MUST("attn_config.prefix_lm", "false"),
    TX_HF_MUST("attn_config.qk_ln", "false"),
    TX_HF_MUST("attn_config.qk_gn", "null"),
    TX_HF_MUST("attn_config.rope", "null"),
    TX_HF_MUST("attn_config.sliding_window_size", "null"),
    TX__NO_TOKENS,
    TX_HF_END,
};

/* ---- OPT ---- */

static tx_status read_opt(json_t *o, const json_t *config)
{
    int64_t n;
    TX_TRY(tx_hf_get_size_or(config, "word_embed_proj_dim", tx_hf_size(o, "hidden_size"), &n));
    if (n == tx_hf_size(o, "hidden_size")) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a \"word_embed_proj_dim\" apart from hidden_size is not built");
}

static tx_status write_opt(json_t *config, const json_t *o)
{
    return tx_hf_say(config, "word_embed_proj_dim", json_integer(tx_hf_size(o, "hidden_size")));
}

static const tx_hf_key opt_keys[] = {
    TX_HF_COUNT("num_layers", "num_hidden_layers"),
    TX_HF_COUNT("hidden_size", "hidden_size"),
    TX_HF_COUNT("num_attention_heads", "num_attention_heads"),
    TX_HF_COUNT("ffn_hidden_size", "ffn_dim"),
    TX_HF_COUNT("max_position_embeddings", "max_position_embeddings"),
    TX_HF_IS("layernorm_epsilon", "1e-5"),
    TX_HF_ONE_OF("activation_function", tx__hf_activations, "relu"),
    TX_HF_BY("word_embed_proj_dim", read_opt, write_opt),
    TX_HF_MUST("do_layer_norm_before", "true"),
    TX_HF_MUST("_remove_final_layer_norm", "false"),
    TX_HF_MUST("enable_bias", "true"),
    TX_HF_MUST("layer_norm_elementwise_affine", "true"),
    TX__TIED("true"),
    TX_HF_WRITES("pad_token_id", "null"),
    TX__NO_TOKENS,
    TX_HF_END,
};

/* ---- StarCoder's first, and second ---- */

static tx_status read_bigcode(json_t *o, const json_t *config)
{
    bool shared;
    TX_TRY(tx_hf_get_bool(config, "multi_query", true, &shared));
    return shared ? tx_hf_put(o, "num_key_value_heads", json_integer(1)) : TX_OK;
}

static tx_status write_bigcode(json_t *config, const json_t *o)
{
    return tx_hf_say(config, "multi_query", json_boolean(tx_hf_size(o, "num_key_value_heads") == 1));
}

static const tx_hf_key bigcode_keys[] = {
    TX_HF_COUNT("num_layers", "n_layer"),
    TX_HF_COUNT("hidden_size", "n_embd"),
    TX_HF_COUNT("num_attention_heads", "n_head"),
    TX_HF_COUNT("max_position_embeddings", "n_positions"),
    TX_HF_COUNT_OR("ffn_hidden_size", "n_inner"),
    TX_HF_ONE_OF("activation_function", tx__hf_activations, "gelu_pytorch_tanh"),
    TX__LAYERNORM("layer_norm_epsilon", "1e-5"),
    TX_HF_BY("multi_query", read_bigcode, write_bigcode),
    TX__TIED("true"),
    TX_HF_MUST("scale_attn_weights", "true"),
    TX_HF_MUST("add_cross_attention", "false"),
    TX_HF_ANY("attention_softmax_in_fp32"),
    TX_HF_ANY("scale_attention_softmax_in_fp32"),
    TX_HF_ANY("num_key_value_heads"),
    TX_HF_ANY("inference_runner"),
    TX_HF_ANY("max_batch_size"),
    TX_HF_ANY("max_sequence_length"),
    TX_HF_ANY("pad_key_length"),
    TX_HF_ANY("pre_allocate_kv_cache"),
    TX_HF_ANY("validate_runner_input"),
    TX__NO_TOKENS,
    TX_HF_END,
};

static const tx_hf_key starcoder2_keys[] = {
    TX__LLAMA_SIZES,
    TX__GROUPS,
    TX__TURNED,
    TX__LAYERNORM("norm_epsilon", "1e-5"),
    TX_HF_ONE_OF("hidden_act", tx__hf_activations, "gelu_pytorch_tanh"),
    TX_HF_FLAG("add_bias_linear", "use_bias", "true"),
    TX__TIED("true"),
    TX__ROPE,
    TX__WINDOW,
    TX_HF_ANY("norm_type"),
    TX_HF_ANY("mlp_type"),
    TX__NO_TOKENS,
    TX_HF_END,
};

/* ---- the formats ---- */

extern const tx_hf_format tx_hf_bloom, tx_hf_mpt, tx_hf_opt, tx_hf_gpt_bigcode,
    tx_hf_starcoder2; /* hf_format.c lists them */
#define FORMAT(type, class, prefix_, layers_, top_, layer_, keys_)                                                     \
    {                                                                                                                  \
        .model_type = type, .architecture = class "ForCausalLM", .model = "GPT", .prefix = prefix_, .layers = layers_, \
        .top = top_, .layer = layer_, .extra = extra, .keys = keys_                                                    \
    }

const tx_hf_format tx_hf_bloom = FORMAT("bloom", "Bloom", "transformer.", "h", bloom_top, bloom_layer, bloom_keys);
const tx_hf_format tx_hf_mpt = FORMAT("mpt", "Mpt", "transformer.", "blocks", mpt_top, mpt_layer, mpt_keys);
const tx_hf_format tx_hf_opt = FORMAT("opt", "OPT", "model.decoder.", "layers", opt_top, opt_layer, opt_keys);
const tx_hf_format tx_hf_gpt_bigcode =
    FORMAT("gpt_bigcode", "GPTBigCode", "transformer.", "h", gpt2_like_top, bigcode_layer, bigcode_keys);
const tx_hf_format tx_hf_starcoder2 =
    FORMAT("starcoder2", "Starcoder2", "model.", "layers", tx__llama_top, starcoder2_layer, starcoder2_keys);
