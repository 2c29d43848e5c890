/* checkpoint.c - saving and loading a checkpoint next to what the disk gives to plain calls, in one run, in turns.
 *
 *      checkpoint FOLDER [REPETITIONS, 5] [FLAGS of the model, GPT-2 124M]
 *
 *  write    of as many bytes as the shard has, in pieces of 4 MiB, and fsync
 *  save     tx_checkpoint_save of fp32 weights and Adam's two moments
 *  read     of the shard, in pieces of 4 MiB by one thread
 *  8 at once  the same in pieces of 1 MiB by eight threads, which look at nothing: what the disk has to give
 *  load     tx_checkpoint_open, which compares every byte with its checksum, and tx_checkpoint_read
 *  2 ranks  the same, in which each of two threads compares and reads a half
 *  hf read, hf load    the weights as a Hugging Face folder: read of its file; tx_source_open and tx_source_weights
 *
 *  Before each reading the file's pages are dropped (posix_fadvise), so that it comes from the disk. What is read lies
 * in memory that has been written before. The ways of reading take turns, three rounds for each save. Prints medians in
 * seconds and their ratios. bench/checkpoint_peers.py has torch.save and safetensors on the same disk. */
#include <fcntl.h>
#include <jansson.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "convert/sink.h"
#include "model/model.h"

enum { MAX_REPETITIONS = 101, ROUNDS = 3, PIECE = 4 << 20, BLOCK = 1 << 20, READERS = 8, RANKS = 2 };
enum { WRITE, SAVE, READ, AT_ONCE, LOAD, BY_RANKS, HF_READ, HF_LOAD, N_WAYS };
static const char *const way_name[N_WAYS] = { "write", "save",    "read",    "8 at once",
                                              "load",  "2 ranks", "hf read", "hf load" };

typedef struct bench {
    char plain[4096], run[4096], shard[4096], hf[4096], hf_file[4096];
    tx_model *m;
    float *x; /* weights and two moments, [3 * numel] */
    size_t numel;
    unsigned char *pieces; /* READERS of them */
    double seconds[N_WAYS][MAX_REPETITIONS * ROUNDS];
    int n[N_WAYS];
} bench;

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "checkpoint: %s\n", tx_last_error());
    exit(1);
}

static void must(int done, const char *what)
{
    if (done) return;
    perror(what);
    exit(1);
}

static void note(bench *b, int way, double since)
{
    b->seconds[way][b->n[way]++] = tx_clock() - since;
}

static void drop(const char *path)
{
    int fd = open(path, O_RDONLY);
    must(fd >= 0 && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), path);
    close(fd);
}

static size_t size_of(const char *path)
{
    struct stat st;
    must(!stat(path, &st), path);
    return (size_t)st.st_size;
}

/* ---- plain calls ---- */

static void write_plain(bench *b)
{
    size_t bytes = 3 * b->numel * sizeof *b->x;
    double since = tx_clock();
    int fd = open(b->plain, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    must(fd >= 0, b->plain);
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        must(write(fd, (const char *)b->x + at, n) == (ssize_t)n, "write");
    }
    must(!fsync(fd), "fsync");
    close(fd);
    note(b, WRITE, since);
    unlink(b->plain);
}

/* Into x, as far as it goes: a shard's header makes it a little longer. */
static void read_plain(bench *b, int way, const char *path)
{
    size_t room = 3 * b->numel * sizeof *b->x, at = 0;
    drop(path);
    double since = tx_clock();
    int fd = open(path, O_RDONLY);
    must(fd >= 0, path);
    for (ssize_t n; at < room && (n = read(fd, (char *)b->x + at, room - at < PIECE ? room - at : PIECE)) != 0;
         at += (size_t)n)
        must(n > 0, "read");
    close(fd);
    note(b, way, since);
}

