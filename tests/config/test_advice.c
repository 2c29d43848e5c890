/* labels: unit */
/* What the rules advise is accepted: random layouts, most of them wrong, and each alternative of the advice parsed as a
 * whole command line. */
#include "support.h"

#include <stdlib.h>

#include "config/config.h"

/* ---- a command line as pairs ---- */

enum { MAX_FLAGS = 48 };
typedef struct line {
    const char *command;
    struct {
        char flag[48], value[64];
    } at[MAX_FLAGS];
    int n;
    int ranks;    /* that a launcher has started; 0: there is none */
    char ds[320]; /* DeepSpeed's JSON; "": there is none */
} line;

static int find(const line *l, const char *flag)
{
    int i = 0;
    while (i < l->n && strcmp(l->at[i].flag, flag)) i++;
    return i;
}

static void drop(line *l, const char *flag)
{
    int i = find(l, flag);
    if (i < l->n) l->at[i] = l->at[--l->n];
}

static void set(line *l, const char *flag, const char *value)
{
    int i = find(l, flag);
    assert_true(i < MAX_FLAGS);
    if (i == l->n) l->n++;
    snprintf(l->at[i].flag, sizeof l->at[i].flag, "%s", flag);
    snprintf(l->at[i].value, sizeof l->at[i].value, "%s", value);
}

static void set_number(line *l, const char *flag, int64_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)n);
    set(l, flag, text);
}

static const char *shown(const line *l, char buf[4096])
{
    int n = snprintf(buf, 4096, "%s (%d started) %s", l->command, l->ranks, l->ds);
    for (int i = 0; i < l->n; i++)
        n += snprintf(buf + n, (size_t)(4096 - n), " --%s %s", l->at[i].flag, l->at[i].value);
    return buf;
}

/* Parses it; the error is tx_last_error(). */
static tx_status parse(const line *l)
{
    char flags[4096];
    tx_config *c = NULL;
    int n = 0;
    if (l->ranks) {
        char text[16];
        snprintf(text, sizeof text, "%d", l->ranks);
        setenv("OMPI_COMM_WORLD_SIZE", text, 1);
        setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    }
    if (*l->ds) n = snprintf(flags, sizeof flags, "--deepspeed_config %s ", write_text(in_scratch("ds.json"), l->ds));
    for (int i = 0; i < l->n; i++)
        n += snprintf(flags + n, sizeof flags - (size_t)n, "--%s %s ", l->at[i].flag, l->at[i].value);
    tx_status st = tx_config_parse_string(&c, l->command, flags);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("OMPI_COMM_WORLD_RANK");
    tx_config_free(c);
    return st;
}

/* ---- the advice as changes ---- */

static bool is_number(const char *word)
{
    return *word && strspn(word, "0123456789") == strlen(word);
}

/* One of "train_batch_size 64 = 4 x 4 x 4": the file's numbers, and of the flags none. */
static void set_batch(line *l, long long train, long long micro, long long accumulation)
{
    char keeps[64] = "";
    const char *ranks = strstr(l->ds, ", \"data_parallel_size\"");
    if (ranks) snprintf(keeps, sizeof keeps, "%.*s", (int)strcspn(ranks, "}"), ranks);
    snprintf(l->ds, sizeof l->ds,
             "{\"train_batch_size\": %lld, \"train_micro_batch_size_per_gpu\": %lld, \"gradient_accumulation_steps\": "
             "%lld%s}",
             train, micro, accumulation, keeps);
    drop(l, "micro-batch-size");
    drop(l, "global-batch-size");
}

