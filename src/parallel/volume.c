/* volume.c - the formulas of communication volume, and the table that sets them beside what was counted. */
#include "parallel/volume.h"

#include <stdio.h>
#include <string.h>

#include "base/exact.h"

/* ---- counted ---- */

void tx_volume_read(tx_volume *v, const tx_grid *g)
{
    *v = (tx_volume){ 0 };
    for (int i = 0; i < TX_N_STEP_GROUPS; i++) {
        tx_comm *group = tx_grid_group(g, i);
        if (tx_comm_size(group) > 1) memcpy(v->of[i], tx_comm_volumes(group), sizeof v->of[i]);
    }
}

void tx_volume_subtract(tx_volume *v, const tx_volume *before)
{
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        for (int op = 0; op < TX_N_COMM_OPS; op++) {
            v->of[i][op].calls -= before->of[i][op].calls;
            v->of[i][op].bytes -= before->of[i][op].bytes;
        }
}

/* ---- the formulas ---- */

typedef struct terms {
    tx_volume_term *term;
    int n;
} terms;

/* @bytes of one call */
static void add(terms *t, int group, tx_comm_op op, const char *what, int64_t calls, int64_t bytes)
{
    if (!calls || !bytes) return;
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    t->term[t->n++] = (tx_volume_term){ group, op, what, { calls, calls * bytes } };
}

static bool has_pre(const tx_volume_sizes *z)
{
    return z->stage == 0;
}

static bool has_post(const tx_volume_sizes *z)
{
    return z->stage == z->p - 1;
}

/* Bytes of what comes out of the word embedding. */
static int64_t words(const tx_volume_sizes *z)
{
    return z->b * z->s * z->h * (z->embedding_norm ? z->value : z->stream);
}

/* The statistics of a vocabulary that is split: 4 floats a token of every rank. */
static void add_loss(terms *t, const tx_volume_sizes *z)
{
    int64_t calls = z->n_micro * z->head_chunks, all = z->n_micro * z->head_rows * 4 * 4 * z->t;
    if (!has_post(z)) return;
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    t->term[t->n++] =
        (tx_volume_term){ TX_GROUP_TENSOR, TX_COMM_ALL_GATHER, "loss: 4 numbers a token and rank", { calls, all } };
}

/* The gradient of what a head selects, which is in parts as logits are. */
static void add_selected(terms *t, const tx_volume_sizes *z)
{
    if (has_post(z) && z->head_selects)
        add(t, TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, "n h, gradient of n tokens to predict", z->n_micro,
            z->head_rows * z->h * z->value);
}

/* Gradients of the weights of experts, of which tensor ranks have parts. */
static void add_gates(terms *t, const tx_volume_sizes *z)
{
    if (!z->n_gates) return;
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    t->term[t->n++] = (tx_volume_term){ TX_GROUP_TENSOR,
                                        TX_COMM_ALL_REDUCE,
                                        "4 b s k a router, gradient of weights",
                                        { z->n_micro * z->n_gates, z->n_micro * z->n_choices * z->b * z->s * 4 } };
}

/* How often gradients are summed over ranks. */
static int64_t n_sums(const tx_volume_sizes *z)
{
    return z->reduce_every_micro_batch ? z->n_micro : 1;
}

/* Of adapters those parts that are whole on every rank. */
static void add_adapters(terms *t, const tx_volume_sizes *z)
{
    if (z->adapters)
        add(t, TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, "gradients of a layer's adapters", n_sums(z) * z->n_layers,
            z->adapters * 4);
}

/* n of them in each layer's forward or backward; of one that computes its positions in chunks each is in as many parts.
 */
static void add_in_layers(terms *t, const tx_volume_sizes *z, const char *what, int64_t n, int64_t bytes)
{
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    if (n && bytes)
        t->term[t->n++] =
            (tx_volume_term){ TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, what, { n * z->n_positions_chunks, n * bytes } };
}

/* Sums of rows of queries and of keys. */
static void add_whole_norms(terms *t, const tx_volume_sizes *z)
{
    int64_t bs = z->whole_norms ? z->b * z->s * 4 : 0, m = 2 * z->n_micro;
    add_in_layers(t, z, "2 b s a layer, norms of all heads, forward", m * z->n_layers, bs);
    add_in_layers(t, z, "2 b s a layer, norms of all heads, backward", m * z->n_layers, bs);
    add_in_layers(t, z, "2 b s a layer, norms of all heads, forward again", m * z->n_again, bs);
}

