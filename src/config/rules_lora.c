/* rules_lora.c - rules across options: low-rank adapters. */
#include "config/rules.h"
#include "kinds/lora_targets.h"

/* The rank may also be the checkpoint's, which is not read yet. */
static void rule_adapters_have_a_rank(const tx__check *k)
{
    const tx_config *c = k->c;
    const char *flag = k->g->lora_alpha     ? "lora-alpha"
                       : k->g->lora_targets ? "lora-targets"
                       : k->g->lora_dropout ? "lora-dropout"
                                            : NULL;
    if (flag && !k->bad->lora_rank && !c->lora_rank && !c->load)
        tx__violate(k->v, "--%s needs --lora-rank, the rank of the adapters", flag);
}

static void rule_adapters_have_matrices(const tx__check *k)
{
    const tx_config *c = k->c;
    const unsigned parts[2][2] = { { TX_LORA_BIT(TX_LORA_QKV),
                                     TX_LORA_BIT(TX_LORA_Q) | TX_LORA_BIT(TX_LORA_K) | TX_LORA_BIT(TX_LORA_V) },
                                   { TX_LORA_BIT(TX_LORA_H_4H), TX_LORA_BIT(TX_LORA_GATE) | TX_LORA_BIT(TX_LORA_UP) } };
    static const char *const whole[2] = { "query_key_value", "dense_h_to_4h" };
    unsigned all = tx_config_lora_targets(c);
    for (int i = 0; i < c->lora_targets.n && !k->bad->lora_targets; i++)
        if (!tx_config_lora_word(c->lora_targets.item[i])) {
            tx__violate(
                k->v,
                "--lora-targets %.60s: allowed are query_key_value, dense, dense_h_to_4h, dense_4h_to_h; c_attn, "
                "c_proj, c_fc; q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
                c->lora_targets.item[i]);
            return;
        }
    for (int i = 0; i < 2 && c->lora_targets.n; i++)
        if (all & parts[i][0] && all & parts[i][1])
            tx__violate(k->v, "--lora-targets: %s has the rows of other names that are given: give it or those",
                        whole[i]);
    if (all & parts[1][1] && c->lora_targets.n && !tx_config_is_gated(c) && c->hidden_size && !c->load)
        tx__violate(k->v, "--lora-targets gate_proj and up_proj are for a gated MLP (--swiglu, --gated-activation): "
                          "give dense_h_to_4h");
}

static void rule_adapters_can_be(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->lora_rank) return;
    const unsigned traits = c->optimizer ? tx_optimizer_traits(c->optimizer) : 0;
    if (c->model_type == TX_MODEL_BERT) tx__violate(k->v, "--lora-rank is for a GPT, not for a BERT; leave it out");
    if (tx_config_has_experts(c))
        tx__violate(k->v, "--lora-rank is for a GPT without experts: adapters beside experts are not built");
    if (c->offload_optimizer > TX_OFFLOAD_NONE || c->offload_param > TX_OFFLOAD_NONE)
        tx__violate(k->v, "--lora-rank: nothing is offloaded of a model that is not trained; leave --offload-optimizer "
                          "and --offload-param out");
    if (c->zero_quantized_weights || c->zero_quantized_gradients)
        tx__violate(k->v, "--lora-rank: integers are not sent of a model that is not trained; leave "
                          "--zero-quantized-weights and --zero-quantized-gradients out");
    if (traits & TX_OPTIMIZER_COMPRESSED)
        tx__violate(k->v, "--lora-rank: gradients of adapters are not sent as signs; choose --optimizer adam");
    if (c->dump_step.n)
        tx__violate(k->v,
                    "--lora-rank: Hugging Face has no names for adapters in --dump-step; leave one of the two out");
    if (c->qk_clip) tx__violate(k->v, "--lora-rank: --qk-clip changes weights that are not trained; leave it out");
    if (c->save_format && c->save_format != TX_FORMAT_NATIVE)
        tx__violate(k->v,
                    "--save-format %s has no place for adapters: save native, and merge with triax convert "
                    "--merge-lora",
                    tx_checkpoint_format_word(c->save_format));
}

const tx__rule tx__rules_lora[] = {
    { "training", rule_adapters_have_a_rank },
    { "training", rule_adapters_have_matrices },
    { "training", rule_adapters_can_be },
    { NULL, NULL },
};
