/* byte_bpe.c - pieces to ids. */
#include "token/byte_bpe.h"

#include "base/alloc.h"
#include "token/tokenizer.h"

enum { BATCH = 128, MAX_CUTS = BATCH + TX__BLOCK }; /* pieces */
enum { ROOM = TX__BLOCK + sizeof(uint64_t[2]) };    /* bytes that are read from a block's start on */

/* ---- text to ids ---- */

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

/* Pieces of a batch that the cache did not have. Their ids are found for all of them at the end of the batch; until
 * then each has room in the output for one id a byte. */
typedef struct missing {
    const cut *cut[MAX_CUTS];
    tx__bpe_piece piece[MAX_CUTS];
    size_t n;
} missing;

static void remember(tx__piece_cache *cache, const cut *c, const int32_t *id, size_t n_ids)
{
    if (c->n <= TX__PIECE_MAX) tx__piece_cache_add(cache, c->key, c->piece, c->n, id, n_ids);
}

/* Of a tokenizer where a token goes before merges: whether the piece is one. */
static bool is_token(const tx__byte_bpe *b, const cut *c, int32_t *id)
{
    int64_t whole = b->ignore_merges ? tx__strings_find(&b->vocab.token, c->piece, c->n) : -1;
    if (whole >= 0) *id = (int32_t)whole;
    return whole >= 0;
}

/* Merges what is missing in `out`, and moves what follows to its ids. */
static tx_status fill_in(const tx__byte_bpe *b, tx__piece_cache *cache, tx__bpe_scratch *scratch, missing *m,
                         tx_ids *out)
{
    tx__bpe_piece *p = m->piece, *end = p + m->n;
    int32_t *to = p->id, *room_end;
    TX_TRY(tx__bpe_merge(&b->merges, scratch, p, m->n));
    for (size_t k = 0; p < end; p++, k++) {
        remember(cache, m->cut[k], p->id, p->n_ids);
        memmove(to, p->id, p->n_ids * sizeof *to);
        to += p->n_ids;
        room_end = p->id + p->n;
        size_t n_follow = (size_t)((p + 1 < end ? p[1].id : out->id + out->n) - room_end);
        memmove(to, room_end, n_follow * sizeof *to);
        to += n_follow;
    }
    out->n = (size_t)(to - out->id);
    return TX_OK;
}

static tx_status encode_batch(const tx__byte_bpe *b, tx__piece_cache *cache, tx__bpe_scratch *scratch, const cut *cuts,
                              size_t n_cuts, tx_ids *out)
{
    missing m;
    m.n = 0;
    for (const cut *c = cuts; c < cuts + n_cuts; c++) {
        int32_t *id = out->id + out->n;
        size_t n_ids = tx__piece_cache_find(cache, c->key, c->piece, c->n, id);
        if (!n_ids && is_token(b, c, id)) {
            n_ids = 1;
            remember(cache, c, id, n_ids);
        } else if (!n_ids) {
            m.cut[m.n] = c;
            m.piece[m.n++] = (tx__bpe_piece){ .text = c->piece, .n = c->n, .id = id };
            n_ids = c->n;
        }
        out->n += n_ids;
    }
    return m.n ? fill_in(b, cache, scratch, &m, out) : TX_OK;
}

tx_status tx__byte_bpe_encode_with(const tx__byte_bpe *b, tx__piece_cache *cache, tx__bpe_scratch *scratch,
                                   const unsigned char *text, size_t n, tx_ids *out)
{
    cut cuts[MAX_CUTS];
    TX_TRY(tx__ids_reserve(out, n / 3)); /* fewer steps of growing */
    for (size_t at = 0, n_bytes; at < n; at += n_bytes) {
        size_t n_cuts = cut_pieces(b, cache, cuts, text + at, n - at, &n_bytes);
        TX_TRY(tx__ids_reserve(out, n_bytes + TX__PIECE_INLINE));
        TX_TRY(encode_batch(b, cache, scratch, cuts, n_cuts, out));
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
