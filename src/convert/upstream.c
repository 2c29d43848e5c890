/* upstream.c - Megatron's and DeepSpeed's names and words, there and back. */
#include "convert/upstream.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"

#define WORDS     "embedding.word_embeddings.weight"
#define POSITIONS "embedding.position_embeddings.weight"
#define OUTPUT    "output_layer.weight"
#define TIED      "tied_modules.embed."

/* ---- parameters ---- */

static bool starts(const char *text, const char *with, const char **rest)
{
    size_t n = strlen(with);
    if (strncmp(text, with, n)) return false;
    *rest = text + n;
    return true;
}

static bool give(char ours[TX_PARAM_NAME_MAX], const char *prefix, const char *name)
{
    return (size_t)snprintf(ours, TX_PARAM_NAME_MAX, "%s%s", prefix, name) < TX_PARAM_NAME_MAX;
}

/* What begins a name in a layer. Of theirs the first row that fits counts, and of ours. */
typedef struct beginning {
    const char *ours, *theirs;
    bool old; /* earlier versions', which is read alone */
} beginning;
static const beginning beginnings[] = {
    { "self_attention.", "attention.", true },
    { "mlp.router.", "mlp.deepspeed_moe.gate.wg.", false },
    { "mlp.experts.", "mlp.deepspeed_moe.experts.deepspeed_experts.", false },
    { "mlp.residual.coefficient.", "mlp.coefficient.", false },
    { "mlp.residual.", "mlp.mlp.", false },
};
enum { N_BEGINNINGS = sizeof beginnings / sizeof *beginnings };

static bool give_in_layer(char ours[TX_PARAM_NAME_MAX], int64_t layer, const char *name)
{
    char prefix[64];
    const char *rest = name;
    size_t i = 0;
    while (i < N_BEGINNINGS && !starts(name, beginnings[i].theirs, &rest)) i++;
    snprintf(prefix, sizeof prefix, "encoder.layers.%" PRId64 ".%s", layer, i < N_BEGINNINGS ? beginnings[i].ours : "");
    return give(ours, prefix, rest);
}

/* @ours what stands behind the layer's number */
static void to_name_in_layer(char theirs[2 * TX_PARAM_NAME_MAX], const char *prefix, int64_t layer, const char *ours)
{
    const char *rest = ours;
    size_t i = 0;
    while (i < N_BEGINNINGS && (beginnings[i].old || !starts(ours, beginnings[i].ours, &rest))) i++;
    snprintf(theirs, 2 * TX_PARAM_NAME_MAX, "%s%" PRId64 ".%s%s", prefix, layer,
             i < N_BEGINNINGS ? beginnings[i].theirs : "", rest);
}

/* "12.rest": the number, and where the rest begins; -1: there is none. */
static int64_t number_of(const char *name, const char **rest)
{
    int64_t n = 0;
    const char *s = name;
    for (; isdigit((unsigned char)*s) && s - name < 9; s++) n = 10 * n + (*s - '0');
    if (s == name || *s != '.') return -1;
    *rest = s + 1;
    return n;
}

static tx__name_kind embedding_name(const char *name, char ours[TX_PARAM_NAME_MAX], bool *split)
{
    *split = !strcmp(name, "position_embeddings.local_embeddings.weight");
    return give(ours, "embedding.", *split ? "position_embeddings.weight" : name) ? TX__NAME_OURS : TX__NAME_ELSE;
}

/* A BERT's heads stand beside its language_model. */
static bool is_of_head(const char *name)
{
    const char *rest;
    return starts(name, "lm_head.", &rest) || starts(name, "binary_head.", &rest);
}

tx__name_kind tx__megatron_name(const char *theirs, int64_t first, char ours[TX_PARAM_NAME_MAX], bool *split)
{
    const char *name = theirs, *rest;
    *split = false;
    starts(name, "module.", &name);
    if (starts(name, "word_embeddings_for_head.", &rest) || !strcmp(name, "word_embeddings.weight") ||
        starts(name, "encoderlayers.", &rest)) /* experts, which have files of their own */
        return TX__NAME_COPY;
    if (is_of_head(name)) return give(ours, "", name) ? TX__NAME_OURS : TX__NAME_ELSE;
    if (!starts(name, "language_model.", &name)) return TX__NAME_ELSE;
    if (starts(name, "pooler.", &rest)) return give(ours, "", name) ? TX__NAME_OURS : TX__NAME_ELSE;
    if (starts(name, "embedding.", &rest)) return embedding_name(rest, ours, split);
    if (!strcmp(name, OUTPUT)) return give(ours, "", name) ? TX__NAME_OURS : TX__NAME_ELSE;
    if (!starts(name, "encoder.", &rest) && !starts(name, "transformer.", &rest)) return TX__NAME_ELSE;
    if (starts(rest, "final_layernorm.", &name)) return give(ours, "encoder.", rest) ? TX__NAME_OURS : TX__NAME_ELSE;
    int64_t layer = starts(rest, "layers.", &rest) ? number_of(rest, &rest) : -1;
    return layer >= 0 && give_in_layer(ours, first + layer, rest) ? TX__NAME_OURS : TX__NAME_ELSE;
}

