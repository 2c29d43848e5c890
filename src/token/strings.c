/* strings.c - distinct byte strings with numbers: an open-addressing hash table over one pool of bytes. */
#include "token/strings.h"

#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"

static inline uint32_t hash_of(const void *bytes, size_t n)
{
    return (uint32_t)XXH3_64bits(bytes, n);
}

/* The slot that holds the string, or the free one where it would go. Needs a table. */
static uint64_t *find_slot(const tx__strings *s, const void *bytes, size_t n, uint32_t hash)
{
    for (uint32_t i = hash & s->mask;; i = (i + 1) & s->mask) {
        uint64_t v = s->slot[i];
        if (!v) return &s->slot[i];
        if (v >> 32 != hash) continue; /* all 32 bits: a wrong string is hardly ever compared */
        size_t len;
        const char *have = tx__strings_at(s, (uint32_t)v - 1, &len);
        if (len == n && !memcmp(have, bytes, n)) return &s->slot[i];
    }
}

int64_t tx__strings_find(const tx__strings *s, const void *bytes, size_t n)
{
    if (!s->slot) return -1;
    return (int64_t)(uint32_t)*find_slot(s, bytes, n, hash_of(bytes, n)) - 1;
}

/* Twice the slots. Places depend on the hash alone, so no string is read. */
static tx_status grow_slots(tx__strings *s)
{
    size_t n = s->slot ? ((size_t)s->mask + 1) * 2 : 1024;
    uint64_t *slot;
    TX_TRY(tx_alloc(&slot, n, sizeof *slot, "a table of strings"));
    uint32_t mask = (uint32_t)(n - 1);
    for (size_t i = 0; s->slot && i <= s->mask; i++) {
        if (!s->slot[i]) continue;
        uint32_t at = (uint32_t)(s->slot[i] >> 32) & mask;
        while (slot[at]) at = (at + 1) & mask;
        slot[at] = s->slot[i];
    }
    tx_free(s->slot);
    s->slot = slot;
    s->mask = mask;
    return TX_OK;
}

tx_status tx__strings_add_hidden(tx__strings *s, const void *bytes, size_t n)
{
    if (n > UINT32_MAX - s->pool.len || s->n >= INT32_MAX - 1)
        return TX_FAIL(TX_ERR_NOMEM, "more than 4 GiB of distinct words: give less text at once");
    if (s->n + 2 > s->cap) { /* this string's start and its end */
        uint32_t cap = s->cap ? s->cap + s->cap / 2 : 1024;
        TX_TRY(tx_realloc(&s->start, cap, sizeof *s->start, "a table of strings"));
        if (!s->cap) s->start[0] = 0;
        s->cap = cap;
    }
    TX_TRY(tx_str_append(&s->pool, bytes, n));
    s->start[++s->n] = (uint32_t)s->pool.len;
    return TX_OK;
}

tx_status tx__strings_add(tx__strings *s, const void *bytes, size_t n, uint32_t *number, int *fresh)
{
    if (!s->slot || s->n >= s->mask / 2) TX_TRY(grow_slots(s));
    uint32_t hash = hash_of(bytes, n);
    uint64_t *slot = find_slot(s, bytes, n, hash);
    *fresh = !*slot;
    if (!*slot) {
        TX_TRY(tx__strings_add_hidden(s, bytes, n));
        *slot = (uint64_t)hash << 32 | s->n;
    }
    *number = (uint32_t)*slot - 1;
    return TX_OK;
}

void tx__strings_free(tx__strings *s)
{
    tx_str_free(&s->pool);
    tx_free(s->start);
    tx_free(s->slot);
    *s = (tx__strings){ 0 };
}
