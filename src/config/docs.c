/* docs.c - docs/options.md from the table: for every command every flag, what it does, or why it does not; and
 * docs/deepspeed-keys.md from the other table. */
#include <string.h>

#include "config/option_table.h"

/* Text in a cell of a Markdown table. */
static tx_status cell(tx_str *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|') TX_TRY(tx_str_puts(out, "\\"));
        TX_TRY(tx_str_append(out, text, 1));
    }
    return TX_OK;
}

/* A flag in all its spellings, behind `before`. */
static tx_status flag_names(tx_str *out, const char *before, const tx_option *o)
{
    const char *spelling, *flag;
    TX_TRY(tx_str_printf(out, "%s`--%s`", before, o->flag));
    for (size_t i = 0; tx__alias(i, &spelling, &flag); i++)
        if (!strcmp(flag, o->flag)) TX_TRY(tx_str_printf(out, " `--%s`", spelling));
    return TX_OK;
}

/* | `--flag` | default | allowed | help | */
static tx_status option_row(tx_str *out, const tx_command *cmd, const tx_option *o)
{
    const char *initial;
    tx__command_takes(cmd, o, &initial);
    TX_TRY(flag_names(out, "| ", o));
    TX_TRY(tx_str_printf(out, " | %s | ", initial ? initial : ""));
    if (o->kind == TX_OPTION_FLAG || o->kind == TX_OPTION_FLAG_OFF)
        TX_TRY(tx_str_puts(out, "no value"));
    else if (o->kind == TX_OPTION_STR || o->kind == TX_OPTION_LIST)
        TX_TRY(tx_str_puts(out, o->unit));
    else
        TX_TRY(tx__option_allowed(out, o));
    TX_TRY(tx_str_puts(out, " | "));
    TX_TRY(cell(out, o->text));
    return tx_str_puts(out, " |\n");
}

/* Whether a row says of its flag what the row before says of another: they share a line. */
static bool says_the_same(const tx_option *a, const tx_option *b)
{
    bool words = (!a->words && !b->words) || (a->words && b->words && !strcmp(a->words, b->words));
    return a->kind == b->kind && a->group == b->group && words && !strcmp(a->text, b->text);
}

/* | `--flag`, `--another` | [value |] text |, of the i-th row and those behind it that say the same; *i: the last one
 */
static tx_status other_rows(tx_str *out, const tx_command *cmd, size_t *i, bool values)
{
    const tx_option *o = &tx__options[*i];
    TX_TRY(flag_names(out, "| ", o));
    for (; *i + 1 < tx__n_options && says_the_same(o, &tx__options[*i + 1]); ++*i) {
        if (cmd && !tx__command_takes(cmd, &tx__options[*i + 1], NULL)) break;
        TX_TRY(flag_names(out, ", ", &tx__options[*i + 1]));
    }
    TX_TRY(tx_str_puts(out, " | "));
    if (values) {
        if (o->kind == TX_OPTION_FIXED) TX_TRY(tx__option_allowed(out, o));
        TX_TRY(tx_str_puts(out, o->kind == TX_OPTION_FIXED ? " | " : "| "));
    }
    TX_TRY(tx_str_puts(out, o->kind == TX_OPTION_LATER && !values ? "not built yet: " : ""));
    TX_TRY(cell(out, o->text));
    return tx_str_puts(out, " |\n");
}

static tx_status group_table(tx_str *out, const tx_command *cmd, unsigned group)
{
    bool any = false;
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (o->group != group || !tx__has_member(o) || !tx__command_takes(cmd, o, NULL)) continue;
        if (!any) {
            TX_TRY(tx_str_printf(out, "\n### %s\n\n", tx__group_titles[group]));
            TX_TRY(tx_str_puts(out, "| flag | default | allowed | meaning |\n|---|---|---|---|\n"));
        }
        any = true;
        TX_TRY(option_row(out, cmd, o));
    }
    return TX_OK;
}

static tx_status other_table(tx_str *out, const tx_command *cmd, const char *head, tx_option_kind a, tx_option_kind b)
{
    bool any = false;
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if ((o->kind != a && o->kind != b) || !tx__command_takes(cmd, o, NULL)) continue;
        if (!any) TX_TRY(tx_str_puts(out, head));
        any = true;
        TX_TRY(other_rows(out, cmd, &i, a == TX_OPTION_FIXED));
    }
    return TX_OK;
}

