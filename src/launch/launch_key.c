/* launch_key.c - the key file, and tags. A new key is written beside and linked into place, so that of several nodes
 * that share a home and begin together one makes it and the others read it whole. */
#include "launch/launch_key.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { DIGITS = 2 * TX_TAG_BYTES };

tx_status tx__random(void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = getrandom((char *)bytes + at, n - at, 0);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return TX_FAIL(TX_ERR_IO, "the system has no random numbers: %s", strerror(errno));
        at += (size_t)k;
    }
    return TX_OK;
}

void tx__key_tag(uint8_t tag[TX_TAG_BYTES], const tx_key *key, const char *word, tx_tagged a, tx_tagged b)
{
    struct hmac_sha256_ctx c;
    hmac_sha256_set_key(&c, sizeof key->byte, key->byte);
    hmac_sha256_update(&c, strlen(word) + 1, (const uint8_t *)word);
    if (a.n) hmac_sha256_update(&c, a.n, a.data);
    if (b.n) hmac_sha256_update(&c, b.n, b.data);
    hmac_sha256_digest(&c, TX_TAG_BYTES, tag);
}

bool tx__tag_equal(const uint8_t a[TX_TAG_BYTES], const uint8_t b[TX_TAG_BYTES])
{
    return memeql_sec(a, b, TX_TAG_BYTES);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hex(tx_key *out, const char *text)
{
    for (int i = 0; i < TX_TAG_BYTES; i++) {
        int hi = hex_digit(text[2 * i]), lo = hi < 0 ? -1 : hex_digit(text[2 * i + 1]);
        if (lo < 0) return false;
        out->byte[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

static tx_status check_file(int fd, const char *path)
{
    struct stat s;
    if (fstat(fd, &s)) return TX_FAIL(TX_ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode)) return TX_FAIL(TX_ERR_FORMAT, "%s is no file", path);
    if (s.st_uid != geteuid())
        return TX_FAIL(TX_ERR_IO,
                       "%s belongs to user %u, not to you; remove it, or name a key of yours in "
                       "TRIAX_LAUNCH_KEY_FILE",
                       path, (unsigned)s.st_uid);
    if (s.st_mode & 077)
        return TX_FAIL(TX_ERR_IO,
                       "%s can be read by others (mode %03o), so it is no secret; remove it, and a new one is "
                       "made",
                       path, (unsigned)s.st_mode & 0777);
    return TX_OK;
}

tx_status tx__key_read(tx_key *out, const char *path, const char *job)
{
    char text[DIGITS + 2];
    tx_key key;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return TX_FAIL(errno == ENOENT ? TX_ERR_NOTFOUND : TX_ERR_IO, "%s: %s", path, strerror(errno));
    tx_status st = check_file(fd, path);
    ssize_t n = st ? 0 : read(fd, text, sizeof text);
    close(fd);
    if (st) return st;
    if (n == DIGITS + 1 && text[DIGITS] == '\n') n--;
    if (n != DIGITS || !parse_hex(&key, text))
        return TX_FAIL(TX_ERR_FORMAT, "%s is no key: it has to be %d digits 0-9a-f; remove it, and a new one is made",
                       path, DIGITS);
    tx__key_tag(out->byte, &key, "job", (tx_tagged){ job, job ? strlen(job) : 0 }, (tx_tagged){ 0 });
    return TX_OK;
}

static tx_status put_new(int fd, const char *path)
{
    uint8_t byte[TX_TAG_BYTES];
    char text[DIGITS + 2];
    TX_TRY(tx__random(byte, sizeof byte));
    for (int i = 0; i < TX_TAG_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", byte[i]);
    text[DIGITS] = '\n';
    if (write(fd, text, DIGITS + 1) != DIGITS + 1 || fsync(fd))
        return TX_FAIL(TX_ERR_IO, "%s: cannot write the new key: %s", path, strerror(errno));
    return TX_OK;
}

static tx_status make(const char *path)
{
    char tmp[4096 + 64], host[64] = "";
    (void)gethostname(host, sizeof host - 1);
    snprintf(tmp, sizeof tmp, "%.4000s.%s.%ld", path, host, (long)getpid());
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return TX_FAIL(TX_ERR_IO,
                       "%s: the key of torchruns cannot be made: %s; name a file that can in "
                       "TRIAX_LAUNCH_KEY_FILE",
                       path, strerror(errno));
    tx_status st = put_new(fd, path);
    close(fd);
    if (!st && link(tmp, path) && errno != EEXIST) st = TX_FAIL(TX_ERR_IO, "%s: %s", path, strerror(errno));
    unlink(tmp);
    return st;
}

static tx_status default_path(char *path, size_t cap)
{
    const char *home = getenv("HOME");
    struct passwd *user = home && *home ? NULL : getpwuid(geteuid());
    if (user) home = user->pw_dir;
    if (!home || !*home)
        return TX_FAIL(TX_ERR_NOTFOUND,
                       "there is no home folder for the key of torchruns; name a file in TRIAX_LAUNCH_KEY_FILE");
    TX_TRY(tx_path_join(path, cap, home, ".triax"));
    if (mkdir(path, 0700) && errno != EEXIST) return TX_FAIL(TX_ERR_IO, "%s: %s", path, strerror(errno));
    return tx_path_join(path, cap, home, ".triax/launch.key");
}

tx_status tx__key_open(tx_key *out, char *path, size_t cap)
{
    const char *named = getenv("TRIAX_LAUNCH_KEY_FILE"), *job = getenv("SLURM_JOB_ID");
    if (named && *named && strlen(named) < cap)
        strcpy(path, named);
    else
        TX_TRY(default_path(path, cap));
    tx_status st = tx__key_read(out, path, job);
    if (st != TX_ERR_NOTFOUND) return st;
    TX_TRY(make(path));
    return tx__key_read(out, path, job);
}
