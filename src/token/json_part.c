/* json_part.c - values of a tokenizer.json, with errors that name their places. */
#include "token/json_part.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

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

tx_status tx__json_text(tx__json_str *out, json_t *object, const char *key, const char *missing, const char *file,
                        const char *place)
{
    json_t *value = json_object_get(object, key);
    if ((!value || json_is_null(value)) && missing) {
        *out = (tx__json_str){ missing, strlen(missing) };
        return TX_OK;
    }
    if (!json_is_string(value))
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.%s is %s, not a string", file, place, key,
                       value ? tx__json_show(value).text : "missing");
    *out = (tx__json_str){ json_string_value(value), json_string_length(value) };
    return TX_OK;
}

tx_status tx__json_char(tx__json_str *out, json_t *object, const char *key, const char *missing, const char *file,
                        const char *place)
{
    uint32_t c;
    TX_TRY(tx__json_text(out, object, key, missing, file, place));
    if (!out->n || tx__utf8_next((const unsigned char *)out->text, out->n, &c) != out->n)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.%s is %s, not one character", file, place, key,
                       tx__json_show(json_object_get(object, key)).text);
    return TX_OK;
}

/* ---- steps: one, or a Sequence of them ---- */

tx_status tx__part_unknown(const tx__part *p, json_t *step, const char *place)
{
    json_t *type = json_object_get(step, "type");
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s.type is %s; triax reads %s", p->file, place,
                   type ? tx__json_show(type).text : "missing", p->known);
}

static tx_status read_step(tx__part *p, json_t *step, const char *place, int depth)
{
    char inner[128];
    json_t *type = json_object_get(step, "type"), *list = json_object_get(step, p->list);
    if (!json_is_object(step))
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s is %s, not an object", p->file, place, tx__json_show(step).text);
    if (!json_is_string(type)) return tx__part_unknown(p, step, place);
    if (strcmp(json_string_value(type), "Sequence") != 0) return p->step(p, step, json_string_value(type), place);
    if (!json_is_array(list) || depth > 2)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s is a Sequence without %s, or nested too deeply", p->file, place, p->list);
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", p->list, NULL }));
    for (size_t i = 0; i < json_array_size(list); i++) {
        snprintf(inner, sizeof inner, "%.60s.%s[%zu]", place, p->list, i);
        TX_TRY(read_step(p, json_array_get(list, i), inner, depth + 1));
    }
    return TX_OK;
}

tx_status tx__part_read(tx__part *p, json_t *root)
{
    json_t *value = json_object_get(root, p->name);
    return value && !json_is_null(value) ? read_step(p, value, p->name, 0) : TX_OK;
}
