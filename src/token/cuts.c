/* cuts.c - the steps of a pre_tokenizer. What each sees and makes is what the tokenizers library's does
 * (PreTokenizedString and NormalizedString::split). */
#include "token/cuts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "token/char_class.h"
#include "token/hf_chars.h"
#include "token/normal_steps.h"
#include "token/split_pattern.h"
#include "token/unicode_split.h"

typedef struct tx__cut_span {
    size_t start, stop;
    bool match; /* later: it is dropped */
} span;

typedef struct tx__cut_level level;

void tx__cut_scratch_free(tx__cut_scratch *s)
{
    for (size_t i = 0; i < TX__MAX_STEPS; i++) {
        tx_free(s->level[i].span);
        tx_str_free(&s->level[i].text);
    }
}

/* ---- kinds of characters ---- */

static bool is_white(const unsigned char *p, size_t n, size_t *len, uint32_t only)
{
    (void)only;
    return (tx__bits_next(p, n, len) & TX__WHITE) != 0;
}

static bool is_punctuation(const unsigned char *p, size_t n, size_t *len, uint32_t only)
{
    uint32_t c;
    (void)only;
    *len = tx__utf8_next(p, n, &c);
    return c != TX__NO_CHAR && tx__hf_char(c) & TX__HF_PUNCTUATION;
}

static bool is_only(const unsigned char *p, size_t n, size_t *len, uint32_t only)
{
    uint32_t c;
    *len = tx__utf8_next(p, n, &c);
    return c == only;
}

/* ---- words ---- */

/* Runs of white space and of anything else. */
static size_t split_white(const unsigned char *p, size_t n)
{
    size_t end, len;
    tx__char_class_init();
    bool first = (tx__bits_next(p, n, &end) & TX__WHITE) != 0;
    while (end < n && ((tx__bits_next(p + end, n - end, &len) & TX__WHITE) != 0) == first) end += len;
    return end;
}

/* Whitespace: \w+|[^\w\s]+, and the runs of white space between. */
static size_t split_words(const unsigned char *p, size_t n)
{
    size_t end, len;
    tx__char_class_init();
    unsigned first = tx__bits_next(p, n, &end) & (TX__WORD | TX__WHITE);
    while (end < n && (tx__bits_next(p + end, n - end, &len) & (TX__WORD | TX__WHITE)) == first) end += len;
    return end;
}

/* ---- matches, and what becomes of them ---- */

static tx_status add_span(level *l, size_t start, size_t stop, bool match)
{
    if (l->n == l->cap) {
        size_t cap = l->cap + l->cap / 2 + 64;
        TX_TRY(tx_realloc(&l->span, cap, sizeof *l->span, "the words of a text"));
        l->cap = cap;
    }
    l->span[l->n++] = (span){ start, stop, match };
    return TX_OK;
}

static tx_status find_pattern(const tx__cut_step *k, level *l, const unsigned char *text, size_t n)
{
    tx__matches m;
    size_t done = 0, start, stop;
    bool found;
    tx__matches_begin(&m, &k->pattern, text, n);
    for (;;) {
        TX_TRY(tx__matches_next(&m, &start, &stop, &found));
        if (!found) break;
        if (start > done) TX_TRY(add_span(l, done, start, k->invert));
        TX_TRY(add_span(l, start, stop, !k->invert));
        done = stop;
    }
    return done < n ? add_span(l, done, n, k->invert) : TX_OK;
}

static tx_status find_chars(const tx__cut_step *k, level *l, const unsigned char *text, size_t n)
{
    size_t done = 0;
    for (size_t at = 0, len; at < n; at += len) {
        if (!k->is(text + at, n - at, &len, k->only)) continue;
        if (at > done) TX_TRY(add_span(l, done, at, false));
        TX_TRY(add_span(l, at, at + len, true));
        done = at + len;
    }
    return done < n ? add_span(l, done, n, false) : TX_OK;
}

/* Joins spans; their `match` is false afterwards. */
static void merge_spans(level *l, tx__behavior behavior)
{
    size_t n = 0;
    bool previous = false;
    if (behavior == TX__MERGED_AFTER) { /* from the end, into the same places */
        size_t at = l->n;
        for (size_t i = l->n; i-- > 0; previous = l->span[i].match) {
            bool match = l->span[i].match;
            span s = l->span[i];
            if (match && !previous && at < l->n)
                l->span[at].start = s.start;
            else
                l->span[--at] = s;
            l->span[i].match = match;
        }
        for (n = 0; at < l->n; n++) l->span[n] = l->span[at++];
    } else {
        for (size_t i = 0; i < l->n; i++) {
            span s = l->span[i];
            bool join = behavior == TX__CONTIGUOUS ? s.match == previous : s.match && !previous;
            if (join && n)
                l->span[n - 1].stop = s.stop;
            else
                l->span[n++] = s;
            previous = s.match;
        }
    }
    l->n = n;
    for (size_t i = 0; i < n; i++) l->span[i].match = false;
}

