/* tokenizer_wordpiece.c - BERT's WordPiece: the longest token that a word begins with, then the longest token "##..."
 * that the rest begins with, and so on. A word that cannot be cut in this way is [UNK] as a whole. */
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "token/bert_words.h"
#include "token/file_kind.h"
#include "token/piece_cache.h"
#include "token/strings.h"
#include "token/tokenizer.h"

#define MAX_FILE_BYTES ((size_t)64 << 20) /* multilingual BERT's vocabulary has 1 MB */

#define ROOM 1024 /* ids that a remembered part may have: more than 255 bytes ever give */

typedef struct wordpiece_tokenizer {
    tx_tokenizer base;
    tx__strings token; /* number = id */
    size_t longest;    /* bytes of the longest token */
    int32_t unk;
    bool lower_case;
    tx__piece_caches *caches;
} wordpiece_tokenizer;

/* ---- text to ids ---- */

typedef struct encoding {
    const wordpiece_tokenizer *t;
    tx_ids *out;
} encoding;

/* A tx__word_fn. The word's bytes have two free ones before them: where a piece ended, "##" is written over its end,
 * so that every lookup is of bytes in a row. */
static tx_status encode_word(void *user, const tx__word *word)
{
    const encoding *e = user;
    const wordpiece_tokenizer *t = e->t;
    tx_ids *out = e->out;
    unsigned char bytes[2 + 4 * TX__WORD_MAX];
    size_t at[TX__WORD_MAX + 1] = { 2 }; /* where each character begins */

    if (word->n > TX__WORD_MAX) {
        TX_TRY(tx__ids_reserve(out, 1));
        out->id[out->n++] = t->unk;
        return TX_OK;
    }
    for (size_t i = 0; i < word->n; i++)
        at[i + 1] = at[i] + (size_t)utf8proc_encode_char((utf8proc_int32_t)word->c[i], bytes + at[i]);
    TX_TRY(tx__ids_reserve(out, word->n));
    size_t first = out->n;
    for (size_t i = 0; i < word->n;) {
        size_t start = i ? at[i] - 2 : at[0], end = word->n;
        int64_t id = -1;
        if (i) memset(bytes + start, '#', 2);
        while (at[end] - start > t->longest && end > i + 1) end--;
        for (; end > i && id < 0; end -= id < 0) id = tx__strings_find(&t->token, bytes + start, at[end] - start);
        if (id < 0) {
            out->n = first;
            out->id[out->n++] = t->unk;
            return TX_OK;
        }
        out->id[out->n++] = (int32_t)id;
        i = end;
    }
    return TX_OK;
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Of what lies between blanks nothing depends on the rest of the text, so ids that were found once are remembered. */
static tx_status encode_part(const wordpiece_tokenizer *w, tx__piece_cache *cache, const unsigned char *part, size_t n,
                             size_t room, tx_ids *out)
{
    encoding e = { w, out };
    if (n > TX__PIECE_MAX) return tx__bert_words(part, n, w->lower_case, encode_word, &e);
    size_t first = out->n, n_ids;
    tx__piece_key key = tx__piece_key_of(part, n, room);
    TX_TRY(tx__ids_reserve(out, ROOM));
    out->n += tx__piece_cache_find(cache, key, part, n, out->id + first);
    if (out->n > first) return TX_OK;
    TX_TRY(tx__bert_words(part, n, w->lower_case, encode_word, &e));
    n_ids = out->n - first;
    if (n_ids && n_ids <= ROOM - TX__PIECE_INLINE) tx__piece_cache_add(cache, key, part, n, out->id + first, n_ids);
    return TX_OK;
}

static tx_status wordpiece_encode(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out)
{
    const wordpiece_tokenizer *w = (const wordpiece_tokenizer *)t;
    tx__piece_cache *cache;
    tx_status st = TX_OK;
    TX_TRY(tx__piece_caches_take(w->caches, &cache));
    for (size_t at = 0, end; at < n; at = end) {
        while (at < n && is_blank(text[at])) at++;
        for (end = at; end < n && !is_blank(text[end]);) end++;
        if (end > at) TX_GOTO(encode_part(w, cache, text + at, end - at, n - at, out));
    }
out:
    tx__piece_caches_give(w->caches, cache);
    return st;
}

/* ---- ids to text ---- */

/* Python's s.replace(from, to) on bytes->data[begin..], for a `to` that is the shorter one. */
static void replace(tx_bytes *bytes, size_t begin, const char *from, const char *to)
{
    size_t n_from = strlen(from), n_to = strlen(to), end = begin;
    for (size_t i = begin; i < bytes->n;) {
        if (bytes->n - i >= n_from && !memcmp(bytes->data + i, from, n_from)) {
            memcpy(bytes->data + end, to, n_to);
            end += n_to;
            i += n_from;
        } else {
            bytes->data[end++] = bytes->data[i++];
        }
    }
    bytes->data[end] = 0;
    bytes->n = end;
}

static tx_status wordpiece_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    static const char *const tidy[][2] = { { " .", "." },     { " ?", "?" },     { " !", "!" },   { " ,", "," },
                                           { " ' ", "'" },    { " n't", "n't" }, { " 'm", "'m" }, { " 's", "'s" },
                                           { " 've", "'ve" }, { " 're", "'re" } };
    const wordpiece_tokenizer *w = (const wordpiece_tokenizer *)t;
    size_t begin = out->n;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *token = tx__strings_at(&w->token, (uint32_t)ids[i], &len);
        bool goes_on = i && len >= 2 && !memcmp(token, "##", 2);
        if (i && !goes_on) TX_TRY(tx__bytes_append(out, " ", 1));
        TX_TRY(tx__bytes_append(out, token + (goes_on ? 2 : 0), len - (goes_on ? 2 : 0)));
    }
    for (size_t i = 0; n && i < sizeof tidy / sizeof *tidy; i++) replace(out, begin, tidy[i][0], tidy[i][1]);
    return TX_OK;
}

