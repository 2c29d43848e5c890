/* data_groups.h - what the data options name, in one form: groups of datasets, each group one dataset or one blend.
 *
 *      --data-path 0.3 a 0.7 b                                 a group for all splits, divided by --split
 *      --train-data-path a  --valid-data-path b                a group a split, whole
 *      --train-weighted-split-paths "T: 0.3 0:0.9 a, 0.7 0:1 b"      a group a split, each dataset with its range
 *      --valid-weighted-split-paths "V: 1 0.9:1 a" "W: 1 0:1 c"      ... and any number of groups to evaluate on
 *      --valid-weighted-split-paths-path FILE                  the same texts, in quotes, on the line of a file
 *      --mock-data                                             made-up documents, for all splits, divided by --split
 *
 *  Sources: Megatron-DeepSpeed megatron/arguments.py of microsoft and of bigscience-workshop. */
#ifndef TX_DATA_DATA_GROUPS_H
#define TX_DATA_DATA_GROUPS_H

#include "config/config.h"
#include "data/split.h"

enum { TX_BLEND_MAX = 254 }; /* datasets in a group, as upstream */

typedef struct tx_data_set {
    char *path, *range; /* range NULL: by --split */
    double weight;
} tx_data_set;

typedef struct tx_data_group {
    char *name;     /* as given; NULL for the groups of plain lists */
    tx_split split; /* the one it is for, unless divided */
    bool divided;   /* by --split into all three */
    bool blend;     /* pairs were given: blended even if it is one dataset */
    bool mock;      /* one dataset that is no file: --mock-data */
    bool exact;     /* a blend as long as was asked, not as its datasets' requests together: upstream's choice */
    tx_data_set *set;
    int n;
} tx_data_group;

typedef struct tx_data_groups {
    tx_data_group *group;
    int n;
} tx_data_groups;

/* Errors: TX_ERR_ARG for a text that is no group, TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT for the files,
 * TX_ERR_NOMEM.
 */
tx_status tx_data_groups_open(tx_data_groups *out, const tx_config *cfg);
void tx_data_groups_close(tx_data_groups *g); /* a zeroed one is fine */

/* One group out of "NAME: weight start:end path, ..."; `flag` is for messages. Freed with tx_data_group_free. */
tx_status tx_data_group_parse(tx_data_group *out, const char *flag, const char *text, size_t n);
void tx_data_group_free(tx_data_group *g); /* a zeroed one is fine */

#endif
