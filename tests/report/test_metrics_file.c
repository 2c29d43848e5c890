/* labels: unit fault */
/* The metrics file: what is written is read back, a resumed run goes on with it, a killed one's half line is cut, and
 * whatever else it may hold is refused in one line. And the page made of it. */
#include "support.h"

#include "report/page.h"

#define RUN "{\"kind\":\"run\",\"time\":1,\"iteration\":0,\"train_iters\":100,\"arguments\":{\"lr\":\"0.1\"}}\n"
#define STEP(n, loss) \
    "{\"kind\":\"step\",\"time\":2,\"iteration\":" #n ",\"loss\":" #loss ",\"time_ms\":{\"forward\":3.5}}\n"
#define LOADS(n, layers) "{\"kind\":\"step\",\"iteration\":" #n ",\"experts\":[" layers "],\"time_ms\":{}}\n"
#define EVAL(n)          "{\"kind\":\"evaluation\",\"name\":\"validation\",\"iteration\":" #n ",\"loss\":2.5,\"ppl\":12}\n"

static json_t *run_line(int64_t iteration)
{
    return json_pack("{s:s, s:f, s:I, s:i, s:{s:s}}", "kind", "run", "time", 5.0, "iteration", (json_int_t)iteration,
                     "train_iters", 100, "arguments", "lr", "0.1");
}

static void write_records(const char *path, int64_t start, int64_t from, int64_t to)
{
    tx_metrics_file f;
    json_t *run = run_line(start);
    ASSERT_OK(tx_metrics_file_open(&f, path, run));
    json_decref(run);
    for (int64_t i = from; i <= to; i++) {
        tx_step_record r = { .kind = TX_RECORD_STEP, .iteration = i };
        ASSERT_OK(tx_metrics_file_put(&f, &r)); /* has no line */
        r = (tx_step_record){
            .kind = TX_RECORD_INTERVAL,
            .iteration = i,
            .consumed_tokens = 64 * i,
            .loss = i == 3 ? NAN : 10.0 / (double)i,
            .grad_norm = (double)(start + 1),
            .decoupled_lr = i == 3 ? 0 : -1,
            .params_norm = -1,
            .num_zeros = 0,
            .time_ms = { [TX_TIMER_FORWARD] = 1.25, [TX_TIMER_FORWARD_BACKWARD] = 9 },
        };
        ASSERT_OK(tx_metrics_file_put(&f, &r));
        if (i % 2) continue;
        r.kind = TX_RECORD_EVALUATION;
        r.name = "held \"out\"";
        ASSERT_OK(tx_metrics_file_put(&f, &r));
    }
    tx_metrics_file_close(&f);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    tx_history h;
    write_records(in_scratch("m"), 0, 1, 4);
    ASSERT_OK(tx_history_read(&h, in_scratch("m")));
    assert_int_equal(h.n_starts, 1);
    assert_int_equal(h.n_steps, 4);
    assert_int_equal(h.n_evaluations, 2);
    assert_string_equal(json_string_value(h.evaluation[0].name), "held \"out\"");
    ASSERT_NEAR(h.evaluation[1].loss, 2.5, 1e-8, "an evaluation's loss");
    ASSERT_NEAR(h.step[1][TX_COLUMN_loss], 5, 1e-8, "a loss");
    ASSERT_NEAR(h.step[1][TX_COLUMN_consumed_tokens], 128, 0, "tokens");
    ASSERT_NEAR(h.step[1][TX_COLUMN_MS_FORWARD], 1.25, 0, "forward");
    ASSERT_NEAR(h.step[1][TX_COLUMN_num_zeros], 0, 0, "zeros");
    assert_true(isnan(h.step[2][TX_COLUMN_loss]));
    assert_true(isnan(h.step[1][TX_COLUMN_params_norm]));
    assert_true(isnan(h.step[1][TX_COLUMN_decoupled_learning_rate]));
    ASSERT_NEAR(h.step[2][TX_COLUMN_decoupled_learning_rate], 0, 0, "decoupled learning rate");
    assert_true(isnan(h.step[1][TX_COLUMN_MS_FORWARD_BACKWARD])); /* a sum of others */
    assert_null(tx_column_name(TX_COLUMN_MS_FORWARD_BACKWARD));
    assert_true(h.last_time > 1e9);
    tx_history_free(&h);
}

