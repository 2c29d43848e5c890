/* split_pattern.c - the regular expressions of the published byte-level tokenizers, written as C. Alternatives are
 * tried from left to right, as a backtracking engine does; where a greedy part can return characters, a comment says
 * when.
 */
#include "token/split_pattern.h"

#include <string.h>

#include "token/char_class.h"
#include "token/unicode_split.h"

typedef struct rules {
    bool cased;        /* words end before a capital that follows a small letter */
    bool contractions; /* (?i:'s|'t|'re|'ve|'m|'ll|'d): before words, or behind them where cased */
    bool slash;        /* symbols take slashes too behind them */
    bool end;          /* white space at the end of the text is one piece: \s++$ before \s*[\r\n] */
    unsigned numbers;  /* at most so many numbers in a piece */
} rules;

static inline bool newline(unsigned char c)
{
    return c == '\r' || c == '\n';
}

/* Bytes of the run of characters that have one of `bits`, from p[at] on; the end of the run. */
static size_t run_end(const unsigned char *p, size_t n, size_t at, unsigned bits)
{
    for (size_t len; at < n && (tx__bits_next(p + at, n - at, &len) & bits);) at += len;
    return at;
}

/* Bytes of (?i:'s|'t|'re|'ve|'m|'ll|'d) at p, 0: none. U+017F is an s in capitals. */
static size_t contraction(const unsigned char *p, size_t n)
{
    if (n < 2 || p[0] != '\'') return 0;
    unsigned a = p[1] | 0x20u, b = n > 2 ? p[2] | 0x20u : 0;
    if (p[1] >= 0x80) return n > 2 && p[1] == 0xC5 && p[2] == 0xBF ? 3 : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (n < 3 || p[2] >= 0x80) return 0;
    return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
}

enum { CAPITAL = TX__UPPER | TX__UNCASED | TX__MARK, SMALL = TX__LOWER | TX__UNCASED | TX__MARK };

/* End of [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ from `at` on, 0: no match. Where no small letter
 * follows the capitals, they give back down to the last one that is without case. */
static size_t small_word(const unsigned char *p, size_t n, size_t at)
{
    size_t without_case = 0, len;
    for (unsigned bits; at < n && ((bits = tx__bits_next(p + at, n - at, &len)) & CAPITAL);) {
        at += len;
        if (bits & SMALL) without_case = at;
    }
    size_t end = run_end(p, n, at, SMALL);
    return end > at ? end : without_case;
}

/* Words of o200k: [^\r\n\p{L}\p{N}]?small_word, then the same with capitals only; each first with the one character
 * before the word, then without, which a mark alone allows. */
