/* pack_rows.c - rows by the room that they have left: for each number of tokens the rows with just so much, oldest
 * first, and a bit that says whether there is any. */
#include "data/pack_rows.h"

#include <string.h>

#include "base/alloc.h"

typedef struct packing {
    int64_t room, n_rows;
    int64_t *left;         /* [row] */
    int64_t *next;         /* [row] of the same room */
    int64_t *first, *last; /* [room + 1] rows by their room; -1: none */
    uint64_t *any;         /* [room / 64 + 1] bits */
} packing;

static void add_row(packing *p, int64_t row)
{
    int64_t left = p->left[row];
    if (!left) return;
    p->next[row] = -1;
    if (p->first[left] < 0)
        p->first[left] = row;
    else
        p->next[p->last[left]] = row;
    p->last[left] = row;
    p->any[left / 64] |= UINT64_C(1) << left % 64;
}

/* The oldest of the rows with the least room that is enough, taken out; -1: none. */
static int64_t take_row(packing *p, int64_t len)
{
    int64_t word = len / 64, n_words = p->room / 64 + 1;
    uint64_t bits = p->any[word] & ~UINT64_C(0) << len % 64;
    while (!bits && ++word < n_words) bits = p->any[word];
    if (!bits) return -1;
    int64_t left = 64 * word + __builtin_ctzll(bits), row = p->first[left];
    p->first[left] = p->next[row];
    if (p->first[left] < 0) p->any[word] &= ~(UINT64_C(1) << left % 64);
    return row;
}

static tx_status open_packing(packing *p, int64_t n, int64_t room)
{
    *p = (packing){ .room = room };
    TX_TRY(tx_alloc(&p->left, (size_t)n, sizeof *p->left, "rows of conversations"));
    TX_TRY(tx_alloc(&p->next, (size_t)n, sizeof *p->next, "rows of conversations"));
    TX_TRY(tx_alloc(&p->first, (size_t)room + 1, sizeof *p->first, "rows of conversations"));
    TX_TRY(tx_alloc(&p->last, (size_t)room + 1, sizeof *p->last, "rows of conversations"));
    TX_TRY(tx_alloc(&p->any, (size_t)room / 64 + 1, sizeof *p->any, "rows of conversations"));
    memset(p->first, 0xFF, ((size_t)room + 1) * sizeof *p->first);
    return TX_OK;
}

static void close_packing(packing *p)
{
    tx_free(p->left);
    tx_free(p->next);
    tx_free(p->first);
    tx_free(p->last);
    tx_free(p->any);
}

/* out[0..n) = the numbers 0 .. n-1 by descending `key`, 0 to `most`; equal ones stay in their order.
 * @place [most + 2] */
static void sort_down(int64_t *out, const int64_t *key, int64_t n, int64_t most, int64_t *place)
{
    for (int64_t i = 0; i < n; i++) place[most - key[i] + 1]++;
    for (int64_t k = 0; k < most; k++) place[k + 1] += place[k];
    for (int64_t i = 0; i < n; i++) out[place[most - key[i]]++] = i;
}

/* row[i] = the row of conversation i, which is rows of `order`. */
static void fill_rows(packing *p, int64_t *row, const int64_t *order, const int64_t *len, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t i = order[k], r = take_row(p, len[i]);
        if (r < 0) p->left[r = p->n_rows++] = p->room;
        p->left[r] -= len[i];
        row[i] = r;
        add_row(p, r);
    }
}

/* Conversations of a row in the order in which they came into it. */
static tx_status gather_rows(tx_packed_rows *out, const int64_t *row, const int64_t *order, int64_t n, int64_t n_rows)
{
    TX_TRY(tx_alloc(&out->begin, (size_t)n_rows + 2, sizeof *out->begin, "rows of conversations"));
    TX_TRY(tx_alloc(&out->item, (size_t)n, sizeof *out->item, "rows of conversations"));
    out->n_rows = n_rows;
    int64_t *at = out->begin + 1; /* moved on to the ends, which are the next beginnings */
    for (int64_t i = 0; i < n; i++) at[row[i] + 1]++;
    for (int64_t r = 0; r < n_rows; r++) at[r + 1] += at[r];
    for (int64_t k = 0; k < n; k++) out->item[at[row[order[k]]]++] = order[k];
    return TX_OK;
}

tx_status tx_pack_rows(tx_packed_rows *out, const int64_t *len, int64_t n, int64_t room, bool alone)
{
    packing p = { 0 };
    tx_packed_rows made = { 0 };
    int64_t *order = NULL, *row = NULL, *place = NULL;
    tx_status st;
    TX_GOTO(open_packing(&p, n, room));
    TX_GOTO(tx_alloc(&order, (size_t)n, sizeof *order, "rows of conversations"));
    TX_GOTO(tx_alloc(&row, (size_t)n, sizeof *row, "rows of conversations"));
    TX_GOTO(tx_alloc(&place, (size_t)room + 2, sizeof *place, "rows of conversations"));
    if (!alone) sort_down(order, len, n, room, place);
    for (int64_t i = 0; i < n && alone; i++) order[i] = row[i] = i;
    if (!alone) fill_rows(&p, row, order, len, n);
    TX_GOTO(gather_rows(&made, row, order, n, alone ? n : p.n_rows));
    *out = made;
    made = (tx_packed_rows){ 0 };
out:
    tx_packed_rows_free(&made);
    close_packing(&p);
    tx_free(order);
    tx_free(row);
    tx_free(place);
    return st;
}

void tx_packed_rows_free(tx_packed_rows *p)
{
    tx_free(p->item);
    tx_free(p->begin);
    *p = (tx_packed_rows){ 0 };
}
