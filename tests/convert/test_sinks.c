/* labels: unit fault */
/* test_sinks.c - a run's checkpoint written as Megatron, DeepSpeed and universal checkpoints of many layouts, and read
 * back by the sources of those formats: weights, moments and the run's state are the same bits. */
#include "../api/engine_test.h"

#include "backend/tensor.h"
#include "base/half.h"
#include "convert/sink.h"
#include "data/bert_dataset.h"

typedef struct layout {
    const tx_sink_type *to;
    int n_tp, n_pp, n_dp, stage;
    bool pipeline, with_optim;
    tx_st_dtype dtype;
} layout;

#define MODEL_FLAGS "--num-attention-heads 4 --make-vocab-size-divisible-by 96 "

typedef struct family {
    const char *command, *flags;
} family;
static const family gpt2_family = { "pretrain-gpt", "" };

/* A native checkpoint of two steps, opened, and a model with its options. */
typedef struct fixture {
    tx_config *cfg;
    tx_engine *e;
    tx_source src;
    tx_model *m; /* padded for the layout */
    json_t *options;
} fixture;

/* Micro-batch i of padded pairs of segments. */
static void pairs(int32_t *rows, int64_t i)
{
    tx_rng rng = { .seed = 5, .stream = (uint32_t)i };
    memset(rows, 0, (size_t)(B * tx_bert_row_len(S)) * sizeof *rows);
    for (int j = 0; j < B; j++) {
        tx_bert_ids in = tx_bert_ids_of(rows + j * tx_bert_row_len(S), S);
        *in.n_tokens = S - 5 * j;
        *in.is_random = j;
        for (int k = 0; k < S; k++) in.labels[k] = k % 8 == 3 && k < *in.n_tokens ? 7 * k : -1;
        for (int k = 0; k < *in.n_tokens; k++) {
            in.tokens[k] = (int32_t)(509 * tx_rng_uniform(&rng, (uint64_t)(j * S + k)));
            in.types[k] = k > S / 3;
        }
    }
}

static void train_pairs(tx_engine *e, int n)
{
    int32_t rows[B * (3 * S + 2)];
    double loss;
    for (int i = 0; i < 2 * n; i++) {
        pairs(rows, i);
        ASSERT_OK(tx_engine_forward(e, rows, &loss));
        ASSERT_OK(tx_engine_backward(e));
        ASSERT_OK(tx_engine_step(e));
    }
}

static tx_config *config_of(const family *of)
{
    tx_config *cfg;
    char flags[4096], words[1100] = "";
    if (!strcmp(of->command, "pretrain-bert"))
        snprintf(words, sizeof words, "--tokenizer-type BertWordPieceLowerCase --vocab-file %s ",
                 data_path("tiny/tiny-bert-vocab.txt"));
    snprintf(flags, sizeof flags, "%s " MODEL_FLAGS "%s%s", FLAGS, words, of->flags);
    ASSERT_OK(tx_config_parse_string(&cfg, of->command, flags));
    return cfg;
}

