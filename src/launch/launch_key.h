/* launch_key.h - the secret that the torchruns of a job share, and its use (HMAC-SHA256, nettle).
 *
 * The file TRIAX_LAUNCH_KEY_FILE, or ~/.triax/launch.key, has 64 hexadecimal digits. It is created on first use. It
 * must belong to the user and be readable by nobody else. The id of a Slurm job is mixed in, so that jobs do not
 * mistake each other's torchruns for their own. */
#ifndef TX_LAUNCH_LAUNCH_KEY_H
#define TX_LAUNCH_LAUNCH_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { TX_TAG_BYTES = 32 };

typedef struct tx_key {
    uint8_t byte[TX_TAG_BYTES];
} tx_key;

/* Reads the key, or creates it. path[cap] is set to the file's path, for messages. TX_ERR_IO and TX_ERR_FORMAT name
 * the file and what to do. */
tx_status tx__key_open(tx_key *out, char *path, size_t cap);

/* The same for a given file and job id ("" or NULL: none). */
tx_status tx__key_read(tx_key *out, const char *path, const char *job);

/* Bytes from which a tag is computed; borrowed. */
typedef struct tx_tagged {
    const void *data;
    size_t n;
} tx_tagged;

/* HMAC-SHA256 over a word and two pieces of data. The word's NUL is included, so that no two uses have the same
 * input. */
void tx__key_tag(uint8_t tag[TX_TAG_BYTES], const tx_key *key, const char *word, tx_tagged a, tx_tagged b);

/* Whether two tags are equal, in constant time. */
bool tx__tag_equal(const uint8_t a[TX_TAG_BYTES], const uint8_t b[TX_TAG_BYTES]);

/* Unpredictable random bytes. TX_ERR_IO: the system has none. */
tx_status tx__random(void *bytes, size_t n);

#endif
