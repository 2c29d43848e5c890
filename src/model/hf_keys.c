/* hf_keys.c - config.json by a table's rows. */
#include "model/hf_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "config/layer_pattern.h"

/* Members that say how a model was made, is generated from, or is kept, and nothing of what it computes. */
static const char *const said_by_all[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "activation_dropout",
    "architectures",
    "attention_dropout",
    "attention_dropout_prob",
    "attention_probs_dropout_prob",
    "attn_implementation",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dtype",
    "early_stopping",
    "emb_pdrop",
    "embd_pdrop",
    "embedding_dropout",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "init_device",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "label2id",
    "language",
    "layerdrop",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_dropout",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
    "vocab_size",
};

/* ---- members ---- */

const json_t *tx_hf_get(const json_t *config, const char *key)
{
    char object[64];
    const char *dot = strchr(key, '.');
    if (!dot) return json_object_get(config, key);
    snprintf(object, sizeof object, "%.*s", (int)(dot - key), key);
    return json_object_get(json_object_get(config, object), dot + 1);
}

tx_status tx_hf_say(json_t *config, const char *key, json_t *value)
{
    char object[64];
    const char *dot = strchr(key, '.');
    json_t *in = config;
    if (!value) return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: these options have no value for \"%s\"", key);
    if (dot) {
        snprintf(object, sizeof object, "%.*s", (int)(dot - key), key);
        if (!json_object_get(config, object)) json_object_set_new(config, object, json_object());
        in = json_object_get(config, object);
        key = dot + 1;
    }
    return json_object_set_new(in, key, value) ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json") : TX_OK;
}

/* Whether a value changes nothing. */
static bool is_neutral(const json_t *v)
{
    if (json_is_number(v)) return json_number_value(v) == 0;
    return json_is_null(v) || json_is_false(v);
}

tx_status tx_hf_put(json_t *options, const char *option, json_t *value)
{
    tx_status st = TX_OK;
    if (value && !json_object_get(options, option)) {
        if (!is_neutral(value)) {
            char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
            st = TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: means an option %s %s, which is not built", option,
                         text ? text : "");
            free(text); /* Jansson's */
        }
        json_decref(value);
        return st;
    }
    return json_object_set_new(options, option, value) ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json")
                                                       : TX_OK;
}

tx_status tx_hf_get_size(const json_t *config, const char *key, int64_t *out)
{
    const json_t *v = tx_hf_get(config, key);
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > INT32_MAX)
        return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a positive whole number below 2^31", key);
    *out = json_integer_value(v);
    return TX_OK;
}

tx_status tx_hf_get_size_or(const json_t *config, const char *key, int64_t fallback, int64_t *out)
{
    const json_t *v = tx_hf_get(config, key);
    *out = fallback;
    return !v || json_is_null(v) ? TX_OK : tx_hf_get_size(config, key, out);
}

tx_status tx_hf_get_number(const json_t *config, const char *key, double fallback, double *out)
{
    const json_t *v = tx_hf_get(config, key);
    if (v && !json_is_number(v)) return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a number", key);
    *out = v ? json_number_value(v) : fallback;
    return TX_OK;
}

tx_status tx_hf_get_bool(const json_t *config, const char *key, bool fallback, bool *out)
{
    const json_t *v = tx_hf_get(config, key);
    if (v && !json_is_boolean(v)) return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be true or false", key);
    *out = v ? json_is_true(v) : fallback;
    return TX_OK;
}

tx_status tx_hf_get_word(const json_t *config, const char *key, const char *fallback, const char **out)
{
    const json_t *v = tx_hf_get(config, key);
    if (v && !json_is_string(v)) return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a text", key);
    *out = v ? json_string_value(v) : fallback;
    return TX_OK;
}

/* ---- options ---- */

int64_t tx_hf_size(const json_t *options, const char *option)
{
    return json_integer_value(json_object_get(options, option));
}

double tx_hf_number(const json_t *options, const char *option)
{
    return json_number_value(json_object_get(options, option));
}

bool tx_hf_is(const json_t *options, const char *option)
{
    return json_is_true(json_object_get(options, option));
}

const char *tx_hf_word(const json_t *options, const char *option)
{
    const char *word = json_string_value(json_object_get(options, option));
    return word ? word : "";
}

/* ---- which layers ---- */