/* f and g of Megatron-LM. */
static void add_all_reduces(terms *t, const tx_volume_sizes *z)
{
    const tx_comm_op op = TX_COMM_ALL_REDUCE;
    int64_t bsh = z->b * z->s * z->h * z->value, m = z->n_micro;
    add_in_layers(t, z, "2 b s h a layer, forward", 2 * m * z->n_layers, bsh);
    add_in_layers(t, z, "2 b s h a layer, backward", 2 * m * z->n_layers, bsh);
    add_in_layers(t, z, "2 b s h a layer, forward again", 2 * m * z->n_again, bsh);
    add_adapters(t, z);
    add_whole_norms(t, z);
    if (z->head_norms && !z->frozen)
        add(t, TX_GROUP_TENSOR, op, "gradients of a layer's 2 norms of heads", n_sums(z) * z->n_layers,
            z->head_norms * 4);
    if (has_pre(z)) add(t, TX_GROUP_TENSOR, op, "b s h, embedding", m, words(z));
    if (has_post(z) && !z->head_selects) add(t, TX_GROUP_TENSOR, op, "b s h, gradient of the head's input", m, bsh);
    add(t, TX_GROUP_TENSOR, TX_COMM_ALL_GATHER, "b s h a group, its divided input", m * z->n_gathered,
        z->b * z->s * z->h * z->stream);
    add_gates(t, z);
    add_loss(t, z);
    add_selected(t, z);
}

/* Gradients of norms, which a rank has of its part of the sequence; those of a layer together. */
static void add_norms(terms *t, const tx_volume_sizes *z)
{
    const tx_comm_op op = TX_COMM_ALL_REDUCE;
    int64_t n = n_sums(z);
    add_adapters(t, z);
    if (z->frozen) return;
    add(t, TX_GROUP_TENSOR, op, "gradients of a layer's norms", n * z->n_layers,
        (z->layer_norms * z->norm + z->head_norms) * 4);
    if (has_pre(z)) add(t, TX_GROUP_TENSOR, op, "gradients of the embedding's norm", n, z->embedding_norm * 4);
    if (has_post(z)) add(t, TX_GROUP_TENSOR, op, "gradients of the last norm", n, z->last_norm * 4);
}

/* The same f and g with sequence parallelism. */
static void add_parts(terms *t, const tx_volume_sizes *z)
{
    int64_t bsh = z->b * z->s * z->h, m = z->n_micro, n = 2 * m * z->n_layers, again = 2 * m * z->n_again;
    const tx_comm_op gather = TX_COMM_ALL_GATHER, scatter = TX_COMM_REDUCE_SCATTER;
    add_norms(t, z);
    add_whole_norms(t, z);
    add(t, TX_GROUP_TENSOR, scatter, "2 b s h a layer, forward", n, bsh * z->value);
    add(t, TX_GROUP_TENSOR, scatter, "2 b s h a layer, backward", n, bsh * z->value);
    add(t, TX_GROUP_TENSOR, scatter, "2 b s h a layer, forward again", again, bsh * z->value);
    if (has_pre(z)) add(t, TX_GROUP_TENSOR, scatter, "b s h, embedding", m, words(z));
    if (has_post(z) && !z->head_selects)
        add(t, TX_GROUP_TENSOR, scatter, "b s h, gradient of the head's input", m, bsh * z->value);
    add(t, TX_GROUP_TENSOR, gather, "2 b s h a layer, forward", n, bsh * z->value);
    add(t, TX_GROUP_TENSOR, gather, "2 b s h a layer, backward", n, bsh * z->value);
    add(t, TX_GROUP_TENSOR, gather, "2 b s h a layer, its inputs for backward", n, bsh * z->value);
    add(t, TX_GROUP_TENSOR, gather, "2 b s h a layer, forward again", again, bsh * z->value);
    if (has_post(z)) add(t, TX_GROUP_TENSOR, gather, "b s h, the head's input", m, bsh * z->value);
    if (has_pre(z) && !z->frozen) add(t, TX_GROUP_TENSOR, gather, "b s h, gradient of the embedding", m, words(z));
    if (has_pre(z) && z->positions && !z->frozen)
        add(t, TX_GROUP_TENSOR, gather, "b s h, gradient of positions", m, bsh * z->stream);
    add_gates(t, z);
    add_loss(t, z);
    add_selected(t, z);
}

