/* labels: unit */
/* A command line to a config: every kind of option, spellings, and what is said about what is wrong. */
#include "support.h"

#include "config/config.h"

#define SHAPE "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 64 "
#define RUN   "--micro-batch-size 2 --seq-length 64 --train-iters 10 --lr 1e-3 --data-path d "
#define FILES "--vocab-file v --merge-file m "
#define GOOD  SHAPE RUN FILES

/* The published command line of a 345M model. */
#define SCRIPT_345M                                                                                           \
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --micro-batch-size 4 --global-batch-size 8 " \
    "--seq-length 1024 --max-position-embeddings 1024 --train-iters 500000 --lr-decay-iters 320000 --save X " \
    "--load X --data-path D --vocab-file V --merge-file M --data-impl mmap --split 949,50,1 "                 \
    "--distributed-backend nccl --lr 0.00015 --lr-decay-style cosine --min-lr 1.0e-5 --weight-decay 1e-2 "    \
    "--clip-grad 1.0 --lr-warmup-fraction .01 --log-interval 100 --save-interval 10000 --eval-interval 1000 " \
    "--eval-iters 10 "

static tx_config *parsed(const char *command, const char *flags)
{
    tx_config *cfg = NULL;
    if (tx_config_parse_string(&cfg, command, flags)) fail_msg("%s: %s", flags, tx_last_error());
    return cfg;
}

/* The whole error text must be this. */
static void refused(const char *command, const char *flags, const char *text)
{
    tx_config *cfg = NULL;
    assert_int_equal(tx_config_parse_string(&cfg, command, flags), TX_ERR_ARG);
    assert_null(cfg);
    assert_string_equal(tx_last_error(), text);
}

static void every_kind_is_stored(void **state)
{
    (void)state;
    tx_config *c = parsed("pretrain-gpt", GOOD "--init-method-std 0.5 --finetune --load L --no-bias-gelu-fusion "
                                               "--lr-decay-style cosine --dump-step 3 D --split=9,1,0");
    assert_int_equal(c->num_layers, 2);
    assert_true(c->init_method_std == 0.5);
    assert_true(c->finetune && c->given.finetune);
    assert_false(c->bias_gelu_fusion);
    assert_string_equal(tx_lr_decay_style_word(c->lr_decay_style), "cosine");
    assert_string_equal(c->split, "9,1,0");
    assert_int_equal(c->dump_step.n, 2);
    assert_string_equal(c->dump_step.item[1], "D");
    assert_string_equal(c->command->name, "pretrain-gpt");
    tx_config_free(c);
}

static void defaults_stand_where_nothing_was_given(void **state)
{
    (void)state;
    tx_config *c = parsed("pretrain-gpt", GOOD);
    assert_int_equal(c->log_interval, 100);
    assert_true(c->hidden_dropout == 0.1);
    assert_true(c->bias_gelu_fusion && !c->given.bias_gelu_fusion);
    assert_false(c->openai_gelu);
    assert_null(c->save);
    assert_string_equal(c->split, "969, 30, 1");
    assert_int_equal(c->exit_interval, 0);
    assert_int_equal(c->dump_step.n, 0);
    tx_config_free(c);

    c = parsed("evaluate", "--load L --data-path d");
    assert_int_equal(c->micro_batch_size, 4); /* its own default */
    assert_int_equal(c->eval_iters, 0);
    assert_string_equal(tx_eval_split_word(c->eval_split), "all");
    tx_config_free(c);

    c = parsed("preprocess-data", "--input a b c --output-prefix p " FILES);
    assert_int_equal(c->input.n, 3);
    assert_int_equal(c->json_keys.n, 1);
    assert_string_equal(c->json_keys.item[0], "text");
    assert_int_equal(c->preprocess_log_interval, 1000);
    tx_config_free(c);
}

