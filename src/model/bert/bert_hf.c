/* bert_hf.c - Hugging Face's BertForPreTraining, which normalises behind its layers (--post-layernorm), and
 * MegatronBertForPreTraining, which does so in front of them. Queries, keys and values are tensors of their own there.
 * Without the binary head they are BertForMaskedLM and MegatronBertForMaskedLM. These have token types, ours has not:
 * of a sample's one segment they are the same everywhere, so that positions take in what the first type adds. */
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
    SAME("lm_head.dense", "/cls.predictions.transform.dense"), \
    SAME("lm_head.layernorm", "/cls.predictions.transform.LayerNorm"), \
    { "lm_head.bias",                          "/cls.predictions.bias",                   TX_HF_VOCAB, false }
#define WITH_BINARY \
    { "embedding.tokentype_embeddings.weight", "embeddings.token_type_embeddings.weight", TX_HF_ALL, false }, \
    SAME("pooler.dense", "pooler.dense"), \
    SAME("binary_head", "/cls.seq_relationship")
#define WITHOUT_BINARY \
    { "embedding.position_embeddings.weight",  "embeddings.token_type_embeddings.weight", TX_HF_SEGMENTS, false }
#define POST_NORM SAME("embedding.layernorm", "embeddings.LayerNorm")
#define PRE_NORM SAME("encoder.final_layernorm", "encoder.ln")
#define END { NULL, NULL, TX_HF_ALL, false }

static const tx_hf_name post_top[] = { ENDS, POST_NORM, WITH_BINARY, END };
static const tx_hf_name post_top_masked[] = { ENDS, POST_NORM, WITHOUT_BINARY, END };
static const tx_hf_name pre_top[] = { ENDS, PRE_NORM, WITH_BINARY, END };
static const tx_hf_name pre_top_masked[] = { ENDS, PRE_NORM, WITHOUT_BINARY, END };
static const tx_hf_name post_layer[] = {
    MATRICES,
    SAME("post_attention_layernorm", "attention.output.LayerNorm"),
    SAME("post_mlp_layernorm", "output.LayerNorm"),
    END,
};
static const tx_hf_name pre_layer[] = {
    MATRICES,
    SAME("input_layernorm", "attention.ln"),
    SAME("post_attention_layernorm", "ln"),
    END,
};
/* clang-format on */

static const tx_hf_extra extra[] = { { "embeddings.position_ids", "no weight" },
                                     { "cls.predictions.decoder.weight", "tied to the word embedding" },
                                     { "cls.predictions.decoder.bias", "another name of the head's bias" },
                                     { NULL, NULL } };
static const tx_hf_extra extra_masked[] = { { "embeddings.position_ids", "no weight" },
                                            { "cls.predictions.decoder.weight", "tied to the word embedding" },
                                            { "cls.predictions.decoder.bias", "another name of the head's bias" },
                                            { "pooler.dense.weight", "there is no binary head" },
                                            { "pooler.dense.bias", "there is no binary head" },
                                            { NULL, NULL } };

static const tx_hf_old old[] = { { "LayerNorm.weight", "LayerNorm.gamma" },
                                 { "LayerNorm.bias", "LayerNorm.beta" },
                                 { "cls.predictions.bias", "cls.predictions.decoder.bias" },
                                 { NULL, NULL } };
static const char partial[] = "a model with its masked-LM head is needed: BertForPreTraining's or BertForMaskedLM's "
                              "files have all of it, a bare BertModel's or a classifier's do not";

/* ---- which models ---- */

static bool fits(const tx_model *m, bool post_norm, bool has_binary)
{
    const tx_bert *g = (const tx_bert *)m;
    const tx_block *b = &g->t.block[0];
    return tx_transformer_is_plain(&g->t) && b->post_norm == post_norm && b->ln1.kind == TX_LAYERNORM &&
           !b->ln1.plus_one && !b->residual_post_norm && !b->attn.n_rot && m->n_groups == m->n_heads &&
           m->head_dim * m->n_heads == m->hidden && !b->mlp.gated && b->mlp.activation != TX_SQUARED_RELU &&
           g->t.traits & TX_WITH_POS && g->t.traits & TX_WITH_BIAS && !b->attn.qk_norm && g->has_binary == has_binary;
}

static bool fits_post(const tx_model *m)
{
    return fits(m, true, true);
}

static bool fits_post_masked(const tx_model *m)
{
    return fits(m, true, false);
}

static bool fits_pre(const tx_model *m)
{
    return fits(m, false, true);
}

static bool fits_pre_masked(const tx_model *m)
{
    return fits(m, false, false);
}

/* ---- config.json ---- */

/* Of both heads' and layers' activation. */
static tx_status get_activation(const json_t *config, bool *tanh_form)
{
    const char *act;
    TX_TRY(tx_hf_get_word(config, "hidden_act", "gelu", &act));
    *tanh_form = !strcmp(act, "gelu_new") || !strcmp(act, "gelu_pytorch_tanh") || !strcmp(act, "gelu_fast");
    if (*tanh_form || !strcmp(act, "gelu")) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: hidden_act \"%.60s\" is not built (gelu and gelu_new are)", act);
}

