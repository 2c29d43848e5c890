/* stage.c - carries out the instructions of a pipeline stage. */
#include "train/stage.h"

#include <stdio.h>
#include <string.h>

#include "backend/trace.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "nn/kept_input.h"
#include "parallel/cp.h"
#include "parallel/tp.h"

enum { FILL, FORWARD, BACKWARD };

/* ---- slots ---- */

static void enter(tx_stage *st, int slot)
{
    if (slot == st->current) return;
    st->slot[st->current].acts = st->c->acts;
    st->slot[st->current].host = st->c->host;
    st->c->acts = st->slot[slot].acts;
    st->c->host = st->slot[slot].host;
    st->current = slot;
}

/* Shapes, with addresses that a dry run computes with. */
static void shape_batch(tx_stage *st, tx_batch *batch)
{
    *batch = (tx_batch){ .chunk = 0 };
    st->m->type->shape(st->m, st->cfg, batch, tx_cp_rows(st->grid, st->s), st->b);
    tx_routing_shape(st->m, batch, st->kept, st->s);
}

static size_t bytes_of(tx_tensor x)
{
    return (size_t)tx_numel(x) * tx_dtype_size(x.dtype);
}

static tx_status take_batch(tx_device *d, tx_batch *batch, bool in_host)
{
    tx_tensor *all[TX_BATCH_BUFFERS];
    tx_batch_buffers(batch, all);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) {
        void *data;
        if (!all[i]->data) continue;
        TX_TRY(in_host ? tx_device_take_host(d, &data, bytes_of(*all[i]), "a batch")
                       : tx_device_take(d, &data, bytes_of(*all[i]), false, "a batch"));
        all[i]->data = data;
    }
    return TX_OK;
}

static void free_batch(tx_device *d, tx_batch *batch, bool in_host)
{
    tx_tensor *all[TX_BATCH_BUFFERS];
    tx_batch_buffers(batch, all);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) {
        if (all[i]->data == TX_DRY_ADDRESS) continue;
        if (in_host)
            tx_device_give_host(d, all[i]->data);
        else
            tx_device_give(d, all[i]->data);
    }
}

static tx_status take_host_batches(tx_stage *st)
{
    for (int i = 0; i < TX_N_HOST_BATCHES && st->c->device; i++) {
        tx_host_batch *g = &st->host[i];
        shape_batch(st, &g->batch);
        TX_TRY(take_batch(st->c->device, &g->batch, true));
        TX_TRY(tx_device_event_make(st->c->device, &g->there));
    }
    return TX_OK;
}

static void free_host_batches(tx_stage *st)
{
    for (int i = 0; i < TX_N_HOST_BATCHES; i++) {
        free_batch(st->c->device, &st->host[i].batch, true);
        tx_device_event_free(st->c->device, st->host[i].there);
    }
}

/* Nobody waits for the first stage's backwards: it does both parts together, which is 1F1B. */
static tx_pp_kind kind_of(const tx_stage *st, bool train)
{
    tx_pp_kind kind = tx_pp_training_kind(st->cfg);
    if (!train) return TX_PP_FORWARD;
    return kind == TX_PP_ZBH1 && !tx_grid_rank(st->grid, TX_AXIS_PIPELINE) ? TX_PP_1F1B : kind;
}

static tx_pp_shape shape_of(const tx_stage *st, int64_t n_micro, bool train)
{
    return (tx_pp_shape){ .kind = kind_of(st, train),
                          .p = tx_grid_size(st->grid, TX_AXIS_PIPELINE),
                          .m = (int)n_micro,
                          .n_chunks = st->m->n_chunks };
}

/* The schedule's slots are taken until the weights' part: here they are divided, since what that needs is kept apart.
 * Returns the number of stores. */
static int divide_slots(tx_pp_list *list)
{
    int n_slots = 0, n_stores = 0, held = 0, late = 0;
    for (int i = 0; i < list->n; i++) {
        tx_pp_op op = list->instr[i].op;
        held += (op == TX_PP_FWD) - (op == TX_PP_BWD);
        late += (op == TX_PP_BWD) - (op == TX_PP_WGT);
        if (held > n_slots) n_slots = held;
        if (late > n_stores) n_stores = late;
    }
    for (int i = 0; i < list->n; i++) list->instr[i].slot = list->instr[i].micro % n_slots;
    list->n_slots = n_slots;
    return n_stores;
}

