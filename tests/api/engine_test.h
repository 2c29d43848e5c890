/* engine_test.h - a small model behind the engine, on made-up data, for the tests of its promises. */
#ifndef TX_TESTS_ENGINE_TEST_H
#define TX_TESTS_ENGINE_TEST_H

#include "support.h"

#include "api/engine_internal.h"
#include "base/rng.h"
#include "triax/engine.h"

#define S 32
#define B 2
#define FLAGS                                                                                                      \
    "--num-layers 2 --hidden-size 48 --num-attention-heads 3 --seq-length 32 --max-position-embeddings 40 "        \
    "--micro-batch-size 2 --global-batch-size 4 --train-iters 10 --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine " \
    "--lr-warmup-fraction 0.2 --data-path none --tokenizer-type NullTokenizer --vocab-size 508 --seed 7 "

#define LLAMA                                                                                  \
    "--normalization rmsnorm --use-rotary-position-embeddings --swiglu --disable-bias-linear " \
    "--untie-embeddings-and-output-weights --num-key-value-heads 1 --ffn-hidden-size 40 "

static inline tx_engine *create(tx_config **cfg, const char *more)
{
    char flags[4096];
    tx_engine *e;
    snprintf(flags, sizeof flags, "%s %s", FLAGS, more);
    ASSERT_OK(tx_config_parse_string(cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_engine_create(&e, *cfg, 509));
    return e;
}

/* Micro-batch number i of a made-up data set. */
static inline void batch(int32_t *tokens, int64_t i)
{
    tx_rng rng = { .seed = 3, .stream = (uint32_t)i };
    for (int k = 0; k < B * (S + 1); k++) tokens[k] = (int32_t)(509 * tx_rng_uniform(&rng, (uint64_t)k));
}

static inline void train(tx_engine *e, int n, double *losses)
{
    int32_t tokens[B * (S + 1)];
    double loss;
    for (int i = 0; i < n; i++) {
        int64_t first = e->trainer->consumed_train_samples / B, n_micro = tx_config_batch_size(e->cfg, first * B) / B;
        for (int64_t k = 0; k < n_micro; k++) {
            assert_int_equal(tx_engine_is_gradient_accumulation_boundary(e), k == n_micro - 1);
            batch(tokens, first + k);
            ASSERT_OK(tx_engine_forward(e, tokens, &loss));
            ASSERT_OK(tx_engine_backward(e));
            assert_int_equal(tx_engine_is_gradient_accumulation_boundary(e), k == n_micro - 1);
            ASSERT_OK(tx_engine_step(e));
        }
        if (losses) losses[i] = tx_engine_loss(e);
    }
}

/* Of two checkpoint folders in the scratch folder. */
static inline void assert_same_checkpoint(const char *a, const char *b)
{
    static const char *const file[] = { "latest", "iter_0000010/manifest.json",
                                        "iter_0000010/shard_00000.safetensors" };
    for (int i = 0; i < 3; i++) assert_same_file(in_scratch("%s/%s", a, file[i]), in_scratch("%s/%s", b, file[i]));
}

static inline void run_and_save(const char *dir, const char *more, int first, int then)
{
    tx_config *cfg;
    char load[2048];
    tx_engine *e = create(&cfg, more);
    train(e, first, NULL);
    ASSERT_OK(tx_engine_save_checkpoint(e, dir, NULL, NULL));
    tx_engine_destroy(e);
    tx_config_free(cfg);
    if (!then) return;
    snprintf(load, sizeof load, "%s --load %s", more, dir);
    e = create(&cfg, load);
    assert_int_equal(tx_engine_iteration(e), first);
    train(e, then, NULL);
    ASSERT_OK(tx_engine_save_checkpoint(e, dir, NULL, NULL));
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

#endif