static void add_pipeline(terms *t, const tx_volume_sizes *z)
{
    int64_t bsh = z->b * z->s / (z->sequence ? z->t : 1) * z->h * z->stream;
    int64_t forward = z->n_micro * (z->n_chunks - has_post(z)), backward = z->n_micro * (z->n_chunks - has_pre(z));
    const char *to = z->sequence ? "b s h/t a border, forward" : "b s h a border, forward";
    const char *back = z->sequence ? "b s h/t a border, backward" : "b s h a border, backward";
    add(t, TX_GROUP_PIPELINE, TX_COMM_SEND, to, forward, bsh);
    add(t, TX_GROUP_PIPELINE, TX_COMM_SEND, back, backward, bsh);
}

/* The forward of a teacher. */
static void add_teacher(terms *t, const tx_volume_sizes *z)
{
    const tx_volume_teacher *k = &z->teacher;
    const tx_comm_op sum = z->sequence ? TX_COMM_REDUCE_SCATTER : TX_COMM_ALL_REDUCE;
    int64_t bsh = z->b * z->s * k->h, m = z->n_micro, n = 2 * m * k->n_layers;
    if (z->p > 1)
        add(t, TX_GROUP_PIPELINE, TX_COMM_SEND, "the teacher's b s h a border", m * (z->n_chunks - has_post(z)),
            bsh / (z->sequence ? z->t : 1) * k->stream);
    if (z->t == 1) return;
    add(t, TX_GROUP_TENSOR, sum, "the teacher's 2 b s h a layer", n, bsh * k->value);
    if (k->whole_norms)
        add(t, TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, "the teacher's 2 b s a layer, norms of all heads", n,
            z->b * z->s * 4);
    if (has_pre(z)) add(t, TX_GROUP_TENSOR, sum, "the teacher's b s h, embedding", m, bsh * k->words);
    if (z->sequence) add(t, TX_GROUP_TENSOR, TX_COMM_ALL_GATHER, "the teacher's 2 b s h a layer", n, bsh * k->value);
    if (z->sequence && has_post(z))
        add(t, TX_GROUP_TENSOR, TX_COMM_ALL_GATHER, "the teacher's b s h, for the head", m, bsh * k->value);
    if (!has_post(z)) return;
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    t->term[t->n++] = (tx_volume_term){ TX_GROUP_TENSOR,
                                        TX_COMM_ALL_GATHER,
                                        "the teacher's loss: 5 numbers",
                                        { m * z->head_chunks, m * z->head_rows * 5 * 4 * z->t } };
}

/* Rows of tokens to the ranks of their experts, and back. */
static void add_experts(terms *t, const tx_volume_sizes *z)
{
    static const char *const what[] = { "2 k b s h a layer and rank, forward", "2 k b s h a layer and rank, backward",
                                        "2 k b s h a layer and rank, forward again" };
    for (int i = 0; i < 3; i++) {
        bool again = i == 2;
        int64_t calls = 2 * z->n_micro * z->n_routed[again];
        if (!calls) continue;
        TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
        t->term[t->n++] = (tx_volume_term){
            TX_GROUP_EXPERT, TX_COMM_ALL_TO_ALL, what[i], { calls, 2 * z->n_micro * z->rows[again] * z->h * z->value }
        };
    }
}

/* Unless it is nothing. */
static void add_term(terms *t, tx_volume_term term)
{
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    if (term.volume.calls) t->term[t->n++] = term;
}

/* Queries, keys and values to the ranks that have their heads, and back what these make of them; and the gradients. Of
 * evenly dealt heads a rank sends (c-1)/c of s/c (3 + 1) h, but for groups of queries: 4 N h/P of arXiv:2309.14509. */
static void add_heads(terms *t, const tx_volume_sizes *z)
{
    static const char *const what[] = { "b s q,k,v and b s o a layer, forward", "b s q,k,v and b s o a layer, backward",
                                        "b s q,k,v and b s o a layer, forward again" };
    int64_t bs = z->b * z->s * (z->heads ? z->heads : z->c);
    for (int i = 0; i < 3; i++) {
        int64_t n = z->n_micro * (i == 2 ? z->n_again : z->n_layers);
        if (!n) continue;
        TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
        t->term[t->n++] = (tx_volume_term){ z->heads ? TX_GROUP_HEADS : TX_GROUP_CONTEXT,
                                            TX_COMM_ALL_TO_ALL,
                                            what[i],
                                            { 2 * n * z->n_positions_chunks, n * bs * z->heads_sent * z->value } };
    }
    const tx_volume_teacher *k = &z->teacher;
    int64_t n = z->n_micro * k->n_layers;
    if (k->h)
        add_term(t, (tx_volume_term){ z->heads ? TX_GROUP_HEADS : TX_GROUP_CONTEXT,
                                      TX_COMM_ALL_TO_ALL,
                                      "the teacher's b s q,k,v and b s o a layer",
                                      { 2 * n, n * bs * k->heads_sent * k->value } });
}

