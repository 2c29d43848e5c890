/* labels: unit fault */
/* test_checkpoint_load.c - damage is seen wherever it is, other shapes are told apart, pieces of many ranks fit
 * together. */
#include <xxhash.h>

#include "checkpoint_fixture.h"

#include "base/rng.h"
#include "checkpoint/safetensors.h"

/* Every test hears the warnings. */
static int setup(void **state)
{
    log_begin();
    return scratch_setup(state);
}

static int teardown(void **state)
{
    log_end();
    return scratch_teardown(state);
}

/* 300 random bits, 100 at each end of a file, all of the pointer's: every single flip must be found, in that file. */
static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    static const char *const file[] = { "iter_0000010/shard_00000.safetensors", "iter_0000010/manifest.json",
                                        "latest" };
    model m;
    tx_rng rng = { .seed = 5, .stream = 6 };
    model_create(&m, 2, 8, 50, 1);
    ASSERT_OK(model_save(&m, scratch_dir, 10, 1));
    for (int k = 0; k < 3; k++) {
        tx_str s = read_file(in_scratch("%s", file[k]));
        size_t n = k == 2 ? s.len * 8 : 500;
        for (size_t i = 0; i < n; i++) {
            uint32_t w[4];
            tx_rng_u32x4(&rng, i, w);
            size_t bit = k == 2 ? i : i < 300 ? w[0] % (s.len * 8) : i < 400 ? i - 300 : s.len * 8 - 1 - (i - 400);
            s.data[bit / 8] = (char)(s.data[bit / 8] ^ (1 << bit % 8));
            write_file(in_scratch("%s", file[k]), s.data, s.len);
            tx_checkpoint *c = NULL;
            tx_status st = tx_checkpoint_open(&c, scratch_dir, &tx_comm_self);
            if (!st || !strstr(tx_last_error(), file[k]))
                fail_msg("%s, bit %zu: %d %s", file[k], bit, st, tx_last_error());
            s.data[bit / 8] = (char)(s.data[bit / 8] ^ (1 << bit % 8));
        }
        for (size_t cut = 0; cut < s.len; cut += 1 + s.len / 97) {
            tx_checkpoint *c = NULL;
            write_file(in_scratch("%s", file[k]), s.data, cut);
            assert_int_not_equal(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self), TX_OK);
            ASSERT_CONTAINS(tx_last_error(), file[k]);
        }
        write_file(in_scratch("%s", file[k]), s.data, s.len);
        tx_str_free(&s);
    }
    tx_checkpoint *c;
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self)); /* all put back */
    tx_checkpoint_close(c);
    model_destroy(&m);
}

static void damage_names_the_block(void **state)
{
    (void)state;
    model m;
    tx_checkpoint *c;
    model_create(&m, 1, 256, 3000, 1);
    ASSERT_OK(model_save(&m, scratch_dir, 10, 0));
    const char *path = in_scratch("iter_0000010/shard_00000.safetensors");
    tx_str s = read_file(path);
    s.data[((size_t)2 << 20) + 77] ^= 1;
    write_file(path, s.data, s.len);
    ASSERT_FAILS(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self), TX_ERR_FORMAT,
                 "shard_00000.safetensors: block 2 (bytes 2097152 to 3145727) does not match");
    ASSERT_OK(tx_remove_tree(path));
    ASSERT_FAILS(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self), TX_ERR_NOTFOUND, "shard_00000.safetensors");
    tx_str_free(&s);
    model_destroy(&m);
}

static int times(const char *text, const char *part)
{
    int n = 0;
    for (const char *s = text; (s = strstr(s, part)); s++) n++;
    return n;
}