static void what_follows_is_filled_in(void **state)
{
    (void)state;
    tx_config *c = parsed("pretrain-gpt", GOOD "--weight-decay 0.25");
    assert_int_equal(c->global_batch_size, 2);
    assert_false(c->given.global_batch_size);
    assert_int_equal(c->ffn_hidden_size, 256);
    assert_int_equal(c->kv_channels, 16);
    assert_int_equal(c->lr_decay_iters, 10);
    assert_true(c->start_weight_decay == 0.25 && c->end_weight_decay == 0.25);
    tx_config_free(c);

    c = parsed("pretrain-gpt",
               SHAPE FILES "--micro-batch-size 2 --global-batch-size 6 --seq-length 64 --lr 1 --data-path d "
                           "--train-samples 100");
    assert_int_equal(c->train_iters, 16);
    assert_int_equal(c->lr_decay_samples, 100);
    assert_int_equal(c->lr_decay_iters, 0);
    tx_config_free(c);
}

static void spellings_of_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want; /* 0: refused */
    } cases[] = { { "2e6", 2000000 }, { "1_000", 1000 }, { "+7", 7 },
                  { "2.0", 2 },       { "1e-3", 0 },     { "2.5", 0 },
                  { "0x10", 0 },      { "nan", 0 },      { "inf", 0 },
                  { "1__0", 0 },      { "_1", 0 },       { "1_", 0 },
                  { "", 0 },          { " 1", 0 },       { "1e400", 0 },
                  { "-", 0 },         { "1-1", 0 },      { "99999999999999999999", 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *c = NULL;
        char *argv[] = { "--input",      "f",   "--output-dir",    "d",
                         "--vocab-size", "300", "--min-frequency", (char *)cases[i].text };
        tx_status st = tx_config_parse(&c, "train-tokenizer", 8, argv);
        if ((st == TX_OK) != (cases[i].want != 0)) fail_msg("\"%s\": %d %s", cases[i].text, (int)st, tx_last_error());
        if (!st) assert_int_equal(c->min_frequency, cases[i].want);
        tx_config_free(c);
    }
}

static void spellings_of_flags(void **state)
{
    (void)state;
    tx_config *c = parsed(
        "pretrain-gpt", "--encoder-num-layers 3 --hidden_size=64 --num-attention_heads 4 --max-position-embeddings 64 "
                        "--override-lr-scheduler " RUN "--vocab v --merge-file m --lr 1 --lr 0.5");
    assert_int_equal(c->num_layers, 3);
    assert_int_equal(c->hidden_size, 64);
    assert_true(c->override_opt_param_scheduler);
    assert_string_equal(c->vocab_file, "v");
    assert_true(c->lr == 0.5); /* the last one counts */
    tx_config_free(c);

    c = parsed("generate", "--load L --prompt x --top-k 5 --top_p 0.5 --max-new-tokens 9");
    assert_int_equal(c->top_k, 5);
    assert_true(c->top_p == 0.5);
    assert_int_equal(c->out_seq_length, 9);
    tx_config_free(c);
    refused("pretrain-gpt", GOOD "--encoder-num-layers 2",
            "cannot have both --num-layers and --encoder-num-layers: they are the same option");
}

static void values_end_at_the_next_flag(void **state)
{
    (void)state;
    char *argv[] = { "--load", "L", "--prompt", "Once upon", "- a", "-1", "", "--seed", "7" };
    tx_config *c = NULL;
    ASSERT_OK(tx_config_parse(&c, "generate", 9, argv));
    assert_int_equal(c->prompt.n, 4);
    assert_string_equal(c->prompt.item[0], "Once upon");
    assert_string_equal(c->prompt.item[2], "-1");
    assert_string_equal(c->prompt.item[3], "");
    assert_int_equal(c->seed, 7);
    tx_config_free(c);
    /* "=" is the way to a value that begins with dashes */
    c = parsed("generate", "--load=--odd --prompt=--x");
    assert_string_equal(c->load, "--odd");
    assert_string_equal(c->prompt.item[0], "--x");
    tx_config_free(c);
}

