/* labels: fault */
/* test_flipped_bits.c - a checkpoint with one bit flipped, or cut off, or with a byte more, anywhere in any of its
 * files, is never taken for whole: the error names the file, of a shard also the block, and the newest good one is
 * loaded instead. TX_FLIPS says how many bits; the rest of tests/fault asks for more than CTest. */
#include <fcntl.h>
#include <unistd.h>

#include "../checkpoint/stretch_fixture.h"

#include "base/clock.h"
#include "base/log.h"

enum { ITERATION = 3, BLOCK = 1 << 20, MANIFEST = 0, LATEST = 3, N_FILES };

static char warned[4096];

static void keep_warnings(void *user, tx_log_level level, const char *line)
{
    (void)user;
    size_t n = strlen(warned);
    if (level == TX_LOG_WARN) snprintf(warned + n, sizeof warned - n, "%s\n", line);
}

/* ---- three checkpoints of two ranks ---- */

static const tx_param_decl declared[] = {
    { "word_embeddings.weight", "V/t,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, 0, 0 },
    { "dense.weight", "f/t,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, 0, 0 },
    { "dense.bias", "f/t", TX_INIT_ZERO, TX_NO_DECAY, TX_ADDS, 0, 0 },
};
static const table big = { declared, 3, { .h = 96, .f = 24 * 96, .v_logical = VOCAB, .P = 4 } };
static const cut by_two = { .tp = 2, .dp = 1, .max_cuts = 3, .seed = 11 };

static tx_status save_all(tx_world *world, void *user)
{
    keeper k;
    tx_status st = keeper_create(&k, &big, &by_two, tx_world_rank(world));
    if (!st) st = keeper_numbers(&k, true);
    for (int64_t i = 1; i <= ITERATION && !st; i++) st = keeper_save(&k, user, i, tx_world_comm(world));
    keeper_destroy(&k);
    return st;
}

typedef struct damaged_file {
    char path[512];
    int64_t bytes;
    unsigned char *whole;
} damaged_file;

static damaged_file file[N_FILES]; /* the manifest, two shards, latest */
static char dir[400];

static int set_up(void **state)
{
    (void)state;
    static const char *const names[] = { "iter_0000003/manifest.json", "iter_0000003/shard_00000.safetensors",
                                         "iter_0000003/shard_00001.safetensors", "latest" };
    snprintf(dir, sizeof dir, "%s", in_scratch("run"));
    ASSERT_OK(tx_world_threads(2, save_all, dir));
    for (int i = 0; i < N_FILES; i++) {
        tx_str s = { 0 };
        snprintf(file[i].path, sizeof file[i].path, "%s/%s", dir, names[i]);
        ASSERT_OK(tx_file_read(file[i].path, SIZE_MAX, &s));
        file[i].bytes = (int64_t)s.len;
        file[i].whole = (unsigned char *)s.data;
    }
    for (int i = 1; i < LATEST; i++) assert_true(file[i].bytes > BLOCK && file[i].bytes % BLOCK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < N_FILES; i++) tx_free(file[i].whole);
    return 0;
}

/* ---- one damage ---- */

/* The newest good checkpoint has that iteration, and a warning names what it was not. */
static void falls_back_to(int64_t iteration, const char *named)
{
    tx_checkpoint *c;
    warned[0] = 0;
    ASSERT_OK(tx_checkpoint_open_newest_good(&c, dir, &tx_comm_self));
    assert_int_equal(tx_checkpoint_state(c)->iteration, iteration);
    ASSERT_CONTAINS(warned, named);
    tx_checkpoint_close(c);
}

/* File f is another one: that is an error that names it, and of a shard the block (-1: its length is another). */
static void is_found_out(int f, int64_t block)
{
    tx_checkpoint *c;
    char named[600];
    bool in_block = (f == 1 || f == 2) && block >= 0;
    snprintf(named, sizeof named, in_block ? "%.511s: block %lld " : "%.511s", file[f].path, (long long)block);
    ASSERT_FAILS(tx_checkpoint_open(&c, dir, &tx_comm_self), TX_ERR_FORMAT, named);
    falls_back_to(f == LATEST ? ITERATION : ITERATION - 1, named);
}

/* `latest` may name another checkpoint now, which whoever goes back to one writes there, too: it is loaded, and said.
 */
static bool names_another(void)
{
    tx_checkpoint *c;
    warned[0] = 0;
    if (tx_checkpoint_open(&c, dir, &tx_comm_self)) return false;
    assert_true(tx_checkpoint_state(c)->iteration < ITERATION);
    tx_checkpoint_close(c);
    ASSERT_CONTAINS(warned, file[LATEST].path);
    ASSERT_CONTAINS(warned, "iteration 3 is there");
    return true;
}

/* ---- all of them ---- */

static void write_at(const char *path, int64_t at, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, bytes, n, (off_t)at) == (ssize_t)n);
    close(fd);
}

static void flip(int f, int64_t bit)
{
    int64_t at = bit / 8;
    unsigned char c = file[f].whole[at] ^ (unsigned char)(1 << bit % 8);
    write_at(file[f].path, at, &c, 1);
    if (f != LATEST || !names_another()) is_found_out(f, at / BLOCK);
    write_at(file[f].path, at, &file[f].whole[at], 1);
}

/* Every bit of `latest`, of the others every n-th so that all together are TX_FLIPS, from a random one on. */
static void flipped_bits(void **state)
{
    (void)state;
    const char *text = getenv("TX_FLIPS");
    int64_t wanted = text ? atoll(text) : 900, done = 0;
    double began = tx_clock();
    tx_rng rng = { .seed = 5 };
    for (; done < 8 * file[LATEST].bytes; done++) flip(LATEST, done);
    for (int64_t each = (wanted - done) / LATEST + 1, f = MANIFEST; f < LATEST; f++)
        for (int64_t i = 0; i < each; i++, done++) {
            double stretch = 8.0 * (double)file[f].bytes / (double)each;
            flip((int)f, (int64_t)(stretch * ((double)i + tx_rng_uniform(&rng, (uint64_t)done))));
        }
    printf("flipped bits: %lld points, 0 failed, %.0f s\n", (long long)done, tx_clock() - began);
    tx_checkpoint *c;
    ASSERT_OK(tx_checkpoint_open(&c, dir, &tx_comm_self));
    assert_int_equal(tx_checkpoint_state(c)->iteration, ITERATION);
    tx_checkpoint_close(c);
}

static void truncated_and_longer(void **state)
{
    (void)state;
    for (int f = 0; f < N_FILES; f++) {
        int64_t n = file[f].bytes, length[] = { 0, 1, 7, 8, 9, n / 3, n / 2, BLOCK, n - 2, n - 1, n + 1 };
        for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
            if (length[i] >= n && length[i] != n + 1) continue;
            assert_int_equal(truncate(file[f].path, (off_t)length[i]), 0);
            is_found_out(f, -1);
            write_at(file[f].path, 0, file[f].whole, (size_t)n);
            assert_int_equal(truncate(file[f].path, (off_t)n), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(flipped_bits), cmocka_unit_test(truncated_and_longer) };
    tx_log_set(keep_warnings, NULL, TX_LOG_WARN);
    if (scratch_setup(NULL)) return 1;
    int failed = cmocka_run_group_tests(tests, set_up, tear_down);
    return scratch_teardown(NULL) ? 1 : failed;
}
