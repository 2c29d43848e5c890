/* test_lifetime.c - every public function that allocates, with its N-th allocation failing, for all N: TX_ERR_NOMEM,
 * all given back (AddressSanitizer looks), nothing given, and the same call succeeds afterwards. A scenario that
 * allocates often is tried with the first and the last few and every so many in between, other ones each day (as_many,
 * sample_seed), with TX_TEST_EVERY_ALLOCATION in the environment with all. What jansson and oneDNN allocate for
 * themselves does not fail here.
 *
 *  Every function of the headers is named in this file: in a scenario, or in the list of those that allocate nothing or
 * are tried elsewhere, with the reason. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "engine_test.h"
#include "triax/data.h"
#include "triax/generate.h"
#include "triax/jobs.h"
#include "triax/run.h"
#include "triax/token.h"

/* ---- an allocation that fails, whichever thread asks for it ---- */

static atomic_llong left;
static atomic_bool has_failed;

static bool fails(void)
{
    if (atomic_fetch_sub(&left, 1) != 0) return false;
    has_failed = true;
    return true;
}

static void *alloc_or_fail(void *user, size_t bytes)
{
    (void)user;
    return fails() ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void *realloc_or_fail(void *user, void *p, size_t bytes)
{
    (void)user;
    return fails() ? NULL : realloc(p, bytes);
}

static void free_it(void *user, void *p)
{
    (void)user;
    free(p);
}

static tx_status run_failing_at(tx_status (*run)(const void *), const void *with, int64_t n)
{
    static const tx_allocator a = { alloc_or_fail, realloc_or_fail, free_it, NULL };
    left = n;
    has_failed = false;
    log_begin();
    tx_allocator_set(&a);
    tx_status st = run(with);
    tx_allocator_set(NULL);
    log_end();
    return st;
}

/* What lacked memory was said: a save that is attempted again, what of older attempts or of a replaced run stays until
 * the next one. */
static bool is_told(void)
{
    return strstr(warned, "not enough memory for ");
}

/* @spared which allocation the call does without in silence, and succeeds; NULL: none. */
static void every_allocation_may_fail(const char *name, tx_status (*run)(const void *), const void *with,
                                      const char *spared)
{
    enum { MAX_SPARED = 4 }; /* of all allocations that there are, so of any sample of them */
    const int64_t ends = as_many(50, 16);
    if (run(with)) fail_msg("%s: %s", name, tx_last_error()); /* process-wide tables are filled now */
    uint64_t before = tx_alloc_count();
    ASSERT_OK(run(with));
    int64_t total = (int64_t)(tx_alloc_count() - before), tried = 0, n_spared = 0;
    bool every = total <= 3 * ends || getenv("TX_TEST_EVERY_ALLOCATION");
    int64_t stride = every ? 1 : (total - 2 * ends) / ends + 1;
    int64_t begin = (int64_t)(sample_seed() % (uint64_t)stride); /* of those in between */
    for (int64_t n = 0; n < total; n += n == ends - 1                   ? 1 + begin
                                        : n < ends || n >= total - ends ? 1
                                                                        : stride,
                 tried++) {
        tx_status st = run_failing_at(run, with, n);
        if (has_failed && !st && spared)
            n_spared += !is_told();
        else if (has_failed && st != TX_ERR_NOMEM)
            fail_msg("%s, allocation %lld of %lld: status %d, \"%s\"", name, (long long)n, (long long)total, (int)st,
                     st ? tx_last_error() : "");
        if (!has_failed && st) fail_msg("%s without a failing allocation: %s", name, tx_last_error());
    }
    if (run(with)) fail_msg("%s afterwards: %s", name, tx_last_error());
    printf("    %-28s %6lld allocations, %lld tried\n", name, (long long)total, (long long)tried);
    assert_true(n_spared <= MAX_SPARED);
}

#define CACHE "a tokenizer's cache of words that it has met"
#define CLEAN "what is left of older attempts to save: stays, with a warning; a foreign `latest` counts as none"

/* ---- configuration ---- */

#define RUN                                                                                                      \
    "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "      \
    "--micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 2 --hidden-dropout 0.1 "                 \
    "--tokenizer-type NullTokenizer --vocab-size 511 --data-path %2$s/dataset/tiny_text_document --split 8,1,1 " \
    "--threads 1 --device cpu "

static tx_status parse(tx_config **cfg, const char *command, const char *flags)
{
    char text[4096];
    *cfg = NULL;
    snprintf(text, sizeof text, flags, scratch_dir, data_path(""));
    return tx_config_parse_string(cfg, command, text);
}

static tx_status configures(const void *with)
{
    (void)with;
    char *argv[] = { "--tokenizer-type", "NullTokenizer", "--vocab-size=9", NULL };
    tx_config *cfg = NULL;
    tx_status st = tx_config_parse(&cfg, "tokenize", 3, argv);
    if (st) assert_null(cfg);
    if (!st) assert_int_equal(tx_config_log_level(cfg), TX_LOG_INFO);
    tx_config_free(cfg);
    if (st) return st;
    st = parse(&cfg, "pretrain-gpt", RUN);
    if (st) assert_null(cfg);
    tx_config_free(cfg);
    return st;
}

/* A client's options beside the engine's, changed afterwards. */
static tx_status configures_a_client(const void *with)
{
    (void)with;
    int64_t epochs = 0;
    const tx_argument own[] = { { "epochs", TX_ARGUMENT_INT, &epochs, "N", "How often." }, { 0 } };
    const tx_checkpointing how = { .size = sizeof how, .num_layers = 2, .checkpoint_in_cpu = true };
    char *argv[] = { "--epochs", "3", "--micro-batch-size", "2", NULL }, *text = NULL;
    tx_config *cfg = NULL;
    tx_status st;
    TX_GOTO(tx_arguments_help(&text, "engine", own));
    TX_GOTO(tx_add_config_arguments(&cfg, "engine", own, 4, argv, "--lr 1e-3"));
    assert_int_equal(epochs, 3);
    TX_GOTO(tx_checkpointing_configure(cfg, &how));
out:
    tx_text_free(text);
    tx_config_free(cfg);
    return st;
}

static tx_status helps(const void *with)
{
    (void)with;
    const char *command, *summary;
    for (int i = 0; (command = tx_config_command(i, &summary)); i++) {
        char *text = NULL;
        tx_status st = tx_config_help(&text, command);
        if (st) assert_null(text);
        tx_text_free(text);
        TX_TRY(st);
    }
    char *text = NULL;
    tx_status st = tx_config_help_on(&text, "generate", "temperature");
    if (!st) assert_non_null(strstr(text, "--temperature"));
    tx_text_free(text);
    TX_TRY(st);
    text = NULL;
    st = tx_config_commands_like(&text, "pretrain");
    if (!st) assert_string_equal(text, "pretrain-gpt or pretrain-bert");
    tx_text_free(text);
    return st;
}

/* ---- tokens ---- */

static const char some_text[] = "The King's 3 crowns \xe2\x80\x94 \xc3\xa9"
                                "clat!";

static tx_status uses(tx_tokenizer *t, const char *special)
{
    tx_ids ids = { 0 };
    tx_bytes bytes = { 0 };
    const char *text = special ? some_text : "1 2 3";
    tx_status st;
    if (special) assert_int_not_equal(tx_tokenizer_special(t, special), -1);
    char hash[33];
    TX_GOTO(tx_tokenizer_hash(t, hash));
    TX_GOTO(tx_tokenizer_encode(t, text, strlen(text), &ids));
    assert_true(ids.n > 2 && ids.id[0] < tx_tokenizer_vocab_size(t));
    TX_GOTO(tx_tokenizer_decode(t, ids.id, ids.n, &bytes));
    TX_GOTO(tx_tokenizer_decode_next(t, ids.id[0], ids.id[1], &bytes));
out:
    tx_ids_free(&ids);
    tx_bytes_free(&bytes);
    tx_tokenizer_close(t);
    return st;
}

static tx_status tokenizes(const void *with)
{
    (void)with;
    tx_tokenizer *t = NULL;
    TX_TRY(tx_tokenizer_open_gpt2(&t, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    TX_TRY(uses(t, "<|endoftext|>"));
    TX_TRY(tx_tokenizer_open_wordpiece(&t, data_path("tiny/tiny-bert-vocab.txt"), true));
    TX_TRY(uses(t, "[MASK]"));
    TX_TRY(tx_tokenizer_open_sentencepiece(&t, data_path("token/sp-bpe-bytes.model"), TX_SENTENCEPIECE_GPT, 0));
    TX_TRY(uses(t, "</s>"));
    TX_TRY(tx_tokenizer_open_null(&t, 100));
    return uses(t, NULL);
}

static tx_status reads_a_tokenizer_json(const void *with)
{
    (void)with;
    tx_tokenizer *t = NULL;
    TX_TRY(tx_tokenizer_open_json(&t, data_path("token/small-tokenizer.json")));
    tx_ids ids = { 0 };
    tx_status st = tx_tokenizer_encode(t, some_text, strlen(some_text), &ids);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
    return st;
}

static tx_status replaces(const void *with)
{
    (void)with;
    tx_bytes b = { 0 };
    tx_status st = tx_text_replace_invalid("a\xff", 2, &b);
    tx_bytes_free(&b);
    return st;
}

static tx_status learns(const void *with)
{
    static const char text[] = "low lower lowest new newer newest wide wider widest";
    static const char *const special[] = { "<|user|>" };
    const tx_vocab_opts opts = {
        .kind = *(const tx_vocab_kind *)with, .vocab_size = 290, .special = special, .n_special = 1
    };
    tx_vocab_trainer *a = NULL, *b = NULL;
    tx_status st;
    TX_GOTO(tx_make_dirs(in_scratch("vocab"))); /* a client's */
    TX_GOTO(tx_vocab_trainer_create(&a, &opts));
    TX_GOTO(tx_vocab_trainer_create(&b, &opts));
    TX_GOTO(tx_vocab_trainer_feed(a, text, strlen(text)));
    TX_GOTO(tx_vocab_trainer_feed(b, text, 20));
    TX_GOTO(tx_vocab_trainer_absorb(a, b));
    assert_true(tx_vocab_trainer_words(a) > 0);
    TX_GOTO(tx_vocab_trainer_finish(a));
    assert_true(tx_vocab_trainer_size(a) > 0);
    TX_GOTO(tx_vocab_trainer_save(a, in_scratch("vocab")));
out:
    tx_vocab_trainer_free(a);
    tx_vocab_trainer_free(b);
    return st;
}

/* ---- data ---- */

static tx_status reads_data(const void *with)
{
    (void)with;
    tx_dataset *ds = NULL;
    tx_ids ids = { 0 };
    tx_status st = tx_dataset_open(&ds, data_path("dataset/tiny_text_document"));
    if (st) assert_null(ds);
    if (!st) st = tx_dataset_read(ds, 1, &ids);
    if (!st) assert_true(tx_dataset_documents(ds) > 1 && tx_dataset_tokens(ds) > (int64_t)ids.n);
    tx_ids_free(&ids);
    tx_dataset_close(ds);
    return st;
}

/* ---- jobs: a line each ---- */

typedef struct job {
    const char *name;
    tx_status (*run)(tx_config *cfg);
    const char *command, *flags;
    const char *input;  /* on standard input */
    const char *spared; /* as every_allocation_may_fail's */
} job;

static void ignore_line(void *user, const char *line)
{
    (void)user;
    assert_non_null(line);
}

static void ask_for_json(void *user, const tx_sample *s)
{
    char *json = NULL;
    tx_status *st = user;
    if (!*st) *st = tx_sample_json(&json, s, true);
    tx_text_free(json);
}

static tx_status preprocess(tx_config *cfg)
{
    return tx_preprocess_data(cfg);
}
static tx_status train_tokenizer(tx_config *cfg)
{
    return tx_train_tokenizer(cfg);
}
static tx_status merge(tx_config *cfg)
{
    return tx_merge_datasets(cfg);
}
static tx_status tokenize(tx_config *cfg)
{
    return tx_tokenize_stream(cfg);
}
static tx_status detokenize(tx_config *cfg)
{
    return tx_detokenize_stream(cfg);
}
static tx_status evaluate(tx_config *cfg)
{
    return tx_evaluate(cfg, ignore_line, NULL);
}
static tx_status fill_mask(tx_config *cfg)
{
    return tx_fill_mask(cfg, ignore_line, NULL);
}
static tx_status plan(tx_config *cfg)
{
    return tx_plan(cfg, ignore_line, NULL);
}
static tx_status inspect(tx_config *cfg)
{
    return tx_inspect(cfg, ignore_line, NULL);
}
static tx_status inspect_samples(tx_config *cfg)
{
    return tx_inspect_samples(cfg, ignore_line, NULL);
}
static tx_status report(tx_config *cfg)
{
    return tx_report(cfg);
}
static tx_status generate(tx_config *cfg)
{
    tx_status json = TX_OK;
    tx_status st = tx_generate(cfg, &(tx_generate_sink){ .sample = ask_for_json, .user = &json });
    return st ? st : json;
}

#define WORDS "--vocab-file %2$s/tiny/tiny-vocab.json --merge-file %2$s/tiny/tiny-merges.txt "
#define BERT                                                                                                           \
    "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32 "            \
    "--micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 1 --vocab-file %2$s/tiny/tiny-bert-vocab.txt " \
    "--tokenizer-type BertWordPieceLowerCase --data-path %2$s/dataset/tinybert_text_document --split 8,1,1 "           \
    "--threads 1 --device cpu "

static const job jobs[] = {
    { "pretrain", tx_pretrain, "pretrain-gpt",
      RUN "--save %1$s/run --overwrite-run --save-interval 2 --metrics-file %1$s/run.jsonl --eval-iters 1", NULL,
      CLEAN },
    { "pretrain, BERT", tx_pretrain, "pretrain-bert",
      BERT "--save %1$s/bert --overwrite-run --save-interval 1 --eval-iters 1", NULL, CLEAN },
    { "preprocess-data", preprocess, "preprocess-data",
      "--input %1$s/lines.jsonl --output-prefix %1$s/made --append-eod " WORDS, NULL, CACHE },
    { "preprocess-data, workers", preprocess, "preprocess-data",
      "--input %1$s/lines.jsonl --output-prefix %1$s/made --append-eod --workers 2 " WORDS, NULL, CACHE },
    { "merge-datasets", merge, "merge-datasets",
      "--datasets %1$s/made_text_document %1$s/made_text_document --output-prefix %1$s/merged", NULL, NULL },
    { "train-tokenizer", train_tokenizer, "train-tokenizer",
      "--input %1$s/lines.jsonl --output-dir %1$s/learned --vocab-size 270 --workers 1", NULL, CACHE },
    { "tokenize", tokenize, "tokenize", WORDS, "a king\nand a crown\n", CACHE },
    { "detokenize", detokenize, "detokenize", WORDS, "[1, 2, 3]\n[4]\n", NULL },
    { "plan", plan, "plan", RUN, NULL, NULL },
    { "inspect", inspect, "inspect", "%1$s/run", NULL, CLEAN },
    { "inspect-samples", inspect_samples, "inspect-samples", RUN "--stats", NULL, NULL },
    { "analyze-data", tx_analyze_data, "analyze-data",
      "--data-path %2$s/dataset/tiny_text_document --split 8,1,1 --seq-length 64 --tokenizer-type NullTokenizer "
      "--vocab-size 511 --analyzing-metric total_vocab_freq vocab_rarity --save %1$s/analysis",
      NULL, "a rank's part of it: stays, with a warning" },
    { "report", report, "report", "%1$s/run.jsonl --output %1$s/report.html", NULL, NULL },
    { "convert", tx_convert, "convert", "%1$s/run %1$s/hf --to huggingface", NULL, CACHE },
    { "evaluate", evaluate, "evaluate",
      "--load %1$s/run --data-path %2$s/dataset/tiny_text_document --split 8,1,1 --eval-iters 1 --device cpu", NULL,
      CACHE },
    { "generate", generate, "generate",
      "--load %2$s/golden/generation/model " WORDS "--prompt King --max-new-tokens 2 --logprobs --device cpu", NULL,
      CACHE },
    { "fill-mask", fill_mask, "fill-mask", "[MASK] --load %1$s/bert --device cpu", NULL, CACHE },
};

/* Standard input is the job's text, standard output nobody's. */
static tx_status does(const void *with)
{
    const job *j = with;
    int kept[2] = { dup(0), dup(1) }, none = open("/dev/null", O_WRONLY);
    int in = open(write_text(in_scratch("input"), j->input ? j->input : ""), O_RDONLY);
    fflush(stdout);
    assert_true(dup2(in, 0) == 0 && dup2(none, 1) == 1);
    static int n_before;
    rename(in_scratch("hf"), in_scratch("hf.%d", n_before++)); /* a conversion is into a new folder */
    tx_config *cfg;
    tx_status st = parse(&cfg, j->command, j->flags);
    if (!st) st = j->run(cfg);
    tx_config_free(cfg);
    fflush(stdout);
    assert_true(dup2(kept[0], 0) == 0 && dup2(kept[1], 1) == 1);
    for (int i = 0; i < 2; i++) close(kept[i]);
    close(none);
    close(in);
    return st;
}

/* ---- engines ---- */

static tx_status next_rows(void *user, int64_t micro, const void **out)
{
    batch(user, micro);
    *out = user;
    return TX_OK;
}

/* Everything that may be asked of an engine. */
static tx_status goes_round(tx_engine *e, bool pipeline)
{
    int32_t rows[B * (S + 1)];
    double loss;
    char *path = NULL, *client = NULL;
    tx_status st;
    const char *dir = in_scratch("engine");
    if (!pipeline) {
        for (bool last = false; !last;) {
            batch(rows, tx_engine_micro_steps(e));
            TX_TRY(tx_engine_forward(e, rows, &loss));
            TX_TRY(tx_engine_backward(e));
            last = tx_engine_is_gradient_accumulation_boundary(e);
            TX_TRY(tx_engine_step(e));
        }
        TX_TRY(tx_engine_evaluate(e, rows, &loss));
    }
    TX_TRY(tx_engine_train_batch(e, next_rows, rows, &loss));
    TX_TRY(tx_engine_eval_batch(e, 2 * B, next_rows, rows, &loss));
    TX_TRY(tx_engine_save_checkpoint(e, dir, "some", "{\"epoch\": 3}"));
    st = tx_engine_load_checkpoint(e, dir, "some", &path, &client);
    if (st ? path || client : !path || !client || strcmp(client, "{\"epoch\":3}"))
        st = TX_FAIL(TX_ERR_FORMAT, "what a load gives back: %d, %s, %s", (int)st, path, client);
    tx_text_free(path);
    tx_text_free(client);
    TX_TRY(st);
    return tx_engine_world_size(e) == 1 ? tx_engine_export(e, in_scratch("exported")) : TX_OK;
}

static tx_status trains(const void *with)
{
    char flags[4096];
    tx_config *cfg = NULL;
    tx_engine *e = NULL;
    snprintf(flags, sizeof flags, "%s --threads 1 --device cpu %s", FLAGS, (const char *)with);
    TX_TRY(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    tx_status st = tx_engine_create(&e, cfg, 509);
    if (st)
        assert_null(e);
    else
        st = goes_round(e, false);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return st;
}

/* A client's own model: a linear classifier. */
enum { N_IN = 4, N_CLASSES = 3 };

static tx_status linear_forward(tx_ctx *c, const tx_layer_call *k)
{
    tx_tensor *dz = k->saved, none = { 0 };
    *dz = tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b, N_CLASSES });
    tx_tensor z = tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b, N_CLASSES });
    TX_TRY(tx_op_gemm(
        c, &(tx_gemm_args){
               .c = z, .a = k->input[0], .b = k->weight[0].value, .bias = k->weight[1].value, .trans_b = true }));
    return tx_op_cross_entropy(c,
                               &(tx_cross_entropy_args){ .loss = tx_slice1(k->loss, 0, k->b),
                                                         .z = z,
                                                         .dz = k->train ? *dz : none,
                                                         .y = tx_slice1(k->input[1], 0, k->b),
                                                         .weight = k->train ? tx_slice1(k->loss_weight, 0, k->b) : none,
                                                         .n_valid = N_CLASSES });
}

