/* report.h - what inspect, inspect-samples and plan write with: one line after the other to whoever asked. */
#ifndef TX_API_REPORT_H
#define TX_API_REPORT_H

#include <jansson.h>

#include "base/file.h"
#include "base/str.h"
#include "config/config.h"
#include "triax/jobs.h"
#include "triax/token.h"

/* Zeroed but for the sink; text is freed by its owner. */
typedef struct tx__report {
    tx_line_fn *line;
    void *user;
    tx_str text; /* of the line at hand */
} tx__report;

/* Hands one line over. */
tx_status tx__report_line(tx__report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Hands over an object as one line, and frees it. NULL: there was no memory for it.   @what "the plan" */
tx_status tx__report_json(tx__report *r, json_t *all, const char *what);

/* 1234567 as 1,234,567; into buf, which is returned. */
const char *tx__grouped(char buf[32], int64_t n);

/* The whole of `inspect` for a dataset (inspect_dataset.c). */
tx_status tx__inspect_dataset(tx__report *r, const tx_config *cfg, const char *prefix);

/* The same for a file of torch.save (inspect_pt.c). */
tx_status tx__inspect_pt(tx__report *r, const tx_config *cfg, const char *path);
tx_status tx__inspect_arrow(tx__report *r, const char *path);
tx_status tx__inspect_saved_dataset(tx__report *r, const char *dir, const tx_names *files);

#endif
