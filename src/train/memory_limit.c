/* memory_limit.c - what --memory-limit says, and what is said of a run that does not fit (fit.c finds what would). */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "base/system_memory.h"
#include "train/fit.h"

enum { MAX_WIDTH = 130 }; /* of a line's flags */

bool tx_memory_limit_is_of_machine(const tx_config *cfg)
{
    double share;
    return !strcmp(cfg->memory_limit, "auto") || tx_share_parse(cfg->memory_limit, &share);
}

size_t tx_memory_here(const tx_memory *planned, const char **whose)
{
    if (!planned->gpu_free) return tx_system_memory(whose);
    *whose = "the GPU's free memory is";
    return planned->gpu_free;
}

tx_memory_limit tx_memory_limit_of(const tx_config *cfg, size_t all, const char *whose)
{
    const char *text = cfg->memory_limit;
    tx_memory_limit limit = { 0 };
    double share;
    char size[24];
    if (tx_memory_limit_is_of_machine(cfg)) limit.bytes = all;
    if (!strcmp(text, "auto")) {
        snprintf(limit.whose, sizeof limit.whose, "%s", whose);
    } else if (tx_share_parse(text, &share)) {
        snprintf(limit.whose, sizeof limit.whose, "--memory-limit %.40s, where %s %s, is", text, whose,
                 tx_bytes_text(size, (double)limit.bytes));
        limit.bytes = (size_t)(share * (double)limit.bytes);
    } else if (tx_size_parse(text, &limit.bytes)) {
        snprintf(limit.whose, sizeof limit.whose, "--memory-limit %.40s is", text);
    } else {
        limit.bytes = 0; /* "off"; the rules let nothing else through */
    }
    return limit;
}

/* ---------------------------------------------------------------- in words */

const char *tx_change_cost_text(char buf[96], const tx_change *c)
{
    int n = snprintf(buf, 96, "no extra compute");
    if (c->extra_compute > 0) n = snprintf(buf, 96, "about %.2g %% more compute", 100 * c->extra_compute);
    if (c->messages > 1.05) n += snprintf(buf + n, 96 - (size_t)n, ", %.2g times the messages", c->messages);
    if (c->disk) snprintf(buf + n, 96 - (size_t)n, ", a disk is read and written");
    return buf;
}

/* What keeps the least from being less. */
static void add_bound(char *text, size_t cap, const tx_memory *m)
{
    char size[24];
    size_t passing = m->activations + m->workspace + (m->gpu_free ? 0 : m->host_activations),
           state = tx_memory_limited(m) - passing;
    if (state > passing)
        snprintf(text, cap, "%s of it are parameters, gradients and optimizer state%s",
                 tx_bytes_text(size, (double)state), m->saving ? " with --async-save's copy of them" : "");
    else
        snprintf(text, cap, "%s of it are activations and workspace", tx_bytes_text(size, (double)passing));
}

static const char *smaller_what(const tx_memory *m)
{
    size_t passing = m->activations + m->workspace + (m->gpu_free ? 0 : m->host_activations);
    return tx_memory_limited(m) - passing > passing ? "a smaller model" : "a shorter --seq-length or a smaller model";
}

/* "--zero-stage 1 without --b", "on 128 ranks: --zero-stage 1". */
static const char *change_text(char text[TX_FIT_FLAGS + 128], const tx_change *c, bool names_ranks)
{
    int n = 0;
    if (names_ranks) n = snprintf(text, 64, "on %lld ranks: ", (long long)c->ranks);
    snprintf(text + n, TX_FIT_FLAGS + 128 - (size_t)n, "%s%s%s", c->flags[0] ? c->flags : "as it is",
             c->without[0] ? " without " : "", c->without);
    return text;
}

/* A line of the message. */
static tx_status add_change(tx_str *text, const tx_change *c, bool names_ranks, int width)
{
    char flags[TX_FIT_FLAGS + 128], size[24], cost[96];
    return tx_str_printf(text, "\n  %-*s  %10s, %s", width, change_text(flags, c, names_ranks),
                         tx_bytes_text(size, (double)tx_memory_limited(&c->memory)), tx_change_cost_text(cost, c));
}