static tx_status linear_backward(tx_ctx *c, const tx_layer_call *k)
{
    const tx_tensor *dz = k->saved;
    TX_TRY(tx_op_gemm(
        c, &(tx_gemm_args){ .c = k->weight[0].grad, .a = *dz, .b = k->input[0], .trans_a = true, .accumulate = true }));
    return tx_op_col_sum(c, &(tx_col_sum_args){ .y = k->weight[1].grad, .x = *dz });
}

static const tx_param_spec linear_params[] = {
    { .name = "weight", .dim = { N_CLASSES, N_IN }, .init = TX_INIT_NORMAL, .decay = TX_DECAY },
    { .name = "bias", .dim = { N_CLASSES } },
};
static const tx_layer linear = {
    .name = "linear",
    .param = linear_params,
    .n_params = 2,
    .forward = linear_forward,
    .backward = linear_backward,
    .saved_size = sizeof(tx_tensor),
};
static const tx_client_model classifier = {
    .size = sizeof classifier,
    .name = "classifier",
    .layer = &linear,
    .n_layers = 1,
    .input = { { TX_F32, 1, { N_IN } }, { TX_I32, 1, { 1 } } },
    .n_inputs = 2,
};

/* States of both handles, which what is set makes part of the checkpoint. */
static tx_status hand_out(tx_engine *e)
{
    char *optimizer = NULL, *scheduler = NULL;
    TX_TRY(tx_optimizer_set_betas(tx_engine_optimizer(e), 0.5, 0.5));
    tx_status st = tx_optimizer_state(tx_engine_optimizer(e), &optimizer);
    if (!st) st = tx_optimizer_load_state(tx_engine_optimizer(e), optimizer);
    if (!st) st = tx_lr_scheduler_state(tx_engine_lr_scheduler(e), &scheduler);
    if (!st) st = tx_lr_scheduler_load_state(tx_engine_lr_scheduler(e), scheduler);
    tx_text_free(optimizer);
    tx_text_free(scheduler);
    return st;
}

