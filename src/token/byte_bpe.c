/* byte_bpe.c - pieces to ids. */
#include "token/byte_bpe.h"

#include "base/alloc.h"
#include "token/tokenizer.h"

enum { BATCH = 64, ROOM = TX__BLOCK + sizeof(uint64_t[2]) }; /* pieces; bytes that are read from a block's start on */

/* ---- text to ids ---- */

static tx_status encode_piece(const tx__byte_bpe *b, tx__bpe_scratch *scratch, const unsigned char *piece, size_t n,
                              int32_t *id, size_t *n_ids)
{
    int64_t whole = b->ignore_merges ? tx__strings_find(&b->vocab.token, piece, n) : -1;
    if (whole < 0) {
        *n_ids = n;
        return tx__bpe_merge(&b->merges, scratch, piece, id, n_ids);
    }
    *id = (int32_t)whole;
    *n_ids = 1;
    return TX_OK;
}

/* A piece between being cut off and becoming ids: by then its row of the cache has come closer. */
typedef struct cut {
    const unsigned char *piece;
    size_t n;
    tx__piece_key key; /* of one of more than TX__PIECE_MAX bytes it is that of none */
} cut;

static inline void put_cut(const tx__piece_cache *cache, cut *c, const unsigned char *piece, size_t n, size_t room)
{
    *c = (cut){ .piece = piece, .n = n };
    if (n > TX__PIECE_MAX) return;
    c->key = tx__piece_key_of(piece, n, room);
    __builtin_prefetch(tx__piece_row(cache, c->key));
}

/* Places after 0 where pieces of text[0..n) begin, 0: not known. */
static inline uint64_t starts_of(const tx__byte_bpe *b, const unsigned char *text, size_t n)
{
    tx__byte_classes classes;
    if (n < ROOM || !b->starts || (text[0] | text[1]) >= 0x80) return 0;
    b->classify(&classes, text);
    return b->starts(&classes, text);
}

/* Cuts off BATCH pieces or up to a block more; fewer only at the end of the text. */
static size_t cut_pieces(const tx__byte_bpe *b, const tx__piece_cache *cache, cut *cuts, const unsigned char *text,
                         size_t n, size_t *n_bytes)
{
    size_t k = 0, at = 0;
    while (k < BATCH && at < n) {
        uint64_t starts = starts_of(b, text + at, n - at);
        const unsigned char *block = text + at;
        if (!starts) {
            size_t len = b->split(block, n - at);
            put_cut(cache, &cuts[k++], block, len, n - at);
            at += len;
        }
        for (size_t from = 0, end; starts; starts &= starts - 1, from = end) {
            end = (size_t)__builtin_ctzll(starts);
            put_cut(cache, &cuts[k++], block + from, end - from, ROOM);
            at += end - from;
        }
    }
    *n_bytes = at;
    return k;
}

/* Of a piece that the cache does not have. */
static tx_status encode_new(const tx__byte_bpe *b, tx__piece_cache *cache, tx__bpe_scratch *scratch, const cut *c,
                            int32_t *id, size_t *n_ids)
{
    TX_TRY(encode_piece(b, scratch, c->piece, c->n, id, n_ids));
    if (c->n <= TX__PIECE_MAX) tx__piece_cache_add(cache, c->key, c->piece, c->n, id, *n_ids);
    return TX_OK;
}

tx_status tx__byte_bpe_encode_with(const tx__byte_bpe *b, tx__piece_cache *cache, tx__bpe_scratch *scratch,
                                   const unsigned char *text, size_t n, tx_ids *out)
{
    cut cuts[BATCH + TX__BLOCK];
    for (size_t at = 0, n_bytes, n_ids; at < n; at += n_bytes) {
        size_t n_cuts = cut_pieces(b, cache, cuts, text + at, n - at, &n_bytes);
        TX_TRY(tx__ids_reserve(out, n_bytes + TX__PIECE_INLINE));
        for (size_t k = 0; k < n_cuts; k++) {
            const cut *c = &cuts[k];
            n_ids = tx__piece_cache_find(cache, c->key, c->piece, c->n, out->id + out->n);
            if (!n_ids) TX_TRY(encode_new(b, cache, scratch, c, out->id + out->n, &n_ids));
            out->n += n_ids;
        }
    }
    return TX_OK;
}

tx_status tx__byte_bpe_encode(const tx__byte_bpe *b, const unsigned char *text, size_t n, tx_ids *out)
{
    tx__bpe_scratch scratch = { 0 };
    tx__piece_cache *cache;
    TX_TRY(tx__piece_caches_take(b->caches, &cache));
    tx_status st = tx__byte_bpe_encode_with(b, cache, &scratch, text, n, out);
    tx__piece_caches_give(b->caches, cache);
    tx__bpe_scratch_free(&scratch);
    return st;
}

/* ---- life ---- */

tx_status tx__byte_bpe_prepare(tx__byte_bpe *b)
{
    b->starts = tx__starts_of(b->split);
    b->classify = tx__classify_best();
    TX_TRY(tx__piece_caches_create(&b->caches));
    return tx__merges_build(&b->merges, &b->vocab);
}

void tx__byte_bpe_free(tx__byte_bpe *b)
{
    tx__piece_caches_destroy(b->caches);
    tx__merges_free(&b->merges);
    tx__vocab_free(&b->vocab);
}
