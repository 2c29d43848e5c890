/* gemma_hf.c - Hugging Face's GemmaForCausalLM, Gemma2ForCausalLM and Gemma3ForCausalLM (the text of a Gemma 3), and
 * CohereForCausalLM and Cohere2ForCausalLM: tied, wide vocabularies, scaled at one end or the other. */
#include <math.h>

#include "model/gpt/llama_like.h"

/* clang-format off */
/* Norms in front of both branches and behind them; the second in front has another name than ours. */
static const tx_hf_name both_layer[] = {
    TX__QKV_BOTH("self_attn")
    TX__QK_NORM
    { "input_layernorm.weight",            "input_layernorm.weight",            TX_HF_ALL, false },
    { "self_attention.dense.weight",       "self_attn.o_proj.weight",           TX_HF_ALL, false },
    { "attention_output_layernorm.weight", "post_attention_layernorm.weight",   TX_HF_ALL, false },
    { "post_attention_layernorm.weight",   "pre_feedforward_layernorm.weight",  TX_HF_ALL, false },
    { "mlp_output_layernorm.weight",       "post_feedforward_layernorm.weight", TX_HF_ALL, false },
    TX__LLAMA_MLP
    TX__ROW_END,
};
/* clang-format on */

const tx_hf_choice tx__hf_geglu[] = {
    { "gelu_pytorch_tanh", { { "gated_activation", "\"gelu_tanh\"" } } },
    { "gelu_new", { { "gated_activation", "\"gelu_tanh\"" } } },
    { "gelu", { { "gated_activation", "\"gelu_tanh\"" } } }, /* as the class has it, whose first files say so */
    { NULL, { { NULL, NULL } } },
};

tx_status tx__root_of_width_read(json_t *o, const json_t *config)
{
    (void)config;
    return tx_hf_put(o, "embedding_scale", json_real(sqrt((double)tx_hf_size(o, "hidden_size"))));
}

/* The width of a head is 256 where it is left out; files say it. */
#define GEMMA                                                                                                          \
    TX__LLAMA_SIZES, TX__GROUPS, TX__TURNED, TX__RMSNORM("1e-6"), TX_HF_IS("apply_layernorm_1p", "true"),              \
        TX_HF_IS("add_bias_linear", "false"), TX_HF_COUNT("kv_channels", "head_dim"), TX__TIED("true"), TX__NO_TOKENS, \
        TX_HF_MUST("attention_bias", "false"), TX_HF_MUST("use_bidirectional_attention", "false"),                     \
        TX_HF_BY("hidden_size", tx__root_of_width_read, NULL)
#define GEMMA_2                                                               \
    GEMMA, TX_HF_IS("norm_placement", "\"both\""), TX_HF_ANY("hidden_act"),   \
        TX_HF_ONE_OF("hidden_activation", tx__hf_geglu, "gelu_pytorch_tanh"), \
        TX_HF_INVERSE_ROOT("attention_scale", "query_pre_attn_scalar", "256")

static const tx_hf_key gemma[] = { GEMMA, TX_HF_ONE_OF("hidden_act", tx__hf_geglu, "gelu_pytorch_tanh"),
                                   TX_HF_ANY("hidden_activation"), TX__ROPE, TX_HF_END };
static const tx_hf_key gemma2[] = { GEMMA_2,
                                    TX_HF_NUM_OR_NULL("final_logit_softcap", "final_logit_softcapping", "30"),
                                    TX_HF_NUM_OR_NULL("attention_logit_softcap", "attn_logit_softcapping", "50"),
                                    TX__WINDOW_LAYERS(2),
                                    TX__ROPE,
                                    TX_HF_END };
static const tx_hf_key gemma3[] = { GEMMA_2,
                                    TX_HF_NUM_OR_NULL("final_logit_softcap", "final_logit_softcapping", "null"),
                                    TX_HF_NUM_OR_NULL("attention_logit_softcap", "attn_logit_softcapping", "null"),
                                    TX_HF_IS("qk_layernorm", "true"),
                                    TX_HF_IS("rope_theta", "1000000.0"),
                                    TX__WINDOW_LAYERS(6),
                                    TX__ROPES(tx__ropes_10000_read),
                                    TX_HF_END };

/* One norm without a bias for both branches. */
#define COHERE                                                                                                    \
    TX__LLAMA_SIZES, TX__GROUPS, TX__TURNED, TX__LAYERNORM("layer_norm_eps", "1e-5"), TX__SWIGLU,                 \
        TX_HF_IS("disable_norm_bias", "true"), TX_HF_IS("parallel_residual", "\"one_norm\""),                     \
        TX_HF_IS("rotary_interleaved", "true"), TX_HF_IS("rope_theta", "500000.0"), TX__TIED("true"), TX__ROPE,   \
        TX__NO_TOKENS, TX_HF_NUM("logits_scale", "logit_scale", "0.0625"), TX_HF_MUST("attention_bias", "false"), \
        TX_HF_MUST("use_qk_norm", "false")
/* A layer without a window has no positions: all have none, then. */
static tx_status read_places(json_t *o, const json_t *config)
{
    if (!tx_hf_size(o, "window_size"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a cohere2 without a \"sliding_window\" is not built");
    return tx__turned_in_window_read(o, config);
}

static const tx_hf_key cohere[] = { COHERE, TX_HF_END };
static const tx_hf_key cohere2[] = { COHERE,
                                     TX__WINDOW_LAYERS(4),
                                     TX_HF_BY("layer_types", read_places, NULL),
                                     TX_HF_ANY("head_dim"),
                                     TX_HF_ANY("use_embedding_sharing"),
                                     TX_HF_ANY("use_gated_activation"),
                                     TX_HF_MUST("use_parallel_block", "true"),
                                     TX_HF_MUST("use_parallel_embedding", "false"),
                                     TX_HF_MUST("position_embedding_type", "\"rope_gptj\""),
                                     TX_HF_MUST("rotary_pct", "1.0"),
                                     TX_HF_MUST("order_of_interleaved_layers", "\"local_attn_first\""),
                                     TX_HF_END };

extern const tx_hf_format tx_hf_gemma, tx_hf_gemma2, tx_hf_gemma3, tx_hf_cohere,
    tx_hf_cohere2; /* hf_format.c lists them */

const tx_hf_format tx_hf_gemma = TX__LLAMA_KIN("gemma", "Gemma", tx__llama_layer, gemma);
const tx_hf_format tx_hf_gemma2 = TX__LLAMA_KIN("gemma2", "Gemma2", both_layer, gemma2);
const tx_hf_format tx_hf_gemma3 = TX__LLAMA_KIN("gemma3_text", "Gemma3", both_layer, gemma3);
const tx_hf_format tx_hf_cohere = TX__LLAMA_KIN("cohere", "Cohere", tx__llama_layer, cohere);
const tx_hf_format tx_hf_cohere2 = TX__LLAMA_KIN("cohere2", "Cohere2", tx__llama_layer, cohere2);
