/* hostfile.c - hosts and slots out of a file's lines, and the filters. */
#include "launch/hostfile.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"

bool tx__is_host_name(const char *name, size_t n)
{
    if (!n || n >= TX_HOST_NAME || *name == '-') return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr(".-_:", name[i])) return false;
    return !memchr(name, 0, n);
}

void tx__hosts_free(tx_hosts *h)
{
    for (int i = 0; i < h->n; i++) tx_free(h->host[i].slot);
    tx_free(h->host);
    *h = (tx_hosts){ 0 };
}

static tx_status take_slots(tx_host *h, int n)
{
    int *slot = NULL;
    TX_TRY(tx_alloc(&slot, (size_t)n, sizeof *slot, "the slots of a host"));
    for (int i = 0; i < n; i++) slot[i] = i;
    tx_free(h->slot);
    h->slot = slot;
    h->n_slots = h->n_all = n;
    return TX_OK;
}

static tx_host *find(const tx_hosts *h, const char *name, size_t n)
{
    for (int i = 0; i < h->n; i++)
        if (strlen(h->host[i].name) == n && !memcmp(h->host[i].name, name, n)) return &h->host[i];
    return NULL;
}

static tx_status add_host(tx_hosts *h, int *cap, const char *name, size_t n, int n_slots)
{
    if (h->n == *cap) {
        *cap = *cap ? 2 * *cap : 16;
        TX_TRY(tx_realloc(&h->host, (size_t)*cap, sizeof *h->host, "the hosts"));
    }
    tx_host *host = &h->host[h->n];
    *host = (tx_host){ 0 };
    memcpy(host->name, name, n);
    TX_TRY(take_slots(host, n_slots));
    h->n++;
    return TX_OK;
}

/* A number of digits alone in [lo, hi]; -1: none. */
static int number(const char *text, size_t n, int lo, int hi)
{
    int v = 0;
    if (!n || n > 6) return -1;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i])) return -1;
        v = 10 * v + (text[i] - '0');
    }
    return v >= lo && v <= hi ? v : -1;
}

static size_t word_length(const char *text, size_t n)
{
    size_t k = 0;
    while (k < n && text[k] != ' ' && text[k] != '\t' && text[k] != '\r') k++;
    return k;
}

static size_t blanks(const char *text, size_t n)
{
    size_t k = 0;
    while (k < n && (text[k] == ' ' || text[k] == '\t' || text[k] == '\r')) k++;
    return k;
}

/* One line without its comment. */
static tx_status take_line(tx_hosts *h, int *cap, const char *file, int line, const char *text, size_t n)
{
    size_t at = blanks(text, n), n_name = word_length(text + at, n - at);
    if (!n_name) return TX_OK;
    const char *name = text + at;
    at += n_name;
    at += blanks(text + at, n - at);
    size_t n_word = word_length(text + at, n - at), rest = at + n_word;
    int n_slots =
        n_word > 6 && !memcmp(text + at, "slots=", 6) ? number(text + at + 6, n_word - 6, 1, TX_MAX_SLOTS) : -1;
    rest += blanks(text + rest, n - rest);
    if (n_slots < 0 || rest < n)
        return TX_FAIL(TX_ERR_FORMAT, "%s:%d: \"%.*s\" is not \"host slots=N\" with N from 1 to %d", file, line,
                       (int)(n > 80 ? 80 : n), text, TX_MAX_SLOTS);
    if (!tx__is_host_name(name, n_name))
        return TX_FAIL(TX_ERR_FORMAT, "%s:%d: \"%.*s\" is no host's name: letters, digits, '.', '-', '_' and ':' are",
                       file, line, (int)(n_name > 80 ? 80 : n_name), name);
    if (find(h, name, n_name))
        return TX_FAIL(TX_ERR_FORMAT, "%s:%d: host %.*s stands there twice; give all its slots in one line", file, line,
                       (int)(n_name > 80 ? 80 : n_name), name);
    if (h->n == TX_MAX_HOSTS) return TX_FAIL(TX_ERR_FORMAT, "%s:%d: more than %d hosts", file, line, TX_MAX_HOSTS);
    return add_host(h, cap, name, n_name, n_slots);
}