static tx_status make_list(tx_stage *st, int64_t n_micro, bool train)
{
    if (st->plan[train].n_micro == n_micro) return TX_OK;
    tx_pp_shape shape = shape_of(st, n_micro, train);
    tx_pp_list list = { 0 };
    TX_TRY(tx_pp_schedule(&list, &shape, tx_grid_rank(st->grid, TX_AXIS_PIPELINE)));
    tx_pp_list_free(&st->plan[train].list);
    st->plan[train].n_stores = shape.kind == TX_PP_ZBH1 ? divide_slots(&list) : 0;
    st->plan[train].list = list;
    TX_TRY(tx_pp_post(&st->plan[train].list, train && !tx_inputs_move(&st->m->recompute)));
    st->plan[train].n_micro = n_micro;
    st->plan[train].told = false;
    return TX_OK;
}

static tx_tensor push(tx_arena *a, tx_tensor shape)
{
    if (shape.n_dims) shape.data = tx_arena_push(a, bytes_of(shape));
    return shape;
}

/* What goes between stages: st->from_previous, st->to_next. */
static void shape_messages(tx_stage *st)
{
    st->from_previous = st->to_next =
        tx_tensor3(NULL, st->m->stream, tx_tp_positions(st->c, tx_cp_rows(st->grid, st->s)), st->b, st->m->hidden);
    if (st->m->type->between) st->m->type->between(st->m, st->b, &st->from_previous, &st->to_next);
}

/* Copies of what is sent, where there are other stages; and what layers with experts add up for the log
 * and choose with, and the largest scores of attention. */
static void push_messages(tx_stage *st)
{
    if (st->m->expert_sums.n_dims) st->m->expert_sums = push(&st->messages, st->m->expert_sums);
    if (st->m->expert_bias.n_dims) st->m->expert_bias = push(&st->messages, st->m->expert_bias);
    if (st->m->max_logits.n_dims) st->m->max_logits = push(&st->messages, st->m->max_logits);
    if (tx_grid_size(st->grid, TX_AXIS_PIPELINE) == 1) return;
    for (int k = 0; k < TX_N_OUTGOING; k++) {
        st->out[0].copy[k] = push(&st->messages, st->to_next);
        st->out[1].copy[k] = push(&st->messages, st->from_previous);
    }
    for (int k = 0; k < st->n_inputs; k++) st->input[k].x = push(&st->messages, st->from_previous);
    if (!st->teacher.m) return;
    const tx_tensor taught = tx_teacher_stream(&st->teacher, st->c, st->s, st->b);
    for (int k = 0; k < TX_N_OUTGOING; k++) st->taught_out.copy[k] = push(&st->messages, taught);
    for (int k = 0; k < TX_N_TAUGHT && st->n_inputs; k++) st->taught_in[k].x = push(&st->messages, taught);
}

static void share_top(tx_stage *st)
{
    tx_arena_init(&st->top.arena, st->c->acts.name);
    st->top.arena.shared = st->c->acts.shared;
    st->top.arena.device = st->c->device;
    st->c->top = &st->top;
}