static void a_first_value_needs_no_flag_where_a_command_says_so(void **state)
{
    (void)state;
    tx_config *c = parsed("inspect", "data --documents 5");
    assert_string_equal(c->inspect_input, "data");
    assert_int_equal(c->documents, 5);
    tx_config_free(c);
    refused("inspect", "--documents 5", "inspect needs a path: triax inspect PATH, or --input PATH");
    c = parsed("report", "a b --output x");
    assert_int_equal(c->runs.n, 2);
    assert_string_equal(c->runs.item[1], "b");
    assert_string_equal(c->report_output, "x");
    tx_config_free(c);
    refused("report", "--output x", "report needs runs: triax report RUN ..., folders of --save or metrics files");
    c = parsed("replay", "x.json");
    assert_string_equal(c->replay_file, "x.json");
    tx_config_free(c);
    refused("replay", "--threads 1",
            "replay needs a file: triax replay FILE, the replay-iteration-N.json that a run left");
    refused("inspect", "a b", "\"b\" is not a flag and no flag before it takes it");
    refused("doctor", "a", "\"a\" is not a flag and no flag before it takes it");
}

/* Flags, as flags again, give the same options; those that are named are left out. */
static void given_options_as_flags(void **state)
{
    (void)state;
    static const char *const text[][2] = {
        { "pretrain-gpt",
          "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 64 "
          "--micro-batch-size 2 --seq-length 64 --train-iters 1e1 --lr 1.23456789012345678e-4 --data-path "
          "0.3 a 0.7 b --vocab-file v --merge-file --odd --no-bias-gelu-fusion --swiglu "
          "--lr-decay-style cosine --clip-grad 0 --save s --save-interval 5" },
        { "generate", "--load=--odd --prompt=--x --greedy" },
    };
    static const char *const without[] = { "save", "save_interval", NULL };
    for (int i = 0; i < 2; i++) {
        json_t *flags, *again, *a, *b;
        char line[2048];
        snprintf(line, sizeof line, "%s", text[i][1]);
        char *odd = strstr(line, "--merge-file ");
        if (odd) odd[strlen("--merge-file")] = '=';
        tx_config *c = parsed(text[i][0], line), *d;
        ASSERT_OK(tx_config_to_flags(c, without, &flags));
        char *argv[64];
        int argc = (int)json_array_size(flags);
        for (int k = 0; k < argc; k++) argv[k] = (char *)json_string_value(json_array_get(flags, (size_t)k));
        ASSERT_OK(tx_config_parse(&d, text[i][0], argc, argv));
        ASSERT_OK(tx_config_to_json(c, &a));
        ASSERT_OK(tx_config_to_json(d, &b));
        assert_true(json_equal(a, b));
        assert_true(!d->save && !d->given.save_interval);
        ASSERT_OK(tx_config_to_flags(d, without, &again));
        assert_true(json_equal(flags, again));
        if (i == 0) assert_true(d->lr == c->lr && d->data_path.n == 4 && !strcmp(d->merge_file, "--odd"));
        if (i == 1) assert_true(!strcmp(d->prompt.item[0], "--x") && d->greedy);
        json_decref(a);
        json_decref(b);
        json_decref(flags);
        json_decref(again);
        tx_config_free(c);
        tx_config_free(d);
    }
}

