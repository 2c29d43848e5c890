/* hf_window.c - sliding windows in config.json. There a window of w is a token and the w - 1 before it; here
 * --window-size counts those before it. Which layers have it is a list, layer_types, or where that is left out a
 * family's pattern. */
#include <string.h>

#include "base/alloc.h"
#include "model/gpt/llama_like.h"

#define SLIDING "sliding_attention"
#define FULL    "full_attention"

static tx_status put_window(json_t *o, const json_t *config, const char *key, int64_t left_out)
{
    int64_t w = 0;
    const json_t *v = tx_hf_get(config, key);
    if (!v)
        w = left_out;
    else if (!json_is_null(v))
        TX_TRY(tx_hf_get_size(config, key, &w));
    if (w == 1)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: a \"%s\" of 1 is not built: a token sees another", key);
    return tx_hf_put(o, "window_size", json_integer(w ? w - 1 : 0));
}

static tx_status say_window(json_t *config, const json_t *o, const char *key)
{
    int64_t n = tx_hf_size(o, "window_size");
    return tx_hf_say(config, key, n ? json_integer(n + 1) : json_null());
}

/* Of every layer. */
tx_status tx__window_read(json_t *o, const json_t *config)
{
    return put_window(o, config, "sliding_window", 0);
}

tx_status tx__window_4096_read(json_t *o, const json_t *config)
{
    return put_window(o, config, "sliding_window", 4096);
}

tx_status tx__window_write(json_t *config, const json_t *o)
{
    return say_window(config, o, "sliding_window");
}

/* ---- layer_types ---- */

static tx_status read_types(tx_hf_layers *layers, const json_t *list)
{
    if (!json_is_array(list) || (int64_t)json_array_size(list) != layers->n)
        return TX_FAIL(TX_ERR_FORMAT,
                       "config.json: \"layer_types\" must be a list of as many words as there are layers");
    for (int64_t i = 0; i < layers->n; i++) {
        const char *type = json_string_value(json_array_get(list, (size_t)i));
        if (!type || (strcmp(type, SLIDING) && strcmp(type, FULL)))
            return TX_FAIL(TX_ERR_UNSUPPORTED,
                           "config.json: layer_types \"%.60s\" is not built (" FULL " and " SLIDING " are)",
                           type ? type : "");
        layers->at[i] = !strcmp(type, SLIDING);
    }
    return TX_OK;
}

/* Layers with the window: by layer_types, or all but the last of every `every`; 0: by max_window_layers, from which on
 * they have it. */
static tx_status put_layers(json_t *o, const json_t *config, int64_t every)
{
    const json_t *types = json_object_get(config, "layer_types");
    int64_t from;
    tx_hf_layers layers;
    TX_TRY(tx_hf_layers_new(&layers, o));
    tx_status st = tx_hf_get_size_or(config, "max_window_layers", 0, &from);
    for (int64_t i = 0; i < layers.n; i++) layers.at[i] = every ? (i + 1) % every != 0 : i >= from;
    if (!st && types && !json_is_null(types)) st = read_types(&layers, types);
    if (!st && tx_hf_size(o, "window_size")) st = tx_hf_put_layers(o, "window_attn_skip_freq", &layers);
    if (!st && !tx_hf_size(o, "window_size") && memchr(layers.at, 1, (size_t)layers.n) && types && !json_is_null(types))
        st = TX_FAIL(TX_ERR_FORMAT, "config.json: \"layer_types\" has " SLIDING ", and there is no \"sliding_window\"");
    tx_free(layers.at);
    return st;
}

/* A model without a window has no list in its options. */
static tx_status say_layers(json_t *config, const json_t *o)
{
    const char *freq = "window_attn_skip_freq";
    tx_hf_layers layers;
    json_t *list = json_array();
    tx_status st = tx_hf_get_layers(o, freq, &layers);
    bool any = tx_hf_size(o, "window_size") > 0, all = any && !*tx_hf_word(o, freq);
    for (int64_t i = 0; !st && i < layers.n; i++)
        json_array_append_new(list, json_string(all || (any && layers.at[i]) ? SLIDING : FULL));
    tx_free(layers.at);
    if (!st) return tx_hf_say(config, "layer_types", list);
    json_decref(list);
    return st;
}