/* Whether what stands behind the number is a transformer layer's. */
static bool is_in_layer(const char *rest)
{
    static const char *const of_layer[] = { "input_layernorm.", "post_attention_layernorm.", "self_attention.",
                                            "attention.", "mlp." };
    const char *more;
    for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++)
        if (starts(rest, of_layer[i], &more)) return true;
    return false;
}

int64_t tx__pipeline_layer(const char *theirs)
{
    const char *rest;
    int64_t n = number_of(theirs, &rest);
    return n >= 0 && is_in_layer(rest) ? n : -1;
}

tx__name_kind tx__pipeline_name(const char *theirs, int64_t first, int64_t n, char ours[TX_PARAM_NAME_MAX], bool *split)
{
    const char *rest;
    *split = false;
    if (starts(theirs, TIED, &rest)) return embedding_name(rest, ours, split);
    int64_t at = number_of(theirs, &rest);
    bool named = false;
    if (at < 0) return TX__NAME_ELSE;
    if (at < first) return embedding_name(rest, ours, split);
    if (at < first + n)
        named = is_in_layer(rest) && give_in_layer(ours, at - first, rest);
    else if (!strcmp(rest, "lm_head.weight"))
        named = give(ours, "", OUTPUT);
    else if (starts(rest, "word_embeddings.", &rest) || starts(rest, "position_embeddings.", &rest))
        return TX__NAME_COPY; /* the tied embedding's other end */
    else if (!strcmp(rest, "weight") || !strcmp(rest, "bias"))
        named = give(ours, "encoder.final_layernorm.", rest);
    return named ? TX__NAME_OURS : TX__NAME_ELSE;
}

/* The number in our name of an expert's parameter, and what stands behind it; NULL: it is none. */
static const char *expert_number(const char *ours, int64_t *layer, const char **rest)
{
    const char *at;
    if (!starts(ours, "encoder.layers.", &at) || (*layer = number_of(at, &at)) < 0) return NULL;
    return starts(at, "mlp.experts.", &at) && number_of(at, rest) >= 0 ? at : NULL;
}

bool tx__expert_of(const char *ours, int64_t *layer, int64_t *expert)
{
    const char *rest, *at = expert_number(ours, layer, &rest);
    *expert = at ? number_of(at, &rest) : -1;
    return at;
}

void tx__set_expert(char ours[TX_PARAM_NAME_MAX], int64_t expert)
{
    char all[2 * TX_PARAM_NAME_MAX];
    int64_t layer;
    const char *rest, *at = expert_number(ours, &layer, &rest);
    TX_ASSERT(at);
    snprintf(all, sizeof all, "%.*s%" PRId64 ".%s", (int)(at - ours), ours, expert, rest);
    snprintf(ours, TX_PARAM_NAME_MAX, "%.*s", TX_PARAM_NAME_MAX - 1, all);
}

void tx__to_megatron_name(const char *ours, int64_t first, char theirs[2 * TX_PARAM_NAME_MAX])
{
    const char *rest;
    int64_t layer = starts(ours, "encoder.layers.", &rest) ? number_of(rest, &rest) : -1;
    if (layer < 0)
        snprintf(theirs, 2 * TX_PARAM_NAME_MAX, "%s%s", is_of_head(ours) ? "" : "language_model.", ours);
    else
        to_name_in_layer(theirs, "language_model.encoder.layers.", layer - first, rest);
}