static void one_mistake_is_one_sentence(void **state)
{
    (void)state;
    refused("pretrain-gpt", GOOD "--lr abc", "--lr abc is not a number; allowed: at least 0");
    refused("pretrain-gpt", GOOD "--num-layers 2.5",
            "--num-layers 2.5 is not a whole number; allowed: 1 to 10000 layers");
    refused("pretrain-gpt", GOOD "--num-layers 0", "--num-layers 0 is too small; allowed: 1 to 10000 layers");
    refused("pretrain-gpt", GOOD "--min-lr -1", "--min-lr -1 is too small; allowed: at least 0");
    refused("pretrain-gpt", GOOD "--hidden-size 2000000",
            "--hidden-size 2000000 is too large; allowed: at most 1048576");
    refused("pretrain-gpt", GOOD "--train-iters 1e12",
            "--train-iters 1e12 is too large; allowed: at most 1000000000 iterations");
    refused("pretrain-gpt", GOOD "--lr-decay-style step",
            "--lr-decay-style step is unknown; allowed: one of constant, linear, cosine, inverse-square-root, WSD");
    refused("pretrain-gpt", GOOD "--seed", "--seed needs a value");
    refused("pretrain-gpt", GOOD "--load --seed 5", "--load needs a value");
    refused("pretrain-gpt", GOOD "--finetune=1 --load L", "--finetune takes no value, but =1 was given");
    refused("pretrain-gpt", GOOD "--dump-step 5", "--dump-step takes 2 values (N DIR), not 1");
    refused("pretrain-gpt", GOOD "--openai-gelu yes", "--openai-gelu takes no value, but \"yes\" stands behind it");
    refused("pretrain-gpt", SHAPE FILES "--micro-batch-size 2 --seq-length 64 --data-path d -lr 2e-3 --train-iters 3",
            "-lr: a flag begins with two dashes: --lr");
    refused("pretrain-gpt", GOOD "--seed 5 6", "\"6\" is not a flag and no flag before it takes it");
    /* also behind a list, which takes all that is no flag */
    refused("pretrain-gpt", GOOD "--data-path d -lr 2e-3 --seed 5", "-lr: a flag begins with two dashes: --lr");
    refused("pretrain-gpt",
            GOOD "\xe2\x80\x93"
                 "lr_decay-style=cosine",
            "\xe2\x80\x93"
            "lr_decay-style=cosine: a flag begins with two dashes: --lr_decay-style=cosine");
    refused("inspect", "-verify x", "-verify: a flag begins with two dashes: --verify");
    refused("doctor", "--threads 0", "--threads 0 is too small; allowed: 1 to 4096 threads");
}

static void unknown_flags_get_a_suggestion(void **state)
{
    (void)state;
    refused("pretrain-gpt", GOOD "--num-layer 3", "unknown flag --num-layer; did you mean --num-layers?");
    /* what is missing because of the typo is not told besides */
    refused("pretrain-gpt",
            "--num-layers 2 --hiden-size 64 --num-attention-heads 4 --max-position-embeddings 64 " RUN FILES,
            "unknown flag --hiden-size; did you mean --hidden-size?");
    refused("pretrain-gpt", GOOD "--hiden_size 3", "unknown flag --hiden_size; did you mean --hidden-size?");
    refused("pretrain-gpt", GOOD "--prompt a b", "--prompt is a flag of generate, fill-mask, not of pretrain-gpt");
    refused("pretrain-gpt", GOOD "--tensor-model 2",
            "unknown flag --tensor-model; did you mean --tensor-model-parallel-size?");
    refused("doctor", "--qqqqqqqqqq 1", "unknown flag --qqqqqqqqqq; triax doctor --help lists the flags");
    refused("doctor", "--=3", "unknown flag --; triax doctor --help lists the flags");
    tx_config *c = NULL;
    assert_int_equal(tx_config_parse_string(&c, "no-such-command", ""), TX_ERR_NOTFOUND);
    assert_null(c);
}

/* Scripts of 2020 run, and each old name is told once. */
static void old_flags_are_the_new_ones(void **state)
{
    (void)state;
    log_begin();
    tx_config *c =
        parsed("pretrain-gpt", SHAPE FILES "--batch-size 3 --seq-length 64 --train-iters 10 --lr 1e-3 --data-path d "
                                           "--warmup .02 --model-parallel-size 1 --min-scale 2 --fp16 "
                                           "--intermediate-size 96 --resume-dataloader");
    log_end();
    assert_int_equal(c->micro_batch_size, 3);
    assert_int_equal(c->global_batch_size, 3);
    assert_true(c->lr_warmup_fraction == 0.02);
    assert_true(c->min_loss_scale == 2);
    assert_int_equal(c->ffn_hidden_size, 96);
    ASSERT_CONTAINS(logged, "--batch-size 3: --micro-batch-size, of each model-parallel group of ranks, as it was");
    ASSERT_CONTAINS(logged, "--warmup .02: --lr-warmup-fraction, and after it");
    ASSERT_CONTAINS(logged, "--model-parallel-size 1: --tensor-model-parallel-size, which");
    ASSERT_CONTAINS(logged, "--min-scale 2: --min-loss-scale, which");
    ASSERT_CONTAINS(logged, "--intermediate-size 96: --ffn-hidden-size, which");
    ASSERT_CONTAINS(logged, "--resume-dataloader: accepted, without effect here: a run that goes on always does so");
    tx_config_free(c);
    refused("pretrain-gpt", GOOD "--batch-size 3",
            "cannot have both --micro-batch-size and --batch-size: they are the same option");
}