static void falls_back_when_told_to(void **state)
{
    (void)state;
    model m[3];
    tx_checkpoint *c;
    for (int i = 0; i < 3; i++) {
        model_create(&m[i], 1, 8, 50, i + 1);
        ASSERT_OK(model_save(&m[i], scratch_dir, 9999999 + i, 1)); /* the last ones have a digit more */
    }
    for (int i = 2; i >= 0; i--) {
        const char *path = in_scratch("iter_%07d/shard_00000.safetensors", 9999999 + i);
        ASSERT_OK(tx_checkpoint_open_newest_good(&c, scratch_dir, &tx_comm_self));
        assert_int_equal(tx_checkpoint_state(c)->iteration, 9999999 + i);
        ASSERT_OK(tx_checkpoint_read(c, &m[0].ps, NULL, ALL_PARTS(m[0])));
        assert_same_numbers(&m[i], &m[0], 3);
        tx_checkpoint_close(c);
        assert_true(i == 2 ? !warned[0] : strstr(warned, "iter_10000001") && strstr(warned, "instead"));
        assert_int_equal(times(warned, "iter_10000001/shard_00000.safetensors: block"), 2 - i); /* once each time */
        tx_str s = read_file(path);
        s.data[s.len / 2] ^= 4;
        write_file(path, s.data, s.len);
        tx_str_free(&s);
    }
    ASSERT_FAILS(tx_checkpoint_open_newest_good(&c, scratch_dir, &tx_comm_self), TX_ERR_FORMAT,
                 "iter_10000001/shard_00000"); /* the first */
    ASSERT_FAILS(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self), TX_ERR_FORMAT, "iter_10000001/shard_00000");
    for (int i = 0; i < 3; i++) model_destroy(&m[i]);
}

/* `latest` is torn, or names what is gone; the newest folder has lost its manifest. */
static void falls_back_from_a_bad_latest(void **state)
{
    (void)state;
    static const char *const latest[] = { "", "iter_", "iter_0000003", "iter_0000009\n", "\n\n" };
    model m[3];
    tx_checkpoint *c;
    for (int i = 0; i < 3; i++) {
        model_create(&m[i], 1, 8, 50, i + 1);
        ASSERT_OK(model_save(&m[i], scratch_dir, 3 + i, 1));
    }
    ASSERT_OK(tx_remove_tree(in_scratch("iter_0000005/manifest.json")));
    for (size_t i = 0; i < sizeof latest / sizeof *latest; i++) {
        write_file(in_scratch("latest"), latest[i], strlen(latest[i]));
        assert_true(tx_checkpoint_is_any_in(scratch_dir));
        ASSERT_FAILS(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self), TX_ERR_FORMAT, "latest");
        ASSERT_OK(tx_checkpoint_open_newest_good(&c, scratch_dir, &tx_comm_self));
        assert_int_equal(tx_checkpoint_state(c)->iteration, 4);
        tx_checkpoint_close(c);
    }
    ASSERT_OK(tx_remove_tree(in_scratch("iter_0000003")));
    ASSERT_OK(tx_remove_tree(in_scratch("iter_0000004")));
    assert_false(tx_checkpoint_is_any_in(scratch_dir));
    assert_false(tx_checkpoint_is_any_in(in_scratch("none")));
    for (int i = 0; i < 3; i++) model_destroy(&m[i]);
}

static void latest_missing_takes_newest(void **state)
{
    (void)state;
    model m;
    tx_checkpoint *c;
    model_create(&m, 1, 8, 50, 1);
    ASSERT_OK(model_save(&m, scratch_dir, 9999999, 1));
    ASSERT_OK(model_save(&m, scratch_dir, 10000000, 1));
    ASSERT_OK(tx_remove_tree(in_scratch("latest")));
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
    assert_int_equal(tx_checkpoint_state(c)->iteration, 10000000);
    ASSERT_CONTAINS(warned, "taking its newest");
    tx_checkpoint_close(c);
    model_destroy(&m);
}

/* Whoever goes back writes an older one's name into it; so does a flipped bit. */
static void latest_names_an_older_one(void **state)
{
    (void)state;
    model m;
    tx_checkpoint *c;
    model_create(&m, 1, 8, 50, 1);
    for (int i = 1; i <= 3; i++) ASSERT_OK(model_save(&m, scratch_dir, i, 1));
    write_file(in_scratch("latest"), "iter_0000002\n", 13);
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
    assert_int_equal(tx_checkpoint_state(c)->iteration, 2);
    ASSERT_CONTAINS(warned, "latest names iteration 2, which is taken, though iteration 3 is there");
    tx_checkpoint_close(c);
    model_destroy(&m);
}

