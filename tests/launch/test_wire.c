/* labels: unit */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/wire.h"
#include "support.h"

/* ---- HMAC-SHA256: RFC 4231, test cases 1 and 2, through the same library call ---- */

#include <nettle/hmac.h>

static void hmac_vectors(void **state)
{
    (void)state;
    static const struct {
        uint8_t key[20];
        size_t n_key;
        const char *text, *tag;
    } cases[] = {
        { { 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11 },
          20,
          "Hi There",
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { { 'J', 'e', 'f', 'e' },
          4,
          "what do ya want for nothing?",
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hmac_sha256_ctx c;
        uint8_t tag[TX_TAG_BYTES];
        char text[2 * TX_TAG_BYTES + 1];
        hmac_sha256_set_key(&c, cases[i].n_key, cases[i].key);
        hmac_sha256_update(&c, strlen(cases[i].text), (const uint8_t *)cases[i].text);
        hmac_sha256_digest(&c, sizeof tag, tag);
        for (int k = 0; k < TX_TAG_BYTES; k++) sprintf(text + 2 * k, "%02x", tag[k]);
        assert_string_equal(text, cases[i].tag);
    }
}

/* A tag is HMAC over the word with its NUL and both stretches; what is cut elsewhere has another one only by the word.
 */
static void tags(void **state)
{
    (void)state;
    tx_key key = { { 1, 2, 3 } };
    uint8_t a[TX_TAG_BYTES], b[TX_TAG_BYTES];
    tx__key_tag(a, &key, "x", (tx_tagged){ "yz", 2 }, (tx_tagged){ NULL, 0 });
    tx__key_tag(b, &key, "x", (tx_tagged){ "y", 1 }, (tx_tagged){ "z", 1 });
    assert_true(tx__tag_equal(a, b));
    tx__key_tag(b, &key, "xy", (tx_tagged){ "z", 1 }, (tx_tagged){ NULL, 0 });
    assert_false(tx__tag_equal(a, b));
    key.byte[31] = 1;
    tx__key_tag(b, &key, "x", (tx_tagged){ "yz", 2 }, (tx_tagged){ NULL, 0 });
    assert_false(tx__tag_equal(a, b));
}

/* ---- two wires, bytes carried by hand ---- */

static const tx_key key = { { 7, 7, 7 } }, other = { { 7, 7, 8 } };

/* What one has to say goes to the other; then that looks for a message. */
static tx_status carry(tx_wire *from, tx_wire *to, tx_message *msg)
{
    assert_int_equal(tx__wire_feed(to, from->out.data, from->out.len), TX_OK);
    tx__wire_sent(from, from->out.len);
    return tx__wire_next(to, msg);
}

static void meet(tx_wire *client, tx_wire *server)
{
    tx_message msg;
    assert_int_equal(tx__wire_init(client, TX_WIRE_CLIENT, &key), TX_OK);
    assert_int_equal(tx__wire_init(server, TX_WIRE_SERVER, &key), TX_OK);
    assert_int_equal(carry(client, server, &msg), TX_OK);
    assert_int_equal(carry(server, client, &msg), TX_OK);
    assert_true(client->open && !server->open);
    assert_int_equal(carry(client, server, &msg), TX_OK);
    assert_true(server->open && !msg.type);
}

static void part(tx_wire *client, tx_wire *server)
{
    tx__wire_deinit(client);
    tx__wire_deinit(server);
}

static void conversation(void **state)
{
    (void)state;
    tx_wire c, s;
    tx_message msg;
    meet(&c, &s);
    assert_int_equal(tx__wire_put(&c, 5, "hello", 5), TX_OK);
    assert_int_equal(tx__wire_put(&c, 6, "", 0), TX_OK);
    /* a byte at a time: nothing until the frame is whole */
    size_t n = c.out.len;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(tx__wire_feed(&s, c.out.data + i, 1), TX_OK);
        assert_int_equal(tx__wire_next(&s, &msg), TX_OK);
        if (msg.type == 5) assert_true(msg.n == 5 && !memcmp(msg.bytes, "hello", 5));
        assert_int_equal(msg.type != 0, i == n - 1 || i == 4 + 1 + 5 + 32 - 1);
    }
    assert_int_equal(msg.type, 6);
    tx__wire_sent(&c, n);
    assert_int_equal(tx__wire_put(&s, 7, "x", 1), TX_OK);
    assert_int_equal(carry(&s, &c, &msg), TX_OK);
    assert_int_equal(msg.type, 7);
    char *large = calloc(1, TX_WIRE_MAX);
    assert_int_equal(tx__wire_put(&s, 7, large, TX_WIRE_MAX), TX_ERR_ARG);
    free(large);
    part(&c, &s);
}

static void another_key(void **state)
{
    (void)state;
    tx_wire c, s;
    tx_message msg;
    assert_int_equal(tx__wire_init(&c, TX_WIRE_CLIENT, &key), TX_OK);
    assert_int_equal(tx__wire_init(&s, TX_WIRE_SERVER, &other), TX_OK);
    assert_int_equal(carry(&c, &s, &msg), TX_OK);
    assert_int_equal(carry(&s, &c, &msg), TX_ERR_STATE); /* the client finds out first, and shows nothing */
    assert_int_equal(c.out.len, 0);
    part(&c, &s);
}

/* Changed, repeated, left out, sent back: each is an error. */
static void tampering(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        tx_wire c, s;
        tx_message msg;
        meet(&c, &s);
        assert_int_equal(tx__wire_put(&c, 5, "one", 3), TX_OK);
        size_t n = c.out.len;
        assert_int_equal(tx__wire_put(&c, 5, "two", 3), TX_OK);
        if (kind == 0) {
            c.out.data[6] ^= 1;
            assert_int_equal(carry(&c, &s, &msg), TX_ERR_FORMAT);
        } else if (kind == 1) {
            assert_int_equal(tx__wire_feed(&s, c.out.data, n), TX_OK);
            assert_int_equal(tx__wire_feed(&s, c.out.data, n), TX_OK);
            assert_int_equal(tx__wire_next(&s, &msg), TX_OK);
            assert_int_equal(tx__wire_next(&s, &msg), TX_ERR_FORMAT);
        } else if (kind == 2) {
            assert_int_equal(tx__wire_feed(&s, c.out.data + n, n), TX_OK);
            assert_int_equal(tx__wire_next(&s, &msg), TX_ERR_FORMAT);
        } else {
            assert_int_equal(tx__wire_feed(&c, c.out.data, n), TX_OK);
            assert_int_equal(tx__wire_next(&c, &msg), TX_ERR_FORMAT);
        }
        part(&c, &s);
    }
}

