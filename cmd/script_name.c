/* script_name.c - upstream's scripts by their names. */
#include <stdbool.h>
#include <string.h>

#include "cmd.h"

/* Upstream's tasks/main.py, also with a longer path or from inside the folder. */
static bool is_tasks(const char *typed)
{
    const char *name = strstr(typed, "tasks/main.py");
    if (!strcmp(typed, "main.py") || !strcmp(typed, "./main.py")) return true;
    return name && !name[strlen("tasks/main.py")] && (name == typed || name[-1] == '/');
}

/* A script's name, also with a path, is the command of that name: tools/zero_to_fp32.py is zero-to-fp32. */
const char *cmd_script_name(const char *typed, char *buf, size_t cap)
{
    const char *slash = strrchr(typed, '/'), *base = slash ? slash + 1 : typed;
    size_t n = strlen(base);
    if (is_tasks(typed)) return "evaluate";
    if (n < 4 || n >= cap || strcmp(base + n - 3, ".py")) return typed;
    for (size_t i = 0; i < n - 3; i++) buf[i] = base[i] == '_' ? '-' : base[i];
    buf[n - 3] = 0;
    return strcmp(buf, "pretrain-gpt2") ? buf : "pretrain-gpt"; /* its name until 2020 */
}
