/* bert_hf.c - Hugging Face's BertForPreTraining, which normalises behind its layers (--post-layernorm), and
 * MegatronBertForPreTraining, which does so in front of them. Queries, keys and values are tensors of their own there.
 */
#include <string.h>

#include "base/log.h"
#include "model/bert/bert.h"
#include "model/hf_format.h"

/* clang-format off */
#define QKV(what) \
    { "self_attention.query_key_value." what, "attention.self.query." what, TX_HF_Q, false }, \
    { "self_attention.query_key_value." what, "attention.self.key." what,   TX_HF_K, false }, \
    { "self_attention.query_key_value." what, "attention.self.value." what, TX_HF_V, false }
#define SAME(ours, theirs) \
    { ours ".weight", theirs ".weight", TX_HF_ALL, false }, \
    { ours ".bias",   theirs ".bias",   TX_HF_ALL, false }
#define MATRICES \
    QKV("weight"), QKV("bias"), SAME("self_attention.dense", "attention.output.dense"), \
    SAME("mlp.dense_h_to_4h", "intermediate.dense"), SAME("mlp.dense_4h_to_h", "output.dense")
#define ENDS \
    { "embedding.word_embeddings.weight",      "embeddings.word_embeddings.weight",       TX_HF_VOCAB, false }, \
    { "embedding.position_embeddings.weight",  "embeddings.position_embeddings.weight",   TX_HF_ALL,   false }, \
    { "embedding.tokentype_embeddings.weight", "embeddings.token_type_embeddings.weight", TX_HF_ALL,   false }, \
    SAME("pooler.dense", "pooler.dense"), \
    SAME("lm_head.dense", "/cls.predictions.transform.dense"), \
    SAME("lm_head.layernorm", "/cls.predictions.transform.LayerNorm"), \
    { "lm_head.bias",                          "/cls.predictions.bias",                   TX_HF_VOCAB, false }, \
    SAME("binary_head", "/cls.seq_relationship")

static const tx_hf_name post_top[] = {
    ENDS,
    SAME("embedding.layernorm", "embeddings.LayerNorm"),
    { NULL, NULL, TX_HF_ALL, false },
};
static const tx_hf_name post_layer[] = {
    MATRICES,
    SAME("post_attention_layernorm", "attention.output.LayerNorm"),
    SAME("post_mlp_layernorm", "output.LayerNorm"),
    { NULL, NULL, TX_HF_ALL, false },
};
static const tx_hf_name pre_top[] = {
    ENDS,
    SAME("encoder.final_layernorm", "encoder.ln"),
    { NULL, NULL, TX_HF_ALL, false },
};
static const tx_hf_name pre_layer[] = {
    MATRICES,
    SAME("input_layernorm", "attention.ln"),
    SAME("post_attention_layernorm", "ln"),
    { NULL, NULL, TX_HF_ALL, false },
};
/* clang-format on */

/* A buffer, and the matrix that is tied to the embedding with a second name of its bias. */
static const char *const extra[] = { "embeddings.position_ids", "cls.predictions.decoder.weight",
                                     "cls.predictions.decoder.bias", NULL };

static const tx_hf_old old[] = { { "LayerNorm.weight", "LayerNorm.gamma" },
                                 { "LayerNorm.bias", "LayerNorm.beta" },
                                 { NULL, NULL } };

/* ---- which models ---- */

static bool fits(const tx_model *m, bool post_norm)
{
    const tx_bert *g = (const tx_bert *)m;
    const tx_block *b = &g->t.block[0];
    return b->post_norm == post_norm && b->ln1.kind == TX_LAYERNORM && !b->ln1.plus_one && !b->residual_post_norm &&
           !b->attn.n_rot && m->n_groups == m->n_heads && m->head_dim * m->n_heads == m->hidden && !b->mlp.gated &&
           b->mlp.activation != TX_SQUARED_RELU && g->t.traits & TX_WITH_POS && g->t.traits & TX_WITH_BIAS &&
           g->has_binary;
}

static bool fits_post(const tx_model *m)
{
    return fits(m, true);
}

static bool fits_pre(const tx_model *m)
{
    return fits(m, false);
}

/* ---- config.json ---- */

/* Of both heads' and layers' activation. */
static tx_status get_activation(const json_t *config, bool *tanh_form)
{
    const char *act = json_string_value(json_object_get(config, "hidden_act"));
    if (!act) act = "gelu";
    *tanh_form = !strcmp(act, "gelu_new") || !strcmp(act, "gelu_pytorch_tanh") || !strcmp(act, "gelu_fast");
    if (*tanh_form || !strcmp(act, "gelu")) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: hidden_act \"%.60s\" is not built (gelu and gelu_new are)", act);
}

