/* blend_phase.c - where each dataset of a blend stands, carried from checkpoint to checkpoint. */
#include "data/blend_phase.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

#define LARGEST (INT64_C(1) << 60) /* samples: sums of a few stay below 2^63 */

typedef struct place {
    char id[17];
    double weight;
    int64_t sample;
    bool taken; /* found again in the new blend */
} place;

typedef struct phase {
    int64_t from;
    int n, n_active; /* the first n_active have a place in the blend, the others are remembered */
    place at[2 * TX_BLEND_MAX];
} phase;

static tx_status not_a_phase(void)
{
    return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's \"blend_phase\" cannot be read: it is damaged");
}

static bool read_place(place *p, const json_t *j)
{
    const char *id = json_string_value(json_object_get(j, "id"));
    const json_t *weight = json_object_get(j, "weight"), *sample = json_object_get(j, "sample");
    if (!id || strlen(id) != 16 || !json_is_integer(sample)) return false;
    *p = (place){ .weight = -1, .sample = json_integer_value(sample) };
    memcpy(p->id, id, 17);
    if (weight) p->weight = json_number_value(weight);
    return p->sample >= 0 && p->sample <= LARGEST &&
           (!weight || (json_is_number(weight) && p->weight >= 0 && p->weight <= 1));
}

/* Places with a weight come first; they are the blend. */
static tx_status read_phase(phase *p, const json_t *j, int64_t consumed)
{
    const json_t *from = json_object_get(j, "from"), *sets = json_object_get(j, "datasets");
    double sum = 0;
    *p = (phase){ .from = json_integer_value(from), .n = (int)json_array_size(sets) };
    if (!json_is_integer(from) || p->from < 0 || p->from > consumed || consumed > LARGEST ||
        json_array_size(sets) < 1 || json_array_size(sets) > 2 * TX_BLEND_MAX)
        return not_a_phase();
    for (int k = 0; k < p->n; k++) {
        if (!read_place(&p->at[k], json_array_get(sets, (size_t)k))) return not_a_phase();
        if (p->at[k].weight < 0) continue;
        if (p->n_active < k || p->n_active == TX_BLEND_MAX) return not_a_phase();
        p->n_active++;
        sum += p->at[k].weight;
    }
    return p->n_active && fabs(sum - 1) < 1e-6 ? TX_OK : not_a_phase();
}

static bool same_blend(const phase *a, const phase *b)
{
    bool same = a->n_active == b->n_active;
    for (int k = 0; same && k < a->n_active; k++)
        same = !strcmp(a->at[k].id, b->at[k].id) && a->at[k].weight == b->at[k].weight;
    return same;
}

/* Moves every place of the phase on to where it stands after `consumed` samples of the run. */
static tx_status move_on(phase *p, int64_t consumed)
{
    tx_blend_order order;
    double weight[TX_BLEND_MAX];
    int64_t n = consumed - p->from;
    p->from = consumed;
    if (p->n_active == 1) {
        p->at[0].sample += n;
        return TX_OK;
    }
    for (int k = 0; k < p->n_active; k++) weight[k] = p->at[k].weight;
    TX_TRY(tx_blend_order_build(&order, TX_BLEND_PERIOD, weight, p->n_active));
    for (int k = 0; k < p->n_active; k++)
        p->at[k].sample +=
            n / order.n * tx_blend_order_before(&order, order.n, k) + tx_blend_order_before(&order, n % order.n, k);
    tx_blend_order_free(&order);
    return TX_OK;
}

/* The new blend begins where the old one ends. */
static void carry(phase *new, phase *old)
{
    new->from = old->from;
    for (int k = 0; k < new->n_active; k++) {
        int j = 0;
        while (j < old->n && (old->at[j].taken || strcmp(old->at[j].id, new->at[k].id) != 0)) j++;
        if (j < old->n) {
            new->at[k].sample = old->at[j].sample;
            old->at[j].taken = true;
        } else {
            tx_warn_once("dataset %d of the blend is not known to the checkpoint (by its documents, --seed and "
                         "--seq-length): it begins at its first sample",
                         k);
        }
        tx_info("   dataset %d, weight %g: from its sample %lld on", k, new->at[k].weight,
                (long long)new->at[k].sample);
    }
    for (int j = 0; j < old->n && new->n < 2 * TX_BLEND_MAX; j++) {
        if (old->at[j].taken || !old->at[j].sample) continue;
        new->at[new->n] = old->at[j];
        new->at[new->n++].weight = -1;
    }
}

static tx_status write_phase(json_t **out, const phase *p)
{
    json_t *sets = json_array(), *all = json_pack("{sI so}", "from", (json_int_t)p->from, "datasets", sets);
    bool ok = all != NULL;
    for (int k = 0; ok && k < p->n; k++) {
        json_t *one = json_pack("{ss sI}", "id", p->at[k].id, "sample", (json_int_t)p->at[k].sample);
        ok = one && (p->at[k].weight < 0 || !json_object_set_new(one, "weight", json_real(p->at[k].weight)));
        ok = !json_array_append_new(sets, one) && ok;
    }
    if (ok) {
        *out = all;
        return TX_OK;
    }
    json_decref(all);
    return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the blend of a checkpoint");
}

static tx_status find_phase(phase *new, phase *old, tx_blend *b, const json_t *saved, int64_t consumed)
{
    new->n = new->n_active = b->n_datasets;
    for (int k = 0; k < new->n; k++) {
        snprintf(new->at[k].id, sizeof new->at[k].id, "%016llx",
                 (unsigned long long)b->dataset[k].kind->id(b->dataset[k].set));
        new->at[k].weight = b->weight[k];
    }
    if (!saved) return TX_OK;
    TX_TRY(read_phase(old, saved, consumed));
    if (same_blend(new, old)) {
        *new = *old;
        return TX_OK;
    }
    TX_TRY(move_on(old, consumed));
    tx_info(" > the blend changes at sample %lld of the run:", (long long)consumed);
    carry(new, old);
    return TX_OK;
}

tx_status tx_blend_phase(tx_blend *b, const json_t *saved, int64_t consumed, json_t **out)
{
    TX_ASSERT(b->keyed);
    phase *p;
    TX_TRY(tx_alloc(&p, 2, sizeof *p, "the blend of a checkpoint"));
    tx_status st = find_phase(&p[0], &p[1], b, saved, consumed);
    if (!st) st = write_phase(out, &p[0]);
    if (!st) {
        b->from = p->from;
        for (int k = 0; k < b->n_datasets; k++) b->sample[k] = p->at[k].sample;
    }
    tx_free(p);
    return st;
}
