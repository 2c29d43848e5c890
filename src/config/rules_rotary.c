/* rules_rotary.c - rules across options: rotary positions, how they are scaled, and norms of queries and keys. */
#include "config/layer_pattern.h"
#include "config/rules.h"

/* Nothing is to be given in vain. */
static void rule_rotary_flags_rotate(const tx__check *k)
{
    const tx_config_given *g = k->g;
    const struct {
        const char *flag;
        bool given;
    } all[] = { { "rotary-interleaved", g->rotary_interleaved },
                { "no-rope-freq", g->no_rope_freq },
                { "window-rotary-base", g->window_rotary_base },
                { "rope-scaling-type", g->rope_scaling_type && k->c->rope_scaling_type != TX_ROPE_SCALING_NONE },
                { "rope-scaling-factor", g->rope_scaling_factor } };
    if (k->c->use_rotary_position_embeddings || k->c->load || g->load) return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given) tx__violate(k->v, "--%s needs --use-rotary-position-embeddings", all[i].flag);
}

/* Megatron's words for a scaling say the same as ours. */
static void rule_scaling_is_one(const tx__check *k)
{
    const tx_config *c = k->c;
    double linear = c->rotary_seq_len_interpolation_factor;
    if (k->bad->rope_scaling_type) return;
    const char *word = tx_rope_scaling_word(c->rope_scaling_type);
    if (c->use_rope_scaling && c->rope_scaling_type != TX_ROPE_SCALING_LLAMA3)
        tx__violate(k->v, "--use-rope-scaling is --rope-scaling-type llama3, but %s is given: give one of the two",
                    word);
    if (linear > 1 && c->rope_scaling_type != TX_ROPE_SCALING_LINEAR)
        tx__violate(k->v,
                    "--rotary-seq-len-interpolation-factor is --rope-scaling-type linear, but %s is given: give one of "
                    "the two",
                    word);
    if (linear > 1 && c->rope_scaling_type == TX_ROPE_SCALING_LINEAR && c->rope_scaling_factor != linear)
        tx__violate(k->v,
                    "--rotary-seq-len-interpolation-factor %g, but --rope-scaling-factor %g: two names of one number, "
                    "give one of them",
                    linear, c->rope_scaling_factor);
}

#define OF(type) (1u << TX_ROPE_SCALING_##type)

static void rule_scaling_has_its_numbers(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    enum tx_rope_scaling type = c->rope_scaling_type;
    const struct {
        const char *flag;
        bool given;
        unsigned of;
        const char *words;
    } all[] = { { "rope-scaling-factor", g->rope_scaling_factor, ~OF(NONE), "linear, dynamic, yarn or llama3" },
                { "rope-original-positions", g->rope_original_positions, OF(DYNAMIC) | OF(YARN) | OF(LLAMA3),
                  "dynamic, yarn or llama3" },
                { "rope-low-freq-factor", g->rope_low_freq_factor, OF(LLAMA3), "llama3" },
                { "rope-high-freq-factor", g->rope_high_freq_factor, OF(LLAMA3), "llama3" },
                { "yarn-beta-fast", g->yarn_beta_fast, OF(YARN), "yarn" },
                { "yarn-beta-slow", g->yarn_beta_slow, OF(YARN), "yarn" },
                { "no-yarn-correction-range-round-to-int", g->yarn_correction_range_round_to_int, OF(YARN), "yarn" },
                { "mscale", g->yarn_mscale, OF(YARN), "yarn" },
                { "mscale-all-dim", g->yarn_mscale_all_dim, OF(YARN), "yarn" },
                { "yarn-attention-factor", g->yarn_attention_factor, OF(YARN), "yarn" } };
    if (k->bad->rope_scaling_type) return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && !(all[i].of & 1u << type) && (!c->load || g->rope_scaling_type))
            tx__violate(k->v, "--%s needs --rope-scaling-type %s", all[i].flag, all[i].words);
    if (type != TX_ROPE_SCALING_NONE && !(c->rope_scaling_factor > 0) && !k->bad->rope_scaling_factor)
        tx__violate(k->v, "--rope-scaling-type %s needs --rope-scaling-factor", tx_rope_scaling_word(type));
    if (type == TX_ROPE_SCALING_LLAMA3 && c->rope_low_freq_factor >= c->rope_high_freq_factor &&
        !k->bad->rope_low_freq_factor && !k->bad->rope_high_freq_factor)
        tx__violate(k->v, "--rope-low-freq-factor %g must be less than --rope-high-freq-factor %g",
                    c->rope_low_freq_factor, c->rope_high_freq_factor);
    if (type == TX_ROPE_SCALING_YARN && c->yarn_beta_slow > c->yarn_beta_fast && !k->bad->yarn_beta_slow &&
        !k->bad->yarn_beta_fast)
        tx__violate(k->v, "--yarn-beta-slow %g must be at most --yarn-beta-fast %g", c->yarn_beta_slow,
                    c->yarn_beta_fast);
    if (type == TX_ROPE_SCALING_YARN && c->rope_theta <= 1 && !k->bad->rope_theta)
        tx__violate(k->v, "--rope-scaling-type yarn needs a --rotary-position-embeddings-theta above 1, not %g",
                    c->rope_theta);
}

/* How long a sequence is of which layers have some tokens, none of them can tell. */
static void rule_dynamic_scaling_sees_all(const tx__check *k)
{
    if (k->c->rope_scaling_type == TX_ROPE_SCALING_DYNAMIC && k->c->random_ltd && !k->bad->rope_scaling_type)
        tx__violate(k->v, "--random-ltd and --rope-scaling-type dynamic: layers that drop tokens do not know how long "
                          "a sequence is; choose another scaling");
}

static void rule_layers_without_rotation_are_listed(const tx__check *k)
{
    const tx_config *c = k->c;
    tx_layer_pattern p;
    if (!c->no_rope_freq || k->bad->no_rope_freq) return;
    if (!tx_layer_pattern_read(c->no_rope_freq, 0, &p))
        tx__violate(k->v,
                    "--no-rope-freq %s is neither a whole number of at least 1 nor a list of 0 and 1 such as "
                    "([0]*3+[1])*4",
                    c->no_rope_freq);
    else if (p.listed && c->num_layers && p.n != c->num_layers && !k->bad->num_layers)
        tx__violate(k->v, "--no-rope-freq %s is a list of %lld layers, and --num-layers is %lld", c->no_rope_freq,
                    (long long)p.n, (long long)c->num_layers);
}

static void rule_window_has_a_base(const tx__check *k)
{
    if (k->g->window_rotary_base && !k->c->window_size && !k->c->load && !k->g->load)
        tx__violate(k->v, "--window-rotary-base needs --window-size");
}

static void rule_heads_are_normed_once(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->qk_layernorm_whole) return;
    if (c->qk_layernorm)
        tx__violate(k->v, "--qk-layernorm normalises each head, --qk-layernorm-whole all at once: give one of the two");
    if (c->normalization != TX_NORMALIZATION_RMSNORM && !k->bad->normalization && (!c->load || k->g->normalization))
        tx__violate(k->v, "--qk-layernorm-whole needs --normalization rmsnorm");
}

const tx__rule tx__rules_rotary[] = {
    { NULL, rule_rotary_flags_rotate },
    { NULL, rule_scaling_is_one },
    { NULL, rule_scaling_has_its_numbers },
    { NULL, rule_dynamic_scaling_sees_all },
    { NULL, rule_layers_without_rotation_are_listed },
    { NULL, rule_window_has_a_base },
    { NULL, rule_heads_are_normed_once },
    { NULL, NULL },
};