/* A recorded client is of no use against a server with a new number, and bytes of anything else are no client. */
static void replay_and_noise(void **state)
{
    (void)state;
    static const char *const noise[] = { "GET / HTTP/1.1\r\n\r\n", "\0\0\0\0\0\0\0\0", "\377\377\377\377aaaa",
                                         "\0\0\0\2\5a" };
    tx_wire c, s, again;
    tx_message msg;
    tx_str first = { 0 }, last = { 0 };
    assert_int_equal(tx__wire_init(&c, TX_WIRE_CLIENT, &key), TX_OK);
    assert_int_equal(tx__wire_init(&s, TX_WIRE_SERVER, &key), TX_OK);
    assert_int_equal(tx_str_append(&first, c.out.data, c.out.len), TX_OK);
    assert_int_equal(carry(&c, &s, &msg), TX_OK);
    assert_int_equal(carry(&s, &c, &msg), TX_OK);
    assert_int_equal(tx_str_append(&last, c.out.data, c.out.len), TX_OK);
    assert_int_equal(tx__wire_init(&again, TX_WIRE_SERVER, &key), TX_OK);
    assert_int_equal(tx__wire_feed(&again, first.data, first.len), TX_OK);
    assert_int_equal(tx__wire_feed(&again, last.data, last.len), TX_OK);
    assert_int_equal(tx__wire_next(&again, &msg), TX_ERR_STATE);
    assert_false(again.open);
    tx__wire_deinit(&again);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tx__wire_init(&again, TX_WIRE_SERVER, &key), TX_OK);
        assert_int_equal(tx__wire_feed(&again, noise[i], i == 1 ? 8 : i == 3 ? 6 : strlen(noise[i])), TX_OK);
        assert_int_equal(tx__wire_next(&again, &msg), TX_ERR_FORMAT);
        tx__wire_deinit(&again);
    }
    tx_str_free(&first);
    tx_str_free(&last);
    part(&c, &s);
}

