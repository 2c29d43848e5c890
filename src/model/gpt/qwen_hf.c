/* qwen_hf.c - Hugging Face's Qwen2ForCausalLM, a Llama whose queries, keys and values have biases, and
 * Qwen3ForCausalLM, one whose queries and keys are normalised. */
#include "model/gpt/llama_like.h"

static const tx_hf_name layer_2[] = { TX__LLAMA_ATTENTION TX__QKV_BIAS TX__LLAMA_MLP{ NULL, NULL, TX_HF_ALL, false } };
static const tx_hf_name layer_3[] = { TX__LLAMA_ATTENTION TX__QK_NORM TX__LLAMA_MLP{ NULL, NULL, TX_HF_ALL, false } };

static const tx_hf_size sizes_2[] = { TX__LLAMA_SIZES,
                                      TX_HF_SIZE_OR("kv_channels", "head_dim", head_dim),
                                      { .option = NULL } };
/* What a head's width is when it is left out is another number than hidden_size / num_attention_heads there. */
static const tx_hf_size sizes_3[] = { TX__LLAMA_SIZES,
                                      TX_HF_SIZE("kv_channels", "head_dim", head_dim),
                                      { .option = NULL } };

tx_status tx__qwen_read(json_t *o, const json_t *config)
{
    bool window, bias;
    TX_TRY(tx__llama_read(o, config));
    TX_TRY(tx_hf_get_bool(config, "use_sliding_window", false, &window));
    TX_TRY(tx_hf_get_bool(config, "attention_bias", false, &bias));
    if (window || bias)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a Qwen with %s is not built",
                       window ? "use_sliding_window" : "attention_bias");
    return TX_OK;
}

static bool fits_2(const tx_model *m)
{
    return m->experts.n_experts == 1 && tx__llama_fits(m, TX_WITH_QKV_BIAS);
}

static tx_status read_2(json_t *o, const json_t *config)
{
    TX_TRY(tx__qwen_read(o, config));
    return tx_hf_set(o, json_pack("{sb}", "add_qkv_bias", 1));
}

static tx_status write_2(json_t *o, const tx_model *m)
{
    TX_TRY(tx__llama_write(o, m, "Qwen2ForCausalLM"));
    return tx_hf_set(o, json_pack("{sb}", "use_sliding_window", 0));
}

static bool fits_3(const tx_model *m)
{
    return m->experts.n_experts == 1 && tx__llama_fits(m, TX_WITH_QK_NORM);
}

static tx_status read_3(json_t *o, const json_t *config)
{
    TX_TRY(tx__qwen_read(o, config));
    return tx_hf_set(o, json_pack("{sb}", "qk_layernorm", 1));
}

static tx_status write_3(json_t *o, const tx_model *m)
{
    TX_TRY(tx__llama_write(o, m, "Qwen3ForCausalLM"));
    return tx_hf_set(o, json_pack("{sb sb}", "use_sliding_window", 0, "attention_bias", 0));
}

extern const tx_hf_format tx_hf_qwen2, tx_hf_qwen3; /* hf_format.c lists them */
const tx_hf_format tx_hf_qwen2 = { .model_type = "qwen2",
                                   TX__LLAMA_FORMAT,
                                   .layer = layer_2,
                                   .fits = fits_2,
                                   .sizes = sizes_2,
                                   .read = read_2,
                                   .write = write_2 };
const tx_hf_format tx_hf_qwen3 = { .model_type = "qwen3",
                                   TX__LLAMA_FORMAT,
                                   .layer = layer_3,
                                   .fits = fits_3,
                                   .sizes = sizes_3,
                                   .read = read_3,
                                   .write = write_3 };