/* ---- facts ---- */

static int32_t wordpiece_special(const tx_tokenizer *t, const char *name)
{
    static const char *const special[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[BOS]", "[EOS]" };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (!strcmp(name, special[i]))
            return (int32_t)tx__strings_find(&((const wordpiece_tokenizer *)t)->token, name, strlen(name));
    return -1;
}

static void wordpiece_hash(const tx_tokenizer *t, XXH3_state_t *s)
{
    const wordpiece_tokenizer *w = (const wordpiece_tokenizer *)t;
    for (uint32_t i = 0; i < w->token.n; i++) {
        size_t n;
        const char *token = tx__strings_at(&w->token, i, &n);
        tx__hash_token(s, token, n);
    }
    XXH3_128bits_update(s, &w->lower_case, sizeof w->lower_case);
}

static void wordpiece_close(tx_tokenizer *t)
{
    wordpiece_tokenizer *w = (wordpiece_tokenizer *)t;
    tx__piece_caches_destroy(w->caches);
    tx__strings_free(&w->token);
    tx_free(w);
}

/* ---- vocab.txt ---- */

/* Cuts white space off both ends of line[0..*n), as upstream's strip(). Not UTF-8: TX_ERR_FORMAT. */
static tx_status strip(const char **line, size_t *n, const char *file, size_t number)
{
    size_t begin = *n, end = 0;
    for (size_t i = 0; i < *n;) {
        uint32_t c;
        size_t len = tx__utf8_next((const unsigned char *)*line + i, *n - i, &c);
        if (c == TX__NO_CHAR)
            return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: is not UTF-8 at byte %zu of the line", file, number, i + 1);
        if (!tx__python_space(c)) {
            if (begin > i) begin = i;
            end = i + len;
        }
        i += len;
    }
    *line += begin < end ? begin : 0;
    *n = begin < end ? end - begin : 0;
    return TX_OK;
}

static tx_status add_line(wordpiece_tokenizer *w, const char *line, size_t n, const char *file, size_t number)
{
    uint32_t id;
    int fresh;
    TX_TRY(strip(&line, &n, file, number));
    if (!n)
        return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: is empty, but every line of a WordPiece vocabulary is a token", file,
                       number);
    TX_TRY(tx__strings_add(&w->token, line, n, &id, &fresh));
    if (!fresh)
        return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: is the same token as line %u, but a token has one id", file, number,
                       id + 1);
    if (n > w->longest) w->longest = n;
    return TX_OK;
}

