/* wire.c - frames, tags, the proof of the key; numbers and texts in payloads. */
#include "launch/wire.h"

#include <string.h>

static const char magic[] = "triax-launch-1";

enum { HELLO = 128, PROOF, ANSWER, HEAD = 5, FIRST_MAX = 256, OUT_MAX = 4 << 20 };

static void put_be(uint8_t *p, uint64_t v, int n)
{
    for (int i = n; i-- > 0; v >>= 8) p[i] = (uint8_t)v;
}

static uint64_t get_be(const uint8_t *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v = v << 8 | p[i];
    return v;
}

/* ---- sending ---- */

static void frame_tag(uint8_t tag[TX_TAG_BYTES], const tx_key *key, uint64_t number, int type, const void *bytes,
                      size_t n)
{
    uint8_t head[9];
    put_be(head, number, 8);
    head[8] = (uint8_t)type;
    tx__key_tag(tag, key, "frame", (tx_tagged){ head, sizeof head }, (tx_tagged){ bytes, n });
}

static tx_status put_frame(tx_wire *w, int type, const void *bytes, size_t n)
{
    uint8_t head[HEAD], tag[TX_TAG_BYTES];
    bool tagged = w->open && w->side != TX_WIRE_PLAIN;
    size_t length = 1 + n + (tagged ? sizeof tag : 0);
    if (length > TX_WIRE_MAX)
        return TX_FAIL(TX_ERR_ARG, "a message of %zu bytes between torchruns; at most %d", n, TX_WIRE_MAX);
    if (w->out.len > OUT_MAX) return TX_FAIL(TX_ERR_COMM, "the other side takes no messages");
    put_be(head, length, 4);
    head[4] = (uint8_t)type;
    TX_TRY(tx_str_append(&w->out, head, sizeof head));
    TX_TRY(tx_str_append(&w->out, bytes, n));
    if (!tagged) return TX_OK;
    frame_tag(tag, &w->key_out, w->n_out++, type, bytes, n);
    return tx_str_append(&w->out, tag, sizeof tag);
}

tx_status tx__wire_put(tx_wire *w, int type, const void *bytes, size_t n)
{
    TX_ASSERT(type > 0 && type < HELLO && w->open);
    return put_frame(w, type, bytes, n);
}

void tx__wire_sent(tx_wire *w, size_t n)
{
    memmove(w->out.data, w->out.data + n, w->out.len - n);
    w->out.len -= n;
}

/* ---- the proof ---- */

tx_status tx__wire_init(tx_wire *w, tx_wire_side side, const tx_key *key)
{
    uint8_t hello[sizeof magic + TX_NONCE_BYTES];
    *w = (tx_wire){ .side = side, .open = side == TX_WIRE_PLAIN };
    if (side == TX_WIRE_PLAIN) return TX_OK;
    w->key = *key;
    TX_TRY(tx__random(side == TX_WIRE_CLIENT ? w->client : w->server, TX_NONCE_BYTES));
    if (side == TX_WIRE_SERVER) return TX_OK;
    memcpy(hello, magic, sizeof magic);
    memcpy(hello + sizeof magic, w->client, TX_NONCE_BYTES);
    return put_frame(w, HELLO, hello, sizeof hello);
}

void tx__wire_deinit(tx_wire *w)
{
    tx_str_free(&w->in);
    tx_str_free(&w->out);
    *w = (tx_wire){ 0 };
}

static void tag_both(uint8_t tag[TX_TAG_BYTES], const tx_wire *w, const char *word)
{
    tx__key_tag(tag, &w->key, word, (tx_tagged){ w->client, TX_NONCE_BYTES }, (tx_tagged){ w->server, TX_NONCE_BYTES });
}

static void open_wire(tx_wire *w)
{
    bool client = w->side == TX_WIRE_CLIENT;
    tag_both(client ? w->key_out.byte : w->key_in.byte, w, "to server");
    tag_both(client ? w->key_in.byte : w->key_out.byte, w, "to client");
    w->open = true;
}

static tx_status not_ours(void)
{
    return TX_FAIL(TX_ERR_FORMAT, "does not speak as a triax torchrun of this version does");
}

static tx_status other_key(void)
{
    return TX_FAIL(TX_ERR_STATE, "has another key");
}

static bool begins(const uint8_t *bytes, size_t n, size_t behind)
{
    return n == sizeof magic + behind && !memcmp(bytes, magic, sizeof magic);
}

/* Server: a client's challenge. */
static tx_status on_hello(tx_wire *w, const uint8_t *bytes, size_t n)
{
    uint8_t proof[sizeof magic + TX_NONCE_BYTES + TX_TAG_BYTES];
    if (!begins(bytes, n, TX_NONCE_BYTES) || w->n_in) return not_ours();
    w->n_in = 1;
    memcpy(w->client, bytes + sizeof magic, TX_NONCE_BYTES);
    memcpy(proof, magic, sizeof magic);
    memcpy(proof + sizeof magic, w->server, TX_NONCE_BYTES);
    tag_both(proof + sizeof magic + TX_NONCE_BYTES, w, "server");
    return put_frame(w, PROOF, proof, sizeof proof);
}

