/* tokenizer_gpt2.c - GPT-2's byte-level BPE from vocab.json and merges.txt. */
#include <string.h>

#include "base/alloc.h"
#include "token/byte_bpe.h"
#include "token/tokenizer.h"
#include "token/unicode_split.h"

typedef struct gpt2_tokenizer {
    tx_tokenizer base;
    tx__byte_bpe bpe;
} gpt2_tokenizer;

static tx_status gpt2_encode(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out)
{
    return tx__byte_bpe_encode(&((const gpt2_tokenizer *)t)->bpe, text, n, out);
}

static tx_status gpt2_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    const gpt2_tokenizer *g = (const gpt2_tokenizer *)t;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *bytes = tx__strings_at(&g->bpe.vocab.token, (uint32_t)ids[i], &len);
        TX_TRY(tx__bytes_append(out, bytes, len));
    }
    return TX_OK;
}

/* In angle brackets, as <|endoftext|> and <fim_prefix>: no merge makes such a token in a vocabulary that is in use. */
static int32_t gpt2_special(const tx_tokenizer *t, const char *name)
{
    size_t n = strlen(name);
    if (n < 3 || name[0] != '<' || name[n - 1] != '>') return -1;
    return (int32_t)tx__strings_find(&((const gpt2_tokenizer *)t)->bpe.vocab.token, name, n);
}

static void gpt2_hash(const tx_tokenizer *t, XXH3_state_t *s)
{
    const tx__byte_bpe *b = &((const gpt2_tokenizer *)t)->bpe;
    uint64_t merges = tx__merges_hash(&b->merges);
    for (uint32_t i = 0; i < b->vocab.token.n; i++) {
        size_t n;
        const char *token = tx__strings_at(&b->vocab.token, i, &n);
        tx__hash_token(s, token, n);
    }
    XXH3_128bits_update(s, &merges, sizeof merges);
}

static void gpt2_close(tx_tokenizer *t)
{
    gpt2_tokenizer *g = (gpt2_tokenizer *)t;
    tx__byte_bpe_free(&g->bpe);
    tx_free(g);
}

tx_status tx_tokenizer_open_gpt2(tx_tokenizer **out, const char *vocab_file, const char *merge_file)
{
    tx_status st;
    gpt2_tokenizer *g = NULL;
    TX_GOTO(tx_alloc(&g, 1, sizeof *g, "a tokenizer"));
    TX_GOTO(tx__vocab_load(&g->bpe.vocab, vocab_file, merge_file));
    g->bpe.split = tx__split_next;
    TX_GOTO(tx__byte_bpe_prepare(&g->bpe));
    g->base = (tx_tokenizer){ .kind = &tx__tokenizer_gpt2,
                              .vocab_size = (int32_t)g->bpe.vocab.token.n,
                              .eod = g->bpe.vocab.eod };
    *out = &g->base;
    return TX_OK;
out:
    if (g) gpt2_close(&g->base);
    return st;
}

static tx_status gpt2_open(tx_tokenizer **out, const tx_tokenizer_files *from)
{
    return tx_tokenizer_open_gpt2(out, from->vocab_file, from->merge_file);
}

const tx_tokenizer_kind tx__tokenizer_gpt2 = { .open = gpt2_open,
                                               .learner = &tx__learner_bpe,
                                               .encode = gpt2_encode,
                                               .decode = gpt2_decode,
                                               .special = gpt2_special,
                                               .hash = gpt2_hash,
                                               .close = gpt2_close };