/* Where none fits on the run's ranks. */
static tx_status add_least(tx_str *text, const tx_fit *f)
{
    char flags[TX_FIT_FLAGS + 128], bound[160], least[24];
    tx_bytes_text(least, (double)tx_memory_limited(&f->least.memory));
    add_bound(bound, sizeof bound, &f->least.memory);
    if (f->untried)
        return tx_str_printf(
            text, "a smaller --micro-batch-size, a higher --zero-stage or recomputed layers may help; %s", bound);
    if (f->least.flags[0])
        TX_TRY(tx_str_printf(text, "the least it can be made to take is %s, with %s; %s", least,
                             change_text(flags, &f->least, false), bound));
    else
        TX_TRY(tx_str_printf(text, "no option makes it less; %s", bound));
    if (f->more.ranks) return TX_OK;
    return tx_str_printf(text, ": take %s%s", smaller_what(&f->least.memory),
                         f->times > 1 ? "; up to eight times the ranks are not enough" : "");
}

static tx_status write_changes(tx_str *text, const tx_fit *f)
{
    char flags[TX_FIT_FLAGS + 128];
    int width = 0;
    for (int i = 0; i <= f->n; i++) {
        const tx_change *c = i < f->n ? &f->change[i] : &f->more;
        int its = c->ranks ? (int)strlen(change_text(flags, c, i == f->n)) : 0;
        if (its > width && its <= MAX_WIDTH) width = its;
    }
    TX_TRY(f->n ? tx_str_puts(text, "changes that make it fit, cheapest first:") : add_least(text, f));
    for (int i = 0; i < f->n; i++) TX_TRY(add_change(text, &f->change[i], false, width));
    if (f->more.ranks) TX_TRY(add_change(text, &f->more, true, width));
    if (f->has_file && (f->n || f->more.ranks))
        TX_TRY(tx_str_puts(text, "\n  what the file of --deepspeed_config sets is to be changed there"));
    return TX_OK;
}

/* ---------------------------------------------------------------- the answer */

tx_status tx_fit_refuse(const tx_fit *f, const tx_memory *planned, tx_memory_limit limit)
{
    char size[24], need[24], have[24], taken[64] = "", copy[64] = "";
    tx_str text = { 0 };
    if (planned->saving && !planned->gpu_free)
        snprintf(copy, sizeof copy, ", %s of it the copy for --async-save",
                 tx_bytes_text(size, (double)planned->saving));
    if (limit.taken)
        snprintf(taken, sizeof taken, ", of which the program has %s", tx_bytes_text(size, (double)limit.taken));
    size_t total = tx_memory_limited(planned), missing = total + limit.taken - limit.bytes;
    tx_status st = write_changes(&text, f);
    if (!st)
        st = TX_FAIL_LINES(TX_ERR_NOMEM, "the run would take %s of %s%s, but %s %s%s: %zu MiB are missing; %s",
                           tx_bytes_text(need, (double)total), planned->gpu_free ? "the GPU's memory" : "memory", copy,
                           limit.whose, tx_bytes_text(have, (double)limit.bytes), taken, (missing + 1048575) >> 20,
                           text.data);
    tx_str_free(&text);
    return st;
}

tx_status tx_fit_check(const tx_config *cfg, int64_t vocab_size, bool can_plan, const tx_memory *planned)
{
    const char *whose;
    size_t all = tx_memory_here(planned, &whose);
    tx_memory_limit limit = tx_memory_limit_of(cfg, all, whose);
    size_t total = tx_memory_limited(planned), host = tx_memory_total(planned) - tx_memory_gpu(planned);
    size_t left = tx_system_memory_free();
    char need[24], have[24];
    tx_run_plan plan;
    tx_fit fit = { .least = { .memory = *planned, .without = "" }, .untried = !can_plan, .times = 1 };
    if (limit.bytes && tx_memory_limit_is_of_machine(cfg) && !planned->gpu_free) limit.taken = tx_system_memory_taken();
    size_t room = limit.bytes > limit.taken ? limit.bytes - limit.taken : 1;
    if (!limit.bytes || total <= room) {
        if (limit.bytes && left && host > left)
            tx_warn(
                "the run will take %s of the host's memory, and only %s is free now: the machine may swap, or end it",
                tx_bytes_text(need, (double)host), tx_bytes_text(have, (double)left));
        return TX_OK;
    }
    if (can_plan) TX_TRY(tx_plan_run(&plan, cfg, vocab_size));
    if (can_plan) TX_TRY(tx_fit_find(&fit, cfg, vocab_size, &plan, room));
    return tx_fit_refuse(&fit, planned, limit);
}
