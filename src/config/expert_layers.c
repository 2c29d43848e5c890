/* expert_layers.c - which layers have experts, and what they are, from the options of DeepSpeed or of Megatron Core. */
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/layer_pattern.h"

/* What the rules have checked. */
static int64_t number(const tx_list *l, int64_t i)
{
    return strtoll(l->item[i < l->n ? i : l->n - 1], NULL, 10);
}

static bool is_listed(const tx_config *cfg, int64_t layer)
{
    tx_layer_pattern p;
    return tx_layer_pattern_read(cfg->moe_layer_freq, layer, &p) && p.at;
}

int64_t tx_config_expert_layers(const tx_config *cfg, int64_t before)
{
    if (!cfg->moe_router_topk) return before / cfg->expert_interval;
    int64_t n = 0;
    for (int64_t i = 0; i < before; i++) n += is_listed(cfg, i);
    return n;
}

static int64_t experts_of(const tx_config *cfg, int64_t layer)
{
    const bool core = cfg->moe_router_topk;
    if (core ? !is_listed(cfg, layer) : (layer + 1) % cfg->expert_interval != 0) return 1;
    return number(&cfg->num_experts, cfg->num_experts.n > 1 ? tx_config_expert_layers(cfg, layer) : 0);
}

static double core_aux_coeff(const tx_config *cfg)
{
    bool none = !strcmp(cfg->moe_router_load_balancing_type.item[0], "none");
    return none ? 0 : strtod(cfg->moe_aux_loss_coeff.item[0], NULL);
}

static tx_moe_shape core_shape(const tx_config *cfg)
{
    bool sigmoid = cfg->moe_router_score_function == TX_MOE_SCORE_SIGMOID;
    return (tx_moe_shape){ .k = cfg->moe_router_topk,
                           .sigmoid = sigmoid,
                           .softmax_after = !sigmoid && !cfg->moe_router_pre_softmax,
                           .renormalise = sigmoid && cfg->moe_router_topk > 1,
                           .scale = cfg->moe_router_topk_scaling_factor,
                           .bias = cfg->moe_router_enable_expert_bias,
                           .bias_rate = cfg->moe_router_bias_update_rate,
                           .drops_small = cfg->moe_token_drop_policy == TX_MOE_DROPS_PROBS,
                           .train_factor = cfg->moe_expert_capacity_factor,
                           .eval_factor = cfg->moe_expert_capacity_factor,
                           .aux_coeff = core_aux_coeff(cfg) };
}

static tx_moe_shape deepspeed_shape(const tx_config *cfg)
{
    bool drops = !cfg->disable_moe_token_dropping;
    return (tx_moe_shape){ .k = cfg->topk,
                           .renormalise = cfg->topk > 1,
                           .deepspeed = true,
                           .noisy_second = cfg->topk == 2 && !cfg->disable_moe_top2_2nd_expert_sampling,
                           .scale = 1,
                           .train_factor = drops ? cfg->moe_train_capacity_factor : 0,
                           .eval_factor = drops ? cfg->moe_eval_capacity_factor : 0,
                           .aux_coeff = cfg->moe_loss_coeff };
}

tx_moe_shape tx_config_moe(const tx_config *cfg, int64_t layer)
{
    int64_t n = experts_of(cfg, layer);
    if (n == 1) return (tx_moe_shape){ .n_experts = 1 };
    tx_moe_shape s = cfg->moe_router_topk ? core_shape(cfg) : deepspeed_shape(cfg);
    s.n_experts = n;
    s.ffn = cfg->moe_ffn_hidden_size ? cfg->moe_ffn_hidden_size : cfg->ffn_hidden_size;
    s.shared_ffn = cfg->moe_shared_expert_intermediate_size;
    s.shared_gate = s.shared_ffn && cfg->moe_shared_expert_gate;
    s.residual = cfg->mlp_type == TX_MLP_TYPE_RESIDUAL;
    s.min_capacity = s.deepspeed ? cfg->moe_min_capacity : 0;
    s.z_coeff = cfg->moe_z_loss_coeff;
    return s;
}

bool tx_config_has_experts(const tx_config *cfg)
{
    for (int64_t i = 0; i < cfg->num_layers; i++)
        if (experts_of(cfg, i) > 1) return true;
    return false;
}

bool tx_config_expert_tensor(const tx_config *cfg)
{
    if (cfg->expert_tensor_parallel_size) return cfg->expert_tensor_parallel_size == cfg->tensor_model_parallel_size;
    return cfg->enable_expert_tensor_parallelism || cfg->moe_router_topk || cfg->moe_expert_parallel_size == 1;
}

bool tx_config_divides_experts(const tx_config *cfg)
{
    bool whole = cfg->tensor_model_parallel_size > 1 && !tx_config_expert_tensor(cfg);
    return tx_config_has_experts(cfg) && (cfg->moe_expert_parallel_size > 1 || whole);
}
