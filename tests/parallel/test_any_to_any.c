/* labels: parallel threads resume. A run goes over from any layout to any other: pairs A, B at random, by a fixed seed.
 * A trains and saves; B loads that and saves it again at once, which is every number and counter of A's; then B goes on
 * as A does, and A from its own checkpoint with A's bits.
 *
 *      test_any_to_any                     what CTest runs: the first pairs
 *      test_any_to_any all [PART PARTS]    every pair, or of every PARTS-th the PART-th (all.sh): a table
 *      test_any_to_any pair N              one of them */
#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

enum { HALF = 4, N = 8, N_PAIRS = 60, N_SAMPLE = 8 }; /* iterations; pairs */

/* ---- pairs ---- */

static const axis_choice models[] = {
    { "gpt2", "" },
    { "llama", "--num-attention-heads 8 --group-query-attention --num-query-groups 4 --swiglu --normalization rmsnorm "
               "--use-rotary-position-embeddings --untie-embeddings-and-output-weights --disable-bias-linear "
               "--no-position-embedding" },
    { "gated", "--num-attention-heads 8 --group-query-attention --num-query-groups 4 --swiglu" },
    { "mixtral", "" }, /* the sample's of that name, whose experts ranks divide */
};

typedef struct pair {
    int model;
    layout_case a, b;
} pair;

/* What is drawn for each side. The batch of both is divided by all numbers of data ranks but two. */
static const int drawn_axes[] = { LAYOUT, SEQUENCE, CONTEXT, SCHEDULE, EXPERTS, VOCAB,
                                  DTYPE,  STAGE,    OFFLOAD, BUCKETS,  STAYS };
#define BATCH 24

/* What goes over from each choice to each: the drawn axes, but the layout by its sizes. */
enum { TP = N_AXES, PP, DP, N_KINDS };
static const int kinds[] = { TP,    PP,    DP,    SEQUENCE, CONTEXT, SCHEDULE, EXPERTS,
                             VOCAB, DTYPE, STAGE, OFFLOAD,  BUCKETS, STAYS };

typedef struct seen {
    bool met[N_KINDS][MAX_CHOICES][MAX_CHOICES];
} seen;

static int choice_of(const layout_case *c, int kind)
{
    sizes l = sizes_of(c);
    return kind == TP ? l.tp : kind == PP ? l.pp : kind == DP ? l.dp : c->at[kind];
}

/* Goings-over of the pair that none before had; with `take` they are had from now on. */
static int new_changes(seen *s, const pair *p, bool take)
{
    int n = 0;
    for (int i = 0; i < LENGTH(kinds); i++) {
        int k = kinds[i];
        bool *met = &s->met[k][choice_of(&p->a, k)][choice_of(&p->b, k)];
        n += !*met;
        if (take) *met = true;
    }
    return n;
}

typedef struct draws {
    tx_rng rng;
    uint64_t n;
    seen seen;
} draws;

static int draw(draws *d, int n)
{
    uint32_t w[4];
    tx_rng_u32x4(&d->rng, d->n++, w);
    return (int)(w[0] % (uint32_t)n);
}

/* A choice that goes with those drawn before, if there is one. */
static void draw_axis(draws *d, layout_case *c, int axis)
{
    for (int tries = 0; tries == 0 || (tries < 20 && !is_possible(c)); tries++) c->at[axis] = draw(d, axes[axis].n);
}

/* The stage at first, or most would be the third, which has the most choices. */
static layout_case draw_side(draws *d, int model)
{
    layout_case none = { 0 }, c;
    for (int i = 0; i < LENGTH(model_choices); i++)
        if (!strcmp(models[model].word, model_choices[i].word) && !*models[model].flags) none.at[MODEL] = i;
    none.at[STAGE] = draw(d, axes[STAGE].n);
    do {
        c = none;
        for (int i = 0; i < LENGTH(drawn_axes); i++)
            if (drawn_axes[i] != STAGE) draw_axis(d, &c, drawn_axes[i]);
    } while (!is_possible(&c) || BATCH % sizes_of(&c).dp);
    return c;
}

/* Of the same vocabulary, which may be padded in another way; two pairs of three in the same precision. */
static pair draw_pair(draws *d, int number)
{
    pair p = { .model = number % LENGTH(models) };
    do { /* all of it: there are sides that no optimizer and rate go with both of */
        p.a = draw_side(d, p.model);
        do {
            p.b = draw_side(d, p.model);
            if (number / LENGTH(models) % 3 < 2) p.b.at[DTYPE] = p.a.at[DTYPE];
        } while (vocab_of(&p.a) != vocab_of(&p.b) || !memcmp(&p.a, &p.b, sizeof p.a));
        p.a.at[DROPOUT] = p.b.at[DROPOUT] = draw(d, 2);
        p.a.at[RATE] = p.b.at[RATE] = draw(d, axes[RATE].n);
        p.a.at[OPTIMIZER] = p.b.at[OPTIMIZER] = draw(d, axes[OPTIMIZER].n);
    } while (!is_possible(&p.a) || !is_possible(&p.b));
    return p;
}

