/* upstreams.c - what of a model the checkpoints of Megatron-DeepSpeed have no word for. */
#include <math.h>

#include "config/config.h"

/* Of positions, and of norms of queries and keys. */
static const char *positions_not_upstreams(const tx_config *cfg)
{
    bool own_llama3 = cfg->rope_original_positions != 8192 || fabs(cfg->rope_low_freq_factor - 1) > 0 ||
                      fabs(cfg->rope_high_freq_factor - 4) > 0;
    if (cfg->qk_layernorm_whole) return "--qk-layernorm-whole";
    if (!cfg->use_rotary_position_embeddings) return NULL;
    if (cfg->window_rotary_base > 0) return "--window-rotary-base";
    switch (cfg->rope_scaling_type) {
    case TX_ROPE_SCALING_NONE:
        break;
    case TX_ROPE_SCALING_LINEAR:
        if (fabs(cfg->rope_scaling_factor - floor(cfg->rope_scaling_factor)) > 0)
            return "--rope-scaling-factor that is no whole number";
        break;
    case TX_ROPE_SCALING_DYNAMIC:
        return "--rope-scaling-type dynamic";
    case TX_ROPE_SCALING_YARN:
        if (cfg->yarn_attention_factor > 0) return "--yarn-attention-factor";
        break;
    case TX_ROPE_SCALING_LLAMA3:
        if (own_llama3)
            return "--rope-scaling-type llama3 of other numbers than --rope-original-positions 8192, "
                   "--rope-low-freq-factor 1 and --rope-high-freq-factor 4";
        break;
    }
    return NULL;
}

const char *tx_config_not_upstreams(const tx_config *cfg)
{
    const struct {
        bool given;
        const char *flag;
    } own[] = { { cfg->post_layernorm, "--post-layernorm" },
                { cfg->norm_placement > TX_NORM_PLACEMENT_PRE, "--norm-placement" },
                { cfg->parallel_residual > TX_PARALLEL_RESIDUAL_NONE, "--parallel-residual" },
                { cfg->residual_scale != 1, "--residual-scale" },
                { cfg->embedding_scale != 1, "--embedding-scale" },
                { cfg->logits_scale != 1, "--logits-scale" },
                { cfg->final_logit_softcap > 0, "--final-logit-softcap" },
                { cfg->relu, "--relu" },
                { cfg->gated_activation, "--gated-activation" },
                { cfg->add_attention_dense_bias, "--add-attention-dense-bias" },
                { cfg->disable_attention_bias, "--disable-attention-bias" },
                { cfg->output_bias, "--output-bias" },
                { cfg->disable_norm_bias, "--disable-norm-bias" },
                { cfg->window_size, "--window-size" },
                { cfg->attention_logit_softcap > 0, "--attention-logit-softcap" },
                { cfg->softmax_type != TX_SOFTMAX_VANILLA, "--softmax-type" },
                { cfg->attention_scale > 0, "--attention-scale" } };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].given) return own[i].flag;
    return positions_not_upstreams(cfg);
}
