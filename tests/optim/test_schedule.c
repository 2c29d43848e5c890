/* labels: golden unit */
/* Learning rate and weight decay against Megatron's own scheduler, and against its rules written down once more. */
#include "support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "optim/schedule.h"

static enum tx_lr_decay_style style_of(const char *word)
{
    enum tx_lr_decay_style style = word ? tx_lr_decay_style_of(word) : 0;
    if (!style) fail_msg("\"%s\" is no style", word ? word : "");
    return style;
}

/* An unknown word is no style, least of all a constant one. */
static void words_of_styles(void **state)
{
    (void)state;
    for (int i = TX_LR_DECAY_CONSTANT; i <= TX_LR_DECAY_WSD; i++)
        assert_int_equal(style_of(tx_lr_decay_style_word((enum tx_lr_decay_style)i)), i);
    assert_int_equal(tx_lr_decay_style_of("cosin"), 0);
    assert_int_equal(tx_lr_decay_style_of(""), 0);
    assert_int_equal(tx_wsd_decay_style_of("constant"), 0);
    assert_null(tx_lr_decay_style_word((enum tx_lr_decay_style)0));
}

/* A style that the code does not know, as of a row that has got one more, ends the program: no rate stays constant. */
static void an_unknown_style_is_no_default(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        int how;
        fflush(NULL);
        pid_t pid = fork();
        if (!pid) {
            tx_schedule s = { .lr_style = TX_LR_DECAY_LINEAR, .wd_style = TX_WD_INCR_LINEAR, .max_lr = 1, .decay = 10 };
            tx_schedule_place at = { .samples = 5 };
            signal(SIGABRT, SIG_DFL);
            if (!freopen("/dev/null", "w", stderr)) _exit(2);
            s.wd_incr = 10;
            if (i == 1) s.lr_style = (enum tx_lr_decay_style)99;
            if (i == 2) s.wd_style = (enum tx_wd_incr_style)99;
            _exit(!(tx_schedule_lr(&s, &at) >= 0 && tx_schedule_wd(&s, &at) >= 0));
        }
        assert_int_equal(waitpid(pid, &how, 0), pid);
        if (i ? !WIFSIGNALED(how) || WTERMSIG(how) != SIGABRT : how != 0) fail_msg("style %d: status %d", i, how);
    }
}

/* The number of values of a curve, one an update, each of which is compared. NULL: the case has none. */
static size_t compare(const tx_schedule *s, const json_t *c, const char *curve,
                      double (*of)(const tx_schedule *, const tx_schedule_place *))
{
    const json_t *values = json_object_get(c, curve), *want;
    int64_t increment = json_integer_value(json_object_get(c, "increment"));
    char *text = json_dumps(json_object_get(c, "lr_decay_style"), JSON_ENCODE_ANY), what[128];
    size_t k;
    json_array_foreach(values, k, want)
    {
        tx_schedule_place at = { .samples = (int64_t)k * increment };
        double number = json_number_value(want);
        snprintf(what, sizeof what, "%s, %s, update %zu", text, curve, k);
        ASSERT_NEAR(of(s, &at), number, 1e-12 * number, what);
    }
    free(text);
    return json_array_size(values);
}

