/* slots.h - slots that were chosen by their numbers: which devices and cores of its host a rank has for that.
 *
 *      node1:2,3/4@node2:0/2      of node1's slots 0 to 3 two are used, by the first two ranks; of node2's one
 *
 *  Slot k of n has device k, and the k-th of n shares of the host's cores, so that two jobs with other slots of a host
 * have nothing in common. */
#ifndef TX_LAUNCH_SLOTS_H
#define TX_LAUNCH_SLOTS_H

#include "base/cores.h"
#include "launch/hostfile.h"

/* How many numbers a list as "2,3" has; -1: it is none, or has more than n. */
int tx__slots_parse(const char *text, size_t length, int *slot, int n);

/* The text above. */
tx_status tx__slots_text(tx_str *out, const tx_hosts *h);

typedef struct tx_launch_slot {
    tx_local_rank cores; /* the slot's number, of how many */
    bool whole;          /* all slots of the host are used */
    char devices[16384]; /* of all ranks of the host, "2,3" */
} tx_launch_slot;

/* Of the rank-th of all ranks or, where `host` is no NULL, of that host's.   TX_ERR_ARG: the text has none such. */
tx_status tx__slot_of(tx_launch_slot *out, const char *text, const char *host, int rank);

/* What a starter runs in a rank's place. argv: TEXT PROGRAM WORDS...  Gives this process what its slot has and becomes
 * the program; comes back with why not. */
tx_status tx__slots_become(int argc, char *const *argv);

#endif