static void another_shape(void **state)
{
    (void)state;
    model saved, wide, deep;
    tx_checkpoint *c;
    model_create(&saved, 3, 8, 50, 1);
    model_create(&wide, 3, 16, 60, -1);
    model_create(&deep, 2, 8, 50, 1);
    ASSERT_OK(model_save(&saved, scratch_dir, 1, 1));
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
    ASSERT_FAILS_LINES(tx_checkpoint_read(c, &wide.ps, NULL, ALL_PARTS(wide)), TX_ERR_SHAPE, "another shape");
    ASSERT_CONTAINS(tx_last_error(), "model.layers.*.word_embeddings.weight  [50,8]             [60,16]  x3");
    ASSERT_CONTAINS(tx_last_error(), "model.layers.*.dense.weight            [24,8]             [48,16]  x3");
    ASSERT_CONTAINS(tx_last_error(), "model.layers.*.dense.bias              [24]               [48]  x3");
    assert_null(strstr(tx_last_error(), "exp_avg"));
    assert_true(isnan(wide.buf[0][0])); /* untouched */
    float before = deep.buf[0][0];
    deep.buf[0][0] = 12345;
    ASSERT_FAILS_LINES(tx_checkpoint_read(c, &deep.ps, NULL, WEIGHTS(deep.buf[0])), TX_ERR_SHAPE,
                       "[24,8]             absent");
    assert_true(deep.buf[0][0] == 12345);
    deep.buf[0][0] = before;
    tx_checkpoint_close(c);
    ASSERT_OK(model_save(&deep, scratch_dir, 2, 1));
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
    ASSERT_FAILS_LINES(tx_checkpoint_read(c, &saved.ps, NULL, WEIGHTS(saved.buf[0])), TX_ERR_SHAPE,
                       "absent             [24,8]");
    tx_checkpoint_close(c);
    model_destroy(&saved);
    model_destroy(&wide);
    model_destroy(&deep);
}

/* Many different rows: the error still ends in an orderly way. */
static void more_differences_than_room(void **state)
{
    (void)state;
    static char name[300][32];
    tx_param_decl decl[300];
    tx_params ps = { 0 };
    tx_dims d = { .h = 4 };
    model m;
    float buf[4800];
    tx_checkpoint *c;
    for (int i = 0; i < 300; i++) {
        snprintf(name[i], sizeof name[i], "part%d.weight", i);
        decl[i] = (tx_param_decl){ name[i], "h", TX_INIT_ZERO, TX_DECAY, TX_ADDS, 0, 0 };
    }
    ASSERT_OK(tx_params_declare(&ps, "", decl, 300, NULL, &d));
    model_create(&m, 1, 8, 50, 1);
    ASSERT_OK(model_save(&m, scratch_dir, 1, 1));
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
    ASSERT_FAILS_LINES(tx_checkpoint_read(c, &ps, NULL, WEIGHTS(buf)), TX_ERR_SHAPE, "part0.weight");
    const char *more = strstr(tx_last_error(), "\n  and ");
    assert_non_null(more);
    ASSERT_CONTAINS(more, " more");
    tx_checkpoint_close(c);
    model_destroy(&m);
    tx_params_deinit(&ps);
}