/* Takes one alternative's changes. `second`: of each "A or B" the B; false where it has none. */
static bool apply(line *l, const char *alternative, bool second)
{
    char copy[512], flag[64] = "", *rest = NULL;
    bool leaves_out = false, had_or = false;
    snprintf(copy, sizeof copy, "%s", alternative);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (!strcmp(word, "or")) {
            had_or = true;
        } else if (!strcmp(word, "without") || !strcmp(word, "on")) {
            leaves_out = !strcmp(word, "without");
            flag[0] = 0;
        } else if (!strncmp(word, "--", 2)) {
            snprintf(flag, sizeof flag, "%s", word + 2);
            if (leaves_out)
                drop(l, flag);
            else
                set(l, flag, "");
        } else if (!strcmp(word, "ranks") || !strcmp(word, "train_batch_size")) {
            continue;
        } else if (rest && rest[0] == '=') {
            long long micro, accumulation, ranks;
            int n;
            if (sscanf(rest, "= %lld x %lld x %lld%n", &micro, &accumulation, &ranks, &n) != 3) return false;
            if (had_or == second) set_batch(l, atoll(word), micro, accumulation);
            rest += n;
        } else if (!is_number(word) && strcmp(word, "1f1b")) {
            fail_msg("\"%s\" in \"%s\"", word, alternative);
        } else if (!flag[0]) {
            if (had_or == second) l->ranks = atoi(word);
        } else if (had_or) {
            if (second) set(l, flag, word);
        } else {
            char *value = l->at[find(l, flag)].value;
            size_t n = strlen(value);
            snprintf(value + n, 64 - n, "%s%s", n ? " " : "", word);
        }
    }
    return had_or || !second;
}

/* Cuts the advice off a message; NULL: it has none. */
static char *advice_of(char *message)
{
    char *at = strstr(message, "; try ");
    if (!at) at = strstr(message, "\ntry ");
    if (!at) return NULL;
    *at = 0;
    at += 6 - (at[1] == 't');
    at[strcspn(at, "\n")] = 0;
    char *hint = strstr(at, " (as in ");
    if (hint) *hint = 0;
    return at;
}

/* Accepted, or refused for nothing that was not there before. */
static bool is_accepted(const line *l, const char *before)
{
    char after[2100], *rest = NULL;
    tx_status st = parse(l);
    if (!st) return true;
    snprintf(after, sizeof after, "%s", tx_last_error());
    for (char *one = strtok_r(after, "\n", &rest); one; one = strtok_r(NULL, "\n", &rest))
        if (strstr(one, "try --") || !strstr(before, one)) return false;
    return true;
}

/* Counts what it finds. */
typedef struct tally {
    int wrong, advised, alternatives, with_ranks;
} tally;

static void check_advice(const line *l, tally *t)
{
    char message[2100], buf[4096], *rest = NULL;
    if (!parse(l)) return;
    snprintf(message, sizeof message, "%s", tx_last_error());
    t->wrong++;
    char *advice = advice_of(message);
    if (!advice && strstr(message, "no change of up to")) return;
    if (!advice) fail_msg("%s\n  no advice: %s", shown(l, buf), message);
    t->advised++;
    for (char *one = advice; one; one = rest) {
        rest = strstr(one, ", or ");
        if (rest) {
            *rest = 0;
            rest += 5;
        }
        for (int second = 0; second < 2; second++) {
            line with = *l;
            if (!apply(&with, one, second)) continue;
            t->alternatives++;
            t->with_ranks += strstr(one, "ranks") || strstr(one, "--world-size");
            if (!is_accepted(&with, message))
                fail_msg("%s\n  was told: %s\n  tried \"%s\": %s\n  got: %s", shown(l, buf), message, one, "refused",
                         tx_last_error());
        }
    }
}

/* ---- random layouts ---- */

static uint64_t rng;

static int64_t draw(int64_t low, int64_t high)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (int64_t)((rng >> 33) % (uint64_t)(high - low + 1));
}

static bool one_in(int n)
{
    return draw(1, n) == 1;
}

static int64_t one_of(const char *numbers)
{
    int n = 1;
    for (const char *p = numbers; *p; p++) n += *p == ' ';
    for (int64_t skip = draw(0, n - 1); skip; skip--) numbers = strchr(numbers, ' ') + 1;
    return atoll(numbers);
}

