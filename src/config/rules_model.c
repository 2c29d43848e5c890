/* rules_model.c - rules across options: the shape of the model, its numbers, recomputation. */
#include <math.h>
#include <string.h>

#include "config/layer_pattern.h"
#include "config/rules.h"

/* ---------------------------------------------------------------- model */

static void rule_heads_have_a_width(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->hidden_size || k->bad->num_attention_heads || k->bad->kv_channels || c->kv_channels) return;
    if (c->hidden_size && c->num_attention_heads)
        tx__violate(k->v, "--hidden-size %lld is not divisible by --num-attention-heads %lld; give --kv-channels",
                    (long long)c->hidden_size, (long long)c->num_attention_heads);
}

static void rule_key_heads_divide_heads(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->num_attention_heads || k->bad->num_key_value_heads || !c->num_attention_heads) return;
    if (c->num_attention_heads % c->num_key_value_heads == 0) return;
    tx__violate_mendable(k, TX__KEY_HEADS, "--num-attention-heads %lld is not divisible by --num-key-value-heads %lld",
                         (long long)c->num_attention_heads, (long long)c->num_key_value_heads);
    k->bad->num_key_value_heads = true;
}

static void rule_query_groups_are_key_heads(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->num_query_groups || k->bad->num_key_value_heads) return;
    if (!c->group_query_attention && k->g->num_query_groups)
        tx__violate(k->v, "--num-query-groups %lld needs --group-query-attention; or give --num-key-value-heads alone",
                    (long long)c->num_query_groups);
    else if (c->group_query_attention && c->num_key_value_heads != c->num_query_groups)
        tx__violate(k->v,
                    "--num-key-value-heads %lld, but --group-query-attention has --num-query-groups %lld: two names of "
                    "one number, give one of them",
                    (long long)c->num_key_value_heads, (long long)c->num_query_groups);
}

static void rule_activation_is_one(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->openai_gelu + c->squared_relu + c->relu + c->swiglu + (c->gated_activation != 0) + (c->glu_activation != 0) >
        1)
        tx__violate(k->v,
                    "--openai-gelu, --squared-relu, --relu, --swiglu, --gated-activation and --glu-activation: give "
                    "one of the six");
    if (c->glu_activation && c->bias_gelu_fusion)
        tx__violate(k->v, "if glu-activation is used, please set --no-bias-gelu-fusion");
    bool narrow = c->swiglu || c->gated_activation;
    if (narrow && c->hidden_size && !c->ffn_hidden_size && !k->bad->hidden_size && !k->bad->ffn_hidden_size)
        tx__violate(
            k->v, "--swiglu and --gated-activation: 8/3 of --hidden-size %lld is less than 64; give --ffn-hidden-size",
            (long long)c->hidden_size);
}

static void rule_precision_is_one(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->fp16 && c->bf16) tx__violate(k->v, "--fp16 and --bf16: give one of the two");
    if (c->fp32_residual_connection && !c->fp16 && !c->bf16)
        tx__violate(k->v, "--fp32-residual-connection needs --fp16 or --bf16: in fp32 it always is");
    if (c->fp16 && c->initial_loss_scale < c->min_loss_scale && !k->bad->initial_loss_scale && !k->bad->min_loss_scale)
        tx__violate(k->v, "--initial-loss-scale %g is below --min-loss-scale %g", c->initial_loss_scale,
                    c->min_loss_scale);
    if (c->loss_scale_window != floor(c->loss_scale_window))
        tx__violate(k->v, "--loss-scale-window %g is not a whole number", c->loss_scale_window);
}

/* A type of 16 bits is the values' own. */
static void rule_gradients_have_a_type(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->grad_dtype || k->bad->grad_reduce_dtype) return;
    enum tx_float_type kept = c->grad_dtype, summed = c->grad_reduce_dtype ? c->grad_reduce_dtype : kept;
    const char *word = tx_float_type_word(kept);
    if ((kept == TX_FLOAT_BF16 && !c->bf16) || (kept == TX_FLOAT_FP16 && !c->fp16))
        tx__violate(k->v, "--grad-dtype %s needs --%s: gradients are fp32, or what weights and activations are", word,
                    word);
    if (kept != TX_FLOAT_FP32 && c->accumulate_allreduce_grads_in_fp32)
        tx__violate(
            k->v,
            "--accumulate-allreduce-grads-in-fp32 is --grad-dtype fp32, but --grad-dtype %s is given: leave one "
            "out",
            word);
    if (kept != TX_FLOAT_BF16 && c->grad_reduce_in_bf16)
        tx__violate(k->v, "--grad-reduce-in-bf16 is --grad-dtype bf16, but --grad-dtype %s is given: leave one out",
                    word);
    if (kept != TX_FLOAT_FP32 && summed != TX_FLOAT_FP32 && kept != summed)
        tx__violate(k->v, "--grad-reduce-dtype %s: gradients that are kept in %s are summed in %s or fp32",
                    tx_float_type_word(summed), word, word);
}

