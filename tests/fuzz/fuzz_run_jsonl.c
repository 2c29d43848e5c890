/* fuzz_run_jsonl.c - a run's metrics file. What is taken makes a page whose data is JSON without markup. */
#include "fuzz.h"

#include "report/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char begin[] = "id=\"data\">";
    const char *const name[] = { "run" };
    tx_history h;
    tx_str page = { 0 };
    if (!fuzz_ok(tx_history_read(&h, fuzz_file("run.jsonl", data, size)))) return 0;
    for (size_t i = 1; i < h.n_steps; i++)
        FUZZ_CHECK(h.step[i][TX_COLUMN_iteration] > h.step[i - 1][TX_COLUMN_iteration]);
    FUZZ_CHECK(!tx__page_text(&page, 1, name, &h));
    char *at = strstr(page.data, begin), *end = at ? strstr(at, "</script>") : NULL;
    FUZZ_CHECK(at && end);
    at += sizeof begin - 1;
    FUZZ_CHECK(!memchr(at, '<', (size_t)(end - at)));
    json_t *made = json_loadb(at, (size_t)(end - at), 0, NULL);
    FUZZ_CHECK(made);
    json_decref(made);
    tx_str_free(&page);
    tx_history_free(&h);
    return 0;
}
