/* metric_files.h - the files of a metric whose values a test makes up, as triax analyze-data writes them. */
#ifndef TX_TESTS_METRIC_FILES_H
#define TX_TESTS_METRIC_FILES_H

#include "support.h"

#include "data/metric_files.h"

/* is[0] + (i * is[1] + is[2]) % is[3] */
typedef struct formula {
    int64_t is[4];
} formula;

static inline int64_t value_by_formula(const void *user, int64_t i)
{
    const int64_t *is = ((const formula *)user)->is;
    return is[0] + (i * is[1] + is[2]) % is[3];
}

static inline void write_metric(const char *prefix, int64_t n, int64_t (*value)(const void *user, int64_t i),
                                const void *user)
{
    const tx_metric_values values = { n, value, user };
    ASSERT_OK(tx_metric_files_write(prefix, &values));
}

#endif
