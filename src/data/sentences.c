/* sentences.c - the rules of sentences.h, applied from left to right. A candidate is a run of . ? !; what stands before
 * and behind it decides. */
#include "data/sentences.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

/* ---- words ---- */

/* Nearly always before a name. */
static const char *const titles[] = { "adm", "brig", "capt", "cmdr", "col",    "cpl",  "dr",  "fr",  "gen",
                                      "gov", "hon",  "lt",   "maj",  "messrs", "mlle", "mme", "mr",  "mrs",
                                      "ms",  "mt",   "mx",   "ph.d", "pres",   "prof", "pvt", "rep", "rev",
                                      "sen", "sgt",  "st",   "ste",  "supt",   "vs",   NULL };

static const char *const abbreviations[] = {
    "abbr", "al",   "apr",  "approx", "apt",  "art", "assn", "aug",  "ave",  "bldg", "blvd", "bros", "ca",
    "cf",   "ch",   "chap", "co",     "corp", "dec", "dept", "dist", "div",  "ed",   "eds",  "eq",   "esp",
    "esq",  "est",  "etc",  "ex",     "feb",  "fig", "figs", "ft",   "hwy",  "ibid", "inc",  "incl", "inst",
    "jan",  "jr",   "jul",  "jun",    "ltd",  "mar", "max",  "min",  "misc", "no",   "nos",  "nov",  "oct",
    "op",   "orig", "p",    "pp",     "para", "pl",  "pt",   "rd",   "ref",  "refs", "sec",  "sep",  "sept",
    "ser",  "sq",   "sr",   "trans",  "univ", "viz", "vol",  "vols", NULL
};

/* Words that, capitalised behind an abbreviation, begin a sentence rather than go on with a name. */
static const char *const starters[] = {
    "a",       "after",  "all",  "also",  "although",  "an",       "and",   "another", "as",
    "at",      "both",   "but",  "by",    "despite",   "each",     "even",  "for",     "from",
    "he",      "her",    "his",  "how",   "however",   "i",        "if",    "in",      "indeed",
    "instead", "it",     "its",  "many",  "meanwhile", "moreover", "most",  "my",      "nevertheless",
    "nor",     "on",     "one",  "or",    "our",       "she",      "since", "so",      "some",
    "such",    "that",   "the",  "their", "then",      "there",    "these", "they",    "this",
    "those",   "though", "thus", "to",    "under",     "we",       "what",  "when",    "where",
    "while",   "who",    "why",  "with",  "yet",       "you",      "your",  NULL
};

#define WORD_MAX 16 /* longer ones are in no list */

static bool is_listed(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(word, *list)) return true;
    return false;
}

/* The word in small letters, "" where it is too long or not ASCII. */
static void lower_word(char out[WORD_MAX], const char *p, size_t n)
{
    size_t i = 0;
    for (; n < WORD_MAX && i < n && (unsigned char)p[i] < 0x80; i++) out[i] = (char)tolower((unsigned char)p[i]);
    out[i < n ? 0 : i] = 0;
}

/* Letters with periods between them: U.S, a.m, J.R.R, and one letter alone. */
static bool is_initials(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (i % 2 ? p[i] != '.' : !isalpha((unsigned char)p[i])) return false;
    return n % 2;
}

static bool is_number(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)p[i]) && !strchr(".,", p[i])) return false;
    return n > 0;
}

/* ---- characters ---- */

typedef struct text {
    const char *p;
    size_t n;
} text;

static uint32_t char_at(text t, size_t i, size_t *len)
{
    uint32_t c = TX__NO_CHAR;
    *len = i < t.n ? tx__utf8_next((const unsigned char *)t.p + i, t.n - i, &c) : 0;
    return c;
}

/* Python's str.isspace. */
static bool is_space(uint32_t c)
{
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool is_stop(char c)
{
    return c == '.' || c == '?' || c == '!';
}

static bool is_closing(uint32_t c)
{
    return c == '"' || c == '\'' || c == ')' || c == ']' || c == '}' || c == 0x2019 || c == 0x201D || c == 0xBB;
}

static bool is_opening(uint32_t c)
{
    return c == '"' || c == '\'' || c == '(' || c == '[' || c == '{' || c == '`' || c == 0x2018 || c == 0x201C ||
           c == 0xAB;
}

static size_t skip_while(text t, size_t i, bool (*is)(uint32_t c))
{
    size_t len;
    while (i < t.n && is(char_at(t, i, &len))) i += len;
    return i;
}

/* ---- what comes next ---- */

typedef enum next_word { NEXT_SMALL, NEXT_CAPITAL, NEXT_STARTER, NEXT_OTHER } next_word;

/* The word that begins at i, behind quotes and brackets. */
static next_word look_ahead(text t, size_t i)
{
    char word[WORD_MAX];
    size_t len;
    i = skip_while(t, i, is_opening);
    uint32_t c = char_at(t, i, &len);
    if (c == TX__NO_CHAR) return NEXT_OTHER;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    if (category == UTF8PROC_CATEGORY_LL) return NEXT_SMALL;
    if (category != UTF8PROC_CATEGORY_LU && category != UTF8PROC_CATEGORY_LT) return NEXT_OTHER;
    size_t end = i;
    while (end < t.n && isalpha((unsigned char)t.p[end])) end++;
    lower_word(word, t.p + i, end - i);
    return is_listed(word, starters) ? NEXT_STARTER : NEXT_CAPITAL;
}

/* ---- candidates ---- */

/* Where the word that ends at `end` begins: behind white space, quotes and brackets. */
static size_t word_begin(text t, size_t end)
{
    size_t i = end;
    while (i && !strchr(" \t\n\v\f\r\"'()[]{}?!;:*@,", t.p[i - 1])) i--; /* a NUL byte is found, too */
    return i;
}

/* Whether the run of periods at [stop, stop_end), with white space behind its quotes up to `next`, ends a sentence. */
static bool period_ends(text t, size_t stop, size_t stop_end, size_t next)
{
    char word[WORD_MAX];
    next_word after = look_ahead(t, next);
    size_t begin = word_begin(t, stop), n = stop - begin;
    bool spaced = !n && begin >= 2 && t.p[begin - 2] == '.'; /* the last of . . . */
    if (stop_end - stop > 1 || spaced) return after == NEXT_CAPITAL || after == NEXT_STARTER;
    if (!n) return t.p[next] != '.';
    if (is_number(t.p + begin, n)) return after != NEXT_SMALL;
    lower_word(word, t.p + begin, n);
    if (is_listed(word, titles)) return false;
    if (is_initials(t.p + begin, n) || is_listed(word, abbreviations)) return after == NEXT_STARTER;
    return true;
}

bool tx__sentence_next(const char *bytes, size_t n, bool keep_space, size_t *end, size_t *next)
{
    text t = { bytes, n };
    size_t i = skip_while(t, 0, is_space), last = i; /* behind the last character that is no white space */
    if (i == n) return false;
    while (i < n) {
        size_t len;
        if (!is_stop(bytes[i])) {
            bool space = is_space(char_at(t, i, &len));
            i += len;
            if (!space) last = i;
            continue;
        }
        size_t stop = i;
        bool asks = false;
        for (; i < n && is_stop(bytes[i]); i++) asks |= bytes[i] != '.';
        size_t stop_end = i;
        last = i = skip_while(t, i, is_closing);
        size_t begin = skip_while(t, i, is_space);
        if (begin == n) break;
        if (begin == i || !(asks || period_ends(t, stop, stop_end, begin))) continue;
        *end = keep_space ? begin : i;
        *next = begin;
        return true;
    }
    *end = last;
    *next = n;
    return true;
}
