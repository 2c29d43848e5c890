/* fuzz_machine.c - a machine file. What is taken lies within its bounds, and is the same once it is written and read.
 */
#include "fuzz.h"
#include "predict/machine_rows.h"

static void check_bounds(tx_machine *m)
{
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++) {
        double v = *tx_machine_number(m, row->path) / row->unit;
        FUZZ_CHECK(v >= row->lo * (1 - 1e-12) && v <= row->hi * (1 + 1e-12));
    }
    for (int i = 0; i < m->n_products; i++) FUZZ_CHECK(m->product[i].m >= 1 && m->product[i].flops_per_s > 0);
    for (int i = 0; i < m->n_ops; i++) FUZZ_CHECK(m->op[i].op[0] && m->op[i].per_s > 0 && m->op[i].ranks >= 1);
    for (int i = 0; i < m->n_sources; i++) fuzz_check_utf8(m->source[i], strlen(m->source[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_machine m, back;
    if (fuzz_ok(tx_machine_read(&m, fuzz_file("m.json", data, size)))) {
        tx_str text = { 0 }, again = { 0 };
        check_bounds(&m);
        FUZZ_CHECK(!tx__machine_text(&text, &m, NULL));
        FUZZ_CHECK(!tx_machine_read(&back, fuzz_file("back.json", text.data, text.len)));
        for (const tx__machine_row *row = tx__machine_rows; row->path; row++)
            FUZZ_CHECK(*tx_machine_number(&m, row->path) == *tx_machine_number(&back, row->path));
        FUZZ_CHECK(!tx__machine_text(&again, &back, NULL));
        FUZZ_CHECK(!strcmp(text.data, again.data));
        tx_str_free(&text);
        tx_str_free(&again);
        tx_machine_free(&back);
    }
    tx_machine_free(&m);
    return 0;
}