static void a_word_of_other_programs_is_the_one_here(void **state)
{
    (void)state;
    log_begin();
    tx_config *c = parsed("pretrain-gpt", GOOD "--normalization RMSNorm");
    log_end();
    assert_string_equal(tx_normalization_word(c->normalization), "rmsnorm");
    ASSERT_CONTAINS(logged, "--normalization RMSNorm: rmsnorm");
    tx_config_free(c);
    c = parsed("pretrain-gpt", SHAPE RUN "--tokenizer-type HuggingFaceTokenizer --tokenizer-model t");
    assert_string_equal(tx_tokenizer_type_word(c->tokenizer_type), "HFTokenizer");
    tx_config_free(c);
    c = parsed("pretrain-bert", SHAPE RUN "--tokenizer-type BertWordPieceTokenizer --vocab-file v");
    assert_string_equal(tx_tokenizer_type_word(c->tokenizer_type), "BertWordPieceLowerCase");
    tx_config_free(c);
}

static void text_is_data_too(void **state)
{
    (void)state;
#define TEXT SHAPE FILES "--micro-batch-size 2 --seq-length 64 --train-iters 10 --lr 1e-3 --train-data webtext "
    tx_config *c = parsed("pretrain-gpt", TEXT "--split 9,1,1");
    assert_int_equal(c->train_data.n, 1);
    tx_config_free(c);
    tx_config_free(parsed("pretrain-gpt", TEXT "--valid-data a --test-data b"));
    refused("pretrain-gpt", TEXT "--data-path d",
            "--train-data is text, and another flag names a dataset: give one of the two");
    refused("pretrain-gpt", TEXT "--mock-data",
            "--mock-data takes the place of a dataset: leave it out, or --data-path and its kin");
    refused("pretrain-gpt", TEXT "--valid-data a",
            "--valid-data and --test-data: give both, or leave both out for parts by --split");
    refused("pretrain-gpt", TEXT "--valid-data a --test-data b --split 9,1,1",
            "--split divides --train-data, but --valid-data and --test-data are given: leave --split out");
    refused("pretrain-gpt", GOOD "--test-data b", "--test-data needs --train-data");
}

static void all_mistakes_at_once(void **state)
{
    (void)state;
    refused("pretrain-gpt",
            SHAPE FILES "--micro-batch-size x --train-iters 5 --seq-length 65 --fp8-e4m3 --nonsense-flag 1 "
                        "--global-batch-size 3 --data-path d --offload-optimizer cpu",
            "--micro-batch-size x is not a whole number; allowed: at least 1 samples\n"
            "--fp8-e4m3 is not built yet: triax trains in fp32, bf16 or fp16; leave the flag out\n"
            "unknown flag --nonsense-flag; triax pretrain-gpt --help lists the flags\n"
            "pretrain-gpt needs --lr\n"
            "--seq-length 65 is more than --max-position-embeddings 64\n"
            "--offload-optimizer cpu needs a --zero-stage of 1 or more, with one data-parallel rank, too");
}

static void a_very_long_list_of_mistakes_is_counted(void **state)
{
    (void)state;
    tx_str flags = { 0 };
    tx_config *c = NULL;
    for (int i = 0; i < 200; i++) ASSERT_OK(tx_str_puts(&flags, "stray "));
    assert_int_equal(tx_config_parse_string(&c, "doctor", flags.data), TX_ERR_ARG);
    const char *text = tx_last_error(), *end = strstr(text, "\n... and ");
    assert_non_null(end);
    int shown = 1;
    for (const char *p = text; p < end; p++) shown += *p == '\n';
    assert_int_equal(shown + atoi(end + 9), 200);
    ASSERT_CONTAINS(end, " more");
    tx_str_free(&flags);
}