static void make_checkpoint(const family *of)
{
    tx_config *cfg = config_of(of);
    tx_engine *e;
    ASSERT_OK(tx_engine_create(&e, cfg, 509));
    if (tx_model_type_of(cfg)->samples->masked)
        train_pairs(e, 2);
    else
        train(e, 2, NULL);
    ASSERT_OK(tx_engine_save_checkpoint(e, in_scratch("native"), NULL, NULL));
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

static void open_fixture(fixture *f, const family *of, int n_tp)
{
    memset(f, 0, sizeof *f);
    f->cfg = config_of(of);
    ASSERT_OK(tx_source_open(&f->src, in_scratch("native"), &tx_source_native, &tx_comm_self));
    ASSERT_OK(f->src.type->options(&f->src, NULL, &f->options));
    f->cfg->make_vocab_size_divisible_by *= n_tp;
    ASSERT_OK(tx_model_type_of(f->cfg)->create(&f->m, f->cfg, 509, NULL));
    f->cfg->make_vocab_size_divisible_by /= n_tp;
}

static void close_fixture(fixture *f)
{
    f->m->type->destroy(f->m);
    json_decref(f->options);
    tx_source_close(&f->src);
    tx_config_free(f->cfg);
}

static tx_conversion conversion(fixture *f, const layout *l, const char *out)
{
    return (tx_conversion){ .src = &f->src,
                            .m = f->m,
                            .cfg = f->cfg,
                            .options = f->options,
                            .out = out,
                            .n_tp = l->n_tp,
                            .n_pp = l->n_pp,
                            .n_dp = l->n_dp,
                            .zero_stage = l->stage,
                            .pipeline = l->pipeline || l->n_pp > 1,
                            .dtype = l->dtype,
                            .with_optim = l->with_optim };
}

static float rounded(float x, tx_st_dtype t)
{
    if (t == TX_ST_BF16) return tx_bf16_to_f32(tx_f32_to_bf16(x));
    return t == TX_ST_F16 ? tx_f16_to_f32(tx_f32_to_f16(x)) : x;
}

/* Each parameter of each part that `back` has. */
static void compare_numbers(fixture *f, tx_source *back, tx_st_dtype weights)
{
    float *x, *y;
    int64_t cap = f->m->vocab_padded * f->m->hidden + f->m->mlp_in * f->m->hidden;
    ASSERT_OK(tx_alloc(&x, (size_t)cap, sizeof *x, "test"));
    ASSERT_OK(tx_alloc(&y, (size_t)cap, sizeof *y, "test"));
    for (int part = 0; part < back->n_parts; part++)
        for (int i = 0; i < f->m->params.n; i++) {
            const tx_param *p = &f->m->params.param[i];
            int64_t n = p->whole[0] * (p->n_dims == 2 ? p->whole[1] : 1);
            assert_string_equal(f->src.part[part], back->part[part]);
            ASSERT_OK(tx_source_read_whole(&f->src, f->m, part, p, x));
            ASSERT_OK(tx_source_read_whole(back, f->m, part, p, y));
            for (int64_t k = 0; k < n && !part; k++) x[k] = rounded(x[k], weights);
            if (memcmp(x, y, (size_t)n * sizeof *x)) fail_msg("%s of %s differs", back->part[part], p->name);
        }
    tx_free(x);
    tx_free(y);
}

static void compare_state(const tx_source *a, const tx_source *b)
{
    const tx_ckpt_state *x = &a->state, *y = &b->state;
    assert_int_equal(x->iteration, y->iteration);
    assert_int_equal(x->consumed_train_samples, y->consumed_train_samples);
    assert_int_equal(x->consumed_valid_samples, y->consumed_valid_samples);
    assert_int_equal(x->consumed_train_tokens, y->consumed_train_tokens);
    assert_int_equal(x->schedule_samples, y->schedule_samples);
    assert_int_equal(x->schedule_tokens, y->schedule_tokens);
    assert_int_equal(x->schedule_warmup_tokens, y->schedule_warmup_tokens);
    assert_int_equal(x->optim_step, y->optim_step);
    assert_int_equal(x->skipped, y->skipped);
    assert_int_equal(x->vocab_size, y->vocab_size);
    assert_true(x->seed == y->seed);
    const json_t *s = json_object_get(a->run, "opt_param_scheduler"),
                 *t = json_object_get(b->run, "opt_param_scheduler");
    char *of_s = json_dumps(s, JSON_SORT_KEYS), *of_t = json_dumps(t, JSON_SORT_KEYS);
    assert_string_equal(of_s, of_t);
    free(of_s);
    free(of_t);
}

/* The options that say what the model is come back, too. */
static void compare_options(const fixture *f, tx_source *back)
{
    static const char *const shape[] = { "num_layers",
                                         "hidden_size",
                                         "num_attention_heads",
                                         "num_key_value_heads",
                                         "ffn_hidden_size",
                                         "swiglu",
                                         "normalization",
                                         "add_bias_linear",
                                         "use_rotary_position_embeddings",
                                         "lr",
                                         "adam_beta2",
                                         "global_batch_size",
                                         "model_type",
                                         "post_layernorm",
                                         "bert_binary_head",
                                         "num_experts",
                                         "topk",
                                         "expert_interval",
                                         "mlp_type",
                                         "disable_moe_token_dropping",
                                         "moe_loss_coeff",
                                         "untie_embeddings_and_output_weights" };
    json_t *got;
    ASSERT_OK(back->type->options(back, f->options, &got));
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        if (!json_equal(json_object_get(got, shape[i]), json_object_get(f->options, shape[i])))
            fail_msg("option %s differs", shape[i]);
    const char *type = json_string_value(json_object_get(got, "position_embedding_type"));
    if (tx_config_positions(f->cfg) == TX_POSITIONS_ALIBI) assert_string_equal(type ? type : "", "alibi");
    json_decref(got);
}

static const tx_source_type *source_of(const layout *l)
{
    return tx_source_type_of(l->to->format);
}

/* How ranks have experts. */
typedef struct expert_layout {
    layout l;
    int n_ep;
    bool split;
} expert_layout;

static void experts_go_through(const family *of, const expert_layout *e)
{
    const layout *l = &e->l;
    fixture f;
    tx_source back;
    const char *out = in_scratch("out");
    open_fixture(&f, of, l->n_tp);
    tx_conversion c = conversion(&f, l, out);
    c.n_ep = e->n_ep;
    c.expert_tensor = e->split;
    ASSERT_OK(l->to->write(&c));
    tx_free(c.whole);
    ASSERT_OK(tx_source_open(&back, out, source_of(l), &tx_comm_self));
    if (back.type->check) ASSERT_OK(back.type->check(&back, f.m));
    bool masters = l->with_optim;
    compare_numbers(&f, &back, masters ? TX_ST_F32 : l->dtype);
    if (l->with_optim) {
        assert_int_equal(back.n_parts, 3);
        compare_state(&f.src, &back);
    }
    compare_options(&f, &back);
    tx_source_close(&back);
    close_fixture(&f);
    ASSERT_OK(tx_remove_tree(out));
}

static void goes_through(const family *of, const layout *l)
{
    experts_go_through(of, &(expert_layout){ *l, 0, false });
}

static void all_layouts(const family *of)
{
    const tx_sink_type *m = &tx_sink_megatron, *d = &tx_sink_deepspeed, *u = &tx_sink_universal;
    const layout list[] = {
        { m, 1, 1, 1, 0, false, true, TX_ST_F32 },  { m, 2, 1, 1, 0, false, true, TX_ST_BF16 },
        { m, 1, 2, 1, 0, false, true, TX_ST_F16 },  { m, 2, 2, 1, 0, false, true, TX_ST_F32 },
        { m, 2, 2, 1, 0, false, false, TX_ST_F16 }, { m, 1, 1, 1, 0, false, false, TX_ST_BF16 },
        { d, 1, 1, 1, 1, false, true, TX_ST_F32 },  { d, 1, 1, 3, 1, false, true, TX_ST_BF16 },
        { d, 2, 1, 3, 2, false, true, TX_ST_F16 },  { d, 1, 1, 3, 3, false, true, TX_ST_F32 },
        { d, 2, 1, 2, 3, false, true, TX_ST_BF16 }, { d, 1, 1, 2, 1, true, true, TX_ST_F32 },
        { d, 2, 2, 3, 1, true, true, TX_ST_F16 },   { d, 1, 2, 3, 0, true, true, TX_ST_BF16 },
        { d, 2, 1, 2, 0, false, true, TX_ST_BF16 }, { d, 1, 1, 2, 2, false, false, TX_ST_BF16 },
        { d, 2, 2, 1, 1, true, false, TX_ST_F32 },  { u, 1, 1, 1, 0, false, true, TX_ST_F32 },
        { u, 2, 2, 1, 0, true, true, TX_ST_BF16 },
    };
    make_checkpoint(of);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) goes_through(of, &list[i]);
}

