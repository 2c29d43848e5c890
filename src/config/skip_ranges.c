/* skip_ranges.c - --skip-train-iteration-range START-END ...: iterations whose data is passed over. BigScience's rule:
 * before iteration START is trained, the data of as many iterations as the range has is left out; iterations are
 * counted and trained as without it. A pure function of the iteration, so that a resumed run reads on where the first
 * one was. */
#include <stdlib.h>
#include <string.h>

#include "config/option_table.h"

enum { MAX_RANGES = 1000 }; /* as in options.def */

bool tx__skip_range_parse(const char *text, int64_t *first, int64_t *last)
{
    char number[24];
    const char *dash = strchr(text, '-');
    if (!dash || (size_t)(dash - text) >= sizeof number) return false;
    memcpy(number, text, (size_t)(dash - text));
    number[dash - text] = 0;
    return tx__integer_parse(number, first) && tx__integer_parse(dash + 1, last) && *first >= 1 && *last >= *first &&
           *last <= 1000000000;
}

typedef struct range {
    int64_t first, last;
} range;

static int by_first(const void *a, const void *b)
{
    int64_t x = ((const range *)a)->first, y = ((const range *)b)->first;
    return (x > y) - (x < y);
}

int64_t tx_config_skipped_iterations(const tx_config *c, int64_t iteration, int64_t *last)
{
    const tx_list *l = &c->skip_train_iteration_range;
    range r[MAX_RANGES];
    int64_t skipped = 0;
    *last = 0;
    for (int i = 0; i < l->n; i++)
        if (!tx__skip_range_parse(l->item[i], &r[i].first, &r[i].last)) return 0; /* refused by a rule */
    if (l->n) qsort(r, (size_t)l->n, sizeof *r, by_first);
    for (int i = 0, next; i < l->n && r[i].first <= iteration; i = next) {
        for (next = i + 1; next < l->n && r[next].first <= r[i].last; next++) /* overlapping ones are one */
            if (r[next].last > r[i].last) r[i].last = r[next].last;
        skipped += r[i].last - r[i].first + 1;
        if (r[i].first == iteration) *last = r[i].last;
    }
    return skipped;
}
