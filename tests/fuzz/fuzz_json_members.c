/* fuzz_json_members.c - a JSON line. What the quick look takes, Jansson takes too and reads the same way: seen by the
 * same line with one more member, whose name only Jansson reads. */
#include "data/json_members.h"

#include "data/corpus.h"
#include "fuzz.h"

typedef struct texts {
    tx_str all; /* key, item, length and bytes of each */
} texts;

static tx_status see_text(void *user, int key, int64_t item, const char *text, size_t n)
{
    texts *t = user;
    fuzz_check_utf8(text, n);
    FUZZ_CHECK(!tx_str_printf(&t->all, "%d %lld %zu ", key, (long long)item, n));
    FUZZ_CHECK(!tx_str_append(&t->all, text, n));
    return TX_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = { "text", "url" };
    static const char more[] = "{\"\\u0061\":0,";
    for (int n_keys = 1; n_keys <= 2; n_keys++) {
        tx_json_member m[2];
        tx_str slow_line = { 0 };
        texts fast = { 0 }, slow = { 0 };
        char *line = malloc(size + !size); /* a sanitizer sees a byte too far */
        memcpy(line, data, size);
        if (tx__json_members(line, size, keys, n_keys, m)) {
            size_t i = (size_t)((char *)memchr(line, '{', size) - (char *)line) + 1;
            FUZZ_CHECK(!tx_str_puts(&slow_line, more) && !tx_str_append(&slow_line, line + i, size - i));
            FUZZ_CHECK(!tx__json_members(slow_line.data, slow_line.len, keys, n_keys, m));
            tx_record r = { line, size, "line", 1, true, false },
                      s = { slow_line.data, slow_line.len, "line", 1, true, false };
            FUZZ_CHECK(fuzz_ok(tx_record_items(&r, keys, n_keys, see_text, &fast)));
            FUZZ_CHECK(fuzz_ok(tx_record_items(&s, keys, n_keys, see_text, &slow)));
            FUZZ_CHECK(fast.all.len == slow.all.len);
            FUZZ_CHECK(!fast.all.len || !memcmp(fast.all.data, slow.all.data, fast.all.len));
        }
        free(line);
        tx_str_free(&slow_line);
        tx_str_free(&fast.all);
        tx_str_free(&slow.all);
    }
    return 0;
}
