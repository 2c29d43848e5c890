/* json_model.c - BPE of characters, Unigram, WordPiece and WordLevel, as the tokenizers library has them. */
#include "token/json_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "token/json_part.h"
#include "token/tokenizer.h"

#define MARK "\u2581" /* SentencePiece's blank */

static tx_status push(tx_ids *out, int32_t id)
{
    TX_TRY(tx__ids_reserve(out, 1));
    out->id[out->n++] = id;
    return TX_OK;
}

static tx_status no_ids(const unsigned char *word, size_t n)
{
    return TX_FAIL(TX_ERR_ARG, "\"%s\" is not in the vocabulary, and the tokenizer has no token for what is unknown",
                   tx__show((const char *)word, n).text);
}

/* ---- BPE of characters ---- */

/* Symbols of a word before merges. */
typedef struct symbols {
    const tx__json_model *m;
    tx_ids *out;
    bool unknown; /* an unknown token waits for a symbol that is known, or for the end */
} symbols;

static tx_status flush_unknown(symbols *s)
{
    if (!s->unknown) return TX_OK;
    s->unknown = false;
    return push(s->out, s->m->unk);
}

/* Appends the byte tokens of text[0..n) if there is one for each. */
static tx_status push_bytes(const tx__json_model *m, const unsigned char *text, size_t n, tx_ids *out, bool *done)
{
    *done = m->byte_fallback;
    for (size_t i = 0; *done && i < n; i++) *done = m->byte_token[text[i]] >= 0;
    if (!*done) return TX_OK;
    TX_TRY(tx__ids_reserve(out, n));
    for (size_t i = 0; i < n; i++) out->id[out->n++] = m->byte_token[text[i]];
    return TX_OK;
}

/* One character with its prefix and suffix. An unknown token that waits stays behind byte tokens, as in the library. */
static tx_status add_symbol(symbols *s, const unsigned char *text, size_t n)
{
    const tx__json_model *m = s->m;
    int64_t id = tx__strings_find(&m->bpe.vocab.token, text, n);
    bool done;
    if (id >= 0) {
        TX_TRY(flush_unknown(s));
        return push(s->out, (int32_t)id);
    }
    TX_TRY(push_bytes(m, text, n, s->out, &done));
    if (done || m->unk < 0) return TX_OK; /* without a token for what is unknown, it is left out, as in the library */
    if (!m->fuse_unk) TX_TRY(flush_unknown(s));
    s->unknown = true;
    return TX_OK;
}

static tx_status bpe_word(const tx__json_model *m, tx__model_scratch *k, const unsigned char *word, size_t n,
                          tx_ids *out)
{
    symbols s = { .m = m, .out = out };
    size_t before = out->n, n_ids;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        const unsigned char *text = word + at;
        len = tx__utf8_next(text, n - at, &c);
        size_t n_text = len;
        if ((at && m->prefix.len) || (at + len == n && m->suffix.len)) {
            k->word.len = 0;
            if (at) TX_TRY(tx_str_append(&k->word, m->prefix.data, m->prefix.len));
            TX_TRY(tx_str_append(&k->word, text, len));
            if (at + len == n) TX_TRY(tx_str_append(&k->word, m->suffix.data, m->suffix.len));
            text = (const unsigned char *)k->word.data;
            n_text = k->word.len;
        }
        TX_TRY(add_symbol(&s, text, n_text));
    }
    TX_TRY(flush_unknown(&s));
    n_ids = out->n - before;
    if (!n_ids) return TX_OK;
    TX_TRY(tx__bpe_merge_ids(&m->bpe.merges, &k->bpe, out->id + before, &n_ids));
    out->n = before + n_ids;
    return TX_OK;
}

/* ---- Unigram ---- */

