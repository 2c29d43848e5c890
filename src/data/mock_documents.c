/* mock_documents.c - NumPy's default generator, as far as lengths take it, and ids that count. */
#include "data/mock_documents.h"

__extension__ typedef unsigned __int128 wide;

/* PCG64: a 128-bit congruential generator whose halves are folded and rotated (O'Neill, HMC-CS-2014-0905), XSL-RR. */
typedef struct pcg64 {
    wide state, step;
    uint32_t rest; /* the upper half of a number whose lower one was taken */
    int has_rest;
} pcg64;

static wide joined(uint64_t high, uint64_t low)
{
    return (wide)high << 64 | low;
}

/* default_rng(0), of which SeedSequence made this. */
static pcg64 seeded_by_0(void)
{
    return (pcg64){ .state = joined(0x1aa1b5345996452dULL, 0x09585eb7a69561e3ULL),
                    .step = joined(0x418ddadb3af71a82ULL, 0x588133bc447873a9ULL) };
}

static uint64_t next_u64(pcg64 *r)
{
    r->state = r->state * joined(0x2360ed051fc65da4ULL, 0x4385df649fccf645ULL) + r->step;
    uint64_t x = (uint64_t)(r->state >> 64) ^ (uint64_t)r->state;
    int by = (int)(r->state >> 122);
    return x >> by | x << (-by & 63);
}

static uint32_t next_u32(pcg64 *r)
{
    if ((r->has_rest = !r->has_rest) == 0) return r->rest;
    uint64_t x = next_u64(r);
    r->rest = (uint32_t)(x >> 32);
    return (uint32_t)x;
}

/* Uniform in 0..n-1: Lemire, arXiv:1805.10941. */
static uint32_t below(pcg64 *r, uint32_t n)
{
    uint64_t m = (uint64_t)next_u32(r) * n;
    if ((uint32_t)m < n)
        for (uint32_t least = -n % n; (uint32_t)m < least;) m = (uint64_t)next_u32(r) * n;
    return (uint32_t)(m >> 32);
}

void tx_mock_lengths(int32_t *length, int64_t n)
{
    pcg64 r = seeded_by_0();
    for (int64_t i = 0; i < n; i++) length[i] = 1 + (int32_t)below(&r, TX_MOCK_LONGEST);
}

void tx_mock_ids(int32_t *ids, int64_t length, int64_t offset, int64_t n, int64_t vocab_size, int32_t eod)
{
    for (int64_t i = 0; i < n; i++) ids[i] = offset + i == length - 1 ? eod : (int32_t)((offset + i + 1) % vocab_size);
}
