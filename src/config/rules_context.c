/* rules_context.c - rules across options: ranks that divide the positions of a sample, and what they are not built
 * with. */
#include <stdlib.h>

#include "config/rules.h"

const char *tx__context_flag(const tx_config *c)
{
    return c->ds_sequence_parallel_size > 1 ? "ds-sequence-parallel-size" : "context-parallel-size";
}

static bool is_divided(const tx__check *k)
{
    return !k->bad->context_parallel_size && !k->bad->ds_sequence_parallel_size && k->c->context_parallel_size > 1;
}

static void rule_a_way_is_known(const tx__check *k)
{
    const tx_list *way = &k->c->cp_comm_type;
    if (k->bad->cp_comm_type || !way->n || tx_cp_comm_of(way->item[0])) return;
    tx__violate(k->v, "--cp-comm-type %.60s is unknown; allowed: p2p, a2a, allgather or a2a+p2p", way->item[0]);
    k->bad->cp_comm_type = true;
}

static void rule_positions_are_divided_once(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->ds_sequence_parallel_size < 2 || k->bad->ds_sequence_parallel_size) return;
    if (k->g->context_parallel_size)
        tx__violate(k->v,
                    "--ds-sequence-parallel-size %lld and --context-parallel-size %lld both say how many ranks "
                    "divide a sample's positions: give one of the two",
                    (long long)c->ds_sequence_parallel_size, (long long)c->context_parallel_size);
    else if (k->g->cp_comm_type && !k->bad->cp_comm_type && tx_cp_comm_of(c->cp_comm_type.item[0]) != TX_CP_COMM_A2A)
        tx__violate(k->v,
                    "--ds-sequence-parallel-size is --cp-comm-type a2a, but %s is given: leave it out, or give "
                    "--context-parallel-size",
                    c->cp_comm_type.item[0]);
}

static void rule_context_ranks_divide_sequence(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t n = c->context_parallel_size * (tx_config_zigzag(c) ? 2 : 1);
    if (!is_divided(k) || k->bad->seq_length || k->bad->cp_comm_type || c->seq_length % n == 0) return;
    tx__violate_mendable(k, TX__SEQUENCE, "--seq-length %lld is not divisible by %s--%s %lld%s",
                         (long long)c->seq_length, tx_config_zigzag(c) ? "twice " : "", tx__context_flag(c),
                         (long long)c->context_parallel_size,
                         tx_config_zigzag(c) ? ": a rank has two runs of a sample's positions" : "");
}

/* The first iteration whose length they cannot divide; of tensor-parallel ranks that divide it again, too. */
static void rule_context_ranks_divide_lengths(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t n = c->context_parallel_size * (tx_config_zigzag(c) ? 2 : 1) *
                (c->sequence_parallel ? c->tensor_model_parallel_size : 1);
    if (!is_divided(k) || k->bad->cp_comm_type || k->bad->tensor_model_parallel_size || !tx__curriculum_is_sound(k))
        return;
    for (tx__lengths l = { 0 }; tx__lengths_next(c, &l);) {
        if (l.sample % n) {
            tx__violate(k->v,
                        "--%s %lld: --curriculum-schedule has %lld tokens from iteration %lld on, which are not "
                        "divisible by %lld: give other lengths, such as --curriculum-difficulty-step %lld, or leave "
                        "one of them out",
                        tx__context_flag(c), (long long)c->context_parallel_size, (long long)l.sample,
                        (long long)l.first, (long long)n, (long long)n);
            return;
        }
    }
}

/* The first iteration whose number of tokens they cannot divide, which is divided as the sample's positions are. */
static void rule_context_ranks_divide_tokens(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t of_ranks = c->context_parallel_size * (tx_config_zigzag(c) ? 2 : 1),
            of_peers = c->context_parallel_size * (c->sequence_parallel ? c->tensor_model_parallel_size : 1);
    if (!is_divided(k) || k->bad->cp_comm_type || k->bad->tensor_model_parallel_size || !tx__random_ltd_is_sound(k) ||
        (c->curriculum_schedule && !tx__curriculum_is_sound(k)))
        return;
    for (tx__lengths l = { .drops = true }; tx__lengths_next(c, &l);) {
        int64_t n = l.layers % of_ranks ? of_ranks : of_peers;
        if (l.layers < l.sample && l.layers % n) {
            tx__violate(k->v,
                        "--%s %lld: --random-ltd leaves %lld tokens from iteration %lld on, which are not divisible by "
                        "%lld: give other numbers, such as --random-ltd-seq-per-step %lld, or leave one of them out",
                        tx__context_flag(c), (long long)c->context_parallel_size, (long long)l.layers,
                        (long long)l.first, (long long)n, (long long)n);
            return;
        }
    }
}

