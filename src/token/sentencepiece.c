/* sentencepiece.c - words to ids through the cache, ids to text, and the model's own samples.
 *
 *  A unigram model's sums run through the whole text and are rounded, so of two equally good ways through a word the
 * one that is taken may depend on the text before it. The cache therefore keeps with a word how large a sum it is good
 * for (tx__unigram_limit); where the sum may be larger, the word is cut again, with the sum that it has there. */
#include "token/sentencepiece.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "token/tokenizer.h"
#include "token/vocab.h"

#define BATCH 32 /* words */

/* ---- memory between texts, each for one thread at a time ---- */

enum { N_WORKS = 16, LARGEST_KEPT = 8 << 20 /* bytes of a normalized text */ };

typedef struct work {
    tx__sp_scratch s;
    tx_str normal;
} work;

struct tx__sp_works {
    _Atomic(work *) idle[N_WORKS]; /* NULL: none yet, or in use */
};

static void free_work(work *w)
{
    if (!w) return;
    tx__sp_scratch_free(&w->s);
    tx_str_free(&w->normal);
    tx_free(w);
}

static tx_status take_work(const tx__sp *t, work **out)
{
    for (int i = 0; i < N_WORKS; i++)
        if (atomic_load_explicit(&t->works->idle[i], memory_order_relaxed) &&
            (*out = atomic_exchange(&t->works->idle[i], NULL)))
            return TX_OK;
    return tx_alloc(out, 1, sizeof **out, "a tokenizer");
}

static void give_work(const tx__sp *t, work *w)
{
    for (int i = 0; i < N_WORKS && w->normal.cap <= LARGEST_KEPT; i++) {
        work *none = NULL;
        if (atomic_compare_exchange_strong(&t->works->idle[i], &none, w)) return;
    }
    free_work(w);
}

/* ---- spans to ids ---- */

typedef struct encoding {
    const tx__sp *t;
    tx_ids *out;
    work *work;
    tx__piece_cache *cache;
    bool after_unknown; /* which the next unknown character joins */
    double sum;         /* of the ids before number n_summed */
    size_t n_summed;
} encoding;

static tx_status put_spans(encoding *e, const unsigned char *text)
{
    const tx__sp_model *m = &e->t->model;
    const tx__unigram_scratch *w = &e->work->s.ways;
    size_t n_bytes = 0;
    for (size_t i = 0; i < w->n_spans; i++) n_bytes += w->span[i].n;
    if (!n_bytes) return TX_OK;
    TX_TRY(tx__ids_reserve(e->out, n_bytes));
    int32_t *id = e->out->id + e->out->n;
    for (size_t i = 0; i < w->n_spans; text += w->span[i++].n) {
        bool unknown = w->span[i].id == m->unk;
        if (!unknown)
            *id++ = w->span[i].id;
        else if (m->byte_fallback)
            for (uint32_t k = 0; k < w->span[i].n; k++) *id++ = m->byte_id[text[k]];
        else if (!e->after_unknown)
            *id++ = m->unk;
        e->after_unknown = unknown;
    }
    e->out->n = (size_t)(id - e->out->id);
    return TX_OK;
}

/* ---- sums of a unigram model ---- */

static bool has_sums(const encoding *e)
{
    return e->t->model.kind == TX__SP_UNIGRAM;
}

/* Ids that are waiting to be summed are those of known pieces, one for one: words with others are summed at once. */
static void sum_up(encoding *e)
{
    for (; e->n_summed < e->out->n; e->n_summed++)
        e->sum = tx__unigram_add(&e->t->cut.unigram, e->sum, e->out->id[e->n_summed]);
}

static bool is_within(encoding *e, float limit)
{
    double waiting = (double)(e->out->n - e->n_summed) * e->t->cut.unigram.largest;
    if (fabs(e->sum) + waiting <= (double)limit) return true;
    sum_up(e);
    return fabs(e->sum) <= (double)limit;
}

/* Cuts a word with the sum that the text has there. */
static tx_status cut_in_place(encoding *e, const unsigned char *text, size_t n)
{
    double margin;
    if (has_sums(e)) sum_up(e);
    TX_TRY(tx__sp_cut(&e->t->cut, &e->work->s, text, n, &e->sum, &margin));
    TX_TRY(put_spans(e, text));
    e->n_summed = e->out->n;
    return TX_OK;
}

