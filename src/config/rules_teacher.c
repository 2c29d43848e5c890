/* rules_teacher.c - rules across options: a student and its teacher. */
#include "config/rules.h"

static bool is_taught(const tx__check *k)
{
    return k->c->kd || k->c->mos;
}

static void rule_student_has_a_teacher(const tx__check *k)
{
    const tx_config *c = k->c;
    const char *flag = c->kd ? "kd" : "mos";
    if (!is_taught(k)) return;
    if (c->kd && c->mos) tx__violate(k->v, "--kd and --mos: the same loss under two names, give one of the two");
    if (!c->load_teacher && !k->g->load_teacher && !(tx__plans_only(k) && k->g->num_layers_teacher))
        tx__violate(k->v, "--%s needs --load-teacher, the model that teaches%s", flag,
                    tx__plans_only(k) ? ", or its --num-layers-teacher" : "");
    if (c->model_type == TX_MODEL_BERT && !k->bad->model_type)
        tx__violate(k->v, "--%s is for a GPT: leave it out with --model-type BERT", flag);
}

/* As far as it is known: from its checkpoint, or the flags. */
static int64_t teacher_layers(const tx__check *k)
{
    const json_t *read = json_object_get(k->c->teacher, "num_layers");
    return read ? json_integer_value(read) : k->g->num_layers_teacher ? k->c->num_layers_teacher : 0;
}

static void rule_stages_have_teachers_layers(const tx__check *k)
{
    int64_t n = teacher_layers(k), p = k->c->pipeline_model_parallel_size, parts = p * tx_config_chunks(k->c);
    if (!is_taught(k) || !n || !tx__layout_is_known(k) || k->bad->num_layers_teacher) return;
    if (n < p)
        tx__violate(k->v,
                    "the teacher's %lld layers are fewer than --pipeline-model-parallel-size %lld: each stage has some "
                    "of them",
                    (long long)n, (long long)p);
    else if (parts > p && n % parts)
        tx__violate(k->v,
                    "the teacher's %lld layers are not divisible by the %lld parts that "
                    "--num-layers-per-virtual-pipeline-stage makes of the student",
                    (long long)n, (long long)parts);
}

static void rule_teacher_has_a_student(const tx__check *k)
{
    const struct {
        bool given;
        const char *flag;
    } of_teacher[] = { { k->g->load_teacher, "load-teacher" },
                       { k->g->num_layers_teacher, "num-layers-teacher" },
                       { k->g->hidden_size_teacher, "hidden-size-teacher" },
                       { k->g->num_attention_heads_teacher, "num-attention-heads-teacher" },
                       { k->g->num_experts_teacher, "num-experts-teacher" },
                       { k->g->kd_beta_ce, "kd-beta-ce" },
                       { k->g->kd_temp, "kd-temp" } };
    for (size_t i = 0; i < sizeof of_teacher / sizeof *of_teacher && !is_taught(k); i++)
        if (of_teacher[i].given) tx__violate(k->v, "--%s needs --kd or --mos", of_teacher[i].flag);
}

const tx__rule tx__rules_teacher[] = {
    { "pretrain", rule_student_has_a_teacher },
    { "pretrain", rule_stages_have_teachers_layers },
    { "pretrain", rule_teacher_has_a_student },
    { NULL, NULL },
};
