/* hello.c - what a node reports of itself when it joins, and whether it belongs to the job. */
#include <stdio.h>
#include <string.h>

#include "launch/rendezvous.h"

static tx_status digest(uint8_t out[TX_TAG_BYTES], const tx_meeting *m)
{
    tx_str words = { 0 };
    tx_status st = tx__pack_words(&words, m->program->word, m->program->n);
    if (!st) tx__key_tag(out, &m->key, "program", (tx_tagged){ words.data, words.len }, (tx_tagged){ 0 });
    tx_str_free(&words);
    return st;
}

tx_status tx__hello_pack(tx_str *out, const tx_meeting *m)
{
    uint8_t of_program[TX_TAG_BYTES];
    TX_TRY(digest(of_program, m));
    TX_TRY(tx__pack_text(out, tx_version()));
    TX_TRY(tx__pack_number(out, m->n_nodes));
    TX_TRY(tx__pack_number(out, m->node_rank));
    TX_TRY(tx__pack_text(out, m->id));
    TX_TRY(tx__pack_number(out, m->here.n_ranks));
    TX_TRY(tx__pack_number(out, m->here.n_cores));
    TX_TRY(tx__pack_text(out, m->here.host));
    TX_TRY(tx__pack_text(out, m->here.cores));
    return tx_str_append(out, of_program, sizeof of_program);
}

tx_status tx__hello_unpack(tx_hello *out, const uint8_t *bytes, size_t n)
{
    tx_unpack u = { bytes, bytes + n };
    int64_t n_ranks, n_cores;
    *out = (tx_hello){ 0 };
    TX_TRY(tx__unpack_text(&u, out->version, sizeof out->version));
    TX_TRY(tx__unpack_number(&u, 1, TX_MAX_NODES, &out->n_nodes));
    TX_TRY(tx__unpack_number(&u, -1, TX_MAX_NODES - 1, &out->node_rank));
    TX_TRY(tx__unpack_text(&u, out->id, sizeof out->id));
    TX_TRY(tx__unpack_number(&u, 1, TX_MAX_SLOTS, &n_ranks));
    TX_TRY(tx__unpack_number(&u, 0, 1 << 20, &n_cores));
    out->place.n_ranks = (int)n_ranks;
    out->place.n_cores = (int)n_cores;
    TX_TRY(tx__unpack_text(&u, out->place.host, sizeof out->place.host));
    TX_TRY(tx__unpack_text(&u, out->place.cores, sizeof out->place.cores));
    if (!tx__is_host_name(out->place.host, strlen(out->place.host)) || u.end - u.at != TX_TAG_BYTES)
        return TX_FAIL(TX_ERR_FORMAT, "says what no torchrun says of itself");
    memcpy(out->digest, u.at, TX_TAG_BYTES);
    return TX_OK;
}

tx_status tx__hello_check(const tx_hello *h, const tx_meeting *m)
{
    uint8_t of_program[TX_TAG_BYTES];
    const char *host = h->place.host;
    TX_TRY(digest(of_program, m));
    if (strcmp(h->version, tx_version()))
        return TX_FAIL(TX_ERR_ARG, "triax on %s is version %s, on node 0 %s; all nodes need the same", host, h->version,
                       tx_version());
    if (h->n_nodes != m->n_nodes)
        return TX_FAIL(TX_ERR_ARG, "the torchrun on %s was given --nnodes %lld, node 0 %d", host, (long long)h->n_nodes,
                       m->n_nodes);
    if (strcmp(h->id, m->id))
        return TX_FAIL(TX_ERR_ARG,
                       "the torchrun on %s was given --rdzv_id \"%s\", node 0 \"%s\"; is it of another job?", host,
                       h->id, m->id);
    if (h->node_rank >= m->n_nodes || h->node_rank == 0)
        return TX_FAIL(TX_ERR_ARG, "the torchrun on %s was given --node_rank %lld; 1 to %d are left", host,
                       (long long)h->node_rank, m->n_nodes - 1);
    if (!tx__tag_equal(h->digest, of_program))
        return TX_FAIL(TX_ERR_ARG,
                       "the torchrun on %s was given another script or other flags behind it than node 0; they "
                       "have to be the same on all nodes",
                       host);
    return TX_OK;
}