void tx__to_pipeline_name(const char *ours, int64_t n_layers, bool tied, char theirs[2 * TX_PARAM_NAME_MAX])
{
    const size_t cap = 2 * TX_PARAM_NAME_MAX;
    const char *rest;
    int64_t layer = starts(ours, "encoder.layers.", &rest) ? number_of(rest, &rest) : -1;
    if (layer >= 0)
        to_name_in_layer(theirs, "", layer + 2, rest);
    else if (starts(ours, "encoder.final_layernorm.", &rest))
        snprintf(theirs, cap, "%" PRId64 ".%s", n_layers + 2, rest);
    else if (!strcmp(ours, OUTPUT))
        snprintf(theirs, cap, "%" PRId64 ".lm_head.weight", n_layers + 3);
    else
        snprintf(theirs, cap, "%s%s", tied ? TIED : "1.", ours + strlen("embedding."));
}

static tx_status each_tensor(const tx_py *v, const char *prefix, int depth, tx__tensor_fn *found, void *user)
{
    char name[512];
    if (!v || v->kind != TX_PY_DICT || depth > 8) return TX_OK;
    for (size_t i = 0; i < v->as.dict.n; i++) {
        const char *key = tx_py_str(v->as.dict.key[i]);
        const tx_py *x = v->as.dict.value[i];
        if (!key || strstr(key, "_extra_state")) continue;
        snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (tx_py_tensor(x))
            TX_TRY(found(user, name, tx_py_tensor(x)));
        else
            TX_TRY(each_tensor(x, name, depth + 1, found, user));
    }
    return TX_OK;
}

tx_status tx__each_tensor(const tx_py *v, tx__tensor_fn *found, void *user)
{
    return each_tensor(v, "", 0, found, user);
}

bool tx__decays(const char *name, int n_dims)
{
    size_t n = strlen(name);
    return n_dims > 1 && !(n > 5 && !strcmp(name + n - 5, ".bias"));
}

bool tx__is_vocabulary(const char *ours)
{
    return !strcmp(ours, WORDS) || !strcmp(ours, OUTPUT) || !strcmp(ours, "lm_head.bias");
}

/* ---- options ---- */

const char *const tx__opposites[][2] = {
    { "disable_moe_token_dropping", "moe_token_dropping" },
    { "disable_moe_top2_2nd_expert_sampling", "moe_top2_2nd_expert_sampling" },
    { NULL, NULL },
};

/* What a flag that switches something off is in args, which say what is on; or NULL. */
static json_t *opposite_of(const tx_py *args, const char *field)
{
    int64_t on;
    for (size_t i = 0; tx__opposites[i][0]; i++)
        if (!strcmp(field, tx__opposites[i][0]) && tx_py_int(tx_py_get(args, tx__opposites[i][1]), &on))
            return json_boolean(!on);
    return NULL;
}

/* --num-experts as ours has it: a list of words. */
static json_t *experts_of(const tx_py *args)
{
    const tx_py *num = tx_py_get(args, "num_experts");
    json_t *list = json_array();
    for (size_t i = 0; i < tx_py_len(num); i++) {
        char word[24];
        int64_t n = 1;
        tx_py_int(tx_py_item(num, i), &n);
        snprintf(word, sizeof word, "%" PRId64, n);
        json_array_append_new(list, json_string(word));
    }
    return list;
}

static json_t *args_value(const tx_py *args, const char *field)
{
    static const struct {
        const char *ours, *theirs;
    } other[] = { { "rope_theta", "rotary_base" }, { "num_key_value_heads", "num_query_groups" } };
    const tx_py *v = tx_py_get(args, field), *grouped = tx_py_get(args, "group_query_attention");
    if (!strcmp(field, "num_key_value_heads") && grouped && !tx_py_true(grouped)) return NULL; /* has a default then */
    for (size_t i = 0; i < sizeof other / sizeof *other && !v; i++)
        if (!strcmp(field, other[i].ours)) v = tx_py_get(args, other[i].theirs);
    return v ? tx_py_to_json(v) : opposite_of(args, field);
}

/* Megatron Core's pair of a window to the left and one to the right; none, or -1: all. NULL: it looks to the right. */
static json_t *window_of(const tx_py *args)
{
    const tx_py *v = tx_py_get(args, "window_size");
    int64_t left = 0, right = 0;
    if (tx_py_len(v)) {
        bool pair = tx_py_int(tx_py_item(v, 0), &left) && (tx_py_len(v) < 2 || tx_py_int(tx_py_item(v, 1), &right));
        if (!pair || right > 0) return NULL;
    } else {
        tx_py_int(v, &left);
    }
    return json_integer(left > 0 ? left : 0);
}

