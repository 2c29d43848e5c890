/* train_tiny.c - a whole training run through the library: a 2-layer GPT learns to count.
 *
 *      cc train_tiny.c -ltriax -o train_tiny && ./train_tiny
 *      mpirun -n 2 ./train_tiny                                  the same global batches, shared by two ranks
 *
 *  Every sample is a run of consecutive numbers, so the next token is always the last one plus one. */
#include <stdio.h>

#include "triax/engine.h"

#define VOCAB 97
#define B 4
#define S 16

static int failed(void)
{
    fprintf(stderr, "train_tiny: %s\n", tx_last_error());
    return 1;
}

int main(void)
{
    static const char flags[] =
        "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
        "--micro-batch-size 4 --global-batch-size 8 --train-iters 200 --lr 3e-3 --lr-decay-style cosine "
        "--lr-warmup-fraction 0.1 --hidden-dropout 0 --attention-dropout 0 "
        "--tokenizer-type NullTokenizer --vocab-size 96 --data-path none";
    tx_config *cfg = NULL;
    tx_engine *e = NULL;
    int32_t tokens[B][S + 1];
    double loss = 0;
    int start, rank;

    if (tx_config_parse_string(&cfg, "pretrain-gpt", flags)) return failed();
    if (tx_engine_create(&e, cfg, VOCAB)) return failed();
    rank = tx_engine_global_rank(e);
    start = 1000 * tx_engine_data_parallel_rank(e); /* each has data of its own */
    while (tx_engine_iteration(e) < 200) {
        for (int j = 0; j < B; j++, start += 31)
            for (int i = 0; i <= S; i++) tokens[j][i] = (start + i) % VOCAB;
        if (tx_engine_forward(e, tokens[0], &loss) || tx_engine_backward(e) || tx_engine_step(e)) return failed();
        if (rank == 0 && tx_engine_iteration(e) % 50 == 0 && tx_engine_is_gradient_accumulation_boundary(e))
            printf("iteration %3lld  loss %.4f\n", (long long)tx_engine_iteration(e), loss);
    }
    if (rank == 0) printf("final loss %.4f\n", tx_engine_loss(e));
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return 0;
}
