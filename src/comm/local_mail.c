/* local_mail.c - messages between two ranks that read each other's memory: the sender leaves a letter that says where
 * the message is, the receiver fetches it from there. */
#include <string.h>

#include "base/alloc.h"
#include "comm/board.h"

/* A shared copy of a message that lies in private memory; kept for the next one. */
typedef struct tx__mail_copy {
    struct tx__mail_copy *next;
    void *data;
    size_t bytes;
    tx_request *user; /* NULL: free */
} tx__mail_copy;

static tx_status copy_for(tx__mail_copy **out, struct tx__local *l, tx_request *r, size_t bytes)
{
    tx__mail_copy *b = l->copies;
    while (b && (b->user || b->bytes < bytes)) b = b->next;
    if (!b) {
        TX_TRY(tx_alloc(&b, 1, sizeof *b, "a message's copy"));
        tx_status st = tx_shared_alloc(&b->data, bytes, "a message's copy");
        if (st) {
            tx_free(b);
            return st;
        }
        b->bytes = bytes;
        b->next = l->copies;
        l->copies = b;
    }
    b->user = r;
    *out = b;
    return TX_OK;
}

tx_status tx__mail_place(tx__address *out, struct tx__local *l, tx_request *r, size_t n)
{
    tx__mail_copy *b;
    if (tx__address_of(out, l->one_process, r->x, n)) return TX_OK;
    TX_TRY(copy_for(&b, l, r, n));
    tx__copy(b->data, r->x, n, r->n_threads);
    TX_ASSERT(tx__address_of(out, l->one_process, b->data, n));
    return TX_OK;
}

void tx__mail_take_back(struct tx__local *l, const tx_request *r)
{
    for (tx__mail_copy *b = l->copies; b; b = b->next)
        if (b->user == r) b->user = NULL;
}

static size_t bytes_of(const tx_request *r)
{
    return (size_t)r->n * tx__size_of(r->dtype);
}

/* Whether the message stays where it is until the letter has been taken; else the letter holds it. */
static bool letter_waits(size_t bytes)
{
    return bytes > TX__LETTER_BYTES;
}

/* Requests whose letter has been taken. */
static void collect(tx_comm *g)
{
    struct tx__local *l = g->local;
    for (tx_request *r = g->sends.head, *next; r; r = next) {
        next = r->next;
        if (r->slot < 0) continue;
        tx__letter *letter = &tx__board_box(l->board, g->rank, r->peer)->letter[r->slot];
        if (atomic_load_explicit(&letter->state, memory_order_acquire) != TX__TAKEN) continue;
        atomic_store_explicit(&letter->state, TX__FREE, memory_order_relaxed); /* only the sender waits for that */
        tx__mail_take_back(l, r);
        tx__remove(&g->sends, r);
        r->finished = true;
    }
}

static tx_status post(tx_comm *g, tx_request *r)
{
    struct tx__local *l = g->local;
    tx__box *box = tx__board_box(l->board, g->rank, r->peer);
    int i = 0;
    while (i < TX__LETTERS && atomic_load_explicit(&box->letter[i].state, memory_order_acquire) != TX__FREE) i++;
    if (i == TX__LETTERS) return TX_OK;
    tx__letter *letter = &box->letter[i];
    size_t bytes = bytes_of(r);
    if (!letter_waits(bytes) && bytes)
        memcpy(letter->small, r->x, bytes);
    else if (letter_waits(bytes))
        TX_TRY(tx__mail_place(&letter->at, l, r, bytes));
    g->world->moves++;
    letter->tag = r->tag;
    letter->bytes = (int64_t)bytes;
    letter->order = atomic_load_explicit(&box->posted, memory_order_relaxed); /* nobody else adds to it */
    r->slot = i;
    atomic_store_explicit(&letter->state, TX__POSTED, memory_order_release);
    atomic_fetch_add_explicit(&box->posted, 1, memory_order_release);
    tx__wake_member(g, r->peer);
    if (!letter_waits(bytes)) {
        tx__remove(&g->sends, r);
        r->finished = true;
    }
    return TX_OK;
}

static tx_status take(tx_comm *g, tx_request *r)
{
    struct tx__local *l = g->local;
    tx__box *box = tx__board_box(l->board, r->peer, g->rank);
    /* Letters that come while this looks are left for the next time: an older one may have come behind it. */
    int64_t posted = atomic_load_explicit(&box->posted, memory_order_acquire);
    if (posted == atomic_load(&box->taken)) return TX_OK;
    tx__letter *oldest = NULL;
    for (int i = 0; i < TX__LETTERS; i++) {
        tx__letter *letter = &box->letter[i];
        if (atomic_load_explicit(&letter->state, memory_order_acquire) != TX__POSTED || letter->tag != r->tag) continue;
        if (letter->order < posted && (!oldest || letter->order < oldest->order)) oldest = letter;
    }
    if (!oldest) return TX_OK;
    size_t bytes = bytes_of(r);
    if (oldest->bytes != (int64_t)bytes)
        return TX_FAIL(TX_ERR_COMM,
                       "rank %d has sent %lld bytes in a message (tag %d) of the %s group, rank %d expects %zu",
                       tx_comm_world_rank(g, r->peer), (long long)oldest->bytes, r->tag, g->name,
                       tx_comm_world_rank(g, g->rank), bytes);
    void *from = oldest->small;
    if (letter_waits(bytes)) TX_TRY(tx__address_reach(&from, l->one_process, &oldest->at));
    tx__copy(r->x, from, bytes, r->n_threads);
    g->world->moves++;
    atomic_fetch_add_explicit(&box->taken, 1, memory_order_relaxed);
    atomic_store_explicit(&oldest->state, letter_waits(bytes) ? TX__TAKEN : TX__FREE, memory_order_release);
    tx__wake_member(g, r->peer);
    tx__remove(&g->receives, r);
    r->finished = true;
    return TX_OK;
}

/* Whether a receive that was started before waits for a letter of the same sort: the next one is that one's, even if it
 * has come only since that one looked. */
static bool must_wait(const tx_comm *g, const tx_request *r)
{
    for (const tx_request *q = g->receives.head; q != r; q = q->next)
        if (q->peer == r->peer && q->tag == r->tag) return true;
    return false;
}

/* Whether an earlier message to the same rank has found no room yet: none may overtake it. */
static bool must_queue(const tx_comm *g, const tx_request *r)
{
    for (const tx_request *q = g->sends.head; q != r; q = q->next)
        if (q->slot < 0 && q->peer == r->peer) return true;
    return false;
}

tx_status tx__mail_progress(tx_comm *g)
{
    collect(g);
    for (tx_request *r = g->sends.head, *next; r; r = next) {
        next = r->next;
        if (r->slot < 0 && !must_queue(g, r)) TX_TRY(post(g, r));
    }
    for (tx_request *r = g->receives.head, *next; r; r = next) {
        next = r->next;
        if (!must_wait(g, r)) TX_TRY(take(g, r));
    }
    return TX_OK;
}

void tx__mail_close(tx_comm *g)
{
    for (tx__mail_copy *b = g->local->copies, *next; b; b = next) {
        next = b->next;
        tx_shared_free(b->data);
        tx_free(b);
    }
}