tx_status tx_hf_layers_new(tx_hf_layers *out, const json_t *options)
{
    *out = (tx_hf_layers){ .n = tx_hf_size(options, "num_layers") };
    if (out->n > 10000)
        return TX_FAIL(TX_ERR_FORMAT, "config.json: has %lld layers; 10000 can be had", (long long)out->n);
    return tx_alloc(&out->at, (size_t)out->n, 1, "a list of layers");
}

tx_status tx_hf_put_layers(json_t *options, const char *option, const tx_hf_layers *layers)
{
    tx_str list = { 0 };
    tx_status st = TX_OK;
    for (int64_t i = 0; i < layers->n && !st; i++) st = tx_str_printf(&list, "%s%d", i ? "," : "[", layers->at[i]);
    if (!st) st = tx_str_puts(&list, "]");
    if (!st) st = tx_hf_put(options, option, json_string(list.data));
    tx_str_free(&list);
    return st;
}

tx_status tx_hf_get_layers(const json_t *options, const char *option, tx_hf_layers *layers)
{
    const char *text = tx_hf_word(options, option);
    TX_TRY(tx_hf_layers_new(layers, options));
    for (int64_t i = 0; i < layers->n; i++) {
        tx_layer_pattern p = { .listed = false };
        if (*text && !tx_layer_pattern_read(text, i, &p)) p.at = false;
        layers->at[i] = p.at;
    }
    return TX_OK;
}

/* ---- reading ---- */

static json_t *literal(const char *text)
{
    return json_loads(text, JSON_DECODE_ANY, NULL);
}

static tx_status read_number(const tx_hf_key *k, json_t *o, const json_t *config)
{
    const json_t *v = tx_hf_get(config, k->theirs);
    bool root = k->kind == TX_HF_ROOT, over = k->kind == TX_HF_OVER;
    double x = k->value ? strtod(k->value, NULL) : 0; /* "null": 0 */
    if (v && json_is_null(v))
        x = 0;
    else
        TX_TRY(tx_hf_get_number(config, k->theirs, x, &x));
    if ((root || over) && !(x > 0))
        return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a positive number", k->theirs);
    return tx_hf_put(o, k->option, json_real(over ? 1 / x : root ? 1 / sqrt(x) : x));
}

static tx_status put_choice(const tx_hf_choice *c, json_t *o)
{
    for (int i = 0; i < 3 && c->is[i].option; i++) TX_TRY(tx_hf_put(o, c->is[i].option, literal(c->is[i].value)));
    return TX_OK;
}

static tx_status read_word(const tx_hf_key *k, json_t *o, const json_t *config)
{
    const char *word = NULL;
    const json_t *v = tx_hf_get(config, k->theirs);
    bool yes = false, switched = !strcmp(k->choice->word, "true"); /* of two options, say */
    tx_str names = { 0 };
    if (!switched)
        TX_TRY(tx_hf_get_word(config, k->theirs, k->value, &word));
    else
        TX_TRY(tx_hf_get_bool(v && json_is_null(v) ? NULL : config, k->theirs, !strcmp(k->value, "true"), &yes));
    if (switched) word = yes ? "true" : "false";
    for (const tx_hf_choice *c = k->choice; c->word; c++)
        if (word && !strcmp(c->word, word)) return put_choice(c, o);
    tx_status st = TX_OK;
    for (const tx_hf_choice *c = k->choice; c->word && !st; c++)
        st = tx_str_printf(&names, "%s%s", c > k->choice ? ", " : "", c->word);
    if (!st)
        st = TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: %s \"%.60s\" is not built here (%s)", k->theirs,
                     word ? word : "", names.data);
    tx_str_free(&names);
    return st;
}

/* Values that are the same: 0 is 0.0, and what null, false and [] ask for is nothing. */
static bool is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static tx_status read_only(const tx_hf_key *k, const json_t *config)
{
    const json_t *v = tx_hf_get(config, k->theirs);
    json_t *must = literal(k->value), *is = v ? json_incref((json_t *)v) : literal(k->also ? k->also : k->value);
    tx_status st = must && is ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    if (!st && !is_same(must, is) && !(json_is_null(must) && is_neutral(is)) &&
        !(is_neutral(must) && json_is_null(is))) {
        char *said = json_dumps(is, JSON_ENCODE_ANY | JSON_COMPACT);
        if (json_is_boolean(must) && !json_is_boolean(is) && !json_is_null(is))
            st = TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be true or false", k->theirs);
        else if (json_is_string(must) && !json_is_string(is) && !json_is_null(is))
            st = TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a text", k->theirs);
        else
            st = TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: %s %.60s%s is not built (%s is)", k->theirs,
                         said ? said : "", v ? "" : ", which it is when left out,", k->value);
        free(said); /* Jansson's */
    }
    json_decref(must);
    json_decref(is);
    return st;
}

