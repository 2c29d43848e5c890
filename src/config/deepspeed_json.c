/* deepspeed_json.c - walks DeepSpeed's JSON and does with each key what its row in deepspeed_keys.def demands. All that
 * is wrong is told, with its place; the walk goes on. */
#include "config/deepspeed_json.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "config/deepspeed_optimizers.h"
#include "config/deepspeed_sampling.h"
#include "config/deepspeed_values.h"
#include "config/tuning.h"

/* ---------------------------------------------------------------- the table */

typedef enum row_kind {
    OPTION_ROW,
    YIELDS_ROW,
    SCHEDULE_ROW,
    CONVERT_ROW,
    UNUSED_ROW,
    ONLY_ROW,
    REFUSED_ROW,
    SECTION_ROW,
    OFF_ROW,
    TUNING_ROW
} row_kind;

typedef struct reading reading;

typedef struct key_row {
    row_kind kind;
    const char *path;
    const char *flag; /* OPTION, YIELDS, SCHEDULE */
    tx__ds_type type; /* CONVERT, UNUSED */
    tx_status (*convert)(reading *r, const json_t *value);
    const char *words; /* ONLY: values; SECTION, OFF: members */
    const char *text;
} key_row;

#define CONVERT(path, type, fn, text) static tx_status convert_##fn(reading *r, const json_t *value);
#include "config/deepspeed_keys.def"

static const key_row rows[] = {
#define OPTION(p, f)           { .kind = OPTION_ROW, .path = p, .flag = f },
#define YIELDS(p, f)           { .kind = YIELDS_ROW, .path = p, .flag = f },
#define SCHEDULE(p, f)         { .kind = SCHEDULE_ROW, .path = p, .flag = f },
#define CONVERT(p, t, fn, txt) { .kind = CONVERT_ROW, .path = p, .type = T_##t, .convert = convert_##fn, .text = txt },
#define UNUSED(p, t, txt)      { .kind = UNUSED_ROW, .path = p, .type = T_##t, .text = txt },
#define ONLY(p, w, txt)        { .kind = ONLY_ROW, .path = p, .type = T_ANY, .words = w, .text = txt },
#define REFUSED(p, txt)        { .kind = REFUSED_ROW, .path = p, .type = T_ANY, .text = txt },
#define SECTION(p, w, txt)     { .kind = SECTION_ROW, .path = p, .type = T_OBJECT, .words = w, .text = txt },
#define OFF(p, w, txt)         { .kind = OFF_ROW, .path = p, .type = T_OBJECT, .words = w, .text = txt },
#define TUNING(name, ...)      { .kind = TUNING_ROW, .path = "autotuning." #name, .type = T_ANY },
#include "config/deepspeed_keys.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const key_row *row_find(const char *path)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (!strcmp(rows[i].path, path)) return &rows[i];
    return NULL;
}

/* `path` behind "above.", or NULL. */
static const char *below(const char *path, const char *above)
{
    size_t n = strlen(above);
    return !strncmp(path, above, n) && path[n] == '.' ? path + n + 1 : NULL;
}

/* Whether keys of the table lie below this one. */
static bool is_on_the_way(const char *path)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (below(rows[i].path, path)) return true;
    return false;
}

/* The section whose member this is, NULL: none's. */
static const key_row *section_of(const char *path)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if ((rows[i].kind == SECTION_ROW || rows[i].kind == OFF_ROW) && below(path, rows[i].path)) return &rows[i];
    return NULL;
}

/* ---------------------------------------------------------------- one reading of a file */

struct reading {
    tx__deepspeed *d;
    tx_config *cfg, *scratch; /* scratch: where a value goes first, to be compared */
    const char *const *typed;
    tx_config_given *bad;
    tx_violations *found;
    const char *file;
    const char *key; /* the one at hand, as the table has it, and where it stands */
    tx__json_place at;
    const tx__ds_optimizer *optimizer; /* of optimizer.type; NULL: left out, or one that is refused */
    bool foreign_optimizer;            /* of a type that is refused: its parameters are none of ours */
    bool adam_w;
    tx__json_place optimizer_at;
    bool fp16; /* by the file or a flag; else the other keys of that section say nothing */
    bool has_scale_power, has_scale_key, has_grad_dtype;
    tx__json_place fp16_at;
    enum tx_curriculum_kind curriculum; /* of curriculum_learning.schedule_type */
    bool has_curriculum_type;           /* there is one, whichever it is */
    bool grows;                         /* curriculum_learning is enabled; else its other keys say nothing */
    bool drops, fades; /* likewise, data_efficiency.data_routing.random_ltd and progressive_layer_drop */
    bool efficient;    /* likewise, data_efficiency as a whole, for data_sampling */
    int64_t accumulation, data_parallel; /* 0: left out */
    tx__json_place accumulation_at, data_parallel_at;
    struct monitor {
        bool enabled;
        const char *path, *job; /* of the JSON */
        tx__json_place at;
    } tensorboard, csv;
};

