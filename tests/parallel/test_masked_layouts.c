/* labels: parallel threads. What a BERT makes of masked samples on several ranks is what it makes of them on one, and
 * all ranks of a model know it: tensor and pipeline parallelism, ranks as threads. */
#include "../eval/masked_rig.h"

enum { N_TOP = 20 };

static const struct layout {
    const char *flags;
    int tp, pp;
} layouts[] = {
    { LIKE_BERT, 2, 1 },
    { LIKE_BERT, 1, 2 },
    { LIKE_BERT "--post-layernorm", 2, 2 },
    { LIKE_BERT "--sequence-parallel", 4, 1 },
    { LIKE_BERT "--make-vocab-size-divisible-by 512", 4, 1 }, /* the last rank has padding alone */
    { LIKE_BERT "--bert-no-binary-head", 1, 4 },
    { LIKE_BERT "--num-layers-per-virtual-pipeline-stage 1", 1, 2 },
};

static void any_layout_is_one_rank(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        const struct layout *l = &layouts[k];
        int n = l->tp * l->pp;
        char what[64];
        snprintf(what, sizeof what, "layout %d: tp %d, pp %d", (int)k, l->tp, l->pp);
        char one_flags[1024];
        snprintf(one_flags, sizeof one_flags, "%s", l->flags);
        char *virtual = strstr(one_flags, "--num-layers-per-virtual");
        if (virtual) *virtual = 0; /* of a pipeline only */
        found *one = masked_found(one_flags, 1, 1, 0, LEN, 2, N_TOP);
        for (int rank = 0; rank < n; rank += n - 1) {
            found *many = masked_found(l->flags, l->tp, l->pp, rank, LEN, 2, N_TOP);
            assert_same_found(one, many, N_TOP, 5e-5, what);
            for (int64_t i = 0; i < one->first[SAMPLES]; i++)
                assert_true(many->score[i].rank >= 1 && labs(many->score[i].rank - one->score[i].rank) <= 1);
            free(many);
        }
        free(one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(any_layout_is_one_rank) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