/* Keys and values of a rank's positions, which are sent on c-1 times, or gathered; and their gradients. */
static void add_keys(terms *t, const tx_volume_sizes *z)
{
    static const struct row {
        tx_comm_op op;
        const char *what;
        int times;
        bool again;
    } rows[2][4] = { { { TX_COMM_SEND, "c-1 times b s k,v / c a layer, forward", 1, false },
                       { TX_COMM_SEND, "c-1 times b s k,v and dk,dv / c a layer, backward", 2, false },
                       { TX_COMM_SEND, "c-1 times b s k,v / c a layer, forward again", 1, true } },
                     { { TX_COMM_REDUCE_SCATTER, "b s dk,dv a layer, backward", 1, false },
                       { TX_COMM_ALL_GATHER, "b s k,v a layer, forward", 1, false },
                       { TX_COMM_ALL_GATHER, "b s k,v a layer, backward", 1, false },
                       { TX_COMM_ALL_GATHER, "b s k,v a layer, forward again", 1, true } } };
    int64_t row = z->heads ? z->heads : 1,
            each = z->b * z->s * row * z->keys_sent * z->value * (z->keys_gathered ? z->c : 1);
    for (int i = 0; i < 4; i++) {
        const struct row *r = &rows[z->keys_gathered][i];
        int64_t again = z->n_again - (z->keys_kept ? z->n_layers : 0),
                calls = z->n_micro * (r->again ? again : z->n_layers) * r->times;
        if (!z->keys_gathered) calls *= z->c / row - 1;
        if (z->keys_kept && i == 2) continue; /* gathered for backward */
        if (!calls) continue;
        TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
        t->term[t->n++] = (tx_volume_term){
            z->heads ? TX_GROUP_RING : TX_GROUP_CONTEXT, r->op, r->what, { calls * z->n_positions_chunks, calls * each }
        };
    }
    const tx_volume_teacher *k = &z->teacher;
    int64_t n = z->n_micro * k->n_layers * (z->keys_gathered ? 1 : z->c / row - 1);
    if (k->h)
        add_term(t, (tx_volume_term){
                        z->heads ? TX_GROUP_RING : TX_GROUP_CONTEXT,
                        z->keys_gathered ? TX_COMM_ALL_GATHER : TX_COMM_SEND,
                        "the teacher's keys and values",
                        { n, n * z->b * z->s * row * k->keys_sent * k->value * (z->keys_gathered ? z->c : 1) } });
}

/* Routers of ranks that divide positions choose as one that has all. */
static void add_routers(terms *t, const tx_volume_sizes *z)
{
    const tx_volume_term all[] = {
        { TX_GROUP_CONTEXT, TX_COMM_ALL_GATHER, "4 b s E a router, logits, forward", z->logits[0] },
        { TX_GROUP_CONTEXT, TX_COMM_ALL_GATHER, "4 b s E a router, logits, forward again", z->logits[1] },
        { TX_GROUP_CONTEXT, TX_COMM_ALL_GATHER, "the teacher's logits of routers", z->teacher.logits },
        { TX_GROUP_CONTEXT, TX_COMM_ALL_REDUCE, "4 E a router, loads, forward", z->loads[0] },
        { TX_GROUP_CONTEXT, TX_COMM_ALL_REDUCE, "4 E a router, loads, forward again", z->loads[1] },
        { TX_GROUP_CONTEXT, TX_COMM_ALL_REDUCE, "the teacher's loads of experts", z->teacher.loads },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tx_volume_term each = all[i];
        each.volume.calls *= z->n_micro;
        each.volume.bytes *= z->n_micro;
        add_term(t, each);
    }
}

/* What ranks share, and among which. */
typedef struct sharing {
    int group, n;
    const tx_volume_shared *of;
} sharing;

static sharing sharing_of(const tx_volume_sizes *z, int k)
{
    static const int group[TX_N_SHARED] = {
        [TX_SHARED_DATA] = TX_GROUP_DATA, [TX_SHARED_EXPERTS] = TX_GROUP_EXPERT_DATA
    };
    int sharers = z->mics && k == TX_SHARED_DATA ? TX_GROUP_NEAR : group[k];
    return (sharing){ sharers, tx_volume_group_size(z, sharers), &z->shared[k] };
}

