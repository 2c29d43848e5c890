/* tokenizer.c - the public calls that are the same for all kinds of tokenizer. */
#include "token/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/utf8.h"

/* ---- outputs ---- */

tx_status tx__ids_reserve(tx_ids *ids, size_t more)
{
    if (more <= ids->cap - ids->n) return TX_OK;
    if (more > SIZE_MAX / 16 - ids->n) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for %zu more ids", more);
    size_t cap = ids->n + more;
    cap += cap / 2 + 64;
    TX_TRY(tx_realloc(&ids->id, cap, sizeof *ids->id, "token ids"));
    ids->cap = cap;
    return TX_OK;
}

void tx_ids_free(tx_ids *ids)
{
    tx_free(ids->id);
    *ids = (tx_ids){ 0 };
}

tx_status tx__bytes_append(tx_bytes *bytes, const void *p, size_t n)
{
    tx_str s = { bytes->data, bytes->n, bytes->cap };
    tx_status st = tx_str_append(&s, p, n);
    *bytes = (tx_bytes){ s.data, s.len, s.cap };
    return st;
}

void tx_bytes_free(tx_bytes *bytes)
{
    tx_free(bytes->data);
    *bytes = (tx_bytes){ 0 };
}

/* ---- tokenizers ---- */

void tx_tokenizer_close(tx_tokenizer *t)
{
    if (t) t->kind->close(t);
}

int32_t tx_tokenizer_vocab_size(const tx_tokenizer *t)
{
    return t->vocab_size;
}

int32_t tx_tokenizer_eod(const tx_tokenizer *t)
{
    return t->eod;
}

int32_t tx_tokenizer_special(const tx_tokenizer *t, const char *name)
{
    return t->kind->special(t, name);
}

void tx__hash_token(XXH3_state_t *s, const char *token, size_t n)
{
    uint32_t len = (uint32_t)n;
    XXH3_128bits_update(s, &len, sizeof len);
    XXH3_128bits_update(s, token, n);
}

tx_status tx_tokenizer_hash(const tx_tokenizer *t, char hex[33])
{
    XXH3_state_t *s = XXH3_createState();
    if (!s) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the hash of a tokenizer");
    XXH3_128bits_reset(s);
    t->kind->hash(t, s);
    XXH128_hash_t h = XXH3_128bits_digest(s);
    XXH3_freeState(s);
    snprintf(hex, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
    return TX_OK;
}

tx_status tx_tokenizer_encode(const tx_tokenizer *t, const char *text, size_t n_bytes, tx_ids *out)
{
    size_t before = out->n;
    tx_status st = t->kind->encode(t, (const unsigned char *)text, n_bytes, out);
    if (st) out->n = before;
    return st;
}

void tx_tokenizer_ends(const tx_tokenizer *t, size_t *n_before, size_t *n_after)
{
    *n_before = *n_after = 0;
    if (t->kind->ends) t->kind->ends(t, n_before, n_after);
}

tx_status tx_tokenizer_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    size_t before = out->n;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->vocab_size)
            return TX_FAIL(TX_ERR_ARG, "token id %d (number %zu of %zu) is not in the vocabulary: ids are 0 to %d",
                           ids[i], i + 1, n, t->vocab_size - 1);
    tx_status st = t->kind->decode(t, ids, n, out);
    if (st && out->data) {
        out->n = before;
        out->data[before] = 0;
    }
    return st;
}

static tx_status decode_after(const tx_tokenizer *t, int32_t last, int32_t id, tx_bytes *out)
{
    const int32_t pair[2] = { last, id };
    tx_bytes before = { 0 }, both = { 0 };
    tx_status st;
    TX_GOTO(tx_tokenizer_decode(t, pair, 1, &before));
    TX_GOTO(tx_tokenizer_decode(t, pair, 2, &both));
    if (both.n < before.n || (before.n && memcmp(both.data, before.data, before.n) != 0))
        st = tx_tokenizer_decode(t, &id, 1, out); /* it changed the one before, which is out: it stands for itself */
    else
        st = tx__bytes_append(out, both.data + before.n, both.n - before.n);
out:
    tx_bytes_free(&before);
    tx_bytes_free(&both);
    return st;
}

tx_status tx_tokenizer_decode_next(const tx_tokenizer *t, int32_t last, int32_t id, tx_bytes *out)
{
    if (t->kind->next && id >= 0 && id < t->vocab_size) return t->kind->next(t, id, out);
    return last >= 0 ? decode_after(t, last, id, out) : tx_tokenizer_decode(t, &id, 1, out);
}

/* ---- display ---- */

tx_status tx_text_replace_invalid(const char *text, size_t n_bytes, tx_bytes *out)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t good = 0; /* start of the valid bytes not yet appended */
    for (size_t i = 0; i < n_bytes;) {
        uint32_t c;
        size_t len = tx__utf8_next(p + i, n_bytes - i, &c);
        if (c == TX__NO_CHAR) {
            TX_TRY(tx__bytes_append(out, p + good, i - good));
            TX_TRY(tx__bytes_append(out, "\xEF\xBF\xBD", 3));
            good = i + len;
        }
        i += len;
    }
    return tx__bytes_append(out, p + good, n_bytes - good);
}
