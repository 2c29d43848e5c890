/* status.h - writing errors and passing them on. An error of the user or the machine is a
 * tx_status with a sentence (TX_FAIL); a bug in triax is TX_ASSERT. There is no other kind. */
#ifndef TX_BASE_STATUS_H
#define TX_BASE_STATUS_H

#include <stddef.h>

#include "triax/status.h"

/* Records the sentence for tx_last_error() and yields `code`; used as  return TX_FAIL(TX_ERR_SHAPE, "...", ...); */
/* The code comes last so that compilers see it is not 0. */
#define TX_FAIL(code, ...) (tx__fail((code), __VA_ARGS__), (tx_status)(code))

/* The same for the few messages of several lines (a list of mistakes, a table). TX_FAIL's are one line whatever was put
 * into them, as tx_printable makes it. This one leaves line ends, so that its parts go through tx_printable. */
#define TX_FAIL_LINES(code, ...) (tx__fail_lines((code), __VA_ARGS__), (tx_status)(code))

/* Passes a failure on. Not for functions that own something: those go to their `out:` label with TX_GOTO. */
#define TX_TRY(call)                               \
    do {                                           \
        tx_status tx_try_status_ = (call);         \
        if (tx_try_status_) return tx_try_status_; \
    } while (0)

/* The same for functions with a clean-up label: needs `tx_status st` and `out:` in scope. */
#define TX_GOTO(call)     \
    do {                  \
        st = (call);      \
        if (st) goto out; \
    } while (0)

/* A bug inside triax: prints the place and aborts. Never for anything a user can cause. */
#define TX_ASSERT(cond) ((cond) ? (void)0 : tx__assert_failed(#cond, __FILE__, __LINE__))

tx_status tx__fail(tx_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
tx_status tx__fail_lines(tx_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void tx__assert_failed(const char *cond, const char *file, int line);

/* Puts "text: " before the last error's sentence; for callers that know which file or flag it was about. */
tx_status tx_fail_prefix(tx_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text for people into out[cap], which is returned: UTF-8 as it is, control characters and bytes that are no UTF-8 as
 * \xNN. Text out of a file must not end a message's line, move the cursor of the terminal that shows it, or put
 * anything but text into a log. What does not fit is cut off. Errors, log lines and reports go through this; it
 * changes nothing of what it made. */
char *tx_printable(char *out, size_t cap, const char *text);

#endif
