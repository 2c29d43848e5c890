/* at_call.c - runs a program and has something happen at the N-th system call that it makes on a folder.
 *
 *      at_call --below DIR [--list FILE] [--at N ACTION] [--always CALL RESULT]... PROGRAM ARGS...
 *
 *  What counts are calls that name DIR, its parent or something below it, or have such a file open, of all threads and
 *  child processes together, from the first mkdir of DIR on: with that a save begins. --list appends a line for each,
 * "number call path"; a program that has it run to its end knows how many there are.
 *
 *      kill          before the call all processes are killed; kill-one: only the one that makes it
 *      torn          half of what a write has is written, then all are killed; else as kill
 *      power MODE    before the call the file system of DIR is shut down as if the power had gone, then all are killed.
 *                    MODE log: its journal was written, what lies in memory not; nolog: neither
 *      short         half of what a write has is written; other calls are made as they are
 *      EIO, ENOSPC, EINTR, EINVAL    the call is not made and fails so; with --for K so do the K-1 that follow, with
 *                    --for 0 all of them
 *
 *  --always CALL RESULT: none of that name is made; all fail with RESULT, an error's name, or, 0, are said to have
 *  succeeded.
 *  Exit code: the program's; 137 when all were killed as asked; 125 when this program cannot work here. Linux, x86-64:
 * by ptrace, of the calls that a seccomp filter picks. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CANNOT = 125, KILLED = 137, PATH_CAP = 4096 };

static void stop_here(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void stop_here(const char *fmt, ...)
{
    va_list ap;
    fputs("at_call: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(CANNOT);
}

#if defined __linux__ && defined __x86_64__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

/* ---- the calls ---- */

enum { BY_FD = -1, ON_MAP = -2 }; /* where else a path is an argument; ON_MAP: mmap's fd is its fifth */

static const struct call {
    const char *name;
    int number, path; /* of the arguments, from 0 */
} calls[] = {
    { "open", SYS_open, 0 },
    { "openat", SYS_openat, 1 },
    { "creat", SYS_creat, 0 },
    { "read", SYS_read, BY_FD },
    { "pread64", SYS_pread64, BY_FD },
    { "write", SYS_write, BY_FD },
    { "pwrite64", SYS_pwrite64, BY_FD },
    { "writev", SYS_writev, BY_FD },
    { "pwritev", SYS_pwritev, BY_FD },
    { "fsync", SYS_fsync, BY_FD },
    { "fdatasync", SYS_fdatasync, BY_FD },
    { "sync_file_range", SYS_sync_file_range, BY_FD },
    { "syncfs", SYS_syncfs, BY_FD },
    { "ftruncate", SYS_ftruncate, BY_FD },
    { "fallocate", SYS_fallocate, BY_FD },
    { "close", SYS_close, BY_FD },
    { "mmap", SYS_mmap, ON_MAP },
    { "rename", SYS_rename, 0 },
    { "renameat", SYS_renameat, 1 },
    { "renameat2", SYS_renameat2, 1 },
    { "link", SYS_link, 0 },
    { "mkdir", SYS_mkdir, 0 },
    { "mkdirat", SYS_mkdirat, 1 },
    { "unlink", SYS_unlink, 0 },
    { "unlinkat", SYS_unlinkat, 1 },
    { "rmdir", SYS_rmdir, 0 },
    { "stat", SYS_stat, 0 },
    { "lstat", SYS_lstat, 0 },
    { "fstat", SYS_fstat, BY_FD },
    { "newfstatat", SYS_newfstatat, 1 },
    { "statx", SYS_statx, 1 },
    { "access", SYS_access, 0 },
    { "faccessat", SYS_faccessat, 1 },
    { "statfs", SYS_statfs, 0 },
    { "fstatfs", SYS_fstatfs, BY_FD },
    { "getdents64", SYS_getdents64, BY_FD },
};
enum { N_CALLS = sizeof calls / sizeof *calls };

