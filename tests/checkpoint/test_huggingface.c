/* labels: unit */
/* test_huggingface.c - Hugging Face folders: whole, sharded, broken. */
#include "checkpoint_fixture.h"

#include "checkpoint/huggingface.h"

/* A safetensors file with the given fp32 vectors of length 2. */
static void write_tensors(const char *path, const char *const *name, size_t n)
{
    tx_writer file;
    tx_st_writer w;
    tx_st_spec spec[4];
    for (size_t i = 0; i < n; i++) spec[i] = (tx_st_spec){ name[i], TX_ST_F32, 1, { 2 } };
    ASSERT_OK(tx_writer_open(&file, path));
    ASSERT_OK(tx_st_writer_begin(&w, &file, spec, n, NULL, NULL));
    for (size_t i = 0; i < n; i++) ASSERT_OK(tx_st_writer_put(&w, (float[2]){ (float)i, -1 }, 8));
    tx_st_writer_end(&w);
    ASSERT_OK(tx_writer_commit(&file));
}

/* A source is the numbers themselves. */
static tx_status fetch(void *user, const tx_hf_tensor *t, float *x)
{
    (void)user;
    size_t n = (size_t)t->spec.dim[0] * (size_t)(t->spec.n_dims > 1 ? t->spec.dim[1] : 1);
    memcpy(x, t->source, n * sizeof *x);
    return TX_OK;
}

static void writes_and_reads(void **state)
{
    (void)state;
    static const float w[6] = { 1, 4, 2, 5, 3, 6 }, b[2] = { 7, 8 };
    float x[6];
    tx_hf_tensor t[] = { { { "h.0.attn.c_attn.bias", TX_ST_BF16, 1, { 2 } }, b },
                         { { "h.0.attn.c_attn.weight", TX_ST_F32, 2, { 3, 2 } }, w } };
    json_t *config = json_pack("{s:s, s:i}", "model_type", "gpt2", "n_layer", 1);
    ASSERT_OK(tx_huggingface_write(in_scratch("out/model"), config, &(tx_hf_tensors){ t, 2, fetch, NULL }, 0));
    ASSERT_OK(
        tx_huggingface_write(in_scratch("out/model"), config, &(tx_hf_tensors){ t, 2, fetch, NULL }, 0)); /* replaces */
    tx_huggingface *hf;
    ASSERT_OK(tx_huggingface_open(&hf, in_scratch("out/model")));
    assert_true(json_equal(config, (json_t *)(uintptr_t)tx_huggingface_config(hf)));
    assert_int_equal(tx_huggingface_count(hf), 2);
    assert_string_equal(tx_huggingface_at(hf, 0)->name, "h.0.attn.c_attn.bias");
    const tx_st_tensor *c = tx_huggingface_find(hf, "h.0.attn.c_attn.weight");
    assert_non_null(c);
    assert_null(tx_huggingface_find(hf, "c_attn.weight"));
    ASSERT_OK(tx_st_read_f32(c, x, true));
    assert_memory_equal(x, ((float[6]){ 1, 2, 3, 4, 5, 6 }), sizeof w);
    ASSERT_OK(tx_st_read_f32(c, x, false));
    assert_memory_equal(x, w, sizeof w);
    ASSERT_OK(tx_st_read_f32(tx_huggingface_at(hf, 0), x, false));
    assert_true(x[0] == 7 && x[1] == 8);
    tx_huggingface_close(hf);
    assert_n_files(in_scratch("out/model"), 2);
    write_text(in_scratch("out/model/model.safetensors.index.json"), "{}");
    ASSERT_FAILS(tx_huggingface_write(in_scratch("out/model"), config, &(tx_hf_tensors){ t, 2, fetch, NULL }, 0),
                 TX_ERR_ARG, "another form");
    json_decref(config);
}

/* What cannot be written leaves the model that was there. */
static void failed_write_keeps_the_old(void **state)
{
    (void)state;
    static const float small[1] = { 3 }, big[1] = { 1e6f };
    tx_hf_tensor good = { { "w", TX_ST_F16, 1, { 1 } }, small }, bad = good;
    json_t *config = json_pack("{s:i}", "a", 1), *other = json_pack("{s:i}", "a", 2);
    bad.source = big;
    ASSERT_OK(tx_huggingface_write(scratch_dir, config, &(tx_hf_tensors){ &good, 1, fetch, NULL }, 0));
    ASSERT_FAILS(tx_huggingface_write(scratch_dir, other, &(tx_hf_tensors){ &bad, 1, fetch, NULL }, 0), TX_ERR_NUMERIC,
                 "save as F32");
    tx_huggingface *hf;
    float x;
    ASSERT_OK(tx_huggingface_open(&hf, scratch_dir));
    ASSERT_OK(tx_st_read_f32(tx_huggingface_find(hf, "w"), &x, false));
    assert_true(x == 3 && json_integer_value(json_object_get(tx_huggingface_config(hf), "a")) == 1);
    tx_huggingface_close(hf);
    json_decref(config);
    json_decref(other);
}

