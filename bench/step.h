/* step.h - what programs that time training steps share: an engine of the sizes on the command line, and samples for
 * it. The sizes are LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH, then flags of pretrain-gpt, or behind --bert those
 * of pretrain-bert. */
#ifndef TX_BENCH_STEP_H
#define TX_BENCH_STEP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/engine_internal.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/str.h"
#include "data/bert_dataset.h"
#include "triax/config.h"
#include "triax/engine.h"
#include "triax/status.h"

enum { N_SIZES = 6 };

/* A sample of a BERT has no padding here, 15 % of its tokens masked, and is a pair. */
#define MASKED 0.15

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "%s\n", tx_last_error());
    exit(1);
}

static bool is_bert(int argc, char **argv)
{
    return argc > N_SIZES + 1 && !strcmp(argv[N_SIZES + 1], "--bert");
}

/* Of the arguments behind the program's name; the program ends where they are too few or wrong. Dropout is off unless a
 * flag switches it on. */
static tx_engine *open_engine(int argc, char **argv, tx_config **cfg)
{
    tx_str flags = { 0 };
    tx_engine *e;
    if (argc <= N_SIZES) {
        fprintf(stderr, "usage: %s LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH [flags]\n", argv[0]);
        exit(2);
    }
    check(tx_str_printf(&flags,
                        "--num-layers %s --hidden-size %s --num-attention-heads %s --seq-length %s "
                        "--max-position-embeddings %s --micro-batch-size %s --train-iters 1000000 --lr 1e-4 "
                        "--lr-decay-style constant --hidden-dropout 0 --attention-dropout 0 --data-path none ",
                        argv[1], argv[2], argv[3], argv[5], argv[5], argv[6]));
    bool bert = is_bert(argc, argv);
    if (bert)
        check(tx_str_puts(&flags, "--vocab-file none"));
    else
        check(tx_str_printf(&flags, "--tokenizer-type NullTokenizer --vocab-size %lld", atoll(argv[4]) - 1));
    for (int i = N_SIZES + 1 + bert; i < argc; i++) check(tx_str_printf(&flags, " %s", argv[i]));
    check(tx_config_parse_string(cfg, bert ? "pretrain-bert" : "pretrain-gpt", flags.data));
    check(tx_engine_create(&e, *cfg, atoll(argv[4])));
    tx_str_free(&flags);
    return e;
}

static void make_bert(int32_t *row, int64_t s)
{
    tx_bert_ids ids = tx_bert_ids_of(row, s);
    int64_t n = (int64_t)(MASKED * (double)s);
    for (int64_t i = 0; i < s; i++) {
        ids.types[i] = i >= s / 2;
        ids.labels[i] = i * n / s == (i + 1) * n / s ? -1 : ids.tokens[i]; /* n of them, evenly */
    }
    *ids.n_tokens = (int32_t)s;
    *ids.is_random = row[0] % 2;
}

/* A batch's samples, [batch, sequence + 1] or a BERT's; the caller's to free. */
static int32_t *random_samples(int argc, char **argv)
{
    int64_t vocab = atoll(argv[4]), s = atoll(argv[5]), b = atoll(argv[6]);
    bool bert = is_bert(argc, argv);
    int64_t len = bert ? tx_bert_row_len(s) : s + 1;
    int32_t *rows = malloc((size_t)(len * b) * sizeof *rows);
    if (!rows) check(TX_FAIL(TX_ERR_NOMEM, "no memory for a batch"));
    const tx_rng rng = { .seed = 1 };
    for (int64_t i = 0; i < len * b; i++) rows[i] = (int32_t)((double)vocab * tx_rng_uniform(&rng, (uint64_t)i));
    for (int64_t j = 0; bert && j < b; j++) make_bert(rows + j * len, s);
    return rows;
}

static tx_status same_rows(void *user, int64_t micro, const void **rows)
{
    (void)micro;
    *rows = user;
    return TX_OK;
}

/* As a run makes it. */
static void run_step(tx_engine *e, int32_t *rows)
{
    check(tx_trainer_train(e->trainer, same_rows, rows));
}

/* The time when all steps are done, on a device too. */
static double time_now(tx_engine *e)
{
    check(tx_device_sync(e->trainer->ctx.device, TX_STREAM_COMPUTE));
    return tx_clock();
}

#endif