/* What a BERT may have there and has not here. */
static tx_status check_config(const json_t *config)
{
    const char *positions;
    int64_t types;
    bool decoder, cross, tied;
    TX_TRY(tx_hf_get_word(config, "position_embedding_type", "absolute", &positions));
    TX_TRY(tx_hf_get_bool(config, "is_decoder", false, &decoder));
    TX_TRY(tx_hf_get_bool(config, "add_cross_attention", false, &cross));
    TX_TRY(tx_hf_get_bool(config, "tie_word_embeddings", true, &tied));
    TX_TRY(tx_hf_get_size_or(config, "type_vocab_size", 2, &types));
    if (strcmp(positions, "absolute"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: position_embedding_type \"%.60s\" is not built (absolute is)",
                       positions);
    if (decoder || cross) return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a BERT that is a decoder is not built");
    if (!tied)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a BERT whose head is not its word embedding is not built");
    if (types != 2)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: type_vocab_size %lld is not built (2 is)", (long long)types);
    return TX_OK;
}

static const tx_hf_size sizes[] = { TX_HF_SIZE("num_layers", "num_hidden_layers", n_layers),
                                    TX_HF_SIZE("hidden_size", "hidden_size", hidden),
                                    TX_HF_SIZE("num_attention_heads", "num_attention_heads", n_heads),
                                    TX_HF_SIZE("ffn_hidden_size", "intermediate_size", ffn),
                                    TX_HF_SIZE("max_position_embeddings", "max_position_embeddings", max_positions),
                                    TX_HF_SIZE("vocab_size", "vocab_size", n_valid),
                                    { .option = NULL } };
static const char *const unsaid[] = { "rotary_percent", "rope_theta", NULL };

static tx_status read(json_t *o, const json_t *config, bool post_norm, bool has_binary)
{
    bool tanh_form;
    double eps;
    TX_TRY(check_config(config));
    TX_TRY(get_activation(config, &tanh_form));
    TX_TRY(tx_hf_get_number(config, "layer_norm_eps", 1e-12, &eps));
    return tx_hf_set(o, json_pack("{sb sb sf sb sb}", "post_layernorm", post_norm, "bert_binary_head", has_binary,
                                  "layernorm_epsilon", eps, "bias_gelu_fusion", 0, "openai_gelu", tanh_form));
}

static tx_status read_post(json_t *o, const json_t *config)
{
    return read(o, config, true, true);
}

static tx_status read_post_masked(json_t *o, const json_t *config)
{
    return read(o, config, true, false);
}

static tx_status read_pre(json_t *o, const json_t *config)
{
    return read(o, config, false, true);
}

static tx_status read_pre_masked(json_t *o, const json_t *config)
{
    return read(o, config, false, false);
}

static const char *class_of(const tx_bert *g)
{
    if (g->t.block[0].post_norm) return g->has_binary ? "BertForPreTraining" : "BertForMaskedLM";
    return g->has_binary ? "MegatronBertForPreTraining" : "MegatronBertForMaskedLM";
}

static tx_status write(json_t *o, const tx_model *m)
{
    const tx_bert *g = (const tx_bert *)m;
    const tx_block *b = &g->t.block[0];
    if (b->mlp.activation != g->activation)
        tx_warn("this model's layers have the tanh form of GELU and its masked-LM head, as Megatron's, the erf form; "
                "Hugging Face has one hidden_act for both, gelu_new here: its logits differ a little");
    return tx_hf_set(o, json_pack("{s[s] sI ss sf sf sf sI sb}", "architectures", class_of(g), "type_vocab_size",
                                  (json_int_t)2, "hidden_act", b->mlp.activation == TX_GELU_TANH ? "gelu_new" : "gelu",
                                  "layer_norm_eps", b->ln1.eps, "hidden_dropout_prob", b->p_drop,
                                  "attention_probs_dropout_prob", b->attn.p_drop, "pad_token_id", (json_int_t)0,
                                  "tie_word_embeddings", 1));
}

extern const tx_hf_format tx_hf_bert, tx_hf_bert_masked, tx_hf_megatron_bert,
    tx_hf_megatron_bert_masked; /* hf_format.c lists them */

#define FORMAT(type, mark, tops, layers_, extras, fits_, read_)                                                       \
    {                                                                                                                 \
        .model_type = type, .sign = mark, .model = "BERT", .prefix = "bert.", .layers = "encoder.layer", .top = tops, \
        .layer = layers_, .extra = extras, .old = old, .partial = partial, .fits = fits_, .sizes = sizes,             \
        .unsaid = unsaid, .read = read_, .write = write                                                               \
    }
#define SIGN "cls.seq_relationship.weight"

const tx_hf_format tx_hf_bert = FORMAT("bert", SIGN, post_top, post_layer, extra, fits_post, read_post);
const tx_hf_format tx_hf_bert_masked =
    FORMAT("bert", NULL, post_top_masked, post_layer, extra_masked, fits_post_masked, read_post_masked);
const tx_hf_format tx_hf_megatron_bert = FORMAT("megatron-bert", SIGN, pre_top, pre_layer, extra, fits_pre, read_pre);
const tx_hf_format tx_hf_megatron_bert_masked =
    FORMAT("megatron-bert", NULL, pre_top_masked, pre_layer, extra_masked, fits_pre_masked, read_pre_masked);
