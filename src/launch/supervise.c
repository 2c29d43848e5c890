/* supervise.c - a child, its signals, its standard error, and what it leaves behind. */
#include "launch/supervise.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/script.h"

enum { AFTER_TERM = 10, AT_ONCE = 3 }; /* seconds until SIGKILL */

static const int watched[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD };

/* As under nohup, and Ctrl-C for what runs in the background of a script: that stays so. */
static bool is_ignored(int number)
{
    struct sigaction now;
    return (number == SIGHUP || number == SIGINT) && !sigaction(number, NULL, &now) && now.sa_handler == SIG_IGN;
}

tx_status tx__supervisor_open(tx_supervisor *s, double grace)
{
    sigset_t set;
    *s = (tx_supervisor){ .grace = grace, .err_fd = -1 };
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        if (!is_ignored(watched[i])) sigaddset(&set, watched[i]);
    sigprocmask(SIG_BLOCK, &set, &s->before);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signal_fd >= 0) return TX_OK;
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    return TX_FAIL(TX_ERR_IO, "cannot watch signals: %s", strerror(errno));
}

/* ---- start ---- */

static void change_environment(const tx_words *env)
{
    for (int i = 0; i < env->n; i++) {
        char *equals = strchr(env->word[i], '=');
        if (!equals) {
            unsetenv(env->word[i]);
            continue;
        }
        *equals = 0;
        setenv(env->word[i], equals + 1, 1);
    }
}

/* Files that cannot be written to leave the child what this program has. */
static void send_output(const tx_launch_command *what)
{
    for (int i = 0; i < 2; i++) {
        int fd = what->output[i] ? open(what->output[i], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
        if (fd >= 0) dup2(fd, i + 1);
    }
}

static _Noreturn void become(const tx_supervisor *s, const tx_launch_command *what, int err_fd, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setpgid(0, 0); /* a terminal's Ctrl-C is for the supervisor */
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, 0);
    if (err_fd >= 0) dup2(err_fd, 2);
    send_output(what);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    change_environment(&what->env);
    execvp(what->words.word[0], what->words.word);
    dprintf(2, "triax: cannot run %s: %s\n", what->words.word[0], strerror(errno));
    _exit(127);
}

tx_status tx__supervisor_start(tx_supervisor *s, const tx_launch_command *what, bool is_starter)
{
    int fd[2] = { -1, -1 };
    pid_t parent = getpid();
    if (is_starter && pipe2(fd, O_CLOEXEC)) return TX_FAIL(TX_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    tx__mpi_output_free(&s->output);
    s->term_at = s->kill_at = 0;
    s->start_by = s->start_within > 0 ? tx_clock() + s->start_within : 0;
    pid_t pid = fork();
    if (pid < 0) {
        if (is_starter) close(fd[0]), close(fd[1]);
        return TX_FAIL(TX_ERR_IO, "cannot start %s: %s", what->words.word[0], strerror(errno));
    }
    if (!pid) become(s, what, fd[1], parent);
    setpgid(pid, pid);
    if (is_starter) close(fd[1]);
    s->err_fd = fd[0];
    s->pid = pid;
    s->command = what->command;
    s->is_rank = !is_starter;
    s->ranks_below = what->ranks_below;
    return TX_OK;
}

/* ---- the end of it, and of its children ---- */

static pid_t parent_of(const char *pid)
{
    char path[300], stat[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, stat, sizeof stat - 1);
    if (fd >= 0) close(fd);
    stat[n > 0 ? n : 0] = 0;
    const char *behind = strrchr(stat, ')'); /* "pid (name) state parent ..." */
    return behind && strlen(behind) > 4 ? (pid_t)atol(behind + 4) : 0;
}

/* Sends a signal to every child of this process; how many there are. Children of children come to us when those end. */
static int signal_children(int number)
{
    DIR *dir = opendir("/proc");
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (*e->d_name < '1' || *e->d_name > '9' || parent_of(e->d_name) != getpid()) continue;
        kill((pid_t)atol(e->d_name), number);
        n++;
    }
    if (dir) closedir(dir);
    return n;
}

/* At once: what the child has started here, or itself where it is the rank. */
static void kill_ranks(const tx_supervisor *s)
{
    DIR *dir = s->ranks_below ? opendir("/proc") : NULL;
    if (s->is_rank) kill(-s->pid, SIGKILL);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (*e->d_name >= '1' && *e->d_name <= '9' && parent_of(e->d_name) == s->pid)
            kill(-(pid_t)atol(e->d_name), SIGKILL); /* mpirun gives each a process group of its own */
    if (dir) closedir(dir);
}