static void optimizer_state_is_optional_but_not_silently(void **state)
{
    (void)state;
    model a, b;
    tx_checkpoint *c;
    model_create(&a, 1, 8, 50, 1);
    model_create(&b, 1, 8, 50, -1);
    ASSERT_OK(model_save(&a, scratch_dir, 1, 0));
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
    ASSERT_FAILS(tx_checkpoint_read(c, &b.ps, NULL, ALL_PARTS(b)), TX_ERR_NOTFOUND, "--no-load-optim");
    assert_true(isnan(b.buf[0][0]));
    ASSERT_OK(tx_checkpoint_read(c, &b.ps, NULL, WEIGHTS(b.buf[0])));
    assert_same_numbers(&a, &b, 1);
    tx_checkpoint_close(c);
    ASSERT_OK(model_save(&a, scratch_dir, 2, 1));
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
    const tx_ckpt_part sgd[] = { whole_part(TX_CKPT_MODEL, b.buf[0]), whole_part("momentum_buffer", b.buf[1]) };
    ASSERT_FAILS(tx_checkpoint_read(c, &b.ps, NULL, sgd, 2), TX_ERR_NOTFOUND,
                 "holds the state of another optimizer (there is no momentum_buffer)");
    /* Lion's is the first of Adam's two; a name is not taken for the beginning of another */
    const tx_ckpt_part lion[] = { whole_part(TX_CKPT_MODEL, b.buf[0]), whole_part("exp_avg", b.buf[1]) };
    ASSERT_FAILS(tx_checkpoint_read(c, &b.ps, NULL, lion, 2), TX_ERR_NOTFOUND,
                 "holds the state of another optimizer (there is exp_avg_sq, too)");
    tx_checkpoint_close(c);
    model_destroy(&a);
    model_destroy(&b);
}

/* A buffer of some parameters, of a checkpoint that has all: Muon's second one, as it was; and of one that has these.
 */
static void part_of_some_parameters(void **state)
{
    (void)state;
    model a, b;
    tx_checkpoint *c;
    model_create(&a, 2, 8, 50, 1);
    model_create(&b, 2, 8, 50, -1);
    tx_param *bias = &b.ps.param[5];
    tx_fragment only = { .row = 0, .numel = bias->numel };
    tx_params rows = { .param = bias, .n = 1 };
    tx_fragments kept = { .fragment = &only, .n = 1, .numel = bias->numel };
    tx_ckpt_part part[] = { whole_part(TX_CKPT_MODEL, b.buf[0]),
                            whole_part("exp_avg", b.buf[1]),
                            { .name = "exp_avg_sq", .flat = b.buf[2], .rows = &rows, .kept = &kept } };
    ASSERT_OK(model_save(&a, scratch_dir, 1, 1));
    for (int again = 0; again < 2; again++) {
        ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
        ASSERT_OK(tx_checkpoint_read(c, &b.ps, NULL, part, 3));
        assert_same_numbers(&a, &b, 2);
        assert_memory_equal(b.buf[2], a.buf[2] + bias->offset, (size_t)bias->numel * sizeof(float));
        assert_true(isnan(b.buf[2][bias->numel]));
        tx_param tensor;
        assert_int_equal(tx_checkpoint_tensor(c, "exp_avg_sq", &b.ps.param[0], &tensor), !again);
        tx_checkpoint_close(c);
        model_fill(&b, -1);
        if (again) break;
        part[0].flat = a.buf[0];
        part[1].flat = a.buf[1];
        part[2].flat = a.buf[2] + bias->offset;
        const tx_ckpt_state now = { .iteration = 2 };
        json_t *config = json_object();
        ASSERT_OK(tx_checkpoint_save(&(tx_ckpt_save_args){ .dir = scratch_dir,
                                                           .state = &now,
                                                           .config = config,
                                                           .ps = &a.ps,
                                                           .part = part,
                                                           .n_parts = 3,
                                                           .group = &tx_comm_self }));
        json_decref(config);
        part[0].flat = b.buf[0];
        part[1].flat = b.buf[1];
        part[2].flat = b.buf[2];
    }
    /* all parameters are asked for, of which the checkpoint has one's */
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
    ASSERT_FAILS_LINES(tx_checkpoint_read(c, &b.ps, NULL, ALL_PARTS(b)), TX_ERR_SHAPE,
                       "exp_avg_sq.layers.*.dense.weight");
    tx_checkpoint_close(c);
    model_destroy(&a);
    model_destroy(&b);
}

