/* advice.c - which other values would do, where rules across options are broken: found by trying them on the whole
 * configuration, in silence. What is tried is in `levers`; whether it does is the rules' to say and nobody else's.
 *
 *  A search in depth, one change first, then two, up to MAX_CHANGES. What is changed next is what the first violation
 *  that is left names as its remedies, so that only changes are combined which have to do with each other:
 *
 *      64 ranks, 40 heads, 40 layers, T 16           40 % 16            tensor
 *        T 20                                         64 % 20            tensor, pipeline, ranks
 *          T 20, 60 ranks                             (none)             an alternative
 *        T 8                                          (none)             an alternative
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/launched.h"
#include "config/rules.h"

enum {
    MAX_CHANGES = 4,
    MAX_KEPT = 24,
    MAX_SHOWN = 3,    /* alternatives */
    MAX_TEXT = 1300,  /* bytes of violations: behind more there is no room */
    MAX_TRIED = 24000 /* configurations: what a refusal may take, about a tenth of a second */
};

/* How many values of an option are tried where so many are changed together. */
static const int breadth[MAX_CHANGES + 1] = { 0, 160, 48, 14, 8 };

/* ---------------------------------------------------------------- what can be changed */

/* Multiples of a unit. */
typedef struct range {
    int64_t unit, low, high;
} range;

typedef enum lever_kind { NUMBER, LEFT_OUT, WORD, GIVEN, BATCH, RAMP } lever_kind;

typedef struct lever {
    unsigned remedy;
    lever_kind kind;
    const char *flag;
    double cost;                       /* beside the ratio of a number to what it was */
    range (*near)(const tx_config *c); /* NUMBER; of a config that is complete but for its rules */
    const char *word;
} lever;

static int64_t at_least_1(int64_t n)
{
    return n > 0 ? n : 1;
}

static range near_tensor(const tx_config *c)
{
    return (range){ 1, 1, c->num_attention_heads ? c->num_attention_heads : c->world_size };
}

static range near_pipeline(const tx_config *c)
{
    return (range){ 1, 1, c->num_layers ? c->num_layers : c->world_size };
}

static range near_ranks(const tx_config *c)
{
    int64_t model = c->tensor_model_parallel_size * c->pipeline_model_parallel_size;
    return (range){ model, model, INT64_MAX };
}

static range near_virtual(const tx_config *c)
{
    return (range){ 1, 1, at_least_1(c->num_layers / c->pipeline_model_parallel_size) };
}

static range near_sequence(const tx_config *c)
{
    int64_t reach = c->max_position_embeddings ? c->max_position_embeddings : INT64_MAX;
    return (range){ c->tensor_model_parallel_size, 1, reach };
}

static range near_vocabulary(const tx_config *c)
{
    int64_t unit = c->make_vocab_size_divisible_by * c->tensor_model_parallel_size;
    return (range){ unit, at_least_1(c->vocab_size), INT64_MAX };
}

static range near_layers(const tx_config *c)
{
    return (range){ c->pipeline_model_parallel_size, 1, INT64_MAX };
}

static range near_key_heads(const tx_config *c)
{
    return (range){ 1, 1, at_least_1(c->num_attention_heads) };
}

static range near_stage(const tx_config *c)
{
    (void)c;
    return (range){ 1, 0, 3 };
}

static range near_block(const tx_config *c)
{
    (void)c;
    return (range){ 4096, 4096, INT64_MAX };
}

