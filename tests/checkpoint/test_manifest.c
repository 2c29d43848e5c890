/* labels: unit */
/* test_manifest.c - a manifest of as many tensors as a large client's model has. */
#include "support.h"

#include <inttypes.h>
#include <xxhash.h>

#include "checkpoint/manifest.h"

enum { N = 20000 };

/* Tensors of 2 x 3, each in two pieces. */
static tx_str many(void)
{
    tx__blocks *b;
    tx_str text = { 0 };
    json_t *config = json_object(), *m = tx__manifest_begin(&(tx_ckpt_state){ .seed = 1 }, config);
    ASSERT_OK(tx__blocks_create(&b));
    tx__blocks_update(b, "x", 1);
    ASSERT_OK(tx__manifest_add_shard(m, "a.safetensors", b));
    for (int i = 0; i < 2 * N; i++) {
        char name[32], key[48];
        tx__saved s = { .name = name, .n_dims = 2, .dim = { 2, 3 } };
        tx__saved_piece p = { .key = key, .start = { i / N, 0 }, .size = { 1, 3 } };
        snprintf(name, sizeof name, "model.layer_%d.w", i % N);
        snprintf(key, sizeof key, "%s.%d", name, i / N);
        ASSERT_OK(tx__manifest_add_piece(m, &s, &p, "a.safetensors"));
    }
    ASSERT_OK(tx__manifest_text(m, &text));
    tx__blocks_destroy(b);
    json_decref(m);
    json_decref(config);
    return text;
}

/* With the hash that fits. */
static const char *write_manifest(tx_str *text)
{
    size_t tail = strlen(",\"hash\":\"0123456789abcdef0123456789abcdef\"}\n");
    text->len -= tail;
    text->data[text->len] = '}';
    XXH128_hash_t h = XXH3_128bits(text->data, text->len + 1);
    ASSERT_OK(
        tx_str_printf(text, ",\"hash\":\"%016" PRIx64 "%016" PRIx64 "\"}\n", (uint64_t)h.high64, (uint64_t)h.low64));
    return write_file(in_scratch("manifest.json"), text->data, text->len);
}

static void every_tensor_is_found(void **state)
{
    (void)state;
    tx__manifest m;
    tx_str text = many();
    ASSERT_OK(tx__manifest_read(&m, write_manifest(&text)));
    assert_int_equal(m.n_saved, N);
    for (int i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "model.layer_%d.w", i);
        const tx__saved *s = tx__manifest_find(&m, name);
        assert_non_null(s);
        assert_string_equal(s->name, name);
        assert_int_equal(s->n_pieces, 2);
        snprintf(name, sizeof name, "model.layer_%d.v", i);
        assert_null(tx__manifest_find(&m, name));
    }
    tx__manifest_deinit(&m);
    tx_str_free(&text);
}

static void a_name_that_comes_twice_is_refused(void **state)
{
    (void)state;
    tx__manifest m;
    tx_str text = many();
    char *last = strstr(text.data, "\"model.layer_19999.w\":");
    assert_non_null(last);
    memcpy(strstr(last, "19999"), "10000", 5);
    ASSERT_FAILS(tx__manifest_read(&m, write_manifest(&text)), TX_ERR_FORMAT, "model.layer_10000.w\" is given twice");
    tx_str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_is_found),
        cmocka_unit_test(a_name_that_comes_twice_is_refused),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