static void draw_batch(line *l, int64_t micro)
{
    int64_t batch = one_in(2) ? draw(1, 600) : micro * draw(1, 64);
    char text[64];
    set_number(l, "micro-batch-size", micro);
    if (!one_in(4)) set_number(l, "global-batch-size", batch);
    if (one_in(6)) {
        snprintf(text, sizeof text, "%lld %lld 1000", (long long)draw(1, 2 * micro), (long long)draw(1, 3 * micro));
        set(l, "rampup-batch-size", text);
        set_number(l, "train-samples", 1000000);
        drop(l, "train-iters");
    }
}

static void draw_options(line *l)
{
    char text[64];
    if (one_in(3)) set(l, "sequence-parallel", "");
    if (one_in(4)) set_number(l, "num-layers-per-virtual-pipeline-stage", draw(1, 6));
    if (one_in(12)) set(l, "pipeline-schedule", "gpipe");
    if (one_in(12)) set_number(l, "pad-vocab-size-to", draw(1, 64) * 128);
    if (one_in(12)) set(l, "no-pipeline-parallel", "");
    if (one_in(16)) set(l, "dump-step", "3 D");
    if (one_in(6)) {
        set(l, "checkpoint-activations", "");
        set(l, "partition-activations", "");
        if (one_in(2)) set(l, "contigious-checkpointing", "");
        if (one_in(2)) set_number(l, "number-checkpoints", draw(1, 20));
    }
    if (one_in(4)) set_number(l, "zero-stage", draw(0, 3));
    if (one_in(12)) set(l, "use-distributed-optimizer", "");
    if (one_in(12)) set(l, "offload-optimizer", "cpu");
    if (one_in(24)) set(l, "offload-optimizer-ratio", "0.5");
    if (one_in(16)) set(l, "offload-param", "cpu");
    if (one_in(20)) set_number(l, "aio-block-size", draw(4096, 100000));
    if (one_in(20) && strcmp(l->command, "plan")) set(l, "eval-tasks", "text=f");
    if (!one_in(10)) return;
    snprintf(text, sizeof text, "%lld", (long long)draw(1, 8));
    set(l, one_in(2) ? "num-key-value-heads" : "num-query-groups", text);
    if (find(l, "num-query-groups") < l->n) set(l, "group-query-attention", "");
    if (one_in(2)) set(l, "enable-zbh1-pipeline", "");
}

static line draw_line(void)
{
    line l = { .command = one_in(3) ? "pretrain-gpt" : "plan" };
    int64_t heads = one_of("1 2 4 8 12 16 20 25 32 40 48 64 96"), tensor = one_in(3) ? draw(1, 20) : one_of("1 2 4 8");
    int64_t stages = one_in(3) ? draw(1, 20) : one_of("1 2 3 4 8"), most = 512 / tensor / stages;
    int64_t ranks = one_in(3) ? draw(1, 512) : tensor * stages * draw(1, most ? most : 1);
    set_number(&l, "num-layers", one_in(2) ? draw(1, 60) : one_of("12 24 32 40 48 96"));
    set_number(&l, "num-attention-heads", heads);
    set_number(&l, "hidden-size", heads * 8 + (one_in(20) ? heads : 0));
    set_number(&l, "seq-length", one_in(4) ? draw(1, 256) : 256);
    set_number(&l, "max-position-embeddings", 256);
    set_number(&l, "tensor-model-parallel-size", tensor);
    set_number(&l, "pipeline-model-parallel-size", stages);
    set(&l, "train-iters", "10");
    if (strcmp(l.command, "plan")) {
        set(&l, "lr", "1e-3");
        set(&l, "data-path", "d");
        set(&l, "vocab-file", "v");
        set(&l, "merge-file", "m");
        if (one_in(2)) l.ranks = (int)ranks;
    }
    if (!l.ranks) set_number(&l, "world-size", ranks);
    draw_batch(&l, draw(1, 9));
    draw_options(&l);
    return l;
}

static void each_alternative_is_accepted(void **state)
{
    (void)state;
    tally t = { 0 };
    rng = sample_seed() + 1;
    for (int n = as_many(10000, 150); t.wrong < n;) {
        line l = draw_line();
        check_advice(&l, &t);
    }
    print_message("%d wrong, %d advised, %d alternatives, %d of other ranks\n", t.wrong, t.advised, t.alternatives,
                  t.with_ranks);
    assert_true(10 * t.advised > 8 * t.wrong);
    assert_true(t.with_ranks);
}

