/* status.h - how every triax call reports success or failure.
 *
 * Every function that can fail returns tx_status; TX_OK is zero. On failure the function that found the problem writes
 * one sentence: what is wrong, where, what is allowed, and what to do. tx_last_error() returns it. The text belongs to
 * the thread and stays valid until the next failing call of that thread.
 * The library never prints and never ends the process. */
#ifndef TRIAX_STATUS_H
#define TRIAX_STATUS_H

#if defined(__GNUC__)
#define TX_API __attribute__((visibility("default")))
#else
#define TX_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tx_status {
    TX_OK = 0,
    TX_ERR_ARG,         /* an option, flag or argument is wrong or missing */
    TX_ERR_IO,          /* the operating system refused: open, read, write, space, permissions */
    TX_ERR_FORMAT,      /* a file's content is not what its format allows */
    TX_ERR_SHAPE,       /* sizes that do not fit together */
    TX_ERR_UNSUPPORTED, /* known, but not built in or not possible on this machine */
    TX_ERR_NOMEM,       /* out of memory */
    TX_ERR_NOTFOUND,    /* what was asked for does not exist */
    TX_ERR_STATE,       /* calls in the wrong order */
    TX_ERR_NUMERIC,     /* a number that must be finite is not */
    TX_ERR_COMM,        /* another rank failed, did not arrive in time, or cannot be reached */
    TX_ERR_DEVICE       /* a GPU, its driver or its libraries failed */
} tx_status;

/* The sentence of this thread's last failure; "" if there was none. Borrowed, never NULL. */
TX_API const char *tx_last_error(void);

/* Version as "major.minor.patch". Static, never freed. */
TX_API const char *tx_version(void);

#ifdef __cplusplus
}
#endif
#endif
