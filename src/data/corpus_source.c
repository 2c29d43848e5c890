/* corpus_source.c - plain bytes by read(2), compressed ones through libarchive's filters ("raw": no archive inside). */
#include "data/corpus_source.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/signals.h"

#define BLOCK ((size_t)256 << 10)

struct tx_text_source {
    int fd;
    const char *name;
    struct archive *decoder; /* NULL: the bytes are plain */
    int64_t taken;
    bool done;          /* the decoder has come to its end and must not be asked again */
    size_t n_head;      /* bytes at the start of buf that were read to look at and not handed out yet */
    unsigned char *buf; /* BLOCK bytes */
};

static const struct {
    const char *bytes;
    size_t n;
} magics[] = { { "\x1f\x8b", 2 },
               { "\xfd"
                 "7zXZ\0",
                 6 },
               { "\x28\xb5\x2f\xfd", 4 } };

typedef enum match { MATCH_NO, MATCH_SO_FAR, MATCH_YES } match;

static match is_compressed(const unsigned char *p, size_t n)
{
    match best = MATCH_NO;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
        size_t k = n < magics[i].n ? n : magics[i].n;
        if (memcmp(p, magics[i].bytes, k)) continue;
        if (k == magics[i].n) return MATCH_YES;
        best = MATCH_SO_FAR;
    }
    return best;
}

/* A signal can come right before a read that then waits, or to another thread; so nothing here waits for long. */
static ssize_t read_some(tx_text_source *s, void *buf, size_t n)
{
    enum { WAIT_MS = 100 };
    while (!tx_signals_seen()) {
        struct pollfd there = { .fd = s->fd, .events = POLLIN };
        if (poll(&there, 1, WAIT_MS) <= 0) continue;
        ssize_t k = read(s->fd, buf, n);
        if (k > 0) s->taken += k;
        if (k >= 0 || errno != EINTR) return k;
    }
    errno = EINTR;
    return -1;
}

/* Reads no further than needed to tell: a person may be typing. */
static tx_status look(tx_text_source *s, bool *compressed)
{
    match m;
    while ((m = is_compressed(s->buf, s->n_head)) == MATCH_SO_FAR) {
        ssize_t k = read_some(s, s->buf + s->n_head, BLOCK - s->n_head);
        if (k < 0) return TX_FAIL(TX_ERR_IO, "%s: cannot read: %s", s->name, strerror(errno));
        if (k == 0) break;
        s->n_head += (size_t)k;
    }
    *compressed = m == MATCH_YES;
    return TX_OK;
}

/* libarchive asks for more compressed bytes. */
static la_ssize_t feed(struct archive *a, void *user, const void **data)
{
    tx_text_source *s = user;
    ssize_t k = (ssize_t)s->n_head;
    s->n_head = 0;
    if (!k) k = read_some(s, s->buf, BLOCK);
    if (k < 0) archive_set_error(a, errno, "cannot read: %s", strerror(errno));
    *data = s->buf;
    return k;
}

static tx_status decoder_fail(const tx_text_source *s)
{
    const char *why = archive_error_string(s->decoder);
    return TX_FAIL(TX_ERR_FORMAT, "%s: cannot decompress: %s; the file is cut off or damaged, get it again", s->name,
                   why ? why : "unknown error");
}

static tx_status start_decoder(tx_text_source *s)
{
    struct archive_entry *entry;
    s->decoder = archive_read_new();
    if (!s->decoder) return TX_FAIL(TX_ERR_NOMEM, "not enough memory to decompress %s", s->name);
    archive_read_support_filter_gzip(s->decoder);
    archive_read_support_filter_xz(s->decoder);
    archive_read_support_filter_zstd(s->decoder);
    archive_read_support_format_raw(s->decoder);
    archive_read_support_format_empty(s->decoder); /* compressed nothing */
    if (archive_read_open(s->decoder, s, NULL, feed, NULL) != ARCHIVE_OK) return decoder_fail(s);
    int rc = archive_read_next_header(s->decoder, &entry);
    s->done = rc == ARCHIVE_EOF;
    if (rc != ARCHIVE_OK && !s->done) return decoder_fail(s);
    if (archive_filter_code(s->decoder, 0) == ARCHIVE_FILTER_NONE) /* too short even for the filter's header */
        return TX_FAIL(TX_ERR_FORMAT, "%s: cannot decompress: its header is cut off; get the file again", s->name);
    return TX_OK;
}

static tx_status open_fd(tx_text_source *s, const char *path)
{
    struct stat sb;
    if (!strcmp(path, "-")) {
        s->fd = STDIN_FILENO;
        return TX_OK;
    }
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        return TX_FAIL(errno == ENOENT ? TX_ERR_NOTFOUND : TX_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (!fstat(s->fd, &sb) && S_ISDIR(sb.st_mode))
        return TX_FAIL(TX_ERR_IO, "%s: is a directory; give the files in it", path);
    return TX_OK;
}

tx_status tx__text_source_open(tx_text_source **out, const char *path, const char *name)
{
    tx_text_source *s = NULL;
    tx_status st;
    bool compressed;
    TX_GOTO(tx_alloc(&s, 1, sizeof *s, "an input"));
    s->fd = -1;
    s->name = name;
    TX_GOTO(tx_alloc(&s->buf, BLOCK, 1, "an input buffer"));
    TX_GOTO(open_fd(s, path));
    TX_GOTO(look(s, &compressed));
    if (compressed) TX_GOTO(start_decoder(s));
    *out = s;
    return TX_OK;
out:
    tx__text_source_close(s);
    return st;
}

static tx_status read_decoded(tx_text_source *s, const char **data, size_t *n)
{
    const void *block = NULL;
    la_int64_t offset;
    int rc = ARCHIVE_OK;
    *n = 0;
    while (!s->done && rc == ARCHIVE_OK && !*n) {
        rc = archive_read_data_block(s->decoder, &block, n, &offset);
        s->done = rc == ARCHIVE_EOF;
    }
    if (s->done)
        *n = 0;
    else if (rc != ARCHIVE_OK)
        return decoder_fail(s);
    *data = block;
    return TX_OK;
}

tx_status tx__text_source_read(tx_text_source *s, const char **data, size_t *n)
{
    if (s->decoder) return read_decoded(s, data, n);
    ssize_t k = (ssize_t)s->n_head;
    s->n_head = 0;
    if (!k) k = read_some(s, s->buf, BLOCK);
    if (k < 0) return TX_FAIL(TX_ERR_IO, "%s: cannot read: %s", s->name, strerror(errno));
    *data = (const char *)s->buf;
    *n = (size_t)k;
    return TX_OK;
}

int64_t tx__text_source_taken(const tx_text_source *s)
{
    return s->taken;
}

void tx__text_source_close(tx_text_source *s)
{
    if (!s) return;
    if (s->decoder) archive_read_free(s->decoder);
    if (s->fd > STDIN_FILENO) close(s->fd);
    tx_free(s->buf);
    tx_free(s);
}
