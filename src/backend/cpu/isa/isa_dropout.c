/* isa_dropout.c - masks of dropout. Which elements are kept is worked out as bits, 64 elements a word: the random
 * numbers cost several times what it costs to use them, so they are drawn a vector of counters at a time, two such
 * vectors side by side because each is one long chain. */
#include "backend/cpu/isa/vec.h"

typedef uint64_t longs __attribute__((vector_size(TX__VEC * 4), aligned(8), may_alias));
typedef uint16_t shorts __attribute__((vector_size(TX__VEC * 4), may_alias));

/* A counter gives eight 16-bit numbers, that is the mask of eight elements (base/rng.h). */
enum { PER_COUNTER = 8, LANES = TX__VEC / 2, PER_WORD = 64 / PER_COUNTER / LANES, ROUNDS = 10 };

/* The order in which counters lie in a vector, so that kept() finds its bits in order. */
#if defined(__AVX512BW__)
static const uint64_t counter_of_lane[LANES] = { 0, 4, 1, 5, 2, 6, 3, 7 };
#elif defined(__AVX2__)
static const uint64_t counter_of_lane[LANES] = { 0, 1, 2, 3 };
#else
static const uint64_t counter_of_lane[LANES] = { 0, 1 };
#endif

/* The product of the lower halves. */
TX__INLINE longs times(longs x, uint32_t y)
{
#if defined(__AVX512BW__)
    return (longs)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64(y));
#elif defined(__AVX2__)
    return (longs)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(y));
#else
    return (x & 0xffffffffu) * y;
#endif
}

/* tx_rng_u32x4 of a counter per lane; numbers are in the lower halves of lanes, the upper hold what comes. */
typedef struct philox {
    longs c[4];
} philox;

typedef struct keys {
    longs k[ROUNDS][2];
    uint32_t step, stream;
} keys;

static void set_keys(keys *k, const tx_rng *rng)
{
    uint32_t k0 = (uint32_t)rng->seed, k1 = (uint32_t)(rng->seed >> 32);
    for (int i = 0; i < ROUNDS; i++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        k->k[i][0] = (longs){ 0 } + k0;
        k->k[i][1] = (longs){ 0 } + k1;
    }
    k->step = rng->step;
    k->stream = rng->stream;
}

TX__INLINE philox counters(uint64_t first, const keys *k)
{
    longs counter = *(const longs *)counter_of_lane + first;
    return (philox){ { counter, counter >> 32, (longs){ 0 } + k->step, (longs){ 0 } + k->stream } };
}

TX__INLINE philox turn(philox x, const longs k[2])
{
    longs p0 = times(x.c[0], 0xD2511F53u), p1 = times(x.c[2], 0xCD9E8D57u);
    return (philox){ { (p1 >> 32) ^ x.c[1] ^ k[0], p1, (p0 >> 32) ^ x.c[3] ^ k[1], p0 } };
}

/* A bit for each 16-bit number of the counters: is it `threshold` or more? */
TX__INLINE uint64_t kept(philox x, uint32_t threshold)
{
    longs low = (x.c[0] & 0xffffffffu) | (x.c[1] << 32), high = (x.c[2] & 0xffffffffu) | (x.c[3] << 32);
#if defined(__AVX512BW__)
    __m512i limit = _mm512_set1_epi16((short)threshold);
    __m512i first = _mm512_unpacklo_epi64((__m512i)low, (__m512i)high);
    __m512i second = _mm512_unpackhi_epi64((__m512i)low, (__m512i)high);
    return _mm512_cmpge_epu16_mask(first, limit) | (uint64_t)_mm512_cmpge_epu16_mask(second, limit) << 32;
#elif defined(__AVX2__)
    __m256i limit = _mm256_set1_epi16((short)threshold);
    __m256i even = _mm256_unpacklo_epi64((__m256i)low, (__m256i)high);
    __m256i odd = _mm256_unpackhi_epi64((__m256i)low, (__m256i)high);
    even = _mm256_cmpeq_epi16(_mm256_max_epu16(even, limit), even);
    odd = _mm256_cmpeq_epi16(_mm256_max_epu16(odd, limit), odd);
    return (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(even, odd));
#else
    uint64_t bits = 0;
    for (int i = LANES - 1; i >= 0; i--)
        for (int j = 7; j >= 0; j--)
            bits = bits << 1 | ((((j < 4 ? low[i] : high[i]) >> (j % 4 * 16)) & 0xffffu) >= threshold);
    return bits;
#endif
}

/* The words of 64 elements that begin with the counters given; n is even. */
static void draw(uint64_t *word, const uint64_t *counter, int n, const keys *k, uint32_t threshold)
{
    for (int i = 0; i < n; i += 2) {
        word[i] = word[i + 1] = 0;
        for (int part = 0; part < PER_WORD; part++) {
            philox a = counters(counter[i] + (uint64_t)(part * LANES), k);
            philox b = counters(counter[i + 1] + (uint64_t)(part * LANES), k);
#pragma GCC unroll 10
            for (int round = 0; round < ROUNDS; round++) {
                a = turn(a, k->k[round]);
                b = turn(b, k->k[round]);
            }
            word[i] |= kept(a, threshold) << (part * LANES * PER_COUNTER);
            word[i + 1] |= kept(b, threshold) << (part * LANES * PER_COUNTER);
        }
    }
}