tx_status tx_stage_open(tx_stage *st, tx_ctx *c, tx_model *m, const tx_config *cfg, int64_t n_micro, bool train)
{
    *st = (tx_stage){ .c = c, .m = m, .cfg = cfg, .grid = tx_grid_of(c) };
    st->s = st->kept = cfg->seq_length;
    st->b = cfg->micro_batch_size;
    if (cfg->fpdt_nvme_path && c->device)
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "--ds-sequence-parallel-fpdt-nvme-path: a GPU copies from and to the host's memory: leave it out");
    c->host.dir = cfg->fpdt_nvme_path;
    int n = 1;
    for (int k = 0; k <= train; k++) {
        TX_TRY(make_list(st, n_micro, k));
        const tx_pp_list *l = &st->plan[k].list;
        if (l->n_slots > n) n = l->n_slots;
        if (l->n_inputs > st->n_inputs) st->n_inputs = l->n_inputs;
    }
    if (st->n_inputs == 1) st->n_inputs = 2; /* evaluations may have more micro-batches than one */
    TX_TRY(tx_alloc(&st->input, (size_t)st->n_inputs, sizeof *st->input, "the pipeline's messages"));
    st->train = train;
    TX_TRY(tx_alloc(&st->slot, (size_t)n, sizeof *st->slot, "the pipeline's slots"));
    st->n_slots = n;
    for (int i = 0; i < n; i++) {
        tx_arena_init(&st->slot[i].acts, c->acts.name);
        tx_arena_init(&st->slot[i].host, c->host.name);
        st->slot[i].acts.shared = c->acts.shared;
        st->slot[i].acts.device = st->slot[i].host.device = c->device;
        st->slot[i].host.in_host = true;
        st->slot[i].host.dir = c->host.dir;
        shape_batch(st, &st->slot[i].batch);
        st->slot[i].batch.slot = i;
    }
    if (n > 1) share_top(st);
    st->n_stores = st->plan[train].n_stores;
    TX_TRY(tx_alloc(&st->store, (size_t)st->n_stores, sizeof *st->store, "the pipeline's slots"));
    for (int i = 0; i < st->n_stores; i++) tx_wgrad_store_open(&st->store[i], &c->acts);
    tx_arena_init(&st->messages, "messages");
    st->messages.shared = c->acts.shared;
    st->messages.device = c->device;
    shape_messages(st);
    if (train && m->is_taught) TX_TRY(tx_teacher_open(&st->teacher, c, m, cfg));
    push_messages(st);
    return tx_model_hold(m, n);
}

/* The shape is another, the memory stays. */
static void reshape(tx_tensor *x, tx_tensor shape)
{
    void *data = x->data;
    if (!data) return;
    *x = shape;
    x->data = data;
}

static void reshape_batch(tx_stage *st, tx_batch *batch)
{
    tx_batch shape;
    tx_tensor *now[TX_BATCH_BUFFERS], *want[TX_BATCH_BUFFERS];
    shape_batch(st, &shape);
    tx_batch_buffers(batch, now);
    tx_batch_buffers(&shape, want);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) reshape(now[i], *want[i]);
    batch->n_labels = shape.n_labels;
}

void tx_stage_set_length(tx_stage *st, int64_t s, int64_t kept)
{
    if (s == st->s && kept == st->kept) return;
    TX_ASSERT(s > 0 && s <= st->cfg->seq_length && kept > 0);
    st->s = s;
    st->kept = kept;
    for (int i = 0; i < st->n_slots; i++) reshape_batch(st, &st->slot[i].batch);
    for (int i = 0; i < TX_N_HOST_BATCHES; i++) reshape_batch(st, &st->host[i].batch);
    shape_messages(st);
    for (int k = 0; k < TX_N_OUTGOING; k++) {
        reshape(&st->out[0].copy[k], st->to_next);
        reshape(&st->out[1].copy[k], st->from_previous);
    }
    for (int k = 0; k < st->n_inputs; k++) reshape(&st->input[k].x, st->from_previous);
    if (!st->teacher.m) return;
    const tx_tensor taught = tx_teacher_stream(&st->teacher, st->c, s, st->b);
    for (int k = 0; k < TX_N_OUTGOING; k++) reshape(&st->taught_out.copy[k], taught);
    for (int k = 0; k < TX_N_TAUGHT; k++) reshape(&st->taught_in[k].x, taught);
    tx_teacher_set_length(&st->teacher, st->c, s, st->b);
}

/* The most that a slot needs. Which chunk comes into which slot depends on the number of micro-batches, so all are as
 * large. */
static size_t slot_bytes(const tx_stage *st)
{
    size_t most = st->c->acts.peak;
    for (int i = 0; i < st->n_slots; i++)
        if (i != st->current && st->slot[i].acts.peak > most) most = st->slot[i].acts.peak;
    return most;
}

