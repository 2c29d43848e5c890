/* labels: unit fault */
/* test_source.c - a Hugging Face folder loads into the ranks of any layout: each reads its layers and keeps its shards;
 * and it is not written by several ranks. */
#include "../api/engine_test.h"
#include "../nn/param_cut.h"

#include "model/model.h"
#include "train/hf_export.h"

enum { TP = 2, PP = 2 };

typedef struct task {
    const char *dir;
    const tx_config *cfg;
    const tx_model *m; /* of one rank, and its weights */
    const float *weights;
    int n_layers; /* that the ranks have; of the model: the folder's and one more */
    tx_status st[TP * PP];
    char message[TP * PP][1024];
} task;

static tx_status compare_shards(const tx_params *ps, const float *got, const task *t)
{
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i], *q = tx_params_find(&t->m->params, p->name);
        float *expect;
        TX_TRY(tx_alloc(&expect, (size_t)p->numel, sizeof *expect, "test"));
        param_cut(p, expect, t->weights + q->offset);
        bool same = !memcmp(expect, got + p->offset, (size_t)p->numel * sizeof *expect);
        tx_free(expect);
        if (!same) return TX_FAIL(TX_ERR_NUMERIC, "%s, shard %d", p->name, p->tp_rank);
    }
    return TX_OK;
}

static tx_status load_rank(tx_world *w, void *user)
{
    task *t = user;
    int rank = tx_world_rank(w);
    tx_source src = { 0 };
    tx_config cfg = *t->cfg; /* owns nothing */
    tx_grid grid;
    tx_model *mine = NULL;
    float *value = NULL;
    tx_status st;
    cfg.num_layers = t->n_layers;
    TX_TRY(tx_grid_open(&grid, w, &(tx_layout){ .size = { [TX_AXIS_TENSOR] = TP, [TX_AXIS_PIPELINE] = PP } }, NULL));
    TX_GOTO(t->m->type->create(&mine, &cfg, t->m->vocab_size, &grid));
    TX_GOTO(tx_alloc(&value, (size_t)mine->params.numel, sizeof *value, "test"));
    memset(value, 0xff, (size_t)mine->params.numel * sizeof *value);
    TX_GOTO(tx_source_open(&src, t->dir, NULL, tx_world_comm(w)));
    t->st[rank] = tx_source_weights(&src, mine, value);
    snprintf(t->message[rank], sizeof t->message[rank], "%s", t->st[rank] ? tx_last_error() : "");
    if (!t->st[rank]) st = compare_shards(&mine->params, value, t);
out:
    tx_source_close(&src);
    if (mine) mine->type->destroy(mine);
    tx_grid_close(&grid);
    tx_free(value);
    return st;
}

/* An engine of one rank with three layers, and its model in a folder. */
static tx_engine *export_one(tx_config **cfg, task *t, const char *command, const char *more)
{
    char flags[4096];
    tx_engine *e;
    snprintf(flags, sizeof flags, FLAGS "--num-layers 3 --make-vocab-size-divisible-by 128 --num-attention-heads 4 %s",
             more);
    ASSERT_OK(tx_config_parse_string(cfg, command, flags));
    ASSERT_OK(tx_engine_create(&e, *cfg, 509));
    *t = (task){
        .dir = in_scratch("hf"), .cfg = *cfg, .m = e->trainer->model, .weights = e->trainer->zero.master, .n_layers = 3
    };
    ASSERT_OK(tx_engine_export(e, t->dir));
    return e;
}

static void shards_are_cut(const char *command, const char *more)
{
    task t;
    tx_config *cfg;
    tx_engine *e = export_one(&cfg, &t, command, more);
    ASSERT_OK(tx_world_threads(TP * PP, load_rank, &t));
    for (int i = 0; i < TP * PP; i++)
        if (t.st[i]) fail_msg("rank %d: %s", i, t.message[i]);
    t.n_layers = 4; /* the last is stage 1's */
    ASSERT_OK(tx_world_threads(TP * PP, load_rank, &t));
    for (int i = 0; i < TP * PP; i++) {
        assert_int_equal(t.st[i], i < TP ? TX_ERR_COMM : TX_ERR_FORMAT);
        ASSERT_CONTAINS(t.message[i], "there is no tensor \"");
        ASSERT_CONTAINS(t.message[i], ".3.");
    }
    t.n_layers = 2; /* the third layer there belongs to nobody */
    ASSERT_OK(tx_world_threads(TP * PP, load_rank, &t));
    for (int i = 0; i < TP * PP; i++) {
        assert_int_equal(t.st[i], TX_ERR_FORMAT);
        ASSERT_CONTAINS(t.message[i], "of 2 layers does not have, such as \"");
        ASSERT_CONTAINS(t.message[i], ".2.");
    }
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

static void gpt2_shards(void **state)
{
    (void)state;
    shards_are_cut("pretrain-gpt", "");
}

static void llama_shards(void **state)
{
    (void)state;
    shards_are_cut("pretrain-gpt", LLAMA "--num-key-value-heads 2");
}

static void bert_shards(void **state)
{
    (void)state;
    static const char *const more[] = { "", "--post-layernorm", "--post-layernorm --bert-no-binary-head" };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char flags[2048];
        snprintf(flags, sizeof flags, "--tokenizer-type BertWordPieceLowerCase --vocab-file %s %s",
                 data_path("tiny/tiny-bert-vocab.txt"), more[i]);
        shards_are_cut("pretrain-bert", flags);
        ASSERT_OK(tx_remove_tree(in_scratch("hf")));
    }
}

static tx_status export_rank(tx_world *w, void *user)
{
    task *t = user;
    int rank = tx_world_rank(w);
    t->st[rank] = tx_hf_export_model(t->m, NULL, t->dir, tx_world_comm(w)); /* no number is looked at */
    snprintf(t->message[rank], sizeof t->message[rank], "%s", t->st[rank] ? tx_last_error() : "");
    return TX_OK;
}

static void several_ranks_do_not_export(void **state)
{
    (void)state;
    task t;
    tx_config *cfg;
    tx_engine *e = export_one(&cfg, &t, "pretrain-gpt", "");
    t.dir = in_scratch("none");
    ASSERT_OK(tx_world_threads(TP * PP, export_rank, &t));
    for (int i = 0; i < TP * PP; i++) {
        assert_int_equal(t.st[i], TX_ERR_UNSUPPORTED);
        ASSERT_CONTAINS(t.message[i], "this one lies on 4: save a checkpoint");
        assert_null(strchr(t.message[i], '\n'));
    }
    assert_false(tx_path_exists(t.dir));
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(gpt2_shards),
        SCRATCH_TEST(llama_shards),
        SCRATCH_TEST(bert_shards),
        SCRATCH_TEST(several_ranks_do_not_export),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
