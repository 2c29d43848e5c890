/* args.h - structs of options that the calling program fills. Each begins with `size_t size`, which the caller sets to
 * its sizeof the struct. So a program and a library of different versions work together (docs/decisions/abi.md). */
#ifndef TX_BASE_ARGS_H
#define TX_BASE_ARGS_H

#include <stddef.h>

#include "base/status.h"

/* Copies the caller's `from` into *to, a `type` as this library knows it. Members that an older caller does not have
 * are 0; members that only a newer caller has must be 0. `last` is the last member that the struct had in version 0.1,
 * the least that any caller has. Pointers are copied, not what they point to. TX_ERR_ARG names the struct. */
#define TX_ARGS_TAKE(to, from, type, last) \
    tx__args_take((to), sizeof *(1 ? (to) : (type *)0), offsetof(type, last) + sizeof((to)->last), (from), #type)

tx_status tx__args_take(void *to, size_t size, size_t least, const void *from, const char *name);

#endif
