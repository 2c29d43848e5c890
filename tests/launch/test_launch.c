/* labels: unit */
#include <stdlib.h>

#include "launch/deepspeed_env.h"
#include "launch/mpi_output.h"
#include "launch/orted_words.h"
#include "launch/rendezvous.h"
#include "launch/script.h"
#include "launch/slots.h"
#include "launch/ssh_agent.h"
#include "support.h"

static void scripts(void **state)
{
    (void)state;
    assert_string_equal(tx__script_command("pretrain_gpt.py"), "pretrain-gpt");
    assert_string_equal(tx__script_command("/a/b.c/pretrain_gpt.py"), "pretrain-gpt");
    assert_string_equal(tx__script_command("pretrain-gpt"), "pretrain-gpt");
    assert_string_equal(tx__script_command("pretrain_gpt2.py"), "pretrain-gpt"); /* of 2020 */
    assert_null(tx__script_command("pretrain_gpt22.py"));
    assert_null(tx__script_command("pretrain_gpt.pyc"));
    assert_string_equal(tx__script_command("tools.preprocess_data"), "preprocess-data");
    assert_null(tx__script_command("megatron.training"));
    assert_null(tx__script_command("pretrain_gpt."));
    assert_null(tx__script_command(".py"));
    assert_null(tx__script_command("torchrun"));
}

static tx_status parse(tx_config **cfg, tx_words *program, const char *command, const char *line)
{
    tx_words argv = { 0 };
    assert_int_equal(tx__words_add_cut(&argv, line), TX_OK);
    tx_status st = tx__launch_parse(cfg, program, command, argv.n, argv.word);
    tx__words_free(&argv);
    return st;
}

