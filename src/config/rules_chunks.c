/* rules_chunks.c - rules across options: layers that compute their positions in chunks (--ds-sequence-parallel-fpdt).
 */
#include "config/rules.h"

#define FPDT "--ds-sequence-parallel-fpdt"

static void rule_chunks_have_what_they_need(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->fpdt_offloading && !c->fpdt) tx__violate(k->v, FPDT "-offloading needs " FPDT);
    if (c->fpdt_nvme_path && !c->fpdt_offloading) tx__violate(k->v, FPDT "-nvme-path needs " FPDT "-offloading");
}

/* What they are not built with. */
static void rule_chunks_go_with(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->fpdt) return;
    if (c->command->id == TX_COMMAND_ENGINE) {
        tx__violate(k->v, FPDT " divides layers of a GPT; a user-defined model's are its own program's: leave it out");
        return;
    }
    if (!k->bad->model_type && c->model_type == TX_MODEL_BERT)
        tx__violate(k->v,
                    FPDT ": a chunk's attention reads the chunks before it, and a BERT's reads all: leave it out");
    if (!k->bad->num_experts && tx_config_has_experts(c))
        tx__violate(k->v, FPDT ": layers with experts compute all tokens at once: leave it out, or --num-experts");
    if (c->random_ltd)
        tx__violate(k->v, FPDT ": tokens that pass layers by are not in chunks: leave it out, or --random-ltd");
    if (c->enable_zbh1_pipeline)
        tx__violate(k->v, FPDT ": gradients of weights that are put off are made of all positions: leave it out, or "
                               "--enable-zbh1-pipeline");
    if (c->sequence_parallel && !k->bad->tensor_model_parallel_size && c->tensor_model_parallel_size > 1)
        tx__violate(k->v,
                    FPDT ": the positions of a chunk are not divided over tensor-parallel ranks: leave it out, or "
                         "--sequence-parallel");
}

const tx__rule tx__rules_chunks[] = {
    { NULL, rule_chunks_have_what_they_need },
    { NULL, rule_chunks_go_with },
    { NULL, NULL },
};
