/* labels: unit */
/* The banner of arguments in the form that upstream prints it. */
#include "support.h"

#include "config/config.h"

static void collect(void *user, const char *line)
{
    ASSERT_OK(tx_str_printf(user, "%s\n", line));
}

#define SIZES                                                                 \
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-file v " \
    "--max-position-embeddings 64 --micro-batch-size 4 --seq-length 64 "      \
    "--train-iters 5e6 --lr 1.5e-4 --data-path d --merge-file m "

static void check_banner(const char *command, const char *flags, const char *want)
{
    tx_config *c = NULL;
    tx_str text = { 0 };
    ASSERT_OK(tx_config_parse_string(&c, command, flags));
    ASSERT_OK(tx_config_print(c, collect, &text));
    assert_string_equal(text.data, want);
    tx_str_free(&text);
    tx_config_free(c);
}

#define HEAD  "------------------------ arguments ------------------------\n"
#define FOOT  "-------------------- end of arguments ---------------------\n"
#define FLAGS "--input a.txt it's --vocab-size 1000 --output-dir out --min-frequency 2"
#define GIVEN                                                                   \
    "  input ........................................... ['a.txt', \"it's\"]\n" \
    "  min_frequency ................................... 2\n"                   \
    "  output_dir ...................................... out\n"                 \
    "  train_vocab_size ................................ 1000\n"

/* What was given, though it be the default, comes first, and stands alone as long as nobody wants to see the rest. */
static void a_whole_banner(void **state)
{
    (void)state;
    check_banner("train-tokenizer", FLAGS,
                 HEAD GIVEN "  (11 more at their defaults; --log-level debug shows them)\n" FOOT);
    check_banner("train-tokenizer", FLAGS " --log-level debug",
                 HEAD "  input ........................................... ['a.txt', \"it's\"]\n"
                      "  log_level ....................................... debug\n"
                      "  min_frequency ................................... 2\n"
                      "  output_dir ...................................... out\n"
                      "  train_vocab_size ................................ 1000\n"
                      "  (10 more at their defaults:)\n"
                      "  cpu_bind ........................................ auto\n"
                      "  device .......................................... auto\n"
                      "  json_keys ....................................... ['text']\n"
                      "  limit_alphabet .................................. 1000\n"
                      "  on_bad_line ..................................... error\n"
                      "  special_tokens .................................. None\n"
                      "  text_split ...................................... file\n"
                      "  threads ......................................... None\n"
                      "  train_tokenizer_type ............................ GPT2BPETokenizer\n"
                      "  workers ......................................... None\n" FOOT);
}

/* Of a run whose --log-dialect was chosen, upstream's list: all in one. */
static void upstream_lists_all(void **state)
{
    (void)state;
    tx_config *c = NULL;
    tx_str text = { 0 };
    ASSERT_OK(tx_config_parse_string(&c, "pretrain-gpt", SIZES "--log-dialect megatron"));
    ASSERT_OK(tx_config_print(c, collect, &text));
    const char *beta = strstr(text.data, "\n  adam_beta1 ");
    assert_true(beta && beta < strstr(text.data, "\n  hidden_size ") && !strstr(text.data, "at their defaults"));
    tx_str_free(&text);
    tx_config_free(c);
}

static void values_look_like_python(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "\n  adam_beta1 ...................................... 0.9\n",
        "\n  adam_eps ........................................ 1e-08\n",
        "\n  bias_gelu_fusion ................................ False\n",
        "\n  clip_grad ....................................... 1.0\n",
        "\n  dump_step ....................................... None\n",
        "\n  end_weight_decay ................................ 0.1\n",
        "\n  finetune ........................................ False\n",
        "\n  global_batch_size ............................... 4\n",
        "\n  load ............................................ None\n",
        "\n  lr .............................................. 0.00015\n",
        "\n  lr_decay_iters .................................. 5000000\n",
        "\n  lr_warmup_fraction .............................. 0.01\n",
        "\n  min_lr .......................................... 1e-05\n",
        "\n  openai_gelu ..................................... True\n",
        "\n  use_checkpoint_opt_param_scheduler .............. False\n",
        "\n  weight_decay .................................... 0.1\n",
    };
    tx_config *c = NULL;
    tx_str text = { 0 };
    assert_int_equal(
        tx_config_parse_string(&c, "pretrain-gpt",
                               SIZES "--min-lr 1e-5 --weight-decay .1 --lr-warmup-fraction .01 --no-bias-gelu-fusion "
                                     "--openai-gelu --log-dialect megatron"),
        TX_OK);
    ASSERT_OK(tx_config_print(c, collect, &text));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text.data, lines[i])) fail_msg("no line %s in\n%s", lines[i], text.data);
    assert_null(strstr(text.data, "prompt")); /* another command's option */
    tx_str_free(&text);
    tx_config_free(c);
}

static void floats_are_the_shortest_that_read_back(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } cases[] = { { 0, "0.0" },
                  { 0.1, "0.1" },
                  { 1.0 / 3, "0.3333333333333333" },
                  { 0.0001, "0.0001" },
                  { 0.00001, "1e-05" },
                  { 1.5e-5, "1.5e-05" },
                  { 100, "100.0" },
                  { 123456.75, "123456.75" },
                  { 999999, "999999.0" } };
    tx_config *c = NULL;
    ASSERT_OK(tx_config_new(&c, "generate"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_str text = { 0 };
        char line[120];
        c->temperature = cases[i].v;
        ASSERT_OK(tx_config_print(c, collect, &text));
        snprintf(line, sizeof line, "  temperature ..................................... %s\n", cases[i].text);
        if (!strstr(text.data, line)) fail_msg("no line %s in\n%s", line, text.data);
        tx_str_free(&text);
    }
    tx_config_free(c);
}

static int n_logged;

static void count(void *user, tx_log_level level, const char *line)
{
    (void)user;
    (void)line;
    n_logged += level == TX_LOG_INFO;
}

static void a_line_is_printable(void **state)
{
    (void)state;
    tx_config *c = NULL;
    tx_str text = { 0 };
    ASSERT_OK(tx_config_parse_string(&c, "train-tokenizer", "--input a --vocab-size 1000 --output-dir o\x7fu\x01t"));
    ASSERT_OK(tx_config_print(c, collect, &text));
    assert_non_null(strstr(text.data, " o\\x7fu\\x01t\n"));
    tx_str_free(&text);
    tx_config_free(c);
}

static void without_a_callback_it_is_logged(void **state)
{
    (void)state;
    tx_config *c = NULL;
    ASSERT_OK(tx_config_parse_string(&c, "doctor", ""));
    tx_log_set(count, NULL, TX_LOG_INFO);
    ASSERT_OK(tx_config_print(c, NULL, NULL));
    tx_log_set(NULL, NULL, TX_LOG_INFO);
    assert_int_equal(n_logged, 3); /* head, foot; that the rest is as it is by default */
    tx_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_banner),          cmocka_unit_test(upstream_lists_all),
        cmocka_unit_test(values_look_like_python), cmocka_unit_test(floats_are_the_shortest_that_read_back),
        cmocka_unit_test(a_line_is_printable),     cmocka_unit_test(without_a_callback_it_is_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
