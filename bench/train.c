/* train.c - how long a training step takes: forward, backward and AdamW on random weights and tokens.
 *
 *      train LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH [flags of pretrain-gpt, e.g. --bf16 --threads 2]
 *
 *  Reads numbers of steps, a line each; runs so many and prints their mean in milliseconds. So a script can run it in
 *  turn with other programs (train_peers.py) without paying for the start again. The first line out tells the memory
 *  that was planned, in bytes; dropout is off unless a flag switches it on.
 *
 *  `make bench` in the build folder builds it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/str.h"
#include "triax/config.h"
#include "triax/engine.h"
#include "triax/status.h"

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "train: %s\n", tx_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    tx_str flags = { 0 };
    tx_config *cfg;
    tx_engine *e;
    double loss, start;
    if (argc < 7) {
        fprintf(stderr, "usage: train LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH [flags]\n");
        return 2;
    }
    int64_t vocab = atoll(argv[4]), s = atoll(argv[5]), b = atoll(argv[6]);
    check(tx_str_printf(&flags,
                        "--num-layers %s --hidden-size %s --num-attention-heads %s --seq-length %s "
                        "--max-position-embeddings %s --micro-batch-size %s --train-iters 1000000 --lr 1e-4 "
                        "--lr-decay-style constant --hidden-dropout 0 --attention-dropout 0 --data-path none "
                        "--tokenizer-type NullTokenizer --vocab-size %lld",
                        argv[1], argv[2], argv[3], argv[5], argv[5], argv[6], (long long)vocab - 1));
    for (int i = 7; i < argc; i++) check(tx_str_printf(&flags, " %s", argv[i]));
    check(tx_config_parse_string(&cfg, "pretrain-gpt", flags.data));
    check(tx_engine_create(&e, cfg, vocab));
    int32_t *tokens = malloc((size_t)(b * (s + 1)) * sizeof *tokens);
    if (!tokens) return 1;
    tx_rng rng = { .seed = 1 };
    for (int64_t i = 0; i < b * (s + 1); i++) tokens[i] = (int32_t)((double)vocab * tx_rng_uniform(&rng, (uint64_t)i));
    printf("%lld\n", (long long)tx_engine_memory_bytes(e));
    fflush(stdout);
    for (int n; scanf("%d", &n) == 1 && n > 0;) {
        start = tx_clock();
        for (int i = 0; i < n; i++) {
            check(tx_engine_forward(e, tokens, &loss));
            check(tx_engine_backward(e));
            check(tx_engine_step(e));
        }
        printf("%.4f\n", 1e3 * (tx_clock() - start) / n);
        fflush(stdout);
    }
    free(tokens);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    tx_str_free(&flags);
    return 0;
}
