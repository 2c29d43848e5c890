/* fuzz_sentences.c - any bytes as a text. Sentences are in order and leave nothing out but white space. */
#include "base/utf8.h"
#include "data/sentences.h"
#include "fuzz.h"

static void check_space(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        i += tx__utf8_next((const unsigned char *)p + i, n - i, &c);
        FUZZ_CHECK(c != TX__NO_CHAR && (c <= ' ' || c == 0x85 || c == 0xA0 || c >= 0x1680));
        FUZZ_CHECK(c < 0x1680 || c == 0x1680 || (c >= 0x2000 && c <= 0x205F) || c == 0x3000);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    for (int keep = 0; keep < 2; keep++) {
        size_t at = 0, end, next;
        while (tx__sentence_next(text + at, size - at, keep, &end, &next)) {
            FUZZ_CHECK(end > 0 && end <= next && next <= size - at);
            if (keep && next < size - at) FUZZ_CHECK(end == next); /* nothing is left out */
            check_space(text + at + end, next - end);
            at += next;
        }
        check_space(text + at, size - at);
    }
    return 0;
}