/* Its list of 0 and 1, or its number, as --window-attn-skip-freq has it. */
static json_t *windowed_layers_of(const tx_py *args)
{
    const tx_py *v = tx_py_get(args, "window_attn_skip_freq");
    int64_t n;
    tx_str text = { 0 };
    if (!tx_py_len(v)) {
        if (!tx_py_int(v, &n)) return v ? tx_py_to_json(v) : json_null();
        char number[32];
        snprintf(number, sizeof number, "%" PRId64, n);
        return json_string(number);
    }
    bool fails = false;
    for (size_t i = 0; i < tx_py_len(v); i++) {
        n = 0;
        tx_py_int(tx_py_item(v, i), &n);
        fails = fails || tx_str_printf(&text, "%s%d", i ? "," : "[", n != 0);
    }
    json_t *list = fails || tx_str_puts(&text, "]") ? NULL : json_string(text.data);
    tx_str_free(&text);
    return list;
}

/* "LayerNorm" and "RMSNorm" are its words in later versions. */
static json_t *lower_case(json_t *word)
{
    char text[64];
    const char *s = json_string_value(word);
    if (!s || strlen(s) >= sizeof text) return word;
    for (size_t i = 0; i <= strlen(s); i++) text[i] = (char)tolower((unsigned char)s[i]);
    json_decref(word);
    return json_string(text);
}

/* An option of the shape that args do not have: older versions have fewer, and flags that this model would be without
 * are off. NULL: nothing is said of it. */
static json_t *default_of(const char *field, json_t *ours)
{
    static const char *const later[] = { "add_bias_linear", "add_position_embedding" }; /* what they did before */
    if (json_is_null(ours) || !strcmp(field, "bert_binary_head")) return NULL;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (!strcmp(field, later[i])) return json_true();
    return json_is_boolean(ours) ? json_false() : json_incref(ours);
}

static bool is_left_out(const char *field)
{
    static const char *const left[] = { "vocab_size",
                                        "pad_vocab_size_to",
                                        "megatron_padded_logits",
                                        "data_order",
                                        "tokenizer_type",
                                        "model_type",
                                        "post_layernorm",
                                        "position_embedding_type",
                                        "num_experts",
                                        "moe_layer_freq",
                                        "window_size",
                                        "window_attn_skip_freq",
                                        "no_rope_freq" };
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (!strcmp(field, left[i])) return true;
    return false;
}

static const char *const learned[] = { "absolute", "learned_absolute", NULL },
                         *const rotary[] = { "rotary", "rope", "yarn", NULL },
                         *const without[] = { "alibi", "none", NULL };

static bool is_one_of(const char *word, const char *const *list)
{
    while (*list && strcmp(word, *list) != 0) list++;
    return *list;
}

/* Megatron's word, or BigScience's enum; NULL: the file is of a version without. */
static const char *positions_of(const tx_py *args)
{
    static const char *const of_enum[] = { "rotary", "absolute", "alibi" };
    const tx_py *type = tx_py_get(args, "position_embedding_type");
    int64_t i;
    if (!type || type->kind != TX_PY_OBJECT) return tx_py_str(type);
    if (!tx_py_int(tx_py_item(type->as.object.args, 0), &i) || i < 1 || i > 3) return "?";
    return of_enum[i - 1];
}

static tx_status check_args(const tx_py *args, const char *path)
{
    const char *type = positions_of(args);
    if (tx_py_get(args, "num_layers") == NULL)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: has no options of the model (\"args\"): not one of Megatron's checkpoints", path);
    if (type && !is_one_of(type, learned) && !is_one_of(type, rotary) && !is_one_of(type, without))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: position embeddings of type \"%.40s\" are not built", path, type);
    return TX_OK;
}

bool tx__args_have_experts(const tx_py *args)
{
    const tx_py *num = tx_py_get(args, "num_experts");
    int64_t n;
    for (size_t i = 0; i < tx_py_len(num); i++)
        if (tx_py_int(tx_py_item(num, i), &n) && n > 1) return true;
    return false;
}

tx_status tx__refuse_experts(const tx_py *args, const char *path)
{
    if (!tx__args_have_experts(args)) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: a mixture of experts can be read from DeepSpeed's own folders alone", path);
}

