/* labels: unit */
/* Which tokens the layers of --random-ltd compute: sets that are sets, each as likely as any other, of a sample and a
 * layer and of nothing else; and what becomes of masks among them. */
#include "support.h"

#include "base/rng.h"
#include "model/model.h"

static void all_sets_are_alike(void **state)
{
    (void)state;
    enum { S = 6, R = 3, N = 40000 };
    int seen[1 << S] = { 0 }, n_seen = 0;
    const tx_rng rng = { .seed = 5, .stream = 6, .step = 7 };
    for (uint64_t sample = 0; sample < N; sample++) {
        int32_t at[R];
        int set = 0;
        tx_routing_sample(at, 1, R, S, &rng, sample);
        for (int i = 0; i < R; i++) {
            assert_true(at[i] >= 0 && at[i] < S && (!i || at[i] > at[i - 1]));
            set |= 1 << at[i];
        }
        seen[set]++;
    }
    for (int set = 0; set < 1 << S; set++) { /* 20 sets, 2000 of each, whose deviation is 44 */
        if (!seen[set]) continue;
        n_seen++;
        assert_in_range(seen[set], 1800, 2200);
    }
    assert_int_equal(n_seen, 20);
}

static void one_of_one_and_all_of_many(void **state)
{
    (void)state;
    const tx_rng rng = { .seed = 1 };
    int32_t at[1000];
    for (int64_t s = 1; s <= 1000; s += 333) {
        tx_routing_sample(at, 1, s, s, &rng, 3);
        for (int32_t i = 0; i < s; i++) assert_int_equal(at[i], i);
    }
}

#define FLAGS                                                                                              \
    "--num-layers 6 --hidden-size 8 --num-attention-heads 2 --seq-length 12 --max-position-embeddings 12 " \
    "--micro-batch-size 3 --lr 1 --train-iters 1 --data-path none --random-ltd --random-ltd-min-value 5 "  \
    "--random-ltd-max-value 5 --random-ltd-require-steps 1 --random-ltd-seq-per-step 1 --tokenizer-type "  \
    "NullTokenizer "                                                                                       \
    "--vocab-size 99 --random-ltd-layer-id 1 3 4 "

enum { S = 12, R = 5, B = 3, LAYERS = 3 };

/* The batch of a model of one stage, whose samples begin at `sample`. */
static void draw(tx_config *cfg, tx_batch *batch, int32_t *room, uint64_t sample, bool documents)
{
    tx_model *m;
    ASSERT_OK(tx_model_type_of(cfg)->create(&m, cfg, 99, NULL));
    *batch = (tx_batch){ .dropout = { .seed = 7, .iteration = 9, .sample = sample, .s_global = S, .on = true } };
    batch->token = tx_tensor2(room, TX_I32, S, B);
    if (documents) batch->first_key = batch->token;
    tx_routing_shape(m, batch, R, S);
    batch->kept.data = room + S * B;
    if (documents) batch->kept_first.data = room + S * B + LAYERS * R * B;
    tx_routing_draw(m, cfg, batch);
    m->type->destroy(m);
}

static void a_sample_has_its_tokens_wherever_it_is(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_batch a, b;
    static int32_t of_a[500], of_b[500];
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS));
    draw(cfg, &a, of_a, 40, false);
    draw(cfg, &b, of_b, 41, false);
    const int32_t *x = a.kept.data, *y = b.kept.data;
    bool layers_differ = false;
    for (int n = 0; n < LAYERS; n++)
        for (int i = 0; i < R; i++) {
            for (int j = 1; j < B; j++) assert_int_equal(x[(n * R + i) * B + j], y[(n * R + i) * B + j - 1]);
            layers_differ |= n && x[(n * R + i) * B] != x[i * B];
        }
    assert_true(layers_differ);
    tx_config_free(cfg);
}

/* Documents begin at 0, 4 and 9: a token sees those of its own that are there. */
static void documents_begin_where_their_tokens_do(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_batch a;
    static int32_t room[500];
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS "--reset-attention-mask"));
    for (int i = 0; i < S * B; i++) room[i] = i / B < 4 ? 0 : i / B < 9 ? 4 : 9;
    draw(cfg, &a, room, 3, true);
    const int32_t *kept = a.kept.data, *first = a.kept_first.data;
    for (int k = 0; k < LAYERS * R * B; k++) {
        int layer = k / (R * B), i = k / B % R, j = k % B, begin = 0;
        while (room[kept[(layer * R + begin) * B + j] * B] != room[kept[k] * B]) begin++;
        assert_int_equal(first[k], begin);
        assert_true(begin <= i);
    }
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sets_are_alike),
        cmocka_unit_test(one_of_one_and_all_of_many),
        cmocka_unit_test(a_sample_has_its_tokens_wherever_it_is),
        cmocka_unit_test(documents_begin_where_their_tokens_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