static const lever levers[] = {
    { TX__TENSOR, NUMBER, "tensor-model-parallel-size", 0.2, near_tensor, NULL },
    { TX__PIPELINE, NUMBER, "pipeline-model-parallel-size", 0.2, near_pipeline, NULL },
    { TX__RANKS, NUMBER, "world-size", 0.3, near_ranks, NULL },
    { TX__VIRTUAL, NUMBER, "num-layers-per-virtual-pipeline-stage", 0.1, near_virtual, NULL },
    { TX__BATCH, BATCH, "global-batch-size", 0.1, NULL, NULL },
    { TX__BATCH, BATCH, "micro-batch-size", 0.1, NULL, NULL },
    { TX__RAMP, RAMP, "rampup-batch-size", 0.1, NULL, NULL },
    { TX__SEQUENCE, NUMBER, "seq-length", 0.6, near_sequence, NULL },
    { TX__VOCABULARY, NUMBER, "pad-vocab-size-to", 0.1, near_vocabulary, NULL },
    { TX__LAYERS, NUMBER, "num-layers", 2, near_layers, NULL },
    { TX__KEY_HEADS, NUMBER, "num-key-value-heads", 0.5, near_key_heads, NULL },
    { TX__KEY_HEADS, NUMBER, "num-query-groups", 0.5, near_key_heads, NULL },
    { TX__ZERO, NUMBER, "zero-stage", 0.2, near_stage, NULL },
    { TX__AIO_BLOCK, NUMBER, "aio-block-size", 0.2, near_block, NULL },
    { TX__NO_SEQUENCE_PARALLEL, LEFT_OUT, "sequence-parallel", 0.7, NULL, NULL },
    { TX__NO_VIRTUAL, LEFT_OUT, "num-layers-per-virtual-pipeline-stage", 0.7, NULL, NULL },
    { TX__NO_STANDALONE, LEFT_OUT, "standalone-embedding-stage", 0.7, NULL, NULL },
    { TX__NO_ZERO_BUBBLE, LEFT_OUT, "enable-zbh1-pipeline", 0.7, NULL, NULL },
    { TX__NO_PARTITION, LEFT_OUT, "partition-activations", 0.7, NULL, NULL },
    { TX__NO_DISABLED_PIPELINE, LEFT_OUT, "no-pipeline-parallel", 0.7, NULL, NULL },
    { TX__NO_DUMP, LEFT_OUT, "dump-step", 0.7, NULL, NULL },
    { TX__NO_DISTRIBUTED_OPTIMIZER, LEFT_OUT, "use-distributed-optimizer", 0.7, NULL, NULL },
    { TX__NO_CHECKPOINTS, LEFT_OUT, "number-checkpoints", 0.7, NULL, NULL },
    { TX__NO_CONTIGUOUS, LEFT_OUT, "contigious-checkpointing", 0.7, NULL, NULL },
    { TX__NO_OFFLOAD_RATIO, LEFT_OUT, "offload-optimizer-ratio", 0.1, NULL, NULL },
    { TX__ONE_F_ONE_B, WORD, "pipeline-schedule", 0.7, NULL, "1f1b" },
    { TX__PARTITION, GIVEN, "partition-activations", 0.3, NULL, NULL },
    { TX__CHECKPOINT, GIVEN, "checkpoint-activations", 0.5, NULL, NULL },
};
enum { N_LEVERS = sizeof levers / sizeof *levers };

/* ---------------------------------------------------------------- changes, and trying them */

typedef struct change {
    int lever;
    int64_t value;            /* NUMBER, and BATCH without a file of DeepSpeed's; RAMP: START */
    int64_t increment;        /* RAMP */
    tx__batch_sizes equation; /* BATCH with a file */
} change;

typedef struct attempt {
    change change[MAX_CHANGES];
    int n;
    double cost;
} attempt;

typedef struct search {
    const tx_config *as_given;
    const tx_config_given *bad;
    const tx__equation *equation;
    const tx_violations *broken;
    int n_wanted, left; /* changes of what is looked for; configurations that may still be tried */
    attempt kept[MAX_KEPT];
    int n_kept;
} search;

/* A config with changes, and the texts that it borrows. */
typedef struct changed {
    tx_config c;
    tx__equation equation;
    char text[2][24], *item[3];
} changed;

static bool has_equation(const search *s)
{
    return s->equation && s->equation->any;
}

static const tx_option *option_of(const search *s, const lever *l)
{
    return tx__option_find(s->as_given->command, l->flag, strlen(l->flag), NULL);
}

/* Ranks that are started, not planned or given. */
static bool are_started(const search *s, const lever *l)
{
    return l->remedy == TX__RANKS && !s->as_given->given.world_size && (s->as_given->command->traits & TX_ON_RANKS);
}

static int64_t *number_of(changed *to, const tx_option *o)
{
    return tx__member(&to->c, o);
}