/* All buckets, so many times, with so many bytes an element. */
static void add_buckets(terms *t, tx_volume_term of, int64_t times, tx_volume_buckets b, int64_t bytes)
{
    if (!times || !b.n) return;
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    of.volume = (tx_comm_volume){ times * b.n, times * b.numel * bytes };
    t->term[t->n++] = of;
}

/* Workers send the words of each server, as many times their number in all; sizes are of workers and of servers. Of
 * workers of several ranks each of these sends a slice of the words, and has all sizes. */
static void add_signs(terms *t, const tx_volume_sizes *z, sharing s)
{
    const int far = z->near > 1 ? TX_GROUP_FAR : s.group;
    int64_t n = z->skips || z->alone ? 0 : s.of->averages, workers = s.n / z->near, all = workers * s.of->words * 4;
    const tx_volume_term sum = { TX_GROUP_NEAR, TX_COMM_ALL_REDUCE, "a parameter's gradient, in a worker", { 0 } };
    add(t, s.group, TX_COMM_ALL_REDUCE, "whether the step is taken", 1, 8);
    if (z->near > 1) add_buckets(t, sum, 1, s.of->all, z->sum);
    if (!n || workers == 1) return;
    const struct {
        int group;
        tx_comm_op op;
        const char *what;
        tx_comm_volume of;
    } all_terms[] = {
        { far, TX_COMM_ALL_TO_ALL, "a bit a parameter, to its server", { n, workers * all / z->near } },
        { far, TX_COMM_ALL_GATHER, "a bit a parameter, from its server", { n, all / z->near } },
        { far, TX_COMM_ALL_GATHER, "sizes of tensors, there and back", { 2 * n, 2 * workers * s.of->tensors * 8 } },
        { TX_GROUP_NEAR, TX_COMM_ALL_GATHER, "the bits that a worker gets", { 2 * n, 2 * all } }
    };
    for (size_t i = 0; i < sizeof all_terms / sizeof *all_terms - (z->near == 1); i++) {
        TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
        t->term[t->n++] = (tx_volume_term){ all_terms[i].group, all_terms[i].op, all_terms[i].what, all_terms[i].of };
    }
}

/* From each rank of a group to each as many blocks of each bucket: `parts` parts. */
static void add_hop(terms *t, int group, const char *what, const tx_volume_sizes *z, int64_t parts)
{
    const tx_volume_shared *of = &z->shared[TX_SHARED_DATA];
    int64_t ranks = tx_volume_group_size(z, group), n = n_sums(z);
    if (ranks <= 1 || of->all.n == of->whole.n) return;
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    t->term[t->n++] = (tx_volume_term){ group,
                                        TX_COMM_ALL_TO_ALL,
                                        what,
                                        { n * (of->all.n - of->whole.n),
                                          n * ranks * ranks * parts * (of->all.words[1] - of->whole.words[1]) * 4 } };
}

/* Near ranks have a second copy. */
static bool has_second(const tx_volume_sizes *z)
{
    return z->near > 1 && !z->mics;
}

static void add_quantized(terms *t, const tx_volume_sizes *z, sharing s)
{
    static const char what[] = "4 bits a parameter, each micro-batch";
    if (has_second(z)) {
        add_hop(t, TX_GROUP_NEAR, what, z, z->far);
        add_hop(t, TX_GROUP_FAR, "4 bits of the near ranks' sums", z, 1);
    } else {
        add_hop(t, s.group, what, z, 1);
    }
}

static void add_gradients(terms *t, const tx_volume_sizes *z, sharing s)
{
    if (z->signs) return add_signs(t, z, s);
    if (z->quantized_gradients) add_quantized(t, z, s);
    tx_comm_op op = z->zero && z->scatters ? TX_COMM_REDUCE_SCATTER : TX_COMM_ALL_REDUCE;
    static const char *const what[2][2] = {
        { "4 bytes a parameter of the rank", "4 bytes a parameter, each micro-batch" },
        { "2 bytes a parameter of the rank", "2 bytes a parameter, each micro-batch" },
    };
    const tx_volume_term of = { s.group, op, what[z->sum == 2][z->reduce_every_micro_batch], { 0 } };
    add_buckets(t, of, n_sums(z), z->quantized_gradients ? s.of->whole : s.of->all, z->sum);
}

/* What each rank of a row keeps of the sums. */
static void add_far(terms *t, const tx_volume_sizes *z)
{
    static const char *const what[] = { "4 bytes of near ranks' sums", "2 bytes of near ranks' sums" };
    tx_volume_buckets b = z->shared[TX_SHARED_DATA].all;
    const tx_volume_term of = { TX_GROUP_FAR, TX_COMM_ALL_REDUCE, what[z->sum == 2], { 0 } };
    b.numel /= z->near;
    if (z->mics && z->far > 1) add_buckets(t, of, 1, b, z->sum);
}

