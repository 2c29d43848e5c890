/* normal_steps.c - the steps of a normalizer, and reading them. */
#include "token/normal_steps.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "token/base64.h"
#include "token/byte_symbols.h"
#include "token/char_class.h"
#include "token/hf_chars.h"

/* ---- characters that become others, one by one ---- */

/* What a step makes of a character, up to 8 bytes. */
typedef size_t map_fn(unsigned char *to, uint32_t c);

static size_t put(unsigned char *to, uint32_t c)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)c, to);
}

static size_t lower_char(unsigned char *to, uint32_t c)
{
    size_t n = put(to, tx__hf_lower(c));
    return c == 0x130 ? n + put(to + n, 0x307) : n;
}

static size_t without_mark(unsigned char *to, uint32_t c)
{
    return tx__hf_char(c) & TX__HF_MARK ? 0 : put(to, c);
}

static size_t without_nonspacing(unsigned char *to, uint32_t c)
{
    return tx__hf_char(c) & TX__HF_NONSPACING ? 0 : put(to, c);
}

static size_t nmt_char(unsigned char *to, uint32_t c)
{
    bool dropped = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    return dropped ? 0 : put(to, blank ? ' ' : c);
}

/* clean_text: white space becomes a blank. */
static size_t clean_char(unsigned char *to, uint32_t c)
{
    if (!c || tx__hf_char(c) & TX__HF_CONTROL) return 0;
    return put(to, c < 0x10000 && tx__bmp_bits[c] & TX__WHITE ? ' ' : c);
}

