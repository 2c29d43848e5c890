/* labels: unit */
/* The table itself: its rows make sense, every flag of the family is known, help and docs/options.md follow from it. */
#include "support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/option_table.h"

/* A default that its own bounds refuse, or a flag that a command finds twice, is a slip of the pen in options.def. */
static void defaults_fit_their_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < tx__n_commands; i++) {
        tx_config *cfg = NULL;
        if (tx_config_new(&cfg, tx__commands[i].name)) fail_msg("%s: %s", tx__commands[i].name, tx_last_error());
        tx_config_free(cfg);
    }
}

static void a_command_has_each_flag_once(void **state)
{
    (void)state;
    for (size_t c = 0; c < tx__n_commands; c++)
        for (size_t i = 0; i < tx__n_options; i++) {
            const tx_option *o = &tx__options[i];
            const char *spelling = NULL;
            if (!tx__command_takes(&tx__commands[c], o, NULL)) continue;
            if (tx__option_find(&tx__commands[c], o->flag, strlen(o->flag), &spelling) != o)
                fail_msg("%s: two rows for --%s", tx__commands[c].name, o->flag);
            assert_ptr_equal(spelling, o->flag);
        }
}

static void rows_are_well_formed(void **state)
{
    (void)state;
    const char *spelling, *flag;
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        size_t n = strlen(o->text);
        if (!n || o->text[n - 1] == ' ' || o->text[n - 1] == '\n') fail_msg("--%s: its text", o->flag);
        if (tx__has_member(o) != (o->text[n - 1] == '.'))
            fail_msg("--%s: help is a sentence, reasons are not", o->flag);
        if (tx__has_member(o) && o->n_args > 0 && o->kind < TX_OPTION_STR && !(o->lo < o->hi))
            fail_msg("--%s: its bounds", o->flag);
        if (o->kept && (!tx__has_member(o) || (o->kind == TX_OPTION_LIST && o->kept == TX_KEPT_SCHEDULE)))
            fail_msg("--%s cannot be kept", o->flag);
        if (strlen(o->flag) >= 64) fail_msg("--%s is too long for the search of near names", o->flag);
    }
    for (size_t i = 0; tx__alias(i, &spelling, &flag); i++)
        if (!tx__option_find(NULL, flag, strlen(flag), NULL))
            fail_msg("--%s stands for --%s, which is not there", spelling, flag);
}

/* A script of one model runs with the other's command: what is not of the model is refused by a rule, with its words.
 */
static void both_models_take_the_same_flags(void **state)
{
    (void)state;
    const tx_command *gpt = tx_command_find("pretrain-gpt"), *bert = tx_command_find("pretrain-bert");
    for (size_t i = 0; i < tx__n_options; i++) {
        const char *flag = tx__options[i].flag;
        bool takes = tx__option_find(gpt, flag, strlen(flag), NULL);
        if (takes != (tx__option_find(bert, flag, strlen(flag), NULL) != NULL)) fail_msg("--%s", flag);
    }
}

