/* labels: unit */
/* The part of a config that lives in checkpoints: out, in again, and what happens when the two differ. */
#include "support.h"

#include "config/config.h"

#define SIZES \
    "--micro-batch-size 2 --seq-length 64 --train-iters 10 --lr 1e-3 --data-path d --vocab-file v --merge-file m "
#define SHAPE "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 64 "

static tx_config *parsed(const char *command, const char *flags)
{
    tx_config *cfg = NULL;
    if (tx_config_parse_string(&cfg, command, flags)) fail_msg("%s: %s", flags, tx_last_error());
    return cfg;
}

/* What a run with these flags leaves in its checkpoint, after a trip through text. */
static json_t *saved_by(const char *flags)
{
    tx_config *c = parsed("pretrain-gpt", flags);
    json_t *out = NULL;
    ASSERT_OK(tx_config_to_json(c, &out));
    char *text = json_dumps(out, 0);
    json_t *back = json_loads(text, 0, NULL);
    assert_non_null(back);
    assert_true(json_equal(out, back));
    free(text);
    json_decref(out);
    tx_config_free(c);
    return back;
}

static void only_shape_and_trajectory_are_kept(void **state)
{
    (void)state;
    json_t *s = saved_by(SHAPE SIZES "--load /secret --save /secret --save-interval 5 --openai-gelu");
    assert_int_equal(json_integer_value(json_object_get(s, "hidden_size")), 64);
    assert_int_equal(json_integer_value(json_object_get(s, "ffn_hidden_size")), 256);
    assert_true(json_is_true(json_object_get(s, "openai_gelu")));
    assert_true(json_real_value(json_object_get(s, "lr")) == 1e-3);
    assert_true(json_is_null(json_object_get(s, "lr_warmup_fraction")));
    char *text = json_dumps(s, 0);
    assert_null(strstr(text, "secret"));
    assert_null(strstr(text, "vocab_file"));
    assert_null(strstr(text, "data_path"));
    assert_null(strstr(text, "log_interval"));
    free(text);
    /* the table's order */
    assert_string_equal(json_object_iter_key(json_object_iter(s)), "model_type");
    json_decref(s);
}

static void left_out_shape_is_filled(void **state)
{
    (void)state;
    json_t *s = saved_by(SHAPE SIZES "--ffn-hidden-size 100 --layernorm-epsilon 1e-6 --no-bias-gelu-fusion "
                                     "--make-vocab-size-divisible-by 8");
    tx_config *c = parsed("pretrain-gpt", SIZES "--load L --hidden-size 64");
    ASSERT_OK(tx_config_from_json(c, s, TX_KEPT_SHAPE | TX_KEPT_HINT));
    ASSERT_OK(tx_config_complete(c));
    assert_int_equal(c->num_layers, 2);
    assert_int_equal(c->num_attention_heads, 4);
    assert_int_equal(c->ffn_hidden_size, 100); /* not the 256 that parsing had derived from --hidden-size */
    assert_int_equal(c->kv_channels, 16);
    assert_int_equal(c->make_vocab_size_divisible_by, 8);
    assert_true(c->layernorm_epsilon == 1e-6);
    assert_false(c->bias_gelu_fusion);
    tx_config_free(c);

    /* which was a number before lists could be given */
    json_object_set_new(s, "moe_layer_freq", json_integer(1));
    c = parsed("evaluate", "--load L --data-path d");
    ASSERT_OK(tx_config_from_json(c, s, TX_KEPT_SHAPE | TX_KEPT_HINT));
    assert_string_equal(c->moe_layer_freq, "1");
    assert_int_equal(c->seq_length, 64);
    assert_int_equal(c->micro_batch_size, 4); /* the trajectory is not taken over */
    assert_true(c->lr == 0);
    tx_config_free(c);

    c = parsed("evaluate", "--load L --data-path d --seq-length 32");
    ASSERT_OK(tx_config_from_json(c, s, TX_KEPT_SHAPE | TX_KEPT_HINT));
    assert_int_equal(c->seq_length, 32); /* free to differ */
    tx_config_free(c);
    json_decref(s);
}

/* Checkpoints of before --position-embedding-type, and those of other programs, have two flags; and what has no table
 * of positions can be read at any length. */