static const struct error {
    const char *name;
    int number;
} errors[] = { { "EIO", EIO }, { "ENOSPC", ENOSPC }, { "EINTR", EINTR }, { "EINVAL", EINVAL } };

typedef enum action { NOTHING, KILL_ALL, KILL_ONE, TORN, SHORT, POWER, FAIL } action;

/* ---- what was asked for ---- */

static struct {
    char below[PATH_CAP];
    size_t n_below, n_parent;
    FILE *list;
    const char *always[4];
    int result[4], n_always;
    long at, n_times;
    action what;
    int error;
    uint32_t power; /* mode of the shutdown */
    char **program;
} asked = { .n_times = 1 };

/* The number of an error by its name; 0: it is none. */
static int error_number(const char *name)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (!strcmp(name, errors[i].name)) return errors[i].number;
    return 0;
}

static void take_always(const char *name, const char *result)
{
    if (!result || asked.n_always == 4) stop_here("--always %s: needs a result", name);
    asked.always[asked.n_always] = name;
    asked.result[asked.n_always++] = error_number(result);
}

static bool take_action(char ***arg)
{
    static const struct {
        const char *word;
        action what;
    } actions[] = {
        { "kill", KILL_ALL }, { "kill-one", KILL_ONE }, { "torn", TORN }, { "short", SHORT }, { "power", POWER }
    };
    const char *word = **arg;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (word && !strcmp(word, actions[i].word)) asked.what = actions[i].what;
    if (word && error_number(word)) asked.what = FAIL, asked.error = error_number(word);
    if (asked.what == NOTHING) return false;
    ++*arg;
    if (asked.what != POWER) return true;
    word = *(*arg)++;
    if (!word || (strcmp(word, "log") && strcmp(word, "nolog"))) return false;
    asked.power = word[0] == 'l' ? 1 : 2; /* FS_GOING_LOGFLUSH, FS_GOING_NOLOGFLUSH */
    return true;
}

static void take_below(const char *dir)
{
    if (!dir || !realpath(dir, asked.below)) stop_here("--below %s: %s", dir ? dir : "", strerror(errno));
    asked.n_below = strlen(asked.below);
    asked.n_parent = (size_t)(strrchr(asked.below, '/') - asked.below);
}

static void parse(char **arg)
{
    while (*arg && !strncmp(*arg, "--", 2)) {
        const char *flag = *arg++, *value = *arg;
        if (!value) stop_here("%s needs a value", flag);
        arg++;
        if (!strcmp(flag, "--below"))
            take_below(value);
        else if (!strcmp(flag, "--list"))
            asked.list = fopen(value, "ae");
        else if (!strcmp(flag, "--for"))
            asked.n_times = atol(value);
        else if (!strcmp(flag, "--always"))
            take_always(value, *arg), arg += *arg != NULL;
        else if (strcmp(flag, "--at") || (asked.at = atol(value)) < 1 || !take_action(&arg))
            stop_here("%s %s: no such flag or action", flag, value);
    }
    if (!asked.n_below || !*arg) stop_here("usage: at_call --below DIR [flags] PROGRAM ARGS...");
    asked.program = arg;
}

/* ---- the program ---- */

/* Ends as the program: the calls of the table stop for whoever traces it. */
static void become_program(void)
{
    struct sock_filter filter[N_CALLS + 6], *f = filter;
    *f++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    *f++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    *f++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    *f++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < N_CALLS; i++)
        *f++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].number,
                                            (uint8_t)(N_CALLS - i), 0);
    *f++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    *f++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    struct sock_fprog prog = { (unsigned short)(f - filter), filter };
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) stop_here("cannot trace here: %s", strerror(errno));
    raise(SIGSTOP); /* until the options of the trace are set */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
        stop_here("no seccomp filter here: %s", strerror(errno));
    execvp(asked.program[0], asked.program);
    stop_here("%s: %s", asked.program[0], strerror(errno));
}