static void leave_out(changed *to, const tx_option *o)
{
    *tx__given(&to->c.given, o) = false;
    if (o->kind == TX_OPTION_I64)
        *number_of(to, o) = 0;
    else if (o->kind == TX_OPTION_F64)
        *(double *)tx__member(&to->c, o) = o->initial ? strtod(o->initial, NULL) : 0;
    else if (o->kind == TX_OPTION_LIST)
        ((tx_list *)tx__member(&to->c, o))->n = 0;
    else
        *(bool *)tx__member(&to->c, o) = o->kind == TX_OPTION_FLAG_OFF;
}

static void apply(const search *s, changed *to, const change *c)
{
    const lever *l = &levers[c->lever];
    const tx_option *o = option_of(s, l);
    if (l->kind == LEFT_OUT) {
        leave_out(to, o);
        return;
    }
    if (!are_started(s, l)) *tx__given(&to->c.given, o) = true;
    if (l->kind == WORD) {
        *(int *)tx__member(&to->c, o) = tx__enum_of(o, l->word);
    } else if (l->kind == GIVEN) {
        *(bool *)tx__member(&to->c, o) = true;
    } else if (l->kind == RAMP) {
        snprintf(to->text[0], sizeof to->text[0], "%lld", (long long)c->value);
        snprintf(to->text[1], sizeof to->text[1], "%lld", (long long)c->increment);
        to->item[0] = to->text[0];
        to->item[1] = to->text[1];
        to->item[2] = s->as_given->rampup_batch_size.item[2];
        to->c.rampup_batch_size.item = to->item;
    } else if (l->kind == BATCH && has_equation(s)) {
        to->equation.given = c->equation;
    } else {
        *number_of(to, o) = c->value;
    }
}

/* What follows from the changes, too. Gives back the remedies of the first violation that has some; 0: there is none.
 * *accepted: no violation is left but those that have no remedy and were there before. */
static unsigned try_attempt(search *s, const attempt *a, changed *to, bool *accepted)
{
    tx_violations v = { .silent = true };
    tx__ramp ramp;
    to->c = *s->as_given;
    if (s->equation) to->equation = *s->equation;
    for (int i = 0; i < a->n; i++) apply(s, to, &a->change[i]);
    tx__config_settle_numbers(&to->c, s->bad, s->equation ? &to->equation : NULL, &v);
    s->left--;
    if (!tx__ramp_of(&to->c, &ramp)) s->left -= (int)(ramp.n_increments / 64); /* they are counted one by one */
    bool known = v.n_other <= TX__MAX_OTHER && s->broken->n_other <= TX__MAX_OTHER;
    for (int i = 0; i < v.n_other && known; i++) {
        int k = 0;
        while (k < s->broken->n_other && s->broken->other[k] != v.other[i]) k++;
        known = k < s->broken->n_other;
    }
    *accepted = known && !v.n_mendable;
    return known ? v.first_remedies : 0;
}

/* ---------------------------------------------------------------- keeping the nearest */

static bool is_same(const change *a, const change *b)
{
    return a->lever == b->lever && a->value == b->value && a->increment == b->increment &&
           !memcmp(&a->equation, &b->equation, sizeof a->equation);
}

/* Whether all of these changes are among those. */
static bool is_part(const attempt *a, const attempt *of)
{
    for (int i = 0; i < a->n; i++) {
        int k = 0;
        while (k < of->n && !is_same(&a->change[i], &of->change[k])) k++;
        if (k == of->n) return false;
    }
    return true;
}

static bool same_levers(const attempt *a, const attempt *b)
{
    unsigned of[2] = { 0, 0 };
    for (int i = 0; i < a->n; i++) of[0] |= 1u << a->change[i].lever;
    for (int i = 0; i < b->n; i++) of[1] |= 1u << b->change[i].lever;
    return of[0] == of[1];
}

/* Sorted by cost. Of the same options two. */
static void keep(search *s, const attempt *a)
{
    int at = s->n_kept, n_alike = 0, last_alike = -1;
    for (int i = 0; i < s->n_kept; i++) {
        if (is_part(&s->kept[i], a)) return;
        if (!same_levers(&s->kept[i], a)) continue;
        n_alike++;
        last_alike = i;
    }
    if (n_alike == 2) {
        if (s->kept[last_alike].cost <= a->cost) return;
        for (int i = last_alike; i + 1 < s->n_kept; i++) s->kept[i] = s->kept[i + 1];
        at = --s->n_kept;
    }
    while (at > 0 && a->cost < s->kept[at - 1].cost) at--;
    if (at == MAX_KEPT) return;
    s->n_kept += s->n_kept < MAX_KEPT;
    for (int i = s->n_kept - 1; i > at; i--) s->kept[i] = s->kept[i - 1];
    s->kept[at] = *a;
}

