/* help.c - the text of --help for a command: its options by group, then what is accepted or refused without being one.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config/options.h"

enum { WIDTH = 100, HELP_AT = 38 };

const char *tx_config_command(int i, const char **summary)
{
    if (i < 0 || (size_t)i >= tx__n_commands || !strcmp(tx__commands[i].name, TX_ENGINE_COMMAND)) return NULL;
    if (summary) *summary = tx__commands[i].summary;
    return tx__commands[i].name;
}

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

static tx_status help_group(tx_str *out, const tx_command *cmd, unsigned group)
{
    bool any = false;
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (o->group != group || !tx__has_member(o) || !tx__command_takes(cmd, o, NULL)) continue;
        if (!any) TX_TRY(tx_str_printf(out, "\n%s\n", tx__group_titles[group]));
        any = true;
        TX_TRY(help_option(out, cmd, o));
    }
    return TX_OK;
}

/* The flags of up to two kinds as one paragraph. */
static tx_status help_rest(tx_str *out, const tx_command *cmd, const char *title, tx_option_kind a, tx_option_kind b)
{
    size_t column = 2;
    bool any = false;
    char word[160];
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if ((o->kind != a && o->kind != b) || !tx__command_takes(cmd, o, NULL)) continue;
        if (!any) TX_TRY(tx_str_printf(out, "\n%s\n  ", title));
        any = true;
        int n = snprintf(word, sizeof word, "--%s%s%s", o->flag, o->words ? "=" : "", o->words ? o->words : "");
        TX_ASSERT(n > 0 && (size_t)n < sizeof word);
        TX_TRY(wrap(out, &column, 2, word));
    }
    return any ? tx_str_puts(out, "\n") : TX_OK;
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

tx_status tx_config_help(char **out, const char *command)
{
    return tx_arguments_help(out, command, NULL);
}

tx_status tx_arguments_help(char **out, const char *command, const tx_argument *own)
{
    const tx_command *cmd = tx__command_find(command);
    tx_str text = { 0 };
    tx_status st;
    if (!cmd) return TX_FAIL(TX_ERR_NOTFOUND, "there is no command %.60s", command);
    const tx_option *bare = tx__option_bare(cmd);
    if (!own)
        TX_GOTO(tx_str_printf(&text, "usage: triax %s%s%s [--flag value ...]\n\n%s\n", cmd->name, bare ? " " : "",
                              bare ? bare->unit : "", cmd->summary));
    TX_GOTO(help_own(&text, own));
    for (unsigned g = 0; g < TX_N_GROUPS; g++) TX_GOTO(help_group(&text, cmd, g));
    TX_GOTO(help_rest(&text, cmd, "Accepted, without effect here; the log says why", TX_OPTION_NOOP, TX_OPTION_NOOP));
    TX_GOTO(help_rest(&text, cmd, "Known, with other values not built yet", TX_OPTION_FIXED, TX_OPTION_FIXED));
    TX_GOTO(help_rest(&text, cmd, "Known, not built yet or no longer valid; refused with the reason", TX_OPTION_LATER,
                      TX_OPTION_REFUSED));
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
