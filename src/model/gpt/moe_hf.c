/* moe_hf.c - Hugging Face's models of experts: MixtralForCausalLM, a Llama with experts, Qwen2MoeForCausalLM and
 * Qwen3MoeForCausalLM, which are to Qwen2 and Qwen3 what Mixtral is to Llama, of which the first has a shared expert,
 * too; OlmoeForCausalLM.
 *
 *  Qwen's may have layers without experts, which are then as those of Qwen2 and Qwen3.
 *  All have a softmax over all experts, of which a token takes the k largest; divided by their sum (always in Mixtral,
 * else with norm_topk_prob) they are the softmax of the chosen ones alone, as Megatron Core has it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/gpt/llama_like.h"

#define QWEN_EXPERTS                                              \
    { "mlp.router.weight", "mlp.gate.weight", TX_HF_ALL, false }, \
        TX__GATED("mlp.experts.#", "mlp.experts.#", "gate_proj", "up_proj", "down_proj")

static const tx_hf_name mixtral_layer[] = {
    TX__LLAMA_ATTENTION{ "mlp.router.weight", "block_sparse_moe.gate.weight", TX_HF_ALL, false },
    TX__GATED("mlp.experts.#", "block_sparse_moe.experts.#", "w1", "w3", "w2") TX__ROW_END,
};
static const tx_hf_name qwen_layer[] = {
    TX__LLAMA_ATTENTION TX__QKV_BIAS TX__QK_NORM TX__LLAMA_MLP QWEN_EXPERTS TX__GATED(
        "mlp.shared_expert", "mlp.shared_expert", "gate_proj", "up_proj",
        "down_proj"){ "mlp.shared_expert.gate.weight", "mlp.shared_expert_gate.weight", TX_HF_ALL, false },
    TX__ROW_END,
};

/* ---- config.json ---- */

/* --num-experts is a list: a number for each layer that has some, or one for all. */
static tx_status put_experts(json_t *o, const json_t *config, const char *key)
{
    char text[24];
    int64_t n;
    TX_TRY(tx_hf_get_size(config, key, &n));
    if (n < 2) return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: \"%s\" must be at least 2", key);
    snprintf(text, sizeof text, "%lld", (long long)n);
    return tx_hf_put(o, "num_experts", json_pack("[s]", text));
}

static tx_status say_experts(json_t *config, const json_t *o, const char *key)
{
    const json_t *list = json_object_get(o, "num_experts");
    long long n = 0;
    if (json_array_size(list) == 1) sscanf(json_string_value(json_array_get(list, 0)), "%lld", &n);
    return tx_hf_say(config, key, json_integer(n));
}

static tx_status read_local(json_t *o, const json_t *config)
{
    return put_experts(o, config, "num_local_experts");
}

static tx_status write_local(json_t *config, const json_t *o)
{
    return say_experts(config, o, "num_local_experts");
}

/* transformers 5 calls Qwen3's as Mixtral's. */
static tx_status read_either(json_t *o, const json_t *config)
{
    bool other = !json_object_get(config, "num_experts") && json_object_get(config, "num_local_experts");
    return put_experts(o, config, other ? "num_local_experts" : "num_experts");
}

static tx_status write_own(json_t *config, const json_t *o)
{
    return say_experts(config, o, "num_experts");
}

static tx_status write_both(json_t *config, const json_t *o)
{
    TX_TRY(write_local(config, o));
    return write_own(config, o);
}

static bool is_among(const json_t *list, int64_t n)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == n) return true;
    return false;
}

static tx_status check_numbers(const json_t *list)
{
    bool good = !list || json_is_null(list) || json_is_array(list);
    for (size_t i = 0; i < json_array_size(list); i++) good = good && json_is_integer(json_array_get(list, i));
    return good ? TX_OK
                : TX_FAIL(TX_ERR_FORMAT, "config.json: \"mlp_only_layers\" must be a list of numbers of layers");
}

/* Which layers have experts, as --moe-layer-freq lists them: the last one of every decoder_sparse_step, without
 * mlp_only_layers. */
static tx_status read_layers(json_t *o, const json_t *config)
{
    const json_t *dense = json_object_get(config, "mlp_only_layers");
    int64_t step;
    tx_hf_layers layers;
    bool any = false;
    TX_TRY(tx_hf_get_size_or(config, "decoder_sparse_step", 1, &step));
    TX_TRY(check_numbers(dense));
    TX_TRY(tx_hf_layers_new(&layers, o));
    for (int64_t i = 0; i < layers.n; i++) {
        layers.at[i] = (i + 1) % step == 0 && !is_among(dense, i);
        any = any || layers.at[i];
    }
    tx_status st = any ? tx_hf_put_layers(o, "moe_layer_freq", &layers)
                       : TX_FAIL(TX_ERR_UNSUPPORTED,
                                 "config.json: no layer has experts, by decoder_sparse_step and mlp_only_layers");
    tx_free(layers.at);
    return st;
}