/* Where a layer's norms and its two sums are: one way of each pair. */
static void rule_halves_go_together(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->norm_placement || k->bad->parallel_residual) return;
    const char *norms = tx_norm_placement_word(c->norm_placement);
    const char *halves = tx_parallel_residual_word(c->parallel_residual);
    bool placed = c->norm_placement > TX_NORM_PLACEMENT_PRE,
         parallel = c->parallel_residual > TX_PARALLEL_RESIDUAL_NONE;
    if (placed && parallel)
        tx__violate(k->v,
                    "--norm-placement %s and --parallel-residual %s: attention and MLP that read one input have "
                    "their norms in front; leave one of the two out",
                    norms, halves);
    if (placed && c->post_layernorm)
        tx__violate(k->v, "--norm-placement %s and --post-layernorm are two places of the norms: give one of the two",
                    norms);
    if (parallel && c->post_layernorm)
        tx__violate(k->v,
                    "--parallel-residual %s needs norms in front of attention and MLP: leave --post-layernorm out",
                    halves);
    if (c->apply_residual_connection_post_layernorm && (placed || parallel))
        tx__violate(k->v,
                    "--apply-residual-connection-post-layernorm is of a layer with --norm-placement pre and "
                    "--parallel-residual none: leave it out, or --%s %s",
                    placed ? "norm-placement" : "parallel-residual", placed ? norms : halves);
    if (c->norm_placement == TX_NORM_PLACEMENT_BRANCH && c->fp32_residual_connection)
        tx__violate(k->v,
                    "--norm-placement branch: attention and MLP read the residual itself, which has the type of the "
                    "weights: leave --fp32-residual-connection out");
}

static void rule_output_layer_has_a_bias(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->output_bias && !c->untie_embeddings_and_output_weights && !c->load)
        tx__violate(k->v, "--output-bias is of an output layer with weights of its own: give "
                          "--untie-embeddings-and-output-weights");
}

static void rule_attention_has_biases_or_none(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->disable_attention_bias && (c->add_qkv_bias || c->add_attention_dense_bias))
        tx__violate(k->v, "--disable-attention-bias, but --%s is given: leave one of the two out",
                    c->add_qkv_bias ? "add-qkv-bias" : "add-attention-dense-bias");
}

static void rule_norms_have_a_bias_to_leave_out(const tx__check *k)
{
    if (k->bad->normalization || !k->c->disable_norm_bias || k->c->normalization == TX_NORMALIZATION_LAYERNORM) return;
    tx__violate(k->v, "--disable-norm-bias is for layer normalisation: --normalization %s has no bias, leave it out",
                tx_normalization_word(k->c->normalization));
}

static void rule_rotation_has_pairs(const tx__check *k)
{
    const tx_config *c = k->c;
    bool said = k->g->rotary_percent || k->g->rope_theta;
    if (said && !c->use_rotary_position_embeddings && !c->load && !k->g->load)
        tx__violate(k->v, "--rotary-percent and --rotary-position-embeddings-theta need "
                          "--use-rotary-position-embeddings");
    if (!c->use_rotary_position_embeddings || k->bad->rotary_percent || k->bad->kv_channels || !c->kv_channels) return;
    int64_t n = tx_config_rotary_dim(c);
    if (n < 2 || n % 2)
        tx__violate(k->v, "--rotary-percent %g of a head's width %lld is %lld, which has to be even and at least 2",
                    c->rotary_percent, (long long)c->kv_channels, (long long)n);
}

static void rule_positions_are_of_one_kind(const tx__check *k)
{
    const tx_config *c = k->c;
    tx_positions p = tx_config_positions(c);
    if (k->bad->position_embedding_type) return;
    if (k->g->use_rotary_position_embeddings && p != TX_POSITIONS_ROPE)
        tx__violate(k->v,
                    "--use-rotary-position-embeddings is --position-embedding-type rope, but %s is given: give one of "
                    "the two",
                    tx_position_embedding_word(c->position_embedding_type));
    if (k->g->add_position_embedding && p == TX_POSITIONS_LEARNED)
        tx__violate(k->v,
                    "--no-position-embedding, but --position-embedding-type %s adds learned positions: give one of the "
                    "two",
                    tx_position_embedding_word(c->position_embedding_type));
    if (p == TX_POSITIONS_ALIBI && c->model_type == TX_MODEL_BERT)
        tx__violate(k->v, "--position-embedding-type alibi is for a GPT: its biases grow with how far back a key lies, "
                          "and a BERT looks both ways; leave the flag out");
}