static size_t slot_host_bytes(const tx_stage *st)
{
    size_t most = st->c->host.peak;
    for (int i = 0; i < st->n_slots; i++)
        if (i != st->current && st->slot[i].host.peak > most) most = st->slot[i].host.peak;
    return most;
}

/* Likewise of a store. */
static size_t store_bytes(const tx_stage *st)
{
    size_t most = 0;
    for (int i = 0; i < st->n_stores; i++)
        if (st->store[i].arena.peak > most) most = st->store[i].arena.peak;
    return most;
}

/* Bytes of each slot's stack, and of the top that they share: none where slots with one of their own take less. After
 * the dry run that is decided. */
typedef struct room {
    size_t slot, top;
} room;

static room room_of(const tx_stage *st)
{
    const tx_top *t = &st->top;
    size_t n = (size_t)st->n_slots, slot = slot_bytes(st), whole = slot > t->together ? slot : t->together;
    if (st->c->dry && n * whole <= n * slot + t->peak) return (room){ .slot = whole };
    return (room){ .slot = slot, .top = t->peak };
}

static tx_status take_top(tx_stage *st, size_t bytes)
{
    st->top.peak = st->top.together = 0;
    if (!bytes) st->c->top = NULL;
    return st->c->top ? tx_arena_reserve(&st->top.arena, bytes) : TX_OK;
}

tx_status tx_stage_take(tx_stage *st)
{
    enter(st, 0);
    room r = room_of(st);
    size_t host = st->c->host.peak = slot_host_bytes(st), messages = st->messages.peak, store = store_bytes(st);
    st->c->acts.peak = r.slot;
    TX_TRY(tx_ctx_take_memory(st->c));
    TX_TRY(take_top(st, r.top));
    TX_TRY(tx_arena_reserve(&st->messages, messages));
    push_messages(st);
    for (int i = 0; i < st->n_slots; i++) {
        if (i) TX_TRY(tx_arena_reserve(&st->slot[i].acts, r.slot));
        if (i) TX_TRY(tx_arena_reserve(&st->slot[i].host, host));
        TX_TRY(take_batch(st->c->device, &st->slot[i].batch, false));
    }
    for (int i = 0; i < st->n_stores; i++) TX_TRY(tx_wgrad_store_take(&st->store[i], store, st->store));
    TX_TRY(tx_teacher_take(&st->teacher, st->c));
    return take_host_batches(st);
}

/* Of an instruction that failed. */
static void leave_top(tx_stage *st)
{
    if (st->c && st->c->top) tx_ctx_end_top(st->c, st->top.on);
}

void tx_stage_close(tx_stage *st)
{
    leave_top(st);
    if (st->slot) enter(st, 0);
    if (st->c) tx_teacher_close(&st->teacher, st->c);
    for (int i = 0; i < st->n_slots; i++) {
        if (i) tx_arena_deinit(&st->slot[i].acts);
        if (i) tx_arena_deinit(&st->slot[i].host);
        free_batch(st->c->device, &st->slot[i].batch, false);
    }
    if (st->c) {
        tx_arena_deinit(&st->messages);
        tx_arena_deinit(&st->top.arena);
        st->c->top = NULL;
        free_host_batches(st);
    }
    for (int i = 0; i < st->n_stores && st->store; i++) tx_wgrad_store_close(&st->store[i]);
    tx_free(st->store);
    tx_free(st->input);
    tx_free(st->slot);
    for (int k = 0; k < 2; k++) tx_pp_list_free(&st->plan[k].list);
    *st = (tx_stage){ 0 };
}

size_t tx_stage_stacks(const tx_stage *st, size_t *peak)
{
    size_t n = (size_t)st->n_slots, stores = (size_t)st->n_stores;
    room r = room_of(st);
    *peak = n * r.slot + r.top + stores * store_bytes(st) + st->messages.peak + st->teacher.acts.peak;
    return n * st->c->acts.cap + st->top.arena.cap + (stores ? stores * st->store->arena.cap : 0) + st->messages.cap +
           st->teacher.acts.cap;
}

size_t tx_stage_host_stacks(const tx_stage *st, size_t *peak)
{
    size_t n = (size_t)st->n_slots;
    *peak = n * slot_host_bytes(st);
    return n * st->c->host.cap;
}

