/* train.c - how long a training step takes: forward, backward and AdamW on random weights and tokens.
 *
 *      train LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH [flags of pretrain-gpt, e.g. --bf16 --threads 2]
 *      train LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH --bert [flags of pretrain-bert]
 *
 *  Reads numbers of steps, a line each; runs so many and prints their mean in milliseconds. So a script can run it in
 *  turn with other programs (train_peers.py) without paying for the start again. The first line out is the memory that
 *  was planned, in bytes; dropout is off unless a flag switches it on.
 *
 *  `make bench` in the build folder builds it. */
#include "step.h"

int main(int argc, char **argv)
{
    tx_config *cfg;
    tx_engine *e = open_engine(argc, argv, &cfg);
    int32_t *tokens = random_samples(argc, argv);
    printf("%lld\n", (long long)tx_engine_memory_of(e).total);
    fflush(stdout);
    for (int n; scanf("%d", &n) == 1 && n > 0;) {
        double start = time_now(e);
        for (int i = 0; i < n; i++) run_step(e, tokens);
        printf("%.4f\n", 1e3 * (time_now(e) - start) / n);
        fflush(stdout);
    }
    free(tokens);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return 0;
}
