/* labels: golden fault
 * Files that Megatron, DeepSpeed and transformers wrote, damaged at thousands of places: each is refused with a
 * sentence, or gives exactly the numbers that it gave before. TX_TEST_SEED=N makes the same places again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../torch/pt_text.h"
#include "convert/source.h"
#include "support.h"

static const char *const files[] = {
    "classic_dp2_distopt_bf16/iter_0000004/mp_rank_00/model_optim_rng.pt",
    "classic_dp2_distopt_bf16/iter_0000004/mp_rank_00/distrib_optim.pt",
    "classic_pp4vp2_fp32/iter_0000004/mp_rank_00_001/model_optim_rng.pt",
    "ds_z1_pp2tp2_bf16/global_step4/bf16_zero_pp_rank_0_mp_rank_02_optim_states.pt",
    "ds_z1_pp2tp2_bf16/global_step4/layer_02-model_00-model_states.pt",
    "ds_z1_pp2tp2_bf16/global_step4/mp_rank_00_model_states.pt",
    "ds_z2_dp3_bf16_rr/global_step4/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
    "ds_z3_tp2dp2_fp32/global_step4/zero_pp_rank_0_mp_rank_00_model_states.pt",
    ("universal_v509_z1_tp2_fp32/global_step4_universal/zero/"
     "language_model.encoder.layers.0.self_attention.dense.weight/exp_avg.pt"),
    "hf_llama_tied_sharded/pytorch_model-00001-of-00003.bin",
    "torch_dist_llama_tp2/iter_0000004/common.pt",
    "torch_dist_llama_tp2/iter_0000004/__0_1.distcp", /* several archives: none by itself */
};
enum { N_FILES = sizeof files / sizeof *files };

/* ---- damage ---- */

static uint64_t chance_state;

static size_t chance(size_t n)
{
    chance_state = chance_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(chance_state >> 33) % n;
}

static int seed_setup(void **state)
{
    chance_state = sample_seed();
    print_message("TX_TEST_SEED=%llu\n", (unsigned long long)chance_state);
    return scratch_setup(state);
}

static char what[128]; /* was done to the file */

/* Every other place is close behind a mark of the archive: headers are few among so many numbers. */
static size_t some_place(const tx_str *good)
{
    size_t at = chance(good->len), end = good->len - 4;
    if (chance(2)) return at;
    while (at < end && memcmp(good->data + at, "PK", 2) != 0) at++;
    at += chance(100);
    return at < good->len ? at : good->len - 1;
}

/* One bit turned, a run of zeros, bytes put in, or the end cut off. */
static tx_str damaged(const tx_str *good)
{
    tx_str s = { 0 };
    size_t at = some_place(good), left = good->len - at, n = 1 + chance(16);
    char more[16];
    for (size_t i = 0; i < sizeof more; i++) more[i] = (char)chance(256);
    if (n > left) n = left;
    switch (chance(4)) {
    case 0:
        ASSERT_OK(tx_str_append(&s, good->data, good->len));
        s.data[at] = (char)(s.data[at] ^ 1 << (n % 8));
        snprintf(what, sizeof what, "bit %zu of byte %zu turned", n % 8, at);
        break;
    case 1:
        ASSERT_OK(tx_str_append(&s, good->data, good->len));
        memset(s.data + at, 0, n);
        snprintf(what, sizeof what, "%zu zeros at byte %zu", n, at);
        break;
    case 2:
        ASSERT_OK(tx_str_append(&s, good->data, at));
        ASSERT_OK(tx_str_append(&s, more, n));
        ASSERT_OK(tx_str_append(&s, good->data + at, left));
        snprintf(what, sizeof what, "%zu bytes put in at byte %zu", n, at);
        break;
    default:
        ASSERT_OK(tx_str_append(&s, good->data, at));
        snprintf(what, sizeof what, "cut off at byte %zu", at);
    }
    return s;
}

static void assert_sentence(const char *name, const char *said)
{
    if (!*said) fail_msg("%s, %s: refused without a word", name, what);
    for (const unsigned char *p = (const unsigned char *)said; *p; p++)
        if (*p < 0x20 || *p > 0x7E) fail_msg("%s, %s: byte %02x in \"%s\"", name, what, *p, said);
}

/* ---- files by themselves ---- */

/* All values and numbers; empty when they are refused. */
static tx_str text_of(const char *path, const char *name)
{
    tx_pt *f;
    tx_str text = { 0 };
    if (tx_pt_open(&f, path)) {
        assert_sentence(name, tx_last_error());
        return text;
    }
    text = pt_text_of_file(f, true);
    const char *error = strstr(text.data, "ERROR ");
    if (error) {
        assert_sentence(name, error);
        tx_str_free(&text);
    }
    tx_pt_close(f);
    return text;
}

