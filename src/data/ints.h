/* ints.h - a read-only array of whole numbers that is as narrow as it can be, or that lies in somebody's file. */
#ifndef TX_DATA_INTS_H
#define TX_DATA_INTS_H

#include <stdint.h>
#include <string.h>

typedef enum tx_int_type { TX_INT_I32, TX_INT_U32, TX_INT_I64 } tx_int_type;

typedef struct tx_ints {
    const void *data; /* little-endian, of any alignment */
    int64_t n;
    tx_int_type type;
} tx_ints;

/* Number i, 0 <= i < n. */
static inline int64_t tx_ints_at(const tx_ints *a, int64_t i)
{
    const unsigned char *p = a->data;
    int32_t narrow;
    int64_t wide;
    if (a->type == TX_INT_I64) {
        memcpy(&wide, p + i * 8, 8);
        return wide;
    }
    memcpy(&narrow, p + i * 4, 4);
    return a->type == TX_INT_U32 ? (int64_t)(uint32_t)narrow : narrow;
}

static inline void tx_ints_prefetch(const tx_ints *a, int64_t i)
{
    __builtin_prefetch((const unsigned char *)a->data + i * (a->type == TX_INT_I64 ? 8 : 4));
}

#endif
