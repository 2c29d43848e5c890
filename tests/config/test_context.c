/* labels: unit */
/* Ranks that divide the positions of samples: what follows from their number, and every rule about them. */
#include "support.h"

#include "config/option_table.h"

#define GOOD                                                                                                       \
    "--num-layers 12 --hidden-size 96 --num-attention-heads 12 --max-position-embeddings 64 --micro-batch-size 2 " \
    "--seq-length 64 --lr 1e-3 --data-path d --vocab-file v --merge-file m --train-iters 10 "
#define A2A(n)    "--context-parallel-size " #n " --cp-comm-type a2a "
#define CHUNKS(n) "--ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-chunk-size " #n " "
#define TP(n)     "--tensor-model-parallel-size " #n " "

static void sizes_follow(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int64_t world, context, data, sharers;
    } cases[] = { { GOOD, 1, 1, 1, 1 },
                  { GOOD A2A(4), 4, 4, 1, 4 },
                  { GOOD A2A(2) TP(2) "--world-size 16", 16, 2, 4, 8 },
                  { GOOD "--ds-sequence-parallel-size 4 --world-size 8", 8, 4, 2, 8 },
                  { GOOD "--ds-sequence-parallel-size 1", 1, 1, 1, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *c = NULL;
        ASSERT_OK(tx_config_parse_string(&c, "plan", cases[i].flags));
        assert_int_equal(c->world_size, cases[i].world);
        assert_int_equal(c->context_parallel_size, cases[i].context);
        assert_int_equal(tx_config_data_parallel(c), cases[i].data);
        assert_int_equal(tx_config_sharers(c), cases[i].sharers);
        assert_int_equal(c->global_batch_size, 2 * cases[i].data);
        assert_false(tx_config_zigzag(c));
        tx_config_free(c);
    }
}

static const struct {
    const char *flags, *text;
} cases[] = {
    { GOOD A2A(2) "--ds-sequence-parallel-size 2", "--ds-sequence-parallel-size 2 and --context-parallel-size 2 both "
                                                   "say how many ranks divide a sample's positions: "
                                                   "give one of the two" },
    { GOOD "--ds-sequence-parallel-size 2 --cp-comm-type p2p",
      "--ds-sequence-parallel-size is --cp-comm-type a2a, but p2p is given: leave it out, or give "
      "--context-parallel-size" },
    { GOOD A2A(2) "--seq-length 63",
      "--seq-length 63 is not divisible by --context-parallel-size 2; try --seq-length 62 or 64" },
    { GOOD A2A(4) TP(4),
      "--context-parallel-size 4: with --cp-comm-type a2a each rank has all positions of some heads, and a "
      "tensor-parallel rank has 3 of --num-attention-heads: give at most as many ranks" },
    { GOOD A2A(2) TP(2) "--sequence-parallel --seq-length 62",
      "--sequence-parallel: --seq-length 62 is not divisible by --tensor-model-parallel-size 2 times "
      "--context-parallel-size 2; try --seq-length 60 or 64, or without --sequence-parallel, or "
      "--tensor-model-parallel-size 1" },
    { GOOD A2A(2) "--world-size 3",
      "world size (3) is not divisible by --tensor-model-parallel-size 1 times --pipeline-model-parallel-size 1 times "
      "--context-parallel-size 2; try --world-size 2 or 4" },
    { GOOD A2A(4) "--curriculum-schedule fixed_linear --curriculum-min-difficulty 8 --curriculum-max-difficulty 64 "
                  "--curriculum-total-step 8 --curriculum-difficulty-step 2",
      "--context-parallel-size 4: --curriculum-schedule has 14 tokens from iteration 1 on, which are not divisible by "
      "4: give other lengths, such as --curriculum-difficulty-step 4, or leave one of them out" },
    { GOOD "--context-parallel-size 2 --cp-comm-type ring",
      "--cp-comm-type ring is unknown; allowed: p2p, a2a, allgather or a2a+p2p" },
    { GOOD "--context-parallel-size 4 --cp-comm-type a2a+p2p",
      "--cp-comm-type a2a+p2p: --hierarchical-context-parallel-sizes are two numbers of at least 2, of ranks that "
      "exchange heads and of rows in the ring, whose product is --context-parallel-size 4" },
    { GOOD "--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 3",
      "whose product is --context-parallel-size 4" },
    { GOOD "--context-parallel-size 10 --seq-length 60 --cp-comm-type a2a+p2p "
           "--hierarchical-context-parallel-sizes 5 2",
      "--hierarchical-context-parallel-sizes 5 2: the first does not divide a tensor-parallel rank's 12 of "
      "--num-attention-heads and 12 key and value heads" },
    { GOOD A2A(2) "--hierarchical-context-parallel-sizes 2 2",
      "--hierarchical-context-parallel-sizes: it belongs to --context-parallel-size with --cp-comm-type a2a+p2p" },
    { GOOD CHUNKS(16) "--context-parallel-size 2",
      "--ds-sequence-parallel-fpdt: ranks exchange heads of a chunk, or gather its keys, and --cp-comm-type is p2p: "
      "give "
      "a2a or allgather, or --ds-sequence-parallel-size 2 in the place of --context-parallel-size" },
    { GOOD CHUNKS(15) A2A(2),
      "--ds-sequence-parallel-fpdt-chunk-size 15 is not divisible by --context-parallel-size 2" },
    { GOOD CHUNKS(24) "--ds-sequence-parallel-size 4",
      "--ds-sequence-parallel-fpdt-chunk-size 24 does not divide a sample's 64 positions, and "
      "--ds-sequence-parallel-size divides whole chunks: give a size that does" },
    { GOOD CHUNKS(16) A2A(2) "--curriculum-schedule fixed_linear --curriculum-min-difficulty 8 "
                             "--curriculum-max-difficulty 64 --curriculum-total-step 8 --curriculum-difficulty-step 8",
      "--ds-sequence-parallel-fpdt-chunk-size 16 does not divide a sample's 24 positions" },
    { GOOD "--context-parallel-size 2 --random-ltd --random-ltd-min-value 6 --random-ltd-max-value 32 "
           "--random-ltd-require-steps 4 --random-ltd-seq-per-step 2",
      "--context-parallel-size 2: --random-ltd leaves 6 tokens from iteration 1 on, which are not divisible by 4: give "
      "other numbers, such as --random-ltd-seq-per-step 4, or leave one of them out" },
    { GOOD "--context-parallel-size 16 --seq-length 64 --eval-tasks LAMBADA=none",
      "--context-parallel-size 16: each rank answers --eval-tasks with some of the heads, and a tensor-parallel rank "
      "has "
      "12 of --num-attention-heads: give at most as many ranks, or leave --eval-tasks out" },
};

static void each_rule_has_its_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *c = NULL;
        ASSERT_FAILS(tx_config_parse_string(&c, "plan", cases[i].flags), TX_ERR_ARG, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow),
        cmocka_unit_test(each_rule_has_its_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