static void apply_behavior(level *l, tx__behavior behavior)
{
    if (behavior == TX__REMOVED) return;
    if (behavior != TX__ISOLATED) {
        merge_spans(l, behavior);
        return;
    }
    for (size_t i = 0; i < l->n; i++) l->span[i].match = false;
}

/* ---- a run ---- */

static tx_status cut_from(const tx__cutting *c, size_t k, const unsigned char *text, size_t n, bool front);

static tx_status cut_by_function(const tx__cutting *c, size_t k, const unsigned char *text, size_t n, bool front)
{
    const tx__cut_step *s = &c->cuts->step[k];
    for (size_t at = 0, len, first; at < n; at += len) {
        len = s->split(text + at, n - at);
        if (s->drop_white && is_white(text + at, n - at, &first, 0)) continue;
        TX_TRY(cut_from(c, k + 1, text + at, len, front && !at));
    }
    return TX_OK;
}

static tx_status cut_by_length(const tx__cutting *c, size_t k, const unsigned char *text, size_t n, bool front)
{
    for (size_t at = 0, end; at < n; at = end) {
        uint32_t ch;
        end = at;
        for (size_t i = 0; i < c->cuts->step[k].length && end < n; i++) end += tx__utf8_next(text + end, n - end, &ch);
        TX_TRY(cut_from(c, k + 1, text + at, end - at, front && !at));
    }
    return TX_OK;
}

static tx_status cut_by_spans(const tx__cutting *c, size_t k, const unsigned char *text, size_t n, bool front)
{
    const tx__cut_step *s = &c->cuts->step[k];
    level *l = &c->scratch->level[k];
    l->n = 0;
    TX_TRY(s->kind == TX__C_PATTERN ? find_pattern(s, l, text, n) : find_chars(s, l, text, n));
    apply_behavior(l, s->behavior);
    for (size_t i = 0; i < l->n; i++) {
        span p = l->span[i];
        if (!p.match && p.stop > p.start)
            TX_TRY(cut_from(c, k + 1, text + p.start, p.stop - p.start, front && !p.start));
    }
    return TX_OK;
}

static tx_status metaspace(const tx__cutting *c, size_t k, const unsigned char *text, size_t n, bool front)
{
    const tx__cut_step *s = &c->cuts->step[k];
    tx_str *to = &c->scratch->level[k].text;
    size_t n_mark = strlen(s->mark);
    bool begins = (n >= n_mark && !memcmp(text, s->mark, n_mark)) || text[0] == ' ';
    to->len = 0;
    if (!begins && (s->when == TX__ALWAYS || (s->when == TX__FIRST && front)))
        TX_TRY(tx_str_append(to, s->mark, n_mark));
    for (size_t at = 0, end; at < n; at = end + 1) {
        const unsigned char *blank = memchr(text + at, ' ', n - at);
        end = blank ? (size_t)(blank - text) : n;
        TX_TRY(tx_str_append(to, text + at, end - at));
        if (blank) TX_TRY(tx_str_append(to, s->mark, n_mark));
    }
    text = (const unsigned char *)to->data;
    n = to->len;
    if (!s->cut) return cut_from(c, k + 1, text, n, front);
    for (size_t at = 0, end; at < n; at = end) {
        const unsigned char *next = at + n_mark < n ? memmem(text + at + 1, n - at - 1, s->mark, n_mark) : NULL;
        end = next ? (size_t)(next - text) : n;
        TX_TRY(cut_from(c, k + 1, text + at, end - at, front && !at));
    }
    return TX_OK;
}

static tx_status cut_from(const tx__cutting *c, size_t k, const unsigned char *text, size_t n, bool front)
{
    if (!n) return TX_OK;
    if (k == c->cuts->n) return c->each(c->user, text, n);
    const tx__cut_step *s = &c->cuts->step[k];
    tx_str *to = &c->scratch->level[k].text;
    switch (s->kind) {
    case TX__C_SPLIT:
        return cut_by_function(c, k, text, n, front);
    case TX__C_LENGTH:
        return cut_by_length(c, k, text, n, front);
    case TX__C_PATTERN:
    case TX__C_CHARS:
        return cut_by_spans(c, k, text, n, front);
    case TX__C_METASPACE:
        return metaspace(c, k, text, n, front);
    case TX__C_PREFIX:
        if (text[0] == ' ') return cut_from(c, k + 1, text, n, front);
        to->len = 0;
        TX_TRY(tx_str_append(to, " ", 1));
        TX_TRY(tx_str_append(to, text, n));
        break;
    case TX__C_SYMBOLS:
        to->len = 0;
        TX_TRY(tx__symbols_append(to, text, n));
        break;
    }
    return cut_from(c, k + 1, (const unsigned char *)to->data, to->len, front);
}

