/* labels: golden
 * Folders that Megatron, DeepSpeed and transformers wrote (data/upstream/README.md): every weight and moment is what
 * their programs had in memory, bit for bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "convert/shards.h"
#include "convert/source.h"
#include "convert/upstream.h"
#include "support.h"
#include "triax/jobs.h"

#define UPSTREAM "upstream/"

typedef struct opened {
    tx_source src;
    tx_config *cfg;
    tx_model *m;
    float *whole;
} opened;

static void open_at(opened *o, const char *dir)
{
    int64_t largest = 0;
    *o = (opened){ .cfg = NULL };
    ASSERT_OK(tx_source_open(&o->src, dir, NULL, &tx_comm_self));
    ASSERT_OK(tx_config_parse_string(&o->cfg, "convert", "--to native a b"));
    ASSERT_OK(tx_source_options(&o->src, o->cfg, false));
    if (!o->cfg->seq_length) o->cfg->seq_length = o->cfg->max_position_embeddings;
    ASSERT_OK(tx_model_type_of(o->cfg)->create(&o->m, o->cfg, o->src.vocab_size, NULL));
    if (o->src.type->check) ASSERT_OK(o->src.type->check(&o->src, o->m));
    for (int i = 0; i < o->m->params.n; i++)
        if (o->m->params.param[i].numel > largest) largest = o->m->params.param[i].numel;
    ASSERT_OK(tx_alloc(&o->whole, (size_t)largest, sizeof *o->whole, "a tensor"));
}

static void open_folder(opened *o, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, UPSTREAM "%s", name);
    open_at(o, data_path(path));
}

static void close_folder(opened *o)
{
    tx_free(o->whole);
    o->m->type->destroy(o->m);
    tx_config_free(o->cfg);
    tx_source_close(&o->src);
}

/* Their name of a part's parameter: "exp_avg.language_model.encoder. ...". A BERT's heads stand beside it. */
static const tx_st_tensor *expected(const tx_safetensors *f, const char *part, const char *name)
{
    char theirs[256];
    bool head = !strncmp(name, "lm_head.", 8) || !strncmp(name, "binary_head.", 12);
    snprintf(theirs, sizeof theirs, "%s%s%s%s", strcmp(part, TX_CKPT_MODEL) ? part : "",
             strcmp(part, TX_CKPT_MODEL) ? "." : "", head ? "" : "language_model.", name);
    return tx_safetensors_find(f, theirs);
}

/* Of as many rows as both have: a universal checkpoint has lost those that pad. */
static void compare_param(opened *o, const tx_safetensors *f, int part, const tx_param *p)
{
    const tx_st_tensor *t = expected(f, o->src.part[part], p->name);
    if (!t) fail_msg("no %s of %s", o->src.part[part], p->name);
    ASSERT_OK(tx_source_read_whole(&o->src, o->m, part, p, o->whole));
    assert_int_equal(t->n_dims, p->n_dims);
    int64_t width = p->n_dims == 2 ? p->whole[1] : 1, rows = t->dim[0];
    if (p->n_dims == 2) assert_int_equal(t->dim[1], width);
    if (o->src.type == &tx_source_universal && rows == 512) rows = 509;
    if (memcmp(o->whole, t->data, (size_t)(rows * width) * sizeof(float))) fail_msg("%s differs", p->name);
}

static void compare_all(const char *name, const char *of, const char *type, int parts, int64_t step)
{
    opened o;
    tx_safetensors *f;
    char path[512];
    open_folder(&o, name);
    snprintf(path, sizeof path, UPSTREAM "%s/step4.safetensors", of);
    ASSERT_OK(tx_safetensors_open(&f, data_path(path)));
    assert_string_equal(tx_checkpoint_format_word(o.src.type->format), type);
    assert_int_equal(o.src.n_parts, parts);
    bool moments = parts > 1 && expected(f, "exp_avg", o.m->params.param[0].name); /* not kept of every folder */
    for (int part = 0; part < (moments ? parts : 1); part++)
        for (int i = 0; i < o.m->params.n; i++) compare_param(&o, f, part, &o.m->params.param[i]);
    assert_int_equal(o.src.state.optim_step, step);
    tx_safetensors_close(f);
    close_folder(&o);
}

