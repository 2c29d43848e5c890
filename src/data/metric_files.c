/* metric_files.c - from a value of every sample to the files of a metric: samples are sorted by value. */
#include "data/metric_files.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "data/metric_index.h"

enum { DIGIT = 16, DIGITS = 64 / DIGIT, MERGED = 100 };

typedef struct files {
    const tx_metric_values *values;
    int64_t lo, hi;
    int64_t *sample, *other; /* [n] sorted by value, those of a value rising; the sort's other half */
    int64_t *end;            /* [n_rows] of each value's samples */
    int64_t n_rows, step;    /* step: rows that are joined */
} files;

static int64_t value_of(const files *f, int64_t i)
{
    return f->values->value(f->values->user, i);
}

/* By digits, from the lowest one on that any value has. */
static tx_status sort(files *f)
{
    int64_t n = f->values->n, *count;
    TX_TRY(tx_alloc(&count, 1 << DIGIT, sizeof *count, "the values' order"));
    for (int64_t i = 0; i < n; i++) f->sample[i] = i;
    for (int d = 0; d < DIGITS && ((uint64_t)f->hi - (uint64_t)f->lo) >> d * DIGIT; d++) {
        memset(count, 0, sizeof *count << DIGIT);
#define DIGIT_OF(i) (((uint64_t)value_of(f, i) - (uint64_t)f->lo) >> d * DIGIT & ((1 << DIGIT) - 1))
        for (int64_t i = 0; i < n; i++) count[DIGIT_OF(i)]++;
        for (int64_t k = 0, sum = 0; k < 1 << DIGIT; k++) {
            int64_t some = count[k];
            count[k] = sum;
            sum += some;
        }
        for (int64_t i = 0; i < n; i++) f->other[count[DIGIT_OF(f->sample[i])]++] = f->sample[i];
#undef DIGIT_OF
        int64_t *sorted = f->other;
        f->other = f->sample;
        f->sample = sorted;
    }
    tx_free(count);
    return TX_OK;
}

static tx_status build(files *f)
{
    int64_t n = f->values->n;
    f->lo = f->hi = value_of(f, 0);
    for (int64_t i = 1; i < n; i++) {
        int64_t v = value_of(f, i);
        if (v < f->lo) f->lo = v;
        if (v > f->hi) f->hi = v;
    }
    TX_TRY(tx_alloc(&f->sample, (size_t)n, sizeof *f->sample, "the values' order"));
    TX_TRY(tx_alloc(&f->other, (size_t)n, sizeof *f->other, "the values' order"));
    TX_TRY(sort(f));
    f->end = f->other; /* a value has a sample at least */
    for (int64_t i = 0; i < n; i++) {
        if (i + 1 < n && value_of(f, f->sample[i]) == value_of(f, f->sample[i + 1])) continue;
        f->end[f->n_rows++] = i + 1;
    }
    f->step = f->n_rows / MERGED > 1 ? f->n_rows / MERGED : 1;
    return TX_OK;
}

/* ---- rows ---- */

static int64_t sample_at(const void *user, int64_t k)
{
    return ((const files *)user)->sample[k];
}

static int64_t value_at(const void *user, int64_t row)
{
    const files *f = user;
    return value_of(f, f->sample[f->end[row] - 1]);
}

static int64_t value_of_sample(const void *user, int64_t i)
{
    return value_of(user, i);
}

static int64_t samples_in(const files *f, int64_t first, int64_t end)
{
    return f->end[(end < f->n_rows ? end : f->n_rows) - 1] - (first ? f->end[first - 1] : 0);
}

static int64_t row_of(const void *user, int64_t row)
{
    return samples_in(user, row, row + 1);
}

static int64_t merged_row_of(const void *user, int64_t row)
{
    const files *f = user;
    return samples_in(f, row * f->step, (row + 1) * f->step);
}

static tx_status write_one(const char *prefix, const char *name, const tx_metric_rows *rows)
{
    tx_str path = { 0 };
    tx_status st = tx_str_printf(&path, "%s_%s", prefix, name);
    if (!st) st = tx_metric_index_write(path.data, rows);
    tx_str_free(&path);
    return st;
}

static void tell(const files *f, const char *prefix)
{
    const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
    int64_t n = f->values->n;
    tx_info("Metric %s: %lld samples, values %lld to %lld, %lld of them", name, (long long)n, (long long)f->lo,
            (long long)f->hi, (long long)f->n_rows);
    for (int64_t row = 0, percent = 5; row < f->n_rows; row++)
        if ((double)f->end[row] >= (double)n * (double)percent / 100.0) {
            tx_info("Metric %s %lldth percentile: %lld", name, (long long)percent, (long long)value_at(f, row));
            percent += 5;
        }
}

tx_status tx_metric_files_write(const char *prefix, const tx_metric_values *values)
{
    files f = { .values = values };
    tx_status st;
    TX_ASSERT(values->n > 0);
    TX_GOTO(build(&f));
    int value = tx_metric_index_type(f.lo, f.hi), sample = tx_metric_index_type(0, values->n - 1);
    const struct {
        const char *name;
        tx_metric_rows rows;
    } all[] = { { "sample_to_metric", { value, values->n, NULL, value_of_sample, &f, true } },
                { "index_to_sample", { sample, f.n_rows, row_of, sample_at, &f, true } },
                { "index_to_metric", { value, f.n_rows, NULL, value_at, &f, true } },
                { "index_to_sample_percentile_merged",
                  { sample, (f.n_rows - 1) / f.step + 1, merged_row_of, sample_at, &f, false } } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) TX_GOTO(write_one(prefix, all[i].name, &all[i].rows));
    tell(&f, prefix);
out:
    tx_free(f.sample);
    tx_free(f.other);
    return st;
}