static void gpt2(void **state)
{
    (void)state;
    all_layouts(&gpt2_family);
}

static void llama(void **state)
{
    (void)state;
    all_layouts(&(family){ "pretrain-gpt", LLAMA "--num-key-value-heads 2 " });
}

/* Experts of every layer or of some, whole on each tensor rank or split, and shared by n_ep ranks. */
static void experts_of(const char *flags)
{
    const tx_sink_type *d = &tx_sink_deepspeed;
    const expert_layout list[] = {
        { { d, 1, 1, 1, 0, false, true, TX_ST_F32 }, 1, false },
        { { d, 1, 1, 1, 0, false, true, TX_ST_F16 }, 1, false },
        { { d, 1, 1, 2, 0, false, true, TX_ST_F32 }, 2, false },
        { { d, 2, 1, 2, 0, false, true, TX_ST_F16 }, 4, false },
        { { d, 2, 1, 1, 0, false, true, TX_ST_F32 }, 1, true },
        { { d, 1, 1, 3, 1, false, true, TX_ST_F32 }, 1, false },
        { { d, 1, 1, 4, 2, false, true, TX_ST_BF16 }, 2, false },
        { { d, 2, 1, 4, 1, false, true, TX_ST_F16 }, 2, false },
        { { d, 2, 1, 3, 2, false, true, TX_ST_BF16 }, 1, false },
        { { d, 2, 1, 4, 1, false, true, TX_ST_F32 }, 4, false },
        { { d, 2, 1, 4, 2, false, true, TX_ST_BF16 }, 2, true },
        { { d, 2, 1, 2, 1, false, false, TX_ST_BF16 }, 2, false },
        { { d, 1, 1, 1, 0, false, false, TX_ST_BF16 }, 1, false },
    };
    const family of = { "pretrain-gpt", flags };
    make_checkpoint(&of);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) experts_go_through(&of, &list[i]);
}