static void deepspeed(void **state)
{
    (void)state;
    compare_all("ds_z1_pp2tp2_bf16", "ds_z1_pp2tp2_bf16", "deepspeed", 3, 4);
    compare_all("ds_z2_dp3_bf16_rr", "ds_z2_dp3_bf16_rr", "deepspeed", 3, 4);
    compare_all("ds_z3_tp2dp2_fp32", "ds_z3_tp2dp2_fp32", "deepspeed", 3, 4);
    compare_all("llama_z1_tp2_fp32", "llama_z1_tp2_fp32", "deepspeed", 3, 4);
}

static void universal(void **state)
{
    (void)state;
    compare_all("universal_v509_z1_tp2_fp32", "universal_v509_z1_tp2_fp32", "universal", 3, 4);
    compare_all("universal_z3_dp2_fp32", "universal_z3_dp2_fp32", "universal", 3, 4);
}

static void torch_dist(void **state)
{
    (void)state;
    compare_all("torch_dist_llama_tp2", "torch_dist_llama_tp2", "torch_dist", 1, 4);
}

static void megatron(void **state)
{
    (void)state;
    compare_all("classic_pp4vp2_fp32", "classic_pp4vp2_fp32", "megatron", 3, 4);
    compare_all("classic_dp2_distopt_bf16", "classic_dp2_distopt_bf16", "megatron", 3, 4);
}

/* Recognised by its parameters, all of which are there. */
static void bert(void **state)
{
    (void)state;
    opened o;
    open_folder(&o, "bert_classic_tp1");
    assert_string_equal(o.m->type->name, "BERT");
    assert_int_equal(o.m->params.n, 38);
    assert_int_equal(o.cfg->bert_binary_head, true);
    assert_int_equal(o.cfg->post_layernorm, false);
    close_folder(&o);
    compare_all("bert_classic_tp1", "bert_classic_tp1", "megatron", 3, 4);
}

/* Of parameter p's tensor in a part, which may be one number; what DeepSpeed drops when it loads begins again. */
static void compare_state(opened *o, const tx_safetensors *f, int part, const tx_param *p)
{
    tx_param own;
    assert_true(tx_source_tensor(&o->src, part, p, &own));
    const char *word = o->src.part[part];
    const bool shared = !strcmp(word, "shared_weights"), moved = !strcmp(word, "momentum_accumulator");
    const tx_st_tensor *t = expected(f, shared ? TX_CKPT_MODEL : moved ? "exp_avg" : word, p->name);
    if (!t) fail_msg("no %s of %s", word, p->name);
    ASSERT_OK(tx_source_read_whole(&o->src, o->m, part, &own, o->whole));
    assert_int_equal(t->bytes / sizeof(float), tx_param_whole_numel(&own));
    for (int64_t i = 0; i < tx_param_whole_numel(&own) && moved; i++) assert_true(o->whole[i] == 0);
    if (!moved && memcmp(o->whole, t->data, t->bytes)) fail_msg("%s of %s differs", word, p->name);
}

static void compare_onebit(const char *name, enum tx_optimizer_kind optimizer, int parts, int64_t step)
{
    opened o;
    tx_safetensors *f;
    char path[512];
    open_folder(&o, name);
    snprintf(path, sizeof path, UPSTREAM "%s/step.safetensors", name);
    ASSERT_OK(tx_safetensors_open(&f, data_path(path)));
    assert_int_equal(o.src.optimizer, optimizer);
    assert_int_equal(o.src.n_parts, parts);
    for (int part = 0; part < parts; part++)
        for (int i = 0; i < o.m->params.n; i++) compare_state(&o, f, part, &o.m->params.param[i]);
    assert_int_equal(o.src.state.iteration, 11);
    assert_int_equal(o.src.state.optim_step, step);
    tx_safetensors_close(f);
    close_folder(&o);
}

/* After a freeze: two ranks; tensors and numbers of each; flat groups and a local interval that has not ended. */
static void onebit(void **state)
{
    (void)state;
    compare_onebit("ds_onebit_adam_dp2_fp32", TX_OPTIMIZER_ONEBIT_ADAM, 3, 10);
    compare_onebit("ds_onebit_lamb_fp32", TX_OPTIMIZER_ONEBIT_LAMB, 7, 10);
    compare_onebit("ds_zeroone_fp16", TX_OPTIMIZER_ZEROONE_ADAM, 5, 11);
}

