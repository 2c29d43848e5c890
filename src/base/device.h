/* device.h - where a rank's tensors are: the host's memory, or that of a device of its own, which the host cannot read
 * and which runs work asynchronously.
 *
 *      stream     a queue of work: work in one is done in order; two streams are independent
 *      event      a place in a stream: recorded there, and waited for by the host or in another stream
 *
 *      TX_TRY(tx_device_record(d, e, TX_STREAM_COMPUTE));           // the gradients are complete at the event
 *      TX_TRY(tx_device_stream_wait(d, TX_STREAM_COPY, e));
 *      TX_TRY(tx_device_copy(d, TX_STREAM_COPY, host, grad, bytes));
 *
 * A NULL device is the host: all calls accept it and act at once, and events do nothing. The same code therefore works
 * for both. A device is opened by its backend (ctx->device) and belongs to one rank, whose thread makes all calls.
 *
 *  Host memory that a copy reads or writes while the host keeps running is from tx_device_take_host ("pinned": the
 * device, and its kernels too, can reach it). Any other is safe, but the call then waits: memory that is read may
 * change as soon as the call has returned, and memory that is written has been written by then.
 *
 * Errors: TX_ERR_NOMEM names `what`; TX_ERR_DEVICE is an error of the device, after which the run can only end. Wrong
 * numbers that kernels find (a token outside the vocabulary) are an error of the next call that waits. */
#ifndef TX_BASE_DEVICE_H
#define TX_BASE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct tx_device tx_device;
typedef struct tx_event tx_event;
typedef struct tx_graph tx_graph;

typedef enum tx_stream {
    TX_STREAM_COMPUTE, /* every op's */
    TX_STREAM_COMM,    /* calls between ranks */
    TX_STREAM_COPY,    /* to and from the host, concurrently with the others */
    TX_N_STREAMS
} tx_stream;

/* What a backend with a device implements; all other code calls the functions below. */
typedef struct tx_device_calls {
    tx_status (*take)(tx_device *d, void **out, size_t bytes); /* zeroed, 256-byte aligned; bytes > 0 */
    void (*give)(tx_device *d, void *p);
    tx_status (*take_host)(tx_device *d, void **out, size_t bytes);
    void (*give_host)(tx_device *d, void *p);
    tx_status (*copy)(tx_device *d, tx_stream s, void *to, const void *from, size_t bytes);
    tx_status (*sync)(tx_device *d, tx_stream s);
    tx_status (*event_make)(tx_device *d, tx_event **out);
    void (*event_free)(tx_device *d, tx_event *e);
    tx_status (*record)(tx_device *d, tx_event *e, tx_stream s);
    tx_status (*stream_wait)(tx_device *d, tx_stream s, tx_event *e);
    tx_status (*event_wait)(tx_device *d, tx_event *e);
    tx_status (*event_done)(tx_device *d, tx_event *e, bool *done);
    tx_status (*graph_begin)(tx_device *d);
    tx_status (*graph_end)(tx_device *d, tx_graph **out);
    tx_status (*graph_run)(tx_device *d, tx_graph *g);
    void (*graph_free)(tx_device *d, tx_graph *g);
    tx_status (*memory)(tx_device *d, size_t *free_bytes, size_t *all_bytes);
    bool (*owns)(const tx_device *d, const void *p);
} tx_device_calls;

/* State that another room keeps with a device (comm/: calls under way). It is notified before the device is closed, and
 * can be polled while the host waits for the device, because what the host waits for may never come. */
typedef struct tx_device_guest {
    struct tx_device_guest *next;
    void (*leave)(struct tx_device_guest *g);      /* frees all that is the device's, and leaves it */
    tx_status (*watch)(struct tx_device_guest *g); /* NULL: is not polled. Its error ends the wait */
    tx_event *mark;                                /* the guest's, with `watch`: what is waited for meanwhile */
} tx_device_guest;

struct tx_device { /* the first member of a backend's own */
    const tx_device_calls *call;
    int number;     /* among the devices that the environment makes visible */
    char name[128]; /* "NVIDIA H200" */
    char bus[16];   /* "0000:19:00.0"; "" if there is none */
    tx_device_guest *guests;
};

/* ---- memory; zeroed. NULL may be freed ---- */

/* Allocates memory for tensors.
 * @out a pointer to any pointer type
 * @shared for the host: as in base/shared.h */
tx_status tx_device_take(tx_device *d, void *out, size_t bytes, bool shared, const char *what);
void tx_device_give(tx_device *d, void *p);

/* Allocates host memory for asynchronous copies. */
tx_status tx_device_take_host(tx_device *d, void *out, size_t bytes, const char *what);
void tx_device_give_host(tx_device *d, void *p);

/* Whether p lies in memory from tx_device_take: then the host cannot read it. False of all other memory, that of
 * tx_device_take_host too. */
bool tx_device_owns(const tx_device *d, const void *p);

/* The device's total and free memory. For the host both are 0: see base/system_memory.h. */
tx_status tx_device_memory(tx_device *d, size_t *free_bytes, size_t *all_bytes);

/* ---- work ---- */

/* Copies between any two places, which must not overlap. */
tx_status tx_device_copy(tx_device *d, tx_stream s, void *to, const void *from, size_t bytes);

/* The same after everything in the compute stream, and done when the call returns: for rare copies. */
tx_status tx_device_read(tx_device *d, void *host, const void *from, size_t bytes);
tx_status tx_device_write(tx_device *d, void *to, const void *host, size_t bytes);

/* Waits for everything in the stream. */
tx_status tx_device_sync(tx_device *d, tx_stream s);

/* ---- events ---- */

tx_status tx_device_event_make(tx_device *d, tx_event **out); /* the host's is NULL */
void tx_device_event_free(tx_device *d, tx_event *e);         /* NULL allowed */
tx_status tx_device_record(tx_device *d, tx_event *e, tx_stream s);
/* A wait for an event that was never recorded returns at once. */
tx_status tx_device_stream_wait(tx_device *d, tx_stream s, tx_event *e);
tx_status tx_device_event_wait(tx_device *d, tx_event *e);
tx_status tx_device_event_done(tx_device *d, tx_event *e, bool *done);

/* ---- work that is repeated ---- */

/* What is put into the compute stream between begin and end is kept instead of done: ops, and copies to and from memory
 * of the device or of tx_device_take_host. Each run then puts all of it into the stream, in one call, with the
 * arguments and addresses that it had. Nothing may be waited for meanwhile, and every op has to have been done once
 * before. A device that keeps nothing (the host, TX_GPU_BLOCKING=1, TX_GPU_GRAPHS=0) does it at once: *out is NULL. An
 * end belongs to every begin, after an error too. */
tx_status tx_device_graph_begin(tx_device *d);
tx_status tx_device_graph_end(tx_device *d, tx_graph **out);
tx_status tx_device_graph_run(tx_device *d, tx_graph *g);
void tx_device_graph_free(tx_device *d, tx_graph *g); /* NULL allowed */

/* ---- guests of a device that is not NULL ---- */

void tx_device_enter(tx_device *d, tx_device_guest *g);
void tx_device_leave(tx_device *d, tx_device_guest *g);
void tx_device_dismiss(tx_device *d); /* all leave; called when the device is closed. NULL allowed */

#endif