static void folder_of_another_name(void **state)
{
    (void)state;
    model m;
    tx_checkpoint *c;
    model_create(&m, 1, 8, 50, 1);
    ASSERT_OK(model_save(&m, scratch_dir, 10, 1));
    assert_int_equal(rename(in_scratch("iter_0000010"), in_scratch("iter_0000011")), 0);
    ASSERT_FAILS(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self), TX_ERR_FORMAT,
                 "names iter_0000010, where there is no manifest.json");
    write_text(in_scratch("latest"), "iter_0000011\n");
    ASSERT_FAILS(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self), TX_ERR_FORMAT, "holds iteration 10");
    assert_int_equal(rename(in_scratch("iter_0000011"), in_scratch("best")), 0);
    ASSERT_OK(tx_checkpoint_open(&c, in_scratch("best"), &tx_comm_self)); /* given by hand, the name does not matter */
    tx_checkpoint_close(c);
    ASSERT_FAILS(tx_checkpoint_open(&c, in_scratch("absent"), &tx_comm_self), TX_ERR_NOTFOUND, "absent");
    model_destroy(&m);
}

/* ---- manifests by hand ---- */

/* Writes scratch/hand/manifest.json with a good hash around `tensors` and a shard of that name. */
static void write_manifest(const char *fields)
{
    tx_str s = { 0 };
    ASSERT_OK(tx_make_dirs(in_scratch("hand")));
    ASSERT_OK(tx_str_puts(&s, fields));
    XXH128_hash_t h = XXH3_128bits(s.data, s.len);
    s.len--;
    ASSERT_OK(tx_str_printf(&s, ",\"hash\":\"%016llx%016llx\"}\n", (unsigned long long)h.high64,
                            (unsigned long long)h.low64));
    write_file(in_scratch("hand/manifest.json"), s.data, s.len);
    tx_str_free(&s);
}

/* A shard with one fp32 matrix; values count up from `first`. Returns its manifest entry. */
static const char *write_shard(const char *file, const char *key, int64_t rows, int64_t cols, float first)
{
    static char entry[4][200];
    static int next;
    char *text = entry[next++ % 4];
    tx_writer w;
    tx_st_writer st;
    tx_st_spec spec = { key, TX_ST_F32, 2, { rows, cols } };
    ASSERT_OK(tx_make_dirs(in_scratch("hand")));
    const char *path = in_scratch("hand/%s", file);
    ASSERT_OK(tx_writer_open(&w, path));
    ASSERT_OK(tx_st_writer_begin(&st, &w, &spec, 1, NULL, NULL));
    for (int64_t i = 0; i < rows * cols; i++) {
        float x = first + (float)i;
        ASSERT_OK(tx_st_writer_put(&st, &x, 4));
    }
    tx_st_writer_end(&st);
    ASSERT_OK(tx_writer_commit(&w));
    tx_str s = read_file(path);
    snprintf(text, sizeof entry[0], "\"%s\":{\"block_bytes\":1048576,\"blocks\":[\"%016llx\"],\"bytes\":%zu}", file,
             (unsigned long long)XXH3_64bits(s.data, s.len), s.len);
    tx_str_free(&s);
    return text;
}

#define STATE_OF(iteration, seed)                                                                       \
    "\"state\":{\"consumed_train_samples\":0,\"consumed_train_tokens\":0,\"consumed_valid_samples\":0," \
    "\"iteration\":" iteration ",\"optim_step\":0,\"schedule_samples\":0,\"schedule_tokens\":0,"        \
    "\"schedule_warmup_tokens\":0,\"seed\":\"" seed "\",\"skipped\":0,\"vocab_size\":0}"
#define STATE STATE_OF("5", "1")
#define HEAD  "{\"config\":{},\"format\":\"triax checkpoint 1\","

/* A matrix [4,6] that four ranks wrote: two of the left columns by rows, the right ones in one piece, one bottom
 * corner. */