static tx_status unigram_word(const tx__json_model *m, tx__model_scratch *k, const unsigned char *word, size_t n,
                              tx_ids *out)
{
    double sum = 0;
    tx__unigram_scratch *s = &k->unigram;
    TX_TRY(tx__unigram_cut(&m->unigram, s, word, n, &sum, NULL));
    for (size_t i = 0, at = 0, len; i < s->n_spans; at += len) {
        bool done;
        int32_t id = s->span[i].id;
        len = s->span[i++].n;
        if (id != m->unigram.unk) {
            TX_TRY(push(out, id));
            continue;
        }
        while (i < s->n_spans && s->span[i].id == id) len += s->span[i++].n; /* what is unknown is fused */
        int64_t whole = tx__strings_find(&m->bpe.vocab.token, word + at, len);
        if (whole >= 0) {
            TX_TRY(push(out, (int32_t)whole));
            continue;
        }
        if (m->unk < 0) return no_ids(word + at, len);
        TX_TRY(push_bytes(m, word + at, len, out, &done));
        if (!done) TX_TRY(push(out, m->unk));
    }
    return TX_OK;
}

/* ---- WordPiece, WordLevel ---- */

static bool too_long(const tx__json_model *m, const unsigned char *word, size_t n)
{
    size_t chars = 0;
    uint32_t c;
    if (n <= m->max_chars) return false;
    for (size_t at = 0; at < n; at += tx__utf8_next(word + at, n - at, &c)) chars++;
    return chars > m->max_chars;
}

/* The longest token that text[0..n) begins with, after the prefix where the text goes on inside a word; *len are its
 * bytes of the text. -1: none. */
static tx_status longest_token(const tx__json_model *m, tx_str *key, bool inside, const unsigned char *text,
                               size_t *len, int64_t *id)
{
    size_t before = inside ? m->prefix.len : 0, most = m->longest > before ? m->longest - before : 0, n = *len;
    *id = -1;
    if (n > most)
        for (n = most; n && (text[n] & 0xC0) == 0x80;) n--;
    if (before) {
        key->len = 0;
        TX_TRY(tx_str_append(key, m->prefix.data, before));
        TX_TRY(tx_str_append(key, text, n));
        text = (const unsigned char *)key->data;
    }
    while (n) {
        *id = tx__strings_find(&m->bpe.vocab.token, text, before + n);
        *len = n;
        if (*id >= 0) break;
        for (n--; n && (text[before + n] & 0xC0) == 0x80;) n--;
    }
    return TX_OK;
}

static tx_status wordpiece_word(const tx__json_model *m, tx__model_scratch *k, const unsigned char *word, size_t n,
                                tx_ids *out)
{
    size_t before = out->n;
    bool whole = !too_long(m, word, n);
    for (size_t at = 0, len; whole && at < n; at += len) {
        int64_t id;
        len = n - at;
        TX_TRY(longest_token(m, &k->word, at > 0, word + at, &len, &id));
        whole = id >= 0;
        if (whole) TX_TRY(push(out, (int32_t)id));
    }
    if (whole) return TX_OK;
    out->n = before;
    return push(out, m->unk);
}

static tx_status word_level_word(const tx__json_model *m, const unsigned char *word, size_t n, tx_ids *out)
{
    int64_t id = tx__strings_find(&m->bpe.vocab.token, word, n);
    if (id < 0 && m->unk < 0) return no_ids(word, n);
    return push(out, id >= 0 ? (int32_t)id : m->unk);
}

/* ---- words, remembered ---- */

static tx_status encode_word(const tx__json_model *m, tx__model_scratch *s, const unsigned char *word, size_t n,
                             tx_ids *out)
{
    switch (m->kind) {
    case TX__M_BYTE_BPE:
        return tx__byte_bpe_encode_with(&m->bpe, s->cache, &s->bpe, word, n, out);
    case TX__M_BPE:
        return bpe_word(m, s, word, n, out);
    case TX__M_UNIGRAM:
        return unigram_word(m, s, word, n, out);
    case TX__M_WORDPIECE:
        return wordpiece_word(m, s, word, n, out);
    case TX__M_WORD_LEVEL:
        return word_level_word(m, word, n, out);
    }
    return TX_OK;
}