/* A run of at most MOST elements takes up to WORDS words, one more than it fills if it begins inside a counter. */
enum { WORDS = 16, MOST = (WORDS - 1) * 64 };

/* Words that n elements from e on are drawn with. */
static inline int words_for(int64_t n, uint64_t e)
{
    return (int)((n + (int64_t)(e % PER_COUNTER) + 63) / 64);
}

/* Drawn words of a run from e on: bit i becomes that of element e + i. */
static inline void align(uint64_t *word, int n, uint64_t e)
{
    int by = (int)(e % PER_COUNTER);
    for (int i = 0; by && i < n; i++) word[i] = word[i] >> by | (i + 1 < n ? word[i + 1] << (64 - by) : 0);
}

/* `scale` where a bit of the lowest TX__VEC is set, else 0. */
TX__INLINE tx__vec mask_of(uint64_t bits, float scale)
{
    static const uint32_t bit[16] = { 1 << 0, 1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                                      1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15 };
    tx__words here = ((tx__words){ 0 } + (uint32_t)bits) & *(const tx__words *)bit;
    return tx__choose((tx__ints)(here != 0), tx__all(scale), tx__all(0));
}

/* Rows of at most MOST elements, as many at a time as WORDS are enough for. */
static void mask_rows(float *z, int64_t ldz, tx__mask_elements of, const keys *k, const tx__drop *drop)
{
    const uint64_t e = of.e, e_row = of.e_row;
    const int64_t rows = of.rows, n = of.n;
    int each = words_for(n, e_row % PER_COUNTER ? PER_COUNTER - 1 : e), at_once = WORDS / each;
    for (int64_t first = 0; first < rows; first += at_once) {
        uint64_t word[WORDS], counter[WORDS] = { 0 };
        int some = (int)(rows - first < at_once ? rows - first : at_once);
        for (int i = 0; i < some; i++)
            for (int j = 0; j < each; j++)
                counter[i * each + j] = (e + (uint64_t)(first + i) * e_row) / PER_COUNTER + (uint64_t)j * 8;
        draw(word, counter, (some * each + 1) / 2 * 2, k, drop->drop);
        for (int i = 0; i < some; i++) {
            float *to = z + (first + i) * ldz;
            align(word + i * each, each, e + (uint64_t)(first + i) * e_row);
            for (int64_t j = 0; j < n; j += TX__VEC)
                tx__store_n(to, TX_F32, j, n - j, mask_of(word[i * each + j / 64] >> (j % 64), drop->scale));
        }
    }
}

void tx__k(dropout_mask)(float *z, int64_t ldz, tx__mask_elements of, const tx__drop *drop)
{
    keys k;
    set_keys(&k, &drop->rng);
    for (int64_t at = 0; at < of.n; at += MOST) {
        const int64_t some = of.n - at < MOST ? of.n - at : MOST;
        mask_rows(z + at, ldz, (tx__mask_elements){ of.e + (uint64_t)at, of.e_row, of.rows, some }, &k, drop);
    }
}

typedef struct add_types {
    tx_dtype y, x, residual;
} add_types;

/* n elements from `at` on; with `word`, elements are kept whose bits are set. */
TX__INLINE void add(const tx__dropout_add *a, add_types t, int64_t at, int64_t n, const uint64_t *word, float scale)
{
    for (int64_t j = 0; j < n; j += TX__VEC) {
        tx__vec v = tx__load_n(a->x, t.x, at + j, n - j);
        if (word) v *= mask_of(word[j / 64] >> (j % 64), scale);
        if (a->residual) v += tx__load_n(a->residual, t.residual, at + j, n - j);
        tx__store_n(a->y, t.y, at + j, n - j, v);
    }
}

/* Types are constants where all are one. */
static void add_any(const tx__dropout_add *a, int64_t at, int64_t n, const uint64_t *word, float scale)
{
    bool same = a->y_type == a->x_type && (!a->residual || a->residual_type == a->y_type);
    if (same && a->y_type == TX_F32)
        add(a, (add_types){ TX_F32, TX_F32, TX_F32 }, at, n, word, scale);
    else if (same && a->y_type == TX_BF16)
        add(a, (add_types){ TX_BF16, TX_BF16, TX_BF16 }, at, n, word, scale);
    else
        add(a, (add_types){ a->y_type, a->x_type, a->residual_type }, at, n, word, scale);
}

void tx__k(dropout_add)(const tx__dropout_add *a, int64_t n, uint64_t e, const tx__drop *drop)
{
    if (!drop) {
        add_any(a, 0, n, NULL, 1.0f);
        return;
    }
    keys k;
    set_keys(&k, &drop->rng);
    for (int64_t at = 0; at < n; at += MOST) {
        int64_t some = n - at < MOST ? n - at : MOST;
        uint64_t word[WORDS], counter[WORDS], begin = e + (uint64_t)at;
        int words = words_for(some, begin);
        for (int i = 0; i < WORDS; i++) counter[i] = begin / PER_COUNTER + (uint64_t)i * 8;
        draw(word, counter, (words + 1) / 2 * 2, &k, drop->drop);
        align(word, words, begin);
        add_any(a, at, some, word, drop->scale);
    }
}