/* ---- instructions ---- */

static void add_time(tx_stage *st, int what, double *since)
{
    double now = tx_clock();
    st->seconds[what] += now - *since;
    *since = now;
}

static void begin_slot(tx_stage *st, int slot, int chunk)
{
    tx_batch *batch = &st->slot[slot].batch;
    enter(st, slot);
    tx_arena_pop(&st->c->acts, 0);
    tx_arena_pop(&st->c->host, 0);
    batch->chunk = chunk;
    batch->x = (tx_tensor){ 0 };
}

/* Messages between two ranks are told apart by the virtual stage that sends, and by direction. */
static int tag(const tx_stage *st, int stage, int chunk, bool backward)
{
    return 2 * (chunk * tx_grid_size(st->grid, TX_AXIS_PIPELINE) + stage) + backward;
}

/* Of the teacher's stream, which goes beside the student's. */
static int teacher_tag(const tx_stage *st, int tag)
{
    return tag + 2 * TX_MAX_CHUNKS * tx_grid_size(st->grid, TX_AXIS_PIPELINE);
}

static tx_status post_forward(tx_stage *st, const tx_pp_instr *in, bool train)
{
    int me = tx_grid_rank(st->grid, TX_AXIS_PIPELINE);
    tx_comm *g = tx_grid_group(st->grid, TX_GROUP_PIPELINE);
    tx_incoming *to = &st->input[in->input], *taught = &st->taught_in[st->next_posted];
    int its = tag(st, in->peer, me ? in->chunk : in->chunk - 1, false);
    TX_TRY(tx_recv_start(st->c, g, to->x, in->peer, its, &to->received));
    if (!train || !st->teacher.m) return TX_OK;
    st->next_posted = (st->next_posted + 1) % TX_N_TAUGHT;
    return tx_recv_start(st->c, g, taught->x, in->peer, teacher_tag(st, its), &taught->received);
}

static tx_status receive_forward(tx_stage *st, const tx_pp_instr *in, bool train)
{
    tx_incoming *taught = &st->taught_in[st->next_taught];
    begin_slot(st, in->slot, in->chunk);
    st->slot[in->slot].batch.x = st->input[in->input].x;
    TX_TRY(tx_wait(st->c, &st->input[in->input].received));
    if (!train || !st->teacher.m) return TX_OK;
    st->next_taught = (st->next_taught + 1) % TX_N_TAUGHT;
    st->teacher.x = taught->x;
    return tx_wait(st->c, &taught->received);
}

static tx_status post_backward(tx_stage *st, const tx_pp_instr *in)
{
    int me = tx_grid_rank(st->grid, TX_AXIS_PIPELINE), p = tx_grid_size(st->grid, TX_AXIS_PIPELINE);
    tx_slot *slot = &st->slot[in->slot];
    return tx_recv_start(st->c, tx_grid_group(st->grid, TX_GROUP_PIPELINE), slot->batch.d, in->peer,
                         tag(st, in->peer, me < p - 1 ? in->chunk : in->chunk + 1, true), &slot->gradient);
}

static tx_status receive_backward(tx_stage *st, const tx_pp_instr *in)
{
    enter(st, in->slot);
    return tx_wait(st->c, &st->slot[in->slot].gradient);
}

/* ---- batches in the host's memory ---- */

/* Gives the feed the losses that a batch holds, which is then free. */
static tx_status settle(tx_stage *st, tx_host_batch *g)
{
    if (!g->has_losses) return TX_OK;
    g->has_losses = false;
    TX_TRY(tx_device_event_wait(st->c->device, g->there));
    return st->feed->losses(st->feed->user, g->micro, &g->batch);
}

void tx_stage_begin(tx_stage *st, const tx_feed *feed)
{
    for (int i = 0; i < TX_N_HOST_BATCHES; i++) st->host[i].has_losses = false; /* of an iteration that failed */
    st->feed = feed;
    leave_top(st);
}

