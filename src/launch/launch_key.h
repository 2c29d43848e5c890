/* launch_key.h - the secret that the torchruns of one job share, and what is computed with it (HMAC-SHA256, nettle).
 *
 *  The file has 64 hexadecimal digits: TRIAX_LAUNCH_KEY_FILE, or ~/.triax/launch.key, which is made on first use. It
 * must be the user's own and readable by nobody else. A Slurm job's number is mixed in, so jobs do not mistake each
 * other. */
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

/* Reads the key, or makes it. path[cap] becomes the file's, for messages. TX_ERR_IO, TX_ERR_FORMAT name the file and
 * what to do. */
tx_status tx__key_open(tx_key *out, char *path, size_t cap);

/* The same for one file and one job ("" or NULL: none). */
tx_status tx__key_read(tx_key *out, const char *path, const char *job);

/* Bytes that a tag is computed of; borrowed. */
typedef struct tx_tagged {
    const void *data;
    size_t n;
} tx_tagged;

/* HMAC-SHA256 over a word and two pieces of data; the word's NUL counts, so that no two uses have the same input. */
void tx__key_tag(uint8_t tag[TX_TAG_BYTES], const tx_key *key, const char *word, tx_tagged a, tx_tagged b);

/* Equal, in a time that does not depend on where they differ. */
bool tx__tag_equal(const uint8_t a[TX_TAG_BYTES], const uint8_t b[TX_TAG_BYTES]);

/* Bytes that nobody can guess. TX_ERR_IO: the system has none. */
tx_status tx__random(void *bytes, size_t n);

#endif
