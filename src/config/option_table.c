/* option_table.c - options.def as arrays, and finding a row by its flag. */
#include "config/option_table.h"

#include <string.h>

#define ROW(kind_, flag_, group_, kept_, n_, text_)                                                              \
    .kind = TX_OPTION_##kind_, .flag = flag_, .group = TX_GROUP_##group_, .kept = TX_KEPT_##kept_, .n_args = n_, \
    .text = text_
#define AT(f) .field = #f, .at = offsetof(struct tx_config, f), .given_at = offsetof(tx_config_given, f)

/* An ENUM member is read and written as an int. */
#define ENUM(f, flag, init, type, ...) _Static_assert(sizeof(enum tx_##type) == sizeof(int), #type);
#include "config/options.def"

#define W(constant, word_, ...)                  { constant, word_ },
#define ENUM(f, flag, init, type, words, ...)    static const tx__option_word f##_words[] = { words{ 0, NULL } };
#define ENUM_OF(f, flag, init, type, words, ...) static const tx__option_word f##_words[] = { words{ 0, NULL } };
#include "config/options.def"

/* clang-format off */
const tx_option tx__options[] = {
#define W(constant, word, ...) "|" word
#define I64(f, flag, init, low, high, u, group, kept, text) \
    { ROW(I64, flag, group, kept, 1, text), AT(f), .initial = init, .lo = low, .hi = high, .unit = u },
#define F64(f, flag, init, low, high, u, group, kept, text) \
    { ROW(F64, flag, group, kept, 1, text), AT(f), .initial = init, .lo = low, .hi = high, .unit = u },
#define STR(f, flag, init, u, group, kept, text) \
    { ROW(STR, flag, group, kept, 1, text), AT(f), .initial = init, .unit = u },
#define ENUM(f, flag, init, type, w, group, kept, text) \
    { ROW(ENUM, flag, group, kept, 1, text), AT(f), .initial = init, .words = &"" w[1], .enums = f##_words },
#define ENUM_OF(...)                         ENUM(__VA_ARGS__)
#define LIST(f, flag, init, low, high, u, group, kept, text) \
    { ROW(LIST, flag, group, kept, -1, text), AT(f), .initial = init, .lo = low, .hi = high, .unit = u },
#define FLAG(f, flag, group, kept, text)     { ROW(FLAG, flag, group, kept, 0, text), AT(f) },
#define FLAG_OFF(f, flag, group, kept, text) { ROW(FLAG_OFF, flag, group, kept, 0, text), AT(f) },
#define NOOP(flag, n, group, text)           { ROW(NOOP, flag, group, NO, n, text) },
#define FIXED(flag, n, w, group, text)       { ROW(FIXED, flag, group, NO, n, text), .words = w },
#define LATER(flag, n, group, text)          { ROW(LATER, flag, group, NO, n, text) },
#define REFUSED(flag, n, group, text)        { ROW(REFUSED, flag, group, NO, n, text) },
#include "config/options.def"
};
/* clang-format on */
const size_t tx__n_options = sizeof tx__options / sizeof *tx__options;

const char *const tx__group_titles[TX_N_OPTION_GROUPS] = {
#define GROUP(name, title) title,
#include "config/options.def"
};

#define G(group) ((uint64_t)1 << TX_GROUP_##group)
#define COMMAND(constant, name_, run, traits_, load_, groups_, summary_, launches_) \
    { .id = constant,                                                               \
      .name = name_,                                                                \
      .summary = summary_,                                                          \
      .traits = traits_,                                                            \
      .load = load_,                                                                \
      .launches = launches_,                                                        \
      .groups = groups_ },
#define TYPED(...)    COMMAND(__VA_ARGS__, false)
#define LAUNCHER(...) COMMAND(__VA_ARGS__, true)

const tx_command tx__commands[] = { TX_COMMANDS(TYPED, LAUNCHER, TYPED) };
const size_t tx__n_commands = sizeof tx__commands / sizeof *tx__commands;

static const struct alias {
    const char *spelling, *flag, *text; /* NULL: nothing to say */
} aliases[] = {
#define ALIAS(spelling, flag)         { spelling, flag, NULL },
#define RENAMED(spelling, flag, text) { spelling, flag, text },
#include "config/options.def"
};

static const struct same_word {
    const char *flag, *typed, *word;
} same_words[] = {
#define WORD(flag, typed, word) { flag, typed, word },
#include "config/options.def"
};

static const struct pair {
    const char *flag, *second;
} pairs[] = {
#define PAIR(flag, second) { flag, second },
#include "config/options.def"
};

static const struct also {
    const char *command, *field, *initial;
} also[] = {
#define ALSO(command, field, initial) { command, #field, initial },
#include "config/options.def"
};

static const struct bare {
    const char *command, *flag;
} bare[] = {
#define BARE(command, flag) { command, flag },
#include "config/options.def"
};

bool tx__alias(size_t i, const char **spelling, const char **flag)
{
    if (i >= sizeof aliases / sizeof *aliases) return false;
    *spelling = aliases[i].spelling;
    *flag = aliases[i].flag;
    return true;
}

const tx_command *tx_command_find(const char *name)
{
    for (size_t i = 0; i < tx__n_commands; i++)
        if (!strcmp(tx__commands[i].name, name)) return &tx__commands[i];
    return NULL;
}

bool tx__command_takes(const tx_command *cmd, const tx_option *o, const char **initial)
{
    bool takes = cmd->groups >> o->group & 1;
    if (initial) *initial = o->initial;
    if (!tx__has_member(o)) return takes;
    for (size_t i = 0; i < sizeof also / sizeof *also; i++) {
        if (strcmp(also[i].command, cmd->name) || strcmp(also[i].field, o->field)) continue;
        if (initial) *initial = also[i].initial;
        return true;
    }
    return takes;
}

bool tx__flag_equal(const char *table, const char *typed, size_t n)
{
    size_t i = 0;
    for (; i < n && table[i]; i++) {
        char a = table[i] == '_' ? '-' : table[i], b = typed[i] == '_' ? '-' : typed[i];
        if (a != b) return false;
    }
    return i == n && !table[i];
}

const char *tx__renamed(const char *spelling)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(aliases[i].spelling, spelling)) return aliases[i].text;
    return NULL;
}

