/* short_run.c - a child of triax itself, whose output goes to files. */
#include "launch/short_run.h"

#include <limits.h>

#include "launch/supervise.h"

tx_status tx_short_run_do(tx_short_run *t)
{
    tx_launch_command start = { .command = t->word[0], .output = { t->out_path, t->err_path } };
    tx_supervisor s = { 0 };
    char self[PATH_MAX];
    tx_status st;
    TX_GOTO(tx__self_path(self, sizeof self));
    TX_GOTO(tx__words_add(&start.words, self));
    for (int i = 0; i < t->n; i++) TX_GOTO(tx__words_add(&start.words, t->word[i]));
    TX_GOTO(tx__supervisor_open(&s, 0));
    TX_GOTO(tx__supervisor_run(&s, &start, false));
    t->code = tx__supervisor_code(&s);
    t->stopped = s.stop_signal;
out:
    tx__supervisor_close(&s);
    tx__start_free(&start);
    return st;
}

tx_status tx_short_run_text(tx_str *out, char *const *word, int n)
{
    TX_TRY(tx_str_puts(out, "triax "));
    return tx__words_quote(out, word, n);
}