/* A BERT's second loss has a name of its own in the file and a curve of its own in the page; a GPT's have nothing. */
static void a_second_loss_is_told_apart(void **state)
{
    (void)state;
    tx_history h;
    tx_metrics_file f;
    json_t *run = run_line(0);
    ASSERT_OK(tx_metrics_file_open(&f, in_scratch("m"), run));
    json_decref(run);
    tx_step_record r = { .kind = TX_RECORD_INTERVAL,
                         .iteration = 1,
                         .loss = 2,
                         .other_loss = { { "sop loss", 0.5 } },
                         .n_other_losses = 1 };
    ASSERT_OK(tx_metrics_file_put(&f, &r));
    r.kind = TX_RECORD_EVALUATION;
    r.name = "validation";
    r.other_loss[0].value = 0.25;
    ASSERT_OK(tx_metrics_file_put(&f, &r));
    tx_metrics_file_close(&f);
    tx_str text = read_file(in_scratch("m"));
    ASSERT_CONTAINS(text.data, "\"loss\":2,");
    ASSERT_CONTAINS(text.data, ",\"sop_loss\":0.5,\"time_ms\":{");
    ASSERT_CONTAINS(text.data, "\"ppl\":7.3890561,\"sop_loss\":0.25}");
    tx_str_free(&text);
    ASSERT_OK(tx_history_read(&h, in_scratch("m")));
    ASSERT_NEAR(h.step[0][TX_COLUMN_sop_loss], 0.5, 0, "a step's");
    ASSERT_NEAR(h.evaluation[0].sop_loss, 0.25, 0, "an evaluation's");
    tx_str page = { 0 };
    ASSERT_OK(tx__page_text(&page, 1, (const char *const[]){ "run" }, &h));
    ASSERT_CONTAINS(page.data, "\"sop_loss\":[0.5]");
    ASSERT_CONTAINS(page.data, "\"loss\":2,\"sop_loss\":0.25}");
    tx_str_free(&page);
    tx_history_free(&h);

    write_records(in_scratch("gpt"), 0, 1, 4);
    text = read_file(in_scratch("gpt"));
    assert_null(strstr(text.data, "sop"));
    tx_str_free(&text);
    ASSERT_OK(tx_history_read(&h, in_scratch("gpt")));
    ASSERT_OK(tx__page_text(&page, 1, (const char *const[]){ "run" }, &h));
    assert_null(strstr(page.data, "\"sop_loss\":"));
    tx_str_free(&page);
    tx_history_free(&h);
}

/* Two layers of 2 and 3 experts at iteration i, of which an older triax wrote the first line. */
static tx_step_record with_experts(int64_t i, tx_expert_record layer[2], const double load[2][3])
{
    for (int k = 0; k < 2; k++) {
        layer[k].layer = 2 * k + 2;
        layer[k].n_experts = 2 + k;
        layer[k].load = load[k];
    }
    return (tx_step_record){ .kind = TX_RECORD_INTERVAL,
                             .iteration = i,
                             .loss = 2,
                             .other_loss = { { "moe loss", 0.5 } },
                             .n_other_losses = 1,
                             .expert = i > 1 ? layer : NULL,
                             .n_expert_layers = i > 1 ? 2 : 0,
                             .experts = tx_expert_means_of(layer, 2) };
}