/* Other values of one size of the layout alone are not: with other ranks there may be nearer ones. */
static bool is_enough(const search *s)
{
    bool is_layout = s->n_kept && levers[s->kept[0].change[0].lever].remedy & (TX__TENSOR | TX__PIPELINE);
    for (int i = 1; i < s->n_kept && is_layout; i++) is_layout = same_levers(&s->kept[0], &s->kept[i]);
    return s->n_kept && (!is_layout || s->kept[0].n > 1);
}

/* ---------------------------------------------------------------- the search */

static void extend(search *s, const attempt *from, unsigned remedies);

static double ratio(int64_t from, int64_t to)
{
    return fabs(log((double)at_least_1(to) / (double)at_least_1(from)));
}

static void try_change(search *s, const attempt *from, const change *c, double ratio)
{
    attempt a = *from;
    changed to;
    bool accepted;
    if (s->left <= 0) return;
    a.change[a.n++] = *c;
    a.cost += 0.25 + levers[c->lever].cost + ratio;
    unsigned rest = try_attempt(s, &a, &to, &accepted);
    if (accepted && a.n == s->n_wanted) keep(s, &a);
    if (!accepted && a.n < s->n_wanted && rest) extend(s, &a, rest);
}

/* Walks multiples of a unit, the nearest by ratio first. */
typedef struct walk {
    range r;
    int64_t from, below, above; /* 0 below the low end, above the high one: there is none left */
    int left;
} walk;

static walk walk_from(range r, int64_t from, int n)
{
    walk w = { .r = r, .from = from, .left = n };
    w.below = (from - (from > 0)) / r.unit * r.unit;
    w.above = from < 0 ? r.unit : (from / r.unit + 1) * r.unit;
    if (w.below > r.high) w.below = r.high / r.unit * r.unit;
    if (w.above < r.low) w.above = (r.low + r.unit - 1) / r.unit * r.unit;
    return w;
}

static bool walk_next(walk *w, int64_t *out)
{
    bool below = w->below >= w->r.low && w->below != w->from, above = w->above <= w->r.high;
    if (w->left-- <= 0 || (!below && !above)) return false;
    if (below && above) below = ratio(w->from, w->below) <= ratio(w->from, w->above);
    *out = below ? w->below : w->above;
    if (below)
        w->below -= w->r.unit;
    else
        w->above += w->r.unit;
    return true;
}

static void try_number(search *s, const attempt *from, int which, range r)
{
    changed now;
    bool accepted;
    int64_t value;
    const tx_option *o = option_of(s, &levers[which]);
    (void)try_attempt(s, from, &now, &accepted);
    int64_t old = *number_of(&now, o);
    if (r.high > (int64_t)o->hi) r.high = (int64_t)o->hi;
    if (r.low < (int64_t)o->lo) r.low = (int64_t)o->lo;
    for (walk w = walk_from(r, old, breadth[s->n_wanted]); walk_next(&w, &value);)
        try_change(s, from, &(change){ .lever = which, .value = value }, ratio(old, value));
}

/* The solutions near what the file says, for these ranks. */
static void try_equation(search *s, const attempt *from, int which, const tx_config *now)
{
    tx__batch_sizes near[64], b = s->equation->given;
    int most = breadth[s->n_wanted] < 64 ? breadth[s->n_wanted] : 64;
    b.ranks = tx_config_data_parallel(now);
    if (!b.train && !b.micro) return;
    int n = tx__batch_nearest(&b, most, near);
    for (int i = 0; i < n; i++)
        if (near[i].train <= TX__MAX_BATCH)
            try_change(s, from, &(change){ .lever = which, .equation = near[i] }, 0.05 * i);
}