static void the_345m_script_is_taken_as_it_is(void **state)
{
    (void)state;
    tx_config *c = parsed("pretrain-gpt", SCRIPT_345M "--checkpoint-activations --fp16");
    assert_true(c->fp16);
    assert_int_equal(tx_config_recompute(c).n_layers, c->num_layers);
    assert_int_equal(c->global_batch_size, 8);
    assert_int_equal(c->lr_decay_iters, 320000);
    assert_true(c->lr_warmup_fraction == 0.01 && c->min_lr == 1e-5 && c->lr == 0.00015);
    tx_config_free(c);
}

/* ---------------------------------------------------------------- rows without a member */

static void flags_without_effect_say_so(void **state)
{
    (void)state;
    log_begin();
    tx_config *c = parsed("pretrain-gpt", GOOD "--distributed-backend nccl --use-flash-attn-v1 --onnx-safe x "
                                               "--profile-ranks 0 --partition-activations --sequence-parallel "
                                               "--use-distributed-optimizer --overlap-grad-reduce");
    log_end();
    tx_config_free(c);
    ASSERT_CONTAINS(logged, "--distributed-backend nccl: accepted, without effect here: between ranks of processors");
    ASSERT_CONTAINS(logged, "--use-flash-attn-v1: accepted, without effect here: attention here never stores");
    ASSERT_CONTAINS(logged, "--overlap-grad-reduce: accepted, without effect here: it is so already");
    ASSERT_CONTAINS(logged, "--partition-activations: the tensor-parallel size is 1, activations have one part\n");
    ASSERT_CONTAINS(logged, "--sequence-parallel: off, the tensor-parallel size is 1\n");
    ASSERT_CONTAINS(logged, "--use-distributed-optimizer: ZeRO stage 1\n");
    ASSERT_CONTAINS(logged, "ZeRO stage 1: the data-parallel size is 1, everything has one part\n");
    assert_null(strstr(logged, "using world size"));
    ASSERT_CONTAINS(logged, "setting global batch size to 2\n");
    log_begin();
    tx_config_free(parsed("pretrain-gpt", GOOD "--bf16 --initial-loss-scale 8"));
    tx_config_free(parsed("pretrain-gpt", GOOD "--fp16 --loss-scale 8 --hysteresis 3"));
    log_end();
    ASSERT_CONTAINS(logged, "flags for the loss scale: bf16 without --loss-scale has none\n");
    ASSERT_CONTAINS(logged, "flags for a dynamic loss scale: --loss-scale 8 is constant\n");
}

#define KEPT GOOD "--tensor-model-parallel-size 2 --partition-activations --checkpoint-in-cpu "

static void kept_inputs_without_effect_say_so(void **state)
{
    (void)state;
    log_begin();
    tx_config_free(parsed("plan", KEPT "--profile-backward --ds-sequence-parallel-fpdt-chunk-size 8"));
    log_end();
    ASSERT_CONTAINS(logged, "--ds-sequence-parallel-fpdt-chunk-size: without effect, --ds-sequence-parallel-fpdt is");
    ASSERT_CONTAINS(logged, "--profile-backward: nothing to time, no layers are computed again");
    ASSERT_CONTAINS(logged, "--partition-activations: without effect, no layers are computed again");
    ASSERT_CONTAINS(logged, "--checkpoint-in-cpu: without effect, no layers are computed again");
    log_begin();
    tx_config_free(parsed("plan", KEPT "--checkpoint-activations --sequence-parallel"));
    log_end();
    ASSERT_CONTAINS(logged,
                    "--partition-activations: --sequence-parallel divides activations between layers already\n");
    log_begin();
    tx_config *c = parsed("plan", KEPT "--checkpoint-activations --synchronize-each-layer");
    log_end();
    assert_true(tx_config_recompute(c).divided && tx_config_recompute(c).in_host);
    assert_null(strstr(logged, "-activations: "));
    ASSERT_CONTAINS(logged, "--synchronize-each-layer: accepted, without effect here: a layer's work is done when");
    tx_config_free(c);
}