static void rule_positions_reach(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->seq_length || k->bad->max_position_embeddings || !c->seq_length || !c->max_position_embeddings) return;
    if (c->seq_length > c->max_position_embeddings)
        tx__violate(k->v, "--seq-length %lld is more than --max-position-embeddings %lld", (long long)c->seq_length,
                    (long long)c->max_position_embeddings);
}

/* Of --window-attn-skip-freq: a number, or a list of as many layers as there are. */
static void check_windowed_layers(const tx__check *k)
{
    const tx_config *c = k->c;
    const char *text = c->window_attn_skip_freq;
    tx_layer_pattern p;
    if (!tx_layer_pattern_read(text, 0, &p)) {
        tx__violate(k->v,
                    "--window-attn-skip-freq %s is neither a whole number of at least 2 nor a list of 0 and 1 such as "
                    "[1]*5+[0] or ([1]*3+[0])*4",
                    text);
        return;
    }
    if (!c->num_layers || k->bad->num_layers) return;
    if (p.listed && p.n != c->num_layers) {
        tx__violate(k->v, "--window-attn-skip-freq %s is a list of %lld layers, and --num-layers is %lld", text,
                    (long long)p.n, (long long)c->num_layers);
        return;
    }
    int64_t n = 0;
    for (int64_t i = 0; i < c->num_layers; i++) n += tx_config_window(c, i) > 0;
    if (!n)
        tx__violate(k->v, "--window-attn-skip-freq %s: no layer has the window of --window-size %lld; leave both out",
                    text, (long long)c->window_size);
}

static void rule_windows_have_layers(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->window_size || k->bad->window_attn_skip_freq) return;
    if (c->window_size && c->model_type == TX_MODEL_BERT)
        tx__violate(k->v, "--window-size is for a GPT: its window reaches back, and a BERT looks both ways; leave the "
                          "flag out");
    else if (c->window_attn_skip_freq && !c->window_size && !c->load && !k->g->load)
        tx__violate(k->v, "--window-attn-skip-freq needs --window-size: it says which layers have that window");
    else if (c->window_attn_skip_freq && c->window_size)
        check_windowed_layers(k);
}

/* ---------------------------------------------------------------- recomputation */

/* The number of layers at its default of 1 says nothing, as upstream: scripts have it beside no recomputation. */
static void rule_recomputation_is_whole(const tx__check *k)
{
    const tx_config *c = k->c;
    enum tx_recompute_granularity granularity = c->recompute_granularity;
    const char *method = tx_recompute_method_word(c->recompute_method);
    if (k->bad->recompute_granularity || k->bad->recompute_method) return;
    bool full = granularity == TX_RECOMPUTE_FULL;
    if (c->checkpoint_activations && (granularity || method || c->recompute_activations))
        tx__violate(k->v, "--checkpoint-activations is --recompute-granularity full --recompute-method uniform "
                          "already: leave --recompute-activations, --recompute-granularity and --recompute-method out");
    else if (full && c->recompute_activations)
        tx__violate(k->v, "--recompute-activations is --recompute-granularity selective, but full is given: give one "
                          "of the two");
    else if (full && !method)
        tx__violate(k->v, "--recompute-granularity full needs --recompute-method uniform or block");
    else if (method && !full && (granularity || c->recompute_activations))
        tx__violate(k->v,
                    "--recompute-method %s: recompute method is not yet supported for selective recomputing "
                    "granularity; leave it out, or give --recompute-granularity full",
                    method);
    else if (method && !full)
        tx__violate(k->v, "--recompute-method %s needs --recompute-granularity full", method);
    if (!full && c->recompute_num_layers != 1)
        tx__violate(k->v, "--recompute-num-layers %lld needs --recompute-granularity full and --recompute-method",
                    (long long)c->recompute_num_layers);
    if (!c->checkpoint_activations && c->checkpoint_num_layers != 1)
        tx__violate(k->v, "--checkpoint-num-layers %lld needs --checkpoint-activations",
                    (long long)c->checkpoint_num_layers);
}

/* ---------------------------------------------------------------- the table */

const tx__rule tx__rules_model[] = {
    { NULL, rule_heads_have_a_width },
    { NULL, rule_key_heads_divide_heads },
    { NULL, rule_query_groups_are_key_heads },
    { NULL, rule_activation_is_one },
    { NULL, rule_precision_is_one },
    { "training", rule_gradients_have_a_type },
    { NULL, rule_halves_go_together },
    { NULL, rule_output_layer_has_a_bias },
    { NULL, rule_attention_has_biases_or_none },
    { NULL, rule_norms_have_a_bias_to_leave_out },
    { NULL, rule_rotation_has_pairs },
    { NULL, rule_positions_are_of_one_kind },
    { NULL, rule_positions_reach },
    { NULL, rule_windows_have_layers },
    { "training", rule_recomputation_is_whole },
    { NULL, NULL },
};