static tx_status trains_a_clients_model(const void *with)
{
    static const float x[B * N_IN] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static const int32_t label[B] = { 0, 2 };
    const void *const inputs[] = { x, label };
    char flags[4096];
    tx_config *cfg = NULL;
    tx_engine *e = NULL;
    double loss;
    tx_status st;
    snprintf(flags, sizeof flags, "%s --threads 1 --device cpu --world-size 1", (const char *)with);
    TX_TRY(tx_config_parse_string(&cfg, "engine", flags));
    TX_GOTO(tx_engine_initialize(
        &e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .model = &classifier }));
    TX_GOTO(tx_engine_forward(e, inputs, &loss));
    TX_GOTO(tx_engine_backward(e));
    TX_GOTO(tx_engine_step(e));
    TX_GOTO(hand_out(e));
    TX_GOTO(tx_engine_save_checkpoint(e, in_scratch("client"), NULL, NULL));
    TX_GOTO(tx_engine_load_checkpoint(e, in_scratch("client"), NULL, NULL, NULL));
out:
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return st;
}

/* One image, of as many samples as there are. */
static tx_status collate(void *user, const int64_t *sample, int64_t n, const tx_tensor *input)
{
    (void)user, (void)sample;
    for (int64_t i = 0; i < n * N_IN; i++) ((float *)input[0].data)[i] = (float)i;
    for (int64_t i = 0; i < n; i++) ((int32_t *)input[1].data)[i] = 1;
    return TX_OK;
}