static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

static void end_descendants(const tx_supervisor *s)
{
    if (s->leaves_daemons) return;
    double start = tx_clock();
    for (int number = SIGTERM;;) {
        reap();
        if (!signal_children(number) || tx_clock() - start > 10) return;
        poll(NULL, 0, 50);
        number = tx_clock() - start > 2 ? SIGKILL : 0;
    }
}

static void show(const tx_str *text)
{
    for (size_t at = 0; at < text->len;) {
        ssize_t n = write(STDERR_FILENO, text->data + at, text->len - at);
        if (n <= 0 && errno != EINTR) return; /* nobody reads it */
        if (n > 0) at += (size_t)n;
    }
}

/* What mpirun has written. False: nothing more comes. */
static bool read_output(tx_supervisor *s)
{
    char bytes[8192];
    tx_str out = { 0 };
    ssize_t n = read(s->err_fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return true;
    if ((n > 0 ? tx__mpi_output_feed(&s->output, &out, bytes, (size_t)n) : tx__mpi_output_end(&s->output, &out)) ==
        TX_OK)
        show(&out);
    tx_str_free(&out);
    return n > 0;
}

static void close_output(tx_supervisor *s, bool drain)
{
    struct pollfd p = { .fd = s->err_fd, .events = POLLIN };
    if (s->err_fd < 0) return;
    while (drain && poll(&p, 1, 200) == 1 && read_output(s)) continue;
    close(s->err_fd);
    s->err_fd = -1;
}

static void on_child(tx_supervisor *s)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != s->pid) continue;
        s->pid = 0;
        s->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (s->pid) return;
    end_descendants(s);
    close_output(s, true);
}

/* ---- signals ---- */

void tx__supervisor_end(tx_supervisor *s)
{
    if (s->pid) kill(s->pid, SIGTERM);
    s->forced = s->n_stops > 0;
    s->term_at = 0;
    if (s->kill_at <= 0) s->kill_at = tx_clock() + AT_ONCE;
}

static void first_stop(tx_supervisor *s)
{
    const char *name = s->stop_signal == SIGINT ? "SIGINT" : s->stop_signal == SIGHUP ? "SIGHUP" : "SIGTERM";
    if (!s->pid) return;
    if (!tx__command_listens(s->command)) {
        tx_warn("%s: %s has nothing to save; its ranks end at once", name, s->command);
        tx__supervisor_end(s);
        return;
    }
    tx_warn("%s: the ranks are told to stop; what still runs after %.0f s (--grace) is ended, and a second signal ends "
            "all at once",
            name, s->grace);
    kill(s->pid, SIGUSR1);
    s->term_at = tx_clock() + s->grace;
}

void tx__supervisor_stop(tx_supervisor *s, int number)
{
    if (!s->stop_signal) s->stop_signal = number;
    s->n_stops++;
    if (s->only_counts) return;
    if (s->n_stops == 1) {
        first_stop(s);
    } else if (s->n_stops == 2) {
        if (s->pid) kill_ranks(s);
        tx__supervisor_end(s);
    } else {
        s->kill_at = tx_clock();
    }
}

static void on_signals(tx_supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD) {
            if (s->pid) on_child(s);
        } else if (number == SIGUSR1) {
            if (s->pid) kill(s->pid, SIGUSR1);
        } else {
            tx__supervisor_stop(s, number);
        }
    }
}

static void on_time(tx_supervisor *s)
{
    double now = tx_clock();
    if (!s->pid) return;
    if (s->output.started) s->start_by = 0;
    if (s->start_by > 0 && now >= s->start_by) {
        tx_log(TX_LOG_ERROR,
               "not all hosts' MPI daemons have come back to this one within %.0f s: every host has to reach every "
               "other on "
               "any port (a firewall?)",
               s->start_within);
        s->start_by = 0;
        tx__supervisor_end(s);
    }
    if (s->term_at > 0 && now >= s->term_at) {
        tx_warn("the ranks did not end within %.0f s; they are ended now", s->grace);
        kill(s->pid, SIGTERM);
        s->forced = true;
        s->term_at = 0;
        s->kill_at = now + AFTER_TERM;
    }
    if (s->kill_at > 0 && now >= s->kill_at) {
        kill(-s->pid, SIGKILL);
        s->kill_at = now + 1;
    }
}

