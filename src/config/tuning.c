/* tuning.c - settings of the autotuner, from the section "autotuning". */
#include "config/tuning.h"

#include <stdio.h>
#include <string.h>

#include "config/option_table.h"
#include "config/relaxed_json.h"

static bool set_count(int64_t *member, const json_t *value, double lo, double hi, char takes[160])
{
    double n = json_number_value(value);
    snprintf(takes, 160, "a whole number from %.0f to %.0f", lo, hi);
    if (!json_is_number(value) || n < lo || n > hi || n != (double)(int64_t)n) return false;
    *member = (int64_t)n;
    return true;
}

static bool set_switch(bool *member, const json_t *value, char takes[160])
{
    snprintf(takes, 160, "true or false");
    *member = json_is_true(value);
    return json_is_boolean(value);
}

static bool set_text(const char **member, const json_t *value, const char *words, char takes[160])
{
    const char *text = json_string_value(value);
    snprintf(takes, 160, "%s%s", *words ? "one of " : "a name that is not empty", words);
    if (!text || !*text || (*words && !tx__word_in(words, text))) return false;
    *member = text;
    return true;
}

bool tx__tuning_set(tx_tuning *t, const char *name, const json_t *value, char takes[160])
{
#define TAKE_TEXT(member, lo, hi, words)   set_text(&t->member, value, words, takes)
#define TAKE_WORD(member, lo, hi, words)   set_text(&t->member, value, words, takes)
#define TAKE_COUNT(member, lo, hi, words)  set_count(&t->member, value, lo, hi, takes)
#define TAKE_SWITCH(member, lo, hi, words) set_switch(&t->member, value, takes)
#define TUNING(member, type, otherwise, lo, hi, words, text) \
    if (!strcmp(name, #member)) return TAKE_##type(member, lo, hi, words);
#include "config/deepspeed_keys.def"
    TX_ASSERT(false && "a setting of the table");
    return false;
}

/* null and "auto": left out. */
static bool is_left_out(const json_t *value)
{
    return !value || json_is_null(value) || (json_is_string(value) && !strcmp(json_string_value(value), "auto"));
}

/* What follows from words. */
static tx_status settle(tx_tuning *t, const char *path)
{
    t->grid = !strcmp(t->tuner_type, "gridsearch");
    t->latency = !strcmp(t->metric, "latency");
    if (t->start_profile_step > t->end_profile_step)
        return TX_FAIL(TX_ERR_ARG,
                       "%s: autotuning.start_profile_step %lld is beyond end_profile_step %lld: no iteration would be "
                       "measured",
                       path, (long long)t->start_profile_step, (long long)t->end_profile_step);
    if (t->min_train_micro_batch_size_per_gpu > t->max_train_micro_batch_size_per_gpu)
        return TX_FAIL(
            TX_ERR_ARG, "%s: autotuning.min_train_micro_batch_size_per_gpu %lld is more than the largest, %lld", path,
            (long long)t->min_train_micro_batch_size_per_gpu, (long long)t->max_train_micro_batch_size_per_gpu);
    return TX_OK;
}

tx_status tx_tuning_read(tx_tuning *out, const char *path)
{
    tx_str text = { 0 };
    json_t *section, *value;
    const char *name;
    char takes[160];
    *out = (tx_tuning){
#define TUNING(name, type, otherwise, ...) .name = otherwise,
#include "config/deepspeed_keys.def"
    };
    if (!path) return TX_OK;
    tx_status st = tx__relaxed_json_read(path, &text, &out->file);
    tx_str_free(&text);
    if (st) return st;
    value = json_object_get(out->file, "train_batch_size");
    out->any_batch = value && is_left_out(value);
    section = json_object_get(out->file, "autotuning");
    json_object_foreach(section, name, value)
    {
        if (is_left_out(value)) continue;
#define TUNING(member, ...)                                                 \
    if (!strcmp(name, #member) && !tx__tuning_set(out, name, value, takes)) \
        return TX_FAIL(TX_ERR_ARG, "%s: autotuning.%s takes %s", path, name, takes);
#include "config/deepspeed_keys.def"
    }
    return settle(out, path);
}

void tx_tuning_free(tx_tuning *t)
{
    json_decref(t->file);
    *t = (tx_tuning){ 0 };
}
