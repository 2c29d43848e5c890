/* machine_write.c - writes machine files, in the order of machine.def. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/json_quote.h"
#include "predict/machine_rows.h"

/* Which number of the file's unit is read as `value`: the one of the fewest digits, so that what a file said is written
 * as it said it. */
static double in_unit(double value, double unit)
{
    double v = value / unit;
    for (int digits = 1; digits <= 17; digits++) {
        char text[40];
        snprintf(text, sizeof text, "%.*g", digits, v);
        double w = strtod(text, NULL);
        if (w * unit == value) return w;
    }
    return v;
}

static tx_status put_number(tx_str *out, const tx__machine_row *row, double value)
{
    double v = in_unit(value, row->unit);
    return v == floor(v) && fabs(v) < 1e15 ? tx_str_printf(out, "%.0f", v) : tx_str_put_f64(out, v);
}

static int n_sections(const char *path)
{
    int n = 0;
    for (; *path; path++) n += *path == '.';
    return n;
}

/* Ends the objects that `before` is in and `path` is not, and begins those that only `path` is in. */
static tx_status put_path(tx_str *out, const char *before, const char *path)
{
    size_t shared = 0;
    int within = 0; /* objects that both are in */
    for (size_t i = 0; path[i] && path[i] == before[i]; i++)
        if (path[i] == '.') shared = i + 1, within++;
    for (int depth = n_sections(before); depth > within; depth--) TX_TRY(tx_str_printf(out, "\n%*s}", 4 * depth, ""));
    TX_TRY(tx_str_puts(out, ",\n"));
    for (const char *dot; (dot = strchr(path + shared, '.')); shared = (size_t)(dot - path) + 1)
        TX_TRY(
            tx_str_printf(out, "%*s\"%.*s\": {\n", 4 * ++within, "", (int)(dot - path - (long)shared), path + shared));
    return tx_str_printf(out, "%*s\"%s\": ", 4 * (within + 1), "", path + shared);
}

static tx_status put_numbers(tx_str *out, const tx_machine *m)
{
    const char *before = "";
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++) {
        TX_TRY(put_path(out, before, row->path));
        TX_TRY(put_number(out, row, *tx__machine_number_at((void *)m, row)));
        before = row->path;
    }
    for (int depth = n_sections(before); depth; depth--) TX_TRY(tx_str_printf(out, "\n%*s}", 4 * depth, ""));
    return TX_OK;
}

/* The members of an entry from its dtype on. @op NULL: of a product */
static tx_status put_entry(tx_str *out, const char *op, tx_dtype dtype, const tx__machine_row *row, void *numbers)
{
    TX_TRY(tx_str_printf(out, "\"dtype\": \"%s\"", tx_dtype_name(dtype)));
    for (; row->path; row++) {
        if (op && !tx__op_has(op, row)) continue;
        TX_TRY(tx_str_printf(out, ", \"%s\": ", row->path));
        TX_TRY(put_number(out, row, *tx__machine_number_at(numbers, row)));
    }
    return tx_str_puts(out, " }");
}

static tx_status put_measured(tx_str *out, const tx_machine *m)
{
    if (!m->n_products && !m->n_ops) return TX_OK;
    TX_TRY(tx_str_puts(out, ",\n    \"measured\": {\n        \"products\": ["));
    for (int i = 0; i < m->n_products; i++) {
        tx_measured_product *p = &m->product[i];
        TX_TRY(tx_str_printf(out, "%s\n            { ", i ? "," : ""));
        TX_TRY(put_entry(out, NULL, p->dtype, tx__product_rows, p));
    }
    TX_TRY(tx_str_printf(out, "%s],\n        \"ops\": [", m->n_products ? "\n        " : ""));
    for (int i = 0; i < m->n_ops; i++) {
        const tx_measured_op *op = &m->op[i];
        tx__op_numbers numbers = { op->size, op->head, op->per_s, op->ranks };
        TX_TRY(tx_str_printf(out, "%s\n            { \"op\": \"%s\", ", i ? "," : "", op->op));
        TX_TRY(put_entry(out, op->op, op->dtype, tx__op_rows, &numbers));
    }
    return tx_str_printf(out, "%s]\n    }", m->n_ops ? "\n        " : "");
}

static tx_status put_sources(tx_str *out, const tx_machine *m, const char *source)
{
    int n = m->n_sources + !!source;
    TX_TRY(tx_str_puts(out, ",\n    \"sources\": ["));
    for (int i = 0; i < n; i++) {
        const char *text = i < m->n_sources ? m->source[i] : source;
        TX_TRY(tx_str_printf(out, "%s\n        ", i ? "," : ""));
        TX_TRY(tx_json_quote(out, text, strlen(text)));
    }
    return tx_str_printf(out, "%s]", n ? "\n    " : "");
}

tx_status tx__machine_text(tx_str *out, const tx_machine *m, const char *source)
{
    TX_TRY(tx_str_puts(out, "{\n    \"name\": "));
    TX_TRY(tx_json_quote(out, m->name, strlen(m->name)));
    TX_TRY(put_sources(out, m, source));
    TX_TRY(put_numbers(out, m));
    TX_TRY(put_measured(out, m));
    return tx_str_puts(out, "\n}\n");
}

tx_status tx_machine_write(const tx_machine *m, const char *path, const char *source)
{
    tx_str text = { 0 };
    tx_status st = tx__machine_text(&text, m, source);
    if (!st) st = tx_file_publish(path, text.data, text.len);
    tx_str_free(&text);
    return st;
}