enum { MOST = 1024 }; /* ids that are copied from the cache: more than a word of 255 bytes ever has */

static tx_status encode_cached(const tx__json_model *m, tx__model_scratch *s, const unsigned char *word, size_t n,
                               tx_ids *out)
{
    if (n > TX__PIECE_MAX) return encode_word(m, s, word, n, out);
    tx__piece_key key = tx__piece_key_of(word, n, n);
    size_t before = out->n, n_ids;
    TX_TRY(tx__ids_reserve(out, MOST));
    out->n += tx__piece_cache_find(s->cache, key, word, n, out->id + before);
    if (out->n > before) return TX_OK;
    TX_TRY(encode_word(m, s, word, n, out));
    n_ids = out->n - before;
    if (n_ids && n_ids <= MOST - TX__PIECE_INLINE) tx__piece_cache_add(s->cache, key, word, n, out->id + before, n_ids);
    return TX_OK;
}

/* The end of the part of word[at..n) that no merge joins to what follows: before a mark that follows something else. */
static size_t part_end(const unsigned char *word, size_t n, size_t at)
{
    size_t len = strlen(MARK);
    while (at + len <= n && !memcmp(word + at, MARK, len)) at += len;
    const unsigned char *next = at < n ? memmem(word + at, n - at, MARK, len) : NULL;
    return next ? (size_t)(next - word) : n;
}

tx_status tx__model_encode(const tx__json_model *m, tx__model_scratch *s, const unsigned char *word, size_t n,
                           tx_ids *out)
{
    if (m->kind == TX__M_BYTE_BPE) return encode_word(m, s, word, n, out);
    if (m->kind == TX__M_BPE && m->bpe.ignore_merges) {
        int64_t whole = tx__strings_find(&m->bpe.vocab.token, word, n);
        if (whole >= 0) return push(out, (int32_t)whole);
    }
    if (!m->by_marks) return encode_cached(m, s, word, n, out);
    for (size_t at = 0, end; at < n; at = end) {
        end = part_end(word, n, at);
        TX_TRY(encode_cached(m, s, word + at, end - at, out));
    }
    return TX_OK;
}

tx_status tx__model_begin(const tx__json_model *m, tx__model_scratch *s)
{
    *s = (tx__model_scratch){ 0 };
    return tx__piece_caches_take(m->bpe.caches, &s->cache);
}

void tx__model_end(const tx__json_model *m, tx__model_scratch *s)
{
    tx__piece_caches_give(m->bpe.caches, s->cache);
    tx__bpe_scratch_free(&s->bpe);
    tx__unigram_scratch_free(&s->unigram);
    tx_str_free(&s->word);
}

/* ---- reading ---- */

static void find_bytes(tx__json_model *m)
{
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        m->byte_token[b] = (int32_t)tx__strings_find(&m->bpe.vocab.token, name, 6);
    }
}

/* The token for what is unknown: `key` names it. */
static tx_status read_unk(tx__json_model *m, json_t *model, const char *file)
{
    tx__json_str name;
    m->unk = -1;
    if (json_is_null(json_object_get(model, "unk_token"))) return TX_OK;
    if (m->kind == TX__M_BPE && !json_object_get(model, "unk_token")) return TX_OK;
    TX_TRY(tx__json_text(&name, model, "unk_token", NULL, file, "model"));
    m->unk = (int32_t)tx__strings_find(&m->bpe.vocab.token, name.text, name.n);
    if (m->unk >= 0 || m->kind == TX__M_WORD_LEVEL) return TX_OK; /* there a word that needs it is an error */
    return TX_FAIL(TX_ERR_FORMAT, "%s: model.unk_token is \"%s\", which is not in model.vocab", file,
                   tx__show(name.text, name.n).text);
}

static tx_status read_affix(tx_str *out, json_t *model, const char *key, const char *file)
{
    tx__json_str text;
    TX_TRY(tx__json_text(&text, model, key, "", file, "model"));
    return tx_str_append(out, text.text, text.n);
}

