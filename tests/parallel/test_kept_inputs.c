/* labels: parallel threads. Inputs of layers that are computed again, divided over tensor ranks or in the host's
 * memory: runs have the bits of those that leave them on the activation stack, and take the memory that they should.
 * Likewise the slots of a pipeline, which share the room of layers that are computed again. */
#include "support.h"

#include "layout_run.h"
#include "rank_memory.h"

enum { N = 4 }; /* iterations */

#define UNIFORM(n) " --recompute-granularity full --recompute-method uniform --recompute-num-layers " #n
#define BLOCK(n)   " --recompute-granularity full --recompute-method block --recompute-num-layers " #n
#define LAYERS(n)  " --num-layers " #n
#define BF16       " --bf16 --fp32-residual-connection"

/* ---- the same bits ---- */

static const struct kept_case {
    int tp, pp, n_ranks;
    const char *flags;
} cases[] = {
    { 2, 1, 2, LAYERS(4) UNIFORM(1) },
    { 2, 1, 4, LAYERS(5) UNIFORM(2) },
    { 4, 1, 4, LAYERS(5) UNIFORM(3) " --hidden-dropout 0 --attention-dropout 0" },
    { 4, 1, 4, LAYERS(5) BLOCK(2) },
    { 2, 1, 2, LAYERS(4) BLOCK(3) " --embed-layernorm" },
    { 2, 1, 2, LAYERS(4) UNIFORM(1) " --embed-layernorm" BF16 },
    { 2, 1, 2, LAYERS(3) UNIFORM(1) " --embed-layernorm --bf16" },
    { 2, 2, 4, LAYERS(5) UNIFORM(2) },                                              /* 1F1B, of 3 and 2 layers */
    { 2, 2, 4, LAYERS(8) UNIFORM(1) " --num-layers-per-virtual-pipeline-stage 2" }, /* interleaved */
    { 2, 2, 4, LAYERS(8) BLOCK(1) " --num-layers-per-virtual-pipeline-stage 2" BF16 },
    { 2, 4, 8, LAYERS(7) UNIFORM(2) " --pipeline-schedule gpipe" },
    { 4, 2, 8, LAYERS(6) UNIFORM(2) " --pipeline-schedule gpipe --fp16 --initial-loss-scale 256" },
    { 2, 2, 8, LAYERS(4) UNIFORM(1) BF16 " --swiglu --normalization rmsnorm --use-rotary-position-embeddings" },
    { 2, 1, 2, LAYERS(4) UNIFORM(1) " --sequence-parallel" },
    { 1, 2, 2, LAYERS(4) UNIFORM(1) },
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void run_case(layout_run *r, const struct kept_case *c, const char *more)
{
    char flags[2048];
    snprintf(flags, sizeof flags, "%s%s %s", SIZES, c->flags, more);
    *r = (layout_run){ .vocab = 512, .n_ranks = c->n_ranks, .tp = c->tp, .pp = c->pp, .until = N };
    if (run_layout(r, flags)) fail_msg("%s: %s", flags, tx_last_error());
}

static void inputs_that_move_change_no_bit(void **state)
{
    (void)state;
    static const char *const moved[] = { "--partition-activations", "--checkpoint-in-cpu",
                                         "--partition-activations --checkpoint-in-cpu --contigious-checkpointing" };
    for (int n = 0; n < as_many(N_CASES, 5); n++) {
        static layout_run stay, move;
        int i = (int)((sample_seed() + (uint64_t)n) % N_CASES);
        run_case(&stay, &cases[i], "");
        assert_true(isfinite(stay.rank[0].loss[N - 1]));
        for (size_t k = 0; k < sizeof moved / sizeof *moved; k++) {
            run_case(&move, &cases[i], moved[k]);
            for (int rank = 0; rank < stay.n_ranks; rank++)
                if (memcmp(&stay.rank[rank], &move.rank[rank], sizeof stay.rank[rank]) != 0)
                    fail_msg("%d of %d%s, %s: rank %d has other bits (loss %.17g and %.17g)", cases[i].tp, cases[i].pp,
                             cases[i].flags, moved[k], rank, stay.rank[rank].loss[N - 1], move.rank[rank].loss[N - 1]);
        }
    }
}

/* Layers that are computed again in the room that slots share, and those that are kept in their own. */
static void layers_in_shared_room_change_no_bit(void **state)
{
    (void)state;
    static const struct kept_case pipelines[] = {
        { 1, 2, 2, LAYERS(4) },
        { 2, 2, 4, LAYERS(8) " --num-layers-per-virtual-pipeline-stage 2 --sequence-parallel --bf16" },
        { 1, 4, 4, LAYERS(7) " --pipeline-schedule gpipe" BF16 },
    };
    static const char *const again[] = { UNIFORM(1), UNIFORM(2), BLOCK(1), " --recompute-activations" };
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        static layout_run kept, shared;
        run_case(&kept, &pipelines[i], "");
        for (size_t k = 0; k < sizeof again / sizeof *again; k++) {
            run_case(&shared, &pipelines[i], again[k]);
            for (int rank = 0; rank < kept.n_ranks; rank++)
                if (memcmp(&kept.rank[rank], &shared.rank[rank], sizeof kept.rank[rank]) != 0)
                    fail_msg("%d stages%s,%s: rank %d has other bits (loss %.17g and %.17g)", pipelines[i].pp,
                             pipelines[i].flags, again[k], rank, kept.rank[rank].loss[N - 1],
                             shared.rank[rank].loss[N - 1]);
        }
    }
}

