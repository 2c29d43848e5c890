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

/* ---- config.json ---- */

/* Of both heads' and layers' activation. */
static const tx_hf_choice activations[] = {
    { "gelu_new", { { "openai_gelu", "true" }, { "bias_gelu_fusion", "false" } } },
    { "gelu_pytorch_tanh", { { "openai_gelu", "true" }, { "bias_gelu_fusion", "false" } } },
    { "gelu_fast", { { "openai_gelu", "true" }, { "bias_gelu_fusion", "false" } } },
    { "gelu", { { "openai_gelu", "false" }, { "bias_gelu_fusion", "false" } } },
    { NULL, { { NULL, NULL } } },
};

/* What a BERT may have there and has not here are the rows of one value. */
#define KEYS(post, binary)                                                                                            \
    {                                                                                                                 \
        TX_HF_COUNT("num_layers", "num_hidden_layers"), TX_HF_COUNT("hidden_size", "hidden_size"),                    \
            TX_HF_COUNT("num_attention_heads", "num_attention_heads"),                                                \
            TX_HF_COUNT("ffn_hidden_size", "intermediate_size"),                                                      \
            TX_HF_COUNT("max_position_embeddings", "max_position_embeddings"),                                        \
            TX_HF_ONE_OF("hidden_act", activations, "gelu"),                                                          \
            TX_HF_NUM("layernorm_epsilon", "layer_norm_eps", "1e-12"), TX_HF_IS("post_layernorm", post),              \
            TX_HF_IS("bert_binary_head", binary), TX_HF_MUST("position_embedding_type", "\"absolute\""),              \
            TX_HF_MUST("is_decoder", "false"), TX_HF_MUST("add_cross_attention", "false"),                            \
            TX_HF_MUST("tie_word_embeddings", "true"), TX_HF_MUST("type_vocab_size", "2"),                            \
            TX_HF_ANY("directionality"), TX_HF_ANY("pooler_fc_size"), TX_HF_ANY("pooler_num_attention_heads"),        \
            TX_HF_ANY("pooler_num_fc_layers"), TX_HF_ANY("pooler_size_per_head"), TX_HF_ANY("pooler_type"), TX_HF_END \
    }
static const tx_hf_key post_keys[] = KEYS("true", "true"), post_keys_masked[] = KEYS("true", "false"),
                       pre_keys[] = KEYS("false", "true"), pre_keys_masked[] = KEYS("false", "false");

static const char *class_of(const tx_bert *g)
{
    if (g->t.block[0].post_norm) return g->has_binary ? "BertForPreTraining" : "BertForMaskedLM";
    return g->has_binary ? "MegatronBertForPreTraining" : "MegatronBertForMaskedLM";
}

static tx_status more(json_t *config, const tx_model *m)
{
    const tx_bert *g = (const tx_bert *)m;
    const tx_block *b = &g->t.block[0];
    if (b->mlp.activation != g->activation)
        tx_warn("this model's layers have the tanh form of GELU and its masked-LM head, as Megatron's, the erf "
                "form; Hugging Face has one hidden_act for both, gelu_new here: its logits differ a little");
    TX_TRY(tx_hf_say(config, "architectures", json_pack("[s]", class_of(g))));
    TX_TRY(tx_hf_say(config, "hidden_dropout_prob", json_real(b->p_drop)));
    TX_TRY(tx_hf_say(config, "attention_probs_dropout_prob", json_real(b->attn.p_drop)));
    return tx_hf_say(config, "pad_token_id", json_integer(0));
}

extern const tx_hf_format tx_hf_bert, tx_hf_bert_masked, tx_hf_megatron_bert,
    tx_hf_megatron_bert_masked; /* hf_format.c lists them */

#define FORMAT(type, mark, tops, layers_, extras, keys_)                                                              \
    {                                                                                                                 \
        .model_type = type, .sign = mark, .model = "BERT", .prefix = "bert.", .layers = "encoder.layer", .top = tops, \
        .layer = layers_, .extra = extras, .old = old, .partial = partial, .keys = keys_, .more = more                \
    }
#define SIGN "cls.seq_relationship.weight"

const tx_hf_format tx_hf_bert = FORMAT("bert", SIGN, post_top, post_layer, extra, post_keys);
const tx_hf_format tx_hf_bert_masked =
    FORMAT("bert", NULL, post_top_masked, post_layer, extra_masked, post_keys_masked);
const tx_hf_format tx_hf_megatron_bert = FORMAT("megatron-bert", SIGN, pre_top, pre_layer, extra, pre_keys);
const tx_hf_format tx_hf_megatron_bert_masked =
    FORMAT("megatron-bert", NULL, pre_top_masked, pre_layer, extra_masked, pre_keys_masked);
