/* hf_rope.c - rotary positions in config.json. transformers 5 keeps all of them in rope_parameters; older versions have
 * rope_theta and partial_rotary_factor, and in rope_scaling what the scaling is, whose kind was called "type" at first.
 * All are written: the new form, and the old one beside it. */
#include <string.h>

#include "model/gpt/llama_like.h"

/* A kind of scaling: its name there and here, and which of its numbers are which options. */
typedef struct scaling {
    const char *theirs, *ours;
    struct {
        const char *theirs, *option;
        double left_out; /* negative: it has to be there */
    } number[6];
} scaling;

static const scaling scalings[] = {
    { "default", "none", { { NULL, NULL, 0 } } },
    { "linear", "linear", { { "factor", "rope_scaling_factor", -1 } } },
    { "dynamic",
      "dynamic",
      { { "factor", "rope_scaling_factor", -1 },
        { "original_max_position_embeddings", "rope_original_positions", 0 } } },
    { "llama3",
      "llama3",
      { { "factor", "rope_scaling_factor", -1 },
        { "original_max_position_embeddings", "rope_original_positions", -1 },
        { "low_freq_factor", "rope_low_freq_factor", -1 },
        { "high_freq_factor", "rope_high_freq_factor", -1 } } },
    { "yarn",
      "yarn",
      { { "factor", "rope_scaling_factor", -1 },
        { "original_max_position_embeddings", "rope_original_positions", 0 },
        { "beta_fast", "yarn_beta_fast", 32 },
        { "beta_slow", "yarn_beta_slow", 1 },
        { "attention_factor", "yarn_attention_factor", 0 } } },
};
enum { N_SCALINGS = sizeof scalings / sizeof *scalings };

static bool is_whole(const char *option)
{
    return !strcmp(option, "rope_original_positions");
}

/* The object there that has the scaling, and its name; NULL: none has. */
static tx_status find_object(const json_t *config, const json_t **out, const char **where)
{
    static const char *const places[] = { "rope_parameters", "rope_scaling" };
    *out = NULL;
    for (int i = 0; i < 2 && !*out; i++) {
        const json_t *v = json_object_get(config, *where = places[i]);
        if (!v || json_is_null(v)) continue;
        if (!json_is_object(v)) return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be an object", places[i]);
        *out = v;
    }
    return TX_OK;
}

/* Every member is known: the kind, theta, the turned part, and the kind's numbers. */
static tx_status check_members(const json_t *rope, const char *where, const scaling *is)
{
    static const char *const all[] = { "rope_type", "type", "rope_theta", "partial_rotary_factor" };
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)rope, key, value)
    {
        bool known = json_is_null(value);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) known = known || !strcmp(all[i], key);
        for (int i = 0; i < 6 && is->number[i].theirs; i++) known = known || !strcmp(is->number[i].theirs, key);
        if (!known)
            return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: \"%.60s\" in %s is nothing that rope_type %s has here",
                           key, where, is->theirs);
    }
    return TX_OK;
}

static tx_status read_scaling(json_t *o, const json_t *config, const json_t *rope, const char *where)
{
    const json_t *kind = json_object_get(rope, "rope_type");
    if (!kind || json_is_null(kind)) kind = json_object_get(rope, "type");
    const char *word = kind && !json_is_null(kind) ? json_string_value(kind) : "default";
    const scaling *is = NULL;
    for (int i = 0; i < N_SCALINGS && word; i++)
        if (!strcmp(scalings[i].theirs, word)) is = &scalings[i];
    if (!is)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "config.json: rope_type \"%.60s\" is not built (default, linear, dynamic, llama3, yarn are)",
                       word ? word : "");
    TX_TRY(check_members(rope, where, is));
    TX_TRY(tx_hf_put(o, "rope_scaling_type", json_string(is->ours)));
    for (int i = 0; i < 6 && is->number[i].theirs; i++) {
        const char *key = is->number[i].theirs;
        const json_t *v = json_object_get(rope, key);
        double x = is->number[i].left_out;
        if (v && !json_is_null(v) && !(json_is_number(v) && json_number_value(v) > 0))
            return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" in %s must be a positive number", key, where);
        if (v && !json_is_null(v)) x = json_number_value(v);
        if (x < 0)
            return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" is missing in %s, of rope_type %s", key, where,
                           is->theirs);
        if (is_whole(is->number[i].option) && x == 0) /* theirs is what the model was made for */
            x = json_number_value(json_object_get(config, "max_position_embeddings"));
        bool whole = is_whole(is->number[i].option);
        TX_TRY(tx_hf_put(o, is->number[i].option,
                         x == 0  ? json_null()
                         : whole ? json_integer((json_int_t)x)
                                 : json_real(x)));
    }
    return TX_OK;
}

/* In the object, or beside it by one of some names; else as it is: what the table's other rows have put. */
static tx_status read_own(json_t *o, const char *option, const char *const *keys, const json_t *config,
                          const json_t *rope)
{
    const json_t *v = json_object_get(rope, keys[0]);
    for (int i = 0; keys[i] && (!v || json_is_null(v)); i++) v = json_object_get(config, keys[i]);
    if (!v || json_is_null(v)) return TX_OK;
    if (!json_is_number(v) || !(json_number_value(v) > 0))
        return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a positive number", keys[0]);
    return tx_hf_put(o, option, json_real(json_number_value(v)));
}

static const char *const thetas[] = { "rope_theta", "rotary_emb_base", NULL };
static const char *const parts[] = { "partial_rotary_factor", "rotary_pct", "rope_pct", NULL };

