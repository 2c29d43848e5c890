/* op_time.h - seconds that one op or one message takes on a machine, by itself. */
#ifndef TX_PREDICT_OP_TIME_H
#define TX_PREDICT_OP_TIME_H

#include "predict/machine.h"
#include "predict/work.h"

/* An op. What bounds it: a product its shape and the machine's rate of its type, all others the memory that they read
 * and write.   @n_ranks that share the node's measured ops (machine.h) */
double tx_op_seconds(const tx_machine *m, const tx_work_event *e, int n_ranks);

/* Where the ranks of a group lie: how many of them in a node, on how many nodes, and how many groups like it send from
 * a node at the same time. Ranks fill nodes in their order (parallel/grid.h). */
typedef struct tx_span {
    int size, in_node, nodes, sharing;
} tx_span;
tx_span tx_group_span(const tx_layout *l, int group, const tx_machine *m);

/* A collective on `bytes` of the whole tensor in such a group: between GPUs by rings in and between nodes, between
 * processors as triax makes it.   @op a name of tx_comm_op_names */
double tx_call_seconds(const tx_machine *m, tx_span span, const char *op, double bytes);

/* The same of numbers of this type, where a machine's ranks sum with their own cores. */
double tx_typed_call_seconds(const tx_machine *m, tx_span span, const char *op, tx_dtype dtype, double bytes);

/* A message to the next stage of the pipeline. */
double tx_message_seconds(const tx_machine *m, const tx_layout *l, double bytes);

double tx_machine_peak(const tx_machine *m, tx_dtype t);

#endif