tx_status tx_stage_end(tx_stage *st)
{
    for (int i = 0; i < TX_N_HOST_BATCHES; i++) TX_TRY(settle(st, &st->host[(st->next_host + i) % TX_N_HOST_BATCHES]));
    st->feed = NULL;
    return TX_OK;
}

/* All buffers but the losses' from the host's batch to the device's. */
static tx_status copy_there(tx_stage *st, tx_batch *to, tx_batch *from)
{
    tx_tensor *there[TX_BATCH_BUFFERS], *here[TX_BATCH_BUFFERS];
    tx_batch_buffers(to, there);
    tx_batch_buffers(from, here);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++)
        if (here[i]->data && here[i] != &from->loss && here[i] != &from->other_loss && here[i] != &from->taught)
            TX_TRY(tx_device_copy(st->c->device, TX_STREAM_COMPUTE, there[i]->data, here[i]->data, bytes_of(*here[i])));
    return TX_OK;
}

/* The batch is filled: by way of one in the host's memory (*g), or where it is. */
static tx_status fill(tx_stage *st, tx_batch *batch, int64_t micro, tx_host_batch **g)
{
    const tx_feed *feed = st->feed;
    *g = NULL;
    if (!feed->fill) return TX_OK;
    if (!st->c->device) return feed->fill(feed->user, micro, batch);
    tx_host_batch *next = &st->host[st->next_host];
    st->next_host = (st->next_host + 1) % TX_N_HOST_BATCHES;
    TX_TRY(settle(st, next));
    TX_TRY(tx_device_event_wait(st->c->device, next->there)); /* what it held has been copied */
    next->batch.chunk = batch->chunk;
    next->batch.slot = batch->slot;
    TX_TRY(feed->fill(feed->user, micro, &next->batch));
    batch->dropout = next->batch.dropout;
    batch->scale = next->batch.scale;
    batch->n_labels = next->batch.n_labels;
    TX_TRY(copy_there(st, batch, &next->batch));
    TX_TRY(tx_device_record(st->c->device, next->there, TX_STREAM_COMPUTE));
    next->micro = micro;
    *g = next;
    return TX_OK;
}

/* The last chunk's losses are given to the feed, or will be. */
static tx_status give_losses(tx_stage *st, const tx_batch *batch, int64_t micro, tx_host_batch *g)
{
    tx_device *d = st->c->device;
    if (!st->feed->losses) return TX_OK;
    if (!g) return st->feed->losses(st->feed->user, micro, batch);
    TX_TRY(tx_device_copy(d, TX_STREAM_COMPUTE, g->batch.loss.data, batch->loss.data, bytes_of(batch->loss)));
    if (batch->other_loss.data)
        TX_TRY(tx_device_copy(d, TX_STREAM_COMPUTE, g->batch.other_loss.data, batch->other_loss.data,
                              bytes_of(batch->other_loss)));
    if (batch->taught.data)
        TX_TRY(tx_device_copy(d, TX_STREAM_COMPUTE, g->batch.taught.data, batch->taught.data, bytes_of(batch->taught)));
    g->has_losses = true;
    return tx_device_record(d, g->there, TX_STREAM_COMPUTE);
}

/* What is about to be done. */
static void tell_instruction(const tx_pp_instr *in)
{
    char peer[32] = "";
    bool sends = in->op == TX_PP_SEND_FWD || in->op == TX_PP_SEND_BWD;
    if (!tx_log_wants(TX_LOG_TRACE)) return;
    if (in->op != TX_PP_FWD && in->op != TX_PP_BWD && in->op != TX_PP_WGT)
        snprintf(peer, sizeof peer, " %s stage %d", sends ? "to" : "from", in->peer);
    tx_trace("schedule: %s of micro-batch %d, chunk %d, slot %d%s", tx_pp_op_names[in->op], in->micro, in->chunk,
             in->slot, peer);
}