static void experts(void **state)
{
    (void)state;
    experts_of("--num-experts 4 --expert-interval 1 --topk 2 --disable-moe-token-dropping "
               "--moe-loss-coeff 0.01 --mlp-type residual ");
    experts_of(LLAMA
               "--num-key-value-heads 2 --num-experts 4 --expert-interval 2 --disable-moe-top2-2nd-expert-sampling ");
    experts_of("--num-experts 4 8 --expert-interval 1 ");
}

/* A folder that has lost files, or whose args say what its files do not. */
static void lost_experts(void **state)
{
    (void)state;
    static const struct {
        const char *lost[2], *why;
    } list[] = {
        { { "layer_1_expert_2", "layer_1_expert_3" }, "some of layer_*_expert_*_model_states.pt are missing" },
        { { "layer_0_expert_3", NULL }, "has 3 experts, which 2 expert-parallel ranks do not divide" },
    };
    const expert_layout e = { { &tx_sink_deepspeed, 1, 1, 2, 1, false, true, TX_ST_F32 }, 2, false };
    const family of = { "pretrain-gpt", "--num-experts 4 --expert-interval 1 " };
    make_checkpoint(&of);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        fixture f;
        tx_source back;
        open_fixture(&f, &of, 1);
        tx_conversion c = conversion(&f, &e.l, in_scratch("out"));
        c.n_ep = e.n_ep;
        ASSERT_OK(e.l.to->write(&c));
        tx_free(c.whole);
        for (int k = 0; k < 2 && list[i].lost[k]; k++)
            assert_int_equal(remove(in_scratch("out/global_step2/%s_mp_rank_00_model_states.pt", list[i].lost[k])), 0);
        ASSERT_FAILS(tx_source_open(&back, in_scratch("out"), &tx_source_deepspeed, &tx_comm_self), TX_ERR_FORMAT,
                     list[i].why);
        close_fixture(&f);
        ASSERT_OK(tx_remove_tree(in_scratch("out")));
    }
}

/* What DeepSpeed's program or its format has no place for. */
static void experts_without_a_place(void **state)
{
    (void)state;
    const tx_sink_type *d = &tx_sink_deepspeed, *m = &tx_sink_megatron, *u = &tx_sink_universal;
    static const char deepspeeds[] = "--num-experts 4 --expert-interval 1 ";
    const struct {
        const char *flags, *why;
        expert_layout e;
        tx_status code;
    } list[] = {
        { deepspeeds, "have no place", { { m, 1, 1, 1, 0, false, true, TX_ST_F32 }, 1, false }, TX_ERR_UNSUPPORTED },
        { deepspeeds, "have no place", { { u, 1, 1, 1, 0, false, true, TX_ST_F32 }, 1, false }, TX_ERR_UNSUPPORTED },
        { deepspeeds, "--target-pp", { { d, 1, 2, 1, 0, false, true, TX_ST_F32 }, 1, false }, TX_ERR_UNSUPPORTED },
        { deepspeeds,
          "they have no ZeRO-3",
          { { d, 1, 1, 1, 3, false, true, TX_ST_F32 }, 1, false },
          TX_ERR_UNSUPPORTED },
        { deepspeeds,
          "bf16 without ZeRO",
          { { d, 1, 1, 1, 0, false, true, TX_ST_BF16 }, 1, false },
          TX_ERR_UNSUPPORTED },
        { deepspeeds,
          "does not divide the 3 ranks",
          { { d, 1, 1, 3, 1, false, true, TX_ST_F32 }, 2, false },
          TX_ERR_SHAPE },
        { deepspeeds,
          "does not divide the 4 experts of layer 1",
          { { d, 1, 1, 8, 1, false, true, TX_ST_F32 }, 8, false },
          TX_ERR_SHAPE },
        { "--num-experts 4 --moe-router-topk 2 ",
          "--moe-router-topk",
          { { d, 1, 1, 1, 1, false, true, TX_ST_F32 }, 1, false },
          TX_ERR_UNSUPPORTED },
        { "--num-experts 4 --moe-ffn-hidden-size 32 ",
          "as wide as",
          { { d, 1, 1, 1, 1, false, true, TX_ST_F32 }, 1, false },
          TX_ERR_UNSUPPORTED },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const family of = { "pretrain-gpt", list[i].flags };
        fixture f;
        make_checkpoint(&of);
        open_fixture(&f, &of, 1);
        tx_conversion c = conversion(&f, &list[i].e.l, in_scratch("out"));
        c.n_ep = list[i].e.n_ep;
        ASSERT_FAILS(list[i].e.l.to->write(&c), list[i].code, list[i].why);
        assert_false(tx_path_exists(c.out));
        close_fixture(&f);
    }
}