static void one_value_is_fine_others_come_later(void **state)
{
    (void)state;
    tx_config_free(parsed("pretrain-gpt",
                          GOOD "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 "
                               "--zero-stage 0 --num-experts 1 --DDP-impl torch --local-rank=0 "
                               "--sample-rate 1 --optimizer adam --transformer-impl transformer_engine"));
    refused("pretrain-gpt", GOOD "--num-experts 4 --moe-router-topk 1",
            "--moe-router-topk 1 needs --moe-router-pre-softmax: the softmax of one score is always 1, and the router "
            "would learn nothing");
#define CORE GOOD "--num-experts 4 --moe-router-topk 2 "
    refused("pretrain-gpt", CORE "--moe-router-enable-expert-bias",
            "--moe-router-enable-expert-bias needs --moe-router-score-function sigmoid");
    refused("pretrain-gpt", CORE "--moe-router-bias-update-rate 1e-3",
            "--moe-router-bias-update-rate needs --moe-router-enable-expert-bias");
    refused("pretrain-gpt", CORE "--moe-router-load-balancing-type seq_aux_loss",
            "--moe-router-load-balancing-type seq_aux_loss is not built yet: give aux_loss, which is over a "
            "micro-batch, or none");
    refused("pretrain-gpt", CORE "--moe-token-drop-policy position",
            "--moe-token-drop-policy needs --moe-expert-capacity-factor");
    refused("pretrain-gpt", CORE "--moe-expert-capacity-factor 1",
            "--moe-expert-capacity-factor drops by probs with --moe-router-pre-softmax alone: add it, or "
            "--moe-token-drop-policy position");
    refused("pretrain-gpt", CORE "--moe-expert-capacity-factor 1 --moe-router-score-function sigmoid",
            "--moe-expert-capacity-factor with sigmoid scores of several choices is not built yet: leave it out");
    refused("pretrain-gpt", GOOD "--num-experts 4 --moe-expert-capacity-factor 1",
            "--moe-expert-capacity-factor is Megatron Core's and needs --moe-router-topk");
    refused("pretrain-gpt", CORE "--moe-router-num-groups 2",
            "--moe-router-num-groups is not built yet: a token chooses among all experts; leave the flag out");
    refused("pretrain-gpt", GOOD "--moe-expert-parallel-size 8",
            "--moe-expert-parallel-size 8 needs --num-experts above 1");
    refused("pretrain-gpt", GOOD "--num-experts 6 --world-size 4 --moe-expert-parallel-size 4",
            "--num-experts 6 is not divisible by --moe-expert-parallel-size 4");
    refused("pretrain-gpt", GOOD "--num-experts 4 --moe-expert-parallel-size 4",
            "--moe-expert-parallel-size 4 does not divide the 1 data-parallel ranks of a stage");
    refused("pretrain-gpt",
            GOOD "--num-experts 4 --world-size 4 --tensor-model-parallel-size 2 --moe-expert-parallel-size 4 "
                 "--enable-expert-tensor-parallelism",
            "--moe-expert-parallel-size 4 does not divide the 2 data-parallel ranks of a stage: experts are split over "
            "tensor-parallel ones");
    refused("pretrain-gpt",
            GOOD "--num-experts 4 --world-size 4 --tensor-model-parallel-size 4 --expert-tensor-parallel-size 2",
            "--expert-tensor-parallel-size 2 is neither 1 nor --tensor-model-parallel-size 4");
    tx_config_free(parsed("pretrain-gpt", GOOD "--num-experts 4 --world-size 4 --tensor-model-parallel-size 2 "
                                               "--expert-model-parallel-size 4"));
    refused("pretrain-gpt", GOOD "--profile-ranks 0 1 2",
            "--profile-ranks 1 is not built yet: --profile times rank 0; leave the flag out");
    refused("evaluate", "--load L --data-path d --tensor-model-parallel-size 2",
            "world size (1) is not divisible by --tensor-model-parallel-size 2 times --pipeline-model-parallel-size 1; "
            "try --tensor-model-parallel-size 1, or on 2 or 4 ranks (as in mpirun -n 2 triax evaluate ...)");
    tx_config_free(parsed("generate", "--load L --prompt a --tensor-model-parallel-size 1"));
}