/* What a BERT may have there and has not here. */
static tx_status check_config(const json_t *config)
{
    const char *positions = json_string_value(json_object_get(config, "position_embedding_type"));
    int64_t types = 2;
    if (positions && strcmp(positions, "absolute"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: position_embedding_type \"%.60s\" is not built (absolute is)",
                       positions);
    if (tx_hf_get_bool(config, "is_decoder", false) || tx_hf_get_bool(config, "add_cross_attention", false))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a BERT that is a decoder is not built");
    if (!tx_hf_get_bool(config, "tie_word_embeddings", true))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a BERT whose head is not its word embedding is not built");
    if (json_object_get(config, "type_vocab_size")) TX_TRY(tx_hf_get_size(config, "type_vocab_size", &types));
    if (types != 2)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: type_vocab_size %lld is not built (2 is)", (long long)types);
    return TX_OK;
}

static tx_status options(json_t **out, const json_t *config, bool post_norm)
{
    int64_t layers, hidden, heads, positions, vocab, inner;
    bool tanh_form;
    TX_TRY(check_config(config));
    TX_TRY(get_activation(config, &tanh_form));
    TX_TRY(tx_hf_get_size(config, "num_hidden_layers", &layers));
    TX_TRY(tx_hf_get_size(config, "hidden_size", &hidden));
    TX_TRY(tx_hf_get_size(config, "num_attention_heads", &heads));
    TX_TRY(tx_hf_get_size(config, "intermediate_size", &inner));
    TX_TRY(tx_hf_get_size(config, "max_position_embeddings", &positions));
    TX_TRY(tx_hf_get_size(config, "vocab_size", &vocab));
    const json_t *eps = json_object_get(config, "layer_norm_eps");
    json_t *o =
        json_pack("{ss sb sb sI sI sI sI sI sI sI ss sf sb sb sb sb sn sb sb sb sb sb sb sb sI}", "model_type", "BERT",
                  "post_layernorm", post_norm, "bert_binary_head", 1, "num_layers", layers, "hidden_size", hidden,
                  "num_attention_heads", heads, "num_key_value_heads", heads, "kv_channels", hidden / heads,
                  "ffn_hidden_size", inner, "max_position_embeddings", positions, "normalization", "layernorm",
                  "layernorm_epsilon", json_is_number(eps) ? json_number_value(eps) : 1e-12, "bias_gelu_fusion", 0,
                  "openai_gelu", tanh_form, "squared_relu", 0, "swiglu", 0, "glu_activation", "add_bias_linear", 1,
                  "add_position_embedding", 1, "use_rotary_position_embeddings", 0,
                  "untie_embeddings_and_output_weights", 0, "apply_residual_connection_post_layernorm", 0,
                  "apply_layernorm_1p", 0, "embed_layernorm", 0, "vocab_size", vocab);
    if (!o) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    *out = o;
    return TX_OK;
}

static tx_status options_post(json_t **out, const json_t *config)
{
    return options(out, config, true);
}

static tx_status options_pre(json_t **out, const json_t *config)
{
    return options(out, config, false);
}

static tx_status config(json_t **out, const tx_model *m)
{
    const tx_bert *g = (const tx_bert *)m;
    const tx_block *b = &g->t.block[0];
    if (b->mlp.activation != g->activation)
        tx_warn("this model's layers have the tanh form of GELU and its masked-LM head, as Megatron's, the erf form; "
                "Hugging Face has one hidden_act for both, gelu_new here: logits will differ a little, which "
                "--no-proof accepts");
    json_t *o = json_pack(
        "{ss s[s] sI sI sI sI sI sI sI ss sf sf sf sI sb}", "model_type", b->post_norm ? "bert" : "megatron-bert",
        "architectures", b->post_norm ? "BertForPreTraining" : "MegatronBertForPreTraining", "num_hidden_layers",
        (json_int_t)m->n_layers, "hidden_size", (json_int_t)m->hidden, "num_attention_heads", (json_int_t)m->n_heads,
        "intermediate_size", (json_int_t)m->ffn, "max_position_embeddings", (json_int_t)m->max_positions, "vocab_size",
        (json_int_t)m->n_valid, "type_vocab_size", (json_int_t)2, "hidden_act",
        b->mlp.activation == TX_GELU_TANH ? "gelu_new" : "gelu", "layer_norm_eps", b->ln1.eps, "hidden_dropout_prob",
        b->p_drop, "attention_probs_dropout_prob", b->attn.p_drop, "pad_token_id", (json_int_t)0, "tie_word_embeddings",
        1);
    if (!o) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    *out = o;
    return TX_OK;
}

extern const tx_hf_format tx_hf_bert, tx_hf_megatron_bert; /* hf_format.c lists them */
const tx_hf_format tx_hf_bert = {
    .model_type = "bert",
    .model = "BERT",
    .prefix = "bert.",
    .layers = "encoder.layer",
    .top = post_top,
    .layer = post_layer,
    .extra = extra,
    .old = old,
    .fits = fits_post,
    .options = options_post,
    .config = config,
};
const tx_hf_format tx_hf_megatron_bert = {
    .model_type = "megatron-bert",
    .model = "BERT",
    .prefix = "bert.",
    .layers = "encoder.layer",
    .top = pre_top,
    .layer = pre_layer,
    .extra = extra,
    .old = old,
    .fits = fits_pre,
    .options = options_pre,
    .config = config,
};
