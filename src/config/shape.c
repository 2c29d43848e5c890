/* shape.c - the options of a model's shape as they are meant: two models are the same if these are. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/layer_pattern.h"
#include "config/option_table.h"

/* Options that mean nothing where another one says so. An option of a list that this build does not have is none. */
static void drop(json_t *o, bool meaningless, const char *const *names)
{
    for (; meaningless && *names; names++) json_object_del(o, *names);
}

static const char *const of_gelu[] = { "bias_gelu_fusion", "openai_gelu", NULL };
static const char *const of_rope[] = {
    "rotary_percent",    "rope_theta", "rotary_interleaved", "no_rope_freq", "window_rotary_base",
    "rope_scaling_type", NULL
};
#define OF_LLAMA3 "rope_low_freq_factor", "rope_high_freq_factor"
#define OF_YARN                                                                                        \
    "yarn_beta_fast", "yarn_beta_slow", "yarn_attention_factor", "yarn_mscale", "yarn_mscale_all_dim", \
        "yarn_correction_range_round_to_int"
static const char *const of_scaling[] = { "rope_scaling_factor", "rope_original_positions", OF_LLAMA3, OF_YARN, NULL };
static const char *const of_llama3[] = { OF_LLAMA3, NULL };
static const char *const of_yarn[] = { OF_YARN, NULL };
static const char *const of_originals[] = { "rope_original_positions", NULL };
static const char *const of_mscale[] = { "yarn_mscale", "yarn_mscale_all_dim", NULL };
static const char *const of_experts[] = { "expert_interval",
                                          "topk",
                                          "mlp_type",
                                          "moe_router_topk",
                                          "moe_layer_freq",
                                          "moe_router_pre_softmax",
                                          "moe_router_score_function",
                                          "moe_router_topk_scaling_factor",
                                          "moe_router_enable_expert_bias",
                                          "moe_ffn_hidden_size",
                                          "moe_shared_expert_intermediate_size",
                                          "moe_shared_expert_gate",
                                          NULL };
static const char *const of_window[] = { "window_attn_skip_freq", "window_rotary_base", NULL };
static const char *const of_biases[] = { "add_qkv_bias", "add_attention_dense_bias", NULL };
static const char *const of_layernorm[] = { "disable_norm_bias", NULL };
/* How a run pads the vocabulary is its own; the type of positions follows from two flags, but ALiBi's. */
static const char *const of_the_run[] = { "megatron_padded_logits", NULL };
static const char *const of_positions[] = { "position_embedding_type", NULL };

static const char *word(const json_t *o, const char *option)
{
    const char *w = json_string_value(json_object_get(o, option));
    return w ? w : "";
}

static double number(const json_t *o, const char *option)
{
    return json_number_value(json_object_get(o, option));
}

static bool is_on(const json_t *o, const char *option)
{
    return json_is_true(json_object_get(o, option));
}

/* Only an option that this build has. */
static void put(json_t *o, const char *option, json_t *value)
{
    if (json_object_get(o, option))
        json_object_set_new(o, option, value);
    else
        json_decref(value);
}

/* ---- lists of layers ---- */

/* A list as --moe-layer-freq has it, one number a layer; "1" where all are alike.   @is whether layer i, from 0, is one
 */
static tx_status put_layers(json_t *o, const char *option, const tx_config *cfg,
                            bool (*is)(const tx_config *cfg, int64_t layer))
{
    tx_str list = { 0 };
    bool all = true;
    tx_status st = TX_OK;
    for (int64_t i = 0; i < cfg->num_layers && !st; i++) {
        all = all && is(cfg, i);
        st = tx_str_printf(&list, "%s%d", i ? "," : "[", is(cfg, i));
    }
    if (!st) st = tx_str_puts(&list, "]");
    if (!st && json_object_set_new(o, option, json_string(all ? "1" : list.data)))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for a model's options");
    tx_str_free(&list);
    return st;
}

static bool has_experts(const tx_config *cfg, int64_t layer)
{
    return tx_config_moe(cfg, layer).n_experts > 1;
}

/* ---- experts, in Megatron Core's words whoever's they were given in ---- */

