/* client_piece.c - activation checkpointing of a piece of a user-defined layer: what forward pushed is freed at once,
 * and forward runs again in backward. */
#include <string.h>

#include "backend/ctx.h"
#include "triax/model.h"

static tx_status check_piece(const tx_piece *p, const tx_kept_piece *kept, bool train, int n_inputs, int n_outputs)
{
    if (!p || !p->forward || !p->backward)
        return TX_FAIL(TX_ERR_ARG, "a piece that is checkpointed needs a forward and a backward");
    if (p->saved_size > TX_PIECE_SAVED)
        return TX_FAIL(TX_ERR_ARG, "a piece that is checkpointed saves at most %d bytes, not %zu", TX_PIECE_SAVED,
                       p->saved_size);
    if (n_inputs < 0 || n_inputs > TX_MAX_PIECE || n_outputs < 0 || n_outputs > TX_MAX_PIECE)
        return TX_FAIL(TX_ERR_ARG, "a piece that is checkpointed has at most %d inputs and outputs, not %d and %d",
                       TX_MAX_PIECE, n_inputs, n_outputs);
    if (train && !kept) return TX_FAIL(TX_ERR_ARG, "a piece that is checkpointed has to be kept for its backward");
    return TX_OK;
}

/* A plan draws no numbers. */
static tx_status run_forward(tx_ctx *c, const tx_piece *piece, tx_piece_call *p)
{
    tx_random_tracker before = { 0 };
    if (piece->random) before = *piece->random;
    tx_status st = piece->forward(c, p);
    if (piece->random && c->dry) *piece->random = before;
    return st;
}

tx_status tx_checkpoint_forward(tx_ctx *c, const tx_layer_call *k, const tx_piece *piece, tx_kept_piece *kept,
                                const tx_tensor *input, int n_inputs, const tx_tensor *output, int n_outputs)
{
    _Alignas(64) unsigned char saved[TX_PIECE_SAVED] = { 0 };
    tx_piece_call p = { .layer = k, .n_inputs = n_inputs, .n_outputs = n_outputs };
    TX_TRY(check_piece(piece, kept, k->train, n_inputs, n_outputs));
    p.user = piece->user;
    memcpy(p.input, input, (size_t)n_inputs * sizeof *input);
    memcpy(p.output, output, (size_t)n_outputs * sizeof *output);
    if (k->train) {
        *kept = (tx_kept_piece){ .piece = piece, .call = p };
        if (piece->random) kept->random = *piece->random;
    }
    p.saved = saved;
    size_t mark = tx_ctx_mark(c);
    tx_status st = run_forward(c, piece, &p);
    tx_ctx_pop(c, mark);
    return st;
}

/* Into outputs of its own: what the layer has made of the first ones stays. */
static tx_status forward_again(tx_ctx *c, const tx_kept_piece *kept, tx_piece_call *p)
{
    const tx_piece *piece = kept->piece;
    tx_random_tracker now = { 0 };
    for (int i = 0; i < p->n_outputs; i++)
        p->output[i] = tx_ctx_push(c, p->output[i].dtype, p->output[i].n_dims, p->output[i].dim);
    if (piece->random) now = *piece->random;
    if (piece->random) *piece->random = kept->random;
    tx_status st = piece->forward(c, p);
    if (piece->random) *piece->random = now;
    return st;
}

tx_status tx_checkpoint_backward(tx_ctx *c, const tx_layer_call *k, const tx_kept_piece *kept, const tx_tensor *doutput,
                                 const tx_tensor *dinput)
{
    _Alignas(64) unsigned char saved[TX_PIECE_SAVED] = { 0 };
    tx_piece_call p = kept->call;
    size_t mark = tx_ctx_mark(c);
    p.layer = k;
    p.saved = saved;
    tx_status st = forward_again(c, kept, &p);
    p.doutput = doutput;
    p.dinput = dinput;
    if (!st) st = kept->piece->backward(c, &p);
    tx_ctx_pop(c, mark);
    return st;
}