/* Each is, of many at random, the one with the most that none before had. */
static void draw_pairs(pair *list)
{
    static draws d;
    d = (draws){ .rng = { .seed = 21 } };
    for (int i = 0; i < N_PAIRS; i++) {
        int most = -1;
        for (int tries = 0; tries < 100; tries++) {
            pair p = draw_pair(&d, i);
            int n = new_changes(&d.seen, &p, false);
            if (n > most) most = n, list[i] = p;
        }
        new_changes(&d.seen, &list[i], true);
    }
}

/* "2x1x3 sequence 509/1 bf16 stage2 cpu" */
static void side_words(char *text, size_t cap, const layout_case *c)
{
    sizes l = sizes_of(c);
    int n = snprintf(text, cap, "%dx%dx%d", l.tp, l.pp, l.dp);
    for (int i = 1; i < LENGTH(drawn_axes); i++) { /* behind the layout */
        const axis_choice *choice = &axes[drawn_axes[i]].choice[c->at[drawn_axes[i]]];
        if (strcmp(choice->word, "-") && strcmp(choice->word, "1f1b"))
            n += snprintf(text + n, cap - (size_t)n, " %s", choice->word);
    }
}

/* ---- runs ---- */

/* Stages that layers do not divide, where none is cut into pieces. */
static int n_layers(const pair *p)
{
    return p->a.at[SCHEDULE] == INTERLEAVED || p->b.at[SCHEDULE] == INTERLEAVED ? 8 : 7;
}

static void what_of(char *text, size_t cap, const pair *p, const layout_case *c)
{
    char what[2048];
    what_flags(what, sizeof what, c);
    snprintf(text, cap, "%s %s --num-layers %d --micro-batch-size 1 --global-batch-size %d%s", what,
             models[p->model].flags, n_layers(p), BATCH,
             strstr(dtype_choices[c->at[DTYPE]].flags, "fp16") ? " --loss-scale-window 3" : "");
}

/* r's folders and end are the caller's. */
static tx_status run_side(layout_run *r, const pair *p, const layout_case *c)
{
    char what[3072], how[512], zero[1024], all[5120];
    sizes l = sizes_of(c);
    what_of(what, sizeof what, p, c);
    how_flags(how, sizeof how, c);
    zero_flags(zero, sizeof zero, c, scratch_dir);
    snprintf(all, sizeof all, "%s %s %s", what, how, zero);
    r->vocab = vocab_of(c);
    r->n_ranks = n_ranks_of(c);
    r->tp = l.tp;
    r->pp = l.pp;
    return run_layout(r, all);
}

/* ---- what two checkpoints hold ---- */

/* Part k of a checkpoint of the optimizer: the weights, then its states. */
static const char *part_of(const tx_optim_type *o, int k)
{
    return k ? o->keeps->state[k - 1].name : TX_CKPT_MODEL;
}

typedef struct tally {
    int64_t tensors, numbers;
} tally;

/* A buffer of state may have no numbers of a parameter, or some of another shape. */
static tx_status compare_tensor(const tx_checkpoint *a, const tx_checkpoint *b, const char *part, const tx_param *of,
                                float *room, tally *n)
{
    tx_param in_a, in_b, *p = &in_a;
    bool has = tx_checkpoint_tensor(a, part, of, &in_a);
    if (has != tx_checkpoint_tensor(b, part, of, &in_b))
        return TX_FAIL(TX_ERR_NUMERIC, "saved again: only one of the two has %s.%s", part, of->name);
    if (!has) return TX_OK;
    float *x = room, *y = room + p->numel;
    int64_t numel = p->numel / p->dim[0] * p->whole_logical;
    memset(x, 0x55, (size_t)p->numel * sizeof *x);
    memset(y, 0xaa, (size_t)p->numel * sizeof *y);
    TX_TRY(tx_checkpoint_read_whole(a, part, p, x));
    TX_TRY(tx_checkpoint_read_whole(b, part, p, y));
    for (int64_t i = 0; i < numel; i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0)
            return TX_FAIL(TX_ERR_NUMERIC, "saved again: element %lld of %s.%s is %.9g, and was %.9g", (long long)i,
                           part, p->name, (double)y[i], (double)x[i]);
    n->tensors++;
    n->numbers += numel;
    return TX_OK;
}