static void against_megatron(void **state)
{
    (void)state;
    json_t *cases = load_json(data_path("golden/schedules/megatron.json")), *c;
    size_t i, n = 0;
    json_array_foreach(cases, i, c)
    {
#define NUMBER(key) json_number_value(json_object_get(c, key))
#define WORD(key)   json_string_value(json_object_get(c, key))
        const char *wsd = WORD("lr_wsd_decay_style");
        tx_schedule s = {
            .lr_style = style_of(WORD("lr_decay_style")),
            .wsd_style = wsd ? tx_wsd_decay_style_of(wsd) : TX_WSD_DECAY_EXPONENTIAL,
            .wd_style = tx_wd_incr_style_of(WORD("wd_incr_style")),
            .max_lr = NUMBER("max_lr"),
            .min_lr = NUMBER("min_lr"),
            .init_lr = NUMBER("init_lr"),
            .start_wd = NUMBER("start_wd"),
            .end_wd = NUMBER("end_wd"),
            .warmup = NUMBER("lr_warmup_steps"),
            .decay = NUMBER("lr_decay_steps"),
            .wsd_decay = NUMBER("wsd_decay_steps"),
            .wd_incr = NUMBER("wd_incr_steps"),
            .decoupled = true,
            .decoupled_lr = NUMBER("decoupled_lr"),
            .decoupled_min_lr = NUMBER("decoupled_min_lr"),
        };
        n += compare(&s, c, "lr", tx_schedule_lr);
        n += compare(&s, c, "decoupled", tx_schedule_decoupled_lr);
        n += compare(&s, c, "weight_decay", tx_schedule_wd);
    }
    assert_int_equal(n, (24 + 8 + 3) * 200);
    json_decref(cases);
}

static tx_schedule from_flags(const char *more)
{
    tx_config *cfg;
    char flags[1024];
    snprintf(flags, sizeof flags,
             "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 4 --max-position-embeddings 4 "
             "--micro-batch-size 2 --global-batch-size 8 --data-path x --tokenizer-type NullTokenizer --vocab-size 9 "
             "--lr 1e-3 %s",
             more);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    tx_schedule s = tx_schedule_from_config(cfg);
    tx_config_free(cfg);
    return s;
}

static double lr_at(const tx_schedule *s, int64_t samples)
{
    return tx_schedule_lr(s, &(tx_schedule_place){ .samples = samples });
}

static void from_options(void **state)
{
    (void)state;
    tx_schedule s = from_flags("--train-iters 100 --lr-decay-iters 50 --min-lr 1e-5 --lr-decay-style cosine "
                               "--lr-warmup-fraction 0.1");
    assert_true(s.decay == 400 && s.warmup == 40 && s.wd_incr == 800);
    assert_true(lr_at(&s, 0) == 0);
    ASSERT_NEAR(lr_at(&s, 20), 5e-4, 1e-12 * 5e-4, "half-way through the warm-up");
    ASSERT_NEAR(lr_at(&s, 800), 1e-5, 1e-12 * 1e-5, "after the decay");
    s = from_flags("--train-samples 801 --lr-warmup-samples 10 --lr-warmup-init 2e-4 --weight-decay-incr-style linear "
                   "--start-weight-decay 0 --end-weight-decay 0.2");
    assert_true(s.decay == 801 && s.warmup == 10 && s.wd_incr == 801);
    ASSERT_NEAR(lr_at(&s, 0), 2e-4, 1e-16, "where the warm-up begins");
    ASSERT_NEAR(lr_at(&s, 5), 6e-4, 1e-16, "half-way");
    tx_schedule_place third = { .samples = 267 };
    ASSERT_NEAR(tx_schedule_wd(&s, &third), 0.2 / 3, 1e-15, "weight decay at a third");
    s = from_flags("--train-samples 800 --lr-warmup-tokens 100 --lr-decay-tokens 2000");
    assert_true(s.warmup == 0 && s.warmup_tokens == 100 && s.decay_tokens == 2000);
}

/* Warm-up to 40, level to 600, then falling to 800: values of the four falls at a half and at the end. */
static void wsd(void **state)
{
    (void)state;
    static const struct {
        const char *style;
        double half;
    } fall[] = {
        { "linear", 0.5 }, { "cosine", 0.5 }, { "exponential", 0.414213562373095 }, { "minus_sqrt", 0.292893218813452 }
    };
    for (size_t i = 0; i < sizeof fall / sizeof *fall; i++) {
        char flags[256];
        snprintf(flags, sizeof flags,
                 "--train-iters 100 --lr-warmup-iters 5 --min-lr 1e-4 --lr-decay-style WSD --lr-wsd-decay-iters 25 "
                 "--lr-wsd-decay-style %s",
                 fall[i].style);
        tx_schedule s = from_flags(flags);
        ASSERT_NEAR(lr_at(&s, 20), 5e-4, 1e-15, "warm-up");
        for (int64_t n = 40; n <= 600; n += 8) ASSERT_NEAR(lr_at(&s, n), 1e-3, 1e-18, "level");
        ASSERT_NEAR(lr_at(&s, 700), 1e-4 + 9e-4 * fall[i].half, 1e-15, fall[i].style);
        ASSERT_NEAR(lr_at(&s, 800), 1e-4, 1e-15, "end");
        ASSERT_NEAR(lr_at(&s, 808), 1e-4, 0, "after it");
    }
}