/* In a dense model flags of experts are named; with experts they say how these are. */
static void flags_of_experts(void **state)
{
    (void)state;
    log_begin();
    tx_config_free(parsed("pretrain-gpt", GOOD "--topk 2 --moe-loss-coeff 0.01 --moe-token-dispatcher-type alltoall"));
    log_end();
    ASSERT_CONTAINS(logged, "--topk, --moe-loss-coeff: without effect, no layer has experts (--num-experts)\n");
    log_begin();
    tx_config *c = parsed("pretrain-gpt", CORE "--moe-expert-capacity-factor 1.25 --moe-token-drop-policy position "
                                               "--moe-pad-expert-input-to-capacity --moe-aux-loss-coeff 0.01");
    log_end();
    assert_null(strstr(logged, "no layer has experts"));
    ASSERT_CONTAINS(logged, "--moe-pad-expert-input-to-capacity: accepted, without effect here");
    tx_moe_shape is = tx_config_moe(c, 0);
    assert_true(is.train_factor == 1.25 && is.eval_factor == 1.25 && is.aux_coeff == 0.01 && !is.drops_small);
    assert_int_equal(is.min_capacity, 0);
    tx_config_free(c);
    c = parsed("pretrain-gpt", CORE "--moe-expert-capacity-factor 1 --moe-router-pre-softmax "
                                    "--moe-aux-loss-coeff 0.01 --moe-router-load-balancing-type none");
    is = tx_config_moe(c, 0);
    assert_true(is.aux_coeff == 0 && is.drops_small);
    tx_config_free(c);
}

static void log_levels(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        tx_log_level want;
    } cases[] = { { "", TX_LOG_INFO },
                  { "--log-level warning", TX_LOG_WARN },
                  { "--log-level critical", TX_LOG_ERROR },
                  { "--log-level trace", TX_LOG_TRACE } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *c = parsed("doctor", cases[i].flags);
        assert_int_equal(tx_config_log_level(c), cases[i].want);
        tx_config_free(c);
    }
}

/* ---------------------------------------------------------------- memory */

/* Whichever allocation fails, the call says so, gives nothing and leaks nothing (the sanitizer build sees leaks). */
static void any_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const flags[] = { GOOD, "--micro-batch-size x --unknown 3 stray" };
    for (int f = 0; f < 2; f++)
        for (long n = 0;; n++) {
            tx_config *c = NULL;
            allocations_fail_from(n);
            tx_status st = tx_config_parse_string(&c, "pretrain-gpt", flags[f]);
            tx_config_free(c);
            allocations_succeed();
            if (st != TX_ERR_NOMEM) {
                assert_int_equal(st, f ? TX_ERR_ARG : TX_OK);
                assert_true(n > 10);
                break;
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_stored),
        cmocka_unit_test(defaults_stand_where_nothing_was_given),
        cmocka_unit_test(what_follows_is_filled_in),
        cmocka_unit_test(spellings_of_numbers),
        cmocka_unit_test(spellings_of_flags),
        cmocka_unit_test(values_end_at_the_next_flag),
        cmocka_unit_test(a_first_value_needs_no_flag_where_a_command_says_so),
        cmocka_unit_test(given_options_as_flags),
        cmocka_unit_test(one_mistake_is_one_sentence),
        cmocka_unit_test(unknown_flags_get_a_suggestion),
        cmocka_unit_test(old_flags_are_the_new_ones),
        cmocka_unit_test(a_word_of_other_programs_is_the_one_here),
        cmocka_unit_test(text_is_data_too),
        cmocka_unit_test(all_mistakes_at_once),
        cmocka_unit_test(a_very_long_list_of_mistakes_is_counted),
        cmocka_unit_test(the_345m_script_is_taken_as_it_is),
        cmocka_unit_test(flags_without_effect_say_so),
        cmocka_unit_test(kept_inputs_without_effect_say_so),
        cmocka_unit_test(one_value_is_fine_others_come_later),
        cmocka_unit_test(flags_of_experts),
        cmocka_unit_test(log_levels),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