static void read_at_once(bench *b)
{
    size_t bytes = size_of(b->shard);
    drop(b->shard);
    double since = tx_clock();
    int fd = open(b->shard, O_RDONLY);
    must(fd >= 0, b->shard);
#pragma omp parallel for num_threads(READERS) schedule(dynamic)
    for (size_t at = 0; at < bytes; at += BLOCK) {
        size_t n = bytes - at < BLOCK ? bytes - at : BLOCK;
        must(pread(fd, b->pieces + omp_get_thread_num() * BLOCK, n, (off_t)at) == (ssize_t)n, "pread");
    }
    close(fd);
    note(b, AT_ONCE, since);
}

/* ---- triax ---- */

static void save(bench *b, const tx_ckpt_part *part)
{
    json_t *config = json_object();
    double since = tx_clock();
    const tx_ckpt_state state = { .iteration = 1 };
    check(tx_checkpoint_save(
        &(tx_ckpt_save_args){ b->run, &state, config, &b->m->params, NULL, part, 3, &tx_comm_self }));
    note(b, SAVE, since);
    json_decref(config);
}

static void load(bench *b, const tx_ckpt_part *part)
{
    tx_checkpoint *c;
    drop(b->shard);
    double since = tx_clock();
    check(tx_checkpoint_open(&c, b->run, &tx_comm_self));
    if (getenv("TX_BENCH_PARTS")) printf("   open %.3f s\n", tx_clock() - since);
    check(tx_checkpoint_read(c, &b->m->params, NULL, part, 3));
    note(b, LOAD, since);
    tx_checkpoint_close(c);
}

/* A rank keeps a part of every row, as with ZeRO. */
static tx_status load_rank(tx_world *world, void *user)
{
    bench *b = user;
    int64_t rank = tx_world_rank(world), n = tx_world_size(world);
    const tx_params *ps = &b->m->params;
    tx_fragments kept = { .n = ps->n };
    tx_checkpoint *c;
    omp_set_num_threads(omp_get_num_procs() > RANKS ? omp_get_num_procs() / RANKS : 1); /* as ranks of a run */
    TX_TRY(tx_alloc(&kept.fragment, (size_t)ps->n, sizeof *kept.fragment, "fragments"));
    for (int i = 0; i < ps->n; i++) {
        int64_t numel = ps->param[i].numel, first = numel * rank / n, end = numel * (rank + 1) / n;
        kept.fragment[i] = (tx_fragment){ i, first, end - first, kept.numel };
        kept.numel += end - first;
    }
    float *x = b->x + 3 * (int64_t)b->numel * rank / n;
    const tx_ckpt_part part[3] = { { .name = "model", .flat = x },
                                   { .name = "exp_avg", .flat = x + kept.numel },
                                   { .name = "exp_avg_sq", .flat = x + 2 * kept.numel } };
    tx_status st = tx_checkpoint_open(&c, b->run, tx_world_comm(world));
    if (!st) {
        st = tx_checkpoint_read(c, ps, &kept, part, 3);
        tx_checkpoint_close(c);
    }
    tx_free(kept.fragment);
    return st;
}

static void load_by_ranks(bench *b)
{
    drop(b->shard);
    double since = tx_clock();
    check(tx_world_threads(RANKS, load_rank, b));
    note(b, BY_RANKS, since);
}

static void write_hf(bench *b, const tx_config *cfg)
{
    tx_source src;
    check(tx_source_open_just_written(&src, b->run));
    tx_conversion c = {
        .src = &src, .m = b->m, .cfg = cfg, .out = b->hf, .n_tp = 1, .n_pp = 1, .n_dp = 1, .dtype = TX_ST_F32
    };
    c.part = c.row = -1;
    check(tx_alloc(&c.whole, (size_t)tx_params_largest_whole(&b->m->params), sizeof *c.whole, "a tensor"));
    check(tx_sink_huggingface.write(&c));
    tx_free(c.whole);
    tx_source_close(&src);
    int fd = open(b->hf_file, O_RDONLY);
    must(fd >= 0 && !fsync(fd), b->hf_file);
    close(fd);
}

