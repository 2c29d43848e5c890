/* inspect_arrow.c - triax inspect of an Arrow file, and of a folder that Hugging Face's datasets has saved: its files,
 * their rows and columns. */
#include "api/report.h"
#include "data/arrow_stream.h"
#include "data/saved_dataset.h"

static tx_status show_file(tx__report *r, const char *path, bool columns, int64_t *n_rows)
{
    tx_arrow *a;
    tx_str line = { 0 };
    int64_t n = 0;
    bool more = true;
    TX_TRY(tx__arrow_open(&a, path));
    tx_status st = TX_OK;
    for (int i = 0; columns && !st && tx__arrow_column(a, i, &line); i++) {
        st = tx__report_line(r, "  %s", line.data);
        line.len = 0;
    }
    while (!st && more && !(st = tx__arrow_skip(a, &n, &more))) *n_rows += n;
    if (!st) st = tx__report_line(r, "%s: %lld rows", path, (long long)*n_rows);
    tx_str_free(&line);
    tx__arrow_close(a);
    return st;
}

tx_status tx__inspect_arrow(tx__report *r, const char *path)
{
    int64_t n = 0;
    return show_file(r, path, true, &n);
}

tx_status tx__inspect_saved_dataset(tx__report *r, const char *dir, const tx_names *files)
{
    int64_t all = 0;
    tx_status st =
        tx__report_line(r, "%s: a dataset that save_to_disk of Hugging Face's datasets wrote; columns:", dir);
    for (size_t i = 0; i < files->n && !st; i++) {
        int64_t n = 0;
        st = show_file(r, files->name[i], i == 0, &n);
        all += n;
    }
    if (!st) st = tx__report_line(r, "total rows: %lld", (long long)all);
    return st;
}
