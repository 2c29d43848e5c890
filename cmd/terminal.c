/* terminal.c - whether what this program writes comes to a terminal, also by way of mpirun, and the live line there.
 *
 *      terminal <- triax torchrun <- mpirun <- rank          standard error: torchrun reads what mpirun writes there
 *      terminal <------------------- mpirun <- rank          standard output
 *
 *  A rank's own descriptors say nothing: Open MPI gives it a pseudo terminal for standard output, wherever mpirun's
 *  goes, and a pipe for standard error. What counts are mpirun's own, and those of the launcher around it, which a rank
 * on their host sees in /proc. They hand on bytes as they are; but on two ways they overtake each other, so the live
 * line takes that of the lines which it stands between. */
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

#define ERASE "\r\033[K"

enum { GENERATIONS = 8 }; /* shells between mpirun and a rank */

static pid_t parent_of(pid_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "re");
    const char *end = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL; /* "pid (name) state parent ..." */
    if (f) fclose(f);
    return end && strlen(end) > 4 ? (pid_t)atol(end + 4) : 0;
}

/* Whether that is a starter of MPI's, by its program's name. */
static bool is_mpirun(pid_t pid)
{
    static const char *const names[] = { "orterun", "mpirun", "prterun", "mpiexec" };
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%ld/exe", (long)pid);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    const char *slash = strrchr(target, '/');
    for (size_t i = 0; slash && i < sizeof names / sizeof *names; i++)
        if (!strncmp(slash + 1, names[i], strlen(names[i]))) return true;
    return false;
}

/* It writes more than ranks' bytes: names before lines, copies in files. */
static bool marks_lines(pid_t mpirun)
{
    static const char *const marks[] = { "tag-output", "timestamp-output", "output-filename", "--output", "-xml",
                                         "-xterm" };
    char path[64], words[4096];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)mpirun);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, words, sizeof words - 1);
    if (fd >= 0) close(fd);
    words[n > 0 ? n : 0] = 0;
    for (const char *w = words; w < words + n && !strstr(w, "triax"); w += strlen(w) + 1) /* mpirun's own */
        for (size_t i = 0; *w == '-' && i < sizeof marks / sizeof *marks; i++)
            if (strstr(w, marks[i])) return true;
    return n <= 0 || getenv("OMPI_MCA_orte_tag_output") || getenv("OMPI_MCA_orte_output_filename");
}

static bool same_program(pid_t pid)
{
    char path[64];
    struct stat a, b;
    snprintf(path, sizeof path, "/proc/%ld/exe", (long)pid);
    return !stat(path, &a) && !stat("/proc/self/exe", &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The terminal that is a process's descriptor; -1: it is none. */
static int open_terminal(pid_t pid, int descriptor)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, descriptor);
    int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && !isatty(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Standard error leads where the launcher's does, and not, as in a shell around this rank, into a file or where
 * standard output leads. */
static bool error_is_free(void)
{
    struct stat out, err;
    return !fstat(STDERR_FILENO, &err) && !S_ISREG(err.st_mode) && !fstat(STDOUT_FILENO, &out) &&
           (out.st_dev != err.st_dev || out.st_ino != err.st_ino);
}

static void find_by_mpirun(cmd_terminal *t, pid_t mpirun)
{
    pid_t launcher = parent_of(mpirun);
    int out = open_terminal(mpirun, STDOUT_FILENO);
    int err = open_terminal(same_program(launcher) ? launcher : mpirun, STDERR_FILENO);
    bool usable = err >= 0 && error_is_free() && (out < 0 || isatty(STDOUT_FILENO)) && !marks_lines(mpirun);
    t->fd = usable ? err : -1;
    t->out = usable && out >= 0;
    if (out >= 0) close(out);
    if (err >= 0 && !usable) close(err);
}

cmd_terminal cmd_terminal_find(bool output_is_data)
{
    cmd_terminal t = { .fd = -1 };
    pid_t pid = getpid();
    bool is_rank = getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK");
    for (int i = 0; is_rank && i < GENERATIONS && pid > 1 && !is_mpirun(pid); i++) pid = parent_of(pid);
    if (!is_rank && isatty(STDERR_FILENO)) {
        t.fd = STDERR_FILENO;
        t.out = isatty(STDOUT_FILENO);
    } else if (is_rank && pid > 1 && is_mpirun(pid)) {
        find_by_mpirun(&t, pid);
    }
    t.out = t.out && !output_is_data;
    return t;
}

void cmd_terminal_live(cmd_terminal *t, const char *line)
{
    struct winsize size = { 0 };
    int most =
        ioctl(t->fd, TIOCGWINSZ, &size) || size.ws_col < 2 ? 4096 : size.ws_col - 1; /* what wraps is not erased */
    FILE *f = t->out ? stdout : stderr;
    fprintf(f, "\r%.*s\033[K", most, line);
    fflush(f);
    t->shown = true;
}

void cmd_terminal_line(cmd_terminal *t, FILE *f, const char *line)
{
    bool live = f == (t->out ? stdout : stderr);
    bool others = f == stderr && t->fd >= 0; /* another rank's live line may stand there */
    fprintf(f, "%s%s\n", (t->shown && live) || others ? ERASE : "", line);
    if (live) t->shown = false;
    fflush(f);
}

void cmd_terminal_end(cmd_terminal *t)
{
    if (t->shown) fputc('\n', t->out ? stdout : stderr);
    t->shown = false;
}