static void load_hf(bench *b)
{
    tx_source src;
    drop(b->hf_file);
    double since = tx_clock();
    check(tx_source_open(&src, b->hf, NULL, &tx_comm_self));
    check(tx_source_weights(&src, b->m, b->x));
    note(b, HF_LOAD, since);
    tx_source_close(&src);
}

/* ---- medians ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(bench *b, int way)
{
    qsort(b->seconds[way], (size_t)b->n[way], sizeof(double), by_size);
    return b->seconds[way][b->n[way] / 2];
}

static void show(bench *b)
{
    double t[N_WAYS];
    for (int way = 0; way < N_WAYS; way++) {
        t[way] = median(b, way);
        printf("%-9s %8.3f s  (%.3f to %.3f)\n", way_name[way], t[way], b->seconds[way][0],
               b->seconds[way][b->n[way] - 1]);
    }
    double bytes = (double)size_of(b->shard);
    printf("%.2f GB, medians: save %.2f s, %.2f of write and fsync; load %.3f s, %.2f of read, %.2f of 8 at once, "
           "by %d ranks %.2f of read; of %.2f GB hf load %.3f s, %.2f of read\n",
           bytes / 1e9, t[SAVE], t[SAVE] / t[WRITE], t[LOAD], t[LOAD] / t[READ], t[LOAD] / t[AT_ONCE], RANKS,
           t[BY_RANKS] / t[READ], (double)size_of(b->hf_file) / 1e9, t[HF_LOAD], t[HF_LOAD] / t[HF_READ]);
}

int main(int argc, char **argv)
{
    static bench b;
    int n = argc > 2 ? atoi(argv[2]) : 5;
    const char *flags = argc > 3 ? argv[3]
                                 : "--num-layers 12 --hidden-size 768 --num-attention-heads 12 "
                                   "--max-position-embeddings 1024 --seq-length 1024 --micro-batch-size 1 "
                                   "--train-iters 1 --lr 1 --data-path x --vocab-file x --merge-file x";
    if (argc < 2 || n < 1 || n > MAX_REPETITIONS)
        return fprintf(stderr, "usage: checkpoint FOLDER [REPETITIONS] [FLAGS]\n"), 2;
    tx_config *cfg;
    snprintf(b.plain, sizeof b.plain, "%s/plain", argv[1]);
    snprintf(b.run, sizeof b.run, "%s/run", argv[1]);
    snprintf(b.shard, sizeof b.shard, "%s/run/iter_0000001/shard_00000.safetensors", argv[1]);
    snprintf(b.hf, sizeof b.hf, "%s/hf", argv[1]);
    snprintf(b.hf_file, sizeof b.hf_file, "%s/hf/model.safetensors", argv[1]);
    check(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    check(tx_model_type_of(cfg)->create(&b.m, cfg, 50257, NULL));
    b.numel = (size_t)b.m->params.numel;
    check(tx_alloc(&b.x, 3 * b.numel, sizeof *b.x, "the state"));
    must(!posix_memalign((void **)&b.pieces, 4096, READERS * BLOCK), "memory");
    memset(b.pieces, 0, READERS * BLOCK);
    for (size_t i = 0; i < 3 * b.numel; i++) b.x[i] = (float)(i * 2654435761u >> 7) * 0x1p-25f;
    const tx_ckpt_part part[3] = { { .name = "model", .flat = b.x, .whole = true },
                                   { .name = "exp_avg", .flat = b.x + b.numel, .whole = true },
                                   { .name = "exp_avg_sq", .flat = b.x + 2 * b.numel, .whole = true } };
    for (int i = 0; i < n; i++) {
        write_plain(&b);
        save(&b, part);
        if (!i) write_hf(&b, cfg);
        for (int k = 0; k < ROUNDS; k++) {
            read_plain(&b, READ, b.shard);
            load(&b, part);
            load_by_ranks(&b);
            read_at_once(&b);
            read_plain(&b, HF_READ, b.hf_file);
            load_hf(&b);
        }
    }
    show(&b);
    check(tx_remove_tree(b.run));
    check(tx_remove_tree(b.hf));
    return 0;
}
