/* compressed.h - sums over the data-parallel ranks that are sent as signs (TX_OPTIMIZER_COMPRESSED): 1-bit Adam, Tang
 * et al., arXiv:2102.02888, and 0/1 Adam, as DeepSpeed's backends (deepspeed/runtime/comm/compressed.py) make them.
 * Gradients are not summed then; an optimizer makes of its own ones what is to be averaged, if anything is in that
 * update, and the average of n numbers x_r over R workers is made so:
 *
 *      1  a worker has   b = x + its error;   s = |b| / sqrt(n);   sends the signs of b and s;   error = b - s sign(b)
 *      2  all-to-all of the signs, all-gather of s: a worker is the server of one part of each tensor
 *      3  the server has b = the mean of s_r sign_r over the workers, + its error; the same with it
 *      4  all-gathers of the servers' signs and sizes: x = s sign
 *
 *  The sign of 0 is +, and no size is 0: an element that had no gradient before, such as a word that did not occur,
 * would be moved by noise over the root of nothing. Its average is 0; DeepSpeed asks its user for a mask that says so.
 * A tensor has a size of its own (or with others: compressed_together.c), and the tensors of a bucket travel together.
 * Parts are of whole bytes of signs, ceil(n / R / 8) 8 elements, the last ones less. DeepSpeed fills a tensor up to a
 * multiple of R lcm(R, 8) elements, which it sends, too; where it has to, its sizes are a little different. All ranks
 * come to the same bits. A step moves n / 8 bytes twice, where an all-reduce of fp32 moves 4 n twice.
 *
 *  A worker is a rank, or with --onebit-worker-size the ranks of a row (grid.h): they sum their gradients as without
 * compression, and have the same numbers in everything else. Each sends and gets a slice of the signs, from the ranks
 * at its place in the other workers, and gathers the others' from its own worker:
 *
 *      worker 0   a b      a sends and gets the first half of the words, b the second one: A to and from a, B to and
 *      worker 1   A B      from b; then a and b, and A and B, exchange halves
 *
 *  Between hosts: what the server of a part needs is a sum of R numbers +s_r and -s_r, which only R signs say. With W
 * ranks on each of H hosts, each a worker, a host sends W (H-1)/H n bits to servers and (H-1)/H n bits from its own
 * ones, which large all-gathers do in one crossing (comm/hosts.c). With a host as a worker both are (H-1)/H n bits. */
#ifndef TX_ZERO_COMPRESSED_H
#define TX_ZERO_COMPRESSED_H

#include "zero/zero_state.h"

/* Whether the next update's gradients are this rank's own. */
bool tx_zero_compresses(const tx_zero *z);

/* How many send each other signs; and which of them this rank is of. */
int tx_zero_n_workers(const tx_zero *z);
int tx_zero_worker(const tx_zero *z);

/* What workers send of a bucket: i32 of signs of all tensors of one server's part, and the tensors. */
typedef struct tx_compressed_size {
    int64_t words, tensors;
} tx_compressed_size;
tx_compressed_size tx_zero_compressed_size(const tx_zero *z, int bucket);

/* tx_optim_clip of a step. Of own gradients each rank's are clipped by their own norm, with the others' mean in mind:
 * they are scaled as the sum of all is. All ranks agree on whether the step is taken. */
tx_status tx_zero_clip(tx_zero *z, double loss_scale, double max_norm);

/* What each worker has of its own, as parts of a checkpoint (compressed_errors.c), in the places of their elements. Of
 * each kind one part a worker: its errors, and the buffers of state that the optimizer has `alone`. And the errors of
 * all servers. Of more than TX_ERRORS_MAX_RANKS workers none are saved. */
enum { TX_ERRORS_MAX_RANKS = 16, TX_ERRORS_MAX_KINDS = 3 };

/* How many kinds a checkpoint holds of an optimizer before its next update, that with signs; 0: nothing is left out. */
int tx_zero_error_kinds(const tx_zero *z, const tx_optim_signs *next);

/* How many parts it may hold. */
int tx_zero_error_parts(const tx_zero *z);

/* Brings them to the ranks that save, in fp32 as the masters lie: *parts [kinds * workers + 1, table's elements], owned
 * by z; NULL on the others. Collective over the data-parallel ranks. TX_ERR_NOMEM, TX_ERR_COMM. */
tx_status tx_zero_gather_errors(tx_zero *z, int kinds, float **parts);

/* This rank's are these. With the buffers of state come the weights, before tx_zero_publish.
 * @own [kinds, table's elements], @server [table's elements] */
tx_status tx_zero_set_errors(tx_zero *z, int kinds, const float *own, const float *server);

/* ---- inside the room ---- */

/* After the layout: sizes, and addresses for a dry run. After it: the memory. TX_ERR_NOMEM. */
tx_status tx__compressed_plan(tx_zero *z);
tx_status tx__compressed_take(tx_zero *z);
void tx__compressed_close(tx_zero *z);
size_t tx__compressed_bytes(const tx_zero *z);

/* The first ranks of all workers, or the second ones, ...: those at this one's place in their workers. */
tx_comm *tx__compressed_workers(const tx_zero *z);

/* Words of the signs of n elements; and those of rows of so many, `stride` words apart. */
static inline int64_t tx__sign_words(int64_t n)
{
    return (n + 31) / 32;
}
tx_tensor tx__sign_rows(int32_t *word, int64_t rows, int64_t n, int64_t stride);

/* The sizes of all workers, from each worker's of so many tensors. */
tx_status tx__gather_sizes(const tx_zero *z, int64_t tensors);

/* Elements that server r has of a tensor of n: those from *first on. */
int64_t tx__compressed_run(const tx_zero *z, int64_t n, int r, int64_t *first);

/* Elements that a server has room for, of a tensor of n. */
int64_t tx__compressed_part(const tx_zero *z, int64_t n);

/* Before the update of bucket k: what the optimizer averages, and its average; unless all is averaged together. */
tx_status tx__compressed_step(tx_zero *z, const tx_optim_step *s, int k);

/* compressed_together.c: likewise all of it, before any tensor is measured, of an optimizer with `together`. */
tx_status tx__together_plan(tx_zero *z);
void tx__together_close(tx_zero *z);
tx_status tx__together_step(tx_zero *z, const tx_optim_step *s);

/* Elements of a range that server r has, those from *first on, of which the first is at *served of its errors. */
int64_t tx__together_run(const tx_zero *z, int range, int r, int64_t *first, int64_t *served);

#endif