static void pieces_of_many_ranks(void **state)
{
    (void)state;
    tx_str s = { 0 };
    ASSERT_OK(tx_str_printf(
        &s,
        HEAD "\"shards\":{%s,%s,%s}," STATE ",\"tensors\":{\"model.w\":{\"dtype\":\"F32\",\"shape\":[4,6],"
             "\"pieces\":[{\"key\":\"w.0\",\"shape\":[3,2],\"shard\":\"a.safetensors\",\"start\":[0,0]},"
             "{\"key\":\"w.1\",\"shape\":[4,4],\"shard\":\"b.safetensors\",\"start\":[0,2]},"
             "{\"key\":\"w.2\",\"shape\":[1,2],\"shard\":\"c.safetensors\",\"start\":[3,0]}]}}}",
        write_shard("a.safetensors", "w.0", 3, 2, 0), write_shard("b.safetensors", "w.1", 4, 4, 100),
        write_shard("c.safetensors", "w.2", 1, 2, 200)));
    write_manifest(s.data);
    tx_str_free(&s);
    tx_checkpoint *c;
    tx_params ps = { 0 };
    tx_param_decl decl = { "w", "f,h", TX_INIT_ZERO, TX_DECAY, TX_ADDS, 0, 0 };
    tx_dims d = { .h = 6, .f = 4 };
    float w[32];
    ASSERT_OK(tx_params_declare(&ps, "", &decl, 1, NULL, &d));
    ASSERT_OK(tx_checkpoint_open(&c, in_scratch("hand"), &tx_comm_self));
    ASSERT_OK(tx_checkpoint_read(c, &ps, NULL, WEIGHTS(w)));
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 6; k++)
            assert_true(w[r * 6 + k] == (float)(k >= 2 ? 100 + r * 4 + k - 2 : r == 3 ? 200 + k : r * 2 + k));
    tx_checkpoint_close(c);
    tx_params_deinit(&ps);
}

#define PIECE(shape, start, shard, key) \
    "{\"key\":\"" key "\",\"shape\":" shape ",\"shard\":\"" shard "\",\"start\":" start "}"
#define TENSOR(shape, pieces) "\"model.w\":{\"dtype\":\"F32\",\"pieces\":[" pieces "],\"shape\":" shape "}"

static void hostile_manifests(void **state)
{
    (void)state;
    static const struct {
        const char *tensors, *message;
    } bad[] = {
        { TENSOR("[4,6]", PIECE("[4,5]", "[0,0]", "a", "w")), "leave a part out" },
        { TENSOR("[4,6]", PIECE("[4,6]", "[0,0]", "a", "w") "," PIECE("[1,1]", "[2,2]", "a", "w")), "overlap" },
        { TENSOR("[4,6]", PIECE("[4,6]", "[0,1]", "a", "w")), "a piece" },
        { TENSOR("[4,6]", PIECE("[4,6]", "[5,0]", "a", "w")), "a piece" },
        { TENSOR("[4,6]", PIECE("[4,6]", "[9223372036854775807,0]", "a", "w")), "a piece" },
        { TENSOR("[4,6]", PIECE("[9223372036854775807,6]", "[1,0]", "a", "w")), "a piece" },
        { TENSOR("[4,6]", PIECE("[4,0]", "[0,0]", "a", "w")), "a piece" },
        { TENSOR("[4,6]", PIECE("[24]", "[0]", "a", "w")), "a piece" },
        { TENSOR("[4,6]", PIECE("[4,6]", "[0,-1]", "a", "w")), "a piece" },
        { TENSOR("[4,6]", PIECE("[4,6]", "[0,0]", "b", "w")), "a piece" },
        { TENSOR("[4,6]", PIECE("[4,6]", "[0,0]", "../a", "w")), "a piece" },
        { TENSOR("[4,6]", PIECE("[4,6]", "[0,0]", "a", "v")), "holds no tensor v" },
        { TENSOR("[6,4]", PIECE("[6,4]", "[0,0]", "a", "w")), "holds no tensor w" },
        { TENSOR("[24]", PIECE("[24]", "[0]", "a", "w")), "holds no tensor w" },
        { TENSOR("[4,6]", ""), "number of pieces" },
        { TENSOR("[4,6,1]", PIECE("[4,6,1]", "[0,0,0]", "a", "w")), "\"tensors\"" },
        { TENSOR("[]", PIECE("[]", "[]", "a", "w")), "\"tensors\"" },
        { TENSOR("[4294967296,4294967296]", PIECE("[4,6]", "[0,0]", "a", "w")), "\"tensors\"" },
        { TENSOR("[0,6]", PIECE("[0,6]", "[0,0]", "a", "w")), "\"tensors\"" },
        { "\"model.w\":{\"dtype\":\"F64\",\"pieces\":[],\"shape\":[1]}", "\"tensors\"" },
        { "\"model.w\":7", "\"tensors\"" },
        { TENSOR("[4,6]", PIECE("[4,6]", "[0,0]", "a", "w")) "," TENSOR("[4,6]", PIECE("[4,6]", "[0,0]", "a", "w")),
          "is given twice" },
    };
    const char *entry = write_shard("a", "w", 4, 6, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_str s = { 0 };
        tx_checkpoint *c = NULL;
        ASSERT_OK(tx_str_printf(&s, HEAD "\"shards\":{%s}," STATE ",\"tensors\":{%s}}", entry, bad[i].tensors));
        write_manifest(s.data);
        tx_status st = tx_checkpoint_open(&c, in_scratch("hand"), &tx_comm_self);
        if (st != TX_ERR_FORMAT || !strstr(tx_last_error(), bad[i].message))
            fail_msg("%s: %d: %s", s.data, st, tx_last_error());
        tx_str_free(&s);
    }
}