static void positions_are_filled(void **state)
{
    (void)state;
    static const struct {
        const char *saved, *type;
        bool old;
    } cases[] = { { "", "learned_absolute", true },
                  { "--use-rotary-position-embeddings", "rope", true },
                  { "--no-position-embedding", "none", true },
                  { "--position-embedding-type alibi", "alibi", false },
                  { "--position-embedding-type rotary", "rope", false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char flags[1024];
        snprintf(flags, sizeof flags, SHAPE SIZES "%s", cases[i].saved);
        json_t *s = saved_by(flags);
        if (cases[i].old) json_object_del(s, "position_embedding_type");
        bool table = !strcmp(cases[i].type, "learned_absolute");
        tx_config *c = parsed("pretrain-gpt", "--load L " SIZES);
        ASSERT_OK(tx_config_from_json(c, s, TX_KEPT_SHAPE | TX_KEPT_HINT));
        ASSERT_OK(tx_config_complete(c));
        assert_string_equal(tx_position_embedding_word(c->position_embedding_type), cases[i].type);
        assert_int_equal(c->add_position_embedding, table);
        assert_int_equal(c->use_rotary_position_embeddings, !strcmp(cases[i].type, "rope"));
        assert_int_equal(c->max_position_embeddings, 64);
        tx_config_free(c);

        c = parsed("pretrain-gpt", "--load L " SIZES "--position-embedding-type alibi --max-position-embeddings 100");
        tx_status st = tx_config_from_json(c, s, TX_KEPT_SHAPE | TX_KEPT_HINT);
        if (!strcmp(cases[i].type, "alibi")) {
            ASSERT_OK(st);
            assert_int_equal(c->max_position_embeddings, 100);
        } else {
            assert_int_equal(st, TX_ERR_ARG);
            assert_non_null(strstr(tx_last_error(), "position-embedding-type"));
            assert_non_null(strstr(tx_last_error(), cases[i].type));
        }
        tx_config_free(c);

        c = parsed("pretrain-gpt", "--load L --micro-batch-size 2 --seq-length 256 --train-iters 10 --lr 1e-3 "
                                   "--data-path d --vocab-file v --merge-file m");
        ASSERT_OK(tx_config_from_json(c, s, TX_KEPT_SHAPE | TX_KEPT_HINT));
        if (table) {
            ASSERT_FAILS(tx_config_complete(c), TX_ERR_ARG,
                         "--seq-length 256 is more than --max-position-embeddings 64");
        } else {
            ASSERT_OK(tx_config_complete(c));
            assert_int_equal(c->max_position_embeddings, 256);
        }
        tx_config_free(c);
        json_decref(s);
    }
}

static void a_given_shape_must_be_the_checkpoints(void **state)
{
    (void)state;
    json_t *s = saved_by(SHAPE SIZES);
    tx_config *c =
        parsed("pretrain-gpt", SIZES "--load L --num-layers 3 --hidden-size 128 --num-attention-heads 4 --openai-gelu "
                                     "--layernorm-epsilon 1e-6 --max-position-embeddings 64");
    assert_int_equal(tx_config_from_json(c, s, TX_KEPT_SHAPE), TX_ERR_ARG);
    assert_string_equal(tx_last_error(),
                        "the model of the checkpoint is another one: leave these flags out or give its values\n"
                        "  flag                 in the checkpoint  given\n"
                        "  --num-layers         2                  3\n"
                        "  --hidden-size        64                 128\n"
                        "  --layernorm-epsilon  1e-05              1e-06\n"
                        "  --openai-gelu        False              True");
    assert_int_equal(c->make_vocab_size_divisible_by, 128);
    assert_int_equal(c->num_layers, 3);
    tx_config_free(c);

    /* one number of two names */
    c = parsed("pretrain-gpt", SIZES "--load L --group-query-attention --num-query-groups 2");
    assert_int_equal(tx_config_from_json(c, s, TX_KEPT_SHAPE), TX_ERR_ARG);
    assert_string_equal(tx_last_error(),
                        "--num-key-value-heads is 2, in the checkpoint it is 4; leave the flag out or give "
                        "the checkpoint's value");
    tx_config_free(c);
    json_decref(s);
}

/* Of learning rate and weight decay nothing is said or taken here: optim/schedule.h has that. */
static void another_trajectory_is_a_warning(void **state)
{
    (void)state;
    json_t *s = saved_by(SHAPE SIZES);
    tx_config *c = parsed("pretrain-gpt", SHAPE SIZES "--load L --lr 2e-3 --clip-grad 2 --seed 5");
    log_begin();
    ASSERT_OK(tx_config_from_json(c, s, TX_KEPT_SHAPE | TX_KEPT_HINT | TX_KEPT_RUN));
    log_end();
    assert_string_equal(warned, "2 options are not the checkpoint's; this run goes on with its own:\n"
                                "  flag         in the checkpoint  given\n"
                                "  --clip-grad  1.0                2.0\n"
                                "  --seed       1234               5\n");
    assert_true(c->lr == 2e-3);
    tx_config_free(c);
    json_decref(s);
}

static void hostile_values_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"num_layers\": 0}",         "{\"num_layers\": \"2\"}",  "{\"num_layers\": 9223372036854775807}",
        "{\"num_layers\": 2.5}",       "{\"openai_gelu\": 1}",     "{\"layernorm_epsilon\": -1}",
        "{\"tokenizer_type\": \"x\"}", "{\"tokenizer_type\": []}", "[]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_config *c = parsed("evaluate", "--load L --data-path d");
        json_t *s = json_loads(bad[i], 0, NULL);
        assert_non_null(s);
        if (tx_config_from_json(c, s, TX_KEPT_SHAPE | TX_KEPT_HINT) != TX_ERR_FORMAT) fail_msg("%s was taken", bad[i]);
        assert_int_equal(c->num_layers, 0);
        json_decref(s);
        tx_config_free(c);
    }
    tx_config *c = parsed("evaluate", "--load L --data-path d");
    json_t *odd = json_loads("{\"no_such_option\": 3, \"num_layers\": null, \"load\": \"/elsewhere\"}", 0, NULL);
    ASSERT_OK(tx_config_from_json(c, odd, TX_KEPT_SHAPE | TX_KEPT_HINT | TX_KEPT_RUN));
    assert_int_equal(c->num_layers, 0);
    assert_string_equal(c->load, "L"); /* no path comes out of a file */
    json_decref(odd);
    tx_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_shape_and_trajectory_are_kept),
        cmocka_unit_test(left_out_shape_is_filled),
        cmocka_unit_test(positions_are_filled),
        cmocka_unit_test(a_given_shape_must_be_the_checkpoints),
        cmocka_unit_test(another_trajectory_is_a_warning),
        cmocka_unit_test(hostile_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
