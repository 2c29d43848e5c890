/* seats.c - places of ranks, and the table that the user sees. */
#include "launch/seats.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/file.h"
#include "base/log.h"

/* Appends cores lo to hi - 1 by their first processors, as "0-1" or "0,4". */
static tx_status put_cores(tx_str *s, const tx_cores *c, int lo, int hi)
{
    for (int i = lo, j; i < hi; i = j) {
        for (j = i + 1; j < hi && c->core[j].processor[0] == c->core[j - 1].processor[0] + 1;) j++;
        TX_TRY(tx_str_printf(s, "%s%d", i > lo ? "," : "", c->core[i].processor[0]));
        if (j > i + 1) TX_TRY(tx_str_printf(s, "-%d", c->core[j - 1].processor[0]));
    }
    return TX_OK;
}

tx_status tx__place_here(tx_place *out, int n_ranks)
{
    tx_cores c = { 0 };
    tx_str s = { 0 };
    tx_status st;
    *out = (tx_place){ .n_ranks = n_ranks };
    if (gethostname(out->host, sizeof out->host - 1) || !tx__is_host_name(out->host, strlen(out->host)))
        strcpy(out->host, "localhost");
    TX_GOTO(tx_cores_find(&c, NULL, (tx_local_rank){ 0, 1 }, ""));
    out->n_cores = c.n;
    for (int i = 0; i < n_ranks && s.len < sizeof out->cores; i++) {
        int lo, hi;
        tx_cores_share(&lo, &hi, c.n, (tx_local_rank){ i, n_ranks });
        if (i) TX_GOTO(tx_str_puts(&s, ", "));
        TX_GOTO(put_cores(&s, &c, lo, hi));
    }
    if (s.len >= sizeof out->cores) strcpy(s.data + sizeof out->cores - 4, "...");
    if (s.len) strcpy(out->cores, s.data);
    st = TX_OK;
out:
    tx_cores_free(&c);
    tx_str_free(&s);
    return st;
}

int tx__gpus_here(void)
{
    char path[64];
    int n = 0;
    do snprintf(path, sizeof path, "/dev/nvidia%d", n);
    while (tx_path_exists(path) && ++n < TX_MAX_SLOTS);
    return n;
}

void tx__places_name(tx_place *place, int n)
{
    for (int i = 0; i < n; i++) {
        tx_place *p = &place[i];
        size_t length = strcspn(p->host, ".");
        bool address = strspn(p->host, "0123456789.") == strlen(p->host);
        snprintf(p->name, sizeof p->name, "%.*s", (int)(address || length > 200 ? 200 : length), p->host);
        for (int k = 0; k < i; k++) {
            if (strcmp(place[k].name, p->name)) continue;
            snprintf(p->name + strlen(p->name), sizeof p->name - strlen(p->name), "-node%d", i);
            break;
        }
    }
}

bool tx__places_crowded(const tx_place *place, int n)
{
    for (int i = 0; i < n; i++)
        if (place[i].n_cores && place[i].n_ranks > place[i].n_cores) return true;
    return false;
}

int tx__places_ranks(const tx_place *place, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += place[i].n_ranks;
    return sum;
}

void tx__places_show(const tx_place *place, int n)
{
    int first = 0;
    for (int i = 0; i < n; i++) {
        const tx_place *p = &place[i];
        char ranks[48];
        snprintf(ranks, sizeof ranks, p->n_ranks > 1 ? "ranks %d-%d" : "rank %d", first, first + p->n_ranks - 1);
        tx_info("%-16s host %-16s %s%s", ranks, p->host, *p->cores ? "cores " : "cores as that host has them",
                p->cores);
        first += p->n_ranks;
    }
}