static void try_batch(search *s, const attempt *from, int which, const tx_config *now)
{
    int64_t ranks = tx_config_data_parallel(now), micro = at_least_1(now->micro_batch_size);
    bool global = !strcmp(levers[which].flag, "global-batch-size");
    if (has_equation(s)) {
        if (global) try_equation(s, from, which, now);
        return;
    }
    int64_t rounds = tx_config_chunks(now) > 1 ? now->pipeline_model_parallel_size : 1;
    try_number(s, from, which,
               global ? (range){ micro * ranks * rounds, 1, TX__MAX_BATCH }
                      : (range){ 1, 1, at_least_1(now->global_batch_size / ranks) });
}

/* START and INCREMENT together: multiples of what a step takes. */
static void try_ramp(search *s, const attempt *from, int which, const tx_config *now)
{
    tx__ramp r;
    int64_t start, increment, rounds = tx_config_chunks(now) > 1 ? now->pipeline_model_parallel_size : 1;
    if (now->rampup_batch_size.n != 3 || tx__ramp_of(now, &r) == TX__RAMP_NUMBERS) return;
    range all = { at_least_1(now->micro_batch_size) * tx_config_data_parallel(now) * rounds, 1,
                  now->global_batch_size };
    int n = s->n_wanted == 1 ? 24 : 6;
    bool keeps_start = r.start % all.unit == 0, keeps_increment = r.increment % all.unit == 0;
    walk w = walk_from(all, r.start, n);
    for (int i = keeps_start ? -1 : 0; i < n; i++) {
        if (i < 0)
            start = r.start;
        else if (!walk_next(&w, &start))
            break;
        walk x = walk_from(all, r.increment, n);
        for (int k = keeps_increment ? -1 : 0; k < n; k++) {
            if (k < 0)
                increment = r.increment;
            else if (!walk_next(&x, &increment))
                break;
            try_change(s, from, &(change){ .lever = which, .value = start, .increment = increment },
                       ratio(r.start, start) + ratio(r.increment, increment));
        }
    }
}

/* An option is changed once, and left alone where the command has none, or where nobody gave it and it is not used. */
static bool may_change(const search *s, const attempt *from, int which)
{
    const lever_kind kind = levers[which].kind;
    const tx_option *o = option_of(s, &levers[which]);
    if (!o) return false;
    for (int i = 0; i < from->n; i++)
        if (!strcmp(levers[from->change[i].lever].flag, levers[which].flag)) return false;
    if (kind == RAMP) return s->as_given->rampup_batch_size.n == 3;
    if (levers[which].remedy == TX__KEY_HEADS)
        return !strcmp(o->flag, "num-query-groups") == s->as_given->group_query_attention;
    return true;
}

static void extend(search *s, const attempt *from, unsigned remedies)
{
    changed now;
    bool accepted;
    (void)try_attempt(s, from, &now, &accepted);
    for (int i = 0; i < N_LEVERS; i++) {
        const lever *l = &levers[i];
        if (!(remedies & l->remedy) || !may_change(s, from, i)) continue;
        if (l->kind == NUMBER)
            try_number(s, from, i, l->near(&now.c));
        else if (l->kind == BATCH)
            try_batch(s, from, i, &now.c);
        else if (l->kind == RAMP)
            try_ramp(s, from, i, &now.c);
        else
            try_change(s, from, &(change){ .lever = i }, 0);
    }
}

/* ---------------------------------------------------------------- saying it */

typedef struct advice {
    char text[640];
    size_t len;
    bool cut;
    int64_t ranks; /* that are to be started by one of them */
} advice;

