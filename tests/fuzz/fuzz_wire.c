/* fuzz_wire.c - what comes over a connection between torchruns: a stranger's bytes to a node 0 with a key, and messages
 * whose tags are right; and what mpirun writes to standard error. */
#include "fuzz.h"
#include "launch/mpi_output.h"
#include "launch/orted_words.h"
#include "launch/rendezvous.h"

static void stranger(const uint8_t *data, size_t size, tx_wire_side side)
{
    tx_key key = { { 1 } };
    tx_wire w;
    tx_message msg;
    FUZZ_CHECK(!tx__wire_init(&w, side, &key) && !tx__wire_feed(&w, data, size));
    while (fuzz_ok(tx__wire_next(&w, &msg)) && msg.type) continue;
    FUZZ_CHECK(!w.open); /* nobody guesses a tag */
    tx__wire_deinit(&w);
}

static void take(const tx_message *msg)
{
    tx_unpack u = { msg->bytes, msg->bytes + msg->n };
    tx_words words = { 0 }, clean = { 0 };
    tx_hello h;
    char text[256];
    if (fuzz_ok(tx__hello_unpack(&h, msg->bytes, msg->n))) /* its texts are escaped where they are shown */
        FUZZ_CHECK(tx__is_host_name(h.place.host, strlen(h.place.host)) && h.place.n_ranks >= 1);
    if (fuzz_ok(tx__unpack_text(&u, text, sizeof text)) && fuzz_ok(tx__unpack_words(&u, &words, 4096))) {
        if (fuzz_ok(tx__orted_check(words.word, words.n))) FUZZ_CHECK(!strcmp(words.word[0], "orted"));
        FUZZ_CHECK(!tx__orted_clean(&clean, words.word, words.n) && clean.n <= words.n);
        if (fuzz_ok(tx__orted_check(clean.word, clean.n))) FUZZ_CHECK(!strcmp(clean.word[0], "orted"));
    }
    tx__words_free(&words);
    tx__words_free(&clean);
}

static void plain(const uint8_t *data, size_t size)
{
    tx_wire w;
    tx_message msg;
    FUZZ_CHECK(!tx__wire_init(&w, TX_WIRE_PLAIN, NULL) && !tx__wire_feed(&w, data, size));
    while (fuzz_ok(tx__wire_next(&w, &msg)) && msg.type) {
        FUZZ_CHECK(msg.n < TX_WIRE_MAX);
        take(&msg);
    }
    tx__wire_deinit(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_mpi_output o = { 0 };
    tx_str out = { 0 };
    stranger(data, size, TX_WIRE_SERVER);
    stranger(data, size, TX_WIRE_CLIENT);
    plain(data, size);
    for (size_t at = 0; at < size; at += 13) {
        size_t n = size - at < 13 ? size - at : 13;
        FUZZ_CHECK(!tx__mpi_output_feed(&o, &out, (const char *)data + at, n));
    }
    FUZZ_CHECK(!tx__mpi_output_end(&o, &out) && out.len <= size);
    tx__mpi_output_free(&o);
    tx_str_free(&out);
    return 0;
}
