/* labels: unit */
/* What config.json of a Llama means, and what of it is refused. */
#include "support.h"

#include "model/hf_format.h"

#define SIZES                                                                                                \
    "'hidden_size':64,'num_hidden_layers':2,'num_attention_heads':4,'intermediate_size':100,'vocab_size':9," \
    "'max_position_embeddings':32"

/* JSON with ' for ". */
static json_t *parse(const char *text)
{
    char buf[1024];
    size_t n = strlen(text);
    assert_true(n < sizeof buf);
    for (size_t i = 0; i <= n; i++) buf[i] = text[i] == '\'' ? '"' : text[i];
    json_t *j = json_loads(buf, 0, NULL);
    assert_non_null(j);
    return j;
}

static tx_status options(json_t **out, const char *text)
{
    const tx_hf_format *llama;
    json_t *config = parse(text);
    *out = NULL;
    ASSERT_OK(tx_hf_format_find(&llama, "llama", NULL, NULL));
    tx_status st = tx_hf_options(llama, out, config);
    json_decref(config);
    return st;
}

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void defaults_are_the_class_own(void **state)
{
    (void)state;
    json_t *o;
    ASSERT_OK(options(&o, "{" SIZES "}"));
    assert_true(number(o, "num_key_value_heads") == 4 && number(o, "kv_channels") == 16);
    assert_true(number(o, "layernorm_epsilon") == 1e-6 && number(o, "rope_theta") == 10000);
    assert_true(json_is_true(json_object_get(o, "untie_embeddings_and_output_weights")));
    json_decref(o);
    ASSERT_OK(options(&o, "{" SIZES ",'num_key_value_heads':2,'head_dim':20,'rms_norm_eps':0.001,'rope_theta':5e5,"
                          "'tie_word_embeddings':true,'rope_scaling':null,'hidden_act':'silu'}"));
    assert_true(number(o, "num_key_value_heads") == 2 && number(o, "kv_channels") == 20);
    assert_true(number(o, "layernorm_epsilon") == 1e-3 && number(o, "rope_theta") == 5e5);
    assert_true(json_is_false(json_object_get(o, "untie_embeddings_and_output_weights")));
    json_decref(o);
    ASSERT_OK(options(&o, "{" SIZES ",'rope_theta':1,'rope_parameters':{'rope_theta':7,'rope_type':'default'}}"));
    assert_true(number(o, "rope_theta") == 7);
    json_decref(o);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *message;
        tx_status status;
    } bad[] = {
        { "{}", "num_hidden_layers", TX_ERR_FORMAT },
        { "{" SIZES ",'head_dim':0}", "head_dim", TX_ERR_FORMAT },
        { "{" SIZES ",'head_dim':4294967296}", "below 2^31", TX_ERR_FORMAT },
        { "{" SIZES ",'rope_scaling':{'type':'linear'}}", "\"factor\" is missing", TX_ERR_FORMAT },
        { "{" SIZES ",'rope_scaling':{'type':'longrope','factor':2}}", "\"longrope\"", TX_ERR_UNSUPPORTED },
        { "{" SIZES ",'rope_scaling':{'type':'linear','factor':2,'short_factor':[1]}}", "\"short_factor\"",
          TX_ERR_UNSUPPORTED },
        { "{" SIZES ",'rope_parameters':{'rope_type':'llama3','factor':2,'low_freq_factor':1}}",
          "\"original_max_position_embeddings\"", TX_ERR_FORMAT },
        { "{" SIZES ",'rope_scaling':{'rope_type':3}}", "rope_type", TX_ERR_UNSUPPORTED },
        { "{" SIZES ",'rope_theta':-1}", "rope_theta", TX_ERR_FORMAT },
        { "{" SIZES ",'hidden_act':'gelu'}", "hidden_act", TX_ERR_UNSUPPORTED },
        { "{" SIZES ",'quantization_config':{'bits':4}}", "quantized weights", TX_ERR_UNSUPPORTED },
        { "{" SIZES ",'sliding_window':7}", "\"sliding_window\" is nothing that a llama has", TX_ERR_UNSUPPORTED },
        { "{" SIZES ",'mlp_bias':true}", "mlp_bias", TX_ERR_UNSUPPORTED },
        /* what is of another kind is no default */
        { "{" SIZES ",'hidden_act':7}", "\"hidden_act\" must be a text", TX_ERR_FORMAT },
        { "{" SIZES ",'hidden_act':null}", "\"hidden_act\" must be a text", TX_ERR_FORMAT },
        { "{" SIZES ",'rope_scaling':'linear'}", "\"rope_scaling\" must be an object", TX_ERR_FORMAT },
        { "{" SIZES ",'rope_parameters':['yarn']}", "\"rope_parameters\" must be an object", TX_ERR_FORMAT },
        { "{" SIZES ",'num_key_value_heads':'2'}", "\"num_key_value_heads\" must be a positive", TX_ERR_FORMAT },
        { "{" SIZES ",'head_dim':16.5}", "\"head_dim\" must be a positive", TX_ERR_FORMAT },
        { "{" SIZES ",'rms_norm_eps':'1e-5'}", "\"rms_norm_eps\" must be a number", TX_ERR_FORMAT },
        { "{" SIZES ",'tie_word_embeddings':'true'}", "\"tie_word_embeddings\" must be true or false", TX_ERR_FORMAT },
        { "{" SIZES ",'attention_bias':1}", "\"attention_bias\" must be true or false", TX_ERR_FORMAT },
        { "{" SIZES ",'mlp_bias':1}", "\"mlp_bias\" must be true or false", TX_ERR_FORMAT },
    };
    json_t *o;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_status st = options(&o, bad[i].config);
        if (st != bad[i].status || !strstr(tx_last_error(), bad[i].message))
            fail_msg("%s: %d: %s", bad[i].config, st, tx_last_error());
        assert_null(o);
    }
    const tx_hf_format *none;
    ASSERT_FAILS(
        tx_hf_format_find(&none, "mamba", NULL, NULL), TX_ERR_UNSUPPORTED,
        "there are: gpt2, llama, qwen2, qwen3, mixtral, qwen2_moe, qwen3_moe, olmoe, mistral, seed_oss, "
        "helium, granite, "
        "smollm3, stablelm, phi3, arcee, nemotron, olmo2, olmo3, exaone4, gemma, gemma2, gemma3_text, cohere, "
        "cohere2, gpt_neox, gptj, phi, falcon, bloom, mpt, opt, gpt_bigcode, starcoder2, bert, megatron-bert)");
    ASSERT_FAILS(tx_hf_format_find(&none, NULL, NULL, NULL), TX_ERR_UNSUPPORTED, "model_type");
}

