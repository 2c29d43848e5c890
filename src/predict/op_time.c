/* op_time.c - seconds of ops and messages: a few formulas over the machine's numbers, or what was measured on it. */
#include "predict/op_time.h"

#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "predict/measured_time.h"

/* ---- ops ---- */

double tx_machine_peak(const tx_machine *m, tx_dtype t)
{
    return t == TX_BF16 ? m->bf16_peak : t == TX_F16 ? m->fp16_peak : m->fp32_peak;
}

static double memory_seconds(const tx_machine *m, double bytes)
{
    return bytes / (m->bandwidth * m->bandwidth_share);
}

/* Share of the units' work that is of use where the result is cut into tiles of tm x tn, computed by all units at a
 * time: the last round and the last row and column of tiles are not full. */
static double tiles_share(const tx_machine *m, const tx_work_event *e, double tm, double tn)
{
    double tiles = ceil(e->m / tm) * ceil(e->n / tn), rounds = ceil(tiles / m->units);
    return e->m * e->n / (tm * tn) / (rounds * m->units);
}

/* Half a tile fills the units better and reads more for each product. */
static double best_tiles(const tx_machine *m, const tx_work_event *e)
{
    return fmax(tiles_share(m, e, m->tile_m, m->tile_n),
                m->half_tile_share * tiles_share(m, e, m->tile_m, m->tile_n / 2));
}

static bool is_aligned(double n, double align)
{
    return fmod(n, align) == 0;
}

/* What has to be aligned are the sizes that lie next to each other in memory, those of the weights. The rows of the
 * batch need not, as of a chunk of the head: m, or k of the gradient of weights. */
static bool is_misaligned(const tx_machine *m, const tx_work_event *e)
{
    bool rows = !is_aligned(e->m, m->align), inner = !is_aligned(e->k, m->align);
    return !is_aligned(e->n, m->align) || (inner && (rows || !e->backward));
}

static double product_seconds(const tx_machine *m, const tx_work_event *e)
{
    double rate = tx_machine_peak(m, e->dtype) * m->matrix_share * e->k / (e->k + m->half_k) * best_tiles(m, e);
    if (is_misaligned(m, e)) rate *= m->misaligned_share;
    return fmax(e->flops / rate, memory_seconds(m, e->bytes));
}

static double attention_seconds(const tx_machine *m, const tx_work_event *e)
{
    double share = e->backward ? m->attention_bwd_share : m->attention_share;
    double rate = tx_machine_peak(m, e->dtype) * share * e->n / (e->n + m->half_head);
    if (!is_aligned(e->n, m->align)) rate *= m->misaligned_head_share;
    return fmax(e->flops / rate, memory_seconds(m, e->bytes));
}

static double formula_seconds(const tx_machine *m, const tx_work_event *e)
{
    double s = e->bound == TX_COST_PRODUCT     ? product_seconds(m, e)
               : e->bound == TX_COST_ATTENTION ? attention_seconds(m, e)
                                               : memory_seconds(m, e->bytes);
    return s;
}

double tx_op_seconds(const tx_machine *m, const tx_work_event *e, int n_ranks)
{
    double s = tx__measured_op(m, e, n_ranks);
    if (s < 0) s = formula_seconds(m, e) * tx__ranks_a_core(m, n_ranks);
    return fmax(s + m->op_seconds, m->launch_seconds);
}

/* ---- messages ---- */

/* Ranks that divide positions. */
static int contexts_of(const tx_layout *l)
{
    return l->size[TX_AXIS_CONTEXT] ? l->size[TX_AXIS_CONTEXT] : 1;
}

/* Ranks between two neighbours of a group, and how many there are. */
static void stride_of(const tx_layout *l, int group, int *stride, int *size)
{
    int t = l->size[TX_AXIS_TENSOR], p = l->size[TX_AXIS_PIPELINE], c = contexts_of(l), r = c * l->size[TX_AXIS_DATA];
    int e = l->expert ? l->expert : 1, beside = l->expert_tensor ? t : 1, of_experts = t * r / beside;
    switch (group) {
    case TX_GROUP_EXPERT:
        *stride = beside, *size = e;
        return;
    case TX_GROUP_EXPERT_DATA:
        *stride = beside * e, *size = l->expert ? of_experts / e : 1;
        return;
    case TX_GROUP_TENSOR:
        *stride = 1, *size = t;
        return;
    case TX_GROUP_CONTEXT:
        *stride = t, *size = c;
        return;
    case TX_GROUP_HEADS:
        *stride = t, *size = l->heads ? l->heads : 1;
        return;
    case TX_GROUP_RING:
        *stride = t * l->heads, *size = l->heads ? c / l->heads : 1;
        return;
    case TX_GROUP_DATA:
        *stride = t, *size = r;
        return;
    case TX_GROUP_NEAR:
        *stride = t, *size = l->near ? l->near : 1;
        return;
    case TX_GROUP_FAR:
        *stride = t * l->near, *size = l->near ? r / l->near : 1;
        return;
    case TX_GROUP_COPY:
        *stride = 1, *size = l->copy ? t * p * l->copy : 1;
        return;
    case TX_GROUP_ENDS:
        *stride = t * r * (p - 1), *size = p > 1 ? 2 : 1;
        return;
    case TX_GROUP_PIPELINE:
        *stride = t * r, *size = p;
        return;
    default:
        *stride = 1, *size = t * p * r;
    }
}