/* t: of one rank, so all of the model. */
static tx_status compare_tensors(const tx_checkpoint *a, const tx_checkpoint *b, const tx_trainer *t, tally *n)
{
    const tx_params *ps = &t->model->params;
    const tx_optim_type *o = tx_optim_type_of(t->cfg->optimizer);
    float *room;
    tx_status st = TX_OK;
    TX_TRY(tx_alloc(&room, (size_t)(2 * ps->numel), sizeof *room, "test"));
    for (int k = 0; k <= o->keeps->n && !st; k++)
        for (int i = 0; i < ps->n && !st; i++) st = compare_tensor(a, b, part_of(o, k), &ps->param[i], room, n);
    tx_free(room);
    return st;
}

/* Where the run stands: state, schedule, and between two that have one the loss scale. */
static tx_status compare_places(const tx_checkpoint *a, const tx_checkpoint *b)
{
    const json_t *x = tx_checkpoint_config(a), *y = tx_checkpoint_config(b);
    const json_t *scaler[] = { json_object_get(x, "grad_scaler"), json_object_get(y, "grad_scaler") };
    if (memcmp(tx_checkpoint_state(a), tx_checkpoint_state(b), sizeof(tx_ckpt_state)) != 0)
        return TX_FAIL(TX_ERR_NUMERIC, "saved again: another state");
    if (!json_equal(json_object_get(x, "opt_param_scheduler"), json_object_get(y, "opt_param_scheduler")))
        return TX_FAIL(TX_ERR_NUMERIC, "saved again: another schedule");
    if (scaler[0] && scaler[1] && !json_equal(scaler[0], scaler[1]))
        return TX_FAIL(TX_ERR_NUMERIC, "saved again: another loss scale");
    return TX_OK;
}

/* Whether a buffer of state has numbers of a parameter. */
static bool is_of(tx_state_of of, const tx_params *ps, const tx_param *p)
{
    switch (of) {
    case TX_STATE_OF_ALL:
    case TX_STATE_OF_TENSORS:
        return true;
    case TX_STATE_OF_OTHERS:
        return p->n_dims == 1 || ps->unit[p->unit].kind != TX_UNIT_LAYER;
    case TX_STATE_OF_ROWS:
    case TX_STATE_OF_COLUMNS:
        return p->n_dims == 2;
    case TX_STATE_OF_VECTORS:
        return p->n_dims == 1;
    }
    return false;
}

/* The checkpoints have the model's tensors and no others. */
static tx_status count_tensors(const tx_checkpoint *c, const tx_trainer *t)
{
    const tx_params *ps = &t->model->params;
    const tx_optim_keeps *keeps = tx_optim_type_of(t->cfg->optimizer)->keeps;
    size_t n = json_object_size(json_object_get(tx_checkpoint_manifest(c), "tensors")), wanted = (size_t)ps->n;
    for (int k = 0; k < keeps->n; k++)
        for (int i = 0; i < ps->n; i++) wanted += is_of(keeps->state[k].of, ps, &ps->param[i]);
    if (n == wanted) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC, "%s: %zu tensors, the model has %zu with its optimizer's", tx_checkpoint_path(c), n,
                   wanted);
}

/* The folders hold the same. */
static tx_status holds_the_same(const pair *p, const char *of_a, const char *of_b, tally *n)
{
    char what[3072];
    tx_config *cfg;
    tx_trainer *t = NULL;
    tx_checkpoint *a = NULL, *b = NULL;
    tx_status st;
    what_of(what, sizeof what, p, &p->a);
    TX_TRY(tx_config_parse_string(&cfg, "pretrain-gpt", what));
    TX_GOTO(tx_trainer_create(&t, cfg, vocab_of(&p->a), -1, false, NULL));
    TX_GOTO(tx_checkpoint_open(&a, of_a, &tx_comm_self));
    TX_GOTO(tx_checkpoint_open(&b, of_b, &tx_comm_self));
    TX_GOTO(count_tensors(a, t));
    TX_GOTO(count_tensors(b, t));
    TX_GOTO(compare_tensors(a, b, t, n));
    TX_GOTO(compare_places(a, b));
out:
    tx_checkpoint_close(b);
    tx_checkpoint_close(a);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
    return st;
}

