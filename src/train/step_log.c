/* step_log.c - the lines of an iteration at --log-level debug. */
#include "train/step_log.h"

#include "base/log.h"

void tx_step_log_begin(tx_step_log *l, const tx_trainer *t)
{
    l->on = tx_log_wants(TX_LOG_DEBUG);
    if (!l->on) return;
    tx_volume_read(&l->before, t->grid);
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        for (int op = 0; op < TX_N_COMM_OPS; op++)
            l->waited[i][op] = tx_comm_waited(tx_grid_group(t->grid, i), (tx_comm_op)op);
    l->moved = tx_zero_moved_so_far(&t->zero);
}

static void tell_messages(const tx_step_log *l, const tx_trainer *t)
{
    long long iteration = (long long)t->iteration;
    tx_volume now;
    tx_volume_read(&now, t->grid);
    tx_volume_subtract(&now, &l->before);
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        for (int op = 0; op < TX_N_COMM_OPS; op++) {
            const tx_comm_volume *v = &now.of[i][op];
            double waited = tx_comm_waited(tx_grid_group(t->grid, i), (tx_comm_op)op) - l->waited[i][op];
            if (v->calls || waited > 0)
                tx_debug("iteration %lld: communication: %s %s: %lld calls, %lld bytes, waited %.3f ms", iteration,
                         tx_group_names[i], tx_comm_op_names[op], (long long)v->calls, (long long)v->bytes,
                         1e3 * waited);
        }
    if (t->client->model || !tx__trainer_sums_all(t)) return; /* the formulas are those of transformers */
    tx_volume_sizes sizes = tx__plan_volume_sizes(t->model, t->cfg, t->grid, t->n_micro, t->length, &t->zero);
    sizes.teacher = tx__plan_teacher_volume(&t->stage.teacher, t->grid, t->length);
    sizes.skips = t->last_step != TX_STEP_TAKEN;
    tx_debug("iteration %lld: communication: calls and bytes are %s the formulas'", iteration,
             tx_volume_agrees(&now, &sizes) ? "equal to" : "not");
}

static void tell_data(const tx_trainer *t, int64_t position)
{
    long long iteration = (long long)t->iteration, n = (long long)tx_trainer_batch_size(t);
    if (position < 0)
        tx_debug("iteration %lld: data: %lld samples of the client's", iteration, n);
    else
        tx_debug(
            "iteration %lld: data: samples %lld to %lld of the training order, %lld of them for data rank %d of %d",
            iteration, (long long)position, (long long)position + n - 1, n / tx_grid_size(t->grid, TX_AXIS_DATA),
            tx_grid_rank(t->grid, TX_AXIS_DATA), tx_grid_size(t->grid, TX_AXIS_DATA));
}

static void tell_work(const tx_trainer *t)
{
    const tx_pp_list *list = &t->stage.plan[true].list;
    int n[2] = { 0 };
    for (int i = 0; i < list->n; i++) n[0] += list->instr[i].op == TX_PP_FWD, n[1] += list->instr[i].op == TX_PP_BWD;
    tx_debug("iteration %lld: schedule: %d forwards %.3f ms, %d backwards %.3f ms, batches filled in %.3f ms",
             (long long)t->iteration, n[0], 1e3 * t->seconds[TX_TIMER_FORWARD], n[1],
             1e3 * t->seconds[TX_TIMER_BACKWARD], 1e3 * t->seconds[TX_TIMER_BATCH]);
}

static void tell_offload(const tx_step_log *l, const tx_trainer *t)
{
    const tx_offload *offload = &t->zero.offload;
    tx_zero_moved now = tx_zero_moved_so_far(&t->zero);
    if (!offload->host && !offload->nvme) return;
    tx_debug("iteration %lld: offload: %zu bytes in the host's memory, %zu on a disk; fetched %llu bytes, stored %llu, "
             "to the device %llu, from it %llu",
             (long long)t->iteration, offload->host, offload->nvme,
             (unsigned long long)(now.fetched - l->moved.fetched), (unsigned long long)(now.stored - l->moved.stored),
             (unsigned long long)(now.up - l->moved.up), (unsigned long long)(now.down - l->moved.down));
}

void tx_step_log_end(tx_step_log *l, const tx_trainer *t, int64_t position)
{
    if (!l->on) return;
    tell_data(t, position);
    tell_work(t);
    tell_messages(l, t);
    tell_offload(l, t);
    l->on = false;
}
