/* args.h - public structs that begin with `size_t size`, their sizeof.
 *
 * The size lets a program and a library of different versions work together (docs/decisions/abi.md). */
#ifndef TX_BASE_ARGS_H
#define TX_BASE_ARGS_H

#include <stddef.h>

#include "base/status.h"

/* Copies the caller's `from` into *to, this library's version of `type`. Members that the caller's version lacks are
 * 0. Members that this library lacks must be 0. `last` is the struct's last member in version 0.1, and never changes:
 * no caller has less. Pointers are copied, not what they point to.
 * TX_ERR_ARG names the struct. */
#define TX_ARGS_TAKE(to, from, type, last) \
    tx__args_take((to), sizeof *(1 ? (to) : (type *)0), offsetof(type, last) + sizeof((to)->last), (from), #type)

tx_status tx__args_take(void *to, size_t size, size_t least, const void *from, const char *name);

#endif