/* ---- processes: every thread is one ---- */

enum { MAX_TASKS = 4096 };
static pid_t task[MAX_TASKS];
static int n_tasks;
static pid_t first_task;

static void know(pid_t id)
{
    for (int i = 0; i < n_tasks; i++)
        if (task[i] == id) return;
    if (n_tasks == MAX_TASKS) stop_here("more than %d threads", MAX_TASKS);
    task[n_tasks++] = id;
}

static void forget(pid_t id)
{
    for (int i = 0; i < n_tasks; i++)
        if (task[i] == id) task[i] = task[--n_tasks];
}

/* All are dead, and seen to be, when it ends. */
static void kill_all(void)
{
    for (int i = 0; i < n_tasks; i++) kill(task[i], SIGKILL);
    int status;
    for (pid_t id; (id = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;)
        if (id > 0 && WIFSTOPPED(status)) kill(id, SIGKILL); /* one that had just come */
    if (asked.list) fclose(asked.list);
    exit(KILLED);
}

static pid_t process_of(pid_t id)
{
    char path[64], line[256];
    int tgid = id;
    snprintf(path, sizeof path, "/proc/%d/status", id);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Tgid: %d", &tgid) == 1) break;
    if (f) fclose(f);
    return tgid;
}

/* ---- which file a call is about ---- */

static bool link_text(pid_t id, const char *what, char path[PATH_CAP])
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/%s", id, what);
    ssize_t n = readlink(name, path, PATH_CAP - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0;
}

static bool fd_path(pid_t id, int fd, char path[PATH_CAP])
{
    char name[32];
    if (fd == AT_FDCWD) return link_text(id, "cwd", path);
    snprintf(name, sizeof name, "fd/%d", fd);
    return link_text(id, name, path);
}

/* A text of the program's memory, behind `n` bytes of path. */
static bool read_text(pid_t id, uint64_t at, char path[PATH_CAP], size_t n)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/mem", id);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t k = pread(fd, path + n, PATH_CAP - 1 - n, (off_t)at);
    close(fd);
    path[n + (size_t)(k > 0 ? k : 0)] = 0;
    return k > 0;
}

static uint64_t argument(const struct user_regs_struct *r, int i)
{
    const unsigned long long a[] = { r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9 };
    return a[i];
}

static bool path_of(pid_t id, const struct call *c, const struct user_regs_struct *r, char path[PATH_CAP])
{
    if (c->path == BY_FD) return fd_path(id, (int)r->rdi, path);
    if (c->path == ON_MAP) return (int)r->r8 >= 0 && fd_path(id, (int)r->r8, path);
    if (!read_text(id, argument(r, c->path), path, 0)) return false;
    if (path[0] == '/') return true;
    char end[PATH_CAP];
    memcpy(end, path, sizeof end);
    if (!fd_path(id, c->path ? (int)argument(r, c->path - 1) : AT_FDCWD, path)) return false;
    size_t n = strlen(path);
    if (end[0]) snprintf(path + n, PATH_CAP - n, "/%.*s", (int)(PATH_CAP - n - 2), end);
    return true;
}

static bool is_below(const char *path)
{
    if (!strncmp(path, asked.below, asked.n_parent) && !path[asked.n_parent]) return true;
    return !strncmp(path, asked.below, asked.n_below) && (path[asked.n_below] == '/' || !path[asked.n_below]);
}

/* ---- a call ---- */

static long n_counted;
static bool begun;

static void shut_down(void)
{
    int fd = open(asked.below, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, _IOR('X', 125, uint32_t), &asked.power))
        fprintf(stderr, "at_call: %s: cannot shut the file system down: %s\n", asked.below, strerror(errno));
    close(fd);
}

/* The call is not made; `value` is what it returns. */
static void answer(pid_t id, struct user_regs_struct *r, long value)
{
    r->orig_rax = (unsigned long long)-1;
    r->rax = (unsigned long long)value;
    ptrace(PTRACE_SETREGS, id, NULL, r);
}