/* Upstream's scheduler with tokens, as the state machine it is there: None is -1. */
typedef struct upstream {
    double max, min, w, d, wt, dt;
    double n, t;
    enum tx_lr_decay_style style;
} upstream;

static double upstream_lr(upstream *u)
{
    if (u->wt < 0) {
        if (u->w > 0 && u->n <= u->w) {
            if (u->n == u->w && u->dt >= 0) u->wt = u->t;
            return u->max * u->n / u->w;
        }
    } else if (u->wt > 0 && u->t <= u->wt) {
        return u->max * u->t / u->wt;
    }
    if (u->style == TX_LR_DECAY_CONSTANT) return u->max;
    if (u->dt < 0 ? u->n > u->d : u->t > u->dt) return u->min;
    if (u->style == TX_LR_DECAY_INVERSE_SQRT) {
        double lr = u->wt < 0 ? u->max * sqrt(fmax(u->w, 1)) / sqrt(fmax(u->n, 1))
                              : u->max * sqrt(fmax(u->wt, 1)) / sqrt(fmax(u->t, 1));
        return fmax(u->min, lr);
    }
    double r = u->dt < 0 ? (u->n - u->w) / (u->d - u->w) : (u->t - u->wt) / (u->dt - u->wt);
    double coeff = u->style == TX_LR_DECAY_LINEAR ? 1 - r : 0.5 * (cos(acos(-1.0) * r) + 1);
    return u->min + coeff * (u->max - u->min);
}

/* Batches of 8 samples of 4 tokens; the scheduler sees the tokens of the batches before the one that it steps for. */
static void tokens_count_as_upstream_counts_them(void **state)
{
    (void)state;
    static const struct {
        int w, wt, dt; /* -1: not given */
    } span[] = { { 40, -1, 1500 }, { 0, 160, 1500 }, { 0, 160, -1 }, { 40, -1, -1 } };
    static const enum tx_lr_decay_style styles[] = { TX_LR_DECAY_CONSTANT, TX_LR_DECAY_LINEAR, TX_LR_DECAY_COSINE,
                                                     TX_LR_DECAY_INVERSE_SQRT };
    for (int k = 0; k < 16; k++) {
        int i = k / 4;
        upstream u = { 1e-3, 1e-5, span[i].w, 480, span[i].wt, span[i].dt, 0, 0, styles[k % 4] };
        tx_schedule s = { .lr_style = u.style,
                          .max_lr = u.max,
                          .min_lr = u.min,
                          .warmup = u.w,
                          .decay = u.d,
                          .warmup_tokens = fmax(0, u.wt),
                          .decay_tokens = fmax(0, u.dt) };
        tx_schedule_place at = { 0 };
        for (int64_t step = 0; step < 70; step++) {
            double want = upstream_lr(&u);
            ASSERT_NEAR(tx_schedule_lr(&s, &at), want, 1e-12 * want, "learning rate by tokens");
            int64_t tokens = step * 8 * 4;
            if (step == 30) continue; /* a skipped iteration: its tokens are seen at the next step */
            tx_schedule_advance(&s, &at, 8, tokens);
            u.n += 8;
            u.t = (double)tokens;
        }
    }
}

static void assert_same(const tx_schedule *a, const tx_schedule *b)
{
    json_t *x, *y;
    ASSERT_OK(tx_schedule_to_json(a, &x));
    ASSERT_OK(tx_schedule_to_json(b, &y));
    assert_true(json_equal(x, y));
    json_decref(x);
    json_decref(y);
}