/* ---- Llama's descendants ---- */

#define OTHER(kind, more) "{'model_type':'" kind "'," SIZES more "}"
#define EXPERTS           ",'num_experts_per_tok':2,'moe_intermediate_size':24"

static tx_status other_options(json_t **out, const char *text)
{
    const tx_hf_format *format;
    json_t *config = parse(text);
    *out = NULL;
    ASSERT_OK(tx_hf_format_find(&format, json_string_value(json_object_get(config, "model_type")), NULL, NULL));
    tx_status st = tx_hf_options(format, out, config);
    json_decref(config);
    return st;
}

static bool has(const json_t *o, const char *flag)
{
    return json_is_true(json_object_get(o, flag));
}

static int64_t experts(const json_t *o)
{
    const json_t *list = json_object_get(o, "num_experts");
    assert_int_equal(json_array_size(list), 1);
    return strtoll(json_string_value(json_array_get(list, 0)), NULL, 10);
}

static void descendants(void **state)
{
    (void)state;
    json_t *o;
    ASSERT_OK(other_options(&o, OTHER("qwen2", ",'sliding_window':4096,'use_sliding_window':false")));
    assert_true(has(o, "add_qkv_bias") && !has(o, "qk_layernorm") && !has(o, "add_bias_linear"));
    json_decref(o);
    ASSERT_OK(other_options(&o, OTHER("qwen3", ",'head_dim':20")));
    assert_true(has(o, "qk_layernorm") && !has(o, "add_qkv_bias") && number(o, "kv_channels") == 20);
    json_decref(o);
    ASSERT_OK(other_options(&o, OTHER("mixtral", ",'num_local_experts':8,'num_experts_per_tok':2")));
    assert_true(experts(o) == 8 && number(o, "moe_router_topk") == 2);
    assert_false(has(o, "moe_router_pre_softmax"));
    json_decref(o);
    /* as files were published, and as transformers 5 writes them */
    ASSERT_OK(other_options(&o, OTHER("qwen3_moe", EXPERTS ",'num_experts':16,'norm_topk_prob':true")));
    assert_true(experts(o) == 16 && number(o, "moe_ffn_hidden_size") == 24);
    assert_true(has(o, "qk_layernorm") && !has(o, "moe_router_pre_softmax"));
    json_decref(o);
    ASSERT_OK(other_options(&o, OTHER("qwen3_moe", EXPERTS ",'num_local_experts':6")));
    assert_true(experts(o) == 6 && has(o, "moe_router_pre_softmax"));
    json_decref(o);
    ASSERT_OK(other_options(&o, OTHER("qwen3_moe", ",'head_dim':16" EXPERTS ",'num_experts':4,'mlp_only_layers':[1]")));
    assert_string_equal(json_string_value(json_object_get(o, "moe_layer_freq")), "[1,0]");
    json_decref(o);
    ASSERT_OK(other_options(&o, OTHER("qwen2_moe", EXPERTS ",'num_experts':4,'shared_expert_intermediate_size':40")));
    assert_true(number(o, "moe_shared_expert_intermediate_size") == 40 && has(o, "moe_shared_expert_gate"));
    json_decref(o);
}

