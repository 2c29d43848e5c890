/* rules_routing.c - rules across options: layers that some tokens or some micro-batches pass by (routing.c). */
#include <string.h>

#include "config/rules.h"

static const struct needed {
    const char *flag, *key;
} needed[] = {
    { "random-ltd-min-value", "random_ltd_schedule.min_value" },
    { "random-ltd-max-value", "random_ltd_schedule.max_value" },
    { "random-ltd-require-steps", "random_ltd_schedule.schedule_config.require_steps" },
    { "random-ltd-seq-per-step", "random_ltd_schedule.schedule_config.seq_per_step" },
};
enum { N_NEEDED = sizeof needed / sizeof *needed };

static const tx_option *option(const char *flag)
{
    size_t i = 0;
    while (!tx__has_member(&tx__options[i]) || strcmp(tx__options[i].flag, flag) != 0) i++;
    return &tx__options[i];
}

/* Whether any option of it is given, whose rows stand together: advice.c asks a million times. */
static bool names_any(const tx_config_given *g)
{
    const bool *first = &g->random_ltd, *last = &g->random_ltd_layer_id;
    while (first < last && !*first) first++;
    return *first;
}

static void rule_random_ltd_has_what_it_needs(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!names_any(k->g)) return;
    for (int i = 0; i < N_NEEDED; i++) {
        bool given = tx__is_given(c, option(needed[i].flag));
        if (given && !c->random_ltd)
            tx__violate(k->v, "--%s needs --random-ltd", needed[i].flag);
        else if (!given && c->random_ltd)
            tx__violate(k->v, "--random-ltd needs --%s (data_efficiency.data_routing.random_ltd.%s)", needed[i].flag,
                        needed[i].key);
    }
    if (!c->random_ltd && (k->g->random_ltd_layer_id || k->g->random_ltd_layer_num))
        tx__violate(k->v, "--random-ltd-layer-%s needs --random-ltd", k->g->random_ltd_layer_id ? "id" : "num");
}

/* Numbers of layers, from 0, each once. */
static bool check_layers(const tx__check *k)
{
    const tx_list *l = &k->c->random_ltd_layer_id;
    int64_t layers = k->bad->num_layers ? 0 : k->c->num_layers, n, other;
    for (int i = 0; i < l->n; i++) {
        if (!tx__integer_parse(l->item[i], &n) || n < 0 || (layers && n >= layers)) {
            tx__violate(k->v, "--random-ltd-layer-id %.40s: layers are numbered from 0 to %lld", l->item[i],
                        (long long)(layers ? layers - 1 : 999999));
            return false;
        }
        for (int j = 0; j < i; j++)
            if (tx__integer_parse(l->item[j], &other) && other == n) {
                tx__violate(k->v, "--random-ltd-layer-id has layer %lld twice", (long long)n);
                return false;
            }
    }
    return true;
}

bool tx__random_ltd_is_sound(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->random_ltd) return false;
    for (int i = 0; i < N_NEEDED; i++) {
        const tx_option *o = option(needed[i].flag);
        if (!tx__is_given(c, o) || *tx__given(k->bad, o)) return false;
    }
    return true;
}

static void rule_random_ltd_drops_some(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->random_ltd || k->bad->random_ltd_layer_id || !check_layers(k)) return;
    if (!k->bad->num_layers && c->num_layers && !c->random_ltd_layer_id.n && c->num_layers < 3)
        tx__violate(k->v,
                    "--random-ltd: all layers but the first and the last drop tokens, and --num-layers is %lld: give "
                    "--random-ltd-layer-id",
                    (long long)c->num_layers);
    else if (!k->bad->random_ltd_layer_num && k->g->random_ltd_layer_num && !k->bad->num_layers && c->num_layers &&
             c->random_ltd_layer_num != tx_config_n_dropping(c))
        tx__violate(k->v, "--random-ltd-layer-num %lld: %s %lld layers", (long long)c->random_ltd_layer_num,
                    c->random_ltd_layer_id.n ? "--random-ltd-layer-id names" : "between the first and the last are",
                    (long long)tx_config_n_dropping(c));
    if (!tx__random_ltd_is_sound(k)) return;
    int64_t min = c->random_ltd_min_value, max = c->random_ltd_max_value, last;
    if (min > max)
        tx__violate(k->v, "--random-ltd-min-value %lld is more than --random-ltd-max-value %lld", (long long)min,
                    (long long)max);
    else if (!tx_config_reserved_length(c, 1, &last))
        tx__violate(
            k->v,
            "--random-ltd-min-value %lld, rounded down to a multiple of --random-ltd-seq-per-step %lld, leaves no "
            "token",
            (long long)min, (long long)c->random_ltd_seq_per_step);
}

