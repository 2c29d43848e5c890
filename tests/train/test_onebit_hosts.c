/* labels: unit parallel threads. What hosts send each other in a step of 1-bit Adam after the freeze: the formulas of
 * docs/howto/one-bit.md, and the same bits wherever the ranks are and whichever way their calls take. */
#include "support.h"

#include "../comm/threads_on_hosts.h"
#include "train/trainer.h"
#include "zero/compressed.h"

enum { VOCAB = 3072, S = 16, LAST = 4, MOST_BUCKETS = 8 };

/* Enough parameters that sums and gathers go host by host: a step of sums, and one of signs. */
#define FLAGS                                                                                                          \
    "--num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --lr 1e-3 " \
    "--train-iters 4 --tokenizer-type NullTokenizer --vocab-size 3071 --data-path none --threads 1 "                   \
    "--micro-batch-size 1 --global-batch-size 8 --world-size 8 --optimizer onebitadam "                                \
    "--onebit-freeze-step 2 "

typedef struct job {
    const tx_config *cfg;
    bool flat;
    int64_t sums[MOST_RANKS], signs[MOST_RANKS]; /* bytes that hosts sent in the last step with each */
    int n_buckets;
    tx_compressed_size bucket[MOST_BUCKETS];
    int64_t numel[MOST_BUCKETS];
    uint64_t weights; /* a hash of those of all ranks */
} job;

/* Samples are the rank's, and do not move with it. */
static tx_status read_tokens(void *user, int64_t micro, const void **rows)
{
    int32_t *tokens = user;
    (void)micro;
    for (int i = 0; i <= S; i++) tokens[i] = (tokens[i] * 5 + 3) % VOCAB;
    *rows = tokens;
    return TX_OK;
}

/* Between empty messages, so that none is on its way. */
static tx_status reset(tx_comm *all, int64_t *into)
{
    TX_TRY(tx_comm_barrier(all));
    for (int h = 0; h < MOST_RANKS && !tx_comm_rank(all); h++) {
        if (into) into[h] = crossing[h];
        crossing[h] = 0;
    }
    return tx_comm_barrier(all);
}

static tx_status hash_weights(const tx_trainer *t, tx_comm *all, uint64_t *out)
{
    uint64_t hash = 0, of[MOST_RANKS];
    const unsigned char *x = t->zero.value;
    for (int64_t i = 0; i < t->model->params.numel * (int64_t)sizeof(float); i++) hash = body_hash(hash + x[i]);
    TX_TRY(tx_comm_gather(all, of, &hash, sizeof hash));
    for (int r = 1; r < tx_comm_size(all); r++) EXPECT(of[r] == of[0], "rank %d has other weights than rank 0", r);
    if (!tx_comm_rank(all)) *out = of[0];
    return TX_OK;
}

static void read_buckets(job *j, const tx_zero *z)
{
    TX_ASSERT(z->flat.n_buckets <= MOST_BUCKETS);
    j->n_buckets = z->flat.n_buckets;
    for (int k = 0; k < j->n_buckets; k++) {
        j->bucket[k] = tx_zero_compressed_size(z, k);
        j->numel[k] = z->flat.bucket[k].numel;
    }
}