static size_t cased_word(const unsigned char *p, size_t n, size_t before, const rules *r)
{
    size_t end = before ? small_word(p, n, before) : 0;
    if (!end) end = small_word(p, n, 0);
    if (!end && before && (end = run_end(p, n, before, CAPITAL)) == before) end = 0;
    if (!end) end = run_end(p, n, 0, CAPITAL);
    return end && r->contractions ? end + contraction(p + end, n - end) : end;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ at white space: to the last line end of the run; without one, all but the last character if
 * the run has others and something follows it. */
static size_t white_space(const unsigned char *p, size_t n, bool to_the_end)
{
    size_t end = 0, last = 0, line = 0;
    for (size_t len; end < n && (tx__bits_next(p + end, n - end, &len) & TX__WHITE);) {
        last = end;
        end += len;
        if (newline(p[last])) line = end;
    }
    if (to_the_end && end == n) return n;
    if (line) return line;
    return end < n && last > 0 ? last : end;
}

static inline size_t split(const unsigned char *p, size_t n, const rules *r)
{
    const unsigned known = TX__ALPHA | TX__NUMERIC;
    size_t len, end;
    tx__char_class_init();
    if (!r->cased && r->contractions && (end = contraction(p, n))) return end;
    unsigned bits = tx__bits_next(p, n, &len);
    size_t before = bits & known || newline(p[0]) ? 0 : len; /* [^\r\n\p{L}\p{N}]? */
    if (r->cased) {
        if ((end = cased_word(p, n, before, r))) return end;
    } else {
        end = run_end(p, n, before, TX__ALPHA);
        if (end > before) return end;
    }
    if (bits & TX__NUMERIC) {
        for (unsigned i = 1; i < r->numbers && len < n; i++) {
            size_t more;
            if (!(tx__bits_next(p + len, n - len, &more) & TX__NUMERIC)) break;
            len += more;
        }
        return len;
    }
    size_t at = p[0] == ' ' ? 1 : 0; /* ` ?[^\s\p{L}\p{N}]+[\r\n]*` */
    for (end = at; end < n && !(tx__bits_next(p + end, n - end, &len) & (known | TX__WHITE));) end += len;
    if (end == at) return white_space(p, n, r->end);
    while (end < n && (newline(p[end]) || (r->slash && p[end] == '/'))) end++;
    return end;
}

static size_t split_cl100k(const unsigned char *p, size_t n)
{
    static const rules r = { .contractions = true, .numbers = 3 };
    return split(p, n, &r);
}

/* As tiktoken's own now is: a text that ends in white space ends in one piece. */
static size_t split_cl100k_end(const unsigned char *p, size_t n)
{
    static const rules r = { .contractions = true, .end = true, .numbers = 3 };
    return split(p, n, &r);
}

/* Megatron Core's first one: without contractions. */
static size_t split_core_v1(const unsigned char *p, size_t n)
{
    static const rules r = { .numbers = 1 };
    return split(p, n, &r);
}

static size_t split_qwen2(const unsigned char *p, size_t n)
{
    static const rules r = { .contractions = true, .numbers = 1 };
    return split(p, n, &r);
}

static size_t split_o200k(const unsigned char *p, size_t n)
{
    static const rules r = { .cased = true, .contractions = true, .slash = true, .numbers = 3 };
    return split(p, n, &r);
}

static size_t split_tekken(const unsigned char *p, size_t n)
{
    static const rules r = { .cased = true, .slash = true, .numbers = 1 };
    return split(p, n, &r);
}

/* ---- DeepSeek-V3's three, one after the other; they leave gaps ---- */

/* \p{N}{1,3} */
static size_t split_numbers(const unsigned char *p, size_t n)
{
    size_t end = 0, len;
    tx__char_class_init();
    for (int i = 0; i < 3 && end < n && (tx__bits_next(p + end, n - end, &len) & TX__NUMERIC); i++) end += len;
    if (end) return end;
    while (end < n && !(tx__bits_next(p + end, n - end, &len) & TX__NUMERIC)) end += len;
    return end;
}

static bool cjk(const unsigned char *p, size_t n, size_t *len)
{
    uint32_t c;
    *len = tx__utf8_next(p, n, &c);
    return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

/* [一-龥぀-ゟ゠-ヿ]+ */
static size_t split_cjk(const unsigned char *p, size_t n)
{
    size_t end, len;
    bool first = cjk(p, n, &end);
    while (end < n && cjk(p + end, n - end, &len) == first) end += len;
    return end;
}

static inline bool ascii_letter(unsigned char c)
{
    return (unsigned char)((c | 0x20) - 'a') < 26;
}

/* Bytes of the match at p, 0: none. */
static size_t deepseek_match(const unsigned char *p, size_t n)
{
    size_t len, end = 1;
    unsigned bits = tx__bits_next(p, n, &len);
    if (p[0] < 0x80 && bits & TX__SYMBOL && n > 1 && ascii_letter(p[1])) {
        while (end < n && ascii_letter(p[end])) end++;
        return end;
    }
    size_t before = bits & (TX__ALPHA | TX__SYMBOL) || newline(p[0]) ? 0 : len;
    end = run_end(p, n, before, TX__ALPHA | TX__MARK);
    if (end == before && before) end = run_end(p, n, before = 0, TX__ALPHA | TX__MARK); /* a mark alone */
    if (end > before) return end;
    size_t at = p[0] == ' ' ? 1 : 0;
    end = run_end(p, n, at, TX__SYMBOL);
    if (end == at) return bits & TX__WHITE ? white_space(p, n, false) : 0;
    while (end < n && newline(p[end])) end++;
    return end;
}

static size_t split_deepseek(const unsigned char *p, size_t n)
{
    tx__char_class_init();
    size_t end = deepseek_match(p, n), len;
    if (end) return end;
    do {
        tx__bits_next(p + end, n - end, &len);
        end += len;
    } while (end < n && !deepseek_match(p + end, n - end));
    return end;
}

/* ---- by name ---- */

/* As Rust's char::is_numeric, whose tables are a Unicode version ahead of the patterns'. */
static bool digit(const unsigned char *p, size_t n, size_t *len)
{
    uint32_t c;
    *len = tx__utf8_next(p, n, &c);
    if ((c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6)) return true;
    return (tx__bits_next(p, n, len) & TX__NUMERIC) != 0;
}

size_t tx__split_digits(const unsigned char *p, size_t n)
{
    size_t end, len;
    tx__char_class_init();
    if (digit(p, n, &end)) return end;
    while (end < n && !digit(p + end, n - end, &len)) end += len;
    return end;
}

size_t tx__split_digit_runs(const unsigned char *p, size_t n)
{
    size_t end, len;
    tx__char_class_init();
    bool first = digit(p, n, &end);
    while (end < n && digit(p + end, n - end, &len) == first) end += len;
    return end;
}

size_t tx__split_nothing(const unsigned char *p, size_t n)
{
    (void)p;
    return n;
}

/* ---- the table ---- */

#define CAPITALS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALLS   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE   "[^\\r\\n\\p{L}\\p{N}]?"
#define SUFFIX   "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES   "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* clang-format off */
const tx__split_pattern tx__split_patterns[] = {
    { "GPT-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", tx__split_next, true },
    { "GPT-4 and Llama 3",
      SUFFIX "|" BEFORE "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES, split_cl100k, true },
    { NULL, /* the same pieces in other words */
      "'(?i:[sdmt]|ll|ve|re)|" BEFORE "+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
      split_cl100k, true },
    { NULL, /* tiktoken's r50k_base and p50k_base; the pieces of GPT-2 */
      "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s", tx__split_next, true },
    { NULL, /* tiktoken's cl100k_base */
      "'(?i:[sdmt]|ll|ve|re)|" BEFORE "+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+"
      "|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
      split_cl100k_end, true },
    { NULL, /* Megatron Core's v1 */
      BEFORE "+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+", split_core_v1, true },
    { "Qwen 2", SUFFIX "|" BEFORE "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES, split_qwen2, true },
    { "GPT-4o",
      BEFORE CAPITALS "*" SMALLS "+" SUFFIX "?|" BEFORE CAPITALS "+" SMALLS "*" SUFFIX "?|\\p{N}{1,3}"
      "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES, split_o200k, true },
    { "Mistral's Tekken",
      BEFORE CAPITALS "*" SMALLS "+|" BEFORE CAPITALS "+" SMALLS "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES,
      split_tekken, true },
    { "DeepSeek-V3's three", "\\p{N}{1,3}", split_numbers, false },
    { NULL, "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", split_cjk, false },
    { NULL,
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
      "| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES, split_deepseek, false },
    { NULL, NULL, NULL, false },
};
/* clang-format on */

const tx__split_pattern *tx__split_pattern_find(const char *regex)
{
    for (const tx__split_pattern *p = tx__split_patterns; p->regex; p++)
        if (!strcmp(p->regex, regex)) return p;
    return NULL;
}

tx__split_fn *tx__split_of_tiktoken(enum tx_tiktoken_pattern pattern)
{
    switch (pattern) {
    case TX_TIKTOKEN_V1:
        return split_core_v1;
    case TX_TIKTOKEN_V2:
        return split_tekken;
    case TX_TIKTOKEN_R50K:
    case TX_TIKTOKEN_P50K:
        return tx__split_next;
    case TX_TIKTOKEN_CL100K:
        return split_cl100k_end;
    case TX_TIKTOKEN_O200K:
        return split_o200k;
    case TX_TIKTOKEN_LLAMA3:
        return split_cl100k;
    case TX_TIKTOKEN_QWEN2:
        return split_qwen2;
    }
    return split_tekken;
}