static int milliseconds(const tx_supervisor *s, double seconds)
{
    double now = tx_clock(), until = seconds < 0 ? now + 3600 : now + seconds;
    const double planned[] = { s->term_at, s->kill_at, s->start_by };
    for (size_t i = 0; i < sizeof planned / sizeof *planned; i++)
        if (s->pid && planned[i] > 0 && planned[i] < until) until = planned[i];
    return until <= now ? 0 : (int)((until - now) * 1000) + 1;
}

tx_status tx__supervisor_wait(tx_supervisor *s, struct pollfd *fds, int n, double seconds)
{
    fds[0] = (struct pollfd){ .fd = s->signal_fd, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = s->err_fd, .events = POLLIN };
    int got = poll(fds, (nfds_t)(n + TX_SUPERVISOR_FDS), milliseconds(s, seconds));
    if (got < 0 && errno != EINTR) return TX_FAIL(TX_ERR_IO, "cannot wait: %s", strerror(errno));
    if (got <= 0)
        for (int i = 0; i < n + TX_SUPERVISOR_FDS; i++) fds[i].revents = 0;
    if (fds[1].revents && !read_output(s)) close_output(s, false);
    if (fds[0].revents) on_signals(s);
    on_time(s);
    return TX_OK;
}

tx_status tx__supervisor_run(tx_supervisor *s, const tx_launch_command *what, bool is_starter)
{
    struct pollfd fds[TX_SUPERVISOR_FDS];
    TX_TRY(tx__supervisor_start(s, what, is_starter));
    while (s->pid) TX_TRY(tx__supervisor_wait(s, fds, 0, -1));
    return TX_OK;
}

void tx__supervisor_finish(tx_supervisor *s)
{
    struct pollfd fds[TX_SUPERVISOR_FDS];
    if (s->pid) tx__supervisor_end(s);
    while (s->pid && !tx__supervisor_wait(s, fds, 0, -1)) continue;
}

void tx__supervisor_close(tx_supervisor *s)
{
    if (!s->signal_fd) return;
    if (s->pid) {
        kill(-s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
        s->pid = 0;
    }
    end_descendants(s);
    close_output(s, false);
    tx__mpi_output_free(&s->output);
    close(s->signal_fd);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    *s = (tx_supervisor){ 0 };
}

/* ---- how it ended ---- */

/* Which variables have chosen what Open MPI is made of; it has said that it does not start. */
static void tell_no_start(void)
{
    static const char *const choosing[] = { "OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", "OMPI_MCA_coll",
                                            "OMPI_MCA_osc" };
    for (size_t i = 0; i < sizeof choosing / sizeof *choosing; i++) {
        const char *value = getenv(choosing[i]);
        if (value)
            tx_log(TX_LOG_ERROR,
                   "Open MPI has not started; %s=%.80s may ask for what a host has not: unset it, and Open MPI finds "
                   "out by "
                   "itself what there is",
                   choosing[i], value);
    }
}

void tx__supervisor_tell(const tx_supervisor *s)
{
    const tx_mpi_output *o = &s->output;
    if (!s->code || s->n_stops || o->code) return;
    if (o->no_start) tell_no_start();
    if (o->signal)
        tx_log(TX_LOG_ERROR, "rank %d on %s was ended by signal %d (%s), and with it the job", o->rank, o->host,
               o->signal, strsignal(o->signal));
    else if (o->no_daemon)
        tx_log(TX_LOG_ERROR, "MPI's daemon could not be started on every host; why stands above, or on that host");
    else if (*o->lost)
        tx_log(TX_LOG_ERROR,
               "host %s does not answer any more: its processes ended or its link is down; the job was ended", o->lost);
    else if (s->code > 128 && s->code <= 128 + 64)
        tx_log(TX_LOG_ERROR, "a rank was ended by signal %d (%s), and with it the job", s->code - 128,
               strsignal(s->code - 128));
}

int tx__supervisor_code(const tx_supervisor *s)
{
    bool died = s->forced || s->code == 128 + SIGUSR1 || s->code == 128 + SIGTERM || s->code == 128 + SIGKILL;
    int code = s->output.code && s->code ? s->output.code : s->code; /* srun's own is the largest of all tasks' */
    return s->n_stops && died ? 128 + s->stop_signal : code;
}