enum { MEASURED = 2 * (int)sizeof(tx_exact) }; /* bytes of a tensor's sums */

/* Before an update that needs norms of tensors, also if it is skipped then. */
static void add_split_norms(terms *t, const tx_volume_sizes *z)
{
    int64_t calls = 0, tensors = 0, most = 0, of_most = 0;
    for (int k = 0; k < TX_N_SHARED && z->t > 1; k++) {
        calls += z->shared[k].measured_split > 0;
        tensors += z->shared[k].measured_split;
        most += z->shared[k].most_split > 0;
        of_most += z->shared[k].most_split;
    }
    if (!calls) return;
    if (z->scales) calls *= 2, tensors *= 2;
    if (most) {
        TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
        t->term[t->n++] = (tx_volume_term){
            TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, "8 bytes a split tensor: its largest quotient", { most, of_most * 8 }
        };
    }
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    t->term[t->n++] = (tx_volume_term){
        TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, "2 exact sums a split tensor", { calls, tensors * MEASURED }
    };
}

/* Limits of rows and columns, and sums of squares. */
static void add_split_factors(terms *t, const tx_volume_sizes *z)
{
    int64_t calls = 0, n = 0;
    for (int k = 0; k < TX_N_SHARED && z->t > 1; k++) {
        calls += z->shared[k].split_factors > 0;
        n += z->shared[k].split_factors;
    }
    if (!calls) return;
    TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
    t->term[t->n++] = (tx_volume_term){
        TX_GROUP_TENSOR, TX_COMM_ALL_REDUCE, "16 bytes a row or column across the split", { 2 * calls, 16 * n }
    };
}

static void add_divided_factors(terms *t, const tx_volume_sizes *z, sharing s)
{
    if (z->zero && s.of->factors)
        add(t, s.group, TX_COMM_ALL_REDUCE, "16 bytes a row or column of a matrix", 2, s.of->factors * 8);
}

static void add_divided_norms(terms *t, const tx_volume_sizes *z, sharing s)
{
    if (z->zero) add(t, s.group, TX_COMM_ALL_REDUCE, "2 exact sums a tensor", 1, s.of->measured * MEASURED);
}

/* What all ranks have whole, after the update. */
static void add_updated(terms *t, const tx_volume_sizes *z, sharing s)
{
    tx_volume_buckets b = z->zero == 3 ? s.of->whole : s.of->all;
    const char *what = z->zero == 3 ? "updated parameters that stay whole" : "updated parameters";
    if (!z->zero || z->skips) return;
    if (!z->gathers) b.n *= s.n;
    const tx_volume_term of = { s.group, z->gathers ? TX_COMM_ALL_GATHER : TX_COMM_BROADCAST, what, { 0 } };
    add_buckets(t, of, 1, b, z->value);
}

/* ZeRO 3. What a micro-batch uses in forward and again in backward is gathered twice, unless it waits in between. */
static void add_before_use(terms *t, const tx_volume_sizes *z, sharing s)
{
    static const char *const what[TX_N_GATHERED][2] = {
        { "a layer, forward and backward", "a layer, once" },
        { "word embedding, each use", "word embedding, once" },
        { "other embeddings, each use", "other embeddings, once" },
        { "output layer", "output layer" },
    };
    const int64_t uses[TX_N_GATHERED] = { 2, z->tied && z->p == 1 ? 2 : 1, z->embedding_norm ? 2 : 1, 1 };
    for (int i = 0; i < TX_N_GATHERED && z->zero == 3; i++)
        for (int waits = 0; waits < 2; waits++) {
            const tx_volume_term of = { s.group, TX_COMM_ALL_GATHER, what[i][waits], { 0 } };
            const tx_volume_term again = { TX_GROUP_NEAR, TX_COMM_ALL_GATHER, "the same, from near ranks", { 0 } };
            int64_t times = z->n_micro * (waits ? 1 : uses[i]), far = has_second(z) ? 1 : times;
            tx_volume_buckets b = s.of->gathered[i][waits], blocks = { b.n, s.n * b.words[0], { 0 } };
            add_buckets(t, of, far, z->quantized_weights ? blocks : b, z->quantized_weights ? 4 : z->value);
            add_buckets(t, again, times - far, b, z->value);
        }
}