static void say(advice *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(advice *to, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(to->text + to->len, sizeof to->text - to->len, fmt, ap);
    va_end(ap);
    to->len += (size_t)n;
    to->cut = to->cut || to->len >= sizeof to->text;
    if (to->len >= sizeof to->text) to->len = sizeof to->text - 1;
}

/* @other a second value that does as well, or NULL */
static void say_change(const search *s, advice *to, const change *c, const change *other)
{
    const lever *l = &levers[c->lever];
    char also[64] = "";
    const tx__batch_sizes *e = &c->equation;
    if (l->kind == LEFT_OUT) {
        say(to, "--%s", l->flag);
    } else if (l->kind == WORD || l->kind == GIVEN) {
        say(to, "--%s%s%s", l->flag, l->word ? " " : "", l->word ? l->word : "");
    } else if (l->kind == RAMP) {
        say(to, "--%s %lld %lld %s", l->flag, (long long)c->value, (long long)c->increment,
            s->as_given->rampup_batch_size.item[2]);
    } else if (l->kind == BATCH && has_equation(s)) {
        say(to, "train_batch_size %lld = %lld x %lld x %lld", (long long)e->train, (long long)e->micro,
            (long long)e->accumulation, (long long)e->ranks);
        if (other)
            say(to, " or %lld = %lld x %lld x %lld", (long long)other->equation.train, (long long)other->equation.micro,
                (long long)other->equation.accumulation, (long long)other->equation.ranks);
    } else {
        if (other) snprintf(also, sizeof also, " or %lld", (long long)other->value);
        if (are_started(s, l))
            say(to, "on %lld%s ranks", (long long)c->value, also);
        else
            say(to, "--%s %lld%s", l->flag, (long long)c->value, also);
    }
}

/* Flags to give, those to leave out, and how many ranks to start. */
static void say_changes(const search *s, advice *to, const attempt *a, const attempt *other)
{
    int n = 0, n_out = 0;
    for (int turn = 0; turn < 3; turn++)
        for (int k = 0; k < a->n; k++) {
            const lever *l = &levers[a->change[k].lever];
            int its_turn = are_started(s, l) ? 2 : l->kind == LEFT_OUT;
            if (turn != its_turn) continue;
            say(to, "%s%s", n++ ? " " : "", turn == 1 && !n_out++ ? "without " : "");
            say_change(s, to, &a->change[k], other ? &other->change[0] : NULL);
            if (turn == 2 && !to->ranks) to->ranks = a->change[k].value;
        }
}

static void say_alternatives(const search *s, advice *to)
{
    int n_shown = 0;
    for (int i = 0; i < s->n_kept && n_shown < MAX_SHOWN; i++) {
        const attempt *a = &s->kept[i], *other = NULL;
        bool said = false;
        for (int k = 0; k < i; k++) said = said || same_levers(&s->kept[k], a);
        for (int k = i + 1; k < s->n_kept && a->n == 1; k++)
            if (same_levers(&s->kept[k], a)) other = &s->kept[k];
        if (said) continue;
        if (other && other->change[0].value < a->change[0].value) {
            const attempt *larger = a;
            a = other;
            other = larger;
        }
        size_t before = to->len;
        say(to, "%s", n_shown ? ", or " : "try ");
        say_changes(s, to, a, other);
        if (to->cut) to->text[to->len = before] = 0;
        n_shown += !to->cut;
        to->cut = false;
    }
    if (to->ranks) say(to, " (as in mpirun -n %lld triax %s ...)", (long long)to->ranks, s->as_given->command->name);
}

/* What layouts follow from could be read. */
static bool is_readable(const tx_config_given *bad)
{
    return !bad->tensor_model_parallel_size && !bad->pipeline_model_parallel_size && !bad->world_size &&
           !bad->num_layers && !bad->num_attention_heads && !bad->num_key_value_heads && !bad->num_query_groups &&
           !bad->hidden_size && !bad->ffn_hidden_size && !bad->seq_length && !bad->max_position_embeddings &&
           !bad->micro_batch_size && !bad->global_batch_size && !bad->rampup_batch_size && !bad->train_samples &&
           !bad->num_layers_per_virtual_pipeline_stage && !bad->zero_stage && !bad->aio_block_size &&
           !bad->pad_vocab_size_to && !bad->make_vocab_size_divisible_by;
}

void tx__advise(const tx_config *as_given, const tx_config_given *bad, const tx__equation *equation, tx_violations *v)
{
    search s = { .as_given = as_given, .bad = bad, .equation = equation, .broken = v, .left = MAX_TRIED };
    const attempt none = { .n = 0 };
    advice to = { .len = 0 };
    if (!v->n_mendable || v->st || v->n_hidden || v->text.len > MAX_TEXT || !is_readable(bad)) return;
    for (s.n_wanted = 1; s.n_wanted <= MAX_CHANGES && !is_enough(&s); s.n_wanted++)
        extend(&s, &none, v->first_remedies);
    if (s.n_kept)
        say_alternatives(&s, &to);
    else
        say(&to, "no change of up to %d of these options was found that makes all of them go together", MAX_CHANGES);
    v->st = tx_str_printf(&v->text, "%s%s", v->n == 1 ? "; " : "\n", to.text);
}
