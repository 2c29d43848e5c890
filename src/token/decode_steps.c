/* decode_steps.c - the steps of a decoder. ByteFallback keeps bytes that are no UTF-8 as they are, where the library
 * has a U+FFFD for each of them: here a text may be decoded in parts. */
#include "token/decode_steps.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "token/byte_symbols.h"
#include "token/cuts.h"

tx_status tx__pieces_add(tx__pieces *p, const void *bytes, size_t n)
{
    if (p->n == p->cap) {
        size_t cap = p->cap + p->cap / 2 + 64;
        TX_TRY(tx_realloc(&p->end, cap, sizeof *p->end, "the pieces of a text"));
        p->cap = cap;
    }
    TX_TRY(tx_str_append(&p->bytes, bytes, n));
    p->end[p->n++] = p->bytes.len;
    return TX_OK;
}

void tx__pieces_free(tx__pieces *p)
{
    tx_str_free(&p->bytes);
    tx_free(p->end);
    *p = (tx__pieces){ 0 };
}

/* ---- steps: each adds to the piece that `out` has begun ---- */

/* Appends text with `what` replaced by `to`. */
static tx_status replace_all(tx_str *out, const char *text, size_t n, const tx_str *what, const char *to)
{
    for (const char *at; what->len && (at = memmem(text, n, what->data, what->len));) {
        TX_TRY(tx_str_append(out, text, (size_t)(at - text)));
        TX_TRY(tx_str_puts(out, to));
        n -= (size_t)(at - text) + what->len;
        text = at + what->len;
    }
    return tx_str_append(out, text, n);
}