/* A whole run of it, on training data of its own. */
static tx_status runs_a_clients_model(const void *with)
{
    static const tx_training_data data = { .size = sizeof data, .n_samples = 8, .collate = collate };
    char flags[4096];
    tx_config *cfg = NULL;
    tx_run *run = NULL;
    tx_engine *e = NULL;
    tx_status st;
    snprintf(flags, sizeof flags, "%s --threads 1 --device cpu --world-size 1 --eval-iters 0 --overwrite-run --save %s",
             (const char *)with, in_scratch("run"));
    TX_TRY(tx_config_parse_string(&cfg, "engine", flags));
    TX_GOTO(tx_train_data_exists(cfg));
    TX_GOTO(tx_train_data_prepare(cfg));
    TX_GOTO(tx_run_open(&run, cfg, NULL));
    tx_engine_args args = {
        .size = sizeof args, .config = cfg, .model = &classifier, .world = tx_run_world(run), .data = &data
    };
    TX_GOTO(tx_engine_initialize(&e, &args));
    assert_null(tx_engine_tokenizer(e));
    TX_GOTO(tx_run_train(run, e, NULL));
out:
    tx_engine_destroy(e);
    if (run) st = tx_run_close(run, st);
    tx_config_free(cfg);
    return st;
}

/* Two ranks: which of them it hits is chance; the job ends with that rank's status, not with the other's. */
static tx_status rank_trains(tx_world *world, void *user)
{
    char flags[4096];
    tx_config *cfg = NULL;
    tx_engine *e = NULL;
    tx_status st;
    snprintf(flags, sizeof flags, "%s --threads 1 --device cpu %s", FLAGS, (const char *)user);
    TX_GOTO(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    TX_GOTO(tx_engine_initialize(
        &e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .vocab_size = 509, .world = world }));
    st = goes_round(e, strstr(user, "pipeline") != NULL);
out:
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return st;
}

