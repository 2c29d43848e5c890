/* rules_moe.c - rules across options: layers with experts. DeepSpeed's flags, or with --moe-router-topk Megatron
 * Core's. */
#include <stdlib.h>
#include <string.h>

#include "config/expert_flags.h"
#include "config/layer_pattern.h"
#include "config/rules.h"

enum { MAX_EXPERTS = 65536 };

static bool is_core(const tx__check *k)
{
    return k->c->moe_router_topk;
}

/* The most, and the least of the layers that are not dense. */
typedef struct range {
    int64_t least, most;
} range;

static range experts(const tx__check *k)
{
    range r = { MAX_EXPERTS, 1 };
    for (int i = 0; i < k->c->num_experts.n; i++) {
        int64_t n = strtoll(k->c->num_experts.item[i], NULL, 10);
        if (n > 1 && n < r.least) r.least = n;
        if (n > r.most) r.most = n;
    }
    return r;
}

static bool is_dense(const tx__check *k)
{
    return k->bad->num_experts || experts(k).most == 1;
}

/* Numbers of a checkpoint that has not been read are not known. */
static bool may_have_experts(const tx__check *k)
{
    return experts(k).most > 1 || (k->c->load && !k->g->num_experts);
}

static void rule_experts_are_numbers(const tx__check *k)
{
    const tx_list *l = &k->c->num_experts;
    for (int i = 0; i < l->n; i++) {
        char *end;
        long long n = strtoll(l->item[i], &end, 10);
        if (end != l->item[i] && !*end && n >= 1 && n <= MAX_EXPERTS) continue;
        tx__violate(k->v, "--num-experts %s is not a whole number from 1 to %d", l->item[i], MAX_EXPERTS);
        k->bad->num_experts = true;
    }
}

static void rule_auxiliary_loss_has_a_factor(const tx__check *k)
{
    const tx_list *l = &k->c->moe_aux_loss_coeff;
    double factor;
    if (k->bad->moe_aux_loss_coeff || (l->n && tx__number_parse(l->item[0], &factor) && factor >= 0)) return;
    tx__violate(k->v, "--moe-aux-loss-coeff %s is not a number of at least 0", l->n ? l->item[0] : "");
}

/* Of a list, whose length is then that of the layers. */
static void rule_layers_are_a_number_or_a_list(const tx__check *k)
{
    tx_layer_pattern p;
    const tx_config *c = k->c;
    if (!tx_layer_pattern_read(c->moe_layer_freq, 0, &p)) {
        tx__violate(k->v,
                    "--moe-layer-freq %s is neither a whole number of at least 1 nor a list of 0 and 1 such as "
                    "[0]+[1]*11 or ([1]*3+[0])*4",
                    c->moe_layer_freq);
        k->bad->moe_layer_freq = true;
    } else if (p.listed && c->num_layers && p.n != c->num_layers && is_core(k) && !k->bad->num_layers) {
        tx__violate(k->v, "--moe-layer-freq %s is a list of %lld layers, and --num-layers is %lld", c->moe_layer_freq,
                    (long long)p.n, (long long)c->num_layers);
        k->bad->moe_layer_freq = true;
    }
}

static void rule_experts_are_of_layers(const tx__check *k)
{
    const tx_config *c = k->c;
    if (is_dense(k) || k->bad->num_layers || k->bad->expert_interval || k->bad->moe_layer_freq || !c->num_layers)
        return;
    int64_t n = tx_config_expert_layers(c, c->num_layers);
    if (!n && is_core(k))
        tx__violate(k->v, "--moe-layer-freq %s: no layer has experts", c->moe_layer_freq);
    else if (!n)
        tx__violate(k->v, "--expert-interval %lld is more than --num-layers %lld: no layer has experts",
                    (long long)c->expert_interval, (long long)c->num_layers);
    else if (c->num_experts.n > 1 && c->num_experts.n != n)
        tx__violate(k->v, "--num-experts has %d numbers, but %lld of %lld layers have experts: give one, or %lld",
                    c->num_experts.n, (long long)n, (long long)c->num_layers, (long long)n);
}