/* DeepSpeed's three numbers, any of them left out, with the same layouts. */
static void so_are_batches_of_deepspeeds(void **state)
{
    (void)state;
    tally t = { 0 };
    rng = sample_seed() + 2;
    for (int n = as_many(2000, 100); t.wrong < n;) {
        line l = draw_line();
        char train[48] = "", micro[64] = "", accumulation[64] = "", ranks[48] = "";
        drop(&l, "rampup-batch-size");
        drop(&l, "train-samples");
        drop(&l, "global-batch-size");
        drop(&l, "checkpoint-activations");
        drop(&l, "partition-activations");
        set(&l, "train-iters", "10");
        bool typed = one_in(4), has_train = !one_in(4);
        if (!typed) drop(&l, "micro-batch-size");
        if (has_train) snprintf(train, sizeof train, "\"train_batch_size\": %lld, ", (long long)draw(1, 2000));
        if (!typed && (!has_train || one_in(2)))
            snprintf(micro, sizeof micro, "\"train_micro_batch_size_per_gpu\": %lld, ", (long long)draw(1, 20));
        if (one_in(2))
            snprintf(accumulation, sizeof accumulation, "\"gradient_accumulation_steps\": %d", (int)draw(1, 12));
        else
            snprintf(accumulation, sizeof accumulation, "\"gradient_accumulation_steps\": \"auto\"");
        if (one_in(8)) snprintf(ranks, sizeof ranks, ", \"data_parallel_size\": %lld", (long long)draw(1, 64));
        snprintf(l.ds, sizeof l.ds, "{%s%s%s%s}", train, micro, accumulation, ranks);
        check_advice(&l, &t);
    }
    print_message("%d wrong, %d advised, %d alternatives\n", t.wrong, t.advised, t.alternatives);
    assert_true(10 * t.advised > 7 * t.wrong);
}

/* ---- by name ---- */

#define BIG                                                                                                    \
    "--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048 --max-position-embeddings " \
    "2048 --micro-batch-size 4 --global-batch-size 512 --world-size 64 "

static void what_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *flags, *text;
    } cases[] = {
        /* 10 and 20 divide the heads, but not the ranks */
        { BIG "--tensor-model-parallel-size 16",
          "--num-attention-heads 40 is not divisible by --tensor-model-parallel-size 16; try "
          "--tensor-model-parallel-size 4 or 8, or --tensor-model-parallel-size 20 --world-size 80" },
        /* the batch is not complained about for a data-parallel size that no layout has */
        { BIG "--pipeline-model-parallel-size 3",
          "world size (64) is not divisible by --tensor-model-parallel-size 1 times --pipeline-model-parallel-size 3; "
          "try --pipeline-model-parallel-size 2 or 4, or --world-size 48 or 96" },
        { BIG "--pipeline-model-parallel-size 41",
          "--pipeline-model-parallel-size 41 is more than --num-layers 40, and a stage has at least one layer; try "
          "--pipeline-model-parallel-size 16 or 32, or --pipeline-model-parallel-size 33 --world-size 66" },
        /* what has no remedy is no reason against one */
        { BIG "--global-batch-size 300 --fp16 --bf16",
          "--fp16 and --bf16: give one of the two\n"
          "global batch size (300) is not divisible by micro batch size (4) times data parallel size (64)\n"
          "try --global-batch-size 256 or 512" },
        /* what could not be read decides nothing */
        { BIG "--pipeline-model-parallel-size 41 --num-attention-heads x",
          "--num-attention-heads x is not a whole number; allowed: 1 to 65536 heads\n"
          "--pipeline-model-parallel-size 41 is more than --num-layers 40, and a stage has at least one layer" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *c = NULL;
        assert_int_equal(tx_config_parse_string(&c, "plan", cases[i].flags), TX_ERR_ARG);
        assert_string_equal(tx_last_error(), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said),
        cmocka_unit_test(each_alternative_is_accepted),
        cmocka_unit_test(so_are_batches_of_deepspeeds),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