/* ---- memory: sizes, which ThreadSanitizer has nothing to say of ---- */

/* Bytes that six more layers add on the activation stacks and in the host's memory: six inputs. */
static void assert_inputs(const char *more, int tp, size_t stack, size_t host)
{
    tx_memory few = memory_of(more, 6, tp, 1, true), many = memory_of(more, 12, tp, 1, true);
    assert_int_equal(many.activations - few.activations, 6 * stack);
    assert_int_equal(many.host_activations - few.host_activations, 6 * host);
    assert_int_equal(many.host_activations, 12 * host);
}

static void memory_of_inputs_falls_by_the_tensor_ranks(void **state)
{
    (void)state;
    if (UNDER_TSAN) skip();
    const size_t bsh = 2 * 16 * 32 * sizeof(float);
    for (int tp = 1; tp <= 4; tp *= 2) {
        assert_inputs(UNIFORM(1), tp, bsh, 0);
        assert_inputs(UNIFORM(1) " --partition-activations", tp, bsh / (size_t)tp, 0);
        assert_inputs(UNIFORM(1) " --checkpoint-in-cpu", tp, 0, bsh);
        assert_inputs(UNIFORM(1) " --checkpoint-in-cpu --partition-activations", tp, 0, bsh / (size_t)tp);
    }
    assert_inputs(UNIFORM(1) " --bf16 --partition-activations", 4, bsh / 8, 0);
    assert_inputs(UNIFORM(1) BF16 " --partition-activations", 4, bsh / 4, 0);
}

/* Every slot has inputs of its own; what comes from the stage before is one of them. A layer's own memory is the same,
 * so what more layers add is inputs. */
static void slots_of_a_pipeline_have_parts(void **state)
{
    (void)state;
    if (UNDER_TSAN) skip();
    const size_t bsh = 2 * 16 * 32 * sizeof(float);
    static const struct {
        const char *flags;
        int slots; /* of the first stage */
    } schedules[] = { { "", 2 }, { " --pipeline-schedule gpipe", 8 } };
    for (int i = 0; i < 2; i++) {
        size_t at[2][2], host[2];
        for (int k = 0; k < 2; k++) {
            char flags[512];
            for (int moves = 0; moves < 2; moves++) {
                snprintf(flags, sizeof flags, "%s%s%s", UNIFORM(1), schedules[i].flags,
                         moves ? " --partition-activations" : "");
                at[moves][k] = memory_of(flags, 8 + 8 * k, 2, 2, true).activations;
            }
            snprintf(flags, sizeof flags, "%s%s --partition-activations --checkpoint-in-cpu", UNIFORM(1),
                     schedules[i].flags);
            host[k] = memory_of(flags, 8 + 8 * k, 2, 2, true).host_activations;
        }
        size_t inputs = (size_t)schedules[i].slots * 4 * bsh;
        assert_int_equal(at[0][1] - at[0][0], inputs);
        assert_int_equal(at[1][1] - at[1][0], inputs / 2);
        assert_int_equal(host[0], inputs / 2);
        assert_int_equal(host[1], inputs);
    }
}

