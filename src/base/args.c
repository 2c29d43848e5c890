/* args.c - option structs of clients of other versions; the rule is that of Linux's copy_struct_from_user. */
#include "base/args.h"

#include <stdint.h>
#include <string.h>

tx_status tx__args_take(void *to, size_t size, size_t least, const void *from, const char *name)
{
    const uint8_t *bytes = from;
    size_t given;
    memcpy(&given, from, sizeof given);
    if (given < least)
        return TX_FAIL(TX_ERR_ARG, "%s.size is %zu, less than the %zu that it ever was: set it to sizeof(%s)", name,
                       given, least, name);
    for (size_t i = size; i < given; i++)
        if (bytes[i])
            return TX_FAIL(TX_ERR_ARG,
                           "%s has members that this library (%s) does not know, and one is set: byte %zu of %zu", name,
                           tx_version(), i, given);
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    memcpy(to, &size, sizeof size);
    return TX_OK;
}