/* Client: the server has the key; now this side shows that it has. */
static tx_status on_proof(tx_wire *w, const uint8_t *bytes, size_t n)
{
    uint8_t tag[TX_TAG_BYTES];
    if (!begins(bytes, n, TX_NONCE_BYTES + TX_TAG_BYTES)) return not_ours();
    memcpy(w->server, bytes + sizeof magic, TX_NONCE_BYTES);
    tag_both(tag, w, "server");
    if (!tx__tag_equal(tag, bytes + sizeof magic + TX_NONCE_BYTES)) return other_key();
    tag_both(tag, w, "client");
    TX_TRY(put_frame(w, ANSWER, tag, sizeof tag));
    open_wire(w);
    return TX_OK;
}

static tx_status on_answer(tx_wire *w, const uint8_t *bytes, size_t n)
{
    uint8_t tag[TX_TAG_BYTES];
    if (n != sizeof tag || !w->n_in) return not_ours();
    tag_both(tag, w, "client");
    if (!tx__tag_equal(tag, bytes)) return other_key();
    w->n_in = 0;
    open_wire(w);
    return TX_OK;
}

static tx_status on_first(tx_wire *w, int type, const uint8_t *bytes, size_t n)
{
    if (w->side == TX_WIRE_CLIENT) return type == PROOF ? on_proof(w, bytes, n) : not_ours();
    if (type == HELLO) return on_hello(w, bytes, n);
    return type == ANSWER ? on_answer(w, bytes, n) : not_ours();
}

/* ---- receiving ---- */

tx_status tx__wire_feed(tx_wire *w, const void *bytes, size_t n)
{
    return tx_str_append(&w->in, bytes, n);
}

static void drop_taken(tx_wire *w)
{
    if (!w->taken) return;
    memmove(w->in.data, w->in.data + w->taken, w->in.len - w->taken);
    w->in.len -= w->taken;
    w->taken = 0;
}

static tx_status take_message(tx_wire *w, int type, const uint8_t *bytes, size_t n, tx_message *out)
{
    uint8_t tag[TX_TAG_BYTES];
    if (type < 1 || type >= HELLO) return not_ours();
    if (w->side != TX_WIRE_PLAIN) {
        if (n < TX_TAG_BYTES) return not_ours();
        n -= TX_TAG_BYTES;
        frame_tag(tag, &w->key_in, w->n_in++, type, bytes, n);
        if (!tx__tag_equal(tag, bytes + n)) return TX_FAIL(TX_ERR_FORMAT, "sent a message that was changed on its way");
    }
    *out = (tx_message){ .type = type, .bytes = bytes, .n = n };
    return TX_OK;
}

tx_status tx__wire_next(tx_wire *w, tx_message *out)
{
    *out = (tx_message){ 0 };
    for (;;) {
        drop_taken(w);
        const uint8_t *in = (const uint8_t *)w->in.data;
        if (w->in.len < HEAD) return TX_OK;
        uint64_t length = get_be(in, 4);
        if (length < 1 || length > (w->open ? TX_WIRE_MAX : FIRST_MAX)) return not_ours();
        if (w->in.len < 4 + length) return TX_OK;
        w->taken = 4 + (size_t)length;
        if (w->open) return take_message(w, in[4], in + HEAD, (size_t)length - 1, out);
        TX_TRY(on_first(w, in[4], in + HEAD, (size_t)length - 1));
    }
}

/* ---- payloads ---- */

tx_status tx__pack_number(tx_str *s, int64_t v)
{
    uint8_t bytes[8];
    put_be(bytes, (uint64_t)v, 8);
    return tx_str_append(s, bytes, sizeof bytes);
}

tx_status tx__pack_text(tx_str *s, const char *text)
{
    size_t n = strlen(text);
    TX_TRY(tx__pack_number(s, (int64_t)n));
    return tx_str_append(s, text, n);
}

tx_status tx__pack_words(tx_str *s, char *const *words, int n)
{
    TX_TRY(tx__pack_number(s, n));
    for (int i = 0; i < n; i++) TX_TRY(tx__pack_text(s, words[i]));
    return TX_OK;
}

tx_status tx__unpack_number(tx_unpack *u, int64_t lo, int64_t hi, int64_t *out)
{
    if (u->end - u->at < 8) return not_ours();
    int64_t v = (int64_t)get_be(u->at, 8);
    if (v < lo || v > hi) return not_ours();
    u->at += 8;
    *out = v;
    return TX_OK;
}

tx_status tx__unpack_text(tx_unpack *u, char *buf, size_t cap)
{
    int64_t n;
    TX_TRY(tx__unpack_number(u, 0, (int64_t)cap - 1, &n));
    if (n > u->end - u->at || memchr(u->at, 0, (size_t)n)) return not_ours();
    memcpy(buf, u->at, (size_t)n);
    buf[n] = 0;
    u->at += n;
    return TX_OK;
}

tx_status tx__unpack_words(tx_unpack *u, tx_words *out, int max)
{
    int64_t n, length;
    TX_TRY(tx__unpack_number(u, 0, max, &n));
    for (int64_t i = 0; i < n; i++) {
        TX_TRY(tx__unpack_number(u, 0, TX_WIRE_MAX, &length));
        if (length > u->end - u->at || memchr(u->at, 0, (size_t)length)) return not_ours();
        TX_TRY(tx__words_add_n(out, (const char *)u->at, (size_t)length));
        u->at += length;
    }
    return TX_OK;
}

tx_status tx__unpack_end(const tx_unpack *u)
{
    return u->at == u->end ? TX_OK : not_ours();
}