tx_status tx__args_to_options(const tx_py *args, const char *model, const json_t *all, const char *path, json_t **out)
{
    const char *field;
    json_t *ours, *o = json_object();
    int64_t padded;
    tx_status st = check_args(args, path);
    json_object_foreach((json_t *)all, field, ours)
    {
        if (is_left_out(field)) continue;
        json_t *v = args_value(args, field);
        if (v && !strcmp(field, "normalization")) v = lower_case(v);
        if (!v && tx_config_is_shape(field)) v = default_of(field, ours);
        if (v && json_object_set_new(o, field, v) && !st) st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for options");
    }
    if (tx_py_len(tx_py_get(args, "num_experts"))) json_object_set_new(o, "num_experts", experts_of(args));
    json_t *window = window_of(args);
    if (!window && !st)
        st =
            TX_FAIL(TX_ERR_UNSUPPORTED, "%s: window_size is not a pair of tokens to the left and 0 to the right", path);
    json_object_set_new(o, "window_size", window);
    json_object_set_new(o, "window_attn_skip_freq", windowed_layers_of(args));
    const char *type = positions_of(args); /* "learned_absolute" is also what its default says beside the two flags */
    if (type && !is_one_of(type, learned)) {
        json_object_set_new(o, "use_rotary_position_embeddings", json_boolean(is_one_of(type, rotary)));
        json_object_set_new(o, "add_position_embedding", json_false());
    }
    if (type && is_one_of(type, without)) json_object_set_new(o, "position_embedding_type", json_string(type));
    tx__rope_from_args(o, args, type && !strcmp(type, "yarn"));
    /* Upstream's programs know no such option; a run of triax without it has said so. */
    json_t *own = args_value(args, "megatron_padded_logits");
    bool padded_logits = !json_is_false(own);
    json_decref(own);
    if (padded_logits && tx_py_int(tx_py_get(args, "padded_vocab_size"), &padded))
        json_object_set_new(o, "pad_vocab_size_to", json_integer(padded));
    json_object_set_new(o, "megatron_padded_logits", json_boolean(padded_logits));
    json_object_set_new(o, "model_type", json_string(model));
    json_object_set_new(o, "post_layernorm", json_false());
    if (st)
        json_decref(o);
    else
        *out = o;
    return st;
}

/* ---- the run ---- */

static int64_t count(const tx_py *v, const char *key)
{
    int64_t i;
    double f;
    const tx_py *x = tx_py_get(v, key);
    if (tx_py_int(x, &i)) return i > 0 ? i : 0;
    return tx_py_float(x, &f) && f > 0 && f < 9e18 ? (int64_t)f : 0;
}

void tx__args_to_state(const tx_py *root, tx_ckpt_state *state)
{
    const tx_py *args = tx_py_get(root, "args"), *schedule = tx_py_get(root, "opt_param_scheduler");
    if (!schedule) schedule = tx_py_get(root, "lr_scheduler");
    state->iteration = count(root, "iteration");
    state->consumed_train_samples = count(args, "consumed_train_samples");
    state->consumed_valid_samples = count(args, "consumed_valid_samples");
    state->consumed_train_tokens = count(root, "tokens");
    if (!state->consumed_train_tokens) state->consumed_train_tokens = count(args, "consumed_train_tokens");
    if (!state->consumed_train_tokens)
        state->consumed_train_tokens = state->consumed_train_samples * count(args, "seq_length");
    state->schedule_samples = count(schedule, "num_steps");
    if (!state->schedule_samples) state->schedule_samples = count(schedule, "num_iters");
    state->schedule_tokens = count(schedule, "num_tokens");
    state->schedule_warmup_tokens = count(schedule, "warmup_num_tokens");
    state->skipped = count(root, "skipped_steps");
    state->seed = (uint64_t)count(args, "seed");
    state->vocab_size = count(tx_py_get(root, "universal_checkpoint_info"), "original_vocab_size");
}

int64_t tx__vocabulary_of(const tx_py *root)
{
    int64_t real = count(tx_py_get(root, "universal_checkpoint_info"), "original_vocab_size");
    return real ? real : count(tx_py_get(root, "args"), "padded_vocab_size");
}

/* Keys of the scheduler in the versions' spellings, as native checkpoints have them; what none of the places has is a
 * schedule that does not know the thing. */
