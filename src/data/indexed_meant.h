/* indexed_meant.h - for the message about a dataset that is not there. */
#ifndef TX_DATA_INDEXED_MEANT_H
#define TX_DATA_INDEXED_MEANT_H

#include "base/str.h"

/* Appends the prefixes of datasets that may have been meant by one that does not exist, "a or b": beside it, or in the
 * folder that it is. Nothing when none is like it. */
tx_status tx_indexed_meant(tx_str *out, const char *prefix);

#endif