static bool knows_all(const encoding *e)
{
    for (size_t i = 0; i < e->work->s.ways.n_spans; i++)
        if (e->work->s.ways.span[i].id == e->t->model.unk) return false;
    return true;
}

/* ---- words ---- */

/* A word that the cache does not have, and for which it takes the ids, with the limit after them. */
static tx_status encode_new(encoding *e, tx__piece_key key, const unsigned char *text, size_t n)
{
    double sum = 0, margin;
    size_t first = e->out->n, n_chars = 0;
    TX_TRY(tx__sp_cut(&e->t->cut, &e->work->s, text, n, &sum, &margin));
    if (!knows_all(e)) return has_sums(e) ? cut_in_place(e, text, n) : put_spans(e, text);
    for (size_t i = 0; i < n; i++) n_chars += (text[i] & 0xC0) != 0x80;
    float limit = has_sums(e) ? tx__unigram_limit(&e->t->cut.unigram, n_chars, margin) : INFINITY;
    TX_TRY(put_spans(e, text));
    TX_TRY(tx__ids_reserve(e->out, 1));
    memcpy(e->out->id + e->out->n, &limit, sizeof limit);
    tx__piece_cache_add(e->cache, key, text, n, e->out->id + first, e->out->n - first + 1);
    if (!has_sums(e)) return TX_OK;
    size_t end = e->out->n;
    e->out->n = first; /* the sum is that before the word */
    if (is_within(e, limit)) {
        e->out->n = end;
        return TX_OK;
    }
    return cut_in_place(e, text, n);
}

static tx_status encode_word(encoding *e, tx__piece_key key, const unsigned char *text, size_t n)
{
    float limit;
    size_t n_ids = tx__piece_cache_find(e->cache, key, text, n, e->out->id + e->out->n);
    if (!n_ids) return encode_new(e, key, text, n);
    memcpy(&limit, e->out->id + e->out->n + n_ids - 1, sizeof limit);
    if (limit < INFINITY && !is_within(e, limit)) return cut_in_place(e, text, n);
    e->out->n += n_ids - 1;
    e->after_unknown = false;
    return TX_OK;
}

typedef struct word {
    const unsigned char *text;
    size_t n;
    tx__piece_key key; /* unless n > TX__PIECE_MAX */
} word;

static tx_status encode_words(encoding *e, const unsigned char *text, size_t n)
{
    word words[BATCH];
    for (size_t at = 0; at < n;) {
        size_t k = 0;
        for (; k < BATCH && at < n; k++) {
            word *w = &words[k];
            *w = (word){ .text = text + at, .n = tx__sp_word(&e->t->cut, text + at, n - at) };
            if (w->n <= TX__PIECE_MAX) {
                w->key = tx__piece_key_of(w->text, w->n, n - at);
                __builtin_prefetch(tx__piece_row(e->cache, w->key));
            }
            at += w->n;
        }
        for (size_t i = 0; i < k; i++) {
            const word *w = &words[i];
            /* the cache's ids and the limit, and what it writes beyond them */
            TX_TRY(tx__ids_reserve(e->out, w->n + 1 + TX__PIECE_INLINE));
            if (w->n <= TX__PIECE_MAX)
                TX_TRY(encode_word(e, w->key, w->text, w->n));
            else
                TX_TRY(cut_in_place(e, w->text, w->n));
        }
    }
    return TX_OK;
}

tx_status tx__sp_encode(const tx__sp *t, const unsigned char *text, size_t n, tx_ids *out)
{
    encoding e = { .t = t, .out = out, .n_summed = out->n };
    tx_status st;
    TX_TRY(take_work(t, &e.work));
    TX_GOTO(tx__sp_normalize(&t->normal, text, n, &e.work->normal));
    if (t->cut.words == TX__SP_WHOLE) {
        double margin;
        TX_GOTO(
            tx__sp_cut(&t->cut, &e.work->s, (unsigned char *)e.work->normal.data, e.work->normal.len, &e.sum, &margin));
        TX_GOTO(put_spans(&e, (unsigned char *)e.work->normal.data));
        goto out;
    }
    TX_GOTO(tx__piece_caches_take(t->caches, &e.cache));
    st = encode_words(&e, (unsigned char *)e.work->normal.data, e.work->normal.len);
    tx__piece_caches_give(t->caches, e.cache);
out:
    give_work(t, e.work);
    return st;
}

/* ---- ids to text ---- */