static void sharded(void **state)
{
    (void)state;
    tx_huggingface *hf;
    write_text(in_scratch("config.json"), "{}");
    ASSERT_FAILS(tx_huggingface_open(&hf, scratch_dir), TX_ERR_NOTFOUND, "neither");
    write_tensors(in_scratch("model-00001-of-00002.safetensors"), (const char *[]){ "a", "d" }, 2);
    write_tensors(in_scratch("model-00002-of-00002.safetensors"), (const char *[]){ "b", "c" }, 2);
    write_text(in_scratch("model.safetensors.index.json"),
               "{\"metadata\":{\"total_size\":32},\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
               "\"b\":\"model-00002-of-00002.safetensors\",\"c\":\"model-00002-of-00002.safetensors\"}}");
    ASSERT_OK(tx_huggingface_open(&hf, scratch_dir));
    assert_int_equal(tx_huggingface_count(hf), 4); /* d too: not hidden because the index forgot it */
    for (size_t i = 0; i < 4; i++) assert_int_equal(tx_huggingface_at(hf, i)->name[0], 'a' + (int)i);
    float x[2];
    ASSERT_OK(tx_st_read_f32(tx_huggingface_find(hf, "c"), x, false));
    assert_true(x[0] == 1);
    tx_huggingface_close(hf);
}

static void broken_folders(void **state)
{
    (void)state;
    static const struct {
        const char *index, *message;
        tx_status status;
    } bad[] = {
        { "{\"weight_map\":{\"a\":\"../one\"}}", "plain name", TX_ERR_FORMAT },
        { "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "plain name", TX_ERR_FORMAT },
        { "{\"weight_map\":{\"a\":\"..\"}}", "plain name", TX_ERR_FORMAT },
        { "{\"weight_map\":{\"a\":\"\"}}", "plain name", TX_ERR_FORMAT },
        { "{\"weight_map\":{\"a\":7}}", "plain name", TX_ERR_FORMAT },
        { "{\"weight_map\":{\"a\":\"missing\"}}", "missing", TX_ERR_NOTFOUND },
        { "{\"weight_map\":{\"x\":\"one\"}}", "one does not hold tensor x", TX_ERR_FORMAT },
        { "{\"weight_map\":{\"a\":\"one\",\"b\":\"other\"}}", "is also in", TX_ERR_FORMAT },
        { "{\"weight_map\":{\"b\":\"one\",\"c\":\"third\"}}", "one does not hold tensor b", TX_ERR_FORMAT },
        { "{\"weight_map\":{\"a\":\"one\",\"a\":\"one\"}}", "is given twice", TX_ERR_FORMAT },
        { "{\"weight_map\":[]}", "weight_map", TX_ERR_FORMAT },
        { "{}", "weight_map", TX_ERR_FORMAT },
        { "[", "not valid JSON", TX_ERR_FORMAT },
    };
    tx_huggingface *hf = NULL;
    ASSERT_FAILS(tx_huggingface_open(&hf, scratch_dir), TX_ERR_NOTFOUND, "config.json");
    write_text(in_scratch("config.json"), "{");
    ASSERT_FAILS(tx_huggingface_open(&hf, scratch_dir), TX_ERR_FORMAT, "config.json: not valid JSON");
    write_text(in_scratch("config.json"), "{}");
    write_tensors(in_scratch("one"), (const char *[]){ "a" }, 1);
    write_tensors(in_scratch("other"), (const char *[]){ "a", "b" }, 2);
    write_tensors(in_scratch("third"), (const char *[]){ "b", "c" }, 2);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(in_scratch("model.safetensors.index.json"), bad[i].index);
        tx_status st = tx_huggingface_open(&hf, scratch_dir);
        if (st != bad[i].status || !strstr(tx_last_error(), bad[i].message))
            fail_msg("%s: %d: %s", bad[i].index, st, tx_last_error());
    }
    assert_null(hf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(writes_and_reads),
        SCRATCH_TEST(failed_write_keeps_the_old),
        SCRATCH_TEST(sharded),
        SCRATCH_TEST(broken_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
