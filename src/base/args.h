/* args.h - structs of options that a client fills, which begin with `size_t size`, its sizeof of them: so a client and
 * a library of different versions understand each other (docs/decisions/abi.md). */
#ifndef TX_BASE_ARGS_H
#define TX_BASE_ARGS_H

#include <stddef.h>

#include "base/status.h"

/* Into *to, one of this library's `type`, what the client's `from` has of it; members that it lacks are 0, and what a
 * newer client has behind the library's has to be 0. `last` is the struct's last member in version 0.1, and stays so:
 * less than that no client has. The client's pointers are copied, not what they point to.
 * TX_ERR_ARG names the struct. */
#define TX_ARGS_TAKE(to, from, type, last) \
    tx__args_take((to), sizeof *(1 ? (to) : (type *)0), offsetof(type, last) + sizeof((to)->last), (from), #type)

tx_status tx__args_take(void *to, size_t size, size_t least, const void *from, const char *name);

#endif
