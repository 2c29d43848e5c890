/* slots.h - ranks on slots that the user selected by number: the devices and cores of each.
 *
 *      node1:2,3/4@node2:0/2      of node1's slots 0 to 3, the first two ranks use 2 and 3; of node2's two slots one is
 * used
 *
 * Slot k of n has device k and the k-th of n shares of the host's cores, so jobs with different slots of a host share
 * nothing. */
#ifndef TX_LAUNCH_SLOTS_H
#define TX_LAUNCH_SLOTS_H

#include "base/cores.h"
#include "launch/hostfile.h"

/* Parses a list such as "2,3" and returns how many numbers it has; -1: it is not a list, or has more than n. */
int tx__slots_parse(const char *text, size_t length, int *slot, int n);

/* Writes the text form shown above. */
tx_status tx__slots_text(tx_str *out, const tx_hosts *h);

typedef struct tx_launch_slot {
    tx_local_rank cores;            /* the slot's number, and how many there are */
    bool whole;                     /* the job uses all slots of the host */
    char devices[5 * TX_MAX_SLOTS]; /* of all ranks on the host, "2,3": at most four digits each */
} tx_launch_slot;

/* The slot of rank number `rank` among all ranks or, if `host` is not NULL, among that host's.   TX_ERR_ARG: the text
 * has no such rank. */
tx_status tx__slot_of(tx_launch_slot *out, const char *text, const char *host, int rank);

/* What a starter runs in place of a rank. argv: TEXT PROGRAM WORDS...  Sets the cores and devices of the slot for this
 * process, then executes the program. Returns only on failure. */
tx_status tx__slots_become(int argc, char *const *argv);

#endif
