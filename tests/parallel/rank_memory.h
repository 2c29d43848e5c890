/* rank_memory.h - what ranks of a small model take in a real step, which is what is planned for them and what they use.
 */
#ifndef TX_TESTS_PARALLEL_RANK_MEMORY_H
#define TX_TESTS_PARALLEL_RANK_MEMORY_H

#include "layout_run.h"
#include "train/plan.h"

#define SIZES                                                                                                       \
    "--hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --lr 2e-3 "              \
    "--init-method-std 0.05 --seed 5 --tokenizer-type NullTokenizer --vocab-size 511 --data-path none --threads 1 " \
    "--micro-batch-size 2 --global-batch-size 16 --train-iters 4 "

#if defined __SANITIZE_THREAD__
enum { UNDER_TSAN = 1 };
#else
enum { UNDER_TSAN = 0 };
#endif

typedef struct measured {
    const tx_config *cfg;
    tx_memory memory[MAX_RANKS];
    bool used[MAX_RANKS]; /* all that was taken */
} measured;

static inline tx_status measure_rank(tx_world *w, void *user)
{
    measured *m = user;
    tx_grid grid;
    tx_trainer *t = NULL;
    dealer d = { 0 };
    tx_status st;
    size_t peak, host_peak;
    const tx_layout layout = tx_layout_of(m->cfg);
    TX_TRY(tx_grid_open(&grid, w, &layout, NULL));
    TX_GOTO(tx_trainer_create(&t, m->cfg, 512, 511, true, &grid));
    TX_GOTO(tx_alloc(&d.rows, (size_t)(t->b * tx_trainer_row_len(t)), sizeof *d.rows, "test"));
    d.t = t;
    TX_GOTO(tx_trainer_train(t, deal, &d));
    m->memory[grid.rank] = tx_trainer_memory(t);
    m->used[grid.rank] = tx_stage_stacks(&t->stage, &peak) == peak &&
                         tx_stage_host_stacks(&t->stage, &host_peak) == host_peak &&
                         t->ctx.scratch.peak == t->ctx.scratch.cap;
out:
    tx_free(d.rows);
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

/* Ranks that divide the positions of samples. */
static inline int context_ranks(const char *more)
{
    static const char flag[] = "--context-parallel-size ";
    const char *at = strstr(more, flag);
    return at ? atoi(at + strlen(flag)) : 1;
}

static inline tx_config *parse_sizes(const char *more, int n_layers, int tp, int pp)
{
    char flags[2048];
    tx_config *cfg;
    snprintf(flags, sizeof flags,
             "%s%s --num-layers %d --world-size %d --tensor-model-parallel-size %d --pipeline-model-parallel-size %d",
             SIZES, more, n_layers, tp * pp * context_ranks(more), tp, pp);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    return cfg;
}

/* What is planned for a stage without tensor parallelism. */
static inline tx_memory memory_of_stage(const char *more, int n_layers, int pp, int stage)
{
    tx_config *cfg = parse_sizes(more, n_layers, 1, pp);
    tx_run_plan plan;
    ASSERT_OK(tx_plan_stage(&plan, cfg, 512, stage));
    tx_config_free(cfg);
    return plan.memory;
}

/* What a rank of the first stage takes, which is what was planned for it and what it uses.   @real false: the plan */
static inline tx_memory memory_of(const char *more, int n_layers, int tp, int pp, bool real)
{
    tx_config *cfg = parse_sizes(more, n_layers, tp, pp);
    tx_run_plan plan;
    measured m = { .cfg = cfg };
    int of_stage = tp * context_ranks(more);
    if (real) ASSERT_OK(tx_world_threads(of_stage * pp, measure_rank, &m));
    for (int rank = 0; rank < of_stage * pp && real; rank++) {
        ASSERT_OK(tx_plan_stage(&plan, cfg, 512, rank / of_stage));
        assert_memory_equal(&m.memory[rank], &plan.memory, sizeof plan.memory);
        assert_true(m.used[rank]);
    }
    ASSERT_OK(tx_plan_stage(&plan, cfg, 512, 0));
    tx_config_free(cfg);
    return plan.memory;
}

#endif
