/* pp_post.c - receives that are begun before they are waited for.
 *
 *      stage 1 of 2   F0 B0 F1 B1 F2 ..      the input of F1 is on its way while F0 and B0 are computed, and so on
 *
 *  What a stage holds of inputs rises by one: that of the next forward, when all slots have theirs. */
#include <string.h>

#include "base/alloc.h"
#include "parallel/pp_schedule.h"

/* Of one direction. */
typedef struct receives {
    int next;               /* the first RECV that has not been posted, in the list as it was; its length: none */
    int n;                  /* posted and not taken */
    int input[TX_PP_AHEAD]; /* where these inputs come to, in order */
} receives;

typedef struct poster {
    const tx_pp_list *list;
    tx_pp_list *out;
    receives of[2];
    bool *used;      /* [n_inputs] */
    int *slot_input; /* [n_slots] of the input that a slot's micro-batch has; -1: none */
    int *sent_at;    /* [n] of a RECV_BWD: the instruction that has sent the output which its gradient belongs to */
} poster;

static tx_pp_op receive_of(int d)
{
    return d ? TX_PP_RECV_BWD : TX_PP_RECV_FWD;
}

static int next_receive(const tx_pp_list *l, int d, int from)
{
    while (from < l->n && l->instr[from].op != receive_of(d)) from++;
    return from;
}

static bool is_last_use(const tx_pp_instr *in, bool keeps_inputs)
{
    return in->op == (keeps_inputs ? TX_PP_BWD : TX_PP_FWD);
}

/* Inputs that are held at the same time without posting, and the number of all. */
static void count_inputs(const tx_pp_list *l, bool keeps_inputs, bool *has, int *most, int *all)
{
    int held = 0;
    *most = *all = 0;
    for (int i = 0; i < l->n; i++) {
        const tx_pp_instr *in = &l->instr[i];
        if (in->op == TX_PP_RECV_FWD) {
            has[in->slot] = true;
            held++;
            ++*all;
        }
        if (held > *most) *most = held;
        if (!is_last_use(in, keeps_inputs) || !has[in->slot]) continue;
        has[in->slot] = false;
        held--;
    }
}

/* A slot holds one micro-batch from the forward to the backward, so its last output is the one. */
static void find_sends(poster *q)
{
    for (int i = 0; i < q->list->n; i++) {
        const tx_pp_instr *in = &q->list->instr[i];
        if (in->op == TX_PP_SEND_FWD) q->slot_input[in->slot] = i;
        if (in->op == TX_PP_RECV_BWD) q->sent_at[i] = q->slot_input[in->slot];
    }
    for (int k = 0; k < q->list->n_slots; k++) q->slot_input[k] = -1;
}

static int free_input(const poster *q)
{
    int k = 0;
    while (k < q->list->n_inputs && q->used[k]) k++;
    return k;
}

/* Whether there is memory for the next message, before instruction `now`. */
static bool has_place(const poster *q, int d, int now)
{
    const receives *r = &q->of[d];
    return d ? q->sent_at[r->next] < now : free_input(q) < q->list->n_inputs;
}

static void post(poster *q, int d)
{
    receives *r = &q->of[d];
    tx_pp_instr in = q->list->instr[r->next];
    in.op = d ? TX_PP_POST_BWD : TX_PP_POST_FWD;
    in.last_of_chunk = false;
    if (!d) {
        in.input = r->input[r->n] = free_input(q);
        q->used[in.input] = true;
    }
    q->out->instr[q->out->n++] = in;
    q->out->n_posts++;
    r->n++;
    r->next = next_receive(q->list, d, r->next + 1);
}

static int take(receives *r)
{
    int first = r->input[0];
    TX_ASSERT(r->n > 0);
    memmove(r->input, r->input + 1, sizeof r->input - sizeof *r->input);
    r->n--;
    return first;
}

static void keep(poster *q, tx_pp_instr in)
{
    if (in.op == TX_PP_RECV_FWD) in.input = q->slot_input[in.slot] = take(&q->of[0]);
    if (in.op == TX_PP_RECV_BWD) take(&q->of[1]);
    q->out->instr[q->out->n++] = in;
    if (!is_last_use(&in, q->list->keeps_inputs) || q->slot_input[in.slot] < 0) return;
    q->used[q->slot_input[in.slot]] = false;
    q->slot_input[in.slot] = -1;
}

static void post_all(poster *q)
{
    for (int d = 0; d < 2; d++) q->of[d].next = next_receive(q->list, d, 0);
    for (int i = 0; i < q->list->n; i++) {
        for (int d = 0; d < 2; d++)
            while (q->of[d].n < TX_PP_AHEAD && q->of[d].next < q->list->n && has_place(q, d, i)) post(q, d);
        keep(q, q->list->instr[i]);
    }
}

tx_status tx_pp_post(tx_pp_list *list, bool keeps_inputs)
{
    static const char what[] = "a pipeline's schedule";
    tx_pp_list out = *list;
    poster q = { .list = list, .out = &out };
    size_t n = (size_t)list->n, n_slots = (size_t)list->n_slots;
    bool *has = NULL;
    int most, all;
    tx_status st;
    out.instr = NULL;
    out.n = 0;
    out.cap = 2 * list->n;
    TX_GOTO(tx_alloc(&out.instr, 2 * n, sizeof *out.instr, what));
    TX_GOTO(tx_alloc(&q.slot_input, n_slots + n, sizeof *q.slot_input, what));
    TX_GOTO(tx_alloc(&has, n_slots, sizeof *has, what));
    q.sent_at = q.slot_input + n_slots;
    count_inputs(list, keeps_inputs, has, &most, &all);
    out.n_inputs = list->n_inputs = most < all ? most + 1 : most;
    out.keeps_inputs = list->keeps_inputs = keeps_inputs;
    TX_GOTO(tx_alloc(&q.used, (size_t)out.n_inputs, sizeof *q.used, what));
    find_sends(&q);
    post_all(&q);
    tx_pp_list_free(list);
    *list = out;
    out.instr = NULL;
out:
    tx_free(out.instr);
    tx_free(q.slot_input);
    tx_free(q.used);
    tx_free(has);
    return st;
}