/* Numbers of the layers without experts. */
static tx_status write_layers(json_t *config, const json_t *o)
{
    tx_hf_layers layers;
    json_t *list = json_array();
    tx_status st = tx_hf_get_layers(o, "moe_layer_freq", &layers);
    for (int64_t i = 0; !st && i < layers.n; i++)
        if (!layers.at[i]) json_array_append_new(list, json_integer(i));
    tx_free(layers.at);
    if (!st) st = tx_hf_say(config, "mlp_only_layers", json_incref(list));
    json_decref(list);
    return st ? st : tx_hf_say(config, "decoder_sparse_step", json_integer(1));
}

#define K      TX_HF_COUNT("moe_router_topk", "num_experts_per_tok")
#define EXPERT TX_HF_COUNT("moe_ffn_hidden_size", "moe_intermediate_size")
#define LAYERS TX_HF_BY("mlp_only_layers", read_layers, write_layers), TX_HF_ANY("decoder_sparse_step")
#define SUMMED TX_HF_NOT("moe_router_pre_softmax", "norm_topk_prob", "false")

static const tx_hf_key mixtral_keys[] = {
    TX__LLAMA_KEYS, TX__HEAD_DIM, TX_HF_BY("num_local_experts", read_local, write_local), K, TX__WINDOW, TX_HF_END
};
static const tx_hf_key qwen2_keys[] = {
    TX__LLAMA_KEYS,
    TX__HEAD_DIM,
    TX_HF_BY("num_experts", read_either, write_own),
    K,
    EXPERT,
    LAYERS,
    TX__QWEN_WINDOW,
    SUMMED,
    TX_HF_COUNT("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"),
    TX_HF_MUST("qkv_bias", "true"),
    TX_HF_IS("add_qkv_bias", "true"),
    TX_HF_IS("moe_shared_expert_gate", "true"),
    TX_HF_END,
};
static const tx_hf_key qwen3_keys[] = {
    TX__LLAMA_KEYS,
    TX__HEAD_DIM,
    TX_HF_BY("num_experts", read_either, write_both),
    TX_HF_ANY("num_local_experts"),
    K,
    EXPERT,
    LAYERS,
    TX__QWEN_WINDOW,
    SUMMED,
    TX_HF_IS("qk_layernorm", "true"),
    TX_HF_MUST("attention_bias", "false"),
    TX_HF_END,
};

/* Queries and keys are normalised all heads at once; an expert is as wide as the others' MLP. */
static const tx_hf_key olmoe_keys[] = {
    TX__LLAMA_SIZES,
    TX__GROUPS,
    TX__TURNED,
    TX__RMSNORM("1e-5"),
    TX__SWIGLU,
    TX__TIED("false"),
    TX__ROPE,
    TX__NO_TOKENS,
    TX_HF_BY("num_experts", read_either, write_own),
    K,
    SUMMED,
    TX_HF_IS("qk_layernorm_whole", "true"),
    TX_HF_MUST("attention_bias", "false"),
    TX_HF_MUST("clip_qkv", "null"),
    TX_HF_END,
};

static tx_status more(json_t *config, const tx_model *m)
{
    return tx_hf_say(config, "router_aux_loss_coef", json_real(m->experts.aux_coeff));
}

/* ---- the formats ---- */

extern const tx_hf_format tx_hf_mixtral, tx_hf_qwen2_moe, tx_hf_qwen3_moe, tx_hf_olmoe; /* hf_format.c lists them */
const tx_hf_format tx_hf_mixtral = { .model_type = "mixtral",
                                     .architecture = "MixtralForCausalLM",
                                     TX__LLAMA_FORMAT,
                                     .layer = mixtral_layer,
                                     .keys = mixtral_keys,
                                     .more = more };
const tx_hf_format tx_hf_qwen2_moe = { .model_type = "qwen2_moe",
                                       .architecture = "Qwen2MoeForCausalLM",
                                       TX__LLAMA_FORMAT,
                                       .layer = qwen_layer,
                                       .keys = qwen2_keys,
                                       .more = more };
const tx_hf_format tx_hf_qwen3_moe = { .model_type = "qwen3_moe",
                                       .architecture = "Qwen3MoeForCausalLM",
                                       TX__LLAMA_FORMAT,
                                       .layer = qwen_layer,
                                       .keys = qwen3_keys,
                                       .more = more };
const tx_hf_format tx_hf_olmoe = { .model_type = "olmoe",
                                   .architecture = "OlmoeForCausalLM",
                                   TX__LLAMA_FORMAT,
                                   .layer = qwen_layer,
                                   .keys = olmoe_keys,
                                   .more = more };
