/* labels: parallel threads. ZeRO's stages train the model that stage 0 trains, bit for bit. */
#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

static layout_case parse(const char *words)
{
    char copy[256], *word[16];
    int n = 0;
    layout_case c;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *at = NULL, *w = strtok_r(copy, " ", &at); w && n < 16; w = strtok_r(NULL, " ", &at)) word[n++] = w;
    if (!case_from_words(&c, n, word) || !is_possible(&c)) fail_msg("%s: no combination", words);
    return c;
}

static tx_status run_words(layout_run *r, const char *words, const char *more)
{
    char what[2048], how[512], all[4096];
    layout_case c = parse(words);
    sizes l = sizes_of(&c);
    what_flags(what, sizeof what, &c);
    how_flags(how, sizeof how, &c);
    snprintf(all, sizeof all, "%s %s %s", what, how, more);
    *r = (layout_run){ .vocab = vocab_of(&c), .n_ranks = n_ranks_of(&c), .tp = l.tp, .pp = l.pp, .until = 10 };
    return run_layout(r, all);
}

/* What all ranks keep together: without ZeRO the first data-parallel ones have all of it. */
static void totals(const layout_run *r, bool zero, uint64_t sum[2])
{
    int dp = r->n_ranks / (r->tp * r->pp);
    sum[0] = sum[1] = 0;
    for (int i = 0; i < r->n_ranks; i++) {
        if (!zero && i / r->tp % dp) continue;
        sum[0] += r->rank[i].weights;
        sum[1] += r->rank[i].states;
    }
}

int main(int argc, char **argv)
{
    static layout_run a, b;
    uint64_t x[2], y[2];
    if (argc < 4) return 2;
    if (run_words(&a, argv[1], argv[2]) || run_words(&b, argv[1], argv[3])) {
        printf("%s\n", tx_last_error());
        return 1;
    }
    totals(&a, strstr(argv[2], "zero-stage") != NULL, x);
    totals(&b, strstr(argv[3], "zero-stage") != NULL, y);
    int bad = 0;
    for (int i = 0; i < 10; i++)
        if (a.rank[0].loss[i] != b.rank[0].loss[i] || a.rank[0].norm[i] != b.rank[0].norm[i]) {
            printf("step %d: loss %.17g %.17g norm %.17g %.17g\n", i, a.rank[0].loss[i], b.rank[0].loss[i],
                   a.rank[0].norm[i], b.rank[0].norm[i]);
            bad = 1;
        }
    printf("%s | %s | weights %s states %s scored %s\n", argv[1], argv[3], x[0] == y[0] ? "same" : "DIFFER",
           x[1] == y[1] ? "same" : "DIFFER", a.rank[0].scored[1] == b.rank[0].scored[1] ? "same" : "DIFFER");
    return bad || x[0] != y[0] || x[1] != y[1];
}