static tx_status need(json_t *model, const char *key, bool list, const char *file)
{
    json_t *value = json_object_get(model, key);
    if (list ? json_is_array(value) : json_is_object(value)) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: model.%s is missing or not %s", file, key, list ? "a list" : "an object");
}

/* Whether a U+2581 behind anything else begins a symbol that no merge joins to it; then a long text without words is
 * cut there, and its parts are remembered. */
static bool can_cut_by_marks(const tx__json_model *m)
{
    size_t n, len = strlen(MARK);
    if (m->prefix.len || m->suffix.len || tx__strings_find(&m->bpe.vocab.token, MARK, len) < 0) return false;
    const tx__pairs *rank = &m->bpe.vocab.rank;
    for (size_t i = 0; rank->slot && i <= rank->mask; i++) {
        uint64_t pair = rank->slot[i].key - 1;
        if (!rank->slot[i].key) continue;
        const char *right = tx__strings_at(&m->bpe.vocab.token, (uint32_t)pair, &n);
        if (n < len || memcmp(right, MARK, len) != 0) continue;
        const char *left = tx__strings_at(&m->bpe.vocab.token, (uint32_t)(pair >> 32), &n);
        if (n < len || memcmp(left + n - len, MARK, len) != 0) return false;
    }
    return true;
}

/* For text in which every byte has a token, unk_token, fuse_unk and byte_fallback mean nothing. */
static tx_status read_bpe(tx__json_model *m, json_t *model, bool bytes, const char *file)
{
    static const char *const keys[] = { "type",
                                        "dropout",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        "fuse_unk",
                                        "byte_fallback",
                                        "ignore_merges",
                                        "vocab",
                                        "merges",
                                        NULL };
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    json_t *dropout = json_object_get(model, "dropout");
    TX_TRY(tx__json_only(model, file, "model", keys));
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: model.dropout is %s; triax reads models without it", file,
                       tx__json_show(dropout).text);
    TX_TRY(need(model, "vocab", false, file));
    TX_TRY(need(model, "merges", true, file));
    TX_TRY(tx__json_bool(&m->bpe.ignore_merges, model, "ignore_merges", false, file, "model"));
    TX_TRY(read_affix(&m->prefix, model, "continuing_subword_prefix", file));
    TX_TRY(read_affix(&m->suffix, model, "end_of_word_suffix", file));
    if (bytes && !m->prefix.len && !m->suffix.len && tx__vocab_has_bytes(vocab)) {
        m->kind = TX__M_BYTE_BPE;
        return tx__vocab_from_json(&m->bpe.vocab, vocab, merges, file);
    }
    m->kind = TX__M_BPE;
    TX_TRY(tx__json_bool(&m->fuse_unk, model, "fuse_unk", false, file, "model"));
    TX_TRY(tx__json_bool(&m->byte_fallback, model, "byte_fallback", false, file, "model"));
    TX_TRY(tx__vocab_plain_from_json(&m->bpe.vocab, vocab, merges, m->prefix.len, file));
    m->by_marks = can_cut_by_marks(m);
    return read_unk(m, model, file);
}

static tx_status read_wordpiece(tx__json_model *m, json_t *model, bool bytes, const char *file)
{
    static const char *const keys[] = { "type",  "unk_token", "continuing_subword_prefix", "max_input_chars_per_word",
                                        "vocab", NULL };
    json_t *most = json_object_get(model, "max_input_chars_per_word");
    (void)bytes;
    m->kind = TX__M_WORDPIECE;
    TX_TRY(tx__json_only(model, file, "model", keys));
    TX_TRY(need(model, "vocab", false, file));
    if (!json_is_integer(most) || json_integer_value(most) < 0)
        return TX_FAIL(TX_ERR_FORMAT, "%s: model.max_input_chars_per_word is missing or not a number", file);
    m->max_chars = (size_t)json_integer_value(most);
    TX_TRY(read_affix(&m->prefix, model, "continuing_subword_prefix", file));
    TX_TRY(tx__vocab_plain_from_json(&m->bpe.vocab, json_object_get(model, "vocab"), NULL, 0, file));
    for (uint32_t i = 0; i < m->bpe.vocab.token.n; i++) {
        size_t n;
        tx__strings_at(&m->bpe.vocab.token, i, &n);
        if (n > m->longest) m->longest = n;
    }
    TX_TRY(read_unk(m, model, file));
    return m->unk >= 0 ? TX_OK : TX_FAIL(TX_ERR_FORMAT, "%s: model.unk_token is null; WordPiece needs one", file);
}

