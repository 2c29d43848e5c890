/* fuzz_arrow.c - an Arrow file: rows that are JSON, or a sentence. */
#include <jansson.h>

#include "data/arrow_stream.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("rows.arrow", data, size);
    tx_arrow *a;
    tx_str line = { 0 };
    bool more = true;
    if (!fuzz_ok(tx__arrow_open(&a, path))) return 0;
    for (int i = 0; tx__arrow_column(a, i, &line); i++) line.len = 0;
    while (fuzz_ok(tx__arrow_next(a, &line, &more)) && more) {
        json_t *row = json_loadb(line.data, line.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        FUZZ_CHECK(json_is_object(row) || strstr(line.data, "\\u0000")); /* a name with NUL is none to Jansson */
        json_decref(row);
        line.len = 0;
    }
    tx_str_free(&line);
    tx__arrow_close(a);
    return 0;
}
