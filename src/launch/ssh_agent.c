/* ssh_agent.c - a shell on another host, watched. ssh returns as soon as the daemon there has gone into the background.
 */
#include "launch/ssh_agent.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "launch/supervise.h"

tx_status tx__ssh_agent_command(tx_str *out, const char *shell, int seconds)
{
    char self[4096];
    tx_words words = { 0 };
    tx_status st;
    TX_GOTO(tx__self_path(self, sizeof self));
    TX_GOTO(tx__words_add_cut(&words, shell));
    if (!words.n || strpbrk(self, " \t\"'")) {
        st = TX_FAIL(TX_ERR_UNSUPPORTED, "mpirun cannot call \"%s\" through %s: no blanks may be in the path", shell,
                     self);
        goto out;
    }
    TX_GOTO(tx_str_printf(out, "%s launch-agent --via %d %d", self, seconds, words.n));
    for (int i = 0; i < words.n; i++) TX_GOTO(tx_str_printf(out, " %s", words.word[i]));
out:
    tx__words_free(&words);
    return st;
}

static tx_status wait_for_shell(tx_supervisor *s, const tx_launch_command *start, double seconds)
{
    struct pollfd fds[TX_SUPERVISOR_FDS];
    double until = tx_clock() + seconds;
    TX_TRY(tx__supervisor_start(s, start, false));
    while (s->pid && !s->n_stops && tx_clock() < until) TX_TRY(tx__supervisor_wait(s, fds, 0, until - tx_clock()));
    return TX_OK;
}

tx_status tx__ssh_agent(int argc, char *const *argv, int *code)
{
    tx_supervisor s = { 0 };
    tx_launch_command start = { 0 };
    tx_status st;
    int seconds = argc > 0 ? atoi(argv[0]) : 0, n = argc > 1 ? atoi(argv[1]) : 0;
    *code = 1;
    if (n < 1 || argc < n + 4) return TX_FAIL(TX_ERR_ARG, "launch-agent is called by mpirun, not by people");
    const char *host = argv[2 + n];
    for (int i = 2; i < argc; i++) TX_GOTO(tx__words_add(&start.words, argv[i]));
    TX_GOTO(tx__supervisor_open(&s, 0));
    s.only_counts = s.leaves_daemons = true;
    TX_GOTO(wait_for_shell(&s, &start, seconds));
    if (s.pid && !s.n_stops)
        st = TX_FAIL(TX_ERR_COMM, "host %s does not answer: %s has started nothing there within %d s (--start-timeout)",
                     host, argv[2], seconds);
    else if (!s.pid && s.code)
        st = TX_FAIL(TX_ERR_COMM, "host %s: nothing could be started there: %s ended with code %d", host, argv[2],
                     s.code);
    if (!s.pid) *code = s.code;
out:
    tx__supervisor_close(&s);
    tx__start_free(&start);
    return st;
}
