/* labels: parallel threads. Chunks of positions that ranks divide: runs have the same bits wherever they keep what they
 * keep, and take the memory that they should. That they equal one rank's is test_layouts' to say. */
#include "support.h"

#include "rank_memory.h"

enum { N = 3, LAYERS = 4 };

#define A2A(n)    " --context-parallel-size " #n " --cp-comm-type a2a"
#define GATHER(n) " --context-parallel-size " #n " --cp-comm-type allgather"
#define CHUNKS(n) " --ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-chunk-size " #n
#define OFFLOAD   " --ds-sequence-parallel-fpdt-offloading"
#define AGAIN     " --checkpoint-activations"

/* ---- the same bits ---- */

static const struct chunks_case {
    int tp, n_ranks;
    const char *flags;
} cases[] = {
    { 1, 2, A2A(2) CHUNKS(8) },
    { 1, 4, A2A(4) CHUNKS(4) " --bf16" },
    { 2, 4, A2A(2) CHUNKS(4) " --use-rotary-position-embeddings --num-key-value-heads 2 --window-size 5" },
    { 1, 3, A2A(3) CHUNKS(6) " --seq-length 12 --global-batch-size 12 --num-key-value-heads 2" },
    { 1, 2, GATHER(2) CHUNKS(8) " --bf16" },
    { 1, 4, GATHER(4) CHUNKS(8) " --use-rotary-position-embeddings --num-key-value-heads 1" },
};

static void run_case(layout_run *r, const struct chunks_case *c, const char *more)
{
    char flags[2048];
    snprintf(flags, sizeof flags, "%s%s --num-layers %d%s", SIZES, c->flags, LAYERS, more);
    *r = (layout_run){ .vocab = 512, .n_ranks = c->n_ranks, .tp = c->tp, .pp = 1, .until = N };
    if (run_layout(r, flags)) fail_msg("%s: %s", flags, tx_last_error());
}

static void where_it_is_kept_changes_no_bit(void **state)
{
    (void)state;
    char in_file[512];
    snprintf(in_file, sizeof in_file, OFFLOAD " --ds-sequence-parallel-fpdt-nvme-path %s" AGAIN " --checkpoint-in-cpu",
             scratch_dir);
    const char *const kept[] = { OFFLOAD, AGAIN, OFFLOAD AGAIN " --checkpoint-in-cpu", in_file };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static layout_run stay, move;
        run_case(&stay, &cases[i], "");
        assert_true(isfinite(stay.rank[0].loss[N - 1]));
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
            run_case(&move, &cases[i], kept[k]);
            for (int rank = 0; rank < stay.n_ranks; rank++)
                if (memcmp(&stay.rank[rank], &move.rank[rank], sizeof stay.rank[rank]) != 0)
                    fail_msg("%s,%s: rank %d has other bits (loss %.17g and %.17g)", cases[i].flags, kept[k], rank,
                             stay.rank[rank].loss[N - 1], move.rank[rank].loss[N - 1]);
        }
    }
}

/* ---- memory ---- */

/* Of g groups, of n heads, of d numbers of 4 bytes, in samples of 16 positions, 2 at a time: what a layer keeps in the
 * host's memory, and for its backward the gradients of keys and values. */
static void what_is_kept_is_as_by_formula(void **state)
{
    (void)state;
    const size_t s_b = 16 * 2, g = 4, n = 4, d = 8, h = 32;
    if (UNDER_TSAN) skip();
    for (size_t c = 2; c <= 4; c *= 2) {
        char flags[512];
        size_t each = s_b * ((2 * g + n) * d * 4 + 4 * n) / c, gradients = s_b * 8 * g * d / c, x = s_b * h * 4 / c;
        snprintf(flags, sizeof flags, " --context-parallel-size %zu --cp-comm-type a2a" CHUNKS(8) OFFLOAD, c);
        assert_int_equal(memory_of(flags, LAYERS, 1, 1, true).host_activations, LAYERS * (each + x) + gradients);
        snprintf(flags, sizeof flags, " --context-parallel-size %zu --cp-comm-type a2a" CHUNKS(4) OFFLOAD AGAIN, c);
        assert_int_equal(memory_of(flags, LAYERS, 1, 1, true).host_activations, each + gradients);
        /* gathered keys and values, and their gradients, are all of a sample's */
        each = s_b * (2 * g * d * 4 + (n * d * 4 + 4 * n) / c);
        snprintf(flags, sizeof flags, " --context-parallel-size %zu --cp-comm-type allgather" CHUNKS(8) OFFLOAD, c);
        assert_int_equal(memory_of(flags, LAYERS, 1, 1, true).host_activations, LAYERS * (each + x) + s_b * 8 * g * d);
    }
}

/* Other ways to keep it: planned, taken and used are one. */
static void all_that_is_planned_is_used(void **state)
{
    (void)state;
    static const char *const flags[] = { A2A(2) CHUNKS(8), A2A(2) CHUNKS(4) AGAIN " --checkpoint-in-cpu --bf16",
                                         GATHER(2) CHUNKS(4) AGAIN, GATHER(4) CHUNKS(16) " --recompute-activations" };
    if (UNDER_TSAN) skip();
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        for (int pp = 1; pp <= 2; pp++) memory_of(flags[i], LAYERS, 1, pp, true);
}

int main(void)
{
    setenv("TX_AIO_IN_MEMORY", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_it_is_kept_changes_no_bit),
        cmocka_unit_test(what_is_kept_is_as_by_formula),
        cmocka_unit_test(all_that_is_planned_is_used),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
