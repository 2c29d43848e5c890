/* deepspeed_values.c - types and texts of JSON's values. */
#include "config/deepspeed_values.h"

#include <stdio.h>
#include <string.h>

bool tx__ds_is_auto(const json_t *value)
{
    return json_is_null(value) || (json_is_string(value) && !strcmp(json_string_value(value), "auto"));
}

bool tx__ds_fits(const json_t *value, tx__ds_type type)
{
    switch (type) {
    case T_BOOL:
        return json_is_boolean(value);
    case T_NUMBER:
        return json_is_number(value);
    case T_STRING:
        return json_is_string(value);
    case T_LIST:
        return json_is_array(value);
    case T_OBJECT:
        return json_is_object(value);
    default:
        return true;
    }
}

const char *tx__ds_is(const json_t *value)
{
    return json_is_boolean(value)  ? "a boolean"
           : json_is_number(value) ? "a number"
           : json_is_string(value) ? "a string"
           : json_is_array(value)  ? "a list"
                                   : "an object";
}

const char *tx__ds_text(char buf[40], const json_t *value)
{
    if (json_is_string(value)) return json_string_value(value);
    if (json_is_integer(value))
        snprintf(buf, 40, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(buf, 40, "%.17g", json_real_value(value));
    else
        snprintf(buf, 40, "%s", json_is_true(value) ? "true" : json_is_false(value) ? "false" : "");
    return buf;
}
