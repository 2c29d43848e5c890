/* backend.h - what a backend is, and the list of them. A backend is a name and rows of the op table; adding one is a
 * folder and a line in registry.c. */
#ifndef TX_BACKEND_BACKEND_H
#define TX_BACKEND_BACKEND_H

#include "backend/ops.h"
#include "backend/watch.h"

typedef struct tx_backend {
    const char *name;
    const char *(*describe)(void); /* one line for `doctor` and the log: instruction set, libraries */
    tx_status (*open)(tx_ctx *c);  /* sets c->backend_state; optional */
    void (*close)(tx_ctx *c);
    void (*fill_ops)(tx_ops *ops); /* starts from what is there already, overrides its own rows */
    const char *base;              /* the backend whose rows it starts from, or NULL */
} tx_backend;

/* All backends, NULL at the end. */
extern const tx_backend *const tx_backends[];
const tx_backend *tx_backend_find(const char *name);
/* The finished table of a backend: compose.c's rows, then its base's, then its own. */
void tx_backend_ops(const tx_backend *be, tx_ops *out);

/* watch.c: looks at what an op has written. */
#define OP(name) void tx__watch_##name(tx_watch *w, const tx_##name##_args *a);
#include "backend/ops.def"
#undef OP

/* compose.c: the ops that are made of other ops. */
void tx__compose_ops(tx_ops *ops);

/* check.c, for rows whose data the host can read: every element of an i32 tensor is in [lo, hi), else TX_ERR_ARG
 * naming op, tensor, place and value. */
tx_status tx__check_index(const char *op, const char *name, tx_tensor x, int64_t lo, int64_t hi);

#endif
