/* tasks.h - the tasks of an evaluation: --task, and TASK in --eval-tasks TASK=FILE. eval/task.c has their functions. */
#ifndef TX_KINDS_TASKS_H
#define TX_KINDS_TASKS_H

#include <stdbool.h>

#include "kinds/kind.h"

/*   X(constant, word, whether its items are windows of a text, which --overlapping-eval is for) */
#define TX_TASKS(X)                             \
    X(TX_TASK_TEXT, "text", true)               \
    X(TX_TASK_WIKITEXT103, "WIKITEXT103", true) \
    X(TX_TASK_LAMBADA, "LAMBADA", false)        \
    X(TX_TASK_CHOICE, "multiple-choice", false)

TX_KIND(task_kind, TX_TASKS)

static inline bool tx_task_has_windows(enum tx_task_kind kind)
{
#define TX_TASK_WINDOWS(constant, word, windows) [constant] = windows,
    static const bool windows[] = { TX_TASKS(TX_TASK_WINDOWS) };
#undef TX_TASK_WINDOWS
    return windows[kind];
}

/* The task of "LAMBADA=FILE"; 0: it is none, or FILE is empty.   @file out, where FILE begins */
static inline enum tx_task_kind tx_task_of_item(const char *item, const char **file)
{
    size_t n = strcspn(item, "=");
    *file = item + n + (item[n] == '=');
    if (!**file) return (enum tx_task_kind)0;
#define TX_TASK_IF(constant, word, windows) \
    if (n == strlen(word) && !strncmp(item, word, n)) return constant;
    TX_TASKS(TX_TASK_IF)
#undef TX_TASK_IF
    return (enum tx_task_kind)0;
}

#endif