static void rule_flags_of_experts_have_some(const tx__check *k)
{
    const char *flag = tx__expert_flag(k->g, TX__NEEDS, 0);
    if (k->bad->num_experts || may_have_experts(k)) return;
    if (flag) tx__violate(k->v, "%s needs --num-experts above 1", flag);
    if (k->c->mlp_type == TX_MLP_TYPE_RESIDUAL)
        tx__violate(k->v, "--mlp-type residual needs --num-experts above 1: leave it out, or give experts");
}

static void rule_experts_are_as_one_program_has_them(const tx__check *k)
{
    const char *core = tx__expert_flag(k->g, TX__OF_CORE, 0);
    const char *deepspeed = tx__expert_flag(k->g, TX__OF_DEEPSPEED, 0);
    if (is_dense(k) || k->bad->moe_router_topk) return;
    if (core && !is_core(k)) tx__violate(k->v, "%s is Megatron Core's and needs --moe-router-topk", core);
    if (deepspeed && is_core(k))
        tx__violate(k->v, "%s is DeepSpeed's, and --moe-router-topk Megatron Core's: give the flags of one of the two",
                    deepspeed);
}

/* The softmax of one logit is 1, whatever it is. As Megatron Core's transformer_config.py. */
static void rule_a_router_learns(const tx__check *k)
{
    const tx_config *c = k->c;
    if (is_dense(k) || k->bad->moe_router_topk || k->bad->moe_router_score_function || c->moe_router_topk != 1) return;
    if (c->moe_router_score_function == TX_MOE_SCORE_SOFTMAX && !c->moe_router_pre_softmax)
        tx__violate(k->v,
                    "--moe-router-topk 1 needs --moe-router-pre-softmax: the softmax of one score is always 1, and "
                    "the router would learn nothing");
}

/* As Megatron Core's transformer_config.py. */
static void rule_a_bias_is_of_sigmoids(const tx__check *k)
{
    const tx_config *c = k->c;
    if (is_dense(k) || k->bad->moe_router_score_function || !is_core(k)) return;
    if (c->moe_router_enable_expert_bias && c->moe_router_score_function != TX_MOE_SCORE_SIGMOID)
        tx__violate(k->v, "--moe-router-enable-expert-bias needs --moe-router-score-function sigmoid");
    if (k->g->moe_router_bias_update_rate && !c->moe_router_enable_expert_bias)
        tx__violate(k->v, "--moe-router-bias-update-rate needs --moe-router-enable-expert-bias");
}

static void rule_balancing_is_built(const tx__check *k)
{
    const tx_list *l = &k->c->moe_router_load_balancing_type;
    if (k->bad->moe_router_load_balancing_type || !l->n || !strcmp(l->item[0], "aux_loss") ||
        !strcmp(l->item[0], "none"))
        return;
    tx__violate(k->v,
                "--moe-router-load-balancing-type %.60s is not built yet: give aux_loss, which is over a micro-batch, "
                "or none",
                l->item[0]);
}

/* What Megatron Core drops by is the weight before anything is dropped; of several sigmoids that is divided by a sum,
 * and of a softmax over the chosen experts it is not the score that tokens are compared by here. */
static void rule_dropping_is_built(const tx__check *k)
{
    const tx_config *c = k->c;
    bool sigmoid = c->moe_router_score_function == TX_MOE_SCORE_SIGMOID;
    if (is_dense(k) || !is_core(k) || k->bad->moe_router_score_function || k->bad->moe_token_drop_policy) return;
    if (c->moe_expert_capacity_factor <= 0) {
        if (k->g->moe_token_drop_policy)
            tx__violate(k->v, "--moe-token-drop-policy needs --moe-expert-capacity-factor");
        return;
    }
    if (sigmoid && c->moe_router_topk > 1)
        tx__violate(
            k->v, "--moe-expert-capacity-factor with sigmoid scores of several choices is not built yet: leave it out");
    else if (!sigmoid && !c->moe_router_pre_softmax && c->moe_token_drop_policy == TX_MOE_DROPS_PROBS)
        tx__violate(k->v, "--moe-expert-capacity-factor drops by probs with --moe-router-pre-softmax alone: add it, or "
                          "--moe-token-drop-policy position");
}