static tx_status read_switch(const tx_hf_key *k, json_t *o, const json_t *config)
{
    bool is, left_out = !strcmp(k->value, "true");
    const json_t *v = tx_hf_get(config, k->theirs);
    TX_TRY(tx_hf_get_bool(json_is_null(v) ? NULL : config, k->theirs, left_out, &is));
    return tx_hf_put(o, k->option, json_boolean(k->kind == TX_HF_UNLESS ? !is : is));
}

static tx_status read_size(const tx_hf_key *k, json_t *o, const json_t *config)
{
    int64_t n;
    bool other = k->also && !tx_hf_get(config, k->theirs) && tx_hf_get(config, k->also);
    TX_TRY(tx_hf_get_size(config, other ? k->also : k->theirs, &n));
    return tx_hf_put(o, k->option, json_integer(n));
}

static tx_status read_row(const tx_hf_key *k, json_t *o, const json_t *config)
{
    switch (k->kind) {
    case TX_HF_HAS:
        return tx_hf_put(o, k->option, literal(k->value));
    case TX_HF_NUMBER:
    case TX_HF_OVER:
    case TX_HF_ROOT:
        return read_number(k, o, config);
    case TX_HF_SWITCH:
    case TX_HF_UNLESS:
        return read_switch(k, o, config);
    case TX_HF_WORD:
        return read_word(k, o, config);
    case TX_HF_ONLY:
        return read_only(k, config);
    case TX_HF_SIZE: /* before */
    case TX_HF_SIZE_OR:
    case TX_HF_FREE:
    case TX_HF_COMPUTED: /* behind */
    case TX_HF_LAST:
        break;
    }
    return TX_OK;
}

static tx_status read_sizes(const tx_hf_key *keys, json_t *o, const json_t *config)
{
    int64_t n;
    for (const tx_hf_key *k = keys; k->kind; k++)
        if (k->kind == TX_HF_SIZE) TX_TRY(read_size(k, o, config));
    int64_t hidden = tx_hf_size(o, "hidden_size"), heads = tx_hf_size(o, "num_attention_heads");
    if (!tx_hf_size(o, "ffn_hidden_size")) TX_TRY(tx_hf_put(o, "ffn_hidden_size", json_integer(4 * hidden)));
    if (!tx_hf_size(o, "num_key_value_heads")) TX_TRY(tx_hf_put(o, "num_key_value_heads", json_integer(heads)));
    if (!tx_hf_size(o, "kv_channels")) TX_TRY(tx_hf_put(o, "kv_channels", json_integer(heads ? hidden / heads : 0)));
    for (const tx_hf_key *k = keys; k->kind; k++) {
        if (k->kind != TX_HF_SIZE_OR) continue;
        TX_TRY(tx_hf_get_size_or(config, k->theirs, tx_hf_size(o, k->option), &n));
        TX_TRY(tx_hf_put(o, k->option, json_integer(n)));
    }
    if (tx_hf_size(o, "kv_channels") < 1)
        return TX_FAIL(TX_ERR_FORMAT, "config.json: hidden_size is less than num_attention_heads");
    return TX_OK;
}

/* Whether a row of the table is about it. */
static bool is_known(const tx_hf_key *keys, const char *key)
{
    for (const tx_hf_key *k = keys; k->kind; k++) {
        size_t n = k->theirs ? strcspn(k->theirs, ".") : 0;
        if (n && strlen(key) == n && !strncmp(k->theirs, key, n)) return true;
        if (k->also && k->kind != TX_HF_ONLY && !strcmp(k->also, key)) return true;
    }
    for (size_t i = 0; i < sizeof said_by_all / sizeof *said_by_all; i++)
        if (!strcmp(said_by_all[i], key)) return true;
    return false;
}