/* A rank has all positions of some heads. */
static void rule_context_ranks_have_heads(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size, n = c->num_attention_heads / (t ? t : 1);
    if (!is_divided(k) || k->bad->cp_comm_type || tx_config_cp_comm(c) != TX_CP_COMM_A2A ||
        k->bad->num_attention_heads || k->bad->tensor_model_parallel_size || !c->num_attention_heads ||
        n >= c->context_parallel_size)
        return;
    tx__violate(k->v,
                "--%s %lld: with --cp-comm-type a2a each rank has all positions of some heads, and a tensor-"
                "parallel rank has %lld of --num-attention-heads: give at most as many ranks",
                tx__context_flag(c), (long long)c->context_parallel_size, (long long)n);
}

/* A rank keeps the keys and values of some heads when it answers --eval-tasks. */
static void rule_context_ranks_answer_tasks(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size, n = c->num_attention_heads / (t ? t : 1);
    if (!is_divided(k) || !c->eval_tasks.n || k->bad->num_attention_heads || k->bad->tensor_model_parallel_size ||
        !c->num_attention_heads || n >= c->context_parallel_size)
        return;
    tx__violate(k->v,
                "--%s %lld: each rank answers --eval-tasks with some of the heads, and a tensor-parallel rank has %lld "
                "of --num-attention-heads: give at most as many ranks, or leave --eval-tasks out",
                tx__context_flag(c), (long long)c->context_parallel_size, (long long)n);
}

/* Rows of ranks that exchange heads, in a ring. */
static void rule_rows_of_context_ranks(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_list *sizes = &c->hierarchical_context_parallel_sizes;
    bool both = is_divided(k) && !k->bad->cp_comm_type && tx_config_cp_comm(c) == TX_CP_COMM_A2A_P2P;
    if (sizes->n && !both) {
        tx__violate(k->v, "--hierarchical-context-parallel-sizes: it belongs to --context-parallel-size with "
                          "--cp-comm-type a2a+p2p");
        return;
    }
    if (!both) return;
    long long row = sizes->n == 2 ? atoll(sizes->item[0]) : 0, rows = sizes->n == 2 ? atoll(sizes->item[1]) : 0;
    if (row < 2 || rows < 2 || row > c->context_parallel_size / rows || row * rows != c->context_parallel_size) {
        tx__violate(k->v,
                    "--cp-comm-type a2a+p2p: --hierarchical-context-parallel-sizes are two numbers of at least 2, of "
                    "ranks that exchange heads and of rows in the ring, whose product is --context-parallel-size %lld",
                    (long long)c->context_parallel_size);
        return;
    }
    int64_t t = c->tensor_model_parallel_size;
    if (!t || k->bad->num_attention_heads || k->bad->num_key_value_heads || k->bad->tensor_model_parallel_size) return;
    if (c->num_attention_heads / t % row == 0 && c->num_key_value_heads / t % row == 0) return;
    tx__violate(k->v,
                "--hierarchical-context-parallel-sizes %lld %lld: the first does not divide a tensor-parallel rank's "
                "%lld of --num-attention-heads and %lld key and value heads",
                row, rows, (long long)(c->num_attention_heads / t), (long long)(c->num_key_value_heads / t));
}

static void rule_context_dumps_no_step(const tx__check *k)
{
    if (is_divided(k) && k->c->dump_step.n > 0)
        tx__violate(k->v, "--%s %lld: --dump-step writes whole samples: leave one of them out", tx__context_flag(k->c),
                    (long long)k->c->context_parallel_size);
}

const tx__rule tx__rules_context[] = {
    { NULL, rule_a_way_is_known },
    { NULL, rule_positions_are_divided_once },
    { NULL, rule_context_ranks_divide_sequence },
    { NULL, rule_context_ranks_divide_lengths },
    { NULL, rule_context_ranks_divide_tokens },
    { NULL, rule_context_ranks_have_heads },
    { NULL, rule_context_ranks_answer_tasks },
    { NULL, rule_rows_of_context_ranks },
    { NULL, rule_context_dumps_no_step },
    { NULL, NULL },
};