/* BigScience's program says ALiBi by an enum of its own, which comes back as our word. */
static void alibi(void **state)
{
    (void)state;
    const family of = { "pretrain-gpt", "--position-embedding-type alibi --embed-layernorm " };
    const layout list[] = { { &tx_sink_megatron, 2, 2, 1, 0, false, true, TX_ST_F32 },
                            { &tx_sink_deepspeed, 2, 2, 3, 1, true, true, TX_ST_F16 },
                            { &tx_sink_universal, 1, 1, 1, 0, false, true, TX_ST_F32 } };
    make_checkpoint(&of);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) goes_through(&of, &list[i]);
}

/* Rotary positions in words of Megatron Core come back; others have none. */
static void rotary(void **state)
{
    (void)state;
    static const struct {
        const char *flags, *why; /* NULL: it is written */
    } list[] = { { LLAMA "--use-rope-scaling --no-rope-freq 2 --rotary-interleaved ", NULL },
                 { LLAMA "--rope-scaling-type yarn --rope-scaling-factor 4 --mscale 0.5 --no-rope-freq [0,1] ", NULL },
                 { LLAMA "--rope-scaling-type linear --rope-scaling-factor 2 ", NULL },
                 { LLAMA "--rope-scaling-type linear --rope-scaling-factor 2.5 ", "no whole number" },
                 { LLAMA "--rope-scaling-type dynamic --rope-scaling-factor 2 ", "--rope-scaling-type dynamic" },
                 { LLAMA "--use-rope-scaling --rope-original-positions 4096 ", "--rope-original-positions 8192" },
                 { LLAMA "--qk-layernorm-whole ", "--qk-layernorm-whole" } };
    static const char *const fields[] = { "rope_scaling_type", "rope_scaling_factor", "rope_original_positions",
                                          "yarn_mscale",       "rotary_interleaved",  "no_rope_freq" };
    const layout l = { &tx_sink_megatron, 1, 1, 1, 0, false, true, TX_ST_F32 };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const family of = { "pretrain-gpt", list[i].flags };
        fixture f;
        tx_source back;
        json_t *got;
        make_checkpoint(&of);
        if (!list[i].why) goes_through(&of, &l);
        open_fixture(&f, &of, 1);
        tx_conversion c = conversion(&f, &l, in_scratch("out"));
        if (list[i].why) {
            ASSERT_FAILS(l.to->write(&c), TX_ERR_UNSUPPORTED, list[i].why);
            assert_false(tx_path_exists(c.out));
            close_fixture(&f);
            continue;
        }
        ASSERT_OK(l.to->write(&c));
        tx_free(c.whole);
        ASSERT_OK(tx_source_open(&back, c.out, &tx_source_megatron, &tx_comm_self));
        ASSERT_OK(back.type->options(&back, f.options, &got));
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
            if (!json_equal(json_object_get(got, fields[k]), json_object_get(f.options, fields[k])) &&
                (json_object_get(got, fields[k]) || !json_is_null(json_object_get(f.options, fields[k]))))
                fail_msg("%s: option %s differs", list[i].flags, fields[k]);
        json_decref(got);
        tx_source_close(&back);
        close_fixture(&f);
        ASSERT_OK(tx_remove_tree(in_scratch("out")));
    }
}

/* Pre-LayerNorm, which upstream's programs have; DeepSpeed's without its pipeline engine. */
static void bert_layouts(const char *flags)
{
    const tx_sink_type *n = &tx_sink_native, *m = &tx_sink_megatron, *d = &tx_sink_deepspeed, *u = &tx_sink_universal;
    const layout list[] = {
        { n, 1, 1, 1, 0, false, true, TX_ST_F32 },   { m, 1, 1, 1, 0, false, true, TX_ST_F32 },
        { m, 2, 1, 1, 0, false, true, TX_ST_BF16 },  { m, 1, 2, 1, 0, false, true, TX_ST_F16 },
        { m, 2, 2, 1, 0, false, true, TX_ST_F32 },   { m, 4, 2, 1, 0, false, false, TX_ST_F32 },
        { d, 1, 1, 1, 1, false, true, TX_ST_F32 },   { d, 2, 1, 3, 1, false, true, TX_ST_BF16 },
        { d, 2, 1, 2, 2, false, true, TX_ST_F16 },   { d, 2, 1, 3, 3, false, true, TX_ST_F32 },
        { d, 1, 1, 2, 0, false, false, TX_ST_BF16 }, { u, 2, 1, 1, 0, false, true, TX_ST_F32 },
    };
    const layout not [] = { { d, 1, 2, 1, 1, true, true, TX_ST_F32 }, { u, 1, 1, 1, 0, true, true, TX_ST_F32 } };
    const family of = { "pretrain-bert", flags };
    make_checkpoint(&of);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) goes_through(&of, &list[i]);
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++) {
        fixture f;
        open_fixture(&f, &of, 1);
        tx_conversion c = conversion(&f, &not [i], in_scratch("out"));
        ASSERT_FAILS(not [i].to->write(&c), TX_ERR_UNSUPPORTED, "which DeepSpeed's pipeline engine does not have");
        assert_false(tx_path_exists(c.out));
        close_fixture(&f);
    }
}