/* Activations of a first stage with so many slots, one a micro-batch. */
static size_t of_slots(const char *flags, int n_layers, int n_slots)
{
    char all[512];
    snprintf(all, sizeof all, "%s --pipeline-schedule gpipe --global-batch-size %d", flags, 2 * n_slots);
    return memory_of(all, n_layers, 1, 2, true).activations;
}

/* A slot more takes what its forward leaves: the gradient, inputs and the output. The room of a layer that is computed
 * again is there once, and does not depend on their number. */
static void slots_share_the_room_of_layers(void **state)
{
    (void)state;
    if (UNDER_TSAN) skip();
    const size_t bsh = 2 * 16 * 32 * sizeof(float), messages = 4 * bsh;
    size_t room[2];
    for (int k = 0; k < 2; k++) {
        int n_layers = 8 + 8 * k; /* half of them in the stage */
        size_t one = of_slots(UNIFORM(1), n_layers, 1), own = (size_t)(n_layers / 2 + 2) * bsh;
        room[k] = one - own - messages;
        for (int n = 2; n <= 8; n *= 2)
            assert_int_equal(of_slots(UNIFORM(1), n_layers, n), (size_t)n * own + room[k] + messages);
    }
    assert_int_equal(room[0], room[1]);
    assert_true(room[0] > 10 * bsh); /* q, k, v, o, two of 4h, and their gradients */
}

/* Where layers are kept, slots share what backward needs besides; whatever is shared, all that is taken is used, and it
 * is no more than slots with a top of their own take. */
static void shared_room_is_never_more(void **state)
{
    (void)state;
    static const char *const flags[] = {
        "", BLOCK(1), BLOCK(2), UNIFORM(4), " --recompute-activations", UNIFORM(2) " --partition-activations --bf16"
    };
    if (UNDER_TSAN) skip();
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        size_t one = of_slots(flags[i], 12, 1);
        for (int n = 2; n <= 4; n++) assert_true(of_slots(flags[i], 12, n) < (size_t)n * one);
    }
}

/* Of a group the parts are kept too, whatever its length; behind sequence parallelism nothing changes. */
static void groups_and_sequences(void **state)
{
    (void)state;
    const size_t bsh = 2 * 16 * 32 * sizeof(float);
    tx_memory few = memory_of(UNIFORM(3) " --partition-activations", 6, 2, 1, false),
              many = memory_of(UNIFORM(3) " --partition-activations", 12, 2, 1, false);
    assert_int_equal(many.activations - few.activations, 2 * bsh / 2);
    tx_memory parts = memory_of(UNIFORM(1) " --sequence-parallel", 6, 2, 1, false),
              same = memory_of(UNIFORM(1) " --sequence-parallel --partition-activations", 6, 2, 1, false);
    assert_memory_equal(&parts, &same, sizeof parts);
    tx_memory none = memory_of("", 6, 2, 1, false),
              unused = memory_of(" --partition-activations --checkpoint-in-cpu", 6, 2, 1, false);
    assert_memory_equal(&none, &unused, sizeof none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_that_move_change_no_bit),
        cmocka_unit_test(layers_in_shared_room_change_no_bit),
        cmocka_unit_test(memory_of_inputs_falls_by_the_tensor_ranks),
        cmocka_unit_test(slots_of_a_pipeline_have_parts),
        cmocka_unit_test(slots_share_the_room_of_layers),
        cmocka_unit_test(shared_room_is_never_more),
        cmocka_unit_test(groups_and_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
