/* help.c - what --help shows of a command, which commands have flags for a word, and what a mistyped command may mean.
 */
#include <stdio.h>
#include <string.h>

#include "cmd.h"

bool cmd_asks_help(const char *arg)
{
    return !strcmp(arg, "--help") || !strcmp(arg, "-h");
}

bool cmd_is_command(const char *word)
{
    const char *name;
    for (int i = 0; (name = tx_config_command(i, NULL)); i++)
        if (!strcmp(name, word)) return true;
    return false;
}

/* Of all commands. */
static int help_anywhere(const char *word)
{
    const char *name;
    int n = 0;
    for (int i = 0; (name = tx_config_command(i, NULL)); i++) {
        char *text = NULL;
        if (!tx_config_help_on(&text, name, word))
            printf("%s  triax %s --help %s\n", n++ ? "" : "Flags for this are shown by\n", name, word);
        tx_text_free(text);
    }
    if (n) return 0;
    fprintf(stderr, "triax: no flag of any command has \"%s\" in its name, group or text\n", word);
    return cmd_unknown(word);
}

int cmd_help(const char *name, const char *word)
{
    char *text = NULL;
    if (!cmd_is_command(name)) return help_anywhere(name);
    if (word && *word == '-') word = NULL; /* the next flag */
    if (word ? tx_config_help_on(&text, name, word) : tx_config_help(&text, name)) {
        fprintf(stderr, "triax %s: %s\n", name, tx_last_error());
        return 1;
    }
    fputs(text, stdout);
    tx_text_free(text);
    return 0;
}

int cmd_unknown(const char *name)
{
    char *like = NULL;
    (void)tx_config_commands_like(&like, name); /* without memory there is nothing to suggest */
    fprintf(stderr, "triax: there is no command \"%s\"%s%s%s\ntriax --help lists the commands\n", name,
            like ? "; did you mean " : "", like ? like : "", like ? "?" : "");
    tx_text_free(like);
    return 2;
}