static void what_experts_did_is_told(void **state)
{
    (void)state;
    tx_history h;
    tx_metrics_file f;
    json_t *run = run_line(0);
    const double load[2][3] = { { 3, 1 }, { 0, 2, 2 } };
    tx_expert_record layer[2] = { { .aux_loss = 1, .z_loss = 3, .dropped = 1 }, { .aux_loss = 2, .z_loss = 5 } };
    ASSERT_OK(tx_metrics_file_open(&f, in_scratch("m"), run));
    json_decref(run);
    for (int64_t i = 1; i < 200; i++) {
        const tx_step_record r = with_experts(i, layer, load);
        ASSERT_OK(tx_metrics_file_put(&f, &r));
    }
    tx_step_record r = with_experts(199, layer, load);
    r.kind = TX_RECORD_EVALUATION;
    r.name = "validation";
    ASSERT_OK(tx_metrics_file_put(&f, &r));
    tx_metrics_file_close(&f);
    tx_str text = read_file(in_scratch("m"));
    ASSERT_CONTAINS(text.data, "\"moe_loss\":0.5,\"load_balancing_loss\":1.5,\"z_loss\":4,\"dropped_share\":0.125,"
                               "\"load_imbalance\":1.5,\"experts\":[{\"layer\":2,\"dropped\":1,\"load\":[3,1]},"
                               "{\"layer\":4,\"dropped\":0,\"load\":[0,2,2]}],\"time_ms\":{");
    ASSERT_CONTAINS(text.data, "\"dropped_share\":0.125}\n");
    tx_str_free(&text);

    ASSERT_OK(tx_history_read(&h, in_scratch("m")));
    assert_int_equal(h.n_expert_layers, 2);
    assert_int_equal(h.n_experts, 5);
    ASSERT_NEAR(h.step[1][TX_COLUMN_load_imbalance], 1.5, 1e-8, "imbalance");
    assert_true(isnan(h.load[0]) && isnan(h.step[0][TX_COLUMN_z_loss]));
    static const double shares[] = { 1.5, 0.5, 0, 1.5, 1.5 };
    for (int e = 0; e < 5; e++) ASSERT_NEAR((double)h.load[198 * 5 + e], shares[e], 1e-6, "a load by the mean");
    tx_str page = { 0 };
    ASSERT_OK(tx__page_text(&page, 1, (const char *const[]){ "run" }, &h));
    ASSERT_CONTAINS(page.data, ",\"loads\":{\"until\":[1,2,3,4,6,"); /* 199 steps in 160 columns */
    ASSERT_CONTAINS(page.data, ",199],\"layers\":[{\"layer\":2,\"load\":[[null,null],[1.5,0.5],");
    ASSERT_CONTAINS(page.data, ",[0,1.5,1.5]]}]}");
    tx_str_free(&page);
    tx_history_free(&h);
}

static void a_resumed_run_goes_on(void **state)
{
    (void)state;
    tx_history h;
    write_records(in_scratch("m"), 0, 1, 6);
    write_records(in_scratch("m"), 4, 5, 8); /* from a checkpoint of iteration 4 */
    ASSERT_OK(tx_history_read(&h, in_scratch("m")));
    assert_int_equal(h.n_starts, 2);
    assert_int_equal(h.n_steps, 8);
    assert_int_equal(h.n_evaluations, 4);
    for (size_t i = 0; i < 8; i++) {
        ASSERT_NEAR(h.step[i][TX_COLUMN_iteration], (double)(i + 1), 0, "iteration");
        ASSERT_NEAR(h.step[i][TX_COLUMN_grad_norm], i < 4 ? 1 : 5, 0, "which start");
    }
    tx_history_free(&h);
}

static void half_a_line_is_not_there(void **state)
{
    (void)state;
    tx_history h;
    const char *path = write_text(in_scratch("m"), RUN STEP(1, 3) "{\"kind\":\"step\",\"iter");
    ASSERT_OK(tx_history_read(&h, path)); /* of a run still going */
    assert_int_equal(h.n_steps, 1);
    tx_history_free(&h);
    write_records(path, 1, 2, 2); /* of a run that was killed */
    ASSERT_OK(tx_history_read(&h, path));
    assert_int_equal(h.n_steps, 2);
    tx_history_free(&h);

    tx_str long_line = { 0 }; /* longer than what is looked at in one go */
    ASSERT_OK(tx_str_puts(&long_line, RUN));
    for (int i = 0; i < 3000; i++) ASSERT_OK(tx_str_puts(&long_line, "half "));
    write_file(path, long_line.data, long_line.len);
    tx_str_free(&long_line);
    write_records(path, 0, 1, 1);
    ASSERT_OK(tx_history_read(&h, path));
    assert_int_equal(h.n_starts, 2);
    tx_history_free(&h);
}