tx_span tx_group_span(const tx_layout *l, int group, const tx_machine *m)
{
    int stride, size, node = (int)m->ranks_per_node;
    stride_of(l, group, &stride, &size);
    int world = l->size[TX_AXIS_TENSOR] * l->size[TX_AXIS_PIPELINE] * l->size[TX_AXIS_DATA] * contexts_of(l);
    if (stride < 1) stride = 1;
    if (node > world) node = world;
    int in_node = stride < node ? node / stride : 1;
    if (in_node > size) in_node = size;
    tx_span s = { .size = size, .in_node = in_node, .nodes = (size + in_node - 1) / in_node };
    s.sharing = node / in_node;
    return s;
}

static double log2_of(int n)
{
    return n > 1 ? log2(n) : 0;
}

/* Groups that share a node's cores take turns. */
static double measured_call(const tx_machine *m, tx_span s, const char *op, tx_dtype dtype, double bytes)
{
    double seconds = s.nodes == 1 ? tx__measured_call(m, op, dtype, bytes, s.size) : -1;
    return m->cores > 0 ? seconds * tx__ranks_a_core(m, s.size * s.sharing) / tx__ranks_a_core(m, s.size) : seconds;
}

double tx_call_seconds(const tx_machine *m, tx_span s, const char *op, double bytes)
{
    return tx_typed_call_seconds(m, s, op, TX_F32, bytes);
}

static tx_comm_op op_of(const char *name)
{
    int i = 0;
    while (i < TX_N_COMM_OPS && strcmp(name, tx_comm_op_names[i]) != 0) i++;
    return (tx_comm_op)i;
}

/* Calls that triax makes itself, host by host or from each rank to each other (comm/comm.h). What a chunk takes on its
 * way is seen once: meanwhile the next ones are on theirs. */
static double own_seconds(const tx_machine *m, tx_span s, tx_comm_op op, tx_dtype dtype, double bytes)
{
    const tx_comm_hosts at = { .size = s.size, .hosts = s.nodes, .most = s.in_node };
    double rate = m->net_bandwidth * m->net_share / s.sharing;
    if (s.nodes < 2) return 0;
    bool by_hosts = tx_comm_goes_by_hosts(op, dtype, at, (int64_t)bytes);
    double seconds = bytes * tx_comm_crossing(op, dtype, at, by_hosts) / rate;
    if (!by_hosts) return seconds;
    tx_comm_chain chain = tx_comm_chain_of(op, at, bytes);
    return seconds + (chain.hops - 1) * (chain.chunk / rate + m->net_latency);
}

/* Between nodes, through adapters that the ranks of a node share: a ring crosses once, an all-to-all sends all of what
 * each rank has for ranks of other nodes. */
static double between_seconds(const tx_machine *m, tx_span s, const char *op, double sent)
{
    double share = fmin(1.0 / s.sharing, m->net_group_share);
    if (s.nodes < 2) return 0;
    if (!strcmp(op, "all-to-all")) {
        sent *= s.in_node * (double)(s.size - s.in_node) / (s.size - 1);
        share = 1.0 / s.sharing;
    }
    return sent / (m->net_bandwidth * m->net_share * share);
}

double tx_typed_call_seconds(const tx_machine *m, tx_span s, const char *op, tx_dtype dtype, double bytes)
{
    if (s.size < 2) return 0;
    double measured = measured_call(m, s, op, dtype, bytes);
    if (measured >= 0) return measured;
    double n = s.size, sent = bytes * (n - 1) / n * (strcmp(op, "all-reduce") ? 1 : 2);
    if (!strcmp(op, "all-to-all")) sent /= n;
    double inside = s.in_node > 1 ? sent / ((s.in_node > 2 ? m->node_all : m->node_pair) * m->node_share) : 0;
    double between =
        tx_machine_is_gpu(m) ? between_seconds(m, s, op, sent) : own_seconds(m, s, op_of(op), dtype, bytes);
    double steps = log2_of(s.nodes) * (strcmp(op, "all-reduce") ? 1 : 2);
    return fmax(inside, between) + m->node_latency + m->net_latency * steps;
}

/* Between nodes each tensor-parallel rank sends its share of what all of them have, and they gather it behind. */
double tx_message_seconds(const tx_machine *m, const tx_layout *l, double bytes)
{
    tx_span s = tx_group_span(l, TX_GROUP_PIPELINE, m), t = tx_group_span(l, TX_GROUP_TENSOR, m);
    if (s.in_node > 1) return bytes / (m->node_pair * m->node_share) + m->node_latency;
    double gather = l->sequence ? 0 : tx_call_seconds(m, t, "all-gather", bytes);
    double share = l->sequence ? bytes : bytes / t.size;
    return share * s.sharing / (m->net_bandwidth * m->net_share) + m->net_latency + gather;
}
