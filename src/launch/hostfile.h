/* hostfile.h - DeepSpeed's hostfiles, and its --include and --exclude. Pure functions of text.
 *
 *      # comment                          --include host1@host2:0,2    host1 whole, two slots of host2
 *      host1 slots=4                      --exclude host2:1            all but that slot
 *      host2 slots=4   # more comment
 *
 * Filters do not change the order of the hosts, which is the file's. */
#ifndef TX_LAUNCH_HOSTFILE_H
#define TX_LAUNCH_HOSTFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { TX_MAX_HOSTS = 16384, TX_MAX_SLOTS = 4096, TX_HOST_NAME = 254 };

typedef struct tx_host {
    char name[TX_HOST_NAME];
    int *slot; /* numbers of the used slots, ascending; owned */
    int n_slots;
    int n_all; /* number of all slots of the host */
} tx_host;

typedef struct tx_hosts {
    tx_host *host;
    int n;
} tx_hosts;

/* Parses a hostfile. TX_ERR_FORMAT "<name>:<line>: ...": an invalid line, a repeated host, or no host at all. */
tx_status tx__hostfile_parse(tx_hosts *out, const char *name, const char *text, size_t n);

/* Keeps (`include`) or removes what `text` names. If it names a host several times, the slots are combined. Hosts
 * without remaining slots are removed. TX_ERR_ARG names the flag: a host or slot is not in the file, bad syntax, or
 * nothing is left. */
tx_status tx__hosts_filter(tx_hosts *h, const char *text, bool include);

/* Keeps only the first num_nodes hosts, with slots 0 to num_slots - 1. A number below 1 changes nothing. TX_ERR_ARG:
 * there are fewer hosts. */
tx_status tx__hosts_limit(tx_hosts *h, int64_t num_nodes, int64_t num_slots);

void tx__hosts_free(tx_hosts *h);

/* Whether a text can be a host's name or address: letters, digits, '.', '-', '_', ':'. It must not begin with '-', so
 * that no program mistakes it for a flag. */
bool tx__is_host_name(const char *name, size_t n);

#endif
