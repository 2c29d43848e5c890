/* script.c - where a launcher's flags end and what its script's name means. */
#include "launch/script.h"

#include <string.h>

#include "base/alloc.h"
#include "config/config.h"

const char *tx__script_command(const char *script)
{
    const char *slash = strrchr(script, '/'), *base = slash ? slash + 1 : script, *name;
    size_t n = strlen(base), dir = (size_t)(base - script);
    bool in_tasks = dir >= 6 && !strncmp(base - 6, "tasks/", 6) && (dir == 6 || base[-7] == '/');
    if (in_tasks && !strcmp(base, "main.py")) return "evaluate";  /* upstream's */
    if (!strcmp(base, "pretrain_gpt2.py")) return "pretrain-gpt"; /* its name until 2020 */
    const char *dot = memrchr(base, '.', n);
    if (n > 3 && !strcmp(base + n - 3, ".py"))
        n -= 3;
    else if (dot) /* a module's name */
        n -= (size_t)(dot + 1 - base), base = dot + 1;
    for (int i = 0; n && (name = tx_config_command(i, NULL)); i++) {
        size_t k = 0;
        while (k < n && name[k] && (name[k] == base[k] || (name[k] == '-' && base[k] == '_'))) k++;
        if (k == n && !name[k] && !tx_command_find(name)->launches) return name;
    }
    return NULL;
}

bool tx__command_listens(const char *command)
{
    const tx_command *c = tx_command_find(command);
    return c && c->traits & TX_TAKES_SIGNALS;
}

static tx_status unknown_script(const char *script)
{
    char *like = NULL;
    TX_TRY(tx_config_commands_like(&like, script));
    tx_status st = TX_FAIL(TX_ERR_ARG,
                           "\"%.80s\" is no command of triax%s%s%s; triax --help lists them, such as "
                           "pretrain-gpt (also as pretrain_gpt.py)",
                           script, like ? "; did you mean " : "", like ? like : "", like ? "?" : "");
    tx_text_free(like);
    return st;
}

/* The long name of a flag of one letter; NULL: none. */
static const char *long_flag(const char *command, const char *flag)
{
    static const struct {
        const char *command, *letter, *flag;
    } letters[] = {
        { "torchrun", "-m", "--module" },    { "torchrun", "-r", "--redirects" }, { "torchrun", "-t", "--tee" },
        { "deepspeed", "-H", "--hostfile" }, { "deepspeed", "-i", "--include" },  { "deepspeed", "-e", "--exclude" },
    };
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (!strcmp(letters[i].command, command) && !strcmp(letters[i].letter, flag)) return letters[i].flag;
    return NULL;
}

/* The flags in their long form, as far as they go: a letter behind the script is the script's. */
static tx_status long_flags(tx_words *out, int *n_own, const char *command, int argc, char *const *argv)
{
    for (int i = 0; i < argc; i++) TX_TRY(tx__words_add(out, argv[i]));
    for (;;) {
        *n_own = tx_config_own_flags(command, out->n, out->word);
        const char *flag = *n_own < out->n ? long_flag(command, out->word[*n_own]) : NULL;
        if (!flag) return TX_OK;
        tx_free(out->word[*n_own]);
        out->word[*n_own] = NULL;
        TX_TRY(tx_memdup0(&out->word[*n_own], flag, strlen(flag), "a command line"));
    }
}

static tx_status check_flags(const char *command, const tx_words *own)
{
    tx_config *cfg = NULL;
    TX_TRY(tx_config_parse(&cfg, command, own->n, own->word));
    tx_config_free(cfg);
    return TX_OK;
}

/* Why there is nothing to run. A wrong flag comes first: its value may have been taken for the script. */
static tx_status no_script(const char *command, const tx_words *own, const char *rest)
{
    TX_TRY(check_flags(command, own));
    if (!rest)
        return TX_FAIL(TX_ERR_ARG, "what is to be run is missing: triax %s [flags] pretrain_gpt.py [its flags]",
                       command);
    if (*rest == '-') return TX_FAIL(TX_ERR_ARG, "unknown flag %.60s; triax %s --help lists the flags", rest, command);
    return unknown_script(rest);
}

/* What is behind the launcher's own flags. */
static tx_status take_rest(tx_words *own, tx_words *program, const char *command, char *const *rest, int n)
{
    const char *name = n ? tx__script_command(rest[0]) : NULL;
    if (!name) return no_script(command, own, n ? rest[0] : NULL);
    TX_TRY(tx__words_addf(own, "--script=%s", rest[0]));
    TX_TRY(tx__words_add(program, name));
    for (int i = 1; i < n; i++) TX_TRY(tx__words_add(program, rest[i]));
    return TX_OK;
}

tx_status tx__launch_parse(tx_config **cfg, tx_words *program, const char *command, int argc, char *const *argv)
{
    tx_words all = { 0 }, own = { 0 }, run = { 0 };
    int n_own = 0;
    tx_status st;
    TX_GOTO(long_flags(&all, &n_own, command, argc, argv));
    for (int i = 0; i < n_own; i++) TX_GOTO(tx__words_add(&own, all.word[i]));
    TX_GOTO(take_rest(&own, &run, command, all.word + n_own, argc - n_own));
    TX_GOTO(tx_config_parse(cfg, command, own.n, own.word));
    *program = run;
    run = (tx_words){ 0 };
out:
    tx__words_free(&all);
    tx__words_free(&own);
    tx__words_free(&run);
    return st;
}
