/* moe_hf.c - Hugging Face's models of experts: MixtralForCausalLM, a Llama with experts, Qwen2MoeForCausalLM and
 * Qwen3MoeForCausalLM, which are to Qwen2 and Qwen3 what Mixtral is to Llama; the first has a shared expert, too.
 *
 *  Qwen's may have layers without experts, which are then as those of Qwen2 and Qwen3.
 *  All have a softmax over all experts, of which a token takes the k largest; divided by their sum (always in Mixtral,
 * else with norm_topk_prob) they are the softmax of the chosen ones alone, as Megatron Core has it. */
#include <stdio.h>

#include "base/str.h"
#include "model/gpt/llama_like.h"

#define END                          \
    {                                \
        NULL, NULL, TX_HF_ALL, false \
    }
#define QWEN_EXPERTS                                              \
    { "mlp.router.weight", "mlp.gate.weight", TX_HF_ALL, false }, \
        TX__GATED("mlp.experts.#", "mlp.experts.#", "gate_proj", "up_proj", "down_proj")

static const tx_hf_name mixtral_layer[] = {
    TX__LLAMA_ATTENTION{ "mlp.router.weight", "block_sparse_moe.gate.weight", TX_HF_ALL, false },
    TX__GATED("mlp.experts.#", "block_sparse_moe.experts.#", "w1", "w3", "w2") END,
};
static const tx_hf_name qwen2_layer[] = {
    TX__LLAMA_ATTENTION TX__QKV_BIAS TX__LLAMA_MLP QWEN_EXPERTS TX__GATED("mlp.shared_expert", "mlp.shared_expert",
                                                                          "gate_proj", "up_proj", "down_proj"){
        "mlp.shared_expert.gate.weight", "mlp.shared_expert_gate.weight", TX_HF_ALL, false },
    END,
};
static const tx_hf_name qwen3_layer[] = { TX__LLAMA_ATTENTION TX__QK_NORM TX__LLAMA_MLP QWEN_EXPERTS END };

/* ---- which models ---- */

static bool is_renormalised(const tx_model *m)
{
    return m->experts.softmax_after || m->experts.renormalise;
}

static bool fits(const tx_model *m, unsigned traits, bool shared)
{
    const tx_moe_shape *is = &m->experts;
    return is->n_experts > 1 && m->alike_experts && !is->sigmoid && !is->residual && is->scale == 1 &&
           is->shared_gate == shared && (is->shared_ffn > 0) == shared && tx__llama_fits(m, traits);
}

static bool fits_mixtral(const tx_model *m)
{
    return fits(m, 0, false) && m->all_experts && is_renormalised(m) && m->experts.ffn == m->ffn;
}

static bool fits_qwen2(const tx_model *m)
{
    return fits(m, TX_WITH_QKV_BIAS, true);
}

static bool fits_qwen3(const tx_model *m)
{
    return fits(m, TX_WITH_QK_NORM, false);
}

/* ---- config.json ---- */

#define N_EXPERTS TX_HF_SIZE("num_experts", "num_experts", experts.n_experts)
#define K         TX_HF_SIZE("moe_router_topk", "num_experts_per_tok", experts.k)
#define HEAD_DIM  TX_HF_SIZE_OR("kv_channels", "head_dim", head_dim)
#define EXPERT    TX_HF_SIZE("moe_ffn_hidden_size", "moe_intermediate_size", experts.ffn)
#define SHARED    TX_HF_SIZE("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", experts.shared_ffn)

static const tx_hf_size mixtral_sizes[] = {
    TX__LLAMA_SIZES, HEAD_DIM, TX_HF_SIZE("num_experts", "num_local_experts", experts.n_experts), K, { .option = NULL }
};
static const tx_hf_size qwen2_sizes[] = { TX__LLAMA_SIZES, HEAD_DIM, N_EXPERTS, K, EXPERT, SHARED, { .option = NULL } };
static const tx_hf_size qwen3_sizes[] = { TX__LLAMA_SIZES,
                                          HEAD_DIM,
                                          { .option = "num_experts",
                                            .theirs = "num_experts",
                                            .also = "num_local_experts", /* transformers 5 */
                                            .at = offsetof(tx_model, experts.n_experts) },
                                          K,
                                          EXPERT,
                                          { .option = NULL } };

/* --num-experts is a list: a number for each layer that has some, or one for all. */
static tx_status list_experts(json_t *o)
{
    char n[24];
    snprintf(n, sizeof n, "%lld", (long long)json_integer_value(json_object_get(o, "num_experts")));
    return tx_hf_set(o, json_pack("{s[s]}", "num_experts", n));
}

static tx_status read_mixtral(json_t *o, const json_t *config)
{
    const json_t *window = json_object_get(config, "sliding_window");
    if (window && !json_is_null(window))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a Mixtral with a sliding_window is not built (null is)");
    TX_TRY(list_experts(o));
    return tx__llama_read(o, config);
}