static void hostile_fields(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        tx_status status;
    } bad[] = {
        { "{\"config\":{},\"format\":\"triax checkpoint 2\",\"shards\":{}," STATE ",\"tensors\":{}}",
          "triax checkpoint 2", TX_ERR_UNSUPPORTED },
        { "{\"config\":{},\"shards\":{}," STATE ",\"tensors\":{}}", "format", TX_ERR_UNSUPPORTED },
        { "{\"config\":[],\"format\":\"triax checkpoint 1\",\"shards\":{}," STATE ",\"tensors\":{}}", "list of fields",
          TX_ERR_FORMAT },
        { HEAD "\"more\":1,\"shards\":{}," STATE ",\"tensors\":{}}", "list of fields", TX_ERR_FORMAT },
        { HEAD "\"shards\":{},\"state\":{},\"tensors\":{}}", "\"state\"", TX_ERR_FORMAT },
        { HEAD "\"shards\":{}," STATE_OF("-5", "1") ",\"tensors\":{}}", "\"state\"", TX_ERR_FORMAT },
        { HEAD "\"shards\":{}," STATE_OF("5.0", "1") ",\"tensors\":{}}", "\"state\"", TX_ERR_FORMAT },
        { HEAD "\"shards\":{}," STATE_OF("5", "18446744073709551616") ",\"tensors\":{}}", "\"state\"", TX_ERR_FORMAT },
        { HEAD "\"shards\":{}," STATE_OF("5", "01") ",\"tensors\":{}}", "\"state\"", TX_ERR_FORMAT },
        { HEAD "\"shards\":{\"a\":{\"block_bytes\":1048576,\"blocks\":[],\"bytes\":1}}," STATE ",\"tensors\":{}}",
          "\"shards\"", TX_ERR_FORMAT },
        { HEAD "\"shards\":{\"a\":{\"block_bytes\":1048576,\"blocks\":[],\"bytes\":9223372036854775807}}," STATE
               ",\"tensors\":{}}",
          "\"shards\"", TX_ERR_FORMAT },
        { HEAD "\"shards\":{\"a\":{\"block_bytes\":0,\"blocks\":[],\"bytes\":0}}," STATE ",\"tensors\":{}}",
          "\"shards\"", TX_ERR_FORMAT },
        { HEAD "\"shards\":{\"../a\":{\"block_bytes\":1048576,\"blocks\":[],\"bytes\":0}}," STATE ",\"tensors\":{}}",
          "\"shards\"", TX_ERR_FORMAT },
        { HEAD "\"shards\":{\"a\":{\"block_bytes\":1048576,\"blocks\":[\"00\"],\"bytes\":1}}," STATE ",\"tensors\":{}}",
          "checksum", TX_ERR_FORMAT },
        { HEAD "\"shards\":[]," STATE ",\"tensors\":[1]}", "its list", TX_ERR_FORMAT },
        { "{\"config\":}", "not valid JSON", TX_ERR_FORMAT },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_checkpoint *c = NULL;
        write_manifest(bad[i].text);
        tx_status st = tx_checkpoint_open(&c, in_scratch("hand"), &tx_comm_self);
        if (st != bad[i].status || !strstr(tx_last_error(), bad[i].message))
            fail_msg("%s: %d: %s", bad[i].text, st, tx_last_error());
    }
}

