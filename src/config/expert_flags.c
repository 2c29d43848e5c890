/* expert_flags.c - the table of flags of layers with experts. */
#include "config/expert_flags.h"

enum { CORE = TX__OF_CORE | TX__NO_EFFECT, DEEPSPEED = TX__OF_DEEPSPEED | TX__NO_EFFECT };

const char *tx__expert_flag(const tx_config_given *g, unsigned what, int i)
{
    const struct {
        unsigned is;
        bool given;
        const char *flag;
    } all[] = {
        { DEEPSPEED, g->topk, "--topk" },
        { DEEPSPEED, g->expert_interval, "--expert-interval" },
        { TX__NO_EFFECT, g->disable_moe_token_dropping, "--disable-moe-token-dropping" },
        { TX__NO_EFFECT, g->disable_moe_top2_2nd_expert_sampling, "--disable-moe-top2-2nd-expert-sampling" },
        { DEEPSPEED, g->moe_train_capacity_factor, "--moe-train-capacity-factor" },
        { DEEPSPEED, g->moe_eval_capacity_factor, "--moe-eval-capacity-factor" },
        { DEEPSPEED, g->moe_min_capacity, "--moe-min-capacity" },
        { DEEPSPEED, g->moe_loss_coeff, "--moe-loss-coeff" },
        { TX__OF_DEEPSPEED, g->mlp_type, "--mlp-type" },
        { CORE, g->moe_layer_freq, "--moe-layer-freq" },
        { CORE, g->moe_router_pre_softmax, "--moe-router-pre-softmax" },
        { CORE, g->moe_router_score_function, "--moe-router-score-function" },
        { CORE, g->moe_router_topk_scaling_factor, "--moe-router-topk-scaling-factor" },
        { CORE, g->moe_router_enable_expert_bias, "--moe-router-enable-expert-bias" },
        { CORE, g->moe_router_bias_update_rate, "--moe-router-bias-update-rate" },
        { CORE, g->moe_aux_loss_coeff, "--moe-aux-loss-coeff" },
        { CORE, g->moe_router_load_balancing_type, "--moe-router-load-balancing-type" },
        { CORE, g->moe_expert_capacity_factor, "--moe-expert-capacity-factor" },
        { CORE, g->moe_token_drop_policy, "--moe-token-drop-policy" },
        { TX__NO_EFFECT, g->moe_shared_expert_gate, "--moe-shared-expert-gate" },
        { TX__NO_EFFECT, g->moe_per_layer_logging, "--moe-per-layer-logging" },
        { TX__NEEDS, g->moe_router_topk, "--moe-router-topk" },
        { TX__NEEDS, g->moe_ffn_hidden_size, "--moe-ffn-hidden-size" },
        { TX__NEEDS, g->moe_shared_expert_intermediate_size, "--moe-shared-expert-intermediate-size" },
        { TX__NEEDS, g->moe_z_loss_coeff, "--moe-z-loss-coeff" },
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k].given && (all[k].is & what) && !i--) return all[k].flag;
    return NULL;
}