static tx_status put_experts(json_t *o, const tx_config *cfg)
{
    tx_moe_shape is = { .n_experts = 1 };
    for (int64_t i = 0; i < cfg->num_layers && is.n_experts == 1; i++) is = tx_config_moe(cfg, i);
    json_t *words = json_pack("{sI sb}", "moe_router_topk", (json_int_t)is.k, "moe_router_pre_softmax",
                              !is.softmax_after && !is.renormalise);
    if (!words || json_object_update(o, words)) {
        json_decref(words);
        return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a model's options");
    }
    json_decref(words);
    json_object_del(o, "topk");
    json_object_del(o, "expert_interval");
    if (!is.shared_gate) json_object_set_new(o, "moe_shared_expert_gate", json_false());
    if (is.ffn == cfg->ffn_hidden_size) json_object_set_new(o, "moe_ffn_hidden_size", json_null());
    return put_layers(o, "moe_layer_freq", cfg, has_experts);
}

/* ---- all ---- */

/* GPT has one activation, BERT one more in its head, which is of the tanh form with --openai-gelu alone; config.json
 * has one word for both. */
static void put_gelu(json_t *o, const tx_config *cfg)
{
    bool bert = cfg->model_type == TX_MODEL_BERT, tanh_form = cfg->bias_gelu_fusion || cfg->openai_gelu;
    json_object_set_new(o, "bias_gelu_fusion", json_boolean(!bert && tanh_form));
    json_object_set_new(o, "openai_gelu", json_boolean(bert && tanh_form));
}

/* A list of layers in the words of --moe-layer-freq, but that a number N is the last layer of every N, which are the
 * option's layers, or all others are. Written as a list; null where it says what it does when it is left out: no layer,
 * or all.   @last the layers of a number are the option's */
static tx_status put_list(json_t *o, const char *option, int64_t n, bool last)
{
    tx_layer_pattern p;
    tx_str list = { 0 };
    int64_t ones = 0;
    tx_status st = TX_OK;
    if (!json_is_string(json_object_get(o, option))) return TX_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        bool is = tx_layer_pattern_read(word(o, option), i, &p) && p.at;
        if (!p.listed && p.n > 0) is = ((i + 1) % p.n == 0) == last;
        ones += is;
        st = tx_str_printf(&list, "%s%d", i ? "," : "[", is);
    }
    if (!st) st = tx_str_puts(&list, "]");
    if (!st) put(o, option, ones == (last ? 0 : n) ? json_null() : json_string(list.data));
    tx_str_free(&list);
    return st;
}

/* A window that no layer has is none. */
static tx_status put_window(json_t *o, const tx_config *cfg)
{
    const char *freq = "window_attn_skip_freq";
    TX_TRY(put_list(o, freq, cfg->num_layers, false));
    if (*word(o, freq) && !strchr(word(o, freq), '1')) put(o, "window_size", json_integer(0));
    drop(o, !(number(o, "window_size") > 0), of_window);
    return TX_OK;
}

static tx_status put_rope(json_t *o, const tx_config *cfg)
{
    const char *kind = word(o, "rope_scaling_type");
    bool rope = tx_config_positions(cfg) == TX_POSITIONS_ROPE, scaled = rope && *kind && strcmp(kind, "none") != 0;
    double turned = (double)tx_config_rotary_dim(cfg) / (double)(cfg->kv_channels ? cfg->kv_channels : 1);
    TX_TRY(put_list(o, "no_rope_freq", cfg->num_layers, true));
    drop(o, !rope || !scaled, of_scaling);
    drop(o, scaled && strcmp(kind, "llama3") != 0, of_llama3);
    drop(o, scaled && strcmp(kind, "yarn") != 0, of_yarn);
    drop(o, scaled && !strcmp(kind, "linear"), of_originals);
    drop(o, number(o, "yarn_attention_factor") > 0, of_mscale);
    if (!scaled && number(o, "window_rotary_base") == number(o, "rope_theta"))
        put(o, "window_rotary_base", json_null());
    drop(o, !rope, of_rope);
    put(o, "rotary_percent", json_real(turned));
    return TX_OK;
}