static json_t *schedule_of(const tx_py *scheduler, const tx_py *args)
{
    static const struct {
        const char *key, *older, *of_args, *word; /* word: of a style that is not there */
    } field[] = {
        { "max_lr", "start_lr", "lr", NULL },
        { "min_lr", NULL, "min_lr", NULL },
        { "init_lr", NULL, "lr_warmup_init", NULL },
        { "lr_warmup_steps", "warmup_steps", NULL, NULL },
        { "lr_warmup_tokens", "warmup_tokens", NULL, NULL },
        { "lr_decay_steps", "decay_steps", NULL, NULL },
        { "lr_decay_tokens", "decay_tokens", NULL, NULL },
        { "lr_decay_style", "decay_style", "lr_decay_style", "linear" },
        { "wsd_decay_steps", NULL, NULL, NULL },
        { "lr_wsd_decay_style", NULL, "lr_wsd_decay_style", "exponential" },
        { "start_wd", NULL, "weight_decay", NULL },
        { "end_wd", NULL, "weight_decay", NULL },
        { "wd_incr_steps", NULL, NULL, NULL },
        { "wd_incr_style", NULL, NULL, "constant" },
    };
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        const tx_py *v = tx_py_get(scheduler, field[i].key);
        double number = 0;
        if (!v && field[i].older) v = tx_py_get(scheduler, field[i].older);
        if (!v && field[i].of_args) v = tx_py_get(args, field[i].of_args);
        tx_py_float(v, &number);
        const char *word = tx_py_str(v) ? tx_py_str(v) : field[i].word;
        if (json_object_set_new(o, field[i].key, field[i].word ? json_string(word) : json_real(number))) break;
    }
    return o;
}

/* Megatron's {scale, growth_tracker, hysteresis_tracker}, or the attributes of DeepSpeed's DynamicLossScaler. */
static json_t *scaler_of(const tx_py *scaler)
{
    double scale;
    int64_t growth = 0, hysteresis = 0;
    if (tx_py_float(tx_py_get(scaler, "scale"), &scale)) {
        tx_py_int(tx_py_get(scaler, "growth_tracker"), &growth);
        tx_py_int(tx_py_get(scaler, "hysteresis_tracker"), &hysteresis);
    } else if (tx_py_float(tx_py_get(scaler, "cur_scale"), &scale)) {
        int64_t now = 0, overflow = -1, window = 1000;
        tx_py_int(tx_py_get(scaler, "cur_iter"), &now);
        tx_py_int(tx_py_get(scaler, "last_overflow_iter"), &overflow);
        tx_py_int(tx_py_get(scaler, "scale_window"), &window);
        tx_py_int(tx_py_get(scaler, "cur_hysteresis"), &hysteresis);
        growth = window > 0 && now > overflow ? (now - overflow - 1) % window : 0;
    } else {
        return NULL;
    }
    return json_pack("{s:f, s:I, s:I}", "scale", scale, "growth_tracker", (json_int_t)growth, "hysteresis_tracker",
                     (json_int_t)hysteresis);
}

const char *const tx__run_keys[] = { "log_sums", "blend_phase", "gpu_products", "client_state", "lr_scheduler", NULL };

/* Of args that a run of triax has written. */
static int add_run_keys(json_t *o, const tx_py *args)
{
    int bad = 0;
    for (const char *const *key = tx__run_keys; *key; key++) {
        const tx_py *v = tx_py_get(args, *key);
        if (v) bad |= json_object_set_new(o, *key, tx_py_to_json(v));
    }
    return bad;
}

/* DeepSpeed's own schedules keep where they stand, and nothing else. */
static int add_schedules(json_t *o, const tx_py *scheduler, const tx_py *args)
{
    const tx_py *last = tx_py_get(scheduler, "last_batch_iteration");
    int bad = 0;
    bool there = scheduler && scheduler->kind != TX_PY_NONE; /* an engine without one saves None */
    if (there && (!last || tx_py_get(scheduler, "max_lr")))
        bad |= json_object_set_new(o, "opt_param_scheduler", schedule_of(scheduler, args));
    if (last && !json_object_get(o, "lr_scheduler"))
        bad |= json_object_set_new(o, "lr_scheduler", tx_py_to_json(scheduler));
    return bad;
}

tx_status tx__run_of(const tx_py *scheduler, const tx_py *args, const tx_py *scaler, json_t **out)
{
    const tx_py *own = tx_py_get(args, "grad_scaler"); /* a run of triax has it all, DeepSpeed's FP16_Optimizer less */
    json_t *o = json_object(), *scale = own ? tx_py_to_json(own) : scaler_of(scaler);
    int bad = scale ? json_object_set_new(o, "grad_scaler", scale) : 0;
    bad |= add_run_keys(o, args);
    bad |= add_schedules(o, scheduler, args);
    if (!o || bad) {
        json_decref(o);
        return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a checkpoint's state");
    }
    *out = o;
    return TX_OK;
}