static tx_status check_all_known(const tx_hf_key *keys, const char *family, const json_t *config)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)config, key, value)
    {
        if (json_is_null(value) || is_known(keys, key)) continue;
        if (!strcmp(key, "quantization_config"))
            return TX_FAIL(TX_ERR_UNSUPPORTED,
                           "config.json: \"quantization_config\": quantized weights are not read; load the model's "
                           "float weights");
        tx_str shown = { 0 };
        tx_status st = tx_str_printf(&shown, "%.80s", key);
        if (!st) st = tx_str_printable(&shown);
        if (!st)
            st = TX_FAIL(TX_ERR_UNSUPPORTED,
                         "config.json: \"%s\" is nothing that a %s has here, and would be lost; if it changes nothing "
                         "of what the model computes, take it out of the file",
                         shown.data, family);
        tx_str_free(&shown);
        return st;
    }
    return TX_OK;
}

tx_status tx_hf_keys_read(const tx_hf_key *keys, const char *family, json_t *options, const json_t *config)
{
    TX_TRY(read_sizes(keys, options, config));
    for (const tx_hf_key *k = keys; k->kind; k++) TX_TRY(read_row(k, options, config));
    for (const tx_hf_key *k = keys; k->kind; k++)
        if (k->read) TX_TRY(k->read(options, config));
    return check_all_known(keys, family, config);
}

/* ---- writing ---- */

static tx_status write_number(const tx_hf_key *k, json_t *config, const json_t *o)
{
    double x = tx_hf_number(o, k->option);
    if (x == 0 && !strcmp(k->option, "attention_scale")) x = 1 / sqrt((double)tx_hf_size(o, "kv_channels"));
    bool whole = k->kind == TX_HF_ROOT && x > 0 && fabs(round(1 / (x * x)) * x * x - 1) < 1e-12;
    if (k->kind == TX_HF_OVER) return tx_hf_say(config, k->theirs, json_real(x > 0 ? 1 / x : 1));
    if (whole) return tx_hf_say(config, k->theirs, json_integer((json_int_t)round(1 / (x * x))));
    if (k->kind == TX_HF_ROOT) return tx_hf_say(config, k->theirs, json_real(x > 0 ? 1 / (x * x) : 1));
    bool off = x == 0 && k->also; /* "null" */
    return tx_hf_say(config, k->theirs, off ? json_null() : json_real(x));
}

static bool is_choice(const tx_hf_choice *c, const json_t *o)
{
    bool all = true;
    for (int i = 0; i < 3 && c->is[i].option; i++) {
        json_t *want = literal(c->is[i].value);
        const json_t *is = json_object_get(o, c->is[i].option);
        all = all && (is ? is_same(is, want) : is_neutral(want));
        json_decref(want);
    }
    return all;
}

static tx_status write_word(const tx_hf_key *k, json_t *config, const json_t *o)
{
    for (const tx_hf_choice *c = k->choice; c->word; c++)
        if (is_choice(c, o))
            return tx_hf_say(config, k->theirs,
                             !strcmp(k->choice->word, "true") ? json_boolean(!strcmp(c->word, "true"))
                                                              : json_string(c->word));
    return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json's %s has no word for this model", k->theirs);
}

static tx_status write_row(const tx_hf_key *k, json_t *config, const json_t *o)
{
    switch (k->kind) {
    case TX_HF_SIZE:
    case TX_HF_SIZE_OR:
        if (k->also) TX_TRY(tx_hf_say(config, k->also, json_integer(tx_hf_size(o, k->option))));
        return tx_hf_say(config, k->theirs, json_integer(tx_hf_size(o, k->option)));
    case TX_HF_NUMBER:
    case TX_HF_OVER:
    case TX_HF_ROOT:
        return write_number(k, config, o);
    case TX_HF_SWITCH:
    case TX_HF_UNLESS:
        return tx_hf_say(config, k->theirs, json_boolean(tx_hf_is(o, k->option) == (k->kind == TX_HF_SWITCH)));
    case TX_HF_WORD:
        return write_word(k, config, o);
    case TX_HF_ONLY:
        return tx_hf_say(config, k->theirs, literal(k->value));
    case TX_HF_FREE:
        return k->value ? tx_hf_say(config, k->theirs, literal(k->value)) : TX_OK;
    case TX_HF_COMPUTED:
        return k->write ? k->write(config, o) : TX_OK;
    case TX_HF_HAS:
    case TX_HF_LAST:
        break;
    }
    return TX_OK;
}

tx_status tx_hf_keys_write(const tx_hf_key *keys, json_t *config, const json_t *options)
{
    for (const tx_hf_key *k = keys; k->kind; k++) TX_TRY(write_row(k, config, options));
    return TX_OK;
}