static tx_status two_ranks_train(const void *with)
{
    char flags[256];
    snprintf(flags, sizeof flags, "%s", (const char *)with);
    return tx_world_threads(2, rank_trains, flags);
}

static tx_status opens_a_world(const void *with)
{
    (void)with;
    tx_world *w = NULL;
    tx_status st = tx_world_open(&w, false);
    if (st) assert_null(w);
    if (!st) assert_true(tx_world_rank(w) == 0 && tx_world_size(w) == 1);
    tx_world_close(w);
    return st;
}

/* ---- what allocates nothing, or is tried elsewhere ---- */

static const struct {
    const char *why, *names;
} others[] = {
    { "give a number or a static text back, or free",
      "tx_generate_form_of tx_generate_numbers tx_sample_stage_name tx_launched_rank tx_launched_alone tx_last_error "
      "tx_version "
      "tx_dtype_size tx_dtype_name tx_tokenizer_eod tx_tokenizer_ends tx_engine_iteration tx_engine_lr tx_engine_loss "
      "tx_engine_grad_norm tx_engine_n_params "
      "tx_engine_memory_of tx_engine_cur_scale tx_engine_skipped_steps tx_engine_global_rank "
      "tx_engine_train_batch_size tx_engine_train_micro_batch_size "
      "tx_engine_data_parallel_rank tx_engine_data_parallel_size tx_engine_set_lr tx_engine_sum "
      "tx_engine_gradient_accumulation_steps tx_engine_global_samples tx_engine_tensor_parallel_rank "
      "tx_engine_tensor_parallel_size tx_engine_pipeline_parallel_rank tx_engine_pipeline_parallel_size "
      "tx_engine_was_step_applied tx_engine_zero_grad tx_engine_optimizer tx_engine_lr_scheduler tx_optimizer_name "
      "tx_optimizer_steps tx_optimizer_n_groups tx_optimizer_group_at tx_optimizer_set_lr "
      "tx_optimizer_set_weight_decay tx_optimizer_set_betas tx_optimizer_set_momentum tx_lr_scheduler_name "
      "tx_checkpointing_is_configured tx_engine_backward_scaled tx_engine_backward_from tx_engine_losses "
      "tx_lr_scheduler_lr tx_lr_scheduler_last_step tx_lr_scheduler_step "
      "tx_log_set tx_log_set_live" },
    { "are values: views of tensors, random numbers",
      "tx_wide tx_tensor1 tx_tensor2 tx_tensor3 tx_tensor_of tx_numel tx_is_contiguous tx_same_shape tx_as_rows "
      "tx_slice_rows tx_tensor_describe tx_rng_uniform tx_rng_normal tx_rng_stream tx_random_add tx_random_take "
      "tx_model_parallel_seed" },
    { "work in memory that the engine has taken before: a step allocates nothing (test_engine)",
      "tx_checkpoint_forward tx_checkpoint_backward tx_ctx_is_dry tx_ctx_threads tx_ctx_mark tx_ctx_pop tx_ctx_read "
      "tx_layer_dropout tx_ctx_tensor_rank "
      "tx_ctx_tensor_size tx_ctx_tensor_sum tx_op_fill tx_op_cast tx_op_copy tx_op_add tx_op_layernorm_fwd "
      "tx_op_layernorm_bwd "
      "tx_op_rmsnorm_fwd tx_op_rmsnorm_bwd tx_op_activation_fwd tx_op_activation_bwd tx_op_glu_fwd "
      "tx_op_glu_bwd tx_op_rope tx_op_dropout_add_fwd tx_op_dropout_add_bwd tx_op_attention_fwd "
      "tx_op_attention_bwd tx_op_embedding_fwd tx_op_embedding_bwd tx_op_head_loss" },
    { "go on until they are stopped, or end processes; their parts are tried in tests/serve, tests/launch, tests/fault",
      "tx_serve tx_torchrun tx_deepspeed tx_autotune tx_launch_agent tx_world_abort" },
    { "change the process's environment, look at the machine: tests/cli; a replay file: tests/train",
      "tx_threads_environment tx_doctor tx_replay" },
};