/* To the byte: the manifest has the checksums of all other files. */
static tx_status is_the_same(const char *x, const char *y)
{
    tx_checkpoint *a = NULL, *b = NULL;
    tx_status st;
    TX_GOTO(tx_checkpoint_open_manifest(&a, x));
    TX_GOTO(tx_checkpoint_open_manifest(&b, y));
    if (!json_equal(tx_checkpoint_manifest(a), tx_checkpoint_manifest(b)))
        st = TX_FAIL(TX_ERR_NUMERIC, "%s and %s are other checkpoints", x, y);
out:
    tx_checkpoint_close(b);
    tx_checkpoint_close(a);
    return st;
}

/* ---- a pair ---- */

#define FP32_LOSS 1e-5

/* In half precision each loss is rounded by itself, about as much after one iteration as after ten: B that goes on and
 * B from the beginning are two draws of that noise, of which either may be the larger. */
#define AS_NOISY 3
#define SUMS     1e-12 /* a mean in double, in another order */

enum { IN_FP32, IN_FP16, IN_BF16, N_PRECISIONS }; /* of a pair: the coarser one */

typedef struct finding {
    tally n;
    int precision;
    double off;      /* relative, of losses and the evaluation: B that goes on beside A that does */
    double straight; /* B beside A, neither interrupted; 0 in fp32, where it is not asked for */
} finding;

static int precision_of(const pair *p)
{
    static const int of[] = { IN_FP32, IN_BF16, IN_FP16, IN_BF16, IN_FP16, IN_BF16, IN_BF16 };
    int a = of[p->a.at[DTYPE]], b = of[p->b.at[DTYPE]];
    return a > b ? a : b;
}

static double allowed(const finding *f)
{
    return f->precision == IN_FP32 ? FP32_LOSS : AS_NOISY * f->straight + SUMS;
}

static tx_status measure_straight(const pair *p, const outcome *of_a, finding *f)
{
    static layout_run r;
    if (f->precision == IN_FP32) return TX_OK;
    r = (layout_run){ .until = N };
    TX_TRY(run_side(&r, p, &p->b));
    f->straight = distance(&r.rank[0], of_a, 0, N).loss;
    return TX_OK;
}

/* A's own checkpoint in A. */
static tx_status goes_on_with_its_bits(const pair *p, const layout_run *straight, const char *begun)
{
    static layout_run r;
    r = (layout_run){ .until = N, .load = begun, .save = in_scratch("resumed") };
    TX_TRY(run_side(&r, p, &p->a));
    outcome x = of_all_ranks(straight), y = of_all_ranks(&r);
    TX_TRY(has_the_bits_of(&y, &x, HALF, N, "of the run that went on"));
    return is_the_same(straight->save, r.save);
}

static tx_status examine(const pair *p, finding *f)
{
    static layout_run begun, straight, moved;
    *f = (finding){ .precision = precision_of(p) };
    begun = (layout_run){ .until = HALF, .save = in_scratch("begun") };
    straight = (layout_run){ .until = N, .save = in_scratch("straight") };
    moved = (layout_run){ .until = N, .load = begun.save, .again = in_scratch("again") };
    TX_TRY(run_side(&begun, p, &p->a));
    TX_TRY(run_side(&straight, p, &p->a));
    TX_TRY(run_side(&moved, p, &p->b));
    TX_TRY(holds_the_same(p, begun.save, moved.again, &f->n));
    TX_TRY(goes_on_with_its_bits(p, &straight, begun.save));
    TX_TRY(measure_straight(p, &straight.rank[0], f));
    f->off = distance(&moved.rank[0], &straight.rank[0], HALF, N).loss;
    if (f->off <= allowed(f)) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC, "a loss is off by %.2e, allowed %.2e", f->off, allowed(f));
}

/* ---- tables ---- */

typedef struct summary {
    int passed, failed;
    tally n;
    struct {
        int pairs, within;    /* as close to A as B is that was never interrupted */
        double off, straight; /* the most */
        double sum_off, sum_straight;
    } in[N_PRECISIONS];
} summary;

static void add(summary *s, const finding *f, bool passed)
{
    s->passed += passed;
    s->failed += !passed;
    s->n.tensors += f->n.tensors;
    s->n.numbers += f->n.numbers;
    s->in[f->precision].pairs++;
    s->in[f->precision].sum_off += f->off;
    s->in[f->precision].sum_straight += f->straight;
    s->in[f->precision].within += f->off <= f->straight + SUMS;
    if (f->off > s->in[f->precision].off) s->in[f->precision].off = f->off;
    if (f->straight > s->in[f->precision].straight) s->in[f->precision].straight = f->straight;
}

