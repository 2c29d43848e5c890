/* step.h - what programs that time training steps share: an engine of the sizes on the command line, and tokens for it.
 * The sizes are LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH, then flags of pretrain-gpt. */
#ifndef TX_BENCH_STEP_H
#define TX_BENCH_STEP_H

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/str.h"
#include "triax/config.h"
#include "triax/engine.h"
#include "triax/status.h"

enum { N_SIZES = 6 };

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "%s\n", tx_last_error());
    exit(1);
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
                        "--lr-decay-style constant --hidden-dropout 0 --attention-dropout 0 --data-path none "
                        "--tokenizer-type NullTokenizer --vocab-size %lld",
                        argv[1], argv[2], argv[3], argv[5], argv[5], argv[6], atoll(argv[4]) - 1));
    for (int i = N_SIZES + 1; i < argc; i++) check(tx_str_printf(&flags, " %s", argv[i]));
    check(tx_config_parse_string(cfg, "pretrain-gpt", flags.data));
    check(tx_engine_create(&e, *cfg, atoll(argv[4])));
    tx_str_free(&flags);
    return e;
}

/* A batch's, [batch, sequence + 1]; the caller's to free. */
static int32_t *random_tokens(char **argv)
{
    int64_t vocab = atoll(argv[4]), n = (atoll(argv[5]) + 1) * atoll(argv[6]);
    int32_t *tokens = malloc((size_t)n * sizeof *tokens);
    if (!tokens) check(TX_FAIL(TX_ERR_NOMEM, "no memory for a batch"));
    const tx_rng rng = { .seed = 1 };
    for (int64_t i = 0; i < n; i++) tokens[i] = (int32_t)((double)vocab * tx_rng_uniform(&rng, (uint64_t)i));
    return tokens;
}

static void run_step(tx_engine *e, const int32_t *tokens)
{
    double loss;
    check(tx_engine_forward(e, tokens, &loss));
    check(tx_engine_backward(e));
    check(tx_engine_step(e));
}

#endif