/* No program said how many of its rows pad: they are tokens of the native checkpoint's model. */
static void all_rows_are_tokens(void **state)
{
    (void)state;
    char flags[1024];
    tx_config *cfg;
    opened o;
    snprintf(flags, sizeof flags, "--to native %s %s", data_path(UPSTREAM "ds_zeroone_fp16"), in_scratch("native"));
    ASSERT_OK(tx_config_parse_string(&cfg, "convert", flags));
    ASSERT_OK(tx_convert(cfg));
    tx_config_free(cfg);
    open_at(&o, in_scratch("native"));
    assert_int_equal(o.src.state.vocab_size, 8);
    close_folder(&o);
}

/* The run of that folder goes on to step 8, where Megatron's own has these weights. */
static void bert_goes_on(void **state)
{
    (void)state;
    char flags[8192];
    tx_config *cfg;
    opened o;
    tx_safetensors *f;
    snprintf(flags, sizeof flags,
             "--load %s --save %s --data-path %s --vocab-file %s --split 949,50,1 --seq-length 64 --micro-batch-size 2 "
             "--global-batch-size 8 --train-iters 20 --exit-interval 8 --lr 1e-3 --min-lr 1e-5 --lr-decay-style linear "
             "--lr-warmup-fraction 0.1 --weight-decay 0.01 --hidden-dropout 0 --attention-dropout 0 --eval-iters 0 "
             "--save-interval 8 --threads 1",
             data_path(UPSTREAM "bert_classic_tp1"), in_scratch("run"), data_path("dataset/tinybert_text_document"),
             data_path("tiny/tiny-bert-vocab.txt"));
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-bert", flags));
    ASSERT_OK(tx_pretrain(cfg));
    tx_config_free(cfg);
    open_at(&o, in_scratch("run"));
    assert_int_equal(o.src.state.iteration, 8);
    ASSERT_OK(tx_safetensors_open(&f, data_path(UPSTREAM "bert_classic_tp1/step8.safetensors")));
    for (int i = 0; i < o.m->params.n; i++) {
        const tx_param *p = &o.m->params.param[i];
        const tx_st_tensor *t = expected(f, TX_CKPT_MODEL, p->name);
        if (!t) fail_msg("no %s", p->name);
        ASSERT_OK(tx_source_read_whole(&o.src, o.m, 0, p, o.whole));
        assert_int_equal(t->bytes / sizeof(float), tx_param_whole_numel(p));
        for (int64_t k = 0; k < tx_param_whole_numel(p); k++) {
            float want;
            memcpy(&want, t->data + (size_t)k * sizeof want, sizeof want);
            ASSERT_NEAR(o.whole[k], want, 2e-5, p->name);
        }
    }
    tx_safetensors_close(f);
    close_folder(&o);
}

/* Rows of query_key_value in the order of version 1, names as they were. */
static void old_versions(void **state)
{
    (void)state;
    compare_all("legacy_v1", "ds_z3_tp2dp2_fp32", "megatron", 1, 4);
}

/* Version 0, two tensor ranks, fp16, the container before zip, release: no run. */
static void release(void **state)
{
    (void)state;
    opened o;
    tx_safetensors *f;
    open_folder(&o, "legacy_v0");
    ASSERT_OK(tx_safetensors_open(&f, data_path(UPSTREAM "ds_z3_tp2dp2_fp32/step4.safetensors")));
    for (int i = 0; i < o.m->params.n; i++) {
        const tx_param *p = &o.m->params.param[i];
        const tx_st_tensor *t = expected(f, TX_CKPT_MODEL, p->name);
        ASSERT_OK(tx_source_read_whole(&o.src, o.m, 0, p, o.whole));
        for (int64_t k = 0; k < (int64_t)(t->bytes / sizeof(float)); k++) {
            float want;
            memcpy(&want, t->data + (size_t)k * sizeof want, sizeof want);
            assert_true(fabsf(o.whole[k] - want) <= fabsf(want) * 0x1p-11f + 0x1p-25f);
        }
    }
    tx_safetensors_close(f);
    close_folder(&o);
}

