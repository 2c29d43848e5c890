/* bert_words.c - what comes before WordPiece in BERT. Megatron makes several passes over a string; here it is one:
 *
 *      drop NUL, U+FFFD and the categories Cc, Cf (but \t \n \r)      -> cut at white space, and around every CJK
 *      character      -> [lower case, NFD, drop Mn]      -> every punctuation mark is a word
 *
 *  [ ] only with lower_case. Bytes that are not UTF-8 are dropped, which is also what upstream does with them, whether
 * it ignores them in decoding or has replaced them by U+FFFD.
 *
 *  Case and categories are str.lower's and unicodedata's in the Python version that has the Unicode version of
 *  utf8proc's tables (15.0 in utf8proc 2.8: Python 3.12). A Python with other tables differs in those characters of Mn,
 *  Cf, Zs or punctuation that are assigned in one version only: 65 between Python 3.11 and utf8proc 2.8.
 *
 *  What str.lower does beyond utf8proc is done here: a capital sigma at a word's end. (Its other special case, U+0130
 * to i and U+0307, is plain i after Mn is dropped.)
 *
 *  Source: Megatron-DeepSpeed, megatron/tokenizer/bert_tokenization.py. */
#include "token/bert_words.h"

#include <pthread.h>
#include <utf8proc.h>

#include "base/utf8.h"

/* What a character is. The kinds exclude each other. */
enum { PLAIN, PUNCTUATION, SPACE, DROPPED, CJK, KIND = 7, CASED = 8, CASE_IGNORABLE = 16 };

#define SIGMA       0x3A3u
#define SMALL_SIGMA 0x3C3u
#define FINAL_SIGMA 0x3C2u

/* The Basic Multilingual Plane, filled once. */
static uint8_t bmp_flags[0x10000];
static uint16_t bmp_fold[0x10000]; /* the one starter that lower, NFD and dropping Mn leave of it, 0: not so simple */
static pthread_once_t bmp_once = PTHREAD_ONCE_INIT;

bool tx__python_space(uint32_t c)
{
    return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || c == 0x85 || c == 0x2028 ||
           c == 0x2029 || utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_ZS;
}

typedef struct range {
    uint32_t first, last;
} range;

static bool in_ranges(uint32_t c, const range *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= r[i].first && c <= r[i].last) return true;
    return false;
}

#define IN(c, ranges) in_ranges((c), (ranges), sizeof(ranges) / sizeof *(ranges))

/* BERT's own list of Chinese characters; Unicode's later extensions are not in it. */
static const range cjk[] = { { 0x3400, 0x4DBF },   { 0x4E00, 0x9FFF },   { 0xF900, 0xFAFF },   { 0x20000, 0x2A6DF },
                             { 0x2A700, 0x2B73F }, { 0x2B740, 0x2B81F }, { 0x2B820, 0x2CEAF }, { 0x2F800, 0x2FA1F } };

/* Other_Lowercase and Other_Uppercase as far as not CASE_IGNORABLE, which is asked first. */
static const range other_cased[] = { { 0xAA, 0xAA },      { 0xBA, 0xBA },       { 0x2160, 0x217F },
                                     { 0x24B6, 0x24E9 },  { 0x1F130, 0x1F149 }, { 0x1F150, 0x1F169 },
                                     { 0x1F170, 0x1F189 } };

/* Word_Break = MidLetter, MidNumLet and Single_Quote: apostrophes, stops and dots inside words. */
static const range inside_words[] = { { 0x27, 0x27 },     { 0x2E, 0x2E },     { 0x3A, 0x3A },     { 0xB7, 0xB7 },
                                      { 0x387, 0x387 },   { 0x55F, 0x55F },   { 0x5F4, 0x5F4 },   { 0x2018, 0x2019 },
                                      { 0x2024, 0x2024 }, { 0x2027, 0x2027 }, { 0xFE13, 0xFE13 }, { 0xFE52, 0xFE52 },
                                      { 0xFE55, 0xFE55 }, { 0xFF07, 0xFF07 }, { 0xFF0E, 0xFF0E }, { 0xFF1A, 0xFF1A } };

static uint8_t category_flags(uint32_t c)
{
    uint8_t more = IN(c, inside_words) ? CASE_IGNORABLE : IN(c, other_cased) ? CASED : 0;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
        return PLAIN | CASED;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return PLAIN | CASE_IGNORABLE;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return PUNCTUATION | more;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
        return DROPPED;
    default:
        return PLAIN | more;
    }
}

static uint8_t compute_flags(uint32_t c)
{
    if (c == '\t' || c == '\n' || c == '\r') return SPACE;
    if (c == 0xFFFD) return DROPPED;
    uint8_t flags = category_flags(c);
    if ((flags & KIND) == DROPPED) return flags;
    if (tx__python_space(c)) return SPACE;
    if (IN(c, cjk)) return CJK;
    if (c > ' ' && c < 0x7F && utf8proc_category((utf8proc_int32_t)c) >= UTF8PROC_CATEGORY_PC)
        return PUNCTUATION | (flags & CASE_IGNORABLE); /* in ASCII symbols too: $ + < = > ^ ` | ~ */
    return flags;
}

static inline uint8_t flags_of(uint32_t c)
{
    return c < 0x10000 ? bmp_flags[c] : compute_flags(c);
}

