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
    if (c->sequence_parallel && !k->bad->tensor_model_parallel_size && c->tensor_model_parallel_size > 1)
        tx__violate(k->v,
                    FPDT ": the positions of a chunk are not divided over tensor-parallel ranks: leave it out, or "
                         "--sequence-parallel");
}

/* Texts are read into a decoder's cache of keys and values, which has all positions. */
static void rule_texts_are_not_in_chunks(const tx__check *k)
{
    if (k->c->fpdt && (k->g->valid_data || k->c->valid_data.n))
        tx__violate(k->v, FPDT " divides samples of --data-path, and --valid-data are texts: leave it out");
}

/* A length of samples that is more than a chunk and not so many chunks; 0: there is none. */
static int64_t odd_length(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t chunk = c->fpdt_chunk_size;
    if (c->seq_length > chunk && c->seq_length % chunk) return c->seq_length;
    if (!tx__curriculum_is_sound(k)) return 0;
    for (tx__lengths l = { 0 }; tx__lengths_next(c, &l);)
        if (l.sample > chunk && l.sample % chunk) return l.sample;
    return 0;
}

/* Ranks that divide the positions of a sample divide those of each chunk. */
static void rule_chunks_are_divided(const tx__check *k)
{
    const tx_config *c = k->c;
    long long ranks = c->context_parallel_size, chunk = c->fpdt_chunk_size;
    if (!c->fpdt || ranks < 2 || k->bad->context_parallel_size || k->bad->ds_sequence_parallel_size ||
        k->bad->cp_comm_type || k->bad->fpdt_chunk_size || k->bad->seq_length)
        return;
    enum tx_cp_comm how = tx_config_cp_comm(c);
    if (how != TX_CP_COMM_A2A && how != TX_CP_COMM_ALLGATHER) {
        tx__violate(k->v,
                    FPDT ": ranks exchange heads of a chunk, or gather its keys, and --cp-comm-type is %s: give a2a or "
                         "allgather, or --ds-sequence-parallel-size %lld in the place of --context-parallel-size",
                    c->cp_comm_type.n ? c->cp_comm_type.item[0] : "p2p", ranks);
        return;
    }
    if (c->seq_length <= chunk) return;
    int64_t length = odd_length(k);
    if (chunk % ranks)
        tx__violate(k->v, FPDT "-chunk-size %lld is not divisible by --%s %lld", chunk, tx__context_flag(c), ranks);
    else if (length)
        tx__violate(k->v,
                    FPDT "-chunk-size %lld does not divide a sample's %lld positions, and --%s divides whole chunks: "
                         "give a size that does",
                    chunk, (long long)length, tx__context_flag(c));
}

const tx__rule tx__rules_chunks[] = {
    { NULL, rule_chunks_have_what_they_need },
    { NULL, rule_chunks_go_with },
    { NULL, rule_chunks_are_divided },
    { "evaluate", rule_texts_are_not_in_chunks },
    { NULL, NULL },
};