/* Any tool can check the hash: it is that of the compact, sorted text of everything else. */
static void hash_is_of_the_canonical_text(void **state)
{
    (void)state;
    model m;
    char hex[40];
    model_create(&m, 2, 8, 50, 1);
    ASSERT_OK(model_save(&m, scratch_dir, 10, 1));
    tx_str s = read_file(in_scratch("iter_0000010/manifest.json"));
    json_t *root = json_loadb(s.data, s.len, 0, NULL);
    const char *hash = json_string_value(json_object_get(root, "hash"));
    assert_non_null(hash);
    json_t *rest = json_copy(root);
    json_object_del(rest, "hash");
    char *text = json_dumps(rest, JSON_SORT_KEYS | JSON_COMPACT);
    XXH128_hash_t h = XXH3_128bits(text, strlen(text));
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    assert_string_equal(hash, hex);
    free(text);
    json_decref(rest);
    json_decref(root);
    tx_str_free(&s);
    model_destroy(&m);
}

/* Saving and loading with the N-th allocation failing, all N: said, nothing leaked, and the old checkpoint stays. */
static void out_of_memory(void **state)
{
    (void)state;
    model a, b;
    model_create(&a, 1, 8, 50, 1);
    model_create(&b, 1, 8, 50, -1);
    ASSERT_OK(model_save(&a, scratch_dir, 1, 1));
    int n = 0;
    for (tx_status st = TX_ERR_NOMEM; st; n++) {
        tx_checkpoint *c = NULL;
        allocation_fails_at(n);
        st = tx_checkpoint_open(&c, scratch_dir, &tx_comm_self);
        assert_true(st == TX_OK || st == TX_ERR_NOMEM);
        tx_checkpoint_close(c);
    }
    assert_true(n > 10);
    n = 0;
    for (tx_status st = TX_ERR_NOMEM; st; n++) {
        tx_checkpoint *c = NULL;
        allocation_fails_at(n);
        st = model_save(&a, scratch_dir, 2, 1);
        allocations_succeed();
        assert_true(st == TX_OK || st == TX_ERR_NOMEM);
        ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
        ASSERT_OK(tx_checkpoint_read(c, &b.ps, NULL, ALL_PARTS(b)));
        assert_same_numbers(&a, &b, 3);
        tx_checkpoint_close(c);
    }
    assert_true(n > 10);
    model_destroy(&a);
    model_destroy(&b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_flipped_bit_is_found),
        TEST(damage_names_the_block),
        TEST(falls_back_when_told_to),
        TEST(falls_back_from_a_bad_latest),
        TEST(latest_missing_takes_newest),
        TEST(latest_names_an_older_one),
        TEST(another_shape),
        TEST(more_differences_than_room),
        TEST(folder_of_another_name),
        TEST(optimizer_state_is_optional_but_not_silently),
        TEST(part_of_some_parameters),
        TEST(pieces_of_many_ranks),
        TEST(hostile_manifests),
        TEST(hostile_fields),
        TEST(hash_is_of_the_canonical_text),
        TEST(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