/* What it is not built with. */
static void rule_random_ltd_goes_with(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->random_ltd) return;
    if (c->command->id == TX_COMMAND_ENGINE) {
        tx__violate(k->v,
                    "--random-ltd drops tokens in the layers of a GPT or BERT; which are a user-defined model's, its "
                    "own program decides: leave it out");
        return;
    }
    if (!k->bad->position_embedding_type && tx_config_positions(c) == TX_POSITIONS_ALIBI)
        tx__violate(k->v, "--random-ltd: ALiBi's biases of tokens that are not neighbours are not built: give another "
                          "--position-embedding-type, or leave it out");
    if (!k->bad->window_size && c->window_size)
        tx__violate(k->v, "--random-ltd: windows of tokens that are not neighbours are not built: leave it out, or "
                          "--window-size");
    if (!k->bad->num_experts && tx_config_has_experts(c))
        tx__violate(k->v, "--random-ltd: layers with experts compute all tokens: leave it out, or --num-experts");
}

/* The first iteration whose number of tokens the tensor-parallel ranks cannot divide. */
static void rule_tensor_ranks_divide_tokens(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size;
    if (k->bad->tensor_model_parallel_size || t < 2 || !c->sequence_parallel || !tx__random_ltd_is_sound(k)) return;
    if (c->curriculum_schedule && !tx__curriculum_is_sound(k)) return;
    for (tx__lengths l = { .drops = true }; tx__lengths_next(c, &l);) {
        if (l.layers < l.sample && l.layers % t) {
            tx__violate_mendable(k, TX__TENSOR | TX__NO_SEQUENCE_PARALLEL,
                                 "--sequence-parallel: --random-ltd leaves %lld tokens from iteration %lld on, which "
                                 "are not divisible by --tensor-model-parallel-size %lld",
                                 (long long)l.layers, (long long)l.first, (long long)t);
            return;
        }
    }
}

static void rule_layers_can_be_dropped(const tx__check *k)
{
    const tx_config *c = k->c;
    static const char flag[] = "--progressive-layer-drop";
    if (!c->progressive_layer_drop) {
        if (k->g->pld_theta || k->g->pld_gamma)
            tx__violate(k->v, "--pld-%s needs %s", k->g->pld_theta ? "theta" : "gamma", flag);
        return;
    }
    if (c->command->id == TX_COMMAND_ENGINE)
        tx__violate(k->v,
                    "%s drops layers of a GPT or BERT; which are a user-defined model's, its own program decides: "
                    "leave it out",
                    flag);
    if (c->post_layernorm || c->apply_residual_connection_post_layernorm)
        tx__violate(k->v, "%s needs layers past which their input goes unchanged: leave out --%s", flag,
                    c->post_layernorm ? "post-layernorm" : "apply-residual-connection-post-layernorm");
    if (!k->bad->num_experts && tx_config_has_experts(c))
        tx__violate(k->v, "%s: ranks that divide experts compute every layer together: leave it out, or --num-experts",
                    flag);
}

const tx__rule tx__rules_routing[] = {
    { NULL, rule_random_ltd_has_what_it_needs },
    { NULL, rule_random_ltd_drops_some },
    { NULL, rule_random_ltd_goes_with },
    { NULL, rule_layers_can_be_dropped },
    { "training", rule_tensor_ranks_divide_tokens },
    { NULL, NULL },
};