/* Whether text has `name` as a word. */
static bool has_word(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = text; (p = strstr(p, name)); p += n)
        if ((p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_')) &&
            !(isalnum((unsigned char)p[n]) || p[n] == '_'))
            return true;
    return false;
}

static void every_public_function_is_here(void **state)
{
    (void)state;
    int n_functions = 0, n_missing = 0;
    tx_str here = read_file(data_path("../api/test_lifetime.c"));
    DIR *d = opendir(data_path("../../include/triax"));
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        if (!strstr(f->d_name, ".h")) continue;
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", data_path("../../include/triax"), f->d_name);
        tx_str header = read_file(path);
        for (char *p = header.data; (p = strstr(p, "\nTX_API ")); p++) {
            char name[128];
            char *end = strchr(p, '(');
            char *from = end;
            while (isalnum((unsigned char)from[-1]) || from[-1] == '_') from--;
            snprintf(name, sizeof name, "%.*s", (int)(end - from), from);
            n_functions++;
            if (!has_word(here.data, name)) {
                printf("    %s is in no scenario\n", name);
                n_missing++;
            }
        }
        tx_str_free(&header);
    }
    closedir(d);
    tx_str_free(&here);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_true(*others[i].why && *others[i].names);
    assert_true(n_functions > 100);
    assert_int_equal(n_missing, 0);
}

