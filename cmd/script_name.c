/* script_name.c - upstream's scripts and modules by their names, with python before them or without. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Upstream's tasks/main.py, also with a longer path or from inside the folder. */
static bool is_tasks(const char *typed)
{
    const char *name = strstr(typed, "tasks/main.py");
    if (!strcmp(typed, "main.py") || !strcmp(typed, "./main.py")) return true;
    return name && !name[strlen("tasks/main.py")] && (name == typed || name[-1] == '/');
}

/* Programs and modules that have another name here; NULL: none of them. deepscale is a deepspeed of another name. */
static const char *other_name(const char *typed)
{
    static const char *const names[][2] = {
        { "torch.distributed.launch", "torchrun" },   { "torch.distributed.run", "torchrun" },
        { "deepspeed.launcher.runner", "deepspeed" }, { "deepscale", "deepspeed" },
        { "deepscale.launcher.runner", "deepspeed" }, { "tasks.main", "evaluate" },
        { "pretrain_gpt2", "pretrain-gpt" }, /* its name until 2020 */
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i][0], typed)) return names[i][1];
    return NULL;
}

static const char *with_dashes(const char *name, size_t n, char *buf)
{
    for (size_t i = 0; i < n; i++) buf[i] = name[i] == '_' ? '-' : name[i];
    buf[n] = 0;
    return buf;
}

/* A script's name, also with a path, is the command of that name: tools/zero_to_fp32.py is zero-to-fp32; so is a
 * module's, tools.zero_to_fp32. */
const char *cmd_script_name(const char *typed, char *buf, size_t cap)
{
    const char *base = base_of(typed), *other = other_name(typed), *dot = strrchr(base, '.');
    size_t n = strlen(base);
    if (other) return other;
    if (is_tasks(typed)) return "evaluate";
    if (n >= cap || !dot || dot == base) return typed;
    if (!strcmp(base, "pretrain_gpt2.py")) return other_name("pretrain_gpt2");
    if (!strcmp(dot, ".py")) return with_dashes(base, n - 3, buf);
    return cmd_is_command(with_dashes(dot + 1, strlen(dot + 1), buf)) ? buf : typed;
}

/* ---- python ---- */

static bool is_python(const char *word)
{
    const char *base = base_of(word);
    if (strncmp(base, "python", 6)) return false;
    return base[6 + strspn(base + 6, "0123456789.")] == 0;
}

static int no_python(const char *word)
{
    fprintf(stderr,
            "triax: \"%.60s\": there is no Python here; behind python stands a script or -m MODULE, as in triax python "
            "-m torch.distributed.launch ... pretrain_gpt.py\n",
            word);
    return -1;
}

/* Profilers that run a script under them. */
static int no_profiler(const char *module)
{
    fprintf(stderr,
            "triax: python -m %s: a run shows by itself where its time goes: give --profile among the run's own flags, "
            "triax pretrain-gpt ... --profile\n",
            module);
    return -1;
}

static int take_module(char **argv, int at)
{
    const char *module = argv[at];
    if (!module) return no_python("-m");
    return !strcmp(module, "torch.utils.bottleneck") || !strcmp(module, "cProfile") ? no_profiler(module) : at;
}

/* One word of python's flags, which may be several letters. The word behind it that counts; 0: flags may go on; -1. */
static int take_letters(char **argv, int *at)
{
    for (char *letter = argv[*at] + 1; *letter; letter++) {
        bool last = !letter[1];
        if (*letter == 'c' || !isalpha((unsigned char)*letter)) return no_python(argv[*at]);
        if (*letter == 'm') {
            if (!last) argv[*at] = letter + 1; /* -mMODULE */
            return take_module(argv, *at + last);
        }
        if (*letter != 'W' && *letter != 'X') continue;
        if (last && argv[*at + 1]) ++*at;
        break;
    }
    return 0;
}

int cmd_skip_python(char **argv)
{
    if (!argv[0] || !is_python(argv[0])) return 0;
    for (int at = 1; argv[at]; at++) {
        if (*argv[at] != '-') return at;
        int module = take_letters(argv, &at);
        if (module) return module;
    }
    return no_python(argv[0]);
}
