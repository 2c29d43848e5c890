/* seats.c - places of ranks, and the table that the user sees. */
#include "launch/seats.h"

#include <stdio.h>
#include <stdlib.h>
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

static void keep(char *out, size_t cap, tx_str *s)
{
    if (s->len >= cap) strcpy(s->data + cap - 4, "...");
    if (s->len) strcpy(out, s->data);
}

/* @slot [n_ranks] of n_all each rank's */
static tx_status place_here(tx_node_place *out, int n_ranks, const int *slot, int n_all)
{
    tx_cores c = { 0 };
    tx_str s = { 0 };
    tx_status st;
    *out = (tx_node_place){ .n_ranks = n_ranks };
    if (gethostname(out->host, sizeof out->host - 1) || !tx__is_host_name(out->host, strlen(out->host)))
        strcpy(out->host, "localhost");
    TX_GOTO(tx_cores_find(&c, NULL, (tx_local_rank){ 0, 1 }, ""));
    out->n_cores = c.n;
    for (int i = 0; i < n_ranks && s.len < sizeof out->cores; i++) {
        int lo, hi;
        tx_cores_share(&lo, &hi, c.n, (tx_local_rank){ slot ? slot[i] : i, n_all });
        if (i) TX_GOTO(tx_str_puts(&s, ", "));
        TX_GOTO(put_cores(&s, &c, lo, hi));
    }
    keep(out->cores, sizeof out->cores, &s);
    st = TX_OK;
out:
    tx_cores_free(&c);
    tx_str_free(&s);
    return st;
}

tx_status tx__place_here(tx_node_place *out, int n_ranks)
{
    return place_here(out, n_ranks, NULL, n_ranks);
}

tx_status tx__place_of_slots(tx_node_place *out, const tx_host *h)
{
    tx_str s = { 0 };
    tx_status st = place_here(out, h->n_slots, h->slot, h->n_all);
    bool whole = h->n_slots == h->n_all;
    for (int i = 0; !st && !whole && i < h->n_slots; i++) st = tx_str_printf(&s, "%s%d", i ? "," : "", h->slot[i]);
    if (!st) keep(out->slots, sizeof out->slots, &s);
    tx_str_free(&s);
    return st;
}

static int nvidia_gpus(void)
{
    char path[64];
    int n = 0;
    do snprintf(path, sizeof path, "/dev/nvidia%d", n);
    while (tx_path_exists(path) && ++n < TX_MAX_SLOTS);
    return n;
}

/* Of the nodes of AMD's driver processors have gpu_id 0, and what this process may not use has one that cannot be read.
 */
static int amd_gpus(void)
{
    const char *shown = getenv("ROCR_VISIBLE_DEVICES");
    int n = 0, limit = TX_MAX_SLOTS;
    if (shown) limit = tx__list_entries(shown);
    for (int i = 0; i < TX_MAX_SLOTS && n < limit; i++) {
        char path[80];
        long id = 0;
        snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%d/gpu_id", i);
        if (!tx_path_exists(path)) break;
        FILE *f = fopen(path, "re");
        if (f && fscanf(f, "%ld", &id) == 1 && id) n++;
        if (f) fclose(f);
    }
    return n;
}

int tx__list_entries(const char *list)
{
    int n = *list != 0;
    while ((list = strchr(list, ','))) list++, n++;
    return n;
}

int tx__gpus_here(void)
{
    const char *told = getenv("TX_LAUNCH_GPUS");
    int n = told ? atoi(told) : nvidia_gpus();
    return told || n ? n : amd_gpus();
}

const char *tx__gpus_chosen(const char **list)
{
    static const char *const names[] = { "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((*list = getenv(names[i]))) return names[i];
    return NULL;
}

void tx__places_name(tx_node_place *place, int n)
{
    for (int i = 0; i < n; i++) {
        tx_node_place *p = &place[i];
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

bool tx__places_crowded(const tx_node_place *place, int n)
{
    for (int i = 0; i < n; i++)
        if (place[i].n_cores && place[i].n_ranks > place[i].n_cores) return true;
    return false;
}

int tx__places_ranks(const tx_node_place *place, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += place[i].n_ranks;
    return sum;
}

void tx__places_show(const tx_node_place *place, int n)
{
    int first = 0;
    for (int i = 0; i < n; i++) {
        const tx_node_place *p = &place[i];
        char ranks[48];
        snprintf(ranks, sizeof ranks, p->n_ranks > 1 ? "ranks %d-%d" : "rank %d", first, first + p->n_ranks - 1);
        tx_info("%-16s host %-16s %s%s%s%s%s", ranks, p->host, *p->slots ? "slots " : "", p->slots,
                *p->slots ? "   " : "", *p->cores ? "cores " : "cores as that host has them", p->cores);
        first += p->n_ranks;
    }
}