static void payloads(void **state)
{
    (void)state;
    char *words[] = { "a", "", "b c" }, text[4];
    tx_str s = { 0 };
    tx_words w = { 0 };
    int64_t v;
    assert_int_equal(tx__pack_number(&s, -3), TX_OK);
    assert_int_equal(tx__pack_text(&s, "xyz"), TX_OK);
    assert_int_equal(tx__pack_words(&s, words, 3), TX_OK);
    tx_unpack u = { (uint8_t *)s.data, (uint8_t *)s.data + s.len }, start = u;
    assert_int_equal(tx__unpack_number(&u, 0, 9, &v), TX_ERR_FORMAT);
    assert_int_equal(tx__unpack_number(&u, -9, 9, &v), TX_OK);
    assert_int_equal(v, -3);
    assert_int_equal(tx__unpack_text(&u, text, 3), TX_ERR_FORMAT); /* no room for the NUL */
    u = (tx_unpack){ start.at + 8, start.end };
    assert_int_equal(tx__unpack_text(&u, text, sizeof text), TX_OK);
    assert_string_equal(text, "xyz");
    assert_int_equal(tx__unpack_end(&u), TX_ERR_FORMAT);
    assert_int_equal(tx__unpack_words(&u, &w, 3), TX_OK);
    assert_int_equal(w.n, 3);
    assert_string_equal(w.word[2], "b c");
    assert_int_equal(tx__unpack_end(&u), TX_OK);
    assert_int_equal(tx__unpack_number(&u, 0, 1, &v), TX_ERR_FORMAT);
    tx__words_free(&w);
    tx_str_free(&s);
}

/* ---- the key file ---- */

static void write_key(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static void key_files(void **state)
{
    (void)state;
    static const char good[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    char dir[] = "/tmp/triax-test-XXXXXX", path[4096], found[4096];
    tx_key a, b;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/key", dir);
    setenv("TRIAX_LAUNCH_KEY_FILE", path, 1);
    assert_int_equal(tx__key_open(&a, found, sizeof found), TX_OK); /* made */
    assert_string_equal(found, path);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(tx__key_open(&b, found, sizeof found), TX_OK); /* read */
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(tx__key_read(&b, path, "17"), TX_OK); /* another job, another key */
    assert_memory_not_equal(&a, &b, sizeof a);
    write_key(path, good, 0640);
    assert_int_equal(tx__key_read(&a, path, NULL), TX_ERR_IO);
    assert_non_null(strstr(tx_last_error(), "can be read by others"));
    static const char *const bad[] = { "", "0011", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefg",
                                       "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00" };
    for (int i = 0; i < 4; i++) {
        write_key(path, bad[i], 0600);
        assert_int_equal(tx__key_read(&a, path, NULL), TX_ERR_FORMAT);
        assert_non_null(strstr(tx_last_error(), "is no key"));
    }
    unlink(path);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    assert_int_equal(tx__key_read(&a, path, NULL), TX_ERR_IO);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac_vectors), cmocka_unit_test(tags),      cmocka_unit_test(conversation),
        cmocka_unit_test(another_key),  cmocka_unit_test(tampering), cmocka_unit_test(replay_and_noise),
        cmocka_unit_test(payloads),     cmocka_unit_test(key_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