/* Bytes of byte pieces: each that is no UTF-8 becomes U+FFFD. */
static tx_status put_bytes(tx_str *out, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t len = tx__utf8_next(bytes + i, n - i, &c);
        if (c == TX__NO_CHAR) {
            TX_TRY(tx_str_append(out, "\xEF\xBF\xBD", 3));
            i++;
            continue;
        }
        TX_TRY(tx_str_append(out, bytes + i, len));
        i += len;
    }
    return TX_OK;
}

/* A piece with its blanks. *blank: whether the one blank that encoding put in front has been taken away. */
static tx_status put_piece(const tx__sp *t, tx_str *out, int32_t id, bool at_start, bool *blank)
{
    const tx__sp_rules *r = &t->model.normalizer;
    size_t n;
    const char *p = tx__strings_at(&t->model.piece, (uint32_t)id, &n);
    *blank = false;
    if (t->model.type[id] == TX__SP_CONTROL) return TX_OK;
    if (t->model.type[id] == TX__SP_UNKNOWN) {
        const tx__sp_text *unk = &t->model.unk_surface;
        return tx_str_append(out, unk->bytes, strnlen(unk->bytes, unk->n));
    }
    if (at_start && (r->add_dummy_prefix || r->remove_extra_whitespaces) && n >= 3 && !memcmp(p, TX__SP_BLANK, 3)) {
        *blank = !r->remove_extra_whitespaces;
        p += 3;
        n -= 3;
    }
    for (size_t i = 0; i < n;) {
        bool is_blank = n - i >= 3 && !memcmp(p + i, TX__SP_BLANK, 3);
        TX_TRY(tx_str_append(out, is_blank ? " " : p + i, 1));
        i += is_blank ? 3 : 1;
    }
    return TX_OK;
}

static unsigned char byte_of(const tx__sp *t, int32_t id)
{
    unsigned char byte = 0;
    while (t->model.byte_id[byte] != id) byte++;
    return byte;
}

static tx_status put_pieces(const tx__sp *t, tx_str *out, const int32_t *ids, size_t n)
{
    tx_status st = TX_OK;
    tx_str bytes = { 0 };
    bool at_start = true, blank = false;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && t->model.type[ids[i]] == TX__SP_BYTE) {
            unsigned char byte = byte_of(t, ids[i]);
            TX_GOTO(tx_str_append(&bytes, &byte, 1));
            continue;
        }
        TX_GOTO(put_bytes(out, (unsigned char *)bytes.data, bytes.len));
        bytes.len = 0;
        if (blank || out->len) at_start = false;
        if (i < n) TX_GOTO(put_piece(t, out, ids[i], at_start, &blank));
    }
out:
    tx_str_free(&bytes);
    return st;
}

tx_status tx__sp_decode(const tx__sp *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    tx_str text = { 0 }, back = { 0 };
    tx_status st;
    TX_GOTO(put_pieces(t, &text, ids, n));
    if (t->model.denormalizes) {
        TX_GOTO(tx__sp_normalize(&t->denormal, (unsigned char *)text.data, text.len, &back));
        TX_GOTO(tx__bytes_append(out, back.data, back.len));
    } else {
        TX_GOTO(tx__bytes_append(out, text.data, text.len));
    }
out:
    tx_str_free(&text);
    tx_str_free(&back);
    return st;
}

tx_status tx__sp_decode_next(const tx__sp *t, int32_t id, tx_bytes *out)
{
    tx_str text = { 0 };
    bool blank;
    if (t->model.type[id] == TX__SP_BYTE) {
        unsigned char byte = byte_of(t, id);
        return tx__bytes_append(out, &byte, 1);
    }
    tx_status st = put_piece(t, &text, id, false, &blank);
    if (!st) st = tx__bytes_append(out, text.data, text.len);
    tx_str_free(&text);
    return st;
}

/* ---- samples ---- */

