/* measure.h - measures the machine that the program runs on, for a machine file.
 *
 *      products, attention, all other ops   small models are trained under the profiler, by one rank and by several at
 *                                           once (measure_steps.c): so an op is measured as a step does it
 *      calls on groups of ranks             between ranks that are threads (measure_calls.c)
 *      the rest                             measure.c
 */
#ifndef TX_PREDICT_MEASURE_H
#define TX_PREDICT_MEASURE_H

#include "config/config.h"
#include "predict/machine.h"
#include "predict/measure_ops.h"

/* What is trained. */
typedef struct tx_step_model {
    int layers, hidden, heads, seq, batch, vocab, micro; /* micro: micro-batches of an iteration */
    const char *more;                                    /* further flags */
    bool by_several, in_fp16; /* also by 2 and by 4 ranks at once; also in fp16, as all are in fp32 and bf16 */
} tx_step_model;

typedef struct tx_measure_sizes {
    const tx_step_model *model; /* [n_models] */
    const double *bytes;        /* [n_bytes], of a whole tensor in a call on a group of ranks */
    int n_models, n_bytes;
    double seconds; /* about so long for a model, or three iterations; a thirtieth of it for a call */
    size_t storage; /* bytes that are written and read, a multiple of 1 MiB */
} tx_measure_sizes;

/* Measures all there is to know, with progress in the log. What a machine cannot know of itself, its network, becomes
 * what machine.def has, and 1 GB/s.
 * @source  for tx_machine_write, the caller's to free: what was measured and what was not
 * @cfg     --device, --threads
 * @dir     where storage is measured: the folder of the file to be
 * @sizes   NULL: those of machines of today, which takes minutes
 * TX_ERR_IO: dir is not to be written. The caller frees m, also after a failure. */
tx_status tx_machine_measure(tx_machine *m, tx_str *source, const tx_config *cfg, const char *dir,
                             const tx_measure_sizes *sizes);

/* ---- the parts of it, for its own files and for tests ---- */

/* Ranks that train the same model at the same time, each alone, on a share of the cores. */
typedef struct tx__step_job {
    const tx_step_model *model;
    const char *device; /* as --device's words */
    tx_dtype dtype;
    int n_ranks, n_threads; /* n_threads: of a rank */
    bool plain;             /* every profiled iteration after one that is not: what the profile takes is left out */
    int n_least;            /* iterations that are profiled, at least, */
    double seconds;         /* and as long as they take no longer than this, up to the number of tx__most_steps */
} tx__step_job;
enum { TX__MOST_STEPS = 64 };

/* What came of it besides the times of ops, all of a rank and the median of iterations. */
typedef struct tx__step_result {
    double iteration; /* seconds */
    double ops;       /* of these in ops, as profiled */
    double n_ops;     /* that an iteration runs */
} tx__step_result;
tx_status tx__step_config(tx_config **out, const tx__step_job *job); /* what the ranks train with */
tx_status tx__measure_steps(tx_op_times *times, tx__step_result *out, const tx__step_job *job);

/* Calls on a group of ranks of this host, on `bytes` of the whole tensor; appends their rates to m->op. */
typedef struct tx__call_job {
    const char *device;
    int n_ranks, n_threads;
    const double *bytes; /* [n_bytes] */
    int n_bytes;
    double seconds; /* about so long for each, or seven calls */
} tx__call_job;
tx_status tx__measure_calls(tx_machine *m, const tx__call_job *job);

/* Seconds of an empty call on a group of so many ranks. */
tx_status tx__measure_barrier(double *seconds, int n_ranks);

#endif