static tx_status read_word_level(tx__json_model *m, json_t *model, bool bytes, const char *file)
{
    (void)bytes;
    m->kind = TX__M_WORD_LEVEL;
    TX_TRY(tx__json_only(model, file, "model", (const char *const[]){ "type", "unk_token", "vocab", NULL }));
    TX_TRY(need(model, "vocab", false, file));
    TX_TRY(tx__vocab_plain_from_json(&m->bpe.vocab, json_object_get(model, "vocab"), NULL, 0, file));
    return read_unk(m, model, file);
}

/* ["piece", score]; number i has id i. */
static tx_status read_piece(tx__json_model *m, tx__trie_key *key, size_t *n_keys, json_t *item, size_t i,
                            const char *file)
{
    json_t *piece = json_array_get(item, 0), *score = json_array_get(item, 1);
    size_t n = json_string_length(piece);
    uint32_t number;
    int fresh = 1;
    if (json_array_size(item) != 2 || !json_is_string(piece) || !json_is_number(score) ||
        !isfinite(json_number_value(score)))
        return TX_FAIL(TX_ERR_FORMAT, "%s: model.vocab[%zu] is not [\"token\", score]", file, i);
    m->unigram.score[i] = json_number_value(score);
    if (!n) return tx__strings_add_hidden(&m->bpe.vocab.token, "", 0);
    TX_TRY(tx__strings_add(&m->bpe.vocab.token, json_string_value(piece), n, &number, &fresh));
    if (!fresh)
        return TX_FAIL(TX_ERR_FORMAT, "%s: model.vocab[%zu] and [%u] are the same token \"%s\"", file, i, number,
                       tx__show(json_string_value(piece), n).text);
    key[(*n_keys)++] = (tx__trie_key){ (const unsigned char *)json_string_value(piece), (uint32_t)n, (int32_t)i };
    return TX_OK;
}

static tx_status read_pieces(tx__json_model *m, json_t *vocab, const char *file)
{
    size_t n = json_array_size(vocab), n_keys = 0;
    double least = 0, largest = 0;
    tx__trie_key *key = NULL;
    tx_status st;
    if (!n || n >= TX__TRIE_VALUES)
        return TX_FAIL(TX_ERR_FORMAT, "%s: model.vocab has %zu tokens; 1 to %d are possible", file, n,
                       TX__TRIE_VALUES - 1);
    TX_GOTO(tx_alloc(&m->unigram.score, n, sizeof *m->unigram.score, "a vocabulary"));
    TX_GOTO(tx_alloc(&key, n, sizeof *key, "a vocabulary"));
    for (size_t i = 0; i < n; i++) {
        TX_GOTO(read_piece(m, key, &n_keys, json_array_get(vocab, i), i, file));
        double score = m->unigram.score[i];
        if (!i || score < least) least = score;
        if (fabs(score) > largest) largest = fabs(score);
    }
    m->unigram.unk_score = least - 10; /* the library's penalty, and SentencePiece's */
    m->unigram.largest = fmax(largest, fabs(m->unigram.unk_score));
    st = tx__byte_trie_build(&m->unigram.trie, key, n_keys);
out:
    tx_free(key);
    return st;
}

