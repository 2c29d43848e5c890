/* json_text.c - reading JSON that may be hostile. */
#include "checkpoint/json_text.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"

tx_status tx__json_parse(json_t **out, const char *path, const char *bytes, size_t n)
{
    json_error_t e;
    json_t *root = tx_json_load(bytes, n, JSON_REJECT_DUPLICATES, &e);
    if (!root) {
        for (char *c = e.text; *c; c++) /* the text quotes the file */
            if ((unsigned char)*c < 0x20) *c = '?';
        if (json_error_code(&e) == json_error_out_of_memory) return TX_FAIL(TX_ERR_NOMEM, "%s: %s", path, e.text);
        return TX_FAIL(TX_ERR_FORMAT, "%s: not valid JSON: %s (line %d, column %d)", path, e.text, e.line, e.column);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return TX_FAIL(TX_ERR_FORMAT, "%s: a JSON object is needed, '{' first", path);
    }
    *out = root;
    return TX_OK;
}

tx_status tx__json_load(json_t **out, const char *path, size_t max_bytes)
{
    tx_str text = { 0 };
    TX_TRY(tx_file_read(path, max_bytes, &text));
    tx_status st = tx__json_parse(out, path, text.data ? text.data : "", text.len);
    tx_str_free(&text);
    return st;
}

bool tx__json_size(const json_t *v, int64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    *out = json_integer_value(v);
    return true;
}

bool tx__json_sizes(const json_t *v, int min, int cap, int64_t *out, int *n)
{
    size_t len = json_array_size(v);
    if (!json_is_array(v) || len < (size_t)min || len > (size_t)cap) return false;
    for (size_t i = 0; i < len; i++)
        if (!tx__json_size(json_array_get(v, i), &out[i])) return false;
    *n = (int)len;
    return true;
}

bool tx__is_printable(const char *text, size_t max)
{
    size_t n = strlen(text);
    if (n == 0 || n > max) return false;
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) return false;
    return true;
}

bool tx__is_plain_file_name(const char *text)
{
    return tx__is_printable(text, 255) && *text != '.' && !strchr(text, '/');
}