static int decompose(uint32_t c, utf8proc_int32_t out[8])
{
    int boundary = 0;
    utf8proc_ssize_t n =
        utf8proc_decompose_char(utf8proc_tolower((utf8proc_int32_t)c), out, 8, UTF8PROC_DECOMPOSE, &boundary);
    TX_ASSERT(n > 0 && n <= 8); /* canonical decompositions have at most 4 characters */
    return (int)n;
}

static uint16_t compute_fold(uint32_t c)
{
    utf8proc_int32_t d[8], kept = 0;
    int n = decompose(c, d), n_kept = 0;
    for (int i = 0; i < n; i++) {
        const utf8proc_property_t *p = utf8proc_get_property(d[i]);
        if (p->category == UTF8PROC_CATEGORY_MN && p->combining_class) continue;
        if (p->category == UTF8PROC_CATEGORY_MN || p->combining_class || n_kept++) return 0;
        kept = d[i];
    }
    return n_kept && kept < 0x10000 ? (uint16_t)kept : 0;
}

static void fill_bmp(void)
{
    for (uint32_t c = 0; c < 0x10000; c++) {
        bmp_flags[c] = compute_flags(c);
        bmp_fold[c] = compute_fold(c);
    }
}

/* ---- words ---- */

typedef struct state {
    tx__word word;
    uint8_t order[TX__WORD_MAX]; /* canonical combining classes */
    size_t fixed;                /* characters before this one keep their places */
    tx__word_fn fn;
    void *user;
} state;

static tx_status end_word(state *s)
{
    size_t n = s->word.n;
    if (n) TX_TRY(s->fn(s->user, &s->word));
    s->word.n = s->fixed = 0;
    return TX_OK;
}

static tx_status put(state *s, uint32_t c)
{
    tx__word *w = &s->word;
    bool alone = (flags_of(c) & KIND) == PUNCTUATION;
    if (alone) TX_TRY(end_word(s));
    if (w->n < TX__WORD_MAX) {
        w->c[w->n] = c;
        s->order[w->n] = 0;
    }
    w->n++;
    return alone ? end_word(s) : TX_OK;
}

/* A character that NFD sorts: after those of its class and below, back to the last starter. Places in a word that is
 * too long anyway do not matter. */
static void put_mark(state *s, uint32_t c, uint8_t order)
{
    tx__word *w = &s->word;
    if (w->n < TX__WORD_MAX) {
        size_t at = w->n;
        for (; at > s->fixed && s->order[at - 1] > order; at--) {
            w->c[at] = w->c[at - 1];
            s->order[at] = s->order[at - 1];
        }
        w->c[at] = c;
        s->order[at] = order;
    }
    w->n++;
}

static tx_status put_folded(state *s, uint32_t c)
{
    if (c < 0x10000 && bmp_fold[c]) return put(s, bmp_fold[c]);
    utf8proc_int32_t d[8];
    int n = decompose(c, d);
    for (int i = 0; i < n; i++) {
        const utf8proc_property_t *p = utf8proc_get_property(d[i]);
        if (p->category == UTF8PROC_CATEGORY_MN) {
            if (!p->combining_class) s->fixed = s->word.n; /* a starter parts what it stood between */
        } else if (p->combining_class) {
            put_mark(s, (uint32_t)d[i], (uint8_t)p->combining_class);
        } else {
            TX_TRY(put(s, (uint32_t)d[i]));
        }
    }
    return TX_OK;
}

/* str.lower's rule for a capital sigma: final after a cased letter and before none, whatever case-ignorable characters
 * are in between. text[0..n) follows it. What is looked at here has no sigma in it, so all of it is looked at once. */
static bool no_cased_follows(const unsigned char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        i += tx__utf8_next(text + i, n - i, &c);
        uint8_t flags = c == TX__NO_CHAR ? DROPPED : flags_of(c);
        if ((flags & KIND) == DROPPED) continue;
        if ((flags & KIND) == SPACE || (flags & KIND) == CJK) return true;
        if (!(flags & CASE_IGNORABLE)) return !(flags & CASED);
    }
    return true;
}

tx_status tx__bert_words(const unsigned char *text, size_t n, bool lower_case, tx__word_fn fn, void *user)
{
    state s;
    bool cased = false; /* the last character between white space that was not case-ignorable */
    pthread_once(&bmp_once, fill_bmp);
    s.word.n = s.fixed = 0;
    s.fn = fn;
    s.user = user;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        i += tx__utf8_next(text + i, n - i, &c);
        uint8_t flags = c == TX__NO_CHAR ? DROPPED : flags_of(c);
        int kind = flags & KIND;
        if (kind == DROPPED) continue;
        if (kind == SPACE || kind == CJK) {
            TX_TRY(end_word(&s));
            cased = false;
        }
        if (kind == SPACE) continue;
        if (!lower_case)
            TX_TRY(put(&s, c));
        else if (c == SIGMA)
            TX_TRY(put(&s, cased && no_cased_follows(text + i, n - i) ? FINAL_SIGMA : SMALL_SIGMA));
        else
            TX_TRY(put_folded(&s, c));
        if (kind == CJK)
            TX_TRY(end_word(&s));
        else if (!(flags & CASE_IGNORABLE))
            cased = flags & CASED;
    }
    return end_word(&s);
}