/* A list, once it is carried out for the first time: "F0 F1 B0 B1", with F0.1 of chunk 1. */
static tx_status tell_list(tx_stage *st, bool train)
{
    const tx_pp_list *l = &st->plan[train].list;
    tx_str text = { 0 };
    tx_status st_text = TX_OK;
    if (st->plan[train].told || !tx_log_wants(TX_LOG_DEBUG)) return TX_OK;
    st->plan[train].told = true;
    for (int i = 0; i < l->n && !st_text; i++) {
        const tx_pp_instr *in = &l->instr[i];
        if (in->op != TX_PP_FWD && in->op != TX_PP_BWD && in->op != TX_PP_WGT) continue;
        st_text = tx_str_printf(&text, " %c%d", in->op == TX_PP_FWD ? 'F' : in->op == TX_PP_BWD ? 'B' : 'W', in->micro);
        if (!st_text && in->chunk) st_text = tx_str_printf(&text, ".%d", in->chunk);
    }
    if (!st_text)
        tx_debug("schedule: stage %d of %d, %s, %lld micro-batches in %d slots, %d instructions:%s",
                 tx_grid_rank(st->grid, TX_AXIS_PIPELINE), tx_grid_size(st->grid, TX_AXIS_PIPELINE),
                 train ? "training" : "evaluation", (long long)st->plan[train].n_micro, l->n_slots, l->n,
                 text.data ? text.data : "");
    tx_str_free(&text);
    return st_text;
}

/* last: of the iteration's micro-batches. */
static tx_status forward(tx_stage *st, const tx_pp_instr *in, bool last, bool train)
{
    const tx_feed *feed = st->feed;
    tx_batch *batch = &st->slot[in->slot].batch;
    const tx_pp_chunk *chunk = &st->m->chunk[in->chunk];
    double now = tx_clock();
    if (chunk->pre) begin_slot(st, in->slot, in->chunk);
    tx_host_batch *g;
    TX_TRY(fill(st, batch, in->micro, &g));
    if (!feed->fill) batch->dropout = (tx_dropout_key){ .s_global = st->s, .on = train }; /* of a dry run */
    batch->dropout.whole = tx_cp_positions(st->grid, st->s);
    batch->dropout.at =
        tx_positions_from(&batch->dropout.whole, tx_tp_first_position(st->c, tx_cp_rows(st->grid, st->s)));
    batch->dropout.b = batch->token.n_dims == 2 ? batch->token.dim[1] : 0;
    batch->units = feed->units;
    batch->last = last;
    add_time(st, FILL, &now);
    if (train && st->teacher.m) TX_TRY(tx_teacher_fwd(&st->teacher, st->c, batch));
    TX_TRY(tx_model_fwd(st->c, st->m, batch, train));
    if (chunk->post && feed->look) TX_TRY(feed->look(feed->user, in->micro, batch, g ? &g->batch : batch));
    if (chunk->post) TX_TRY(give_losses(st, batch, in->micro, g));
    add_time(st, FORWARD, &now);
    return TX_OK;
}

static tx_wgrad_store *store_of(const tx_stage *st, const tx_pp_instr *in)
{
    return st->n_stores ? &st->store[in->micro % st->n_stores] : NULL;
}

/* last: of the chunk's micro-batches. */
static tx_status backward(tx_stage *st, const tx_pp_instr *in, bool last)
{
    tx_batch *batch = &st->slot[in->slot].batch;
    double now = tx_clock();
    enter(st, in->slot);
    batch->last = last;
    batch->wgrads = store_of(st, in);
    if (batch->wgrads) tx_wgrad_store_clear(batch->wgrads); /* of an iteration that failed */
    TX_TRY(tx_model_bwd(st->c, st->m, batch));
    add_time(st, BACKWARD, &now);
    return TX_OK;
}

/* The slot may have another micro-batch by now. */
static tx_status weights(tx_stage *st, const tx_pp_instr *in)
{
    tx_batch batch = {
        .chunk = in->chunk, .last = in->last_of_chunk, .units = st->feed->units, .wgrads = store_of(st, in)
    };
    double now = tx_clock();
    TX_TRY(tx_model_weights(st->c, st->m, &batch));
    add_time(st, BACKWARD, &now);
    return TX_OK;
}

static tx_status send_copy(tx_stage *st, tx_outgoing *o, tx_tensor x, int peer, int tag)
{
    int k = o->next;
    o->next = (k + 1) % TX_N_OUTGOING;
    TX_TRY(tx_wait(st->c, &o->sent[k]));
    TX_RUN(st->c, copy, .y = o->copy[k], .x = x);
    return tx_send_start(st->c, tx_grid_group(st->grid, TX_GROUP_PIPELINE), o->copy[k], peer, tag, &o->sent[k]);
}