static void files_are_refused_or_the_same(void **state)
{
    (void)state;
    enum { EACH = 200 };
    int refused = 0, same = 0;
    for (size_t k = 0; k < N_FILES; k++) {
        char path[512];
        if (strstr(files[k], ".distcp")) continue;
        snprintf(path, sizeof path, "upstream/%s", files[k]);
        tx_str good = read_file(data_path(path)), want = text_of(data_path(path), files[k]);
        assert_true(want.len > 0);
        for (int i = 0; i < EACH; i++) {
            tx_str bad = damaged(&good);
            tx_str got = text_of(write_file(in_scratch("bad.pt"), bad.data, bad.len), files[k]);
            if (got.len && (got.len != want.len || memcmp(got.data, want.data, got.len) != 0))
                fail_msg("%s, %s: taken, with other numbers", files[k], what);
            *(got.len ? &same : &refused) += 1;
            tx_str_free(&got);
            tx_str_free(&bad);
        }
        tx_str_free(&want);
        tx_str_free(&good);
    }
    print_message("%d refused, %d the same\n", refused, same);
    assert_true(refused > same && refused + same == EACH * (N_FILES - 1));
}

/* ---- in their folders, as --load and convert read them ---- */

/* A hash of all numbers of all parts, and of the run's state. */
static tx_status read_source(tx_source *src, tx_config *cfg, uint64_t *hash)
{
    tx_model *m = NULL;
    float *x = NULL;
    tx_status st;
    TX_GOTO(tx_source_options(src, cfg, false));
    if (!cfg->seq_length) cfg->seq_length = cfg->max_position_embeddings;
    TX_GOTO(tx_config_complete(cfg));
    TX_GOTO(tx_model_type_of(cfg)->create(&m, cfg, src->vocab_size, NULL));
    TX_GOTO(src->type->check(src, m));
    TX_GOTO(tx_alloc(&x, (size_t)tx_params_largest_whole(&m->params), sizeof *x, "a tensor"));
    const int64_t run[] = { src->state.iteration, src->state.consumed_train_samples, src->state.optim_step,
                            src->state.skipped, src->vocab_size };
    *hash = XXH3_64bits(run, sizeof run);
    for (int part = 0; part < src->n_parts; part++)
        for (int i = 0; i < m->params.n; i++) {
            const tx_param *p = &m->params.param[i];
            TX_GOTO(tx_source_read_whole(src, m, part, p, x));
            *hash = XXH3_64bits_withSeed(x, (size_t)tx_param_whole_numel(p) * sizeof *x, *hash);
        }
out:
    if (m) m->type->destroy(m);
    tx_free(x);
    return st;
}

static tx_status read_folder(const char *dir, uint64_t *hash)
{
    tx_source src;
    tx_config *cfg = NULL;
    TX_TRY(tx_source_open(&src, dir, NULL, &tx_comm_self));
    ASSERT_OK(tx_config_parse_string(&cfg, "convert", "--to native a b"));
    tx_status st = read_source(&src, cfg, hash);
    tx_config_free(cfg);
    tx_source_close(&src);
    return st;
}

/* Links to everything in a folder. */
static void link_tree(const char *from, const char *to)
{
    tx_names names;
    ASSERT_OK(tx_make_dirs(to));
    ASSERT_OK(tx_dir_list(from, &names));
    for (size_t i = 0; i < names.n; i++) {
        char a[1024], b[1024];
        ASSERT_OK(tx_path_join(a, sizeof a, from, names.name[i]));
        ASSERT_OK(tx_path_join(b, sizeof b, to, names.name[i]));
        if (tx_path_is_dir(a))
            link_tree(a, b);
        else
            assert_int_equal(symlink(a, b), 0);
    }
    tx_names_free(&names);
}

static void folders_are_refused_or_the_same(void **state)
{
    (void)state;
    enum { EACH = 40 };
    int refused = 0;
    for (size_t k = 0; k < N_FILES; k++) {
        char folder[600], path[512], real[4096];
        uint64_t want, got;
        snprintf(path, sizeof path, "%s", files[k]);
        path[strcspn(path, "/")] = 0;
        if (!strncmp(path, "hf_", 3)) continue; /* older container among them: no checksums to go by */
        snprintf(folder, sizeof folder, "upstream/%s", path);
        assert_non_null(realpath(data_path(folder), real));
        const char *dir = in_scratch("%zu", k);
        link_tree(real, dir);
        ASSERT_OK(read_folder(dir, &want));
        snprintf(path, sizeof path, "%s/%s", dir, strchr(files[k], '/') + 1);
        tx_str good = read_file(path);
        for (int i = 0; i < EACH; i++) {
            tx_str bad = damaged(&good);
            assert_int_equal(unlink(path), 0);
            tx_status st = read_folder((write_file(path, bad.data, bad.len), dir), &got);
            tx_str_free(&bad);
            if (st)
                assert_sentence(files[k], tx_last_error());
            else if (got != want)
                fail_msg("%s, %s: taken, with other numbers", files[k], what);
            refused += st != TX_OK;
        }
        tx_str_free(&good);
    }
    assert_true(refused > EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_refused_or_the_same, seed_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(folders_are_refused_or_the_same, seed_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