static void descendants_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *message;
        tx_status status;
    } bad[] = {
        { OTHER("qwen3", ""), "\"head_dim\" must be a positive", TX_ERR_FORMAT },
        { OTHER("qwen2", ",'use_sliding_window':true,'layer_types':['full_attention','chunked_attention']"),
          "layer_types \"chunked_attention\"", TX_ERR_UNSUPPORTED },
        { OTHER("qwen2", ",'use_sliding_window':true,'layer_types':['full_attention']"), "\"layer_types\" must be",
          TX_ERR_FORMAT },
        { OTHER("mistral", ",'sliding_window':1"), "\"sliding_window\" of 1", TX_ERR_UNSUPPORTED },
        { OTHER("qwen3", ",'head_dim':16,'attention_bias':true"), "attention_bias", TX_ERR_UNSUPPORTED },
        { OTHER("mixtral", ",'num_experts_per_tok':2"), "num_local_experts", TX_ERR_FORMAT },
        { OTHER("qwen3_moe", EXPERTS), "\"num_experts\" must be a positive", TX_ERR_FORMAT },
        { OTHER("qwen3_moe", ",'head_dim':16" EXPERTS ",'num_experts':4,'decoder_sparse_step':3"),
          "decoder_sparse_step", TX_ERR_UNSUPPORTED },
        { OTHER("qwen3_moe", ",'head_dim':16" EXPERTS ",'num_experts':4,'mlp_only_layers':[0,1]"),
          "no layer has experts", TX_ERR_UNSUPPORTED },
        { OTHER("qwen3_moe", ",'head_dim':16" EXPERTS ",'num_experts':4,'mlp_only_layers':0"), "mlp_only_layers",
          TX_ERR_FORMAT },
        { OTHER("qwen2_moe", EXPERTS ",'num_experts':4,'shared_expert_intermediate_size':40,'qkv_bias':false"),
          "qkv_bias", TX_ERR_UNSUPPORTED },
    };
    json_t *o;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_status st = other_options(&o, bad[i].config);
        if (st != bad[i].status || !strstr(tx_last_error(), bad[i].message))
            fail_msg("%s: %d: %s", bad[i].config, st, tx_last_error());
    }
}