static tx_status write_mixtral(json_t *o, const tx_model *m)
{
    TX_TRY(tx__llama_write(o, m, "MixtralForCausalLM"));
    return tx_hf_set(o, json_pack("{sn sf}", "sliding_window", "router_aux_loss_coef", m->experts.aux_coeff));
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
    int64_t step, n = json_integer_value(json_object_get(o, "num_layers"));
    tx_str list = { 0 };
    bool all = true, any = false;
    tx_status st;
    TX_TRY(tx_hf_get_size_or(config, "decoder_sparse_step", 1, &step));
    TX_TRY(check_numbers(dense));
    for (int64_t i = 0; i < n; i++) {
        bool experts = (i + 1) % step == 0 && !is_among(dense, i);
        all = all && experts;
        any = any || experts;
        TX_GOTO(tx_str_printf(&list, "%s%d", i ? "," : "[", experts));
    }
    TX_GOTO(tx_str_puts(&list, "]"));
    if (!any)
        st = TX_FAIL(TX_ERR_UNSUPPORTED,
                     "config.json: no layer has experts, by decoder_sparse_step and mlp_only_layers");
    else if (!all)
        st = tx_hf_set(o, json_pack("{ss}", "moe_layer_freq", list.data));
out:
    tx_str_free(&list);
    return st;
}

/* Numbers of the layers without experts. */
static json_t *dense_layers(const tx_model *m)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < m->n_layers; i++) {
        char name[TX_PARAM_NAME_MAX];
        snprintf(name, sizeof name, "encoder.layers.%lld.mlp.router.weight", (long long)i);
        if (!tx_params_find(&m->params, name)) json_array_append_new(list, json_integer(i));
    }
    return list;
}

static tx_status read_qwen(json_t *o, const json_t *config)
{
    bool renormalised;
    TX_TRY(tx__qwen_read(o, config));
    TX_TRY(read_layers(o, config));
    TX_TRY(list_experts(o));
    TX_TRY(tx_hf_get_bool(config, "norm_topk_prob", false, &renormalised));
    return tx_hf_set(o, json_pack("{sb}", "moe_router_pre_softmax", !renormalised));
}

static tx_status write_qwen(json_t *o, const tx_model *m)
{
    return tx_hf_set(o, json_pack("{si so sb sb sf}", "decoder_sparse_step", 1, "mlp_only_layers", dense_layers(m),
                                  "norm_topk_prob", is_renormalised(m), "use_sliding_window", 0, "router_aux_loss_coef",
                                  m->experts.aux_coeff));
}

static tx_status read_qwen2(json_t *o, const json_t *config)
{
    bool bias;
    TX_TRY(tx_hf_get_bool(config, "qkv_bias", true, &bias));
    if (!bias) return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a Qwen2-MoE without qkv_bias is not built");
    TX_TRY(read_qwen(o, config));
    return tx_hf_set(o, json_pack("{sb sb}", "add_qkv_bias", 1, "moe_shared_expert_gate", 1));
}

static tx_status write_qwen2(json_t *o, const tx_model *m)
{
    TX_TRY(tx__llama_write(o, m, "Qwen2MoeForCausalLM"));
    TX_TRY(write_qwen(o, m));
    return tx_hf_set(o, json_pack("{sb}", "qkv_bias", 1));
}

static tx_status read_qwen3(json_t *o, const json_t *config)
{
    TX_TRY(read_qwen(o, config));
    return tx_hf_set(o, json_pack("{sb}", "qk_layernorm", 1));
}

static tx_status write_qwen3(json_t *o, const tx_model *m)
{
    TX_TRY(tx__llama_write(o, m, "Qwen3MoeForCausalLM"));
    TX_TRY(write_qwen(o, m));
    return tx_hf_set(o, json_pack("{sb}", "attention_bias", 0));
}

/* ---- the formats ---- */

extern const tx_hf_format tx_hf_mixtral, tx_hf_qwen2_moe, tx_hf_qwen3_moe; /* hf_format.c lists them */
const tx_hf_format tx_hf_mixtral = { .model_type = "mixtral",
                                     TX__LLAMA_FORMAT,
                                     .layer = mixtral_layer,
                                     .fits = fits_mixtral,
                                     .sizes = mixtral_sizes,
                                     .read = read_mixtral,
                                     .write = write_mixtral };
const tx_hf_format tx_hf_qwen2_moe = { .model_type = "qwen2_moe",
                                       TX__LLAMA_FORMAT,
                                       .layer = qwen2_layer,
                                       .fits = fits_qwen2,
                                       .sizes = qwen2_sizes,
                                       .read = read_qwen2,
                                       .write = write_qwen2 };
const tx_hf_format tx_hf_qwen3_moe = { .model_type = "qwen3_moe",
                                       TX__LLAMA_FORMAT,
                                       .layer = qwen3_layer,
                                       .fits = fits_qwen3,
                                       .sizes = qwen3_sizes,
                                       .read = read_qwen3,
                                       .write = write_qwen3 };