static void a_saved_schedule_is_the_same_or_a_choice(void **state)
{
    (void)state;
    tx_schedule own = from_flags("--train-iters 100 --lr-warmup-iters 5"), other = own, got = own;
    json_t *saved;
    ASSERT_OK(tx_schedule_to_json(&own, &saved));
    ASSERT_OK(tx_schedule_resume(&got, saved, TX_SCHEDULE_SAME));
    assert_same(&got, &own);
    other.max_lr = 2e-3;
    other.lr_style = TX_LR_DECAY_COSINE;
    other.wd_incr = 5; /* of no meaning while weight decay is constant */
    got = other;
    ASSERT_FAILS(tx_schedule_resume(&got, saved, TX_SCHEDULE_SAME), TX_ERR_ARG,
                 "OptimizerParamScheduler: class input value 0.002 and checkpoint value 0.001 for learning rate do not "
                 "match; class input value cosine and checkpoint value linear for learning rate decay style do not "
                 "match; iterations are counted in samples; give --override-opt_param-scheduler");
    assert_same(&got, &other);
    tx_schedule longer = from_flags("--train-iters 300 --lr-warmup-iters 5");
    ASSERT_FAILS(tx_schedule_resume(&longer, saved, TX_SCHEDULE_SAME), TX_ERR_ARG,
                 "for total number of iterations do not match (--lr-decay-iters or -samples, else --train-iters or "
                 "-samples); iterations are counted in samples; give");
    log_begin();
    ASSERT_OK(tx_schedule_resume(&got, saved, TX_SCHEDULE_OWN));
    assert_same(&got, &other);
    ASSERT_OK(tx_schedule_resume(&got, saved, TX_SCHEDULE_SAVED));
    log_end();
    assert_same(&got, &own);
    got = from_flags("--train-iters 100 --lr-warmup-iters 5 --decoupled-lr 0");
    assert_true(tx_schedule_decoupled_lr(&got, &(tx_schedule_place){ .samples = 100 }) == 0);
    assert_true(tx_schedule_decoupled_lr(&own, &(tx_schedule_place){ .samples = 100 }) < 0);
    ASSERT_FAILS(tx_schedule_resume(&got, saved, TX_SCHEDULE_SAME), TX_ERR_ARG,
                 "class input value 0 and checkpoint value none for decoupled learning rate do not match "
                 "(--decoupled-lr)");
    json_decref(saved);
}

static void a_saved_schedule_that_cannot_be_is_refused(void **state)
{
    (void)state;
    static const char *const key[] = { "max_lr",         "max_lr", "min_lr",         "lr_decay_steps",
                                       "lr_decay_style", "end_wd", "lr_decay_style", "lr_warmup_steps",
                                       "wd_incr_style",  "init_lr" };
    static const char *const value[] = { "-1", "\"1\"", "1", "0", "\"x\"", "0", "\"WSD\"", "1e30", "3", "[]" };
    tx_schedule s = from_flags("--train-iters 100 --lr-warmup-iters 5"), before = s;
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        json_t *saved;
        ASSERT_OK(tx_schedule_to_json(&s, &saved));
        json_object_set_new(saved, key[i], json_loads(value[i], JSON_DECODE_ANY, NULL));
        if (tx_schedule_resume(&s, saved, TX_SCHEDULE_SAVED) != TX_ERR_FORMAT)
            fail_msg("%s %s was taken", key[i], value[i]);
        assert_same(&s, &before);
        json_decref(saved);
    }
    assert_int_equal(tx_schedule_resume(&s, NULL, TX_SCHEDULE_OWN), TX_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_styles),
        cmocka_unit_test(an_unknown_style_is_no_default),
        cmocka_unit_test(against_megatron),
        cmocka_unit_test(from_options),
        cmocka_unit_test(wsd),
        cmocka_unit_test(tokens_count_as_upstream_counts_them),
        cmocka_unit_test(a_saved_schedule_is_the_same_or_a_choice),
        cmocka_unit_test(a_saved_schedule_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