/* handle_chinese_chars: the library's list. */
static size_t cjk_char(unsigned char *to, uint32_t c)
{
    bool cjk = (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
               (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
               (c >= 0x2F800 && c <= 0x2FA1F);
    if (!cjk) return put(to, c);
    to[0] = ' ';
    size_t n = 1 + put(to + 1, c);
    to[n] = ' ';
    return n + 1;
}

/* *front becomes false if the first character is dropped. Bytes that are not UTF-8 stay. */
static tx_status map_chars(tx_str *out, const unsigned char *text, size_t n, map_fn *map, bool *front)
{
    TX_TRY(tx_str_reserve(out, out->len + 2 * n + 16));
    unsigned char *begin = (unsigned char *)out->data + out->len, *to = begin;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = tx__utf8_next(text + at, n - at, &c);
        if (c == TX__NO_CHAR) {
            memcpy(to, text + at, len);
            to += len;
        } else {
            to += map(to, c);
        }
        if (!at && to == begin) *front = false;
    }
    out->len += (size_t)(to - begin);
    out->data[out->len] = 0;
    return TX_OK;
}

static tx_status lower(tx_str *out, const unsigned char *text, size_t n)
{
    bool front;
    return map_chars(out, text, n, lower_char, &front);
}

/* ---- BertNormalizer ---- */

/* What is not ASCII, n > 0 bytes of it: the four steps, one after the other. ASCII neither changes in NFD nor lets its
 * neighbours change, so that the text may be cut there. */
static tx_status bert_part(const tx__normal_step *b, tx__normal_scratch *s, tx_str *out, const unsigned char *text,
                           size_t n)
{
    bool front;
    map_fn *const map[] = { b->clean ? clean_char : NULL, b->cjk ? cjk_char : NULL };
    size_t turn = 0;
    for (size_t i = 0; i < 2; i++) {
        if (!map[i]) continue;
        tx_str *to = &s->part[turn++ % 2];
        to->len = 0;
        TX_TRY(map_chars(to, text, n, map[i], &front));
        text = (const unsigned char *)to->data;
        n = to->len;
    }
    if (b->accents) {
        tx_str *to = &s->part[turn++ % 2], *kept = b->lower ? &s->part[turn++ % 2] : out;
        to->len = 0;
        TX_TRY(tx__normalize(to, text, n, TX__NFD));
        if (b->lower) kept->len = 0;
        TX_TRY(map_chars(kept, (const unsigned char *)to->data, to->len, without_nonspacing, &front));
        text = (const unsigned char *)kept->data;
        n = kept->len;
        if (!b->lower) return TX_OK;
    }
    return b->lower ? lower(out, text, n) : tx_str_append(out, text, n);
}

/* Small letters, blanks for white space, and 0 for what clean_text drops. */
static void bert_ascii(const tx__normal_step *b, unsigned char map[128])
{
    for (unsigned c = 0; c < 128; c++) {
        map[c] = (unsigned char)(b->lower && c - 'A' < 26 ? c + 32 : c);
        if (!b->clean) continue;
        if (c == '\t' || c == '\n' || c == '\r')
            map[c] = ' ';
        else if (c < 32 || c == 127)
            map[c] = 0;
    }
}

static tx_status bert(const tx__normal_step *b, tx__normal_scratch *s, tx_str *out, const unsigned char *text, size_t n,
                      bool *front)
{
    unsigned char map[128];
    bert_ascii(b, map);
    for (size_t at = 0, end; at < n; at = end) {
        TX_TRY(tx_str_reserve(out, out->len + n - at + 16));
        unsigned char *to = (unsigned char *)out->data + out->len;
        for (end = at; end < n && text[end] < 0x80; end++) {
            *to = map[text[end]];
            to += *to || (!text[end] && !b->clean);
        }
        out->len = (size_t)((char *)to - out->data);
        if (!at && end && !out->len) *front = false; /* or what follows decides; a Metaspace never follows this */
        for (at = end; end < n && text[end] >= 0x80;) end++;
        if (end > at) TX_TRY(bert_part(b, s, out, text + at, end - at));
        if (!out->len) *front = false;
    }
    if (out->data) out->data[out->len] = 0;
    return TX_OK;
}

/* ---- the others ---- */

static bool white(const unsigned char *p, size_t n, size_t *len)
{
    return (tx__bits_next(p, n, len) & TX__WHITE) != 0;
}

static void strip(const tx__normal_step *z, const unsigned char **text, size_t *n, bool *front)
{
    size_t at = 0, len, end = *n;
    while (z->left && at < *n && white(*text + at, *n - at, &len)) at += len;
    while (z->right && end > at) {
        size_t start = end - 1, least = end - at > 4 ? end - 4 : at;
        while (start > least && ((*text)[start] & 0xC0) == 0x80) start--;
        if (!white(*text + start, end - start, &len) || start + len != end) break;
        end = start;
    }
    if (at) *front = false;
    *text += at;
    *n = end - at;
}

static tx_status replace(const tx__normal_step *z, tx_str *out, const unsigned char *text, size_t n, bool *front)
{
    tx__matches m;
    size_t done = 0, start, stop, len;
    bool found;
    tx__matches_begin(&m, &z->pattern, text, n);
    for (;;) {
        uint32_t c;
        TX_TRY(tx__matches_next(&m, &start, &stop, &found));
        if (!found) break;
        TX_TRY(tx_str_append(out, text + done, start - done));
        TX_TRY(tx_str_append(out, z->content.data, z->content.len));
        done = stop;
        if (start || start == stop) continue;
        len = tx__utf8_next(text, n, &c); /* what replaces several stands where the last of them was */
        if (len < stop || !z->content.len) *front = false;
    }
    return tx_str_append(out, text + done, n - done);
}

tx_status tx__symbols_append(tx_str *out, const unsigned char *text, size_t n)
{
    TX_TRY(tx_str_reserve(out, out->len + 2 * n + 4));
    unsigned char *to = (unsigned char *)out->data + out->len;
    for (size_t i = 0; i < n; i++) to += put(to, tx__symbol_of_byte(text[i]));
    out->len = (size_t)((char *)to - out->data);
    *to = 0;
    return TX_OK;
}

/* End of the grapheme cluster that begins at text[0]. */
static size_t grapheme(const unsigned char *text, size_t n)
{
    utf8proc_int32_t state = 0;
    uint32_t last, c;
    size_t end = tx__utf8_next(text, n, &last), len;
    if (last < 0x80 && (end == n || text[end] < 0x80) && !(last == '\r' && end < n && text[end] == '\n')) return end;
    for (; end < n && last != TX__NO_CHAR; end += len, last = c) {
        len = tx__utf8_next(text + end, n - end, &c);
        if (c == TX__NO_CHAR || utf8proc_grapheme_break_stateful((utf8proc_int32_t)last, (utf8proc_int32_t)c, &state))
            break;
    }
    return end;
}

/* What the shortest key of the map that text[0..n) begins with stands for; NULL: there is none. */
static const char *first_of_map(const tx__charsmap *map, const unsigned char *text, size_t n)
{
    uint32_t below = map->unit ? tx__charsmap_below(map, 0) : 0;
    for (size_t i = 0; map->unit && i < n && text[i]; i++) {
        uint32_t at = below ^ text[i], u = map->unit[at];
        if ((u & (1u << 31 | 0xFF)) != text[i]) return NULL;
        below = tx__charsmap_below(map, at);
        if (u & 1u << 8) return map->text + (map->unit[below] & ~(1u << 31));
    }
    return NULL;
}

/* Precompiled: a grapheme of up to 5 bytes as a whole, if any beginning of it is in the map; else its characters. That
 * is the library's rule, not SentencePiece's. */
static tx_status charsmap(const tx__charsmap *map, tx_str *out, const unsigned char *text, size_t n)
{
    for (size_t at = 0, end; at < n; at = end) {
        end = at + grapheme(text + at, n - at);
        const char *to = end - at < 6 ? first_of_map(map, text + at, end - at) : NULL;
        if (to) {
            TX_TRY(tx_str_puts(out, to));
            continue;
        }
        for (size_t len; at < end; at += len) {
            uint32_t c;
            len = tx__utf8_next(text + at, end - at, &c);
            to = first_of_map(map, text + at, len);
            TX_TRY(to ? tx_str_puts(out, to) : tx_str_append(out, text + at, len));
        }
    }
    return TX_OK;
}

/* ---- a run ---- */

static tx_status run_step(const tx__normal_step *z, tx__normal_scratch *s, tx_str *out, const unsigned char **text,
                          size_t *n, bool *front)
{
    switch (z->kind) {
    case TX__N_FORM:
        return tx__normalize(out, *text, *n, z->form);
    case TX__N_LOWER:
        return lower(out, *text, *n);
    case TX__N_ACCENTS:
        return map_chars(out, *text, *n, without_mark, front);
    case TX__N_NMT:
        return map_chars(out, *text, *n, nmt_char, front);
    case TX__N_BERT:
        return bert(z, s, out, *text, *n, front);
    case TX__N_STRIP:
        strip(z, text, n, front);
        return tx_str_append(out, *text, *n);
    case TX__N_PREPEND:
        if (*n) TX_TRY(tx_str_append(out, z->content.data, z->content.len));
        return tx_str_append(out, *text, *n);
    case TX__N_REPLACE:
        return replace(z, out, *text, *n, front);
    case TX__N_SYMBOLS:
        return tx__symbols_append(out, *text, *n);
    case TX__N_CHARSMAP:
        return charsmap(&z->map, out, *text, *n);
    }
    return TX_OK;
}

tx_status tx__normalizer_run(const tx__normalizer *z, tx__normal_scratch *s, const unsigned char **text, size_t *n,
                             bool *front)
{
    if (!z->n) return TX_OK;
    tx__char_class_init();
    tx__hf_chars_init();
    for (size_t i = 0; i < z->n; i++) {
        tx_str *to = &s->form[i % 2];
        to->len = 0;
        TX_TRY(tx_str_reserve(to, *n + 16));
        TX_TRY(run_step(&z->step[i], s, to, text, n, front));
        *text = (const unsigned char *)to->data;
        *n = to->len;
    }
    return TX_OK;
}

void tx__normal_scratch_free(tx__normal_scratch *s)
{
    for (int i = 0; i < 2; i++) {
        tx_str_free(&s->form[i]);
        tx_str_free(&s->part[i]);
    }
}

/* ---- reading ---- */

typedef struct reading {
    tx__part *p;
    json_t *step;
    const char *place;
    tx__normal_step *to;
} reading;

static tx_status read_only(reading *r, const char *const *keys)
{
    return tx__json_only(r->step, r->p->file, r->place, keys);
}

static tx_status read_bool(reading *r, bool *out, const char *key)
{
    return tx__json_bool(out, r->step, key, -1, r->p->file, r->place);
}

static tx_status read_content(reading *r, const char *key)
{
    tx__json_str text;
    TX_TRY(tx__json_text(&text, r->step, key, NULL, r->p->file, r->place));
    return tx_str_append(&r->to->content, text.text, text.n);
}

static tx_status read_strip(reading *r)
{
    TX_TRY(read_only(r, (const char *const[]){ "type", "strip_left", "strip_right", NULL }));
    TX_TRY(read_bool(r, &r->to->left, "strip_left"));
    return read_bool(r, &r->to->right, "strip_right");
}

static tx_status read_bert(reading *r)
{
    static const char *const keys[] = {
        "type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase", NULL
    };
    tx__normal_step *z = r->to;
    TX_TRY(read_only(r, keys));
    TX_TRY(read_bool(r, &z->clean, "clean_text"));
    TX_TRY(read_bool(r, &z->cjk, "handle_chinese_chars"));
    TX_TRY(read_bool(r, &z->lower, "lowercase"));
    json_t *accents = json_object_get(r->step, "strip_accents");
    z->accents = z->lower;
    return accents && !json_is_null(accents) ? read_bool(r, &z->accents, "strip_accents") : TX_OK;
}

static tx_status read_prepend(reading *r)
{
    TX_TRY(read_only(r, (const char *const[]){ "type", "prepend", NULL }));
    return read_content(r, "prepend");
}

static tx_status read_replace(reading *r)
{
    TX_TRY(read_only(r, (const char *const[]){ "type", "pattern", "content", NULL }));
    TX_TRY(tx__text_pattern_read(&r->to->pattern, r->step, r->p->file, r->place));
    return read_content(r, "content");
}

static tx_status read_charsmap(reading *r)
{
    tx__json_str text;
    char where[512];
    tx_status st;
    tx_str bytes = { 0 };
    json_t *value = json_object_get(r->step, "precompiled_charsmap");
    TX_TRY(read_only(r, (const char *const[]){ "type", "precompiled_charsmap", NULL }));
    if (value && json_is_null(value)) return TX_OK; /* maps nothing */
    TX_TRY(tx__json_text(&text, r->step, "precompiled_charsmap", NULL, r->p->file, r->place));
    snprintf(where, sizeof where, "%.380s: %.90s.precompiled_charsmap", r->p->file, r->place);
    if (tx__base64_read(&bytes, text.text, text.n))
        st = TX_FAIL(TX_ERR_FORMAT, "%s is not base64", where);
    else
        st = tx__charsmap_read(&r->to->map, bytes.data, bytes.len, where);
    tx_str_free(&bytes);
    return st;
}

static tx_status read_symbols(reading *r)
{
    return read_only(r, (const char *const[]){ "type", "add_prefix_space", "trim_offsets", "use_regex", NULL });
}

static tx_status read_nothing(reading *r)
{
    return read_only(r, (const char *const[]){ "type", NULL });
}

static const struct {
    const char *type;
    tx__normal_kind kind;
    tx__normal_form form;
    tx_status (*read)(reading *r);
} types[] = {
    { "NFC", TX__N_FORM, TX__NFC, read_nothing },
    { "NFD", TX__N_FORM, TX__NFD, read_nothing },
    { "NFKC", TX__N_FORM, TX__NFKC, read_nothing },
    { "NFKD", TX__N_FORM, TX__NFKD, read_nothing },
    { "Lowercase", TX__N_LOWER, 0, read_nothing },
    { "StripAccents", TX__N_ACCENTS, 0, read_nothing },
    { "Strip", TX__N_STRIP, 0, read_strip },
    { "BertNormalizer", TX__N_BERT, 0, read_bert },
    { "Nmt", TX__N_NMT, 0, read_nothing },
    { "Prepend", TX__N_PREPEND, 0, read_prepend },
    { "Replace", TX__N_REPLACE, 0, read_replace },
    { "ByteLevel", TX__N_SYMBOLS, 0, read_symbols },
    { "Precompiled", TX__N_CHARSMAP, 0, read_charsmap },
};

enum { N_TYPES = sizeof types / sizeof *types };

static tx_status read_one(tx__part *p, json_t *step, const char *type, const char *place)
{
    tx__normalizer *to = p->to;
    size_t i = 0;
    while (i < N_TYPES && strcmp(type, types[i].type) != 0) i++;
    if (i == N_TYPES) return tx__part_unknown(p, step, place);
    if (to->n == TX__MAX_STEPS)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s: there are more than %d steps", p->file, place, TX__MAX_STEPS);
    TX_TRY(tx_realloc(&to->step, to->n + 1, sizeof *to->step, "a normalizer"));
    to->step[to->n] = (tx__normal_step){ .kind = types[i].kind, .form = types[i].form };
    return types[i].read(&(reading){ p, step, place, &to->step[to->n++] });
}

tx_status tx__normalizer_read(tx__normalizer *out, json_t *root, const char *file)
{
    tx__part p = { .file = file, .name = "normalizer", .list = "normalizers", .step = read_one, .to = out };
    p.known = "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, BertNormalizer, Nmt, Prepend, Replace, ByteLevel, "
              "Precompiled and a Sequence of them";
    return tx__part_read(&p, root);
}

void tx__normalizer_free(tx__normalizer *z)
{
    for (size_t i = 0; i < z->n; i++) {
        tx_str_free(&z->step[i].content);
        tx__text_pattern_free(&z->step[i].pattern);
        tx__charsmap_free(&z->step[i].map);
    }
    tx_free(z->step);
    *z = (tx__normalizer){ 0 };
}
