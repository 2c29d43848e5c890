/* checkpoint.c - saving and loading a checkpoint next to what the disk gives to plain calls, in one run, in turns.
 *
 *      checkpoint FOLDER [REPETITIONS, 5] [FLAGS of the model, GPT-2 124M]
 *
 *  triax     tx_checkpoint_save of fp32 weights and Adam's two moments; tx_checkpoint_open, which compares every byte
 * with its checksum, and tx_checkpoint_read plain     write of as many bytes in pieces of 4 MiB, and fsync; read of
 * them
 *
 * Before each reading the pages are dropped (posix_fadvise), so that it comes from the disk. Prints seconds, medians
 * and the ratio. bench/checkpoint_peers.py has torch.save and safetensors on the same disk. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "model/model.h"

enum { MAX_REPETITIONS = 101, PIECE = 4 << 20 };

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

static void drop(const char *path)
{
    int fd = open(path, O_RDONLY);
    must(fd >= 0 && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), path);
    close(fd);
}

static double write_plain(const char *path, const char *buf, size_t bytes)
{
    double since = tx_clock();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    must(fd >= 0, path);
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        must(write(fd, buf + at, n) == (ssize_t)n, "write");
    }
    must(!fsync(fd), "fsync");
    close(fd);
    return tx_clock() - since;
}

static double read_plain(const char *path, char *buf, size_t bytes)
{
    drop(path);
    double since = tx_clock();
    int fd = open(path, O_RDONLY);
    must(fd >= 0, path);
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        must(read(fd, buf + at, n) == (ssize_t)n, "read");
    }
    close(fd);
    return tx_clock() - since;
}

static const char *in_run(const char *dir)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/run", dir);
    return path;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : NULL;
    int n = argc > 2 ? atoi(argv[2]) : 5;
    const char *flags = argc > 3 ? argv[3]
                                 : "--num-layers 12 --hidden-size 768 --num-attention-heads 12 "
                                   "--max-position-embeddings 1024 --seq-length 1024 --micro-batch-size 1 "
                                   "--train-iters 1 --lr 1 --data-path x --vocab-file x --merge-file x";
    if (!dir || n < 1 || n > MAX_REPETITIONS)
        return fprintf(stderr, "usage: checkpoint FOLDER [REPETITIONS] [FLAGS]\n"), 2;
    tx_config *cfg;
    tx_model *m;
    float *x;
    char plain[4096], shard[4096];
    check(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    check(tx_model_type_of(cfg)->create(&m, cfg, 50257, NULL));
    size_t numel = (size_t)m->params.numel, bytes = 3 * numel * sizeof *x;
    check(tx_alloc(&x, 3 * numel, sizeof *x, "the state"));
    for (size_t i = 0; i < 3 * numel; i++) x[i] = (float)(i * 2654435761u >> 7) * 0x1p-25f;
    const tx_ckpt_part part[3] = { { .name = "model", .flat = x, .whole = true },
                                   { .name = "exp_avg", .flat = x + numel, .whole = true },
                                   { .name = "exp_avg_sq", .flat = x + 2 * numel, .whole = true } };
    snprintf(plain, sizeof plain, "%s/plain", dir);
    snprintf(shard, sizeof shard, "%s/run/iter_0000001/shard_00000.safetensors", dir);
    double save[MAX_REPETITIONS], load[MAX_REPETITIONS], write[MAX_REPETITIONS], read[MAX_REPETITIONS];
    json_t *config = json_object();
    for (int i = 0; i < n; i++) {
        write[i] = write_plain(plain, (const char *)x, bytes);
        double since = tx_clock();
        const tx_ckpt_state state = { .iteration = 1 };
        check(tx_checkpoint_save(
            &(tx_ckpt_save_args){ in_run(dir), &state, config, &m->params, NULL, part, 3, &tx_comm_self }));
        save[i] = tx_clock() - since;
        read[i] = read_plain(plain, (char *)x, bytes);
        drop(shard);
        since = tx_clock();
        tx_checkpoint *c;
        check(tx_checkpoint_open(&c, in_run(dir), &tx_comm_self));
        double opened = tx_clock() - since;
        check(tx_checkpoint_read(c, &m->params, NULL, part, 3));
        if (getenv("TX_BENCH_PARTS")) printf("   open %.2f s\n", opened);
        load[i] = tx_clock() - since;
        tx_checkpoint_close(c);
        printf("%d: write %.2f s, save %.2f s; read %.2f s, load %.2f s\n", i + 1, write[i], save[i], read[i], load[i]);
        fflush(stdout);
    }
    double w = median(write, n), s = median(save, n), r = median(read, n), l = median(load, n);
    printf("%.2f GB, medians: save %.2f s, %.2f of write and fsync (%.2f s); load %.2f s, %.2f of read (%.2f s)\n",
           (double)bytes / 1e9, s, s / w, w, l, l / r, r);
    unlink(plain);
    check(tx_remove_tree(in_run(dir)));
    return 0;
}
