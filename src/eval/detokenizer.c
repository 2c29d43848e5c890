/* detokenizer.c - the rules, which are replacements applied to a text in order. */
#include "eval/detokenizer.h"

#include <string.h>

/* ---- white space ---- */

size_t tx_white_at(const char *p, size_t n)
{
    /* beyond ASCII: U+0085, A0, 1680, 2000 to 200A, 2028, 2029, 202F, 205F, 3000 */
    static const char *const wide[] = { "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
                                        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80" };
    unsigned char c = n ? (unsigned char)p[0] : 'x';
    if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f)) return 1;
    if (c < 0x80) return 0;
    if (n >= 3 && !memcmp(p, "\xe2\x80", 2) && (unsigned char)p[2] >= 0x80 && (unsigned char)p[2] <= 0x8a) return 3;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        size_t m = strlen(wide[i]);
        if (n >= m && !memcmp(p, wide[i], m)) return m;
    }
    return 0;
}

/* The white space character that ends at p[n]. */
static size_t white_before(const char *p, size_t n)
{
    for (size_t m = 1; m <= 3 && m <= n; m++)
        if (tx_white_at(p + n - m, m) == m) return m;
    return 0;
}

void tx_strip(const char **text, size_t *n)
{
    for (size_t m; (m = tx_white_at(*text, *n)); *n -= m) *text += m;
    for (size_t m; (m = white_before(*text, *n));) *n -= m;
}

/* ---- rules ---- */

static void take(tx_str *text, tx_str *changed)
{
    tx_str old = *text;
    *text = *changed;
    *changed = old;
    changed->len = 0;
}

/* Every `from`, from the left, becomes `to`. @work scratch */
static tx_status replace(tx_str *text, const char *from, const char *to, tx_str *work)
{
    const char *at = text->data, *end = at + text->len, *hit;
    size_t n = strlen(from);
    while ((hit = memmem(at, (size_t)(end - at), from, n))) {
        TX_TRY(tx_str_append(work, at, (size_t)(hit - at)));
        TX_TRY(tx_str_puts(work, to));
        at = hit + n;
    }
    TX_TRY(tx_str_append(work, at, (size_t)(end - at)));
    take(text, work);
    return TX_OK;
}

/* White space behind every `open` and before the `close` that is next to it goes: (\s*([^)]*?)\s*) becomes (\1). */
static tx_status tighten(tx_str *text, char open, char close, tx_str *work)
{
    const char *at = text->data, *end = at + text->len, *a, *b;
    while ((a = memchr(at, open, (size_t)(end - at))) && (b = memchr(a + 1, close, (size_t)(end - a - 1)))) {
        const char *inner = a + 1;
        size_t n = (size_t)(b - inner);
        tx_strip(&inner, &n);
        TX_TRY(tx_str_append(work, at, (size_t)(a + 1 - at)));
        TX_TRY(tx_str_append(work, inner, n));
        TX_TRY(tx_str_append(work, b, 1));
        at = b + 1;
    }
    TX_TRY(tx_str_append(work, at, (size_t)(end - at)));
    take(text, work);
    return TX_OK;
}

/* The pattern "/' [0-9]/" with its replacement as upstream has them: the slashes are part of both, and what replaces
 * the digit are these five letters. */
static tx_status digit_in_slashes(tx_str *text, tx_str *work)
{
    const char *p = text->data;
    size_t n = text->len, from = 0;
    for (size_t i = 0; i + 5 <= n; i++) {
        if (memcmp(p + i, "/' ", 3) || p[i + 3] < '0' || p[i + 3] > '9' || p[i + 4] != '/') continue;
        TX_TRY(tx_str_append(work, p + from, i - from));
        TX_TRY(tx_str_puts(work, "/'[0-9]/"));
        from = i + 5;
        i += 4;
    }
    TX_TRY(tx_str_append(work, p + from, n - from));
    take(text, work);
    return TX_OK;
}

/* from NULL: what stands between two characters `to` is tightened; to NULL: the rule for digits. */
typedef struct rule {
    const char *from, *to;
} rule;

static const rule ptb[] = {
    { " '", "'" },   { " \n", "\n" }, { "\n ", "\n" }, { " n't", "n't" },
    { " N ", "1 " }, { "$ 1", "$1" }, { "# 1", "#1" },
};
static const rule wiki[] = {
    { "s '", "s'" }, { "", NULL },          { " @-@ ", "-" },   { " @,@ ", "," }, { " @.@ ", "." },
    { " : ", ": " }, { " ; ", "; " },       { " . ", ". " },    { " ! ", "! " },  { " ? ", "? " },
    { " , ", ", " }, { NULL, "()" },        { NULL, "[]" },     { NULL, "{}" },   { NULL, "\"\"" },
    { NULL, "''" },  { "= = = =", "====" }, { "= = =", "===" }, { "= =", "==" },  { " \xc2\xb0 ", "\xc2\xb0" },
    { " \n", "\n" }, { "\n ", "\n" },       { " N ", " 1 " },   { " 's", "'s" },
};

#define RULES(list)                      \
    {                                    \
        list, sizeof list / sizeof *list \
    }
static const struct {
    const rule *rule;
    size_t n;
} rules[] = {
    [TX_DETOKENIZER_WIKI] = RULES(wiki),
    [TX_DETOKENIZER_PTB] = RULES(ptb),
    [TX_DETOKENIZER_NONE] = { NULL, 0 },
};

enum tx_detokenizer_choice tx_detokenizer_for(const char *path)
{
    if (strstr(path, "ptb")) return TX_DETOKENIZER_PTB;
    return strstr(path, "wiki") ? TX_DETOKENIZER_WIKI : TX_DETOKENIZER_NONE;
}

tx_status tx_detokenize(enum tx_detokenizer_choice which, tx_str *text)
{
    const rule *r = rules[which].rule;
    tx_str work = { 0 };
    tx_status st = TX_OK;
    for (size_t i = 0; i < rules[which].n && !st && text->len; i++)
        st = !r[i].from ? tighten(text, r[i].to[0], r[i].to[1], &work)
             : r[i].to  ? replace(text, r[i].from, r[i].to, &work)
                        : digit_in_slashes(text, &work);
    tx_str_free(&work);
    return st;
}