tx_status tx__hostfile_parse(tx_hosts *out, const char *name, const char *text, size_t n)
{
    tx_hosts h = { 0 };
    int cap = 0, line = 0;
    tx_status st;
    for (size_t at = 0; at < n;) {
        const char *start = text + at, *end = memchr(start, '\n', n - at), *comment;
        size_t length = end ? (size_t)(end - start) : n - at;
        at += length + 1;
        comment = memchr(start, '#', length);
        TX_GOTO(take_line(&h, &cap, name, ++line, start, comment ? (size_t)(comment - start) : length));
    }
    if (!h.n) {
        st = TX_FAIL(TX_ERR_FORMAT, "%s: names no host; its lines are \"host slots=N\"", name);
        goto out;
    }
    *out = h;
    return TX_OK;
out:
    tx__hosts_free(&h);
    return st;
}

/* ---- filters ---- */

struct filter {
    const char *flag;
    unsigned char **named; /* per host and slot; NULL: the host is not named */
};

static tx_status name_slots(struct filter *f, tx_hosts *h, tx_host *host, const char *slots, size_t n)
{
    unsigned char **named = &f->named[host - h->host];
    if (!*named) TX_TRY(tx_alloc(named, (size_t)host->n_slots, 1, "the slots of a host"));
    if (!slots) {
        memset(*named, 1, (size_t)host->n_slots);
        return TX_OK;
    }
    for (size_t at = 0; at <= n;) {
        const char *comma = memchr(slots + at, ',', n - at);
        size_t length = comma ? (size_t)(comma - slots) - at : n - at;
        int slot = number(slots + at, length, 0, host->n_slots - 1);
        if (slot < 0)
            return TX_FAIL(TX_ERR_ARG, "--%s: \"%.*s\" is no slot of host %s: 0 to %d are", f->flag,
                           (int)(length > 40 ? 40 : length), slots + at, host->name, host->n_slots - 1);
        (*named)[slot] = 1;
        at += length + 1;
    }
    return TX_OK;
}

/* "host" or "host:0,2"; a name may itself have a ':' (an IPv6 address), so whole names go first. */
static tx_status name_host(struct filter *f, tx_hosts *h, const char *text, size_t n)
{
    tx_host *host = find(h, text, n);
    if (host) return name_slots(f, h, host, NULL, 0);
    const char *colon = memrchr(text, ':', n);
    size_t n_name = colon ? (size_t)(colon - text) : n;
    host = colon ? find(h, text, n_name) : NULL;
    if (host) return name_slots(f, h, host, colon + 1, n - n_name - 1);
    return TX_FAIL(TX_ERR_ARG, "--%s: host \"%.*s\" is not in the hostfile", f->flag, (int)(n_name > 80 ? 80 : n_name),
                   text);
}

static void keep_slots(tx_host *host, const unsigned char *named, bool include)
{
    int n = 0;
    for (int i = 0; i < host->n_slots; i++)
        if ((named && named[i]) == include) host->slot[n++] = host->slot[i];
    host->n_slots = n;
}

tx_status tx__hosts_filter(tx_hosts *h, const char *text, bool include)
{
    struct filter f = { .flag = include ? "include" : "exclude" };
    int n = 0;
    tx_status st;
    TX_GOTO(tx_alloc(&f.named, (size_t)h->n, sizeof *f.named, "the hosts"));
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, "@");
        TX_GOTO(name_host(&f, h, at, length));
        at += length;
        if (!*at) break;
    }
    for (int i = 0; i < h->n; i++) {
        keep_slots(&h->host[i], f.named[i], include);
        if (h->host[i].n_slots)
            h->host[n++] = h->host[i];
        else
            tx_free(h->host[i].slot);
        tx_free(f.named[i]);
        f.named[i] = NULL;
    }
    h->n = n;
    st = n ? TX_OK : TX_FAIL(TX_ERR_ARG, "--%s %.80s leaves no host to run on", f.flag, text);
out:
    for (int i = 0; f.named && i < h->n; i++) tx_free(f.named[i]);
    tx_free(f.named);
    return st;
}

tx_status tx__hosts_limit(tx_hosts *h, int64_t num_nodes, int64_t num_slots)
{
    if (num_nodes > h->n)
        return TX_FAIL(TX_ERR_ARG, "--num_nodes %lld: the hostfile has %d host%s", (long long)num_nodes, h->n,
                       h->n == 1 ? "" : "s");
    while (num_nodes > 0 && h->n > num_nodes) tx_free(h->host[--h->n].slot);
    for (int i = 0; num_slots > 0 && i < h->n; i++) TX_TRY(take_slots(&h->host[i], (int)num_slots));
    return TX_OK;
}