/* Flags of the launcher, in both spellings and by letter, end at the script; what is behind it is not looked at. */
static void command_lines(void **state)
{
    (void)state;
    static const struct {
        const char *command, *line, *program;
    } cases[] = {
        { "torchrun", "--nproc_per_node 4 --nnodes=2 --node-rank 1 x/pretrain_gpt.py -m --nnodes 7",
          "pretrain-gpt -m --nnodes 7" },
        { "torchrun", "-m -r 3 --use-env -t 1 pretrain_gpt --tee", "pretrain-gpt --tee" },
        { "deepspeed", "-H hosts -i a@b:0,1 pretrain_gpt.py -H x", "pretrain-gpt -H x" },
        { "deepspeed", "--num_gpus 2 --module --master-port=1 evaluate", "evaluate" },
        { "torchrun", "x/tasks/main.py --task LAMBADA", "evaluate --task LAMBADA" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *cfg = NULL;
        tx_words program = { 0 };
        tx_str text = { 0 };
        assert_int_equal(parse(&cfg, &program, cases[i].command, cases[i].line), TX_OK);
        assert_int_equal(tx__words_quote(&text, program.word, program.n), TX_OK);
        assert_string_equal(text.data, cases[i].program);
        if (i == 0)
            assert_true(!strcmp(cfg->nproc_per_node, "4") && !strcmp(cfg->nnodes, "2") && cfg->torchrun_node_rank == 1);
        if (i == 2) assert_true(!strcmp(cfg->hostfile, "hosts") && !strcmp(cfg->launch_include, "a@b:0,1"));
        tx_str_free(&text);
        tx__words_free(&program);
        tx_config_free(cfg);
    }
}

static void bad_command_lines(void **state)
{
    (void)state;
    static const struct {
        const char *command, *line, *says;
    } cases[] = {
        { "torchrun", "--nproc_per_nod 4 pretrain_gpt.py", "did you mean --nproc_per_node?" },
        { "torchrun", "--hostfile x pretrain_gpt.py", "--hostfile is a flag of deepspeed, not of torchrun" },
        { "torchrun", "-q pretrain_gpt.py", "unknown flag -q" },
        { "torchrun", "--nnodes 2", "what is to be run is missing" },
        { "torchrun", "train.py", "\"train.py\" is no command of triax" },
        { "torchrun", "--master_port 99999 pretrain_gpt.py", "--master_port" },
        { "deepspeed", "--autotuning best pretrain_gpt.py", "--autotuning best" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *cfg = NULL;
        tx_words program = { 0 };
        assert_int_equal(parse(&cfg, &program, cases[i].command, cases[i].line), TX_ERR_ARG);
        if (!strstr(tx_last_error(), cases[i].says)) fail_msg("%s: %s", cases[i].line, tx_last_error());
        assert_null(cfg);
        assert_null(program.word);
    }
}

static void only_the_daemon(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool good;
    } cases[] = {
        { "orted -mca ess env --mca orte_hnp_uri 17.0;tcp://10.0.0.1:4,tcp6://[fd00::2]:5", true },
        { "orted", true },
        { "", false },
        { "/tmp/orted", false },
        { "rm -rf x", false },
        { "orted -mca ess", false },
        { "orted --daemonize", false },
        { "orted -x PATH", false },
        { "orted -mca orte_launch_agent /tmp/x", false },
        { "orted -mca mca_base_component_path /tmp", false },
        { "orted -mca plm_rsh_agent /tmp/x", false },
        { "orted -mca orte_fork_agent /tmp/x", false },
        { "orted -mca mca_base_param_files /tmp/x", false },
        { "orted -mca ess $(reboot)", false },
        { "orted -mca e;s env", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_words w = { 0 };
        assert_int_equal(tx__words_add_cut(&w, cases[i].line), TX_OK);
        tx_status st = tx__orted_check(w.word, w.n);
        if ((st == TX_OK) != cases[i].good) fail_msg("%s", cases[i].line);
        if (st) assert_non_null(strstr(tx_last_error(), "only Open MPI's daemon"));
        tx__words_free(&w);
    }
}

/* Open MPI 4.1.4's words for each login shell, and what is none of them. */
#define PROFILE "(", "test", "!", "-r", "./.profile", "||", ".", "./.profile;"
#define DAEMON  " orted", "-mca", "ess", "\"env\"", "-mca", "plm_rsh_agent", "\"x y\"", "--mca", "a", "1"
static void words_for_a_shell(void **state)
{
    (void)state;
    static const struct {
        const char *shell, *word[32];
        bool good;
    } cases[] = {
        { "bash, zsh, csh, tcsh", { DAEMON }, true },
        { "sh, dash, ksh, fish", { PROFILE, DAEMON, ")" }, true },
        { "not closed", { PROFILE, DAEMON }, false },
        { "not opened", { DAEMON, ")" }, false },
        { "closed twice", { PROFILE, DAEMON, ")", ")" }, false },
        { "opened twice", { PROFILE, PROFILE, DAEMON, ")", ")" }, false },
        { "another file", { "(", "test", "!", "-r", "/tmp/x", "||", ".", "/tmp/x;", DAEMON, ")" }, false },
        { "only opened and closed", { "(", DAEMON, ")" }, false },
        { "another program", { PROFILE, "reboot", ")" }, false },
        { "a second program", { PROFILE, DAEMON, ";", "reboot", ")" }, false },
        { "a value for a shell", { PROFILE, "orted", "-mca", "ess", "$(reboot)", ")" }, false },
        { "no program", { PROFILE, ")" }, false },
        { "nothing closed", { PROFILE }, false },
        { "nothing", { NULL }, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_words raw = { 0 }, w = { 0 };
        tx_str text = { 0 };
        assert_int_equal(tx__words_add_all(&raw, cases[i].word), TX_OK);
        assert_int_equal(tx__orted_clean(&w, raw.word, raw.n), TX_OK);
        assert_int_equal(tx__words_quote(&text, w.word, w.n), TX_OK);
        if ((tx__orted_check(w.word, w.n) == TX_OK) != cases[i].good) fail_msg("%s: %s", cases[i].shell, text.data);
        if (cases[i].good) assert_string_equal(text.data, "orted -mca ess env --mca a 1");
        tx_str_free(&text);
        tx__words_free(&raw);
        tx__words_free(&w);
    }
}
#undef PROFILE
#undef DAEMON

static void two_nodes_of_one_name(void **state)
{
    (void)state;
    tx_node_place p[4] = { { .host = "vm.example.org", .n_ranks = 2, .n_cores = 2 },
                           { .host = "vm.example.org", .n_ranks = 3, .n_cores = 2 },
                           { .host = "other", .n_ranks = 1 },
                           { .host = "10.0.0.1", .n_ranks = 1 } };
    tx_str text = { 0 };
    tx__places_name(p, 4);
    assert_int_equal(tx__mpirun_hostfile(&text, p, 4), TX_OK);
    assert_string_equal(text.data, "vm slots=2\nvm-node1 slots=3\nother slots=1\n10.0.0.1 slots=1\n");
    assert_false(tx__places_crowded(p, 1));
    assert_true(tx__places_crowded(p, 4));
    assert_int_equal(tx__places_ranks(p, 4), 7);
    tx_str_free(&text);
}

/* ---- HELLO ---- */

static void hellos(void **state)
{
    (void)state;
    char *words[] = { "plan", "--x", NULL }, *others[] = { "plan", "--y", NULL };
    tx_words program = { words, 2, 3 }, program2 = { others, 2, 3 };
    tx_meeting m = { .n_nodes = 3,
                     .node_rank = 2,
                     .id = "j",
                     .program = &program,
                     .here = { .host = "b", .n_ranks = 4, .n_cores = 8 } },
               lead = m;
    tx_hello h;
    tx_str s = { 0 };
    lead.node_rank = 0;
    assert_int_equal(tx__hello_pack(&s, &m), TX_OK);
    assert_int_equal(tx__hello_unpack(&h, (uint8_t *)s.data, s.len), TX_OK);
    assert_true(h.node_rank == 2 && h.place.n_ranks == 4 && h.place.n_cores == 8 && !strcmp(h.place.host, "b"));
    assert_int_equal(tx__hello_check(&h, &lead), TX_OK);
    for (size_t n = 0; n < s.len; n++) assert_int_equal(tx__hello_unpack(&h, (uint8_t *)s.data, n), TX_ERR_FORMAT);
    assert_int_equal(tx__hello_unpack(&h, (uint8_t *)s.data, s.len), TX_OK);
    lead.program = &program2;
    assert_int_equal(tx__hello_check(&h, &lead), TX_ERR_ARG);
    assert_non_null(strstr(tx_last_error(), "on b was given another script or other flags"));
    lead.program = &program;
    lead.n_nodes = 2;
    assert_int_equal(tx__hello_check(&h, &lead), TX_ERR_ARG);
    lead.n_nodes = 3;
    lead.id = "k";
    assert_int_equal(tx__hello_check(&h, &lead), TX_ERR_ARG);
    tx_str_free(&s);
}

/* ---- mpirun's paragraphs ---- */

#define RULE "--------------------------------------------------------------------------\n"

static void check_output(const char *text, const char *shown, tx_mpi_output *o)
{
    size_t steps[] = { 1, 7, 4096 };
    for (int i = 0; i < 3; i++) {
        tx_str out = { 0 };
        tx__mpi_output_free(o);
        for (size_t at = 0; at < strlen(text); at += steps[i]) {
            size_t n = strlen(text) - at;
            assert_int_equal(tx__mpi_output_feed(o, &out, text + at, n < steps[i] ? n : steps[i]), TX_OK);
        }
        assert_int_equal(tx__mpi_output_end(o, &out), TX_OK);
        assert_string_equal(out.data ? out.data : "", shown);
        tx_str_free(&out);
    }
}

static void paragraphs(void **state)
{
    (void)state;
    tx_mpi_output o = { 0 };
    check_output("one\n" RULE
                 "mpirun noticed that process rank 5 with PID 17 on node n2 exited on signal 9 (Killed).\n" RULE "two",
                 "one\ntwo", &o);
    assert_true(o.rank == 5 && o.signal == 9 && !strcmp(o.host, "n2"));
    check_output(RULE
                 "mpirun.openmpi noticed that process rank 1 with PID 0 on node n1 exited on signal 10 (User).\n" RULE,
                 "", &o);
    assert_true(o.rank == 1 && o.signal == 10 && !strcmp(o.host, "n1"));
    check_output(RULE "There are not enough slots\n" RULE, RULE "There are not enough slots\n" RULE, &o);
    assert_int_equal(o.signal, 0);
    check_output(RULE "unfinished", RULE "unfinished", &o);
    check_output("--- a\n[h:1] 2 more processes have sent help message x\n[a] b\n12 of 30\n",
                 "--- a\n[a] b\n12 of 30\n", &o);
    check_output("App launch reported: 2 (out of 3) daemons - 0 (out of 6) procs\n", "", &o);
    assert_false(o.started);
    check_output("App launch reported: 3 (out of 3) daemons - 0 (out of 6) procs\nApple\n", "Apple\n", &o);
    assert_true(o.started);
    check_output(RULE "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[1,0],0] on node a\n"
                      "  Remote daemon: [[1,0],2] on node n7\n" RULE,
                 "", &o);
    assert_string_equal(o.lost, "n7");
    check_output("[h:1] *** An error occurred in MPI_Init_thread\n", "[h:1] *** An error occurred in MPI_Init_thread\n",
                 &o);
    assert_true(o.no_start);
    check_output("[h:1] *** An error occurred in MPI_Send\n", "[h:1] *** An error occurred in MPI_Send\n", &o);
    assert_false(o.no_start);
    check_output("srun: error: n1: task 3: Exited with exit code 7\nslurmstepd-n0: error: *** STEP 2.3 ON n0 CANCELLED "
                 "AT x ***\n"
                 "srun: error: n0: tasks 0-1: Terminated\nsrun: hm\n",
                 "srun: hm\n", &o);
    assert_true(o.code == 7 && !o.signal);
    check_output("srun: error: n1: task 3: Killed\nsrun: error: n0: tasks 0-1: Terminated\n", "", &o);
    assert_true(!o.code && o.signal == 9 && o.rank == 3 && !strcmp(o.host, "n1"));
    tx__mpi_output_free(&o);
}

/* ---- commands ---- */

static const char *command_of(tx_launch_command *s)
{
    static char text[4096];
    tx_str t = { 0 };
    assert_int_equal(tx__start_quote(&t, s), TX_OK);
    snprintf(text, sizeof text, "%s", t.data);
    tx_str_free(&t);
    tx__start_free(s);
    return text;
}

static void starters(void **state)
{
    (void)state;
    char *words[] = { "plan", "--a", "b c", NULL };
    tx_words program = { words, 3, 4 };
    tx_launch_command s = { 0 };
    setenv("TX_LAUNCH_PROGRAM", "/x", 1);
    unsetenv("SLURM_CPUS_PER_TASK");
    assert_int_equal(tx__start_direct(&s, NULL, &program), TX_OK);
    assert_string_equal(command_of(&s), "/x plan --a 'b c'");
    tx_srun r = { .n_nodes = 2, .n_per_node = 4, .args = " --exclusive" };
    assert_int_equal(tx__start_srun(&s, &r, &program), TX_OK);
    assert_string_equal(
        command_of(&s),
        "srun --mpi=pmix --export=ALL --kill-on-bad-exit=1 --wait=60 --nodes=2 --ntasks=8 --ntasks-per-node=4 "
        "--exclusive /x plan --a 'b c'");
    tx_str agent = { 0 };
    assert_int_equal(tx__ssh_agent_command(&agent, "ssh -p 7", 60), TX_OK);
    assert_non_null(strstr(agent.data, " launch-agent --via 60 3 ssh -p 7"));
    tx_str_free(&agent);
}

static void deepspeed_env(void **state)
{
    (void)state;
    static const char good[] = "# x\nA=1\n  B=c d\r\n\nC=\n", bad[] = "A=1\nexport B=2\n";
    tx_words w = { 0 };
    assert_int_equal(tx__deepspeed_env_parse(&w, "f", good, strlen(good)), TX_OK);
    assert_int_equal(w.n, 3);
    assert_string_equal(w.word[1], "B=c d");
    assert_string_equal(w.word[2], "C=");
    assert_int_equal(tx__deepspeed_env_parse(&w, "f", bad, strlen(bad)), TX_ERR_FORMAT);
    assert_non_null(strstr(tx_last_error(), "f:2: \"export B=2\" is not NAME=VALUE"));
    tx__words_free(&w);
}

/* Of the text that a launcher makes of chosen slots the rank's own, by its number among all or on a host. */
static void chosen_slots(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        int rank, number, of;
        const char *devices;
    } cases[] = {
        { NULL, 0, 1, 4, "1,3" }, { NULL, 1, 3, 4, "1,3" },    { NULL, 2, 0, 2, "0,1" }, { NULL, 3, 1, 2, "0,1" },
        { NULL, 4, 2, 3, "2" },   { "fe80::1", 0, 2, 3, "2" }, { "b", 1, 1, 2, "0,1" },  { "a", 1, 3, 4, "1,3" },
    };
    static const char *const bad[] = {
        "", "a", "a:1", "a:/4", "a:1,/4", "a:x/4", "a:,1/4", "a:0,1/1", "a/4:1", "a:4/4"
    };
    tx_hosts h = { 0 };
    tx_str text = { 0 };
    tx_launch_slot s;
    const char hosts[] = "a slots=4\nb slots=2\nfe80::1 slots=3\n";
    assert_int_equal(tx__hostfile_parse(&h, "hosts", hosts, strlen(hosts)), TX_OK);
    assert_int_equal(tx__hosts_filter(&h, "a:1,3@b@fe80::1:2", true), TX_OK);
    assert_int_equal(tx__slots_text(&text, &h), TX_OK);
    assert_string_equal(text.data, "a:1,3/4@b:0,1/2@fe80::1:2/3");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tx__slot_of(&s, text.data, cases[i].host, cases[i].rank), TX_OK);
        assert_int_equal(s.cores.rank, cases[i].number);
        assert_int_equal(s.cores.n, cases[i].of);
        assert_string_equal(s.devices, cases[i].devices);
        assert_int_equal(s.whole, cases[i].of == 2);
    }
    assert_int_equal(tx__slot_of(&s, text.data, NULL, 5), TX_ERR_ARG);
    assert_int_equal(tx__slot_of(&s, text.data, "c", 0), TX_ERR_ARG);
    assert_int_equal(tx__slot_of(&s, text.data, "b", 2), TX_ERR_ARG);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tx__slot_of(&s, bad[i], NULL, 0) != TX_ERR_ARG) fail_msg("%s", bad[i]);
    tx__hosts_free(&h);
    tx_str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts),         cmocka_unit_test(command_lines),     cmocka_unit_test(bad_command_lines),
        cmocka_unit_test(only_the_daemon), cmocka_unit_test(words_for_a_shell), cmocka_unit_test(two_nodes_of_one_name),
        cmocka_unit_test(hellos),          cmocka_unit_test(paragraphs),        cmocka_unit_test(starters),
        cmocka_unit_test(deepspeed_env),   cmocka_unit_test(chosen_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