/* ---- BERT ---- */

static bool only_named(const void *user, const char *name)
{
    return user && !strcmp(user, name);
}

/* With a tensor `has`, or NULL: of the binary head, there is none. */
static tx_status bert_options(json_t **out, const char *has, const char *text)
{
    const tx_hf_format *format;
    json_t *config = parse(text);
    *out = NULL;
    ASSERT_OK(tx_hf_format_find(&format, json_string_value(json_object_get(config, "model_type")), only_named, has));
    tx_status st = tx_hf_options(format, out, config);
    json_decref(config);
    return st;
}

static bool is_set(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

#define BERT(more) "{'model_type':'bert'," SIZES more "}"

/* What config.json does not say is as in transformers' BertConfig; the heads are what the files have. */
static void berts(void **state)
{
    (void)state;
    json_t *o;
    ASSERT_OK(bert_options(&o, "cls.seq_relationship.weight", BERT("")));
    assert_true(is_set(o, "post_layernorm") && is_set(o, "bert_binary_head"));
    assert_true(number(o, "layernorm_epsilon") == 1e-12 && number(o, "num_key_value_heads") == 4);
    assert_false(is_set(o, "openai_gelu") || is_set(o, "bias_gelu_fusion"));
    assert_string_equal(json_string_value(json_object_get(o, "model_type")), "BERT");
    json_decref(o);
    ASSERT_OK(bert_options(&o, "bert.pooler.dense.weight", BERT(",'hidden_act':'gelu_new','layer_norm_eps':1e-5")));
    assert_true(is_set(o, "post_layernorm") && !is_set(o, "bert_binary_head") && is_set(o, "openai_gelu"));
    assert_true(number(o, "layernorm_epsilon") == 1e-5);
    json_decref(o);
    ASSERT_OK(bert_options(&o, NULL, "{'model_type':'megatron-bert'," SIZES "}"));
    assert_false(is_set(o, "post_layernorm") || is_set(o, "bert_binary_head"));
    json_decref(o);
}

static void berts_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *message;
        tx_status status;
    } bad[] = {
        { BERT(",'type_vocab_size':3"), "type_vocab_size 3", TX_ERR_UNSUPPORTED },
        { BERT(",'position_embedding_type':'relative_key'"), "relative_key", TX_ERR_UNSUPPORTED },
        { BERT(",'is_decoder':true"), "decoder", TX_ERR_UNSUPPORTED },
        { BERT(",'add_cross_attention':true"), "add_cross_attention", TX_ERR_UNSUPPORTED },
        { BERT(",'tie_word_embeddings':false"), "tie_word_embeddings", TX_ERR_UNSUPPORTED },
        { BERT(",'hidden_act':'relu'"), "hidden_act \"relu\"", TX_ERR_UNSUPPORTED },
        { BERT(",'hidden_act':['gelu']"), "\"hidden_act\" must be a text", TX_ERR_FORMAT },
        { BERT(",'position_embedding_type':1"), "\"position_embedding_type\" must be a text", TX_ERR_FORMAT },
        { BERT(",'is_decoder':'yes'"), "\"is_decoder\" must be true or false", TX_ERR_FORMAT },
        { BERT(",'layer_norm_eps':'small'"), "\"layer_norm_eps\" must be a number", TX_ERR_FORMAT },
        { "{'model_type':'bert','hidden_size':64}", "num_hidden_layers", TX_ERR_FORMAT },
    };
    json_t *o;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_status st = bert_options(&o, NULL, bad[i].config);
        if (st != bad[i].status || !strstr(tx_last_error(), bad[i].message))
            fail_msg("%s: %d: %s", bad[i].config, st, tx_last_error());
        assert_null(o);
    }
}

/* ---- GPT-2 ---- */

#define GPT2(more) "{'n_layer':2,'n_embd':64,'n_head':4,'n_positions':32,'vocab_size':9" more "}"