/* Whether the call is to write half of it. */
static bool halve(pid_t id, const struct call *c, struct user_regs_struct *r)
{
    if ((c->number != SYS_write && c->number != SYS_pwrite64) || r->rdx < 2) return false;
    r->rdx /= 2;
    ptrace(PTRACE_SETREGS, id, NULL, r);
    return true;
}

/* How the thread goes on: PTRACE_SYSCALL stops behind the call. */
static int act(pid_t id, const struct call *c, struct user_regs_struct *r)
{
    switch (asked.what) {
    case POWER:
        shut_down();
        kill_all();
        break;
    case KILL_ALL:
        kill_all();
        break;
    case KILL_ONE:
        kill(process_of(id), SIGKILL);
        break;
    case TORN:
        if (halve(id, c, r)) return PTRACE_SYSCALL;
        kill_all();
        break;
    case SHORT:
        halve(id, c, r);
        break;
    case FAIL:
        answer(id, r, -asked.error);
        break;
    case NOTHING:
        break;
    }
    return PTRACE_CONT;
}

/* Of --always; NULL: the call is made. */
static const int *result_of(const struct call *c)
{
    for (int i = 0; i < asked.n_always; i++)
        if (!strcmp(asked.always[i], c->name)) return &asked.result[i];
    return NULL;
}

static int on_call(pid_t id)
{
    struct user_regs_struct r;
    char path[PATH_CAP];
    const struct call *c = calls;
    if (ptrace(PTRACE_GETREGS, id, NULL, &r)) return PTRACE_CONT; /* it is gone */
    while (c < calls + N_CALLS && c->number != (int)r.orig_rax) c++;
    if (c == calls + N_CALLS || !path_of(id, c, &r, path) || !is_below(path)) return PTRACE_CONT;
    begun |= c->number == SYS_mkdir && !path[asked.n_below];
    if (!begun) return PTRACE_CONT;
    const int *result = result_of(c);
    if (result) answer(id, &r, -*result);
    n_counted++;
    if (asked.list)
        fprintf(asked.list, "%ld %s %s\n", n_counted, c->name,
                strlen(path) < asked.n_below ? "/.." : path + asked.n_below);
    bool now = asked.at && n_counted >= asked.at && (!asked.n_times || n_counted < asked.at + asked.n_times);
    return now ? act(id, c, &r) : PTRACE_CONT;
}

/* Follows everybody until the last one has ended; the first one's exit code. */
static int follow(void)
{
    int status, code = 0;
    for (pid_t id; (id = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;) {
        if (id < 0) continue;
        if (!WIFSTOPPED(status)) {
            forget(id);
            if (id == first_task) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        know(id);
        int signal = WSTOPSIG(status), how = PTRACE_CONT, event = status >> 16;
        if (event == PTRACE_EVENT_SECCOMP)
            how = on_call(id);
        else if (signal == (SIGTRAP | 0x80)) /* behind the call that was to be torn */
            kill_all();
        if (event || signal == SIGSTOP || signal == SIGTRAP) signal = 0;
        ptrace(how, id, NULL, (void *)(long)signal);
    }
    if (asked.list) fclose(asked.list);
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 2) stop_here("usage: at_call --below DIR [flags] PROGRAM ARGS...");
    parse(argv + 1);
    first_task = fork();
    if (first_task == 0) become_program();
    int status;
    if (waitpid(first_task, &status, 0) != first_task || !WIFSTOPPED(status)) return CANNOT;
    const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK |
                         PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
    if (ptrace(PTRACE_SETOPTIONS, first_task, NULL, (void *)options)) stop_here("cannot trace: %s", strerror(errno));
    know(first_task);
    ptrace(PTRACE_CONT, first_task, NULL, NULL);
    return follow();
}

#else

int main(void)
{
    stop_here("this program knows Linux on x86-64 only");
}
#endif