static void rule_choices_are_experts(const tx__check *k)
{
    const tx_config *c = k->c;
    bool core = is_core(k);
    int64_t n = core ? c->moe_router_topk : c->topk;
    if (is_dense(k) || k->bad->topk || k->bad->moe_router_topk) return;
    if (n > experts(k).least)
        tx__violate(k->v, "%s %lld is more than --num-experts %lld: a token chooses each expert once",
                    core ? "--moe-router-topk" : "--topk", (long long)n, (long long)experts(k).least);
}

static void rule_ranks_divide_experts(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_list *l = &c->num_experts;
    int64_t e = c->moe_expert_parallel_size;
    if (k->bad->moe_expert_parallel_size || k->bad->num_experts || e == 1) return;
    if (!may_have_experts(k))
        tx__violate(k->v, "--moe-expert-parallel-size %lld needs --num-experts above 1", (long long)e);
    for (int i = 0; i < l->n; i++) {
        long long n = strtoll(l->item[i], NULL, 10);
        if (n == 1 || n % e == 0) continue;
        tx__violate(k->v, "--num-experts %lld is not divisible by --moe-expert-parallel-size %lld", n, (long long)e);
        return;
    }
}

static void rule_experts_are_whole_or_split(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t of_experts = c->expert_tensor_parallel_size, t = c->tensor_model_parallel_size;
    if (k->bad->expert_tensor_parallel_size || k->bad->tensor_model_parallel_size || !of_experts) return;
    if (of_experts != 1 && of_experts != t)
        tx__violate(k->v, "--expert-tensor-parallel-size %lld is neither 1 nor --tensor-model-parallel-size %lld",
                    (long long)of_experts, (long long)t);
    if (of_experts != t && c->enable_expert_tensor_parallelism)
        tx__violate(k->v,
                    "--enable-expert-tensor-parallelism and --expert-tensor-parallel-size %lld: give one of the two",
                    (long long)of_experts);
}

static void rule_experts_are_of_a_stages_ranks(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t e = c->moe_expert_parallel_size, t = c->tensor_model_parallel_size;
    bool split = tx_config_expert_tensor(c);
    if (e == 1 || is_dense(k) || k->bad->moe_expert_parallel_size || k->bad->expert_tensor_parallel_size ||
        k->bad->world_size || !tx__layout_is_known(k))
        return;
    int64_t n = tx_config_sharers(c) * (split ? 1 : t);
    if (n % e)
        tx__violate(k->v, "--moe-expert-parallel-size %lld does not divide the %lld %s ranks of a stage%s",
                    (long long)e, (long long)n, split || t == 1 ? "data-parallel" : "tensor- and data-parallel",
                    split && t > 1 ? ": experts are split over tensor-parallel ones" : "");
}

static void rule_one_mlp_is_beside_experts(const tx__check *k)
{
    if (k->c->mlp_type == TX_MLP_TYPE_RESIDUAL && k->c->moe_shared_expert_intermediate_size)
        tx__violate(k->v, "--mlp-type residual and --moe-shared-expert-intermediate-size: give one of the two");
}

static void rule_experts_are_of_a_gpt(const tx__check *k)
{
    if (k->bad->model_type || is_dense(k)) return;
    if (k->c->model_type == TX_MODEL_BERT)
        tx__violate(k->v, "--model-type BERT: layers with experts are of a GPT, leave --num-experts out");
}

const tx__rule tx__rules_moe[] = {
    { NULL, rule_experts_are_numbers },
    { NULL, rule_auxiliary_loss_has_a_factor },
    { NULL, rule_layers_are_a_number_or_a_list },
    { NULL, rule_flags_of_experts_have_some },
    { NULL, rule_experts_are_as_one_program_has_them },
    { "training", rule_a_router_learns },
    { NULL, rule_a_bias_is_of_sigmoids },
    { NULL, rule_choices_are_experts },
    { NULL, rule_experts_are_of_layers },
    { NULL, rule_one_mlp_is_beside_experts },
    { NULL, rule_experts_are_of_a_gpt },
    { NULL, rule_ranks_divide_experts },
    { NULL, rule_experts_are_whole_or_split },
    { NULL, rule_experts_are_of_a_stages_ranks },
    { NULL, rule_balancing_is_built },
    { NULL, rule_dropping_is_built },
    { NULL, NULL },
};