/* ---- */

static void configuration_and_tokens(void **state)
{
    (void)state;
    static const tx_vocab_kind kinds[] = { TX_VOCAB_BPE, TX_VOCAB_WORDPIECE_LOWER_CASE };
    every_allocation_may_fail("parse", configures, NULL, NULL);
    every_allocation_may_fail("a client's options", configures_a_client, NULL, NULL);
    every_allocation_may_fail("help", helps, NULL, NULL);
    every_allocation_may_fail("tokenizers", tokenizes, NULL, CACHE);
    every_allocation_may_fail("tokenizer.json", reads_a_tokenizer_json, NULL, CACHE);
    every_allocation_may_fail("invalid UTF-8", replaces, NULL, NULL);
    for (int i = 0; i < 2; i++) every_allocation_may_fail(i ? "train WordPiece" : "train BPE", learns, &kinds[i], NULL);
    every_allocation_may_fail("dataset", reads_data, NULL, NULL);
    every_allocation_may_fail("world", opens_a_world, NULL, NULL);
}

static void whole_jobs(void **state)
{
    (void)state;
    const char *only = getenv("TX_TEST_JOB");
    write_text(in_scratch("lines.jsonl"), "{\"text\": \"a king\"}\n{\"text\": \"and a crown, and a king\"}\n");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        if (!only || !strcmp(only, jobs[i].name))
            every_allocation_may_fail(jobs[i].name, does, &jobs[i], jobs[i].spared);
        else
            ASSERT_OK(does(&jobs[i]));
}