static tx_status read_unigram(tx__json_model *m, json_t *model, bool bytes, const char *file)
{
    json_t *unk = json_object_get(model, "unk_id");
    (void)bytes;
    m->kind = TX__M_UNIGRAM;
    TX_TRY(
        tx__json_only(model, file, "model", (const char *const[]){ "type", "unk_id", "vocab", "byte_fallback", NULL }));
    TX_TRY(need(model, "vocab", true, file));
    TX_TRY(tx__json_bool(&m->byte_fallback, model, "byte_fallback", false, file, "model"));
    TX_TRY(read_pieces(m, json_object_get(model, "vocab"), file));
    m->unk = m->unigram.unk = -1;
    if (!unk || json_is_null(unk)) return TX_OK;
    if (!json_is_integer(unk) || json_integer_value(unk) < 0 ||
        (uint64_t)json_integer_value(unk) >= m->bpe.vocab.token.n)
        return TX_FAIL(TX_ERR_FORMAT, "%s: model.unk_id is %s; model.vocab has %u tokens", file,
                       tx__json_show(unk).text, m->bpe.vocab.token.n);
    size_t n;
    m->unk = m->unigram.unk = (int32_t)json_integer_value(unk);
    tx__strings_at(&m->bpe.vocab.token, (uint32_t)m->unk, &n);
    return n ? TX_OK : TX_FAIL(TX_ERR_FORMAT, "%s: model.vocab[%d], of model.unk_id, is empty", file, m->unk);
}

/* Old files do not say which kind they are. */
static const char *guess_type(json_t *model)
{
    if (json_object_get(model, "merges")) return "BPE";
    if (json_object_get(model, "max_input_chars_per_word")) return "WordPiece";
    if (json_is_array(json_object_get(model, "vocab"))) return "Unigram";
    return json_object_get(model, "unk_token") ? "WordLevel" : "BPE";
}

tx_status tx__model_read(tx__json_model *m, json_t *model, bool bytes, const char *file)
{
    static const struct {
        const char *type;
        tx_status (*read)(tx__json_model *m, json_t *model, bool bytes, const char *file);
    } types[] = { { "BPE", read_bpe },
                  { "Unigram", read_unigram },
                  { "WordPiece", read_wordpiece },
                  { "WordLevel", read_word_level } };
    json_t *type = json_object_get(model, "type");
    if (!json_is_object(model))
        return TX_FAIL(TX_ERR_FORMAT, "%s: has no object \"model\": is this a tokenizer.json?", file);
    const char *name = type ? json_string_value(type) : guess_type(model);
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, types[i].type)) {
            TX_TRY(types[i].read(m, model, bytes, file));
            find_bytes(m);
            return TX_OK;
        }
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: model.type is %s; triax reads BPE, Unigram, WordPiece and WordLevel", file,
                   tx__json_show(type).text);
}

tx_status tx__model_prepare(tx__json_model *m)
{
    return tx__byte_bpe_prepare(&m->bpe);
}

void tx__model_free(tx__json_model *m)
{
    tx__byte_bpe_free(&m->bpe);
    tx_str_free(&m->prefix);
    tx_str_free(&m->suffix);
    tx__byte_trie_free(&m->unigram.trie);
    tx_free(m->unigram.score);
}

void tx__model_hash(const tx__json_model *m, XXH3_state_t *s)
{
    uint64_t merges = tx__merges_hash(&m->bpe.merges);
    XXH3_128bits_update(s, &merges, sizeof merges);
    if (m->kind == TX__M_BYTE_BPE) return;
    uint64_t rules[] = { m->kind,          (uint64_t)(int64_t)m->unk, m->fuse_unk,
                         m->byte_fallback, m->bpe.ignore_merges,      m->max_chars };
    XXH3_128bits_update(s, rules, sizeof rules);
    tx__hash_token(s, m->prefix.data ? m->prefix.data : "", m->prefix.len);
    tx__hash_token(s, m->suffix.data ? m->suffix.data : "", m->suffix.len);
    if (m->kind == TX__M_UNIGRAM)
        XXH3_128bits_update(s, m->unigram.score, m->bpe.vocab.token.n * sizeof *m->unigram.score);
}
