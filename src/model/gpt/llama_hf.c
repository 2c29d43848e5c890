/* llama_hf.c - Hugging Face's LlamaForCausalLM: q, k and v, and gate and up, are tensors of their own there. */
#include <string.h>

#include "model/gpt/llama_like.h"

/* clang-format off */
const tx_hf_name tx__llama_top[] = {
    { "embedding.word_embeddings.weight", "embed_tokens.weight", TX_HF_VOCAB, false },
    { "encoder.final_layernorm.weight",   "norm.weight",         TX_HF_ALL, false },
    { "output_layer.weight",              "/lm_head.weight",     TX_HF_VOCAB, false },
    { NULL, NULL, TX_HF_ALL, false },
};
/* clang-format on */
static const tx_hf_name layer[] = { TX__LLAMA_ATTENTION TX__LLAMA_MLP{ NULL, NULL, TX_HF_ALL, false } };

/* A buffer of old files, and the head where it is tied to the embedding. */
const tx_hf_extra tx__llama_extra[] = { { ".rotary_emb.inv_freq", "no weight" },
                                        { "lm_head.weight", "tied to the word embedding" },
                                        { NULL, NULL } };

bool tx__llama_fits(const tx_model *m, unsigned traits)
{
    const tx_gpt *g = (const tx_gpt *)m;
    const tx_block *b = &g->t.block[0];
    const unsigned all = TX_WITH_POS | TX_WITH_BIAS | TX_WITH_QKV_BIAS | TX_WITH_QK_NORM;
    return tx__gpt_is_plain(g) && b->ln1.kind == TX_RMSNORM && !g->t.normed && !b->residual_post_norm &&
           b->attn.n_rot == m->head_dim && b->mlp.gated && !b->mlp.gate_second && (g->t.traits & all) == traits;
}

static bool fits(const tx_model *m)
{
    return m->experts.n_experts == 1 && tx__llama_fits(m, 0);
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

static const tx_hf_size sizes[] = { TX__LLAMA_SIZES,
                                    TX_HF_SIZE_OR("kv_channels", "head_dim", head_dim),
                                    { .option = NULL } };
const char *const tx__llama_unsaid[] = { "bias_gelu_fusion", "bert_binary_head", NULL };

tx_status tx__llama_read(json_t *o, const json_t *config)
{
    const char *act;
    double theta, eps;
    bool tied;
    if (json_integer_value(json_object_get(o, "kv_channels")) < 1)
        return TX_FAIL(TX_ERR_FORMAT, "config.json: hidden_size is less than num_attention_heads");
    TX_TRY(get_rope(config, &theta));
    TX_TRY(tx_hf_get_word(config, "hidden_act", "silu", &act));
    if (strcmp(act, "silu"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: hidden_act \"%.60s\" is not built (silu is)", act);
    TX_TRY(tx_hf_get_bool(config, "tie_word_embeddings", false, &tied));
    TX_TRY(tx_hf_get_number(config, "rms_norm_eps", 1e-6, &eps));
    return tx_hf_set(o, json_pack("{ss sf sb sb sb sb sf sb}", "normalization", "rmsnorm", "layernorm_epsilon", eps,
                                  "swiglu", 1, "add_bias_linear", 0, "add_position_embedding", 0,
                                  "use_rotary_position_embeddings", 1, "rope_theta", theta,
                                  "untie_embeddings_and_output_weights", !tied));
}

static tx_status read(json_t *o, const json_t *config)
{
    bool attention_bias, mlp_bias;
    TX_TRY(tx__llama_read(o, config));
    TX_TRY(tx_hf_get_bool(config, "attention_bias", false, &attention_bias));
    TX_TRY(tx_hf_get_bool(config, "mlp_bias", false, &mlp_bias));
    if (attention_bias || mlp_bias)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a Llama with attention_bias or mlp_bias is not built yet");
    return TX_OK;
}

/* Both ways of writing the base, for old and new readers. */
tx_status tx__llama_write(json_t *o, const tx_model *m, const char *architecture)
{
    const tx_gpt *g = (const tx_gpt *)m;
    const tx_block *b = &g->t.block[0];
    return tx_hf_set(o,
                     json_pack("{s[s] ss sf sf s{ss sf} sb sn sn}", "architectures", architecture, "hidden_act", "silu",
                               "rms_norm_eps", b->ln1.eps, "rope_theta", b->attn.rope_theta, "rope_parameters",
                               "rope_type", "default", "rope_theta", b->attn.rope_theta, "tie_word_embeddings",
                               !(g->t.traits & TX_WITH_OUTPUT), "bos_token_id", "eos_token_id"));
}

static tx_status write(json_t *o, const tx_model *m)
{
    TX_TRY(tx__llama_write(o, m, "LlamaForCausalLM"));
    return tx_hf_set(o, json_pack("{sb sb}", "attention_bias", 0, "mlp_bias", 0));
}

extern const tx_hf_format tx_hf_llama; /* hf_format.c lists it */
const tx_hf_format tx_hf_llama = {
    .model_type = "llama", TX__LLAMA_FORMAT, .layer = layer, .fits = fits, .sizes = sizes, .read = read, .write = write
};