static void other_files_are_not_added_to(void **state)
{
    (void)state;
    tx_metrics_file f;
    json_t *run = run_line(0);
    const char *path = write_text(in_scratch("notes"), "my notes");
    ASSERT_FAILS(tx_metrics_file_open(&f, path, run), TX_ERR_FORMAT, "no metrics file");
    tx_str text = read_file(path);
    assert_string_equal(text.data, "my notes");
    tx_str_free(&text);
    ASSERT_FAILS(tx_metrics_file_open(&f, in_scratch("no/folder"), run), TX_ERR_IO, "no/folder");
    ASSERT_OK(tx_metrics_file_open(&f, write_text(in_scratch("empty"), ""), run));
    tx_metrics_file_close(&f);
    json_decref(run);
}

static void what_cannot_be_is_refused_in_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "no whole line" },
        { "{\"kind\":\"run\"", "no whole line" },
        { "hello\n", ":1: is not JSON" },
        { "[]\n", "first line" },
        { STEP(1, 2), "first line" },
        { "{\"kind\":\"run\",\"iteration\":0,\"train_iters\":1}\n", ":1: \"arguments\" is not an object" },
        { "{\"kind\":\"run\",\"iteration\":-1,\"train_iters\":1,\"arguments\":{}}\n",
          ":1: \"iteration\" is not a count" },
        { "{\"kind\":\"run\",\"iteration\":0,\"arguments\":{}}\n", ":1: \"train_iters\" is not a count" },
        { RUN "\n", ":2: is not JSON" },
        { RUN "{}\n", ":2: the kind is \"\"" },
        { RUN "{\"kind\":\"a\\nb\"}\n", ":2: the kind is \"a\\x0ab\"" },
        { RUN "{\"kind\":\"step\",\"kind\":\"step\"}\n", ":2: is not JSON: the key \"kind\" is given twice" },
        { RUN STEP(2, 1) STEP(2, 1), ":3: iteration 2 does not follow iteration 2" },
        { RUN STEP(1.5, 1), ":2: \"iteration\" is not a count" },
        { RUN STEP(1e300, 1), ":2: \"iteration\" is not a count" },
        { RUN STEP(1, "x"), ":2: \"loss\" is not a number" },
        { RUN STEP(1, 1e999), ":2: is not JSON" },
        { RUN STEP(1, NaN), ":2: is not JSON" },
        { RUN "{\"kind\":\"step\",\"iteration\":1}\n", ":2: \"time_ms\" is not an object" },
        { RUN "{\"kind\":\"step\",\"iteration\":1,\"time_ms\":{\"forward\":[]}}\n", ":2: \"forward\" is not a number" },
        { RUN "{\"kind\":\"evaluation\",\"iteration\":1}\n", ":2: \"name\" is not a text" },
        { RUN EVAL(2) EVAL(1), ":3: iteration 1 comes after iteration 2" },
        { RUN LOADS(1, "{\"layer\":2,\"load\":[]}"), ":2: \"experts\" has 0 loads" },
        { RUN LOADS(1, "{\"layer\":2,\"load\":[]},{\"layer\":4,\"load\":[1]}"),
          ":2: \"experts\" has a layer without loads" },
        { RUN LOADS(1, "{\"layer\":2,\"load\":[1,-1]}"), ":2: a load of an expert is no count" },
        { RUN LOADS(1, "{\"layer\":2,\"load\":[1,2]}") LOADS(2, "{\"layer\":3,\"load\":[1,2]}"),
          ":3: \"experts\" are not those of the lines above" },
        { RUN LOADS(1, "{\"layer\":2,\"load\":[1,2]}") LOADS(2, ""),
          ":3: \"experts\" are not those of the lines above" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_history h;
        ASSERT_FAILS(tx_history_read(&h, write_text(in_scratch("bad"), bad[i].text)), TX_ERR_FORMAT, bad[i].says);
        ASSERT_CONTAINS(tx_last_error(), in_scratch("bad"));
    }
    tx_history h;
    ASSERT_FAILS(tx_history_read(&h, in_scratch("none")), TX_ERR_NOTFOUND, "none");
}

/* ---- the page ---- */

/* The JSON inside the page. */
static json_t *page_data(const char *path)
{
    static const char before[] = "id=\"data\">";
    tx_str page = read_file(path);
    char *at = strstr(page.data, before);
    assert_non_null(at);
    at += sizeof before - 1;
    char *end = strstr(at, "</script>");
    assert_non_null(end);
    assert_null(memchr(at, '<', (size_t)(end - at)));
    json_error_t e;
    json_t *data = json_loadb(at, (size_t)(end - at), 0, &e);
    if (!data) fail_msg("the page's data: %s", e.text);
    tx_str_free(&page);
    return data;
}