static void run_pair(int number, const pair *p, summary *s)
{
    static const char *const folders[] = { "begun", "straight", "again", "resumed" };
    char a[256], b[256];
    finding f;
    side_words(a, sizeof a, &p->a);
    side_words(b, sizeof b, &p->b);
    tx_status st = examine(p, &f);
    add(s, &f, !st);
    printf("%2d %-7s %-8s %-7s  %-74s %-74s %6lld  %.1e  %.1e%s%s\n", number, models[p->model].word,
           optimizer_choices[p->a.at[OPTIMIZER]].word, p->a.at[DROPOUT] ? "dropout" : "", a, b, (long long)f.n.tensors,
           f.off, f.straight, st ? "  FAILED: " : "", st ? tx_last_error() : "");
    fflush(stdout);
    for (int i = 0; i < LENGTH(folders); i++) (void)tx_remove_tree(in_scratch("%s", folders[i]));
}

static void print_summary(const summary *s)
{
    static const char *const name[] = { "fp32", "fp16", "bf16" };
    for (int i = 0; i < N_PRECISIONS; i++)
        if (s->in[i].pairs) {
            int n = s->in[i].pairs;
            printf("%s: in %d pairs a loss is off by at most %.1e, in the mean %.1e", name[i], n, s->in[i].off,
                   s->in[i].sum_off / n);
            if (i != IN_FP32)
                printf("; by %.1e and %.1e where neither is interrupted; in %d by no more than there",
                       s->in[i].straight, s->in[i].sum_straight / n, s->in[i].within);
            printf("\n");
        }
    printf("%d combinations: %d passed, %d failed; %lld tensors of %lld numbers equal to the byte\n",
           s->passed + s->failed, s->passed, s->failed, (long long)s->n.tensors, (long long)s->n.numbers);
}

/* Over many pairs chance evens out, and B that goes on has had less of the noise. */
static bool is_as_exact(const summary *s)
{
    bool good = true;
    for (int i = IN_FP16; i < N_PRECISIONS; i++)
        if (s->in[i].pairs >= 10 && s->in[i].sum_off > s->in[i].sum_straight) good = false;
    if (!good) printf("FAILED: half precision strays further behind a load than without\n");
    return good;
}

static void print_coverage(const pair *list)
{
    static seen s;
    int met = 0, all = 0;
    memset(&s, 0, sizeof s);
    for (int i = 0; i < N_PAIRS; i++) met += new_changes(&s, &list[i], true);
    for (int i = 0; i < LENGTH(kinds); i++) {
        int k = kinds[i], n = k == DP ? 6 : k == TP || k == PP ? 3 : axes[k].n; /* ranks: 1 2 3 4 6 8 */
        all += k == VOCAB ? 1 + (n - 1) * (n - 1) : n * n;
    }
    printf("%d pairs, in which %d of %d goings-over from one choice to another are met\n", N_PAIRS, met, all);
}

/* The pairs first, first + step, ... below end. */
static int run_pairs(int first, int end, int step)
{
    pair list[N_PAIRS];
    summary s = { 0 };
    draw_pairs(list);
    print_coverage(list);
    printf("   model   optimizer         %-74s %-74s tensors    off  straight\n", "A: tensor x pipeline x data ranks",
           "B");
    for (int i = first; i < end; i += step) run_pair(i, &list[i], &s);
    s.failed += !is_as_exact(&s); /* all.sh counts */
    print_summary(&s);
    return s.failed != 0;
}

static void any_layout_goes_on_in_any_other(void **state)
{
    (void)state;
    int n = as_many(N_SAMPLE, 2), first = (int)(sample_seed() % (N_PAIRS / N_SAMPLE)) * N_SAMPLE;
    if (run_pairs(first, first + n, 1)) fail_msg("see the table");
}

static int run_one(int number)
{
    return number < 0 || number >= N_PAIRS ? 2 : run_pairs(number, number + 1, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(any_layout_goes_on_in_any_other) };
    int code = 2;
    setenv("TX_AIO_IN_MEMORY", "1", 1); /* the scratch folder may be no disk's */
    if (argc == 1) return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
    if (scratch_setup(NULL)) return 1;
    if (!strcmp(argv[1], "all")) code = run_pairs(argc > 2 ? atoi(argv[2]) : 0, N_PAIRS, argc > 3 ? atoi(argv[3]) : 1);
    if (!strcmp(argv[1], "pair") && argc == 3) code = run_one(atoi(argv[2]));
    if (scratch_teardown(NULL)) return 1;
    if (code == 2) fprintf(stderr, "usage: test_any_to_any [all [PART PARTS] | pair N]; N: 0 to %d\n", N_PAIRS - 1);
    return code;
}