tx_status tx__cut(const tx__cutting *c, const unsigned char *text, size_t n, bool front)
{
    tx__char_class_init();
    tx__hf_chars_init();
    return cut_from(c, 0, text, n, front);
}

/* ---- reading ---- */

static tx_status add(tx__part *p, const tx__cut_step *step, const char *place)
{
    tx__cuts *to = p->to;
    if (to->n == TX__MAX_STEPS)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s: there are more than %d steps", p->file, place, TX__MAX_STEPS);
    TX_TRY(tx_realloc(&to->step, to->n + 1, sizeof *to->step, "a pre-tokenizer"));
    to->step[to->n++] = *step;
    return TX_OK;
}

static tx_status add_split(tx__part *p, tx__split_fn *split, bool drop_white, const char *place)
{
    return add(p, &(tx__cut_step){ .kind = TX__C_SPLIT, .split = split, .drop_white = drop_white }, place);
}

static tx_status add_chars(tx__part *p, tx__char_fn *is, tx__behavior behavior, const char *place)
{
    return add(p, &(tx__cut_step){ .kind = TX__C_CHARS, .is = is, .behavior = behavior }, place);
}

static tx_status read_behavior(tx__part *p, tx__behavior *out, json_t *step, const char *missing, const char *place)
{
    static const char *const words[] = { [TX__ISOLATED] = "Isolated",
                                         [TX__REMOVED] = "Removed",
                                         [TX__MERGED_BEFORE] = "MergedWithPrevious",
                                         [TX__MERGED_AFTER] = "MergedWithNext",
                                         [TX__CONTIGUOUS] = "Contiguous" };
    tx__json_str word;
    size_t i = 0;
    TX_TRY(tx__json_text(&word, step, "behavior", missing, p->file, place));
    while (i < 5 && strcmp(word.text, words[i]) != 0) i++;
    if (i == 5)
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "%s: %s.behavior is \"%s\"; triax reads Isolated, Removed, MergedWithPrevious, MergedWithNext and "
            "Contiguous",
            p->file, place, tx__show(word.text, word.n).text);
    *out = (tx__behavior)i;
    return TX_OK;
}

/* A pattern that is known has a function, which is faster than Oniguruma. Isolated makes pieces of matches and of what
 * lies between; where nothing does, so does Removed with invert. */
static tx_status split_step(tx__part *p, json_t *step, const char *place)
{
    tx__cut_step s = { .kind = TX__C_PATTERN };
    const char *regex = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", "pattern", "behavior", "invert", NULL }));
    TX_TRY(tx__json_bool(&s.invert, step, "invert", false, p->file, place));
    TX_TRY(read_behavior(p, &s.behavior, step, NULL, place));
    const tx__split_pattern *known = regex ? tx__split_pattern_find(regex) : NULL;
    if (known && (s.behavior == TX__ISOLATED || (s.behavior == TX__REMOVED && s.invert && known->everywhere)))
        return add_split(p, known->split, false, place);
    TX_TRY(tx__text_pattern_read(&s.pattern, step, p->file, place));
    tx_status st = add(p, &s, place);
    if (st) tx__text_pattern_free(&s.pattern);
    return st;
}

static tx_status byte_level_step(tx__part *p, json_t *step, const char *place)
{
    static const char *const keys[] = { "type", "add_prefix_space", "trim_offsets", "use_regex", NULL };
    bool use_regex, prefix;
    TX_TRY(tx__json_only(step, p->file, place, keys));
    TX_TRY(tx__json_bool(&prefix, step, "add_prefix_space", -1, p->file, place));
    TX_TRY(tx__json_bool(&use_regex, step, "use_regex", true, p->file, place));
    if (prefix) TX_TRY(add(p, &(tx__cut_step){ .kind = TX__C_PREFIX }, place));
    if (use_regex) TX_TRY(add_split(p, tx__split_next, false, place));
    return add(p, &(tx__cut_step){ .kind = TX__C_SYMBOLS }, place);
}

