/* help.c - the text of --help for a command: the flags it needs, the others by group, then what is accepted or refused
 * without being an option. And what a mistyped command may mean. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config/option_table.h"

enum { WIDTH = 100, HELP_AT = 38 };

const char *tx_config_command(int i, const char **summary)
{
    if (i < 0 || (size_t)i >= tx__n_commands || tx__commands[i].id == TX_COMMAND_ENGINE) return NULL;
    if (summary) *summary = tx__commands[i].summary;
    return tx__commands[i].name;
}

/* ---------------------------------------------------------------- commands that are like a word */

/* As commands are written. */
static void as_command(char *buf, size_t cap, const char *typed)
{
    size_t n = 0;
    for (; typed[n] && n + 1 < cap; n++) buf[n] = typed[n] == '_' ? '-' : (char)tolower((unsigned char)typed[n]);
    buf[n] = 0;
}

tx_status tx_config_commands_like(char **out, const char *typed)
{
    char word[64];
    const char *name;
    tx_str text = { 0 };
    tx_status st = TX_OK;
    as_command(word, sizeof word, typed);
    int nearest = tx_str_another(strlen(word));
    bool near = false;
    for (int i = 0; (name = tx_config_command(i, NULL)); i++) {
        int d = tx_str_distance(word, name);
        if (d < nearest) nearest = d, near = true;
    }
    for (int i = 0; !st && (name = tx_config_command(i, NULL)); i++) {
        bool part = strlen(word) > 2 && strstr(name, word);
        if (near ? tx_str_distance(word, name) == nearest : part)
            st = tx_str_printf(&text, "%s%s", text.len ? " or " : "", name);
    }
    if (st)
        tx_str_free(&text);
    else
        *out = text.data;
    return st;
}

/* ---------------------------------------------------------------- which flags are shown */

/* What of a command's help is asked for. */
typedef struct view {
    const tx_command *cmd;
    const char *word;     /* only flags that have it; NULL: all */
    tx_config_given need; /* what the command cannot do without */
} view;

static int plain(char c)
{
    return c == '_' || c == ' ' ? '-' : tolower((unsigned char)c);
}

/* Without regard to upper case; '_' and a blank are as good as '-'. */
static bool has_word(const char *text, const char *word)
{
    for (; *text; text++) {
        size_t n = 0;
        while (word[n] && text[n] && plain(text[n]) == plain(word[n])) n++;
        if (!word[n]) return true;
    }
    return false;
}

static bool shows(const view *v, const tx_option *o)
{
    const char *spelling, *flag;
    if (!tx__command_takes(v->cmd, o, NULL)) return false;
    if (!v->word || has_word(o->flag, v->word) || has_word(o->text, v->word) ||
        has_word(tx__group_titles[o->group], v->word))
        return true;
    for (size_t i = 0; tx__alias(i, &spelling, &flag); i++)
        if (!strcmp(flag, o->flag) && has_word(spelling, v->word)) return true;
    return false;
}

/* The flags that are named in what an empty command line is refused for; behind a semicolon there are other ways. */
static tx_status find_needed(view *v)
{
    static const tx_config_given none = { 0 };
    tx_config *empty = NULL;
    tx_violations found = { 0 };
    tx_status st;
    TX_GOTO(tx_config_new(&empty, v->cmd->name));
    TX_GOTO(tx__config_settle(empty, &none, NULL, false, &found));
    bool aside = false;
    for (const char *p = found.text.len ? found.text.data : ""; *p; p++) {
        aside = *p == ';' || (aside && *p != '\n');
        if (aside || strncmp(p, " --", 3)) continue;
        const tx_option *o = tx__option_find(v->cmd, p + 3, strcspn(p + 3, " ,:;\n"), NULL);
        if (o && tx__has_member(o)) *tx__given(&v->need, o) = true;
    }
    st = found.st;
out:
    tx_str_free(&found.text);
    tx_config_free(empty);
    return st;
}

