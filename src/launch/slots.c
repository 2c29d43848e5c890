/* slots.c - the numbers of slots on their way to the ranks. */
#include "launch/slots.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tx__slots_parse(const char *text, size_t length, int *slot, int n)
{
    int found = 0;
    for (size_t at = 0; at < length;) {
        int number = 0, digits = 0;
        for (; at < length && isdigit((unsigned char)text[at]) && digits < 6; at++, digits++)
            number = 10 * number + (text[at] - '0');
        if (!digits || found == n) return -1;
        slot[found++] = number;
        if (at < length && text[at++] != ',') return -1;
        if (at == length && text[at - 1] == ',') return -1;
    }
    return found;
}

tx_status tx__slots_text(tx_str *out, const tx_hosts *h)
{
    for (int i = 0; i < h->n; i++) {
        const tx_host *host = &h->host[i];
        TX_TRY(tx_str_printf(out, "%s%s:", i ? "@" : "", host->name));
        for (int k = 0; k < host->n_slots; k++) TX_TRY(tx_str_printf(out, "%s%d", k ? "," : "", host->slot[k]));
        TX_TRY(tx_str_printf(out, "/%d", host->n_all));
    }
    return TX_OK;
}

static tx_status bad_text(const char *text)
{
    return TX_FAIL(TX_ERR_ARG, "launch-agent --slots %.80s: called by triax deepspeed, not by people", text);
}

tx_status tx__slot_of(tx_launch_slot *out, const char *text, const char *host, int rank)
{
    for (const char *at = text; *at; at += *at == '@') {
        size_t length = strcspn(at, "@");
        const char *slash = memrchr(at, '/', length), *colon = memrchr(at, ':', length);
        int slot[TX_MAX_SLOTS], n, all = slash ? atoi(slash + 1) : 0;
        if (!slash || !colon || slash < colon) return bad_text(text);
        size_t n_name = (size_t)(colon - at), n_list = (size_t)(slash - colon) - 1;
        n = tx__slots_parse(colon + 1, n_list, slot, TX_MAX_SLOTS);
        if (n < 1 || n > all || n_list >= sizeof out->devices) return bad_text(text);
        for (int i = 0; i < n; i++)
            if (slot[i] >= all) return bad_text(text);
        bool here = !host || (strlen(host) == n_name && !memcmp(host, at, n_name));
        if (here && rank < n) {
            out->cores = (tx_local_rank){ slot[rank], all };
            out->whole = n == all;
            memcpy(out->devices, colon + 1, n_list);
            out->devices[n_list] = 0;
            return TX_OK;
        }
        if (!host) rank -= n;
        at += length;
    }
    return bad_text(text);
}

/* ---- in a rank's place ---- */

/* Open MPI numbers ranks in the order of the hosts; Slurm has an order of nodes of its own. */
static tx_status find_mine(tx_launch_slot *out, const char *text)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *local = getenv("SLURM_LOCALID"),
               *node = getenv("SLURMD_NODENAME");
    if (rank) return tx__slot_of(out, text, NULL, atoi(rank));
    return local && node ? tx__slot_of(out, text, node, atoi(local)) : tx__slot_of(out, text, NULL, 0);
}

/* Where the cores cannot be told the process stays as it is. */
static tx_status take_cores(tx_local_rank slot)
{
    tx_cores c;
    cpu_set_t set;
    CPU_ZERO(&set);
    tx_status st = tx_cores_find(&c, NULL, slot, "");
    if (st) return st == TX_ERR_NOMEM ? st : TX_OK;
    for (int i = 0; i < c.n; i++)
        for (int k = 0; k < c.core[i].n_processors; k++)
            if (c.core[i].processor[k] < CPU_SETSIZE) CPU_SET((size_t)c.core[i].processor[k], &set);
    tx_cores_free(&c);
    if (CPU_COUNT(&set)) sched_setaffinity(0, sizeof set, &set);
    return TX_OK;
}

/* ROCR_VISIBLE_DEVICES stays: what it hides HIP does not number. So does a variable that hides all devices. */
tx_status tx__slots_become(int argc, char *const *argv)
{
    static const char *const variables[] = { "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES" };
    tx_launch_slot mine;
    if (argc < 2) return bad_text(argc ? argv[0] : "");
    TX_TRY(find_mine(&mine, argv[0]));
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *now = getenv(variables[i]);
        bool hides_all = now && (!*now || !strcmp(now, "-1"));
        if (!hides_all) setenv(variables[i], mine.devices, 1);
    }
    if (!mine.whole) TX_TRY(take_cores(mine.cores));
    execvp(argv[1], argv + 1);
    return TX_FAIL(TX_ERR_IO, "cannot run %s: %s", argv[1], strerror(errno));
}