static tx_status command_section(tx_str *out, const tx_command *cmd)
{
    const char *triax = cmd->id == TX_COMMAND_ENGINE ? "" : "triax ";
    TX_TRY(tx_str_printf(out, "\n## %s%s\n\n%s\n", triax, cmd->name, cmd->summary));
    for (unsigned g = 0; g < TX_N_OPTION_GROUPS; g++) TX_TRY(group_table(out, cmd, g));
    TX_TRY(other_table(out, cmd, "\n### Accepted, without effect here\n\n| flag | what it means here |\n|---|---|\n",
                       TX_OPTION_NOOP, TX_OPTION_NOOP));
    TX_TRY(other_table(
        out, cmd, "\n### Accepted at one value\n\n| flag | value | other values are not built yet |\n|---|---|---|\n",
        TX_OPTION_FIXED, TX_OPTION_FIXED));
    return other_table(out, cmd, "\n### Refused\n\n| flag | reason |\n|---|---|\n", TX_OPTION_LATER, TX_OPTION_REFUSED);
}

tx_status tx__options_markdown(tx_str *out)
{
    TX_TRY(tx_str_puts(
        out, "# Options\n\n"
             "<!-- Made by `make docs` from src/config/options.def; edit that. -->\n\n"
             "Every flag of every command. `--flag value` and `--flag=value` are the same, so are dashes and\n"
             "underscores; a list ends at the next flag; the last of repeated flags counts; names are not\n"
             "abbreviated. An empty default means unset. Everything that is wrong is reported at once.\n"));
    for (size_t i = 0; i < tx__n_commands; i++) TX_TRY(command_section(out, &tx__commands[i]));
    return TX_OK;
}

/* ---------------------------------------------------------------- what is not built */

static bool is_not_built(const tx_option *o, unsigned group)
{
    return o->group == group && (o->kind == TX_OPTION_LATER || o->kind == TX_OPTION_FIXED);
}

static tx_status not_built_group(tx_str *out, unsigned group)
{
    bool any = false;
    for (size_t i = 0; i < tx__n_options; i++) {
        if (!is_not_built(&tx__options[i], group)) continue;
        if (!any)
            TX_TRY(tx_str_printf(out, "\n## %s\n\n| flag | taken at | otherwise |\n|---|---|---|\n",
                                 tx__group_titles[group]));
        any = true;
        TX_TRY(other_rows(out, NULL, &i, true));
    }
    return TX_OK;
}

tx_status tx__not_built_markdown(tx_str *out)
{
    TX_TRY(tx_str_puts(
        out, "# Not built yet\n\n"
             "<!-- Made by `make docs` from src/config/options.def; edit that. -->\n\n"
             "Flags of Megatron-DeepSpeed and Megatron-LM that triax knows and refuses, with what to do\n"
             "instead, and flags of which it takes some values alone. A flag that ends in * is all that begin\n"
             "so. [options.md](options.md) has all others.\n"));
    for (unsigned g = 0; g < TX_N_OPTION_GROUPS; g++) TX_TRY(not_built_group(out, g));
    return TX_OK;
}

/* ---------------------------------------------------------------- keys of DeepSpeed's JSON */

/* What a key is here: `before`, then flag or text, then `after`. */
static const struct key_doc {
    const char *path, *before, *what, *after;
} key_docs[] = {
#define OPTION(path, flag)            { path, "`--", flag, "`" },
#define YIELDS(path, flag)            { path, "`--", flag, "`, where that is not given" },
#define SCHEDULE(path, flag)          { path, "with `--deepspeed-scheduler` or a client's loop `--", flag, "`; else not used" },
#define CONVERT(path, type, fn, text) { path, "", text, "" },
#define UNUSED(path, type, meaning)   { path, "not used: ", meaning, "" },
#define ONLY(path, words, reason)     { path, "only `" words "`: ", reason, "" },
#define REFUSED(path, reason)         { path, "refused: ", reason, "" },
#define SECTION(path, names, meaning) { path, "not used: ", meaning, "" },
#define OFF(path, names, reason)      { path, "refused where enabled: ", reason, "" },
#define TUNING(name, type, otherwise, lo, hi, words, text) \
    { "autotuning." #name, "of `deepspeed --autotuning`: ", text, " Left out: " #otherwise "." },
#include "config/deepspeed_keys.def"
};

tx_status tx__deepspeed_markdown(tx_str *out)
{
    TX_TRY(tx_str_puts(
        out,
        "# Keys of DeepSpeed's JSON\n\n"
        "<!-- Made by `make docs` from src/config/deepspeed_keys.def; edit that. -->\n\n"
        "What each key of `--deepspeed_config` is here. A flag beside a key is the option that it sets, within the\n"
        "bounds of [options.md](options.md); of a switch that is on by default it is the form that turns it off.\n"
        "How the file and flags go together is in [howto/deepspeed-config.md](howto/deepspeed-config.md).\n\n"
        "| key | here |\n|---|---|\n"));
    for (size_t i = 0; i < sizeof key_docs / sizeof *key_docs; i++) {
        const struct key_doc *k = &key_docs[i];
        TX_TRY(tx_str_printf(out, "| `%s` | %s", k->path, k->before));
        TX_TRY(cell(out, k->what));
        TX_TRY(tx_str_printf(out, "%s |\n", k->after));
    }
    return TX_OK;
}