static bool is_needed(const view *v, const tx_option *o)
{
    return tx__has_member(o) && *tx__given((tx_config_given *)&v->need, o);
}

/* ---------------------------------------------------------------- the text */

/* Appends words of `text`, the cursor being at *column; a word that would pass WIDTH goes to a new, indented line. */
static tx_status wrap(tx_str *out, size_t *column, size_t indent, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        bool start = *column <= indent;
        if (!start && *column + 1 + n > WIDTH) {
            TX_TRY(tx_str_printf(out, "\n%*s", (int)indent, ""));
            *column = indent;
            start = true;
        }
        if (!start) TX_TRY(tx_str_puts(out, " "));
        TX_TRY(tx_str_append(out, text, n));
        *column += n + !start;
        text += n;
        while (*text == ' ') text++;
    }
    return TX_OK;
}

static const char *value_name(const tx_option *o)
{
    switch (o->kind) {
    case TX_OPTION_I64:
        return " N";
    case TX_OPTION_F64:
        return " X";
    case TX_OPTION_ENUM:
        return " WORD";
    default:
        return "";
    }
}

/* "[default 128; at least 1 rows; also --other]" */
static tx_status notes(tx_str *out, const tx_command *cmd, const tx_option *o)
{
    const char *initial, *spelling, *flag, *gap = "[";
    tx__command_takes(cmd, o, &initial);
    if (initial) {
        TX_TRY(tx_str_printf(out, "%sdefault %s", gap, initial));
        gap = "; ";
    }
    if (o->kind == TX_OPTION_I64 || o->kind == TX_OPTION_F64 || o->kind == TX_OPTION_ENUM) {
        TX_TRY(tx_str_puts(out, gap));
        TX_TRY(tx__option_allowed(out, o));
        gap = "; ";
    }
    for (size_t i = 0; tx__alias(i, &spelling, &flag); i++) {
        if (strcmp(flag, o->flag)) continue;
        TX_TRY(tx_str_printf(out, "%salso --%s", gap, spelling));
        gap = "; ";
    }
    return *gap == ';' ? tx_str_puts(out, "]") : TX_OK;
}

static tx_status help_option(tx_str *out, const tx_command *cmd, const tx_option *o)
{
    bool named = o->kind == TX_OPTION_STR || o->kind == TX_OPTION_LIST;
    size_t start = out->len, column;
    tx_str tail = { 0 };
    tx_status st;
    TX_GOTO(tx_str_printf(out, "  --%s%s%s%s", o->flag, value_name(o), named ? " " : "", named ? o->unit : ""));
    column = out->len - start;
    if (column + 2 > HELP_AT)
        TX_GOTO(tx_str_printf(out, "\n%*s", HELP_AT, ""));
    else
        TX_GOTO(tx_str_printf(out, "%*s", (int)(HELP_AT - column), ""));
    column = HELP_AT;
    TX_GOTO(wrap(out, &column, HELP_AT, o->text));
    TX_GOTO(notes(&tail, cmd, o));
    if (tail.len) TX_GOTO(wrap(out, &column, HELP_AT, tail.data));
    st = tx_str_puts(out, "\n");
out:
    tx_str_free(&tail);
    return st;
}

/* One group's options, or those of all groups that the command needs. */
static tx_status help_group(tx_str *out, const view *v, const char *title, bool needed, unsigned group)
{
    bool any = false;
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (!tx__has_member(o) || is_needed(v, o) != needed || (!needed && o->group != group) || !shows(v, o)) continue;
        if (!any) TX_TRY(tx_str_printf(out, "%s%s\n", out->len ? "\n" : "", title));
        any = true;
        TX_TRY(help_option(out, v->cmd, o));
    }
    return TX_OK;
}