/* What 0 stands for. */
static void put_scale(json_t *o, const tx_config *cfg)
{
    double usual = 1 / sqrt((double)(cfg->kv_channels ? cfg->kv_channels : 1)), is = number(o, "attention_scale");
    if (fabs(is - usual) <= 1e-12 * usual) put(o, "attention_scale", json_real(0));
}

static tx_status make_plain(json_t *o, const tx_config *cfg)
{
    bool silu = cfg->swiglu || !strcmp(word(o, "gated_activation"), "silu");
    if (silu) put(o, "gated_activation", json_null());
    put(o, "swiglu", json_boolean(silu));
    put_gelu(o, cfg);
    drop(o, silu || cfg->glu_activation || *word(o, "gated_activation") || cfg->squared_relu || is_on(o, "relu"),
         of_gelu);
    put_scale(o, cfg);
    TX_TRY(put_window(o, cfg));
    TX_TRY(put_rope(o, cfg));
    drop(o, cfg->add_bias_linear && !is_on(o, "disable_attention_bias"), of_biases);
    drop(o, cfg->normalization == TX_NORMALIZATION_RMSNORM, of_layernorm);
    drop(o, tx_config_positions(cfg) != TX_POSITIONS_ALIBI, of_positions);
    drop(o, true, of_the_run);
    if (tx_config_has_experts(cfg)) return put_experts(o, cfg);
    drop(o, true, of_experts);
    return TX_OK;
}

tx_status tx_config_shape_of(const tx_config *cfg, json_t **out)
{
    json_t *o;
    TX_TRY(tx__shape_to_json(cfg, &o));
    tx_status st = make_plain(o, cfg);
    if (st)
        json_decref(o);
    else
        *out = o;
    return st;
}

tx_status tx_config_shape_meant(const json_t *options, json_t **out)
{
    tx_config *cfg = NULL;
    TX_TRY(tx_config_new(&cfg, tx_command_id_word(TX_COMMAND_ENGINE)));
    tx_status st = tx_config_from_json(cfg, options, TX_KEPT_SHAPE | TX_KEPT_HINT);
    if (!st) st = tx_config_shape_of(cfg, out);
    tx_config_free(cfg);
    return st;
}

/* ---- comparing ---- */

/* Numbers that were computed in another order are the same. */
static bool same(const json_t *a, const json_t *b)
{
    if (!json_is_number(a) || !json_is_number(b)) return json_equal(a, b);
    double x = json_number_value(a), y = json_number_value(b);
    return fabs(x - y) <= 1e-12 * fmax(fabs(x), fabs(y));
}

static const char *flag_of(const char *field)
{
    for (size_t i = 0; i < tx__n_options; i++)
        if (tx__options[i].field && !strcmp(tx__options[i].field, field)) return tx__options[i].flag;
    return field;
}

static tx_status put_value(tx_str *out, const json_t *value)
{
    char number[40];
    if (json_is_string(value)) return tx_str_puts(out, json_string_value(value));
    if (json_is_real(value)) return tx_str_put_f64(out, json_real_value(value));
    if (json_is_array(value)) return put_value(out, json_array_get(value, 0));
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    return tx_str_puts(out, json_is_integer(value) ? number
                            : json_is_true(value)  ? "on"
                            : json_is_false(value) ? "off"
                                                   : "left out");
}

int tx_config_shapes_differ(const json_t *a, const json_t *b, tx_str *out)
{
    const char *field;
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)a, field, value)
    {
        const json_t *other = json_object_get(b, field);
        if (other && same(value, other)) continue;
        if (n++ && tx_str_puts(out, "; ")) return -1;
        if (tx_str_printf(out, "--%s is ", flag_of(field)) || put_value(out, value) || tx_str_puts(out, ", there ") ||
            put_value(out, other))
            return -1;
    }
    json_object_foreach((json_t *)b, field, value)
    {
        if (json_object_get(a, field)) continue;
        if (n++ && tx_str_puts(out, "; ")) return -1;
        if (tx_str_printf(out, "--%s is left out, there ", flag_of(field)) || put_value(out, value)) return -1;
    }
    return n;
}