tx_status tx__metaspace_read(tx__cut_step *out, json_t *step, const char *file, const char *place)
{
    static const char *const keys[] = { "type",    "replacement", "prepend_scheme", "add_prefix_space", "split",
                                        "str_rep", NULL };
    static const char *const schemes[] = { "always", "first", "never" };
    tx__json_str mark, scheme;
    size_t i = 0;
    bool prefix = true;
    TX_TRY(tx__json_only(step, file, place, keys));
    TX_TRY(tx__json_char(&mark, step, "replacement", NULL, file, place));
    memcpy(out->mark, mark.text, mark.n);
    TX_TRY(tx__json_text(&scheme, step, "prepend_scheme", "always", file, place));
    while (i < 3 && strcmp(scheme.text, schemes[i]) != 0) i++;
    if (i == 3)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s.prepend_scheme is \"%s\"; triax reads always, first and never", file,
                       place, tx__show(scheme.text, scheme.n).text);
    if (!json_is_null(json_object_get(step, "add_prefix_space")))
        TX_TRY(tx__json_bool(&prefix, step, "add_prefix_space", true, file, place));
    if (!prefix && i == TX__FIRST)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.add_prefix_space is false, but its prepend_scheme is \"first\"", file,
                       place);
    out->when = prefix ? (tx__prepend)i : TX__NEVER;
    if (json_is_null(json_object_get(step, "split"))) {
        out->cut = true;
        return TX_OK;
    }
    return tx__json_bool(&out->cut, step, "split", true, file, place);
}

static tx_status metaspace_step(tx__part *p, json_t *step, const char *place)
{
    tx__cut_step s = { .kind = TX__C_METASPACE };
    TX_TRY(tx__metaspace_read(&s, step, p->file, place));
    return add(p, &s, place);
}

static tx_status digits_step(tx__part *p, json_t *step, const char *place)
{
    bool each;
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", "individual_digits", NULL }));
    TX_TRY(tx__json_bool(&each, step, "individual_digits", -1, p->file, place));
    return add_split(p, each ? tx__split_digits : tx__split_digit_runs, false, place);
}

static tx_status punctuation_step(tx__part *p, json_t *step, const char *place)
{
    tx__behavior behavior;
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", "behavior", NULL }));
    TX_TRY(read_behavior(p, &behavior, step, "Isolated", place));
    return add_chars(p, is_punctuation, behavior, place);
}

static tx_status delimiter_step(tx__part *p, json_t *step, const char *place)
{
    tx__cut_step s = { .kind = TX__C_CHARS, .is = is_only, .behavior = TX__REMOVED };
    tx__json_str c;
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", "delimiter", NULL }));
    TX_TRY(tx__json_char(&c, step, "delimiter", NULL, p->file, place));
    tx__utf8_next((const unsigned char *)c.text, c.n, &s.only);
    return add(p, &s, place);
}

static tx_status length_step(tx__part *p, json_t *step, const char *place)
{
    json_t *length = json_object_get(step, "length");
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", "length", NULL }));
    if (length && (!json_is_integer(length) || json_integer_value(length) < 1))
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.length is %s, not a number of characters", p->file, place,
                       tx__json_show(length).text);
    return add(p, &(tx__cut_step){ .kind = TX__C_LENGTH, .length = length ? (size_t)json_integer_value(length) : 5 },
               place);
}

static tx_status words_step(tx__part *p, json_t *step, const char *place)
{
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", NULL }));
    return add_split(p, split_words, true, place);
}

static tx_status white_step(tx__part *p, json_t *step, const char *place)
{
    TX_TRY(tx__json_only(step, p->file, place, (const char *const[]){ "type", NULL }));
    return add_split(p, split_white, true, place);
}

static tx_status bert_step(tx__part *p, json_t *step, const char *place)
{
    TX_TRY(white_step(p, step, place));
    return add_chars(p, is_punctuation, TX__ISOLATED, place);
}

static const struct {
    const char *type;
    tx_status (*read)(tx__part *p, json_t *step, const char *place);
} types[] = {
    { "ByteLevel", byte_level_step },    { "Split", split_step },           { "Metaspace", metaspace_step },
    { "Digits", digits_step },           { "Whitespace", words_step },      { "WhitespaceSplit", white_step },
    { "Punctuation", punctuation_step }, { "BertPreTokenizer", bert_step }, { "CharDelimiterSplit", delimiter_step },
    { "FixedLength", length_step },
};

static tx_status read_one(tx__part *p, json_t *step, const char *type, const char *place)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].type)) return types[i].read(p, step, place);
    return tx__part_unknown(p, step, place);
}

tx_status tx__cuts_read(tx__cuts *out, json_t *root, const char *file)
{
    tx__part p = { .file = file, .name = "pre_tokenizer", .list = "pretokenizers", .step = read_one, .to = out };
    p.known = "ByteLevel, Split, Metaspace, Digits, Whitespace, WhitespaceSplit, Punctuation, BertPreTokenizer, "
              "CharDelimiterSplit, FixedLength and a Sequence of them";
    return tx__part_read(&p, root);
}

void tx__cuts_free(tx__cuts *c)
{
    for (size_t i = 0; i < c->n; i++) tx__text_pattern_free(&c->step[i].pattern);
    tx_free(c->step);
    *c = (tx__cuts){ 0 };
}