/* The flags of up to two kinds as one paragraph. */
static tx_status help_rest(tx_str *out, const view *v, const char *title, tx_option_kind a, tx_option_kind b)
{
    size_t column = 2;
    bool any = false;
    char word[160];
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if ((o->kind != a && o->kind != b) || !shows(v, o)) continue;
        if (!any) TX_TRY(tx_str_printf(out, "%s%s\n  ", out->len ? "\n" : "", title));
        any = true;
        int n = snprintf(word, sizeof word, "--%s%s%s", o->flag, o->words ? "=" : "", o->words ? o->words : "");
        TX_ASSERT(n > 0 && (size_t)n < sizeof word);
        TX_TRY(wrap(out, &column, 2, word));
    }
    return any ? tx_str_puts(out, "\n") : TX_OK;
}

/* All options of the view: needed ones, groups, and those that are none. */
static tx_status help_options(tx_str *out, const view *v)
{
    TX_TRY(help_group(out, v, "Required", true, 0));
    for (unsigned g = 0; g < TX_N_OPTION_GROUPS; g++) TX_TRY(help_group(out, v, tx__group_titles[g], false, g));
    TX_TRY(help_rest(out, v, "Accepted, without effect here; the log says why", TX_OPTION_NOOP, TX_OPTION_NOOP));
    TX_TRY(help_rest(out, v, "Known, with other values not built yet", TX_OPTION_FIXED, TX_OPTION_FIXED));
    return help_rest(out, v, "Known, not built yet or no longer valid; refused with the reason", TX_OPTION_LATER,
                     TX_OPTION_REFUSED);
}

static tx_status help_own(tx_str *out, const tx_argument *own)
{
    if (!own || !own->flag) return TX_OK;
    TX_TRY(tx_str_puts(out, "\nThis program's\n"));
    for (; own->flag; own++) {
        size_t begin = out->len;
        TX_TRY(tx_str_printf(out, "  --%s%s%s", own->flag, own->value_name ? " " : "",
                             own->value_name ? own->value_name : ""));
        size_t column = out->len - begin;
        if (column + 1 >= HELP_AT) TX_TRY(tx_str_puts(out, "\n"));
        TX_TRY(tx_str_printf(out, "%*s", (int)(column + 1 >= HELP_AT ? HELP_AT : HELP_AT - column), ""));
        column = HELP_AT;
        TX_TRY(wrap(out, &column, HELP_AT, own->help ? own->help : ""));
        TX_TRY(tx_str_puts(out, "\n"));
    }
    return TX_OK;
}

/* The view of a command's flags. */
static tx_status view_of(view *v, const char *command, const char *word)
{
    *v = (view){ .cmd = tx_command_find(command), .word = word };
    if (!v->cmd) return TX_FAIL(TX_ERR_NOTFOUND, "there is no command %.60s", command);
    return find_needed(v);
}

tx_status tx_config_help(char **out, const char *command)
{
    return tx_arguments_help(out, command, NULL);
}

tx_status tx_config_help_on(char **out, const char *command, const char *word)
{
    view v;
    tx_str text = { 0 };
    TX_TRY(view_of(&v, command, word));
    tx_status st = help_options(&text, &v);
    if (!st && !text.len)
        st = TX_FAIL(TX_ERR_NOTFOUND,
                     "no flag of %s has \"%.60s\" in its name, group or text; triax %s --help lists all of them",
                     command, word, command);
    if (st)
        tx_str_free(&text);
    else
        *out = text.data;
    return st;
}

tx_status tx_arguments_help(char **out, const char *command, const tx_argument *own)
{
    view v;
    tx_str text = { 0 };
    tx_status st;
    TX_TRY(view_of(&v, command, NULL));
    const tx_option *bare = tx__option_bare(v.cmd);
    if (!own)
        TX_GOTO(tx_str_printf(&text,
                              "usage: triax %s%s%s [--flag value ...]\n\n%s\n\ntriax %s --help WORD shows the flags "
                              "with WORD in name, group or text.\n",
                              command, bare ? " " : "", bare ? bare->unit : "", v.cmd->summary, command));
    TX_GOTO(help_own(&text, own));
    TX_GOTO(help_options(&text, &v));
    *out = text.data;
    return TX_OK;
out:
    tx_str_free(&text);
    return st;
}

void tx_text_free(char *text)
{
    tx_free(text);
}