static void wrong(const reading *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void wrong(const reading *r, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tx__violate(r->found, "%s: line %d, column %d: %s", tx__deepspeed_file_end(r->file), r->at.line, r->at.column,
                text);
}

static tx_status note(const reading *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static tx_status note(const reading *r, const char *fmt, ...)
{
    char text[400], shown[800];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tx_str_printf(&r->d->notes, "%s: line %d: %s\n", tx__deepspeed_file_end(r->file), r->at.line,
                         tx_printable(shown, sizeof shown, text));
}

/* ---------------------------------------------------------------- types */

static bool checked(const reading *r, const json_t *value, tx__ds_type type)
{
    static const char *const takes[] = { "true or false", "a number", "a string", "a list", "an object { ... }", "" };
    char text[48];
    if (tx__ds_fits(value, type)) return true;
    wrong(r, "%.100s is %s, %s; it takes %s", r->key, tx_json_shown(text, value), tx__ds_is(value), takes[type]);
    return false;
}

static tx__ds_type type_of_option(const tx_option *o)
{
    if (o->kind == TX_OPTION_FLAG || o->kind == TX_OPTION_FLAG_OFF) return T_BOOL;
    return o->kind == TX_OPTION_I64 || o->kind == TX_OPTION_F64 ? T_NUMBER : T_STRING;
}

/* A whole number of at least 1; 0 and a violation if it is none. */
static int64_t counted(const reading *r, const json_t *value)
{
    char buf[40];
    int64_t n;
    if (tx__integer_parse(tx__ds_text(buf, value), &n) && n >= 1 && n <= 1000000000) return n;
    wrong(r, "%s is %s; it takes a whole number from 1 to 1e9", r->key, buf);
    return 0;
}

/* ---------------------------------------------------------------- into an option */

static const tx_option *option_of(const reading *r, const char *flag)
{
    const tx_option *o = tx__option_find(r->cfg->command, flag, strlen(flag), NULL);
    TX_ASSERT(o && tx__has_member(o)); /* the commands that take the file take all of its options */
    return o;
}

static bool is_switch(const tx_option *o)
{
    return type_of_option(o) == T_BOOL;
}

/* --no-x given or left out, and the flag --x that says what is so anyway. */
static const char *typed_affirmation(const reading *r, const tx_option *o)
{
    if (o->kind != TX_OPTION_FLAG_OFF || strncmp(o->flag, "no-", 3) != 0) return NULL;
    const tx_option *yes = tx__option_find(r->cfg->command, o->flag + 3, strlen(o->flag + 3), NULL);
    return yes ? r->typed[yes - tx__options] : NULL;
}

/* "--zero-stage 2", "--fp16" */
static tx_status flag_text(tx_str *out, const reading *r, const tx_option *o)
{
    const char *typed = r->typed[o - tx__options];
    TX_TRY(tx_str_printf(out, "--%s", typed ? typed : o->flag));
    if (is_switch(o)) return TX_OK;
    TX_TRY(tx_str_puts(out, " "));
    return tx__option_format(out, r->cfg, o);
}

/* An error, and rules do not look at the option; or the flag counts. */
static tx_status differs_from_flag(reading *r, const tx_option *o, const char *value, bool yields)
{
    tx_str flag = { 0 };
    tx_status st = flag_text(&flag, r, o);
    if (!st && yields)
        st = note(r, "%s %.60s: %.120s is given and counts", r->key, value, flag.data);
    else if (!st)
        wrong(r, "%s is %.60s, but %.120s is given: the two say the same thing, give them one value or leave one out",
              r->key, value, flag.data);
    *tx__given(r->bad, o) = !yields;
    tx_str_free(&flag);
    return st;
}

/* The value that is in scratch: taken, or compared with what is there from a flag or another key. */
static tx_status settle(reading *r, const tx_option *o, const char *value, bool yields)
{
    tx__origin *from = &r->d->from[o - tx__options];
    tx_str now = { 0 }, want = { 0 };
    tx_status st;
    TX_GOTO(tx__option_format(&now, r->cfg, o));
    TX_GOTO(tx__option_format(&want, r->scratch, o));
    bool same = !strcmp(now.data, want.data);
    const char *yes = !strcmp(want.data, "False") && !yields ? typed_affirmation(r, o) : NULL;
    if (yes) {
        wrong(r, "%s is false, but --%s is given: leave one out", r->key, yes);
    } else if (from->key) {
        if (!same)
            wrong(r, "%s is %.60s, but %s in line %d, which says the same thing, has another value", r->key, value,
                  from->key, from->at.line);
    } else if (tx__is_given(r->cfg, o)) {
        if (!same)
            st = differs_from_flag(r, o, value, yields);
        else
            *from = (tx__origin){ r->key, r->at };
    } else {
        TX_GOTO(tx__option_copy(r->cfg, r->scratch, o));
        *from = (tx__origin){ r->key, r->at };
        *tx__given(&r->cfg->given, o) = !is_switch(o) || (o->kind == TX_OPTION_FLAG) == !strcmp(want.data, "True");
    }
out:
    tx_str_free(&now);
    tx_str_free(&want);
    return st;
}

/* Texts for the option's parser, and what messages call them. */
static tx_status put_texts(reading *r, const tx_option *o, int n, const char *const *text, const char *shown,
                           bool yields)
{
    tx_status st = tx__option_set(r->scratch, o, n, text);
    if (!st) return settle(r, o, shown, yields);
    if (st != TX_ERR_ARG) return st;
    *tx__given(r->bad, o) = *tx__given(&r->cfg->given, o) = true;
    wrong(r, "%s: %s", r->key, tx_last_error());
    return TX_OK;
}

/* Text for the option's parser; for a switch "true" or "false". */
static tx_status put(reading *r, const char *flag, const char *text, bool yields)
{
    const tx_option *o = option_of(r, flag);
    if (*tx__given(r->bad, o)) return TX_OK; /* the flag could not be read, and that is said already */
    if (!is_switch(o)) return put_texts(r, o, 1, &text, text, yields);
    *(bool *)tx__member(r->scratch, o) = !strcmp(text, "true");
    return settle(r, o, text, yields);
}

/* ---------------------------------------------------------------- keys that need more than their value's text */

static tx_status convert_accumulation(reading *r, const json_t *value)
{
    r->accumulation = counted(r, value);
    r->accumulation_at = r->at;
    return TX_OK;
}

static tx_status convert_data_parallel(reading *r, const json_t *value)
{
    r->data_parallel = counted(r, value);
    r->data_parallel_at = r->at;
    return TX_OK;
}

/* Whose the parameters are: without a type those of the options' optimizer. */
static enum tx_optimizer_kind params_of(const reading *r)
{
    return r->optimizer ? r->optimizer->kind : r->cfg->optimizer;
}

/* Whether the optimizer that counts is another than the file's, so that a flag or a default is meant for that one. */
static bool optimizer_yields(const reading *r)
{
    return r->optimizer && r->cfg->given.optimizer && r->cfg->optimizer != r->optimizer->kind;
}

/* Whether a parameter is one of the type's; a violation if it is not. */
static bool is_param(const reading *r, const char *name)
{
    char takes[256];
    if (!r->optimizer || tx__ds_optimizer_takes(r->optimizer, name, takes)) return true;
    wrong(r, "optimizer.params.%.60s is no parameter of %s, which takes %s", name, r->optimizer->name, takes);
    return false;
}

static tx_status convert_optimizer(reading *r, const json_t *value)
{
    const char *name = json_string_value(value);
    r->optimizer_at = r->at;
    if (r->optimizer) return put(r, "optimizer", r->optimizer->word, true);
    *tx__given(r->bad, option_of(r, "optimizer")) = true; /* its parameters are no other's */
    char all[256];
    wrong(r, "optimizer.type %.60s: there are %s; with Megatron-DeepSpeed the section is not used, leave it out", name,
          tx__ds_optimizer_list(all, sizeof all));
    return TX_OK;
}

static tx_status convert_betas(reading *r, const json_t *value)
{
    const json_t *one = json_array_get(value, 0), *two = json_array_get(value, 1);
    char text[48], buf[40];
    if (json_array_size(value) != 2 || !json_is_number(one) || !json_is_number(two)) {
        wrong(r, "%s is %s; it takes two numbers, as in [0.9, 0.999]", r->key, tx_json_shown(text, value));
        return TX_OK;
    }
    const bool lion = params_of(r) == TX_OPTIMIZER_LION;
    TX_TRY(put(r, lion ? "lion-beta1" : "adam-beta1", tx__ds_text(buf, one), true));
    return put(r, lion ? "lion-beta2" : "adam-beta2", tx__ds_text(buf, two), true);
}

static tx_status convert_momentum(reading *r, const json_t *value)
{
    char buf[40];
    return put(r, params_of(r) == TX_OPTIMIZER_MUON ? "muon-momentum" : "sgd-momentum", tx__ds_text(buf, value), true);
}

static tx_status convert_eps(reading *r, const json_t *value)
{
    char buf[40];
    return put(r, params_of(r) == TX_OPTIMIZER_ADAGRAD ? "adagrad-eps" : "adam-eps", tx__ds_text(buf, value), true);
}

static tx_status convert_adam_w_mode(reading *r, const json_t *value)
{
    const bool decoupled = json_is_true(value);
    if (!decoupled && r->adam_w) {
        wrong(
            r,
            "optimizer.params.adam_w_mode is false, but optimizer.type is AdamW, whose weight decay is decoupled: the "
            "type is Adam, or leave it out");
        return TX_OK;
    }
    return put(r, "no-decoupled-weight-decay", decoupled ? "true" : "false", true);
}

/* DeepSpeed's classes that have it correct what the flag's default says. */
static tx_status convert_bias_correction(reading *r, const json_t *value)
{
    const bool lamb = params_of(r) == TX_OPTIMIZER_LAMB;
    if (tx_optimizer_traits(params_of(r)) & TX_OPTIMIZER_COMPRESSED) return TX_OK; /* their classes do not read it */
    if (lamb && !json_is_true(value)) return put(r, "lamb-bias-correction", "none", true);
    if (!lamb && !json_is_true(value))
        wrong(r, "%s is false, and only true is built: Adam corrects its moments", r->key);
    return TX_OK;
}

/* DeepSpeed's classes that send signs take it, and do not read it. */
static tx_status convert_eps_inside_sqrt(reading *r, const json_t *value)
{
    if (tx_optimizer_traits(params_of(r)) & TX_OPTIMIZER_COMPRESSED) return TX_OK;
    return put(r, "lamb-eps-inside-sqrt", json_is_true(value) ? "true" : "false", true);
}

/* 0 is DeepSpeed's word for what a flag that is left out says here. */
static tx_status convert_loss_scale(reading *r, const json_t *value)
{
    char buf[40];
    return json_number_value(value) != 0 ? put(r, "loss-scale", tx__ds_text(buf, value), false) : TX_OK;
}

static tx_status convert_scale_power(reading *r, const json_t *value)
{
    char buf[40];
    double power = json_number_value(value);
    if (power != floor(power) || fabs(power) > 126) {
        wrong(r, "%s is %s; it takes a whole number up to 126", r->key, tx__ds_text(buf, value));
        return TX_OK;
    }
    r->has_scale_power = true;
    snprintf(buf, sizeof buf, "%.17g", exp2(power));
    return put(r, "initial-loss-scale", buf, false);
}

/* DeepSpeed's and PyTorch's names of the types that options have; NULL and a violation if it is none. */
static const char *type_word(const reading *r, const json_t *value)
{
    static const char *const spelling[] = { "fp32|float32|float|torch.float32", "bf16|bfloat16|torch.bfloat16",
                                            "fp16|float16|half|torch.float16" };
    static const char *const word[] = { "fp32", "bf16", "fp16" };
    char text[48];
    for (int i = 0; i < 3; i++)
        if (tx__word_in(spelling[i], json_string_value(value))) return word[i];
    wrong(r, "%s is %s; it takes fp32, bf16 or fp16", r->key, tx_json_shown(text, value));
    return NULL;
}

static tx_status convert_grad_dtype(reading *r, const json_t *value)
{
    const char *word = type_word(r, value);
    r->has_grad_dtype = true;
    return word ? put(r, "grad-dtype", word, false) : TX_OK;
}

static tx_status convert_reduce_dtype(reading *r, const json_t *value)
{
    char lower[48];
    const char *from = json_string_value(value);
    size_t n = 0;
    for (; from[n] && n < sizeof lower - 1; n++) lower[n] = (char)tolower((unsigned char)from[n]);
    lower[n] = 0;
    if (tx__word_in("fp32|bf16|fp16", lower)) return put(r, "grad-reduce-dtype", lower, false);
    char text[48];
    wrong(r, "%s is %s; it takes fp32, bf16 or fp16", r->key, tx_json_shown(text, value));
    return TX_OK;
}

/* Of early releases. */
static tx_status convert_fp32_allreduce(reading *r, const json_t *value)
{
    return json_is_true(value) ? put(r, "grad-reduce-dtype", "fp32", false) : TX_OK;
}

static tx_status convert_zero(reading *r, const json_t *value)
{
    TX_TRY(note(r, "zero_optimization: true and false are deprecated upstream; as an object it has a stage"));
    return put(r, "zero-stage", json_is_true(value) ? "1" : "0", false);
}

static tx_status convert_cpu_offload(reading *r, const json_t *value)
{
    TX_TRY(note(r, "Config parameter cpu_offload is deprecated use offload_optimizer"));
    return json_is_true(value) ? put(r, "offload-optimizer", "cpu", false) : TX_OK;
}

static tx_status convert_cpu_offload_param(reading *r, const json_t *value)
{
    TX_TRY(note(r, "Config parameter cpu_offload_param is deprecated use offload_param"));
    return json_is_true(value) ? put(r, "offload-param", "cpu", false) : TX_OK;
}

static tx_status convert_max_grad_norm(reading *r, const json_t *value)
{
    char buf[40];
    TX_TRY(note(r, "%s: gradient_clipping, as it is called today", r->key));
    return put(r, "clip-grad", tx__ds_text(buf, value), false);
}

/* 0 is DeepSpeed's word for a module whose matrices are not split by it. */
static tx_status convert_autotp(reading *r, const json_t *value)
{
    char buf[40];
    if (json_number_value(value) == 0) return TX_OK;
    return put(r, "tensor-model-parallel-size", tx__ds_text(buf, value), false);
}

static tx_status convert_breakdown(reading *r, const json_t *value)
{
    return json_is_true(value) ? put(r, "timing-log-level", "2", true) : TX_OK;
}

/* Which of the two the key is of. */
static struct monitor *monitor_of(reading *r)
{
    return below(r->key, "csv_monitor") ? &r->csv : &r->tensorboard;
}

static tx_status convert_monitor(reading *r, const json_t *value)
{
    monitor_of(r)->enabled = json_is_true(value);
    monitor_of(r)->at = r->at;
    return TX_OK;
}

static tx_status convert_monitor_path(reading *r, const json_t *value)
{
    monitor_of(r)->path = json_string_value(value);
    return TX_OK;
}

static tx_status convert_monitor_job(reading *r, const json_t *value)
{
    monitor_of(r)->job = json_string_value(value);
    return TX_OK;
}

static tx_status convert_curriculum(reading *r, const json_t *value)
{
    if (!json_is_true(value) || r->has_curriculum_type || r->cfg->given.curriculum_schedule) return TX_OK;
    *tx__given(r->bad, option_of(r, "curriculum-schedule")) = true; /* its parameters are no other's */
    wrong(r,
          "curriculum_learning is enabled and has no schedule_type: give fixed_linear, fixed_root or fixed_discrete");
    return TX_OK;
}

static tx_status convert_total_layers(reading *r, const json_t *value)
{
    long long n = counted(r, value), layers = r->cfg->num_layers;
    if (n && layers && n != layers)
        wrong(r, "%s is %lld, and the model has %lld layers (--num-layers)", r->key, n, layers);
    return TX_OK;
}

static tx_status convert_numbers(reading *r, const json_t *value)
{
    enum { MOST = 1000 };
    const tx_option *o = option_of(r, strstr(r->key, "_id")          ? "random-ltd-layer-id"
                                      : strstr(r->key, "difficulty") ? "curriculum-difficulty"
                                                                     : "curriculum-max-step");
    const char *text[MOST];
    char buf[MOST][40], shown[48];
    size_t n = json_array_size(value);
    for (size_t i = 0; i < n && i < MOST; i++) text[i] = tx__ds_text(buf[i], json_array_get(value, i));
    if (n && n <= MOST) return put_texts(r, o, (int)n, text, tx_json_shown(shown, value), false);
    wrong(r, "%s has %zu numbers; it takes 1 to %d", r->key, n, MOST);
    return TX_OK;
}

static tx_status convert_data_efficiency(reading *r, const json_t *value)
{
    (void)r, (void)value; /* what it says of the rest is r->efficient */
    return TX_OK;
}

static tx_status put_any(void *user, const char *flag, const char *const *text, int n)
{
    reading *r = user;
    return n == 1 ? put(r, flag, *text, false) : put_texts(r, option_of(r, flag), n, text, "a list", false);
}

static tx_status note_any(void *user, const char *text)
{
    const reading *r = user;
    return note(r, "%s.%s", r->key, text);
}

static tx_status convert_data_sampling(reading *r, const json_t *value)
{
    const tx__ds_sampling_to to = { put_any, note_any, r };
    tx_status st = tx__ds_sampling_read(value, r->efficient, &to);
    if (st != TX_ERR_ARG) return st;
    wrong(r, "%s.%s", r->key, tx_last_error());
    return TX_OK;
}

/* ---------------------------------------------------------------- one key */

static tx_status unknown(reading *r, const char *path)
{
    tx__ds_nearest n;
    tx__ds_nearest_begin(&n, path);
    tx_status st = TX_OK;
    for (size_t i = 0; i < N_ROWS && !st; i++) {
        bool section = rows[i].kind == SECTION_ROW || rows[i].kind == OFF_ROW;
        st = tx__ds_nearest_try(&n, rows[i].path, section ? rows[i].words : NULL);
    }
    if (!st && n.found.len)
        wrong(r, "unknown key \"%.100s\"; did you mean \"%s\"?", path, n.found.data);
    else if (!st)
        wrong(r, "unknown key \"%.100s\"; docs/deepspeed-keys.md lists the keys", path);
    tx_str_free(&n.found);
    return st;
}

/* A member of a section that is not used. */
static tx_status read_member(reading *r, const key_row *section, const char *path, const json_t *value)
{
    const char *name = below(path, section->path);
    if (strcmp(section->words, "*") != 0 && !tx__word_in(section->words, name)) return unknown(r, path);
    if (strcmp(name, "enabled") != 0 || tx__ds_is_auto(value)) return TX_OK;
    r->key = path;
    if (checked(r, value, T_BOOL) && json_is_true(value) && section->kind == OFF_ROW)
        wrong(r, "%s is not built: %s; give \"enabled\": false, or leave it out", section->path, section->text);
    return TX_OK;
}

static bool has_word(const char *words, const json_t *value)
{
    char buf[40];
    return tx__word_in(words, tx__ds_text(buf, value));
}

/* Scripts of 2020 gave their loader --batch-size, whatever the file said. */
static bool loads_batches(const reading *r)
{
    const char *typed = r->typed[option_of(r, "micro-batch-size") - tx__options];
    return typed && !strcmp(typed, "batch-size");
}

static tx_status read_option(reading *r, const key_row *row, const json_t *value)
{
    char buf[40];
    bool scales = below(row->path, "fp16") && strcmp(row->flag, "fp16") != 0;
    if (!checked(r, value, type_of_option(option_of(r, row->flag)))) return TX_OK;
    if (!strcmp(row->path, "fp16.enabled")) r->fp16_at = r->at;
    r->has_scale_key |= scales;
    if (scales && !r->fp16) return TX_OK;
    if (strstr(row->flag, "-batch-size") && loads_batches(r))
        return note(r, "%s %s: --batch-size is given and counts, as it did for the samples that scripts of 2020 loaded",
                    row->path, tx__ds_text(buf, value));
    return put(r, row->flag, tx__ds_text(buf, value), row->kind == YIELDS_ROW);
}

/* Megatron's own scheduler, which it gives to DeepSpeed, comes before the file's, unless that is asked for. */
static tx_status read_schedule(reading *r, const key_row *row, const json_t *value)
{
    if (r->cfg->command->id == TX_COMMAND_ENGINE || r->cfg->deepspeed_scheduler) return read_option(r, row, value);
    if (strcmp(row->path, "scheduler.type") != 0) return TX_OK;
    return note(r, "scheduler: accepted, without effect here: as with Megatron-DeepSpeed the learning rate is that of "
                   "--lr, --lr-warmup-iters, --lr-decay-style and their kin; --deepspeed-scheduler asks for it");
}

/* Of a section that is not enabled; or a parameter of another schedule, which DeepSpeed does not read either. */
static tx_status read_curriculum(reading *r, const key_row *row, bool *done)
{
    const char *key = below(row->path, "curriculum_learning"),
               *param = below(row->path, "curriculum_learning.schedule_config");
    bool drops = below(row->path, "data_efficiency.data_routing.random_ltd"),
         fades = below(row->path, "progressive_layer_drop");
    *done = ((key && !r->grows) || (drops && !r->drops) || (fades && !r->fades)) &&
            strcmp(tx__ds_last_part(row->path), "enabled") != 0;
    if (*done || !param || !r->curriculum || tx__word_in(tx__curriculum_takes(r->curriculum), param)) return TX_OK;
    *done = true;
    return note(r, "%s: accepted, without effect here: it is none of %s's", row->path,
                tx_curriculum_kind_word(r->curriculum));
}

static tx_status read_key(reading *r, const key_row *row, const json_t *value)
{
    char text[48], takes[160];
    tx_tuning unused; /* a run takes no notice of it */
    bool done;
    TX_TRY(read_curriculum(r, row, &done));
    if (done) return TX_OK;
    switch (row->kind) {
    case OPTION_ROW:
    case YIELDS_ROW:
        return read_option(r, row, value);
    case SCHEDULE_ROW:
        return read_schedule(r, row, value);
    case CONVERT_ROW:
        if (!checked(r, value, row->type) || (below(row->path, "fp16") && !r->fp16)) return TX_OK;
        return row->convert(r, value);
    case ONLY_ROW:
        if (has_word(row->words, value)) break;
        wrong(r, "%s is %s, and only %s is built: %s", row->path, tx_json_shown(text, value), row->words, row->text);
        return TX_OK;
    case REFUSED_ROW:
        if (json_is_object(value) && !json_object_size(value)) return TX_OK;
        wrong(r, "%s: %s", row->path, row->text);
        return TX_OK;
    case TUNING_ROW:
        if (!tx__tuning_set(&unused, tx__ds_last_part(row->path), value, takes))
            wrong(r, "%s is %s; it takes %s", row->path, tx_json_shown(text, value), takes);
        return TX_OK;
    default:
        if (!checked(r, value, row->type)) return TX_OK;
    }
    return note(r, "%s: accepted, without effect here: %s", row->path, row->text);
}

static tx_status read_any(void *user, const char *path, const char *name, tx__json_place at, const json_t *value,
                          bool *enter)
{
    reading *r = user;
    const key_row *row = row_find(path), *section = section_of(path);
    r->at = at;
    if (strchr(name, '.')) return unknown(r, path);
    bool way = is_on_the_way(path);
    if (section && !row && !way) return read_member(r, section, path, value);
    const char *param = below(path, "optimizer.params");
    if (!row && r->foreign_optimizer && param) return TX_OK;
    if (!row && !way) return unknown(r, path);
    r->key = row ? row->path : path;
    if (tx__ds_is_auto(value)) return TX_OK;
    if (row && param && !is_param(r, param)) return TX_OK;
    if (row && param && optimizer_yields(r) && tx__word_in(r->optimizer->params, param))
        return note(r, "%s: --optimizer %s is given and counts, which is not of this type", row->path,
                    tx_optimizer_kind_word(r->cfg->optimizer));
    if (way && json_is_object(value)) {
        *enter = true;
        return TX_OK;
    }
    if (!row) {
        (void)checked(r, value, T_OBJECT);
        return TX_OK;
    }
    *enter = row->kind == SECTION_ROW || row->kind == OFF_ROW;
    return read_key(r, row, value);
}

/* ---------------------------------------------------------------- what several keys say together */

/* Where the first key of the equation stands. */
static tx__json_place batch_place(const reading *r)
{
    const tx__origin *train = &r->d->from[option_of(r, "global-batch-size") - tx__options];
    const tx__origin *micro = &r->d->from[option_of(r, "micro-batch-size") - tx__options];
    return train->key ? train->at : micro->key ? micro->at : r->accumulation_at;
}

static void say_where(char text[160], const reading *r, tx__json_place at)
{
    snprintf(text, 160, "%s: line %d, column %d", tx__deepspeed_file_end(r->file), at.line, at.column);
}

/* How many data-parallel ranks there are, and so whether it can hold, is known when all options are. */
static void note_equation(reading *r)
{
    const tx_config *c = r->cfg;
    const tx_config_given *g = &c->given;
    const tx__origin *from = r->d->from;
    tx__json_place at = batch_place(r);
    tx__equation e = { .any = at.line && !r->bad->global_batch_size && !r->bad->micro_batch_size,
                       .given = { .train = g->global_batch_size ? c->global_batch_size : 0,
                                  .micro = g->micro_batch_size ? c->micro_batch_size : 0,
                                  .accumulation = r->accumulation },
                       .data_parallel = r->data_parallel,
                       .train_typed = !from[option_of(r, "global-batch-size") - tx__options].key,
                       .micro_typed = !from[option_of(r, "micro-batch-size") - tx__options].key };
    say_where(e.where, r, at);
    say_where(e.where_ranks, r, r->data_parallel_at);
    r->d->equation = e;
}

/* Of a precision of the file's the file alone says the scale: published scripts have a flag beside it that DeepSpeed
 * does not use. It begins at 2^16 where the file says something of a dynamic scale, but not this. */
static tx_status settle_loss_scale(reading *r)
{
    const tx_option *o = option_of(r, "loss-scale");
    const tx__origin *from = r->d->from, *fp16 = &from[option_of(r, "fp16") - tx__options],
                     *half = fp16->key ? fp16 : &from[option_of(r, "bf16") - tx__options];
    if (half->key && tx__is_given(r->cfg, o) && !*tx__given(r->bad, o) && !from[o - tx__options].key) {
        r->at = half->at;
        *tx__given(&r->cfg->given, o) = false;
        TX_TRY(note(r, "%s: --loss-scale %g is not used, as in DeepSpeed: %s", half->key, r->cfg->loss_scale,
                    half == fp16 ? "fp16.loss_scale is 0, a dynamic one" : "bf16 has none"));
    }
    bool left_out = r->fp16_at.line && r->has_scale_key && !r->has_scale_power;
    if (!left_out || !r->fp16 || r->cfg->given.loss_scale || r->cfg->given.initial_loss_scale) return TX_OK;
    r->key = "fp16.initial_scale_power";
    r->at = r->fp16_at;
    TX_TRY(note(r, "fp16.initial_scale_power is left out: the loss scale begins at 65536, as DeepSpeed's does"));
    return put(r, "initial-loss-scale", "65536", false);
}

/* DeepSpeed keeps gradients in fp16 where the model is. */
static tx_status settle_grad_dtype(reading *r)
{
    const tx_config_given *g = &r->cfg->given;
    if (!r->fp16 || r->has_grad_dtype || g->grad_dtype || g->accumulate_allreduce_grads_in_fp32) return TX_OK;
    r->key = "data_types.grad_accum_dtype";
    r->at = r->fp16_at.line ? r->fp16_at : (tx__json_place){ 1, 1 };
    TX_TRY(note(r, "data_types.grad_accum_dtype is left out: gradients are kept in fp16, as DeepSpeed's are; "
                   "--accumulate-allreduce-grads-in-fp32 keeps them in fp32"));
    return put(r, "grad-dtype", "fp16", false);
}

/* What DeepSpeed's and torch's classes have where the file leaves it out, and Megatron's flags have otherwise; without
 * a key of the file, what DeepSpeed's always have. Of a no- flag "false" is the flag. */
static tx_status settle_optimizer(reading *r)
{
    static const struct {
        enum tx_optimizer_kind kind;
        const char *key, *flag, *value;
    } all[] = { { TX_OPTIMIZER_LION, "optimizer.params.betas", "lion-beta1", "0.9" },
                { TX_OPTIMIZER_LION, "optimizer.params.betas", "lion-beta2", "0.99" },
                { TX_OPTIMIZER_SGD, "optimizer.params.momentum", "sgd-momentum", "0" },
                { TX_OPTIMIZER_MUON, "optimizer.params.momentum", "muon-momentum", "0.95" },
                { TX_OPTIMIZER_MUON, "optimizer.params.betas", "adam-beta2", "0.95" },
                { TX_OPTIMIZER_MUON, "optimizer.params.eps", "adam-eps", "1e-10" },
                { TX_OPTIMIZER_MUON, NULL, "muon-nesterov", "true" },
                { TX_OPTIMIZER_MUON, NULL, "muon-scale-mode", "shape_scaling" },
                { TX_OPTIMIZER_MUON, NULL, "muon-coefficient-type", "simple" },
                { TX_OPTIMIZER_MUON, NULL, "muon-no-split-qkv", "false" } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const tx_option *o = option_of(r, all[i].flag);
        if (!r->optimizer || r->optimizer->kind != all[i].kind || r->cfg->optimizer != all[i].kind) continue;
        if (r->d->from[o - tx__options].key || tx__is_given(r->cfg, o)) continue;
        r->key = all[i].key ? all[i].key : "optimizer.type";
        r->at = r->optimizer_at;
        bool given = is_switch(o);
        TX_TRY(note(r, "%s is %s: --%s%s%s, as that of DeepSpeed's %s is", r->key,
                    all[i].key ? "left out" : r->optimizer->name, all[i].flag, given ? "" : " is ",
                    given ? "" : all[i].value, r->optimizer->name));
        TX_TRY(put(r, all[i].flag, all[i].value, true));
    }
    return TX_OK;
}

/* output_path/job_name into a folder's option. */
static tx_status settle_monitor(reading *r, const struct monitor *m, const char *flag)
{
    const char *job = m->job ? m->job : "DeepSpeedJobName";
    bool here = !m->path || !*m->path;
    tx_str dir = { 0 };
    tx_status st = here ? tx_str_puts(&dir, job) : tx_str_printf(&dir, "%s/%s", m->path, job);
    if (!st) st = put(r, flag, dir.data, true);
    tx_str_free(&dir);
    return st;
}

static tx_status settle_tensorboard(reading *r)
{
    const struct monitor *m = &r->tensorboard;
    if (!m->enabled) return TX_OK;
    r->key = "tensorboard.enabled";
    r->at = m->at;
    if (m->path && *m->path) return settle_monitor(r, m, "tensorboard-dir");
    if (!r->cfg->given.tensorboard_dir)
        wrong(r, "tensorboard is enabled and has no output_path: give that, or --tensorboard-dir");
    return TX_OK;
}

static tx_status settle_csv(reading *r)
{
    if (!r->csv.enabled) return TX_OK;
    r->key = "csv_monitor.enabled";
    r->at = r->csv.at;
    return settle_monitor(r, &r->csv, "csv-monitor-dir");
}

/* ---------------------------------------------------------------- the whole */

static tx_status read_file(reading *r, const tx_str *text, const json_t *root)
{
    r->fp16 = r->cfg->fp16 || json_is_true(json_object_get(json_object_get(root, "fp16"), "enabled"));
    const char *type = json_string_value(json_object_get(json_object_get(root, "optimizer"), "type"));
    r->optimizer = type ? tx__ds_optimizer_of(type) : NULL;
    r->foreign_optimizer = type && !r->optimizer;
    r->adam_w = type && !strcasecmp(type, "AdamW");
    const json_t *grows = json_object_get(root, "curriculum_learning");
    const char *schedule = json_string_value(json_object_get(grows, "schedule_type"));
    r->grows = json_is_true(json_object_get(grows, "enabled"));
    const json_t *routing = json_object_get(json_object_get(root, "data_efficiency"), "data_routing");
    r->drops = r->cfg->random_ltd || json_is_true(json_object_get(json_object_get(routing, "random_ltd"), "enabled"));
    const json_t *fades = json_object_get(root, "progressive_layer_drop");
    r->fades = r->cfg->progressive_layer_drop || json_is_true(json_object_get(fades, "enabled"));
    r->efficient = json_is_true(json_object_get(json_object_get(root, "data_efficiency"), "enabled"));
    r->has_curriculum_type = schedule;
    r->curriculum = schedule ? tx_curriculum_kind_of(schedule) : (enum tx_curriculum_kind)0;
    TX_TRY(tx__relaxed_json_walk(text, root, read_any, r));
    TX_TRY(settle_loss_scale(r));
    TX_TRY(settle_grad_dtype(r));
    TX_TRY(settle_optimizer(r));
    TX_TRY(settle_tensorboard(r));
    TX_TRY(settle_csv(r));
    note_equation(r);
    return TX_OK;
}

tx_status tx__deepspeed_read(tx__deepspeed *d, tx_config *cfg, const char *const *typed, tx_config_given *bad,
                             tx_violations *found)
{
    reading r = { .d = d, .cfg = cfg, .typed = typed, .bad = bad, .found = found, .file = cfg->deepspeed_config };
    tx_str text = { 0 };
    json_t *root = NULL;
    tx_status st;
    TX_GOTO(tx_alloc(&d->from, tx__n_options, sizeof *d->from, "the options"));
    TX_GOTO(tx_config_new(&r.scratch, cfg->command->name));
    st = tx__relaxed_json_read(r.file, &text, &root);
    if (st && st != TX_ERR_NOMEM) {
        tx__violate(found, "--deepspeed_config %.400s", tx_last_error());
        st = TX_OK;
        goto out;
    }
    if (!st) st = read_file(&r, &text, root);
out:
    json_decref(root);
    tx_str_free(&text);
    tx_config_free(r.scratch);
    return st;
}

void tx__deepspeed_deinit(tx__deepspeed *d)
{
    tx_free(d->from);
    tx_str_free(&d->notes);
    *d = (tx__deepspeed){ 0 };
}
