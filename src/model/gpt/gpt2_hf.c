/* gpt2_hf.c - Hugging Face's GPT2LMHeadModel. Linear weights are [in, out] there (Conv1D), [out, in] here. */
#include <string.h>

#include "model/gpt/gpt.h"
#include "model/hf_format.h"

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

static bool fits(const tx_model *m)
{
    const tx_gpt *g = (const tx_gpt *)m;
    const tx_block *b = &g->t.block[0];
    return tx__gpt_is_plain(g) && m->experts.n_experts == 1 && b->ln1.kind == TX_LAYERNORM && !b->ln1.plus_one &&
           !g->t.normed && !b->residual_post_norm && m->n_groups == m->n_heads &&
           m->head_dim * m->n_heads == m->hidden && !b->mlp.gated && b->mlp.activation != TX_SQUARED_RELU &&
           g->t.traits & TX_WITH_POS && g->t.traits & TX_WITH_BIAS && !b->attn.qk_norm;
}

/* ---- config.json ---- */

static const tx_hf_size sizes[] = { TX_HF_SIZE("num_layers", "n_layer", n_layers),
                                    TX_HF_SIZE("hidden_size", "n_embd", hidden),
                                    TX_HF_SIZE("num_attention_heads", "n_head", n_heads),
                                    TX_HF_SIZE("max_position_embeddings", "n_positions", max_positions),
                                    TX_HF_SIZE("vocab_size", "vocab_size", n_valid),
                                    TX_HF_SIZE_OR("ffn_hidden_size", "n_inner", ffn),
                                    { .option = NULL } };
static const char *const unsaid[] = { "rotary_percent", "rope_theta", "bert_binary_head", NULL };

static tx_status read(json_t *o, const json_t *config)
{
    const char *act;
    double eps;
    bool by_layer, scaled, tied;
    TX_TRY(tx_hf_get_word(config, "activation_function", "gelu_new", &act));
    bool tanh_form = !strcmp(act, "gelu_new") || !strcmp(act, "gelu_pytorch_tanh") || !strcmp(act, "gelu_fast");
    if (!tanh_form && strcmp(act, "gelu"))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "config.json: activation_function \"%.60s\" is not built yet (gelu_new, gelu are)", act);
    TX_TRY(tx_hf_get_bool(config, "scale_attn_by_inverse_layer_idx", false, &by_layer));
    TX_TRY(tx_hf_get_bool(config, "scale_attn_weights", true, &scaled));
    TX_TRY(tx_hf_get_bool(config, "tie_word_embeddings", true, &tied));
    if (by_layer || !scaled)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: only attention scaled by 1/sqrt(head size) is built");
    TX_TRY(tx_hf_get_number(config, "layer_norm_epsilon", 1e-5, &eps));
    return tx_hf_set(o, json_pack("{sf sb sb}", "layernorm_epsilon", eps, "bias_gelu_fusion", tanh_form,
                                  "untie_embeddings_and_output_weights", !tied));
}

static tx_status write(json_t *o, const tx_model *m)
{
    const tx_block *b = &((const tx_gpt *)m)->t.block[0];
    return tx_hf_set(o, json_pack("{s[s] sI ss sf sb sn sn}", "architectures", "GPT2LMHeadModel", "n_ctx",
                                  (json_int_t)m->max_positions, "activation_function",
                                  b->mlp.activation == TX_GELU_TANH ? "gelu_new" : "gelu", "layer_norm_epsilon",
                                  b->ln1.eps, "tie_word_embeddings", !(((const tx_gpt *)m)->t.traits & TX_WITH_OUTPUT),
                                  "bos_token_id", "eos_token_id"));
}

extern const tx_hf_format tx_hf_gpt2; /* hf_format.c lists it */
const tx_hf_format tx_hf_gpt2 = {
    .model_type = "gpt2",
    .model = "GPT",
    .prefix = "transformer.",
    .layers = "h",
    .top = top,
    .layer = layer,
    .extra = extra,
    .fits = fits,
    .sizes = sizes,
    .unsaid = unsaid,
    .read = read,
    .write = write,
};
