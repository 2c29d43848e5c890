/* pipeline.c - reads the parts of a tokenizer.json around its model. */
#include "token/pipeline.h"

#include <string.h>

#include "token/split_pattern.h"

/* ---- values ---- */

tx__shown tx__json_show(json_t *value)
{
    tx__shown s = { { 0 } };
    if (json_is_string(value)) {
        s.text[0] = '"';
        tx__shown inner = tx__show(json_string_value(value), json_string_length(value));
        snprintf(s.text + 1, sizeof s.text - 1, "%.64s\"", inner.text);
    } else if (json_is_number(value)) {
        snprintf(s.text, sizeof s.text, "%g", json_number_value(value));
    } else {
        snprintf(s.text, sizeof s.text, "%s",
                 json_is_object(value)  ? "{...}"
                 : json_is_array(value) ? "[...]"
                 : json_is_true(value)  ? "true"
                 : json_is_false(value) ? "false"
                                        : "null");
    }
    return s;
}

tx_status tx__json_only(json_t *object, const char *file, const char *place, const char *const *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0) i++;
        if (!keys[i])
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s has the key \"%s\", which triax does not know", file, place,
                           tx__show(key, strlen(key)).text);
    }
    return TX_OK;
}

tx_status tx__json_bool(bool *out, json_t *object, const char *key, int missing, const char *file, const char *place)
{
    json_t *value = json_object_get(object, key);
    if (!value && missing >= 0) {
        *out = missing;
        return TX_OK;
    }
    if (!json_is_boolean(value))
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.%s is %s, not true or false", file, place, key,
                       value ? tx__json_show(value).text : "missing");
    *out = json_is_true(value);
    return TX_OK;
}

/* ---- steps: one, or a Sequence of them ---- */

typedef struct part {
    tx__pipeline *to;
    const char *file, *name; /* name: of the key at the top */
    const char *list;        /* the key of a Sequence's steps */
    tx_status (*step)(struct part *p, json_t *step, const char *type, const char *place);
    const char *known; /* types, for the message */
    bool last;         /* no step may follow */
} part;

static tx_status unknown_type(const part *p, json_t *type, const char *place)
{
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s.type is %s; triax reads %s", p->file, place,
                   type ? tx__json_show(type).text : "missing", p->known);
}

static tx_status read_part(part *p, json_t *step, const char *place, int depth)
{
    char inner[128];
    json_t *type = json_object_get(step, "type"), *list = json_object_get(step, p->list);
    if (!json_is_object(step))
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s is %s, not an object", p->file, place, tx__json_show(step).text);
    if (!json_is_string(type)) return unknown_type(p, type, place);
    if (strcmp(json_string_value(type), "Sequence") != 0) {
        if (p->last)
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s comes after ByteLevel, which must be last", p->file, place);
        return p->step(p, step, json_string_value(type), place);
    }
    if (!json_is_array(list) || depth > 2)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s is a Sequence without %s, or nested too deeply", p->file, place, p->list);
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", p->list, NULL }));
    for (size_t i = 0; i < json_array_size(list); i++) {
        snprintf(inner, sizeof inner, "%.60s.%s[%zu]", place, p->list, i);
        TX_TRY(read_part(p, json_array_get(list, i), inner, depth + 1));
    }
    return TX_OK;
}

static tx_status too_many(const part *p, const char *place)
{
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s: there are more than %d steps", p->file, place, TX__MAX_STEPS);
}

/* ---- normalizer ---- */

static tx_status normalizer_step(part *p, json_t *step, const char *type, const char *place)
{
    static const char *const forms[] = {
        [TX__NFC] = "NFC", [TX__NFD] = "NFD", [TX__NFKC] = "NFKC", [TX__NFKD] = "NFKD"
    };
    size_t i = 0;
    while (i < 4 && strcmp(type, forms[i]) != 0) i++;
    if (i == 4) return unknown_type(p, json_object_get(step, "type"), place);
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", NULL }));
    if (p->to->n_forms == TX__MAX_STEPS) return too_many(p, place);
    p->to->form[p->to->n_forms++] = (tx__normal_form)i;
    return TX_OK;
}

/* ---- pre_tokenizer ---- */

static tx_status add_cut(part *p, tx__split_fn *cut, const char *place)
{
    if (p->to->n_cuts == TX__MAX_STEPS) return too_many(p, place);
    p->to->cut[p->to->n_cuts++] = cut;
    return TX_OK;
}

static tx_status unknown_pattern(const part *p, const char *place, const char *regex)
{
    tx_str known = { 0 };
    tx_status st = TX_OK;
    for (const tx__split_pattern *q = tx__split_patterns; q->regex; q++)
        if (q->name) TX_GOTO(tx_str_printf(&known, "%s%s", known.len ? ", " : "", q->name));
    st = TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s.pattern is \"%s\", which triax does not know; it knows those of %s",
                 p->file, place, tx__show(regex, strlen(regex)).text, known.data);
out:
    tx_str_free(&known);
    return st;
}

/* Isolated makes pieces of matches and of what lies between; where nothing does, so does Removed with invert. */
static tx_status split_step(part *p, json_t *step, const char *place)
{
    bool invert;
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    json_t *pattern = json_object_get(step, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", "pattern", "behavior", "invert", NULL }));
    TX_TRY(tx__json_bool(&invert, step, "invert", false, p->file, place));
    if (!regex || json_object_size(pattern) != 1)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s.pattern is not {\"Regex\": \"...\"}", p->file, place);
    const tx__split_pattern *known = tx__split_pattern_find(regex);
    if (!known) return unknown_pattern(p, place, regex);
    bool isolated = behavior && !strcmp(behavior, "Isolated");
    bool removed = behavior && !strcmp(behavior, "Removed") && invert && known->everywhere;
    if (!isolated && !removed)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s.behavior is %s; triax cuts Isolated", p->file, place,
                       tx__json_show(json_object_get(step, "behavior")).text);
    return add_cut(p, known->split, place);
}

