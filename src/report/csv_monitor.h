/* csv_monitor.h - DeepSpeed's csv_monitor: a file of comma-separated values for each kind of event, what
 * --csv-monitor-dir asks for.
 *
 *      DIR/Train_Samples_lr.csv:   step,lr                            lines end as Python's csv ends them, with \r\n
 *                                  32,0.001                           step: samples trained on
 *
 *  Names, header and events are those of deepspeed/monitor/csv_monitor.py and of what the engine writes there. A file
 * that is there is added to; its header then is not written again. */
#ifndef TX_REPORT_CSV_MONITOR_H
#define TX_REPORT_CSV_MONITOR_H

#include "base/append.h"
#include "base/step_record.h"
#include "base/str.h"
#include "config/config.h"

enum { TX_CSV_FILES = 12, TX_MONITOR_EVENTS = 3 };

typedef struct tx_csv_monitor {
    const char *dir; /* borrowed */
    bool scaled;     /* there is a loss scale to report */
    struct {
        char name[64]; /* the event's */
        tx_append file;
    } of[TX_CSV_FILES];
    int n;
    tx_str text;    /* of the line at hand */
    uint64_t n_put; /* bytes so far, of all */
} tx_csv_monitor;

/* Makes the folder of --csv-monitor-dir. */
tx_status tx_csv_monitor_open(tx_csv_monitor *m, const tx_config *cfg);

/* A line for each of some events, named as "Train/Samples/lr". A kind's first one opens its file. */
tx_status tx_csv_monitor_put(tx_csv_monitor *m, const tx_named_number *event, int n, int64_t step);

/* The events of a step or of an evaluation on validation data. */
tx_status tx_csv_monitor_record(tx_csv_monitor *m, const tx_step_record *r);

void tx_csv_monitor_close(tx_csv_monitor *m); /* a zeroed one is fine */

/* What DeepSpeed's engine reports to its monitors after a step: loss, learning rate, and loss scale if it is `scaled`;
 * their number. Of a step that was skipped there is no loss. */
int tx_monitor_events(const tx_step_record *r, bool scaled, tx_named_number out[TX_MONITOR_EVENTS]);

#endif
