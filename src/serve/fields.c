/* fields.c - reads members of a JSON object and checks them against bounds. */
#include "serve/fields.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

tx_status tx__fields_parse(json_t **out, const char *body, size_t n)
{
    json_error_t error;
    *out = tx_json_load(body ? body : "", n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!*out)
        return TX_FAIL(TX_ERR_FORMAT, "the body is not JSON: line %d, column %d: %s", error.line, error.column,
                       error.text);
    if (json_is_object(*out)) return TX_OK;
    json_decref(*out);
    *out = NULL;
    return TX_FAIL(TX_ERR_FORMAT, "the body is JSON, but not an object");
}

tx_status tx__fields_known(const tx__fields *f, const char *const *known, size_t n)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)f->object, name, value)
    {
        size_t i = 0;
        while (i < n && strcmp(known[i], name)) i++;
        if (i == n) return TX_FAIL(TX_ERR_ARG, "%.60s is not a field that this server knows", name);
    }
    return TX_OK;
}

const json_t *tx__field(const tx__fields *f, const char *name)
{
    const json_t *v = json_object_get(f->object, name);
    return f->null_is_absent && json_is_null(v) ? NULL : v;
}

tx_status tx__field_int(const tx__fields *f, const char *name, int64_t lo, int64_t hi, const char *rule, int64_t *out)
{
    const json_t *v = tx__field(f, name);
    if (!v) return TX_OK;
    int64_t x = json_integer_value(v);
    if (json_is_integer(v) && x >= lo && x <= hi) {
        *out = x;
        return TX_OK;
    }
    if (rule) return TX_FAIL(TX_ERR_ARG, "%s", rule);
    return TX_FAIL(TX_ERR_ARG, "%s must be an integer from %lld to %lld", name, (long long)lo, (long long)hi);
}

tx_status tx__field_bool(const tx__fields *f, const char *name, bool *out)
{
    const json_t *v = tx__field(f, name);
    if (!v) return TX_OK;
    if (!json_is_boolean(v)) return TX_FAIL(TX_ERR_ARG, "%s must be true or false", name);
    *out = json_is_true(v);
    return TX_OK;
}

tx_status tx__field_number(const tx__fields *f, const char *name, tx__bounds bounds, const char *rule, double *out)
{
    const json_t *v = tx__field(f, name);
    if (!v) return TX_OK;
    double x = json_number_value(v);
    if (json_is_number(v) && isfinite(x) && (bounds.above ? x > bounds.lo : x >= bounds.lo) && x <= bounds.hi) {
        *out = x;
        return TX_OK;
    }
    if (rule) return TX_FAIL(TX_ERR_ARG, "%s", rule);
    return TX_FAIL(TX_ERR_ARG, "%s must be a number %s %g and at most %g", name, bounds.above ? "above" : "from",
                   bounds.lo, bounds.hi);
}