static tx_status send(tx_stage *st, const tx_pp_instr *in, bool back, bool train)
{
    const tx_batch *batch = &st->slot[in->slot].batch;
    int its = tag(st, tx_grid_rank(st->grid, TX_AXIS_PIPELINE), in->chunk, back);
    TX_TRY(send_copy(st, &st->out[back], back ? batch->d : batch->y, in->peer, its));
    if (back || !train || !st->teacher.m) return TX_OK;
    return send_copy(st, &st->taught_out, st->teacher.y, in->peer, teacher_tag(st, its));
}

/* Where a dry run is in the step. */
static tx_status mark(tx_stage *st, const tx_pp_instr *in)
{
    tx_step_part part = in->op == TX_PP_FWD   ? TX_STEP_FORWARD
                        : in->op == TX_PP_BWD ? TX_STEP_BACKWARD
                        : in->op == TX_PP_WGT ? TX_STEP_WEIGHTS
                                              : TX_STEP_MESSAGES;
    return tx_trace_mark(st->c, part, in->micro, in->chunk, in->last_of_chunk);
}

static tx_status carry_out(tx_stage *st, const tx_pp_instr *in, int64_t n_micro, bool train)
{
    TX_TRY(mark(st, in));
    switch (in->op) {
    case TX_PP_RECV_FWD:
        return receive_forward(st, in, train);
    case TX_PP_FWD:
        return forward(st, in, in->micro == n_micro - 1, train);
    case TX_PP_SEND_FWD:
        return send(st, in, false, train);
    case TX_PP_RECV_BWD:
        return receive_backward(st, in);
    case TX_PP_BWD:
        return backward(st, in, in->micro == n_micro - 1);
    case TX_PP_SEND_BWD:
        return send(st, in, true, train);
    case TX_PP_WGT:
        return weights(st, in);
    case TX_PP_POST_FWD:
        return post_forward(st, in, train);
    case TX_PP_POST_BWD:
        return post_backward(st, in);
    case TX_N_PP_OPS:
        break;
    }
    return TX_OK;
}

tx_status tx_stage_run(tx_stage *st, int64_t n_micro, bool train)
{
    TX_TRY(make_list(st, n_micro, train));
    const tx_pp_list *list = &st->plan[train].list;
    TX_ASSERT(list->n_slots <= st->n_slots && list->n_inputs <= st->n_inputs);
    memset(st->seconds, 0, sizeof st->seconds);
    if (!st->c->dry) TX_TRY(tell_list(st, train));
    for (int i = 0; i < list->n; i++) {
        if (!st->c->dry) tell_instruction(&list->instr[i]);
        if (st->about) st->about(st->about_user, &list->instr[i], true);
        TX_TRY(carry_out(st, &list->instr[i], n_micro, train));
        if (st->about) st->about(st->about_user, &list->instr[i], false);
    }
    for (int k = 0; k < 2 * TX_N_OUTGOING; k++)
        TX_TRY(tx_wait(st->c, &st->out[k / TX_N_OUTGOING].sent[k % TX_N_OUTGOING]));
    for (int k = 0; k < TX_N_OUTGOING; k++) TX_TRY(tx_wait(st->c, &st->taught_out.sent[k]));
    enter(st, 0);
    return TX_OK;
}

tx_status tx_stage_forward(tx_stage *st, int64_t micro, bool last, bool train)
{
    TX_ASSERT(tx_grid_size(st->grid, TX_AXIS_PIPELINE) == 1);
    return forward(st, &(tx_pp_instr){ .op = TX_PP_FWD, .micro = (int)micro }, last, train);
}

tx_status tx_stage_backward(tx_stage *st, bool last)
{
    TX_ASSERT(tx_grid_size(st->grid, TX_AXIS_PIPELINE) == 1);
    return backward(st, &(tx_pp_instr){ .op = TX_PP_BWD }, last);
}