static tx_status train_as_a_rank(tx_world *world, void *user)
{
    job *j = user;
    tx_trainer *t = NULL;
    tx_grid grid;
    tx_comm *all = tx_world_comm(world);
    int32_t tokens[S + 1];
    tx_status st;
    const tx_layout layout = tx_layout_of(j->cfg);
    for (int i = 0; i <= S; i++) tokens[i] = 17 * tx_world_rank(world) + i;
    tx_world_by_hosts(world, !j->flat);
    TX_TRY(tx_grid_open(&grid, world, &layout, NULL));
    TX_GOTO(tx_trainer_create(&t, j->cfg, VOCAB, -1, true, &grid));
    for (int i = 1; i <= LAST; i++) {
        TX_GOTO(reset(all, NULL));
        TX_GOTO(tx_trainer_train(t, read_tokens, tokens));
        TX_GOTO(reset(all, i == 2 ? j->sums : j->signs));
    }
    if (!tx_world_rank(world)) read_buckets(j, &t->zero);
    TX_GOTO(hash_weights(t, all, &j->weights));
out:
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

static job run(const char *hosts, bool flat, int worker)
{
    char flags[1024];
    tx_config *cfg;
    snprintf(flags, sizeof flags, FLAGS "--onebit-worker-size %d", worker);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    job j = { .cfg = cfg, .flat = flat };
    ASSERT_OK(threads_on_hosts(hosts, train_as_a_rank, &j));
    tx_config_free(cfg);
    j.cfg = NULL;
    return j;
}

/* ---- the formulas ---- */

/* h hosts of w ranks. */
typedef struct ranks {
    int64_t h, w;
    bool flat;
} ranks;

/* All ranks of a host send as many bytes to each rank of the others, or of each host one. */
static int64_t to_others(ranks r, int64_t bytes)
{
    return r.w * (r.h - 1) * r.w * bytes;
}

static bool by_hosts(ranks r, tx_comm_op op, int64_t bytes)
{
    const tx_comm_hosts at = { (int)(r.h * r.w), (int)r.h, (int)r.w, false };
    return !r.flat && tx_comm_goes_by_hosts(op, TX_F32, at, bytes);
}

/* Of a bucket's sum, what the first host sends: numbers that are not finished, or finished slices. */
static int64_t sent_of_sum(ranks r, int64_t numel)
{
    return by_hosts(r, TX_COMM_ALL_REDUCE, 4 * numel) ? 4 * numel : to_others(r, 2 * 4 * numel / (r.h * r.w));
}

/* A rank sends each rank of another host the words that it serves; then what it serves goes to each other host, once
 * each, or to each of its ranks. */
static int64_t sent_of_ranks(ranks r, int64_t words, int64_t tensors)
{
    int64_t bytes = words * 4, there = to_others(r, bytes);
    bool once = by_hosts(r, TX_COMM_ALL_GATHER, bytes * r.h * r.w);
    return there + (once ? r.w * (r.h - 1) * bytes : to_others(r, bytes)) + 2 * to_others(r, tensors * 8);
}

/* The same with a host as a worker; each of its ranks sends all sizes. */
static int64_t sent_of_hosts(ranks r, int64_t words, int64_t tensors)
{
    return 2 * (r.h - 1) * (words * 4 + r.w * tensors * 8);
}

static uint64_t weights_of[MOST_RANKS]; /* by the size of a worker */

static void hosts_send_what_the_formulas_say(void **state)
{
    (void)state;
    static const struct {
        const char *hosts;
        ranks are;
        int worker;
        double less; /* than sums host by host, at least so many times */
    } cases[] = { { "00001111", { 2, 4, false }, 1, 12.5 },
                  { "00001111", { 2, 4, true }, 1, 7.5 },
                  { "00112233", { 4, 2, false }, 1, 27 },
                  { "00001111", { 2, 4, false }, 4, 31 },
                  { "00112233", { 4, 2, false }, 2, 40 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ranks r = cases[i].are;
        job j = run(cases[i].hosts, r.flat, cases[i].worker);
        int64_t workers = r.h * r.w / cases[i].worker, numel = 0, words = 0, sums = 0, signs = 0;
        for (int k = 0; k < j.n_buckets; k++) {
            tx_compressed_size of = j.bucket[k];
            numel += j.numel[k];
            words += of.words;
            sums += sent_of_sum(r, j.numel[k]);
            signs +=
                cases[i].worker > 1 ? sent_of_hosts(r, of.words, of.tensors) : sent_of_ranks(r, of.words, of.tensors);
        }
        double busiest = (double)(r.h > 2 ? 8 : 4) * (double)numel; /* both directions pass hosts between the ends */
        print_message("hosts %s%s, workers of %d: %lld bytes of signs, a %.1fth\n", cases[i].hosts,
                      r.flat ? ", flat" : "", cases[i].worker, (long long)signs, busiest / (double)signs);
        assert_in_range(words * 32 * workers, numel - numel / 64, numel + numel / 64);
        /* what is not compared, such as losses, is sent in both steps; after the freeze ranks agree on the step in 8
         * bytes */
        for (int h = 0; h < r.h; h++) assert_int_equal(j.signs[h] - to_others(r, 8) - signs, j.sums[0] - sums);
        assert_true(busiest >= cases[i].less * (double)signs);
        uint64_t *weights = &weights_of[cases[i].worker];
        if (!*weights) *weights = j.weights;
        assert_int_equal(j.weights, *weights);
    }
}

/* Which ranks are a worker is said by number, not by host. */
static void weights_do_not_depend_on_places(void **state)
{
    (void)state;
    for (int worker = 1; worker <= 4; worker *= 4) {
        assert_int_equal(run("00000000", false, worker).weights, weights_of[worker]);
        assert_int_equal(run("01010101", false, worker).weights, weights_of[worker]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(hosts_send_what_the_formulas_say),
                                        cmocka_unit_test(weights_do_not_depend_on_places) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