const char *tx__word_of(const tx_option *o, const char *typed)
{
    for (size_t i = 0; i < sizeof same_words / sizeof *same_words; i++)
        if (!strcmp(same_words[i].flag, o->flag) && !strcmp(same_words[i].typed, typed)) return same_words[i].word;
    return typed;
}

const char *tx__first_of_pair(const tx_option *o, const char *typed, char *first, size_t size)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *comma = strchr(typed, ',');
        if (strcmp(pairs[i].flag, o->flag) != 0 || !comma) continue;
        bool closed = *typed == '(';
        const char *begin = typed + closed, *second = comma + 1 + strspn(comma + 1, " ");
        size_t n = (size_t)(comma - begin), m = strlen(pairs[i].second);
        if (n >= size || strncmp(second, pairs[i].second, m) != 0 || strcmp(second + m, closed ? ")" : "") != 0)
            return typed;
        memcpy(first, begin, n);
        first[n] = 0;
        return first;
    }
    return typed;
}

bool tx__is_family(const tx_option *o)
{
    return o->flag[strlen(o->flag) - 1] == '*';
}

/* The longest of the families that the flag belongs to. */
static const tx_option *family_find(const tx_command *cmd, const char *flag, size_t n)
{
    const tx_option *found = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        size_t k = strlen(o->flag) - 1;
        if (!tx__is_family(o) || k <= longest || k >= n || (cmd && !tx__command_takes(cmd, o, NULL))) continue;
        char start[64];
        TX_ASSERT(k < sizeof start);
        memcpy(start, o->flag, k);
        start[k] = 0;
        if (tx__flag_equal(start, flag, k)) found = o, longest = k;
    }
    return found;
}

const tx_option *tx__option_find(const tx_command *cmd, const char *flag, size_t n, const char **spelling)
{
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (!tx__flag_equal(o->flag, flag, n) || (cmd && !tx__command_takes(cmd, o, NULL))) continue;
        if (spelling) *spelling = o->flag;
        return o;
    }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (!tx__flag_equal(aliases[i].spelling, flag, n)) continue;
        if (spelling) *spelling = aliases[i].spelling;
        return tx__option_find(cmd, aliases[i].flag, strlen(aliases[i].flag), NULL);
    }
    const tx_option *family = family_find(cmd, flag, n);
    if (family && spelling) *spelling = family->flag;
    return family;
}

bool tx__word_in(const char *words, const char *word)
{
    size_t n = strchr(word, '|') ? 0 : strlen(word); /* two words with that between them are none */
    for (const char *w = words; n && w; w = strchr(w, '|')) {
        w += *w == '|';
        if (!strncmp(w, word, n) && (w[n] == '|' || !w[n])) return true;
    }
    return false;
}

int tx__enum_of(const tx_option *o, const char *word)
{
    const tx__option_word *w = o->enums;
    while (w->word && strcmp(w->word, word) != 0) w++;
    return w->value;
}

const char *tx__enum_word(const tx_option *o, int value)
{
    const tx__option_word *w = o->enums;
    while (w->word && w->value != value) w++;
    return w->word;
}

#define W(...) TX_KIND_CASE(__VA_ARGS__)
#define ENUM(field, flag, init, type, words, ...)      \
    const char *tx_##type##_word(enum tx_##type value) \
    {                                                  \
        switch (value) {                               \
            words                                      \
        }                                              \
        return NULL;                                   \
    }
#include "config/options.def"

const tx_option *tx__option_bare(const tx_command *cmd)
{
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (!strcmp(bare[i].command, cmd->name)) return tx__option_find(cmd, bare[i].flag, strlen(bare[i].flag), NULL);
    return NULL;
}