static void help_names_every_flag_within_100_columns(void **state)
{
    (void)state;
    const char *summary;
    for (int c = 0; tx_config_command(c, NULL); c++) {
        const char *name = tx_config_command(c, &summary);
        char *help = NULL, *rest = NULL, needle[80];
        assert_true(strlen(summary) > 10);
        ASSERT_OK(tx_config_help(&help, name));
        ASSERT_CONTAINS(help, name);
        for (size_t i = 0; i < tx__n_options; i++) {
            if (!tx__command_takes(tx_command_find(name), &tx__options[i], NULL)) continue;
            snprintf(needle, sizeof needle, "--%s", tx__options[i].flag);
            if (!strstr(help, needle)) fail_msg("%s --help lacks %s", name, needle);
        }
        for (char *line = strtok_r(help, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            if (strlen(line) > 100) fail_msg("too wide: %s", line);
        tx_text_free(help);
    }
    char *none = NULL;
    assert_int_equal(tx_config_help(&none, "no-such-command"), TX_ERR_NOTFOUND);
    assert_null(none);
    assert_null(tx_config_command(-1, NULL));
}

static void a_client_has_options_of_its_own(void **state)
{
    (void)state;
    int64_t epochs = 3;
    double ratio = 0.5;
    bool fast = false;
    const char *text = "none";
    const tx_argument own[] = { { "epochs", TX_ARGUMENT_INT, &epochs, "N", "How often the data is read." },
                                { "hold-out", TX_ARGUMENT_FLOAT, &ratio, "PART", "What is kept back." },
                                { "fast", TX_ARGUMENT_FLAG, &fast, NULL, "Leaves out what takes long." },
                                { "text", TX_ARGUMENT_TEXT, &text, "FILE", "What is read." },
                                { 0 } };
    char *line[] = { "--epochs", "7",    "--micro-batch-size", "2",      "--fast", "--hold_out=0.25",
                     "--lr",     "1e-3", "--zero-stage=2",     "--text", "a b",    "--local_rank=3" };
    tx_config *cfg;
    char *help;
    ASSERT_OK(tx_add_config_arguments(&cfg, "engine", own, sizeof line / sizeof *line, line,
                                      "--micro-batch-size 5 --clip-grad 0.25"));
    assert_true(epochs == 7 && ratio == 0.25 && fast && !strcmp(text, "a b"));
    assert_true(cfg->micro_batch_size == 2 && cfg->zero_stage == 2 && cfg->lr == 1e-3 && cfg->clip_grad == 0.25);
    tx_config_free(cfg);
    char *bad[] = { "--epochs", "many", "--micro-batch-size", "2", "--fast=1", "--text",
                    "--epoch",  "1",    "--hold-out",         "x" };
    assert_int_equal(tx_add_config_arguments(&cfg, "engine", own, sizeof bad / sizeof *bad, bad, NULL), TX_ERR_ARG);
    ASSERT_CONTAINS(tx_last_error(), "--epochs many is not an integer");
    ASSERT_CONTAINS(tx_last_error(), "--fast takes no value");
    ASSERT_CONTAINS(tx_last_error(), "--text needs a value");
    ASSERT_CONTAINS(tx_last_error(), "unknown flag --epoch; did you mean --epochs?");
    ASSERT_CONTAINS(tx_last_error(), "--hold-out x is not a number");
    ASSERT_OK(tx_arguments_help(&help, "engine", own));
    ASSERT_CONTAINS(help, "This program's\n  --epochs N                          How often the data is read.");
    ASSERT_CONTAINS(help, "--zero-stage");
    tx_text_free(help);
    const tx_argument clash[] = { { "lr", TX_ARGUMENT_FLOAT, &ratio, "X", "" }, { 0 } };
    ASSERT_FAILS(tx_add_config_arguments(&cfg, "engine", clash, 0, NULL, NULL), TX_ERR_ARG, "--lr is one of engine's");
    const tx_argument dashes[] = { { "--x", TX_ARGUMENT_FLOAT, &ratio, "X", "" }, { 0 } };
    ASSERT_FAILS(tx_add_config_arguments(&cfg, "engine", dashes, 0, NULL, NULL), TX_ERR_ARG, "without dashes in front");
    const tx_argument twice[] = { { "x", TX_ARGUMENT_FLAG, &fast, NULL, "" },
                                  { "x", TX_ARGUMENT_FLAG, &fast, NULL, "" },
                                  { 0 } };
    ASSERT_FAILS(tx_add_config_arguments(&cfg, "engine", twice, 0, NULL, NULL), TX_ERR_ARG, "two options --x");
    ASSERT_FAILS(tx_add_config_arguments(&cfg, "engine", own, 0, NULL, NULL), TX_ERR_ARG,
                 "engine needs --micro-batch-size");
}

/* A client's defaults, a file of DeepSpeed's, and what was typed: the last that says something. */
static void a_file_counts_more_than_a_clients_defaults(void **state)
{
    (void)state;
    static const char defaults[] = "--micro-batch-size 4 --global-batch-size 16 --lr 3e-3 --clip-grad 0";
    tx_config *cfg;
    char path[512];
    snprintf(path, sizeof path, "%s/ds.json", scratch_dir);
    write_text(path, "{\"gradient_clipping\": 1.0, \"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2}");
    char *line[] = { "--deepspeed_config", path, "--lr", "1e-3" };
    ASSERT_OK(tx_add_config_arguments(&cfg, "engine", NULL, 4, line, defaults));
    assert_true(cfg->clip_grad == 1 && cfg->global_batch_size == 8 && cfg->micro_batch_size == 2 && cfg->lr == 1e-3);
    tx_config_free(cfg);
    char *against[] = { "--deepspeed_config", path, "--clip-grad", "0.5" };
    ASSERT_FAILS(tx_add_config_arguments(&cfg, "engine", NULL, 4, against, defaults), TX_ERR_ARG,
                 "gradient_clipping is 1, but --clip-grad 0.5 is given");
}

static void help_shows_defaults_bounds_and_other_spellings(void **state)
{
    (void)state;
    char *help = NULL;
    ASSERT_OK(tx_config_help(&help, "pretrain-gpt"));
    ASSERT_CONTAINS(help, "\n  --num-layers N ");
    ASSERT_CONTAINS(help, "[1 to 10000 layers; also --encoder-num-layers]");
    ASSERT_CONTAINS(help, "[default 0.02; 0 to 1000]");
    ASSERT_CONTAINS(help, "\nKnown, not built yet");
    tx_text_free(help);
    /* a command's own default */
    ASSERT_OK(tx_config_help(&help, "evaluate"));
    ASSERT_CONTAINS(help, "[default 4; at least 1 samples; also --batch-size]");
    assert_null(strstr(help, "--train-iters"));
    tx_text_free(help);
}

#define SIZES                                                                                     \
    "--micro-batch-size 1 --seq-length 8 --num-layers 1 --hidden-size 8 --num-attention-heads 1 " \
    "--max-position-embeddings 8 "

/* Each word of each row has its constant, and one that begins, ends or is like a word has none. */
static void a_word_has_its_constant(void **state)
{
    (void)state;
    int n = 0;
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        char words[512], *rest = NULL;
        if (o->kind != TX_OPTION_ENUM) continue;
        snprintf(words, sizeof words, "%s", o->words);
        const tx__option_word *w = o->enums;
        assert_null(tx__enum_word(o, 0));
        for (char *word = strtok_r(words, "|", &rest); word; word = strtok_r(NULL, "|", &rest), n++, w++) {
            char other[72];
            assert_string_equal(w->word, word);
            assert_true(w->value > 0);
            assert_int_equal(tx__enum_of(o, word), w->value);
            assert_string_equal(tx__enum_word(o, w->value), word);
            snprintf(other, sizeof other, "%s_", word);
            assert_int_equal(tx__enum_of(o, other), 0);
            snprintf(other, sizeof other, "%s|", word);
            assert_int_equal(tx__enum_of(o, other), 0);
        }
        assert_null(w->word);
        assert_int_equal(tx__enum_of(o, ""), 0);
    }
    assert_true(n > 80);
    tx_config *cfg;
    ASSERT_FAILS(tx_config_parse_string(&cfg, "plan", SIZES "--pipeline-schedule 1f1b|gpipe"), TX_ERR_ARG,
                 "--pipeline-schedule 1f1b|gpipe is unknown; allowed: one of 1f1b, gpipe");
    assert_true(tx__word_in("megatron|megatron-deepspeed", "megatron"));
    assert_true(tx__word_in("megatron|megatron-deepspeed", "megatron-deepspeed"));
    assert_false(tx__word_in("megatron|megatron-deepspeed", "deepspeed"));
    assert_string_equal(tx_log_dialect_word(TX_DIALECT_MEGATRON_DEEPSPEED), "megatron-deepspeed");
}

/* A word that the code does not know, as of a row that has got one more, ends the program. */
static void an_unknown_word_is_no_default(void **state)
{
    (void)state;
    static const int unknown[] = { 0, 99, -1 };
    for (int i = 0; i < 3; i++) {
        int how;
        fflush(NULL);
        pid_t pid = fork();
        if (!pid) {
            signal(SIGABRT, SIG_DFL);
            if (!freopen("/dev/null", "w", stderr)) _exit(2);
            tx_config cfg = { .log_level = (enum tx_log_level_choice)unknown[i] };
            _exit((int)tx_config_log_level(&cfg) < 0);
        }
        assert_int_equal(waitpid(pid, &how, 0), pid);
        if (!WIFSIGNALED(how) || WTERMSIG(how) != SIGABRT) fail_msg("%d", unknown[i]);
    }
}

static void is_current(const char *page, tx_status (*markdown)(tx_str *))
{
    char name[128];
    snprintf(name, sizeof name, "../../docs/%s", page);
    tx_str made = { 0 }, stored = read_file(data_path(name));
    ASSERT_OK(markdown(&made));
    if (made.len != stored.len || memcmp(made.data, stored.data, made.len))
        fail_msg("docs/%s is not what the table says; run `make docs`", page);
    tx_str_free(&made);
    tx_str_free(&stored);
}

static void docs_are_current(void **state)
{
    (void)state;
    is_current("options.md", tx__options_markdown);
    is_current("not-built.md", tx__not_built_markdown);
    is_current("deepspeed-keys.md", tx__deepspeed_markdown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_fit_their_rows),
        cmocka_unit_test(a_command_has_each_flag_once),
        cmocka_unit_test(rows_are_well_formed),
        cmocka_unit_test(both_models_take_the_same_flags),
        cmocka_unit_test(help_names_every_flag_within_100_columns),
        cmocka_unit_test(a_client_has_options_of_its_own),
        SCRATCH_TEST(a_file_counts_more_than_a_clients_defaults),
        cmocka_unit_test(help_shows_defaults_bounds_and_other_spellings),
        cmocka_unit_test(a_word_has_its_constant),
        cmocka_unit_test(an_unknown_word_is_no_default),
        cmocka_unit_test(docs_are_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