static void gpt2s(void **state)
{
    (void)state;
    static const struct {
        const char *config, *message;
        tx_status status;
    } bad[] = {
        { GPT2(",'activation_function':'swish'"), "activation_function \"swish\"", TX_ERR_UNSUPPORTED },
        { GPT2(",'activation_function':false"), "\"activation_function\" must be a text", TX_ERR_FORMAT },
        { GPT2(",'n_inner':'256'"), "\"n_inner\" must be a positive", TX_ERR_FORMAT },
        { GPT2(",'scale_attn_weights':0"), "\"scale_attn_weights\" must be true or false", TX_ERR_FORMAT },
        { GPT2(",'scale_attn_weights':false"), "scale_attn_weights false", TX_ERR_UNSUPPORTED },
        { GPT2(",'layer_norm_epsilon':'x'"), "\"layer_norm_epsilon\" must be a number", TX_ERR_FORMAT },
    };
    const tx_hf_format *gpt2;
    json_t *o = NULL, *config = parse(GPT2(",'n_inner':null"));
    ASSERT_OK(tx_hf_format_find(&gpt2, "gpt2", NULL, NULL));
    ASSERT_OK(tx_hf_options(gpt2, &o, config));
    assert_true(number(o, "ffn_hidden_size") == 256 && is_set(o, "bias_gelu_fusion"));
    assert_true(number(o, "layernorm_epsilon") == 1e-5);
    json_decref(o);
    json_decref(config);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o = NULL;
        config = parse(bad[i].config);
        tx_status st = tx_hf_options(gpt2, &o, config);
        if (st != bad[i].status || !strstr(tx_last_error(), bad[i].message))
            fail_msg("%s: %d: %s", bad[i].config, st, tx_last_error());
        assert_null(o);
        json_decref(config);
    }
}

/* Nobody lists the flags of the shape a second time: each has its row's default where the file does not say another
 * value, but those that mean nothing in such a model. What is read is as it is meant. */
static void all_of_the_shape_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *model_type, *config, *without;
    } family[] = { { "gpt2", GPT2(""), "rope_theta" },
                   { "llama", "{" SIZES "}", "bias_gelu_fusion" },
                   { "bert", "{" SIZES "}", "rope_theta" } };
    json_t *shape, *value;
    const char *field;
    ASSERT_OK(tx_config_shape(&shape));
    assert_true(json_object_size(shape) > 20 && tx_config_is_shape("swiglu") && !tx_config_is_shape("seed"));
    for (size_t i = 0; i < sizeof family / sizeof *family; i++) {
        const tx_hf_format *f;
        json_t *o = NULL, *again = NULL, *config = parse(family[i].config);
        tx_str differ = { 0 };
        ASSERT_OK(tx_hf_format_find(&f, family[i].model_type, only_named, NULL));
        ASSERT_OK(tx_hf_options(f, &o, config));
        json_object_del(o, "vocab_size");
        json_object_del(o, "hf_model_type");
        json_object_foreach(o, field, value) assert_non_null(json_object_get(shape, field));
        assert_non_null(json_object_get(o, "num_experts"));
        assert_null(json_object_get(o, family[i].without));
        ASSERT_OK(tx_config_shape_meant(o, &again));
        assert_int_equal(tx_config_shapes_differ(o, again, &differ), 0);
        json_object_set_new(again, "swiglu", json_true());
        json_object_set_new(o, "swiglu", json_false());
        assert_int_equal(tx_config_shapes_differ(o, again, &differ), 1);
        assert_string_equal(differ.data, "--swiglu is off, there on");
        tx_str_free(&differ);
        json_decref(again);
        json_decref(o);
        json_decref(config);
    }
    json_decref(shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_class_own),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(descendants),
        cmocka_unit_test(descendants_that_are_refused),
        cmocka_unit_test(berts),
        cmocka_unit_test(berts_that_are_refused),
        cmocka_unit_test(gpt2s),
        cmocka_unit_test(all_of_the_shape_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