tx_status tx__rope_read(json_t *o, const json_t *config)
{
    const json_t *rope;
    const char *where;
    TX_TRY(find_object(config, &rope, &where));
    TX_TRY(read_own(o, "rope_theta", thetas, config, rope));
    TX_TRY(read_own(o, "rotary_percent", parts, config, rope));
    return rope ? read_scaling(o, config, rope, where) : TX_OK;
}

static json_t *copy_of(const json_t *o, const char *option)
{
    return json_copy(json_object_get(o, option));
}

/* Kind and numbers, into an object. */
static tx_status write_scaling(json_t *rope, const json_t *o)
{
    const char *word = tx_hf_word(o, "rope_scaling_type");
    const scaling *is = &scalings[0];
    for (int i = 0; i < N_SCALINGS; i++)
        if (!strcmp(scalings[i].ours, word)) is = &scalings[i];
    TX_TRY(tx_hf_say(rope, "rope_type", json_string(is->theirs)));
    for (int i = 0; i < 6 && is->number[i].theirs; i++) {
        const char *option = is->number[i].option;
        if (tx_hf_number(o, option) > 0) TX_TRY(tx_hf_say(rope, is->number[i].theirs, copy_of(o, option)));
    }
    if (tx_hf_number(o, "rotary_percent") != 1)
        TX_TRY(tx_hf_say(rope, "partial_rotary_factor", copy_of(o, "rotary_percent")));
    return tx_hf_say(rope, "rope_theta", copy_of(o, "rope_theta"));
}

static bool is_scaled(const json_t *o)
{
    const char *word = tx_hf_word(o, "rope_scaling_type");
    return *word && strcmp(word, scalings[0].ours) != 0;
}

tx_status tx__rope_write(json_t *config, const json_t *o)
{
    TX_TRY(tx_hf_say(config, "rope_parameters", json_object()));
    json_t *rope = json_object_get(config, "rope_parameters");
    TX_TRY(write_scaling(rope, o));
    if (is_scaled(o)) TX_TRY(tx_hf_say(config, "rope_scaling", json_copy(rope)));
    if (tx_hf_number(o, "rotary_percent") != 1)
        TX_TRY(tx_hf_say(config, "partial_rotary_factor", copy_of(o, "rotary_percent")));
    return tx_hf_say(config, "rope_theta", copy_of(o, "rope_theta"));
}

/* GPT-NeoX's older words. */
tx_status tx__rope_neox_write(json_t *config, const json_t *o)
{
    TX_TRY(tx__rope_write(config, o));
    TX_TRY(tx_hf_say(config, "rotary_emb_base", copy_of(o, "rope_theta")));
    return tx_hf_say(config, "rotary_pct", copy_of(o, "rotary_percent"));
}

/* ---- layers with a window have others: Gemma 3, OLMo 3 ---- */

/* rope_parameters has an object for each type of layer; older files have the base of those with a window beside it, and
 * rope_scaling is that of the others. */
static tx_status read_two(json_t *o, const json_t *config, double local)
{
    const json_t *rope, *all = NULL, *window = NULL;
    const char *where, *local_key = "rope_local_base_freq";
    TX_TRY(find_object(config, &rope, &where));
    if (!strcmp(where, "rope_parameters") && rope) {
        all = json_object_get(rope, "full_attention");
        window = json_object_get(rope, "sliding_attention");
        if (!all && !window) all = rope; /* of all layers alike */
    } else {
        all = rope;
    }
    TX_TRY(read_own(o, "rope_theta", thetas, config, all));
    if (all && !json_is_null(all)) TX_TRY(read_scaling(o, config, all, where));
    if (local == 0) local = tx_hf_number(o, "rope_theta");
    const json_t *kind = json_object_get(window, "rope_type"), *base = json_object_get(window, "rope_theta");
    if (!base) base = json_object_get(config, local_key);
    if (kind && strcmp(json_string_value(kind) ? json_string_value(kind) : "", "default"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a rope_type of sliding_attention is not built (default is)");
    if (base && !(json_is_number(base) && json_number_value(base) > 0))
        return TX_FAIL(TX_ERR_FORMAT, "config.json: \"rope_theta\" of sliding_attention must be a positive number");
    if (base) local = json_number_value(base);
    return tx_hf_size(o, "window_size") ? tx_hf_put(o, "window_rotary_base", json_real(local)) : TX_OK;
}

tx_status tx__ropes_10000_read(json_t *o, const json_t *config)
{
    return read_two(o, config, 10000);
}

tx_status tx__ropes_read(json_t *o, const json_t *config)
{
    return read_two(o, config, 0);
}

tx_status tx__ropes_write(json_t *config, const json_t *o)
{
    double local = tx_hf_number(o, "window_rotary_base");
    if (!(local > 0)) local = tx_hf_number(o, "rope_theta");
    TX_TRY(tx_hf_say(config, "rope_parameters.full_attention", json_object()));
    json_t *full = json_object_get(json_object_get(config, "rope_parameters"), "full_attention");
    TX_TRY(write_scaling(full, o));
    TX_TRY(tx_hf_say(config, "rope_parameters.sliding_attention",
                     json_pack("{ss sf}", "rope_type", "default", "rope_theta", local)));
    TX_TRY(tx_hf_say(config, "rope_theta", copy_of(o, "rope_theta")));
    if (is_scaled(o)) TX_TRY(tx_hf_say(config, "rope_scaling", json_copy(full)));
    return tx_hf_say(config, "rope_local_base_freq", json_real(local));
}
