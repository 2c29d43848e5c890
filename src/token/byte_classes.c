/* byte_classes.c - classes of 64 bytes: eight at a time in plain C, 32 with AVX2, all with AVX-512.
 *
 *  A range of bytes is tested as c - first < count, without signs; capitals become small letters by a bit. */
#include "token/byte_classes.h"

#include <stddef.h>
#include <string.h>

#if defined __x86_64__
#include <immintrin.h>
#endif

/* ---- plain C: a byte's answer is the highest bit of that byte ---- */

#define EACH 0x0101010101010101u
#define HIGH (EACH * 0x80)

/* Of bytes below 128: `first` at least, and not above `last`. */
static inline uint64_t in_range(uint64_t x, unsigned first, unsigned last)
{
    return (x + (0x80 - first) * EACH) & ~(x + (0x7F - last) * EACH);
}

/* The eight answers as bits 0 to 7. */
static inline uint64_t gathered(uint64_t answers)
{
    return ((answers & HIGH) >> 7) * 0x0102040810204080u >> 56;
}

static void classify_plain(tx__byte_classes *out, const unsigned char *text)
{
    tx__byte_classes c = { 0 };
    for (int i = 0; i < TX__BLOCK; i += 8) {
        uint64_t x, low;
        memcpy(&x, text + i, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        x = __builtin_bswap64(x);
#endif
        low = x & ~HIGH;
        c.letter |= gathered(in_range(low | 0x20 * EACH, 'a', 'z') & ~x) << i;
        c.number |= gathered(in_range(low, '0', '9') & ~x) << i;
        c.blank |= gathered(in_range(low, ' ', ' ') & ~x) << i;
        c.space |= gathered((in_range(low, '\t', '\r') | in_range(low, ' ', ' ')) & ~x) << i;
        c.newline |= gathered((in_range(low, '\n', '\n') | in_range(low, '\r', '\r')) & ~x) << i;
        c.apostrophe |= gathered(in_range(low, '\'', '\'') & ~x) << i;
        c.wide |= gathered(x) << i;
    }
    *out = c;
}

/* ---- x86 ---- */

#if defined __x86_64__
/* 0xFF for bytes from `first` on, `count` of them. */
__attribute__((target("avx2"))) static inline __m256i in_range_avx2(__m256i x, char first, char count)
{
    __m256i from = _mm256_sub_epi8(x, _mm256_set1_epi8(first));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(from, _mm256_set1_epi8((char)(count - 1))), from);
}

__attribute__((target("avx2"))) static inline uint64_t bits_avx2(__m256i x)
{
    return (uint32_t)_mm256_movemask_epi8(x);
}

__attribute__((target("avx2"))) static void classify_avx2(tx__byte_classes *out, const unsigned char *text)
{
    tx__byte_classes c = { 0 };
    for (int i = 0; i < TX__BLOCK; i += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(text + i));
        __m256i blank = _mm256_cmpeq_epi8(x, _mm256_set1_epi8(' '));
        __m256i newline =
            _mm256_or_si256(_mm256_cmpeq_epi8(x, _mm256_set1_epi8('\n')), _mm256_cmpeq_epi8(x, _mm256_set1_epi8('\r')));
        c.letter |= bits_avx2(in_range_avx2(_mm256_or_si256(x, _mm256_set1_epi8(0x20)), 'a', 26)) << i;
        c.number |= bits_avx2(in_range_avx2(x, '0', 10)) << i;
        c.space |= bits_avx2(_mm256_or_si256(in_range_avx2(x, '\t', 5), blank)) << i;
        c.blank |= bits_avx2(blank) << i;
        c.newline |= bits_avx2(newline) << i;
        c.apostrophe |= bits_avx2(_mm256_cmpeq_epi8(x, _mm256_set1_epi8('\''))) << i;
        c.wide |= bits_avx2(x) << i;
    }
    *out = c;
}

__attribute__((target("avx512bw"))) static inline uint64_t in_range_avx512(__m512i x, char first, char count)
{
    return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(x, _mm512_set1_epi8(first)), _mm512_set1_epi8(count));
}

__attribute__((target("avx512bw"))) static inline uint64_t equal_avx512(__m512i x, char c)
{
    return _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(c));
}

__attribute__((target("avx512bw"))) static void classify_avx512(tx__byte_classes *out, const unsigned char *text)
{
    __m512i x = _mm512_loadu_si512(text);
    uint64_t blank = equal_avx512(x, ' ');
    *out = (tx__byte_classes){ .letter = in_range_avx512(_mm512_or_si512(x, _mm512_set1_epi8(0x20)), 'a', 26),
                               .number = in_range_avx512(x, '0', 10),
                               .space = in_range_avx512(x, '\t', 5) | blank,
                               .blank = blank,
                               .newline = equal_avx512(x, '\n') | equal_avx512(x, '\r'),
                               .apostrophe = equal_avx512(x, '\''),
                               .wide = _mm512_movepi8_mask(x) };
}
#endif

/* ---- choosing ---- */

void tx__classify_all(tx__classify_fn *all[TX__CLASSIFY_MAX])
{
    size_t n = 0;
    all[n++] = classify_plain;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2")) all[n++] = classify_avx2;
    if (__builtin_cpu_supports("avx512bw")) all[n++] = classify_avx512;
#endif
    all[n] = NULL;
}

tx__classify_fn *tx__classify_best(void)
{
    tx__classify_fn *all[TX__CLASSIFY_MAX];
    size_t n = 0;
    tx__classify_all(all);
    while (all[n + 1]) n++;
    return all[n];
}