static void a_page_holds_its_runs_and_no_markup_of_theirs(void **state)
{
    (void)state;
    tx_history h[2];
    const char *const name[] = { "a</script><script>alert(1)</script>", "b\xFF" };
    write_text(in_scratch("m"), "{\"kind\":\"run\",\"iteration\":0,\"train_iters\":2,\"arguments\":{\"x\":\"</script>"
                                "<!--\"}}\n" STEP(1, 3) EVAL(1) STEP(2, null));
    for (int i = 0; i < 2; i++) ASSERT_OK(tx_history_read(&h[i], in_scratch("m")));
    ASSERT_OK(tx_page_write(in_scratch("page.html"), 2, name, h));
    json_t *data = page_data(in_scratch("page.html"));
    json_t *runs = json_object_get(data, "runs"), *run = json_array_get(runs, 0);
    assert_int_equal(json_array_size(runs), 2);
    assert_string_equal(json_string_value(json_object_get(run, "name")), name[0]);
    assert_string_equal(json_string_value(json_object_get(json_array_get(runs, 1), "name")), "b\xEF\xBF\xBD");
    json_t *columns = json_object_get(run, "columns"), *loss = json_object_get(columns, "loss");
    assert_int_equal(json_integer_value(json_array_get(loss, 0)), 3);
    assert_true(json_is_null(json_array_get(loss, 1)));
    assert_null(json_object_get(columns, "grad_norm")); /* holds no number */
    assert_int_equal(json_array_size(json_object_get(run, "evaluations")), 1);
    json_decref(data);
    ASSERT_FAILS(tx_page_write(in_scratch("no/page.html"), 2, name, h), TX_ERR_NOTFOUND, "no/page.html");
    for (int i = 0; i < 2; i++) tx_history_free(&h[i]);
}

#define START(at, time, layout, lr)                                                       \
    "{\"kind\":\"run\",\"time\":" #time ",\"iteration\":" #at ",\"train_iters\":4" layout \
    ",\"arguments\":{\"lr\":\"" lr "\",\"seed\":\"1\"}}\n"
#define AT(n, time)    "{\"kind\":\"step\",\"time\":" #time ",\"iteration\":" #n ",\"loss\":1,\"time_ms\":{}}\n"
#define VALID(n, more) "{\"kind\":\"evaluation\",\"name\":\"validation\",\"iteration\":" #n ",\"loss\":2" more "}\n"

/* When a run was started, when it had last been seen, in which layout, and with which other options. */
static void a_page_knows_the_starts(void **state)
{
    (void)state;
    tx_history h;
    const char *const name[] = { "run" };
    write_text(in_scratch("m"), START(0, 100, ",\"layout\":{\"tensor\":2}", "0.1") AT(1, 110.5) AT(2, 120) AT(3, 130)
                                    START(2, 500, ",\"layout\":{\"tensor\":1}", "0.2<") AT(3, 510));
    ASSERT_OK(tx_history_read(&h, in_scratch("m")));
    assert_int_equal(h.n_starts, 2);
    assert_true(isnan(h.start[0].before));
    ASSERT_NEAR(h.start[1].before, 130, 0, "when it was seen last, in what was done again");
    ASSERT_OK(tx_page_write(in_scratch("page.html"), 1, name, &h));
    tx_history_free(&h);
    json_t *data = page_data(in_scratch("page.html"));
    json_t *starts = json_object_get(json_array_get(json_object_get(data, "runs"), 0), "starts");
    char *text = json_dumps(starts, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
    assert_string_equal(
        text, "[{\"changed\":{},\"iteration\":0,\"layout\":{\"tensor\":2},\"time\":100.0},"
              "{\"before\":130.0,\"changed\":{\"lr\":[\"0.1\",\"0.2<\"]},\"iteration\":2,\"layout\":{\"tensor\":1},"
              "\"time\":500.0}]");
    free(text);
    json_decref(data);
}

/* The evaluation at a run's end is not one of those on the way, of which the last may be at the same iteration. Files
 * that do not say so are those without a layout. */
static void the_final_evaluation_is_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool final[3];
    } row[] = {
        { START(0, 1, ",\"layout\":{}", "1") VALID(2, "") VALID(4, "") VALID(4, ",\"final\":true"), { 0, 0, 1 } },
        { START(0, 1, "", "1") VALID(2, "") VALID(3, "") VALID(4, ""), { 0, 0, 1 } },
    };
    for (size_t i = 0; i < 2; i++) {
        tx_history h;
        tx_str page = { 0 };
        ASSERT_OK(tx_history_read(&h, write_text(in_scratch("m"), row[i].text)));
        assert_int_equal(h.n_evaluations, 3);
        for (int k = 0; k < 3; k++) assert_int_equal(h.evaluation[k].final, row[i].final[k]);
        ASSERT_OK(tx__page_text(&page, 1, (const char *const[]){ "run" }, &h));
        ASSERT_CONTAINS(page.data, "\"iteration\":4,\"consumed_tokens\":null,\"loss\":2,\"final\":true}]");
        tx_str_free(&page);
        tx_history_free(&h);
    }
    tx_history h;
    tx_metrics_file f;
    json_t *run = run_line(0);
    tx_step_record r = { .kind = TX_RECORD_EVALUATION, .name = "test", .iteration = 4, .final = true };
    ASSERT_OK(tx_metrics_file_open(&f, in_scratch("written"), run));
    ASSERT_OK(tx_metrics_file_put(&f, &r));
    tx_metrics_file_close(&f);
    json_decref(run);
    ASSERT_OK(tx_history_read(&h, in_scratch("written")));
    assert_true(h.evaluation[0].final);
    tx_history_free(&h);
}