static void bert(void **state)
{
    (void)state;
    bert_layouts("");
}

static void bert_of_one_segment(void **state)
{
    (void)state;
    bert_layouts("--bert-no-binary-head ");
}

/* To a Hugging Face folder of that class, and back. */
static void becomes(const char *flags, const char *class_name)
{
    static const char *const shape[] = { "model_type",  "post_layernorm", "bert_binary_head",
                                         "openai_gelu", "num_layers",     "layernorm_epsilon" };
    const family of = { "pretrain-bert", flags };
    const layout l = { &tx_sink_huggingface, 1, 1, 1, 0, false, false, TX_ST_F32 };
    fixture f;
    tx_source back;
    json_t *got;
    make_checkpoint(&of);
    open_fixture(&f, &of, 1);
    tx_conversion c = conversion(&f, &l, in_scratch("hf"));
    ASSERT_OK(l.to->write(&c));
    tx_free(c.whole);
    json_t *config = json_load_file(in_scratch("hf/config.json"), 0, NULL);
    assert_string_equal(json_string_value(json_array_get(json_object_get(config, "architectures"), 0)), class_name);
    json_decref(config);
    ASSERT_OK(tx_source_open(&back, c.out, &tx_source_huggingface, &tx_comm_self));
    ASSERT_OK(back.type->options(&back, f.options, &got));
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        if (!json_equal(json_object_get(got, shape[i]), json_object_get(f.options, shape[i])))
            fail_msg("option %s differs", shape[i]);
    assert_int_equal(back.vocab_size, 509);
    ASSERT_OK(back.type->check(&back, f.m));
    compare_numbers(&f, &back, TX_ST_F32);
    json_decref(got);
    tx_source_close(&back);
    close_fixture(&f);
    ASSERT_OK(tx_remove_tree(in_scratch("hf")));
    ASSERT_OK(tx_remove_tree(in_scratch("native")));
}

#define NO_FUSION "--no-bias-gelu-fusion "
static void bert_to_huggingface(void **state)
{
    (void)state;
    becomes(NO_FUSION, "MegatronBertForPreTraining");
    becomes("--openai-gelu " NO_FUSION "--layernorm-epsilon 1e-12 ", "MegatronBertForPreTraining");
    becomes(NO_FUSION "--bert-no-binary-head ", "MegatronBertForMaskedLM");
    becomes(NO_FUSION "--post-layernorm ", "BertForPreTraining");
    becomes(NO_FUSION "--post-layernorm --bert-no-binary-head ", "BertForMaskedLM");
}

/* Qwen's layers without experts, which config.json lists, come back as a list of all. */
static void experts_in_some_layers(void **state)
{
    (void)state;
    static const char *const flags[] = { "--qk-layernorm --moe-router-pre-softmax ",
                                         "--add-qkv-bias --moe-shared-expert-intermediate-size 20 "
                                         "--moe-shared-expert-gate " };
    const layout l = { &tx_sink_huggingface, 1, 1, 1, 0, false, false, TX_ST_F32 };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        char all[1024];
        fixture f;
        tx_source back;
        json_t *got;
        snprintf(all, sizeof all, "%s%s", flags[i],
                 LLAMA "--num-experts 4 --moe-router-topk 2 --moe-layer-freq [0]+[1] --moe-ffn-hidden-size 24 ");
        const family of = { "pretrain-gpt", all };
        make_checkpoint(&of);
        open_fixture(&f, &of, 1);
        tx_conversion c = conversion(&f, &l, in_scratch("hf"));
        ASSERT_OK(l.to->write(&c));
        tx_free(c.whole);
        json_t *config = json_load_file(in_scratch("hf/config.json"), 0, NULL);
        assert_int_equal(json_integer_value(json_object_get(config, "decoder_sparse_step")), 1);
        assert_int_equal(json_array_size(json_object_get(config, "mlp_only_layers")), 1);
        assert_int_equal(json_integer_value(json_array_get(json_object_get(config, "mlp_only_layers"), 0)), 0);
        json_decref(config);
        ASSERT_OK(tx_source_open(&back, c.out, &tx_source_huggingface, &tx_comm_self));
        ASSERT_OK(back.type->options(&back, f.options, &got));
        assert_string_equal(json_string_value(json_object_get(got, "moe_layer_freq")), "[0,1]");
        ASSERT_OK(back.type->check(&back, f.m));
        compare_numbers(&f, &back, TX_ST_F32);
        json_decref(got);
        tx_source_close(&back);
        close_fixture(&f);
        ASSERT_OK(tx_remove_tree(in_scratch("hf")));
    }
}

