/* upstream_rope.c - rotary positions in Megatron's args: Megatron Core has other words than our options for how they
 * are scaled, and a list where we have a text. */
#include <math.h>
#include <stdlib.h>

#include "config/layer_pattern.h"
#include "convert/upstream_write.h"

/* ---- from args ---- */

static bool number_of(const tx_py *args, const char *key, double *out)
{
    int64_t i;
    const tx_py *v = tx_py_get(args, key);
    if (tx_py_float(v, out)) return true;
    if (!tx_py_int(v, &i)) return false;
    *out = (double)i;
    return true;
}

static void take_number(json_t *o, const char *field, const tx_py *args, const char *key)
{
    double x;
    int64_t i;
    if (tx_py_int(tx_py_get(args, key), &i))
        json_object_set_new(o, field, json_integer(i));
    else if (number_of(args, key, &x))
        json_object_set_new(o, field, json_real(x));
}

static void set_type(json_t *o, enum tx_rope_scaling type)
{
    json_object_set_new(o, "rope_scaling_type", json_string(tx_rope_scaling_word(type)));
}

/* Only what is used is taken: args have all numbers, at their defaults. */
static void scaling_from_args(json_t *o, const tx_py *args, bool yarn)
{
    int64_t on = 0;
    double linear = 1;
    if (tx_py_str(tx_py_get(args, "rope_scaling_type"))) return; /* written by triax, as all the others */
    json_object_del(o, "rope_scaling_factor");
    tx_py_int(tx_py_get(args, "use_rope_scaling"), &on);
    number_of(args, "rotary_seq_len_interpolation_factor", &linear);
    if (yarn) {
        set_type(o, TX_ROPE_SCALING_YARN);
        take_number(o, "rope_scaling_factor", args, "rotary_scaling_factor");
        take_number(o, "rope_original_positions", args, "yarn_original_max_position_embeddings");
        take_number(o, "yarn_mscale", args, "mscale");
        take_number(o, "yarn_mscale_all_dim", args, "mscale_all_dim");
    } else if (on) {
        set_type(o, TX_ROPE_SCALING_LLAMA3);
        take_number(o, "rope_scaling_factor", args, "rope_scaling_factor");
    } else if (linear > 1) {
        set_type(o, TX_ROPE_SCALING_LINEAR);
        take_number(o, "rope_scaling_factor", args, "rotary_seq_len_interpolation_factor");
    }
}

void tx__rope_from_args(json_t *o, const tx_py *args, bool yarn)
{
    const tx_py *without = tx_py_get(args, "no_rope_freq");
    tx_str text = { 0 };
    int64_t n;
    scaling_from_args(o, args, yarn);
    if (tx_py_str(without)) tx_str_puts(&text, tx_py_str(without));
    if (tx_py_int(without, &n)) tx_str_printf(&text, "%lld", (long long)n);
    for (size_t i = 0; i < tx_py_len(without) && !tx_py_str(without); i++) {
        n = 0;
        tx_py_int(tx_py_item(without, i), &n);
        tx_str_printf(&text, "%s%d", i ? "," : "[", n != 0);
    }
    if (text.len && *text.data == '[') tx_str_puts(&text, "]");
    if (text.len) json_object_set_new(o, "no_rope_freq", json_string(text.data));
    tx_str_free(&text);
}

/* ---- to args ---- */

static void set_float(tx__file *f, tx_py *args, const char *key, double x)
{
    tx__set(f, args, key, tx_py_of_float(f->a, x));
}

static void set_without(tx__file *f, tx_py *args)
{
    const tx_config *cfg = f->c->cfg;
    tx_layer_pattern p;
    if (!cfg->no_rope_freq || !tx_layer_pattern_read(cfg->no_rope_freq, 0, &p)) return;
    tx_py *list = tx_py_list(f->a);
    for (int64_t i = 0; i < cfg->num_layers; i++) tx__append(f, list, tx_py_of_int(f->a, tx_config_skips_rope(cfg, i)));
    tx__set(f, args, "no_rope_freq", p.listed ? list : tx_py_of_int(f->a, p.n));
}

void tx__rope_to_args(tx__file *f, tx_py *args)
{
    const tx_config *cfg = f->c->cfg;
    if (!cfg->use_rotary_position_embeddings) return;
    set_without(f, args);
    switch (cfg->rope_scaling_type) {
    case TX_ROPE_SCALING_NONE:
    case TX_ROPE_SCALING_DYNAMIC: /* tx_config_not_upstreams */
        break;
    case TX_ROPE_SCALING_LINEAR:
        tx__set(f, args, "rotary_seq_len_interpolation_factor", tx_py_of_int(f->a, (int64_t)cfg->rope_scaling_factor));
        break;
    case TX_ROPE_SCALING_YARN:
        tx__set(f, args, "position_embedding_type", tx_py_of_str(f->a, "yarn"));
        tx__set(f, args, "yarn_original_max_position_embeddings", tx_py_of_int(f->a, cfg->rope_original_positions));
        set_float(f, args, "rotary_scaling_factor", cfg->rope_scaling_factor);
        set_float(f, args, "mscale", cfg->yarn_mscale);
        set_float(f, args, "mscale_all_dim", cfg->yarn_mscale_all_dim);
        break;
    case TX_ROPE_SCALING_LLAMA3:
        tx__set(f, args, "use_rope_scaling", tx_py_of_bool(f->a, true));
        break;
    }
}