static tx_status byte_level_step(part *p, json_t *step, const char *place)
{
    static const char *const keys[] = { "type", "add_prefix_space", "trim_offsets", "use_regex", NULL };
    bool use_regex;
    TX_TRY(tx__json_only(step, p->file, place, keys));
    TX_TRY(tx__json_bool(&p->to->prefix_space, step, "add_prefix_space", -1, p->file, place));
    TX_TRY(tx__json_bool(&use_regex, step, "use_regex", true, p->file, place));
    p->last = true;
    if (use_regex) return add_cut(p, tx__split_patterns[0].split, place);
    return p->to->prefix_space || !p->to->n_cuts ? add_cut(p, tx__split_nothing, place) : TX_OK;
}

static tx_status pre_tokenizer_step(part *p, json_t *step, const char *type, const char *place)
{
    if (!strcmp(type, "ByteLevel")) return byte_level_step(p, step, place);
    if (!strcmp(type, "Split")) return split_step(p, step, place);
    if (strcmp(type, "Digits") != 0) return unknown_type(p, json_object_get(step, "type"), place);
    bool each;
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", "individual_digits", NULL }));
    TX_TRY(tx__json_bool(&each, step, "individual_digits", -1, p->file, place));
    return add_cut(p, each ? tx__split_digits : tx__split_digit_runs, place);
}

/* ---- post_processor, decoder ---- */

static tx_status ends_add(part *p, tx__ends *to, json_t *id, const char *place)
{
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value > INT32_MAX || to->n == TX__MAX_ENDS)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s has no id for one of its tokens, or more than %d tokens", p->file, place,
                       TX__MAX_ENDS);
    to->id[to->n++] = (int32_t)value;
    return TX_OK;
}

/* "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], and the ids of "<s>" in "special_tokens". */
static tx_status template_ends(part *p, json_t *step, const char *place)
{
    json_t *single = json_object_get(step, "single"), *special = json_object_get(step, "special_tokens");
    size_t texts = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        json_t *piece = json_array_get(single, i), *token = json_object_get(piece, "SpecialToken");
        const char *name = json_string_value(json_object_get(token, "id"));
        json_t *ids = name ? json_object_get(json_object_get(special, name), "ids") : NULL;
        if (json_object_get(piece, "Sequence"))
            texts++;
        else if (!ids)
            return TX_FAIL(TX_ERR_FORMAT, "%s: %s.single[%zu] is neither the text nor one of its special_tokens",
                           p->file, place, i);
        for (size_t k = 0; k < json_array_size(ids); k++)
            TX_TRY(ends_add(p, texts ? &p->to->after : &p->to->before, json_array_get(ids, k), place));
    }
    if (texts != 1)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: %s.single has the text %zu times; triax reads templates that have it once", p->file, place,
                       texts);
    return TX_OK;
}

/* What Hugging Face's encode(text), and so Megatron, puts at the ends of a text. */
static tx_status post_processor_step(part *p, json_t *step, const char *type, const char *place)
{
    tx__pipeline *to = p->to;
    if (!strcmp(type, "ByteLevel")) return TX_OK; /* moves offsets */
    bool template = !strcmp(type, "TemplateProcessing");
    if (!template && strcmp(type, "BertProcessing") != 0 && strcmp(type, "RobertaProcessing") != 0)
        return unknown_type(p, json_object_get(step, "type"), place);
    if (to->before.n || to->after.n) /* a second one would treat the first one's tokens as texts */
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s is a second step that adds tokens; triax reads one", p->file, place);
    if (template) return template_ends(p, step, place);
    TX_TRY(ends_add(p, &to->before, json_array_get(json_object_get(step, "cls"), 1), place)); /* "cls": ["<s>", 0] */
    return ends_add(p, &to->after, json_array_get(json_object_get(step, "sep"), 1), place);
}

static tx_status decoder_step(part *p, json_t *step, const char *type, const char *place)
{
    if (strcmp(type, "ByteLevel") != 0) return unknown_type(p, json_object_get(step, "type"), place);
    p->last = true;
    return TX_OK;
}

tx_status tx__pipeline_read(tx__pipeline *out, json_t *root, const char *file)
{
    part parts[] = {
        { out, file, "normalizer", "normalizers", normalizer_step, "NFC, NFD, NFKC, NFKD and a Sequence of them",
          false },
        { out, file, "pre_tokenizer", "pretokenizers", pre_tokenizer_step,
          "ByteLevel, Split, Digits and a Sequence of them", false },
        { out, file, "post_processor", "processors", post_processor_step,
          "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing and a Sequence of them", false },
        { out, file, "decoder", "decoders", decoder_step, "ByteLevel", false },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        part *p = &parts[i];
        json_t *value = json_object_get(root, p->name);
        bool given = value && !json_is_null(value);
        bool needed = p->step == pre_tokenizer_step || (p->step == decoder_step && given);
        if (given) TX_TRY(read_part(p, value, p->name, 0));
        if (needed && !p->last)
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s has no ByteLevel: triax reads byte-level BPE", file, p->name);
    }
    return TX_OK;
}