/* A file that is another run's, or not there. */
static void incomplete(void **state)
{
    (void)state;
    tx_source src;
    char command[1024];
    snprintf(command, sizeof command, "cp -r %s %s", data_path(UPSTREAM "ds_z3_tp2dp2_fp32"), in_scratch("a"));
    assert_int_equal(system(command), 0);
    assert_int_equal(unlink(in_scratch("a/global_step4/zero_pp_rank_1_mp_rank_01_optim_states.pt")), 0);
    ASSERT_FAILS(tx_source_open(&src, in_scratch("a"), NULL, &tx_comm_self), TX_ERR_NOTFOUND,
                 "zero_pp_rank_1_mp_rank_01_optim_states.pt: is missing");
    snprintf(command, sizeof command, "cp -r %s %s", data_path(UPSTREAM "classic_pp4vp2_fp32"), in_scratch("b"));
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "rm -r %s", in_scratch("b/iter_0000004/mp_rank_00_002"));
    assert_int_equal(system(command), 0);
    ASSERT_FAILS(tx_source_open(&src, in_scratch("b"), NULL, &tx_comm_self), TX_ERR_FORMAT, "3 folders mp_rank_");
}

/* So many that comparing each with all would not end: a later one of the same name, part and rank is left out. */
static void many_names(void **state)
{
    (void)state;
    enum { N = 200000 };
    const int64_t dim[1] = { 0 };
    tx__shards s = { .n_tp = 1 };
    bool added;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i++) {
            char name[64];
            snprintf(name, sizeof name, "encoder.layers.%d.x", i / 4);
            ASSERT_OK(tx__shards_add(&s, &(tx__shard_key){ name, i % 2, i / 2 % 2 }, 1, dim, &added));
            assert_int_equal(added, round == 0);
        }
    assert_int_equal(s.n, N);
    ASSERT_OK(tx__shards_sort(&s, "many"));
    assert_non_null(tx__shards_find(&s, "encoder.layers.49999.x", 1, 1));
    assert_null(tx__shards_find(&s, "encoder.layers.50000.x", 0, 0));
    tx__shards_deinit(&s);
}

/* DeepSpeed's own schedule keeps where it stands; one of triax's, in a folder for DeepSpeed, also its numbers and
 * Megatron's schedule, which weight decay follows. */
static void schedules(void **state)
{
    (void)state;
    tx_py_arena *a;
    json_t *run;
    ASSERT_OK(tx_py_arena_create(&a));
    tx_py *scheduler = tx_py_set(a, tx_py_dict(a), "last_batch_iteration", tx_py_of_int(a, 41)), *args = tx_py_dict(a);
    ASSERT_OK(tx__run_of(scheduler, args, NULL, &run));
    const json_t *lr = json_object_get(run, "lr_scheduler");
    assert_int_equal(json_integer_value(json_object_get(lr, "last_batch_iteration")), 41);
    assert_null(json_object_get(lr, "type"));
    assert_null(json_object_get(run, "opt_param_scheduler"));
    json_decref(run);
    tx_py *own = tx_py_set(a, tx_py_dict(a), "last_batch_iteration", tx_py_of_int(a, 41));
    tx_py_set(a, args, "lr_scheduler", tx_py_set(a, own, "type", tx_py_of_str(a, "OneCycle")));
    tx_py_set(a, scheduler, "max_lr", tx_py_of_float(a, 0.5));
    ASSERT_OK(tx__run_of(scheduler, args, NULL, &run));
    lr = json_object_get(run, "lr_scheduler");
    assert_string_equal(json_string_value(json_object_get(lr, "type")), "OneCycle");
    assert_true(json_real_value(json_object_get(json_object_get(run, "opt_param_scheduler"), "max_lr")) == 0.5);
    json_decref(run);
    ASSERT_OK(tx__run_of(tx_py_none(a), args, NULL, &run)); /* an engine without a scheduler: nothing is compared */
    assert_null(json_object_get(run, "opt_param_scheduler"));
    json_decref(run);
    tx_py_arena_destroy(a);
}

/* Args that Megatron Core's program would have written. */
static json_t *options_of(const tx_py *args)
{
    json_t *all = json_object(), *out;
    static const char *const kept[] = { "rope_scaling_type", "rope_scaling_factor", "rope_original_positions",
                                        "yarn_beta_fast",    "rotary_interleaved",  "no_rope_freq" };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) json_object_set_new(all, kept[i], json_null());
    ASSERT_OK(tx__args_to_options(args, "GPT", all, "f.pt", &out));
    json_decref(all);
    return out;
}