static tx_status bytes_of_symbols(tx_str *out, const char *text, size_t n)
{
    size_t before = out->len;
    for (size_t at = 0; at < n;) {
        uint32_t c;
        at += tx__utf8_next((const unsigned char *)text + at, n - at, &c);
        int byte = tx__byte_of_symbol(c);
        char b = (char)byte;
        if (byte >= 0) {
            TX_TRY(tx_str_append(out, &b, 1));
            continue;
        }
        out->len = before; /* not spelled in symbols: stands for itself */
        return tx_str_append(out, text, n);
    }
    return TX_OK;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The byte of <0x41>, -1. Rust's from_str_radix takes a plus sign, too. */
static int fallback_byte(const char *text, size_t n)
{
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = text[3] == '+' ? 0 : hex(text[3]), low = hex(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static tx_status strip(const tx__decode_step *d, tx_str *out, const char *text, size_t n)
{
    size_t k = d->content.len;
    for (size_t i = 0; i < d->start && n >= k && !memcmp(text, d->content.data, k); i++) {
        text += k;
        n -= k;
    }
    for (size_t i = 0; i < d->stop && n >= k && !memcmp(text + n - k, d->content.data, k); i++) n -= k;
    return tx_str_append(out, text, n);
}

static tx_status replace(const tx__decode_step *d, tx_str *out, const char *text, size_t n)
{
    tx__matches m;
    size_t done = 0, start, stop;
    bool found;
    tx__matches_begin(&m, &d->pattern, (const unsigned char *)text, n);
    for (;;) {
        TX_TRY(tx__matches_next(&m, &start, &stop, &found));
        if (!found) return tx_str_append(out, text + done, n - done);
        TX_TRY(tx_str_append(out, text + done, start - done));
        TX_TRY(tx_str_append(out, d->content.data, d->content.len));
        done = stop;
    }
}

/* Python-like replacing in out->data[begin..) by what is not longer. */
static void tidy(tx_str *out, size_t begin)
{
    static const char *const what[][2] = { { " .", "." },     { " ?", "?" },           { " !", "!" },
                                           { " ,", "," },     { " ' ", "'" },          { " n't", "n't" },
                                           { " 'm", "'m" },   { " do not", " don't" }, { " 's", "'s" },
                                           { " 've", "'ve" }, { " 're", "'re" } };
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        size_t n_from = strlen(what[i][0]), n_to = strlen(what[i][1]), end = begin;
        for (size_t at = begin; at < out->len;) {
            if (out->len - at >= n_from && !memcmp(out->data + at, what[i][0], n_from)) {
                memcpy(out->data + end, what[i][1], n_to);
                end += n_to;
                at += n_from;
            } else {
                out->data[end++] = out->data[at++];
            }
        }
        out->len = end;
    }
}

static tx_status wordpiece(const tx__decode_step *d, tx_str *out, const char *text, size_t n, bool first)
{
    size_t k = d->content.len, begin = out->len;
    bool goes_on = n >= k && (!k || !memcmp(text, d->content.data, k));
    if (!first && !goes_on) TX_TRY(tx_str_append(out, " ", 1));
    if (!first && goes_on) {
        text += k;
        n -= k;
    }
    TX_TRY(tx_str_append(out, text, n));
    if (d->cleanup) tidy(out, begin);
    return TX_OK;
}

/* Appends piece number i of n_all to *out. */
static tx_status run_piece(const tx__decode_step *d, tx_str *out, const char *text, size_t n, size_t i, size_t n_all)
{
    int byte;
    switch (d->kind) {
    case TX__D_BYTE_LEVEL:
        return bytes_of_symbols(out, text, n);
    case TX__D_BYTE_FALLBACK:
        byte = fallback_byte(text, n);
        return byte < 0 ? tx_str_append(out, text, n) : tx_str_append(out, &(char){ (char)byte }, 1);
    case TX__D_FUSE:
        return tx_str_append(out, text, n);
    case TX__D_METASPACE:
        return replace_all(out, text, n, &d->content, i || d->never ? " " : "");
    case TX__D_STRIP:
        return strip(d, out, text, n);
    case TX__D_REPLACE:
        return replace(d, out, text, n);
    case TX__D_WORDPIECE:
        return wordpiece(d, out, text, n, !i);
    case TX__D_SUFFIX:
        return replace_all(out, text, n, &d->content, i + 1 == n_all ? "" : " ");
    }
    return TX_OK;
}

/* Whether the piece after this one joins it: bytes in a row are one piece, as of the library. */
static bool joins(const tx__decode_step *d, const tx__pieces *p, size_t i)
{
    if (d->kind == TX__D_FUSE || d->kind == TX__D_BYTE_LEVEL) return i + 1 < p->n;
    if (d->kind != TX__D_BYTE_FALLBACK || i + 1 == p->n) return false;
    size_t start = i ? p->end[i - 1] : 0;
    return fallback_byte(p->bytes.data + start, p->end[i] - start) >= 0 &&
           fallback_byte(p->bytes.data + p->end[i], p->end[i + 1] - p->end[i]) >= 0;
}

static tx_status run_step(const tx__decode_step *d, tx__pieces *to, const tx__pieces *from)
{
    to->n = to->bytes.len = 0;
    for (size_t i = 0, start = 0; i < from->n; start = from->end[i++]) {
        TX_TRY(run_piece(d, &to->bytes, from->bytes.data + start, from->end[i] - start, i, from->n));
        if (!joins(d, from, i)) TX_TRY(tx__pieces_add(to, "", 0));
    }
    return TX_OK;
}

static tx_status join_with_blanks(tx_str *out, const tx__pieces *p)
{
    for (size_t i = 0, start = 0; i < p->n; start = p->end[i++]) {
        if (i) TX_TRY(tx_str_append(out, " ", 1));
        TX_TRY(tx_str_append(out, p->bytes.data + start, p->end[i] - start));
    }
    return TX_OK;
}

tx_status tx__decoder_run(const tx__text_decoder *d, tx__pieces *p)
{
    tx_status st = TX_OK;
    tx__pieces other = { 0 };
    if (!d->n) {
        TX_GOTO(join_with_blanks(&other.bytes, p));
        TX_GOTO(tx__pieces_add(&other, "", 0));
    }
    for (size_t i = 0; i < d->n; i++) {
        TX_GOTO(run_step(&d->step[i], &other, p));
        if (i + 1 == d->n) break;
        tx__pieces swap = *p;
        *p = other;
        other = swap;
    }
    tx__pieces result = other;
    other = *p;
    *p = result;
out:
    tx__pieces_free(&other);
    return st;
}

/* ---- reading ---- */

typedef struct reading {
    tx__part *p;
    json_t *step;
    const char *place;
    tx__decode_step *to;
} reading;

static tx_status read_only(reading *r, const char *const *keys)
{
    return tx__json_only(r->step, r->p->file, r->place, keys);
}

static tx_status read_content(reading *r, const char *key)
{
    tx__json_str text;
    TX_TRY(tx__json_text(&text, r->step, key, NULL, r->p->file, r->place));
    return tx_str_append(&r->to->content, text.text, text.n);
}

static tx_status read_nothing(reading *r)
{
    return read_only(r, (const char *const[]){ "type", NULL });
}

static tx_status read_byte_level(reading *r)
{
    return read_only(r, (const char *const[]){ "type", "add_prefix_space", "trim_offsets", "use_regex", NULL });
}

static tx_status read_metaspace(reading *r)
{
    tx__cut_step m = { .kind = TX__C_METASPACE };
    TX_TRY(tx__metaspace_read(&m, r->step, r->p->file, r->place));
    r->to->never = m.when == TX__NEVER;
    return tx_str_puts(&r->to->content, m.mark);
}

static tx_status read_count(reading *r, size_t *out, const char *key)
{
    json_t *value = json_object_get(r->step, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.%s is %s, not a number of characters", r->p->file, r->place, key,
                       value ? tx__json_show(value).text : "missing");
    *out = (size_t)json_integer_value(value);
    return TX_OK;
}

static tx_status read_strip(reading *r)
{
    tx__json_str c;
    TX_TRY(read_only(r, (const char *const[]){ "type", "content", "start", "stop", NULL }));
    TX_TRY(tx__json_char(&c, r->step, "content", NULL, r->p->file, r->place));
    TX_TRY(tx_str_append(&r->to->content, c.text, c.n));
    TX_TRY(read_count(r, &r->to->start, "start"));
    return read_count(r, &r->to->stop, "stop");
}

static tx_status read_replace(reading *r)
{
    TX_TRY(read_only(r, (const char *const[]){ "type", "pattern", "content", NULL }));
    TX_TRY(tx__text_pattern_read(&r->to->pattern, r->step, r->p->file, r->place));
    return read_content(r, "content");
}

static tx_status read_wordpiece(reading *r)
{
    TX_TRY(read_only(r, (const char *const[]){ "type", "prefix", "cleanup", NULL }));
    TX_TRY(tx__json_bool(&r->to->cleanup, r->step, "cleanup", -1, r->p->file, r->place));
    return read_content(r, "prefix");
}

static tx_status read_suffix(reading *r)
{
    TX_TRY(read_only(r, (const char *const[]){ "type", "suffix", NULL }));
    TX_TRY(read_content(r, "suffix"));
    return r->to->content.len ? TX_OK : TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s.suffix is empty", r->p->file, r->place);
}

static const struct {
    const char *type;
    tx__decode_kind kind;
    tx_status (*read)(reading *r);
} types[] = {
    { "ByteLevel", TX__D_BYTE_LEVEL, read_byte_level },
    { "ByteFallback", TX__D_BYTE_FALLBACK, read_nothing },
    { "Fuse", TX__D_FUSE, read_nothing },
    { "Metaspace", TX__D_METASPACE, read_metaspace },
    { "Strip", TX__D_STRIP, read_strip },
    { "Replace", TX__D_REPLACE, read_replace },
    { "WordPiece", TX__D_WORDPIECE, read_wordpiece },
    { "BPEDecoder", TX__D_SUFFIX, read_suffix },
};

enum { N_TYPES = sizeof types / sizeof *types };

static tx_status read_one(tx__part *p, json_t *step, const char *type, const char *place)
{
    tx__text_decoder *to = p->to;
    size_t i = 0;
    while (i < N_TYPES && strcmp(type, types[i].type) != 0) i++;
    if (i == N_TYPES) return tx__part_unknown(p, step, place);
    if (to->n == TX__MAX_STEPS)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s: there are more than %d steps", p->file, place, TX__MAX_STEPS);
    TX_TRY(tx_realloc(&to->step, to->n + 1, sizeof *to->step, "a decoder"));
    to->step[to->n] = (tx__decode_step){ .kind = types[i].kind };
    return types[i].read(&(reading){ p, step, place, &to->step[to->n++] });
}

tx_status tx__decoder_read(tx__text_decoder *out, json_t *root, const char *file)
{
    tx__part p = { .file = file, .name = "decoder", .list = "decoders", .step = read_one, .to = out };
    p.known = "ByteLevel, ByteFallback, Fuse, Metaspace, Strip, Replace, WordPiece, BPEDecoder and a Sequence of them";
    return tx__part_read(&p, root);
}

void tx__decoder_free(tx__text_decoder *d)
{
    for (size_t i = 0; i < d->n; i++) {
        tx_str_free(&d->step[i].content);
        tx__text_pattern_free(&d->step[i].pattern);
    }
    tx_free(d->step);
    *d = (tx__text_decoder){ 0 };
}