/* Gemma 2, 3; Cohere 2; OLMo 3. */
static tx_status read_pattern(json_t *o, const json_t *config, int64_t every)
{
    int64_t n;
    TX_TRY(tx_hf_get_size_or(config, "sliding_window_pattern", every, &n));
    TX_TRY(tx_hf_get_size_or(config, "_sliding_window_pattern", n, &n));
    TX_TRY(put_window(o, config, "sliding_window", 4096));
    return put_layers(o, config, n);
}

tx_status tx__every_2_read(json_t *o, const json_t *config)
{
    return read_pattern(o, config, 2);
}

tx_status tx__every_4_read(json_t *o, const json_t *config)
{
    return read_pattern(o, config, 4);
}

tx_status tx__every_6_read(json_t *o, const json_t *config)
{
    return read_pattern(o, config, 6);
}

tx_status tx__layer_types_write(json_t *config, const json_t *o)
{
    TX_TRY(say_window(config, o, "sliding_window"));
    return say_layers(config, o);
}

/* Qwen: a switch, and the first layers without it. */
tx_status tx__qwen_window_read(json_t *o, const json_t *config)
{
    bool used;
    TX_TRY(tx_hf_get_bool(config, "use_sliding_window", false, &used));
    if (!used) return tx_hf_put(o, "window_size", json_integer(0));
    TX_TRY(put_window(o, config, "sliding_window", 4096));
    return put_layers(o, config, 0);
}

tx_status tx__qwen_window_write(json_t *config, const json_t *o)
{
    bool used = tx_hf_size(o, "window_size") > 0;
    TX_TRY(tx_hf_say(config, "use_sliding_window", json_boolean(used)));
    TX_TRY(say_window(config, o, "sliding_window"));
    if (!used) return TX_OK;
    tx_hf_layers layers;
    TX_TRY(tx_hf_get_layers(o, "window_attn_skip_freq", &layers));
    const unsigned char *first = memchr(layers.at, 1, (size_t)layers.n);
    tx_status st = tx_hf_say(config, "max_window_layers", json_integer(first ? first - layers.at : 0));
    tx_free(layers.at);
    return st ? st : say_layers(config, o);
}

/* ---- layers without positions ---- */

/* Those without a window, where there is one: Cohere 2, EXAONE 4. */
tx_status tx__turned_in_window_read(json_t *o, const json_t *config)
{
    tx_hf_layers layers;
    (void)config;
    if (!tx_hf_size(o, "window_size")) return TX_OK;
    TX_TRY(tx_hf_get_layers(o, "window_attn_skip_freq", &layers));
    for (int64_t i = 0; i < layers.n; i++) layers.at[i] = !layers.at[i];
    tx_status st = tx_hf_put_layers(o, "no_rope_freq", &layers);
    tx_free(layers.at);
    return st;
}

/* SmolLM 3: a list of 1 for those with them, or all but the last of every so many. */
tx_status tx__no_rope_read(json_t *o, const json_t *config)
{
    const json_t *list = json_object_get(config, "no_rope_layers");
    int64_t every;
    tx_hf_layers layers;
    TX_TRY(tx_hf_get_size_or(config, "no_rope_layer_interval", 4, &every));
    TX_TRY(tx_hf_layers_new(&layers, o));
    bool given = list && !json_is_null(list);
    tx_status st = TX_OK;
    if (given && (!json_is_array(list) || (int64_t)json_array_size(list) != layers.n))
        st = TX_FAIL(TX_ERR_FORMAT, "config.json: \"no_rope_layers\" must be a list of as many numbers as there are "
                                    "layers");
    for (int64_t i = 0; i < layers.n && !st; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        if (given && !(json_is_integer(v) && (json_integer_value(v) == 0 || json_integer_value(v) == 1)))
            st = TX_FAIL(TX_ERR_FORMAT, "config.json: \"no_rope_layers\" must be a list of 0 and 1");
        layers.at[i] = given ? json_integer_value(v) == 0 : (i + 1) % every == 0;
    }
    if (!st) st = tx_hf_put_layers(o, "no_rope_freq", &layers);
    tx_free(layers.at);
    return st;
}

tx_status tx__no_rope_write(json_t *config, const json_t *o)
{
    tx_hf_layers layers;
    json_t *list = json_array();
    tx_status st = tx_hf_get_layers(o, "no_rope_freq", &layers);
    for (int64_t i = 0; !st && i < layers.n; i++) json_array_append_new(list, json_integer(!layers.at[i]));
    tx_free(layers.at);
    if (!st) return tx_hf_say(config, "no_rope_layers", list);
    json_decref(list);
    return st;
}
