/* orted_words.c - checks the daemon's command word by word. The daemon is started by execvp, without a shell. */
#include "launch/orted_words.h"

#include <stdbool.h>
#include <string.h>

enum { N_PROFILE = 8 };

static bool is_mca(const char *word)
{
    return !strcmp(word, "-mca") || !strcmp(word, "--mca");
}

/* Open MPI 4 writes for the login shell that the user has here (getpwuid, else SHELL): for bash, zsh, csh and tcsh the
 * daemon's words alone, as mpirun is called with --noprefix; for any other name with "ksh" or "sh" in it, so for dash
 * and fish too, these words before them and ")" behind. No shell gets to see them and the daemon has torchrun's
 * environment, so nothing is lost with them. */
static bool has_profile(char *const *words, int n)
{
    static const char *const before[N_PROFILE] = { "(", "test", "!", "-r", "./.profile", "||", ".", "./.profile;" };
    if (n <= N_PROFILE || strcmp(words[n - 1], ")")) return false;
    for (int i = 0; i < N_PROFILE; i++)
        if (strcmp(words[i], before[i])) return false;
    return true;
}

tx_status tx__orted_clean(tx_words *out, char *const *words, int n)
{
    if (has_profile(words, n)) words += N_PROFILE, n -= N_PROFILE + 1;
    for (int i = 0; i < n; i++) {
        if (is_mca(words[i]) && i + 2 < n && !strcmp(words[i + 1], "plm_rsh_agent")) {
            i += 2;
            continue;
        }
        const char *word = words[i] + strspn(words[i], " ");
        size_t length = strlen(word);
        while (length && word[length - 1] == ' ') length--;
        if (length > 1 && *word == '"' && word[length - 1] == '"') word++, length -= 2;
        TX_TRY(tx__words_add_n(out, word, length));
    }
    return TX_OK;
}

/* Parameters that name files to load or programs to start. */
static bool is_harmless(const char *name)
{
    static const char *const harmful[] = { "path", "param_file", "agent", "prefix", "tune",   "xterm",   "wrapper",
                                           "fork", "preload",    "hook",  "script", "dlopen", "debugger" };
    if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name)) return false;
    for (size_t i = 0; i < sizeof harmful / sizeof *harmful; i++)
        if (strstr(name, harmful[i])) return false;
    return true;
}

static bool is_printable(const char *value)
{
    for (; *value; value++)
        if (*value < 0x20 || *value > 0x7E || strchr("\"'`\\$", *value)) return false;
    return true;
}

tx_status tx__orted_check(char *const *words, int n)
{
    static const char only[] = "only Open MPI's daemon is started for other nodes";
    if (n < 1 || strcmp(words[0], "orted"))
        return TX_FAIL(TX_ERR_ARG, "%s, not \"%.80s\"", only, n < 1 ? "" : words[0]);
    for (int i = 1; i < n; i += 3) {
        if (!is_mca(words[i]) || i + 2 >= n) return TX_FAIL(TX_ERR_ARG, "%s, and not with \"%.80s\"", only, words[i]);
        if (!is_harmless(words[i + 1]) || !is_printable(words[i + 2]))
            return TX_FAIL(TX_ERR_ARG, "%s, and not with %s %.80s %.80s", only, words[i], words[i + 1], words[i + 2]);
    }
    return TX_OK;
}
