/* aio.c - what tx_aio gets out of a disk next to what the disk gives to plain calls, in one run, in turns:
 * median GB/s of writing and of reading all of it, and the ratio to the plain call.
 *
 *      aio FOLDER [MIB, 2048] [REPETITIONS, 7] [BLOCK_KIB, 1024] [QUEUE_DEPTH, 8] [THREADS, 1]
 *
 *  triax     a few requests of 16 MiB in flight, as an offloaded optimizer has them
 *  plain     pread and pwrite of 16 MiB, one after the other, on the same descriptor (O_DIRECT)
 *  fsync     pwrite of 16 MiB into the page cache, and fsync, on another file
 *
 * The last three arguments are DeepSpeed's block_size, queue_depth and intra_op_parallelism. TX_AIO=plain measures the
 * fallback. Nothing is read from memory: what is read was written past the page cache. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/aio.h"
#include "base/clock.h"

enum { MAX_REPETITIONS = 101, PART = 16 << 20, IN_FLIGHT = 4 };

typedef struct bench {
    tx_aio *aio;
    int direct;             /* the same file */
    tx_scratch_file cached; /* another: pages in memory would slow the first one's writes */
    size_t n_parts;
    unsigned char *buf; /* IN_FLIGHT parts */
} bench;

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "aio: %s\n", tx_last_error());
    exit(1);
}

static void must(int done, const char *what)
{
    if (done) return;
    perror(what);
    exit(1);
}

static void triax(bench *b, int write)
{
    tx_aio_request r[IN_FLIGHT] = { 0 };
    for (size_t i = 0; i < b->n_parts + IN_FLIGHT; i++) {
        size_t slot = i % IN_FLIGHT;
        check(tx_aio_wait(&r[slot]));
        if (i >= b->n_parts) continue;
        if (write)
            tx_aio_write_start(b->aio, b->buf + slot * PART, i * PART, PART, &r[slot]);
        else
            tx_aio_read_start(b->aio, b->buf + slot * PART, i * PART, PART, &r[slot]);
    }
}

static void write_triax(bench *b)
{
    triax(b, 1);
}

static void read_triax(bench *b)
{
    triax(b, 0);
}

static void write_plain(bench *b)
{
    for (size_t i = 0; i < b->n_parts; i++) must(pwrite(b->direct, b->buf, PART, (off_t)(i * PART)) == PART, "pwrite");
}

static void read_plain(bench *b)
{
    for (size_t i = 0; i < b->n_parts; i++) must(pread(b->direct, b->buf, PART, (off_t)(i * PART)) == PART, "pread");
}

static void write_fsync(bench *b)
{
    for (size_t i = 0; i < b->n_parts; i++)
        must(pwrite(b->cached.fd, b->buf, PART, (off_t)(i * PART)) == PART, "pwrite");
    must(!fsync(b->cached.fd), "fsync");
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static const struct {
    const char *name;
    void (*run)(bench *);
    int base; /* the way it is compared with */
} ways[] = {
    { "write, triax", write_triax, 1 }, { "write, plain", write_plain, 1 }, { "write, fsync", write_fsync, 1 },
    { "read, triax", read_triax, 4 },   { "read, plain", read_plain, 4 },
};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static void measure(bench *b, int repetitions)
{
    static double seconds[N_WAYS][MAX_REPETITIONS];
    double gb_s[N_WAYS];
    for (int i = -1; i < repetitions; i++) /* once unmeasured: the file's first writes are slower */
        for (int w = 0; w < N_WAYS; w++) {
            double since = tx_clock();
            ways[w].run(b);
            if (i >= 0) seconds[w][i] = tx_clock() - since;
        }
    for (int w = 0; w < N_WAYS; w++) {
        qsort(seconds[w], (size_t)repetitions, sizeof(double), by_size);
        gb_s[w] = (double)b->n_parts * PART * 1e-9 / seconds[w][repetitions / 2];
    }
    for (int w = 0; w < N_WAYS; w++)
        printf("%-13s %7.3f GB/s  ratio %.2f   fastest %.3f s, slowest %.3f s\n", ways[w].name, gb_s[w],
               gb_s[w] / gb_s[ways[w].base], seconds[w][0], seconds[w][repetitions - 1]);
}

int main(int argc, char **argv)
{
    int arg[] = { 2048, 7, 1024, 8, 1 };
    bench b = { 0 };
    tx_aio_options o = tx_aio_defaults();
    for (int i = 2; i < argc && i < 7; i++) arg[i - 2] = atoi(argv[i]);
    if (argc < 2 || arg[0] < 16 || arg[1] < 1 || arg[1] > MAX_REPETITIONS || arg[2] < 1) {
        fprintf(stderr, "usage: aio FOLDER [MIB] [REPETITIONS] [BLOCK_KIB] [QUEUE_DEPTH] [THREADS]\n");
        return 2;
    }
    o.block_size = (size_t)arg[2] << 10;
    o.queue_depth = arg[3];
    o.n_threads = arg[4];
    b.n_parts = ((size_t)arg[0] << 20) / PART;
    check(tx_aio_open(&b.aio, argv[1], "triax-bench-aio", b.n_parts * PART, &o));
    check(tx_aio_alloc(&b.buf, (size_t)IN_FLIGHT * PART, "a benchmark"));
    memset(b.buf, 0x5a, (size_t)IN_FLIGHT * PART);
    b.direct = tx_aio_fd(b.aio);
    check(tx_scratch_open(&b.cached, argv[1], "triax-bench-cached", b.n_parts * PART, true));
    must(!fcntl(b.cached.fd, F_SETFL, 0), "fcntl");
    printf("%zu MiB in %s, %s\n", b.n_parts * PART >> 20, argv[1], tx_aio_how(b.aio));
    measure(&b, arg[1]);
    tx_scratch_close(&b.cached);
    tx_aio_close(b.aio);
    tx_aio_free(b.buf);
    return 0;
}