static void engines(void **state)
{
    (void)state;
    every_allocation_may_fail("engine", trains, "", CLEAN);
    every_allocation_may_fail("engine, Llama, bf16", trains, LLAMA "--bf16 --zero-stage 1", CLEAN);
    every_allocation_may_fail("a client's model", trains_a_clients_model,
                              "--micro-batch-size 2 --global-batch-size 2 --train-iters 6 --lr 1e-2", CLEAN);
    every_allocation_may_fail("a client's run", runs_a_clients_model,
                              "--micro-batch-size 2 --global-batch-size 2 --train-iters 3 --lr 1e-2", CLEAN);
}

static void ranks(void **state)
{
    (void)state;
    every_allocation_may_fail("2 ranks, ZeRO-3", two_ranks_train, "--world-size 2 --zero-stage 3", CLEAN);
    every_allocation_may_fail("2 ranks, TP", two_ranks_train,
                              "--num-attention-heads 4 --world-size 2 --tensor-model-parallel-size 2", CLEAN);
    every_allocation_may_fail("2 ranks, PP", two_ranks_train, "--world-size 2 --pipeline-model-parallel-size 2", CLEAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_public_function_is_here),
        SCRATCH_TEST(configuration_and_tokens),
        SCRATCH_TEST(engines),
        SCRATCH_TEST(ranks),
        SCRATCH_TEST(whole_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