/* Lines end with \n, \r\n or \r: Python's text files. */
static tx_status read_vocab(wordpiece_tokenizer *w, const char *file)
{
    tx_status st;
    tx_str text = { 0 };
    size_t number = 0;
    TX_GOTO(tx_file_read(file, MAX_FILE_BYTES, &text));
    for (size_t i = 0, end; i < text.len; i = end + 1) {
        for (end = i; end < text.len && text.data[end] != '\n' && text.data[end] != '\r';) end++;
        TX_GOTO(add_line(w, text.data + i, end - i, file, ++number));
        if (end + 1 < text.len && text.data[end] == '\r' && text.data[end + 1] == '\n') end++;
    }
    if (!number) st = TX_FAIL(TX_ERR_FORMAT, "%s: is empty; a WordPiece vocabulary has one token per line", file);
out:
    tx_str_free(&text);
    return st;
}

static tx_status check_special(wordpiece_tokenizer *w, const char *file)
{
    static const char *const needed[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    tx_str missing = { 0 };
    tx_status st = TX_OK;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (wordpiece_special(&w->base, needed[i]) < 0)
            TX_GOTO(tx_str_printf(&missing, "%s%s", missing.len ? ", " : "", needed[i]));
    if (missing.len)
        st = TX_FAIL(TX_ERR_FORMAT, "%s: has no %s, which every BERT vocabulary has: is this a vocab.txt?", file,
                     missing.data);
out:
    tx_str_free(&missing);
    return st;
}

tx_status tx_tokenizer_open_wordpiece(tx_tokenizer **out, const char *vocab_file, bool lower_case)
{
    const tx_tokenizer_kind *kind = lower_case ? &tx__tokenizer_wordpiece_lower_case : &tx__tokenizer_wordpiece_case;
    static const char *const added[] = { "[BOS]", "[EOS]" };
    tx_status st;
    wordpiece_tokenizer *w = NULL;
    uint32_t id = 0;
    int fresh;
    TX_GOTO(tx_alloc(&w, 1, sizeof *w, "a tokenizer"));
    st = read_vocab(w, vocab_file);
    if (!st) st = check_special(w, vocab_file);
    if (st) TX_GOTO(tx__file_is_wrong(st, vocab_file, TX__FILE_VOCAB_TXT));
    TX_GOTO(tx__piece_caches_create(&w->caches));
    for (int i = 0; i < 2; i++) TX_GOTO(tx__strings_add(&w->token, added[i], strlen(added[i]), &id, &fresh));
    w->unk = wordpiece_special(&w->base, "[UNK]");
    w->lower_case = lower_case;
    w->base = (tx_tokenizer){ .kind = kind, .vocab_size = (int32_t)w->token.n, .eod = (int32_t)id };
    *out = &w->base;
    return TX_OK;
out:
    if (w) wordpiece_close(&w->base);
    return st;
}

static tx_status lower_case_open(tx_tokenizer **out, const tx_tokenizer_files *from)
{
    return tx_tokenizer_open_wordpiece(out, from->vocab_file, true);
}

static tx_status case_open(tx_tokenizer **out, const tx_tokenizer_files *from)
{
    return tx_tokenizer_open_wordpiece(out, from->vocab_file, false);
}

const tx_tokenizer_kind tx__tokenizer_wordpiece_lower_case = { .open = lower_case_open,
                                                               .learner = &tx__learner_wordpiece_lower_case,
                                                               .encode = wordpiece_encode,
                                                               .decode = wordpiece_decode,
                                                               .special = wordpiece_special,
                                                               .hash = wordpiece_hash,
                                                               .close = wordpiece_close };
const tx_tokenizer_kind tx__tokenizer_wordpiece_case = { .open = case_open,
                                                         .learner = &tx__learner_wordpiece_case,
                                                         .encode = wordpiece_encode,
                                                         .decode = wordpiece_decode,
                                                         .special = wordpiece_special,
                                                         .hash = wordpiece_hash,
                                                         .close = wordpiece_close };