/* What native checkpoints have, and the formats of Megatron and DeepSpeed not: the flag is named. */
static void native_alone(const family *of, const char *flag)
{
    const layout list[] = { { &tx_sink_native, 1, 1, 1, 0, false, true, TX_ST_F32 },
                            { &tx_sink_megatron, 1, 1, 1, 0, false, true, TX_ST_F32 },
                            { &tx_sink_deepspeed, 1, 1, 1, 1, false, true, TX_ST_F32 },
                            { &tx_sink_universal, 1, 1, 1, 0, false, true, TX_ST_F32 } };
    fixture f;
    make_checkpoint(of);
    goes_through(of, &list[0]);
    open_fixture(&f, of, 1);
    for (size_t i = 1; i < sizeof list / sizeof *list; i++) {
        tx_conversion c = conversion(&f, &list[i], in_scratch("out"));
        ASSERT_FAILS(list[i].to->write(&c), TX_ERR_UNSUPPORTED, flag);
        assert_false(tx_path_exists(c.out));
    }
    close_fixture(&f);
}

/* The original's order of layers is Hugging Face's and not Megatron's. */
static void post_layernorm(void **state)
{
    (void)state;
    const family of = { "pretrain-bert", "--post-layernorm " };
    native_alone(&of, "--post-layernorm");
}

static void other_attention(void **state)
{
    (void)state;
    static const family of[] = { { "pretrain-gpt",
                                   "--window-size 3 --window-attn-skip-freq 2 --softmax-type learnable " },
                                 { "pretrain-gpt", "--softmax-type learnable --attention-scale 0.3 " },
                                 { "pretrain-gpt", "--attention-logit-softcap 5 " } };
    static const char *const flag[] = { "--window-size", "--softmax-type", "--attention-logit-softcap" };
    for (int i = 0; i < 3; i++) {
        native_alone(&of[i], flag[i]);
        ASSERT_OK(tx_remove_tree(in_scratch("out")));
    }
}

static void halves_in_parallel(void **state)
{
    (void)state;
    native_alone(&(family){ "pretrain-gpt", "--parallel-residual one_norm --untie-embeddings-and-output-weights "
                                            "--output-bias " },
                 "--parallel-residual");
}

static void norms_of_branches(void **state)
{
    (void)state;
    native_alone(&(family){ "pretrain-gpt", "--norm-placement both --final-logit-softcap 30 " }, "--norm-placement");
}

/* fp16's scale, and how long it has not moved. */
static void loss_scale(void **state)
{
    (void)state;
    static const family of = { "pretrain-gpt", "--fp16 --initial-loss-scale 1024 " };
    const layout list[] = { { &tx_sink_megatron, 1, 1, 1, 0, false, true, TX_ST_F16 },
                            { &tx_sink_deepspeed, 1, 1, 2, 1, false, true, TX_ST_F16 },
                            { &tx_sink_deepspeed, 1, 1, 2, 3, false, true, TX_ST_F16 } };
    make_checkpoint(&of);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        fixture f;
        tx_source back;
        const char *out = in_scratch("out%zu", i);
        open_fixture(&f, &of, 1);
        tx_conversion c = conversion(&f, &list[i], out);
        ASSERT_OK(list[i].to->write(&c));
        tx_free(c.whole);
        ASSERT_OK(tx_source_open(&back, out, source_of(&list[i]), &tx_comm_self));
        const json_t *a = json_object_get(f.src.run, "grad_scaler"), *b = json_object_get(back.run, "grad_scaler");
        static const char *const key[] = { "scale", "growth_tracker", "hysteresis_tracker" };
        assert_true(json_number_value(json_object_get(a, "scale")) == 1024);
        for (int k = 0; k < 3; k++)
            if (json_number_value(json_object_get(a, key[k])) != json_number_value(json_object_get(b, key[k])))
                fail_msg("%s: %g, not %g", key[k], json_number_value(json_object_get(b, key[k])),
                         json_number_value(json_object_get(a, key[k])));
        compare_numbers(&f, &back, TX_ST_F32);
        tx_source_close(&back);
        close_fixture(&f);
    }
}

