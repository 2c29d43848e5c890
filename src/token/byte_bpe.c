/* byte_bpe.c - pieces to ids. */
#include "token/byte_bpe.h"

#include "base/alloc.h"
#include "token/bpe.h"
#include "token/tokenizer.h"

tx_status tx__byte_bpe_encode(const tx__byte_bpe *b, const unsigned char *text, size_t n, tx_ids *out)
{
    tx__bpe_scratch scratch = { 0 };
    tx_status st = TX_OK;
    for (size_t at = 0, len; at < n; at += len) {
        len = b->split(text + at, n - at);
        TX_GOTO(tx__ids_reserve(out, len));
        int64_t whole = len <= b->longest ? tx__strings_find(&b->vocab.token, text + at, len) : -1;
        if (whole >= 0) {
            out->id[out->n++] = (int32_t)whole;
            continue;
        }
        size_t n_ids = len;
        TX_GOTO(tx__bpe_merge(&b->vocab, &scratch, text + at, out->id + out->n, &n_ids));
        out->n += n_ids;
    }
out:
    tx__bpe_scratch_free(&scratch);
    return st;
}

/* A piece that is a token need not become it: merges can go another way, or never reach it (special tokens, leftovers
 * of other tools). Only tokens whose own bytes merge back into them stay findable; then a hit is the answer. */
tx_status tx__byte_bpe_prepare(tx__byte_bpe *b)
{
    tx_status st;
    tx__strings *token = &b->vocab.token;
    uint8_t *keep = NULL;
    int32_t *id = NULL;
    tx__bpe_scratch scratch = { 0 };
    size_t longest = 0, n;
    for (uint32_t i = 0; i < token->n; i++) {
        tx__strings_at(token, i, &n);
        if (n > longest) longest = n;
    }
    TX_GOTO(tx_alloc(&keep, token->n, 1, "a vocabulary"));
    TX_GOTO(tx_alloc(&id, longest, sizeof *id, "a token"));
    for (uint32_t i = 0; i < token->n; i++) {
        const char *bytes = tx__strings_at(token, i, &n);
        size_t len = n;
        TX_GOTO(tx__bpe_merge(&b->vocab, &scratch, (const unsigned char *)bytes, id, &n));
        keep[i] = b->ignore_merges || (n == 1 && id[0] == (int32_t)i);
        if (keep[i] && len > b->longest) b->longest = len;
    }
    tx__strings_hide(token, keep);
out:
    tx__bpe_scratch_free(&scratch);
    tx_free(keep);
    tx_free(id);
    return st;
}

void tx__byte_bpe_free(tx__byte_bpe *b)
{
    tx__vocab_free(&b->vocab);
}