/* Updates that need whole matrices: their directions, and what came of them (zero/matrices.h). */
static void add_matrices(terms *t, const tx_volume_sizes *z, sharing s)
{
    const tx_volume_term there = { s.group, TX_COMM_ALL_GATHER, "directions of matrices", { 0 } };
    const tx_volume_term back = { s.group, TX_COMM_REDUCE_SCATTER, "orthogonal matrices", { 0 } };
    add_buckets(t, there, z->zero > 0, s.of->matrices, 4);
    add_buckets(t, back, z->zero > 0, s.of->matrices, 4);
}

static void add_split_matrices(terms *t, const tx_volume_sizes *z)
{
    static const char *const what[TX_N_COMM_OPS] = { [TX_COMM_ALL_GATHER] = "directions of the rank's matrices",
                                                     [TX_COMM_ALL_REDUCE] = "k k products of the rank's matrices" };
    for (int op = 0; op < TX_N_COMM_OPS; op++) {
        if (!z->matrices[op].calls) continue;
        TX_ASSERT(t->n < TX_VOLUME_MAX_TERMS);
        t->term[t->n++] = (tx_volume_term){ TX_GROUP_TENSOR, (tx_comm_op)op, what[op], z->matrices[op] };
    }
}

/* Of the word embedding that first and last stage have both. */
static void add_ends(terms *t, const tx_volume_sizes *z)
{
    static const char *const what[2][2] = {
        { "4 bytes a word embedding of the rank", "4 bytes of the rank's part of the embedding" },
        { "2 bytes a word embedding of the rank", "2 bytes of the rank's part of the embedding" },
    };
    add(t, TX_GROUP_ENDS, TX_COMM_ALL_REDUCE, what[z->grad == 2][z->zero > 0], 1, z->ends * z->grad);
}

int tx_volume_terms(const tx_volume_sizes *z, tx_volume_term term[TX_VOLUME_MAX_TERMS])
{
    terms t = { .term = term };
    if (z->t > 1 && z->sequence) add_parts(&t, z);
    if (z->t > 1 && !z->sequence) add_all_reduces(&t, z);
    add_split_norms(&t, z);
    add_split_factors(&t, z);
    if (z->p > 1) add_pipeline(&t, z);
    if (z->teacher.h) add_teacher(&t, z);
    if (z->e > 1) add_experts(&t, z);
    if (z->c > 1 && z->heads_sent) add_heads(&t, z);
    if (z->c > 1 && z->keys_sent) add_keys(&t, z);
    if (z->c > 1) add_routers(&t, z);
    if (z->t > 1) add_split_matrices(&t, z);
    for (int k = 0; k < TX_N_SHARED; k++) {
        sharing s = sharing_of(z, k);
        if (s.n <= 1) continue;
        add_gradients(&t, z, s);
        add_divided_norms(&t, z, s);
        add_divided_factors(&t, z, s);
        add_updated(&t, z, s);
        add_before_use(&t, z, s);
        add_matrices(&t, z, s);
    }
    add_far(&t, z);
    if (z->p > 1 && z->tied && z->ends && (has_pre(z) || has_post(z))) add_ends(&t, z);
    return t.n;
}

void tx_volume_expect(tx_volume *v, const tx_volume_sizes *z)
{
    tx_volume_term term[TX_VOLUME_MAX_TERMS];
    int n = tx_volume_terms(z, term);
    *v = (tx_volume){ 0 };
    for (int i = 0; i < n; i++) {
        tx_comm_volume *to = &v->of[term[i].group][term[i].op];
        to->calls += term[i].volume.calls;
        to->bytes += term[i].volume.bytes;
    }
}

int tx_volume_group_size(const tx_volume_sizes *z, int group)
{
    const int size[TX_N_STEP_GROUPS] = { [TX_GROUP_TENSOR] = z->t,
                                         [TX_GROUP_PIPELINE] = z->p,
                                         [TX_GROUP_CONTEXT] = z->c,
                                         [TX_GROUP_HEADS] = z->heads ? z->heads : 1,
                                         [TX_GROUP_RING] = z->heads ? z->c / z->heads : 1,
                                         [TX_GROUP_DATA] = z->r,
                                         [TX_GROUP_NEAR] = z->near,
                                         [TX_GROUP_FAR] = z->far,
                                         [TX_GROUP_EXPERT] = z->e,
                                         [TX_GROUP_EXPERT_DATA] = z->r_experts,
                                         [TX_GROUP_ENDS] = z->p > 1 && (has_pre(z) || has_post(z)) ? 2 : 1 };
    return size[group];
}