/* The pieces that a sample's text gives, with blanks between. */
static tx_status pieces_of(const tx__sp *t, tx__sp_text text, tx_str *out)
{
    const tx__sp_model *m = &t->model;
    tx__sp_scratch s = { 0 };
    tx_str normal = { 0 };
    tx_status st;
    double sum = 0, margin;
    bool after_unknown = false;
    TX_GOTO(tx__sp_normalize(&t->normal, (const unsigned char *)text.bytes, text.n, &normal));
    TX_GOTO(tx__sp_cut(&t->cut, &s, (unsigned char *)normal.data, normal.len, &sum, &margin));
    const char *p = normal.data;
    for (size_t i = 0; i < s.ways.n_spans; p += s.ways.span[i++].n) {
        uint32_t n = s.ways.span[i].n;
        bool unknown = s.ways.span[i].id == m->unk;
        if (unknown && m->byte_fallback)
            for (uint32_t k = 0; k < n; k++)
                TX_GOTO(tx_str_printf(out, "%s<0x%02X>", out->len ? " " : "", (unsigned char)p[k]));
        else {
            TX_GOTO(tx_str_puts(out, out->len && !(unknown && after_unknown) ? " " : ""));
            TX_GOTO(tx_str_append(out, p, n));
        }
        after_unknown = unknown;
    }
out:
    tx__sp_scratch_free(&s);
    tx_str_free(&normal);
    return st;
}

/* What the pieces of a unigram model, with blanks between, add up to. */
static float sum_of(const tx__sp *t, const char *pieces, size_t n)
{
    const tx__unigram *u = &t->cut.unigram;
    float sum = 0;
    for (size_t at = 0, len; at <= n; at += len + 1) {
        const char *blank = at < n ? memchr(pieces + at, ' ', n - at) : NULL;
        len = blank ? (size_t)(blank - pieces) - at : n - at;
        int64_t id = tx__strings_find(&t->model.piece, pieces + at, len);
        sum = (float)(sum + (id < 0 || id == u->unk ? u->unk_score : u->score[id]));
    }
    return sum;
}

static tx_status check_samples(const tx__sp *t, const char *file)
{
    tx_status st = TX_OK;
    tx_str have = { 0 };
    for (size_t i = 0; i < t->model.n_samples; i++) {
        const tx__sp_sample *s = &t->model.sample[i];
        have.len = 0;
        TX_GOTO(pieces_of(t, s->input, &have));
        if (have.len == s->expected.n && (!have.len || !memcmp(have.data, s->expected.bytes, have.len))) continue;
        if (t->model.kind == TX__SP_UNIGRAM && fabsf(sum_of(t, have.data ? have.data : "", have.len) -
                                                     sum_of(t, s->expected.bytes, s->expected.n)) <= 1e-7f)
            continue;
        st = TX_FAIL(TX_ERR_FORMAT, "%s: self_test_data.samples[%zu], \"%s\", gives \"%s\", not the expected \"%s\"",
                     file, i, tx__show(s->input.bytes, s->input.n).text,
                     tx__show(have.data ? have.data : "", have.len).text,
                     tx__show(s->expected.bytes, s->expected.n).text);
        goto out;
    }
out:
    tx_str_free(&have);
    return st;
}

/* ---- life ---- */

static tx_status open_normalizers(tx__sp *t, const char *file)
{
    const tx__sp_model *m = &t->model;
    char where[4400];
    snprintf(where, sizeof where, "%.4200s: normalizer_spec.precompiled_charsmap", file);
    TX_TRY(tx__sp_normalizer_open(&t->normal, &m->normalizer, m->whitespace_as_suffix,
                                  t->cut.any_user ? &t->cut.user : NULL, where));
    if (!m->denormalizes) return TX_OK;
    snprintf(where, sizeof where, "%.4200s: denormalizer_spec.precompiled_charsmap", file);
    return tx__sp_normalizer_open(&t->denormal, &m->denormalizer, false, NULL, where);
}

tx_status tx__sp_open(tx__sp *t, const char *file)
{
    tx_status st;
    TX_TRY(tx__sp_model_read(&t->model, file));
    TX_GOTO(tx__sp_cutter_open(&t->cut, &t->model, file));
    TX_GOTO(open_normalizers(t, file));
    TX_GOTO(tx__piece_caches_create(&t->caches));
    TX_GOTO(tx_alloc(&t->works, 1, sizeof *t->works, "a tokenizer"));
    TX_GOTO(check_samples(t, file));
out:
    if (st) tx__sp_close(t);
    return st;
}

void tx__sp_close(tx__sp *t)
{
    tx__piece_caches_destroy(t->caches);
    for (int i = 0; t->works && i < N_WORKS; i++) free_work(atomic_load(&t->works->idle[i]));
    tx_free(t->works);
    tx__sp_normalizer_close(&t->normal);
    tx__sp_normalizer_close(&t->denormal);
    tx__sp_cutter_close(&t->cut);
    tx__sp_model_free(&t->model);
    *t = (tx__sp){ 0 };
}