static double number_in(const json_t *o, const char *field)
{
    return json_number_value(json_object_get(o, field));
}

static void scaled_positions(void **state)
{
    (void)state;
    tx_py_arena *a;
    ASSERT_OK(tx_py_arena_create(&a));
    tx_py *args = tx_py_set(a, tx_py_dict(a), "num_layers", tx_py_of_int(a, 4));
    tx_py_set(a, args, "position_embedding_type", tx_py_of_str(a, "rope"));
    tx_py_set(a, args, "rope_scaling_factor", tx_py_of_float(a, 8));
    tx_py_set(a, args, "rotary_scaling_factor", tx_py_of_float(a, 1));
    tx_py_set(a, args, "use_rope_scaling", tx_py_of_bool(a, false));
    tx_py_set(a, args, "rotary_seq_len_interpolation_factor", tx_py_none(a));
    tx_py_set(a, args, "no_rope_freq", tx_py_none(a));
    tx_py_set(a, args, "rotary_interleaved", tx_py_of_bool(a, true));
    json_t *o = options_of(args); /* nothing is scaled */
    assert_null(json_object_get(o, "rope_scaling_type"));
    assert_null(json_object_get(o, "rope_scaling_factor"));
    assert_null(json_object_get(o, "no_rope_freq"));
    assert_true(json_is_true(json_object_get(o, "rotary_interleaved")));
    json_decref(o);
    tx_py_set(a, args, "rotary_seq_len_interpolation_factor", tx_py_of_int(a, 2));
    tx_py_set(a, args, "no_rope_freq", tx_py_of_int(a, 4));
    o = options_of(args);
    assert_string_equal(json_string_value(json_object_get(o, "rope_scaling_type")), "linear");
    assert_string_equal(json_string_value(json_object_get(o, "no_rope_freq")), "4");
    assert_true(number_in(o, "rope_scaling_factor") == 2);
    json_decref(o);
    tx_py *list = tx_py_list(a);
    for (int i = 0; i < 4; i++) tx_py_append(a, list, tx_py_of_int(a, i == 2));
    tx_py_set(a, args, "no_rope_freq", list);
    tx_py_set(a, args, "use_rope_scaling", tx_py_of_bool(a, true));
    tx_py_set(a, args, "rotary_seq_len_interpolation_factor", tx_py_none(a));
    o = options_of(args);
    assert_string_equal(json_string_value(json_object_get(o, "rope_scaling_type")), "llama3");
    assert_string_equal(json_string_value(json_object_get(o, "no_rope_freq")), "[0,0,1,0]");
    assert_true(number_in(o, "rope_scaling_factor") == 8);
    json_decref(o);
    tx_py_set(a, args, "position_embedding_type", tx_py_of_str(a, "yarn"));
    tx_py_set(a, args, "rotary_scaling_factor", tx_py_of_float(a, 40));
    tx_py_set(a, args, "yarn_original_max_position_embeddings", tx_py_of_int(a, 512));
    tx_py_set(a, args, "mscale", tx_py_of_float(a, 0.7));
    o = options_of(args);
    assert_string_equal(json_string_value(json_object_get(o, "rope_scaling_type")), "yarn");
    assert_true(json_is_true(json_object_get(o, "use_rotary_position_embeddings")));
    assert_true(number_in(o, "rope_scaling_factor") == 40 && number_in(o, "rope_original_positions") == 512);
    assert_true(number_in(o, "yarn_mscale") == 0.7);
    json_decref(o);
    tx_py_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_names),      cmocka_unit_test(deepspeed),
        cmocka_unit_test(universal),       cmocka_unit_test(torch_dist),
        cmocka_unit_test(megatron),        cmocka_unit_test(bert),
        SCRATCH_TEST(bert_goes_on),        cmocka_unit_test(old_versions),
        cmocka_unit_test(schedules),       SCRATCH_TEST(release),
        SCRATCH_TEST(incomplete),          cmocka_unit_test(onebit),
        SCRATCH_TEST(all_rows_are_tokens), cmocka_unit_test(scaled_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