static void a_long_run_is_thinned_and_keeps_its_spikes(void **state)
{
    (void)state;
    enum { N = 10007, MAX = 100 };
    tx_history h = { 0 };
    size_t row[MAX + 1];
    ASSERT_OK(tx_realloc(&h.step, N, sizeof *h.step, "steps"));
    memset(h.step, 0, N * sizeof *h.step);
    for (h.n_steps = 0; h.n_steps < N; h.n_steps++)
        h.step[h.n_steps][TX_COLUMN_loss] = h.n_steps == 5555 ? 99 : 10 - 1e-4 * (double)h.n_steps;
    size_t n = tx__page_rows(&h, MAX, row);
    bool spike = false;
    assert_in_range(n, MAX / 2, MAX + 1);
    for (size_t i = 0; i < n; i++) {
        if (i) assert_true(row[i] > row[i - 1]);
        spike |= row[i] == 5555;
    }
    assert_true(spike && row[0] == 0 && row[n - 1] == N - 1);
    h.n_steps = MAX;
    assert_int_equal(tx__page_rows(&h, MAX, row), MAX);
    tx_history_free(&h);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    tx_status st = TX_ERR_NOMEM;
    const char *const name[] = { "run" };
    write_records(in_scratch("m"), 0, 1, 200);
    json_t *run = run_line(200);
    for (int64_t n = 0; st; n++) {
        tx_history h = { 0 };
        tx_metrics_file f = { 0 };
        allocation_fails_at(n);
        st = tx_metrics_file_open(&f, in_scratch("m"), run);
        if (!st) st = tx_history_read(&h, in_scratch("m"));
        if (!st) st = tx_page_write(in_scratch("page.html"), 1, name, &h);
        allocations_succeed();
        tx_metrics_file_close(&f);
        tx_history_free(&h);
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
    }
    json_decref(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(what_is_written_is_read),
        SCRATCH_TEST(a_second_loss_is_told_apart),
        SCRATCH_TEST(what_experts_did_is_told),
        SCRATCH_TEST(a_resumed_run_goes_on),
        SCRATCH_TEST(half_a_line_is_not_there),
        SCRATCH_TEST(other_files_are_not_added_to),
        SCRATCH_TEST(what_cannot_be_is_refused_in_one_line),
        SCRATCH_TEST(a_page_holds_its_runs_and_no_markup_of_theirs),
        SCRATCH_TEST(a_page_knows_the_starts),
        SCRATCH_TEST(the_final_evaluation_is_told_apart),
        cmocka_unit_test(a_long_run_is_thinned_and_keeps_its_spikes),
        SCRATCH_TEST(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