static double least(const tx_volume *v, const tx_volume_sizes *z, int group, int op)
{
    return tx_comm_sent((tx_comm_op)op, tx_volume_group_size(z, group), v->of[group][op].bytes);
}

double tx_volume_sent(const tx_volume *v, const tx_volume_sizes *z)
{
    double sum = 0;
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        for (int op = 0; op < TX_N_COMM_OPS; op++) sum += least(v, z, i, op);
    return sum;
}

/* How often something is dropped that should wait for backward depends on more than sizes. */
static bool is_bound(const tx_volume_sizes *z, int group, int op)
{
    return z->bounded && op == TX_COMM_ALL_GATHER &&
           (group == TX_GROUP_DATA || group == TX_GROUP_NEAR || group == TX_GROUP_EXPERT_DATA);
}

/* How many tokens have a place depends on what they choose. */
static bool is_bound_in_bytes(const tx_volume_sizes *z, int group)
{
    return z->drops && group == TX_GROUP_EXPERT;
}

static bool agrees(const tx_volume *counted, const tx_volume *expected, const tx_volume_sizes *z, int group, int op)
{
    const tx_comm_volume *v = &counted->of[group][op], *e = &expected->of[group][op];
    if (is_bound(z, group, op)) return v->calls <= e->calls && v->bytes <= e->bytes;
    if (is_bound_in_bytes(z, group)) return v->calls == e->calls && v->bytes <= e->bytes;
    return v->calls == e->calls && v->bytes == e->bytes;
}

bool tx_volume_agrees(const tx_volume *counted, const tx_volume_sizes *z)
{
    tx_volume expected;
    bool all = true;
    tx_volume_expect(&expected, z);
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        for (int op = 0; op < TX_N_COMM_OPS; op++) all = all && agrees(counted, &expected, z, i, op);
    return all;
}

/* ---- the table ---- */

static const double MB = 1048576;

/* What a group moved by an op, and below it the terms. */
static tx_status show(tx_str *out, const tx_volume *counted, const tx_volume *expected, const tx_volume_sizes *z,
                      int group, int op)
{
    const tx_comm_volume *v = &counted->of[group][op], *e = &expected->of[group][op];
    tx_volume_term term[TX_VOLUME_MAX_TERMS];
    int n = tx_volume_terms(z, term);
    char name[64];
    if (!v->calls && !e->calls) return TX_OK;
    snprintf(name, sizeof name, "%d %s", tx_volume_group_size(z, group), tx_group_names[group]);
    TX_TRY(tx_str_printf(out, "    %-26s %-18s %9lld %14.3f %14.3f\n", name, tx_comm_op_names[op], (long long)v->calls,
                         (double)v->bytes / MB, least(counted, z, group, op) / MB));
    for (int i = 0; i < n; i++)
        if (term[i].group == group && (int)term[i].op == op)
            TX_TRY(tx_str_printf(out, "      %-43s %9lld %14.3f\n", term[i].what, (long long)term[i].volume.calls,
                                 (double)term[i].volume.bytes / MB));
    if (is_bound(z, group, op))
        TX_TRY(tx_str_printf(out, "      these are the most: --zero-max-live-parameters lets some of it wait\n"));
    if (is_bound_in_bytes(z, group)) TX_TRY(tx_str_printf(out, "      these are the most: experts drop tokens\n"));
    if (agrees(counted, expected, z, group, op)) return TX_OK;
    return tx_str_printf(out, "      NOT EQUAL: %lld calls and %lld bytes, by the formulas %lld and %lld\n",
                         (long long)v->calls, (long long)v->bytes, (long long)e->calls, (long long)e->bytes);
}

tx_status tx_volume_table(tx_str *out, const tx_volume *counted, const tx_volume_sizes *z)
{
    tx_volume expected;
    tx_volume_expect(&expected, z);
    TX_TRY(tx_str_printf(out, "    %-45s %9s %14s %14s\n", "among, and what it is by the formulas", "calls",
                         "tensors (MB)", "sent (MB)"));
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        for (int op = 0; op < TX_N_COMM_OPS; op++) TX_TRY(show(out, counted, &expected, z, i, op));
    TX_TRY(tx_str_printf(out, "    %-45s %9s %14s %14.3f\n", "sent in all, by algorithms that send least", "", "",
                         tx_volume_sent(counted, z) / MB));
    return tx_str_printf(out, "    calls and bytes are %sequal to the formulas'\n",
                         tx_volume_agrees(counted, z) ? "" : "NOT ");
}
