/* labels: unit fault threads */
/* test_replicas.c - what several ranks hold is compared bit for bit, and a difference is named. */
#include "support.h"

#include "whole_table.h"

/* clang-format off */
static const tx_param_decl rows[] = {
    { "norm.weight",  "h+",     TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "dense.weight", "h,f/t", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "dense.bias",   "h",     TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, 0, 0 },
};
static const tx_param_decl table = { "word.weight", "V/t,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, 0, 0 };
/* clang-format on */

enum { TP = 2, PP = 2, N = 4, CAP = 8192 };

/* Of parameter `name` on rank `rank` one bit is turned, or of all in its last row when that is padding. */
typedef struct task {
    int rank;
    const char *name;
    bool in_padding;
    tx_status st[N];
    char message[N][1024];
} task;

static void note(task *t, int rank, tx_status st)
{
    if (!st) return;
    t->st[rank] = st;
    snprintf(t->message[rank], sizeof t->message[rank], "%s", tx_last_error());
}

static void plant(const tx_params *ps, float *flat, const task *t)
{
    const tx_param *p = tx_params_find(ps, t->name);
    uint32_t bits;
    float *x = flat + p->offset + (t->in_padding ? p->numel - 1 : 1);
    memcpy(&bits, x, sizeof bits);
    bits ^= 1;
    memcpy(x, &bits, sizeof bits);
}

/* Two stages of a layer each, whose first and last row is a tied table, on two tensor-parallel ranks; the groups are
 * tensor, and then ends. */
static tx_status compare_rank(tx_world *w, void *user)
{
    task *t = user;
    int rank = tx_world_rank(w), stage = rank / TP;
    tx_dims d = { .h = 8, .f = 12, .V = 16, .v_logical = 15, .n_tp = TP, .tp_rank = rank % TP };
    tx_params ps = { 0 };
    tx_comm *tensor, *ends;
    float flat[CAP];
    tx_replica have[8];
    TX_TRY(tx_comm_split(&tensor, tx_world_comm(w), stage, "tensor-parallel"));
    TX_TRY(tx_comm_split(&ends, tx_world_comm(w), rank % TP, "end"));
    if (stage == 0) TX_TRY(tx_params_declare(&ps, "", &table, 1, NULL, &d));
    TX_TRY(tx_params_declare(&ps, stage ? "layers.1." : "layers.0.", rows, 3, NULL, &d));
    d.copy = true;
    if (stage) TX_TRY(tx_params_declare(&ps, "", &table, 1, NULL, &d));
    TX_ASSERT(ps.numel <= CAP);
    init_whole(&ps, flat, 5, (tx_init_method){ .std = 1, .n_layers = 2 });
    if (rank == t->rank) plant(&ps, flat, t);
    note(t, rank, tx_replicas_compare(&ps, replicas_of(have, &ps, flat), tensor, TX_UNSPLIT));
    note(t, rank, tx_replicas_compare(&ps, replicas_of(have, &ps, flat), ends, TX_BY_NAME));
    tx_comm_close(tensor);
    tx_comm_close(ends);
    tx_params_deinit(&ps);
    return TX_OK;
}

/* Ranks of the mask fail with that message, the others do not. */
static void expect(int rank, const char *name, bool in_padding, unsigned mask, const char *message)
{
    task t = { .rank = rank, .name = name, .in_padding = in_padding };
    ASSERT_OK(tx_world_threads(N, compare_rank, &t));
    for (unsigned i = 0; i < N; i++) {
        tx_status st = mask >> i & 1 ? TX_ERR_NUMERIC : TX_OK;
        if (t.st[i] != st || (st && !strstr(t.message[i], message)))
            fail_msg("%s on %d: rank %u: %d, \"%s\"", name, rank, i, t.st[i], t.message[i]);
    }
}

static void a_planted_difference_is_named(void **state)
{
    (void)state;
    expect(-1, NULL, false, 0, "");
    expect(3, "layers.1.norm.weight", false, 0xc,
           "layers.1.norm.weight differs between tensor-parallel ranks 0 and 1 (ranks 2 and 3):");
    expect(0, "layers.0.dense.bias", false, 0x3,
           "layers.0.dense.bias differs between tensor-parallel ranks 0 and 1 (ranks 0 and 1):");
    expect(1, "word.weight", false, 0xa, "word.weight differs between end ranks 0 and 1 (ranks 1 and 3):");
}

static void what_is_one_ranks_own_may_differ(void **state)
{
    (void)state;
    expect(1, "layers.0.dense.weight", false, 0, "");
    expect(3, "word.weight", true, 0, ""); /* a row that pads the vocabulary */
}

/* Four data-parallel ranks with all in common. */
static tx_status compare_data_rank(tx_world *w, void *user)
{
    task *t = user;
    int rank = tx_world_rank(w);
    tx_dims d = { .h = 8, .f = 12 };
    tx_params ps = { 0 };
    float flat[CAP];
    tx_replica have[8];
    TX_TRY(tx_params_declare(&ps, "", rows, 3, NULL, &d));
    init_whole(&ps, flat, 5, (tx_init_method){ .std = 1, .n_layers = 2 });
    for (int i = 0; i < 3; i++)
        if (rank == t->rank || (rank > t->rank && i == 1)) flat[ps.param[i].offset] = -3;
    note(t, rank, tx_replicas_compare(&ps, replicas_of(have, &ps, flat), tx_world_comm(w), TX_BY_NAME));
    tx_params_deinit(&ps);
    return TX_OK;
}

static void others_are_counted(void **state)
{
    (void)state;
    task t = { .rank = 2 };
    ASSERT_OK(tx_world_threads(N, compare_data_rank, &t));
    for (int i = 0; i < N; i++) {
        assert_int_equal(t.st[i], TX_ERR_NUMERIC);
        ASSERT_CONTAINS(t.message[i], "norm.weight differs between");
        ASSERT_CONTAINS(t.message[i], "ranks 0 and 2 (ranks 0 and 2), and so do 2 more tensors: ");
    }
}

static void one_rank_has_nothing_to_compare(void **state)
{
    (void)state;
    tx_dims d = { .h = 8, .f = 12 };
    tx_params ps = { 0 };
    ASSERT_OK(tx_params_declare(&ps, "", rows, 3, NULL, &d));
    ASSERT_OK(tx_replicas_compare(&ps, NULL, &tx_comm_self, TX_BY_NAME)); /* the numbers are not looked at */
    tx_params_deinit(&ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_planted_difference_is_named),
        cmocka_unit_test(what_is_one_ranks_own_may_differ),
        cmocka_unit_test(others_are_counted),
        cmocka_unit_test(one_rank_has_nothing_to_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
