/* wire.h - the protocol between torchruns: frames and their authentication, without the connection.
 *
 *  Tests and the fuzzer therefore need no network.
 *
 *      frame     length (4 bytes, big-endian, of what follows)  type (1)  payload  tag (32, once a key is agreed on)
 *
 *  A keyed wire begins with three frames in which both sides prove that they have the key, without revealing it:
 *
 *      client                                   server
 *      HELLO  magic, nonce c            ->
 *                                       <-      PROOF  magic, nonce s, tag(key, "server", c, s)
 *      ANSWER tag(key, "client", c, s)  ->
 *
 *  Every later frame has a tag over its number, type and payload, with a key for this connection and direction. No
 * frame can be changed, omitted, repeated or sent back unnoticed. A wire without a key (between processes of one user,
 * over a socket in a private folder) has no tags.
 *
 *  Input is untrusted until its tag has been checked: lengths are bounded before anything is stored. */
#ifndef TX_LAUNCH_WIRE_H
#define TX_LAUNCH_WIRE_H

#include "base/str.h"
#include "launch/launch_key.h"
#include "launch/words.h"

enum {
    TX_WIRE_MAX = 64 << 10,
    TX_NONCE_BYTES = 32
}; /* bytes of a frame; the first frames, before the proof, are
    * shorter */

typedef enum tx_wire_side { TX_WIRE_PLAIN, TX_WIRE_CLIENT, TX_WIRE_SERVER } tx_wire_side;

typedef struct tx_wire {
    tx_wire_side side;
    bool open; /* both sides are authenticated: messages can be sent and received */
    tx_key key, key_in, key_out;
    uint8_t client[TX_NONCE_BYTES], server[TX_NONCE_BYTES];
    uint64_t n_in, n_out;
    tx_str in, out; /* received, not yet parsed; and not yet sent: the caller sends from the beginning of `out` */
    size_t taken;   /* bytes of `in` that the last message occupies */
} tx_wire;

/* `out` has a client's first frame at once. key NULL for TX_WIRE_PLAIN. */
tx_status tx__wire_init(tx_wire *w, tx_wire_side side, const tx_key *key);
void tx__wire_deinit(tx_wire *w);

typedef struct tx_message {
    int type;             /* 1 to 127, defined by the caller; 0: none yet */
    const uint8_t *bytes; /* owned by the wire, valid until the next call on it */
    size_t n;
} tx_message;

/* Adds received bytes. */
tx_status tx__wire_feed(tx_wire *w, const void *bytes, size_t n);

/* The next complete message, or type 0. Also does the handshake. TX_ERR_FORMAT: not this protocol, or changed on the
 * way. TX_ERR_STATE: the other side has a different key. After an error the wire can no longer be used. */
tx_status tx__wire_next(tx_wire *w, tx_message *out);

tx_status tx__wire_put(tx_wire *w, int type, const void *bytes, size_t n);
void tx__wire_sent(tx_wire *w, size_t n); /* the first n bytes of `out` are on their way */

/* ---- payloads: a sequence of numbers and texts ---- */

tx_status tx__pack_number(tx_str *s, int64_t v);
tx_status tx__pack_text(tx_str *s, const char *text);
tx_status tx__pack_words(tx_str *s, char *const *words, int n);

typedef struct tx_unpack {
    const uint8_t *at, *end;
} tx_unpack;

/* TX_ERR_FORMAT: the payload ends early, a number is out of bounds, a text has a NUL in it or is too long. */
tx_status tx__unpack_number(tx_unpack *u, int64_t lo, int64_t hi, int64_t *out);
tx_status tx__unpack_text(tx_unpack *u, char *buf, size_t cap);
/* Copies words into an empty list, which the caller frees, also on failure. */
tx_status tx__unpack_words(tx_unpack *u, tx_words *out, int max);
tx_status tx__unpack_end(const tx_unpack *u);

#endif
