/* tokenizer_gpt2.c - GPT-2's byte-level BPE: cut the text into pieces, look each up, merge those that are no token. */
#include <string.h>

#include "base/alloc.h"
#include "token/bpe.h"
#include "token/tokenizer.h"
#include "token/unicode_split.h"

typedef struct gpt2_tokenizer {
    tx_tokenizer base;
    tx__vocab vocab;
    size_t longest; /* bytes of the longest token that can be found */
} gpt2_tokenizer;

static tx_status gpt2_encode(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out)
{
    const gpt2_tokenizer *g = (const gpt2_tokenizer *)t;
    tx__bpe_scratch scratch = { 0 };
    tx_status st = TX_OK;
    for (size_t at = 0, len; at < n; at += len) {
        len = tx__split_next(text + at, n - at);
        TX_GOTO(tx__ids_reserve(out, len));
        int64_t whole = len <= g->longest ? tx__strings_find(&g->vocab.token, text + at, len) : -1;
        if (whole >= 0) {
            out->id[out->n++] = (int32_t)whole;
            continue;
        }
        size_t n_ids = len;
        TX_GOTO(tx__bpe_merge(&g->vocab, &scratch, text + at, out->id + out->n, &n_ids));
        out->n += n_ids;
    }
out:
    tx__bpe_scratch_free(&scratch);
    return st;
}

static tx_status gpt2_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    const gpt2_tokenizer *g = (const gpt2_tokenizer *)t;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *bytes = tx__strings_at(&g->vocab.token, (uint32_t)ids[i], &len);
        TX_TRY(tx__bytes_append(out, bytes, len));
    }
    return TX_OK;
}

static int32_t gpt2_special(const tx_tokenizer *t, const char *name)
{
    return strcmp(name, TX__EOD_TOKEN) ? -1 : t->eod;
}

static void gpt2_close(tx_tokenizer *t)
{
    gpt2_tokenizer *g = (gpt2_tokenizer *)t;
    tx__vocab_free(&g->vocab);
    tx_free(g);
}

/* A piece that is a token need not become it: merges can go another way, or never reach it (special tokens, leftovers
 * of other tools). Only tokens whose own bytes merge back into them stay findable; then a hit is the answer. */
static tx_status keep_reachable(gpt2_tokenizer *g)
{
    tx_status st;
    tx__strings *token = &g->vocab.token;
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
        TX_GOTO(tx__bpe_merge(&g->vocab, &scratch, (const unsigned char *)bytes, id, &n));
        keep[i] = n == 1 && id[0] == (int32_t)i;
        if (keep[i] && len > g->longest) g->longest = len;
    }
    tx__strings_hide(token, keep);
out:
    tx__bpe_scratch_free(&scratch);
    tx_free(keep);
    tx_free(id);
    return st;
}

tx_status tx_tokenizer_open_gpt2(tx_tokenizer **out, const char *vocab_file, const char *merge_file)
{
    static const tx__tokenizer_kind kind = { gpt2_encode, gpt2_decode, gpt2_special, gpt2_close };
    tx_status st;
    gpt2_tokenizer *g = NULL;
    TX_GOTO(tx_alloc(&g, 1, sizeof *g, "a tokenizer"));
    TX_GOTO(tx__vocab_load(&g->vocab, vocab_file, merge_file));
    TX_GOTO(keep_reachable(g));
    g->base = (tx_tokenizer){ .kind = &kind, .vocab_size = (int32_t)g->vocab.token.n, .eod = g->vocab.eod };
    *out = &g->base;
    return TX_OK;
out:
    if (g) gpt2_close(&g->base);
    return st;
}