/* Weights to start from: no run in them, and no folder of a step. */
static void release(void **state)
{
    (void)state;
    fixture f;
    tx_source back;
    const layout l = { &tx_sink_megatron, 2, 1, 1, 0, false, false, TX_ST_F32 };
    make_checkpoint(&gpt2_family);
    open_fixture(&f, &gpt2_family, 2);
    tx_conversion c = conversion(&f, &l, in_scratch("out"));
    c.release = true;
    ASSERT_OK(l.to->write(&c));
    tx_free(c.whole);
    assert_true(tx_path_exists(in_scratch("out/release/mp_rank_01/model_optim_rng.pt")));
    ASSERT_OK(tx_source_open(&back, c.out, &tx_source_megatron, &tx_comm_self));
    assert_int_equal(back.state.consumed_train_samples, 0);
    compare_numbers(&f, &back, TX_ST_F32);
    tx_source_close(&back);
    close_fixture(&f);
}

/* Nothing is left where nothing could be written, and what is there stays. */
static void failures(void **state)
{
    (void)state;
    static const struct {
        layout l;
        const char *says;
    } list[] = {
        { { &tx_sink_megatron, 1, 3, 1, 0, false, true, TX_ST_F32 }, "cannot be divided into 3 pipeline stages" },
        { { &tx_sink_deepspeed, 3, 1, 1, 1, false, true, TX_ST_F32 }, "--target-tp 3 does not divide 4 heads" },
        { { &tx_sink_deepspeed, 1, 2, 1, 2, true, true, TX_ST_F32 }, "pipeline engine has no ZeRO-2" },
        { { &tx_sink_deepspeed, 1, 1, 1, 3, false, false, TX_ST_F32 }, "no optimizer's state" },
        { { &tx_sink_universal, 1, 1, 1, 0, false, false, TX_ST_F32 }, "holds an optimizer's state" },
    };
    fixture f;
    make_checkpoint(&gpt2_family);
    open_fixture(&f, &gpt2_family, 1);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        tx_conversion c = conversion(&f, &list[i].l, in_scratch("out"));
        tx_status st = list[i].l.to->write(&c);
        assert_true(st == TX_ERR_SHAPE || st == TX_ERR_UNSUPPORTED);
        ASSERT_CONTAINS(tx_last_error(), list[i].says);
        assert_false(tx_path_exists(c.out));
    }
    const layout l = { &tx_sink_deepspeed, 1, 1, 1, 1, false, true, TX_ST_F32 };
    tx_conversion c = conversion(&f, &l, in_scratch("out"));
    ASSERT_OK(l.to->write(&c));
    ASSERT_FAILS(l.to->write(&c), TX_ERR_STATE, "is there already");
    assert_true(tx_path_exists(in_scratch("out/global_step2/mp_rank_00_model_states.pt")));
    tx_free(c.whole);
    close_fixture(&f);
}

/* Every allocation that fails is an error, and leaves nothing behind. */
static void no_memory(void **state)
{
    (void)state;
    const layout list[] = { { &tx_sink_megatron, 1, 2, 1, 0, false, true, TX_ST_F16 },
                            { &tx_sink_deepspeed, 1, 1, 2, 3, false, true, TX_ST_F32 } };
    fixture f;
    make_checkpoint(&gpt2_family);
    open_fixture(&f, &gpt2_family, 1);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (int64_t at = 0, step = 1;; at += step, step += 1 + step / 8) {
            tx_conversion c = conversion(&f, &list[i], in_scratch("out"));
            allocation_fails_at(at);
            tx_status st = list[i].to->write(&c);
            allocations_succeed();
            tx_free(c.whole);
            if (!st) {
                ASSERT_OK(tx_remove_tree(in_scratch("out")));
                break;
            }
            assert_int_equal(st, TX_ERR_NOMEM);
            assert_false(tx_path_exists(in_scratch("out")));
        }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(gpt2),
        SCRATCH_TEST(llama),
        SCRATCH_TEST(rotary),
        SCRATCH_TEST(alibi),
        SCRATCH_TEST(experts),
        SCRATCH_TEST(lost_experts),
        SCRATCH_TEST(experts_without_a_place),
        SCRATCH_TEST(experts_in_some_layers),
        SCRATCH_TEST(loss_scale),
        SCRATCH_TEST(bert),
        SCRATCH_TEST(bert_of_one_segment),
        SCRATCH_TEST(bert_to_huggingface),
        SCRATCH_TEST(post_layernorm),
        SCRATCH_TEST(other_attention),
        SCRATCH_TEST(halves_in_parallel),
        SCRATCH_TEST(norms_of_branches),
        SCRATCH_TEST(release),
        SCRATCH_TEST(failures),
        SCRATCH_TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
