/* split.c - the arithmetic of --split. */
#include "data/split.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *tx_split_name(tx_split split)
{
    static const char *const name[TX_N_SPLITS] = { "train", "valid", "test" };
    return name[split];
}

#define BLANKS " \t\n\r\v\f"

/* One weight; *s moves behind it and the blanks around it. False for anything Python's float() would not take, and for
 * what no share can be: negative, infinite, not a number. */
static bool parse_weight(const char **s, double *out)
{
    const char *p = *s + strspn(*s, BLANKS);
    char *end;
    *out = strtod(p, &end);
    *s = end + strspn(end, BLANKS);
    return end != p && isfinite(*out) && *out >= 0;
}

static tx_status parse_weights(double w[TX_N_SPLITS], const char *text)
{
    char separator = strchr(text, ',') ? ',' : '/';
    const char *s = text;
    for (int k = 0;; k++) {
        double x = 0;
        bool ok = !strpbrk(text, "xX") && parse_weight(&s, &x); /* strtod alone would read hexadecimal */
        if (!ok || (*s && *s != separator))
            return TX_FAIL(TX_ERR_ARG,
                           "--split \"%s\": entry %d is not a weight; give up to three numbers of at least 0, for "
                           "example 949,50,1",
                           text, k + 1);
        if (k < TX_N_SPLITS) w[k] = x;
        if (!*s) return TX_OK;
        s++;
    }
}

tx_status tx_split_bounds(int64_t bound[TX_N_SPLITS + 1], const char *text, int64_t n)
{
    double w[TX_N_SPLITS] = { 0 };
    TX_TRY(parse_weights(w, text));
    double sum = w[0] + w[1] + w[2];
    if (!(sum > 0) || !isfinite(sum))
        return TX_FAIL(TX_ERR_ARG, "--split \"%s\": the first three weights must have a sum above 0", text);
    bound[0] = 0;
    for (int k = 0; k < TX_N_SPLITS; k++) bound[k + 1] = bound[k] + (int64_t)rint(w[k] / sum * (double)n);
    int64_t excess = bound[TX_N_SPLITS] - n;
    for (int k = 1; k <= TX_N_SPLITS; k++) {
        bound[k] -= excess;
        if (bound[k] < 0) bound[k] = 0; /* an empty first share: Megatron would count document -1, the last, twice */
    }
    return TX_OK;
}

tx_status tx_split_range(int64_t bound[2], const char *text, int64_t n)
{
    double from = 0, to;
    const char *s = text;
    bool ok = !strpbrk(text, "xX") && parse_weight(&s, &from) && *s == ':';
    s += ok;
    if (!ok || !parse_weight(&s, &to) || *s || from >= to || to > 1)
        return TX_FAIL(TX_ERR_ARG, "\"%s\" is no range of documents: give START:END with 0 <= START < END <= 1", text);
    bound[0] = (int64_t)rint(from * (double)n);
    bound[1] = (int64_t)rint(to * (double)n);
    return TX_OK;
}

tx_status tx_split_documents(tx_split_docs *out, const char *split, const char *range, tx_split range_for, int64_t n)
{
    int64_t cut[TX_N_SPLITS + 1];
    tx_split_docs d = { 0 };
    if (split)
        TX_TRY(tx_split_bounds(cut, split, n));
    else
        TX_TRY(tx_split_range(cut, range, n));
    for (int k = 0; k < TX_N_SPLITS; k++) {
        if (!split && k != (int)range_for) continue;
        d.first[k] = cut[split ? k : 0];
        d.end[k] = cut[split ? k + 1 : 1];
    }
    *out = d;
    return TX_OK;
}
