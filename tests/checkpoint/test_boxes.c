/* labels: unit */
/* test_boxes.c - stretches of shards are cut into boxes that hold them, and boxes that cover a tensor are told from
 * boxes that do not. */
#include "support.h"

#include "base/rng.h"
#include "checkpoint/boxes.h"

enum { SIDE = 7, MAX_BOXES = 3 * SIDE * SIDE };

static const tx_rng rng = { .seed = 1 };
static uint64_t drawn;

static int64_t below(int64_t n)
{
    return (int64_t)(tx_rng_uniform(&rng, drawn++) * (double)n);
}

/* ---- cutting ---- */

/* Boxes of [first, end) of a shard of rows x cols with the piece inside: every element in the right order. */
static void check_cut(const tx_param *p, const tx_param_piece *piece, int64_t first, int64_t end)
{
    tx_param_piece box[TX__CUT_MAX];
    int n = tx__piece_cut(box, p, piece, first, end), k = 0;
    int64_t width = p->n_dims == 2 ? p->dim[1] : 1, r = 0, c = 0;
    assert_in_range(n, 0, TX__CUT_MAX);
    for (int64_t i = first; i < end; i++) {
        int64_t row = i / width - piece->at[0], col = i % width - piece->at[1];
        if (row < 0 || col < 0 || row >= piece->size[0] || col >= piece->size[1]) continue;
        assert_true(k < n);
        const tx_param_piece *b = &box[k];
        assert_true((b->at[0] + r) * width + b->at[1] + c == i);
        assert_true(b->start[0] + r == piece->start[0] + row && b->start[1] + c == piece->start[1] + col);
        if (++c == b->size[1]) c = 0, r++;
        if (r == b->size[0]) r = 0, k++;
    }
    assert_true(k == n && !r && !c);
}

static void stretches_are_up_to_three_boxes(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        tx_param p = { .n_dims = 1 + (int)below(2), .dim = { 1 + below(SIDE), 0 } };
        if (p.n_dims == 2) p.dim[1] = 1 + below(SIDE);
        int64_t width = p.n_dims == 2 ? p.dim[1] : 1, n = p.dim[0] * width, row = below(p.dim[0]), col = below(width);
        tx_param_piece piece = { .start = { below(9), p.n_dims == 2 ? below(9) : 0 },
                                 .size = { below(p.dim[0] - row + 1), 1 + below(width - col) },
                                 .at = { row, col } };
        for (int64_t first = 0; first <= n; first++)
            for (int64_t end = first; end <= n; end++) check_cut(&p, &piece, first, end);
    }
}

/* ---- covering ---- */

static size_t tile(tx__saved_piece *piece, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    int64_t part = below(3);
    if (part == 1 && rows > 1) {
        int64_t k = 1 + below(rows - 1);
        size_t n = tile(piece, row, col, k, cols);
        return n + tile(piece + n, row + k, col, rows - k, cols);
    }
    if (part == 2 && cols > 1) {
        int64_t k = 1 + below(cols - 1);
        size_t n = tile(piece, row, col, rows, k);
        return n + tile(piece + n, row, col + k, rows, cols - k);
    }
    *piece = (tx__saved_piece){ .start = { row, col }, .size = { rows, cols } };
    return 1;
}

static bool covered_by_count(const tx__saved *s)
{
    int count[SIDE][SIDE] = { { 0 } };
    for (size_t i = 0; i < s->n_pieces; i++)
        for (int64_t r = 0; r < s->piece[i].size[0]; r++)
            for (int64_t c = 0; c < s->piece[i].size[1]; c++)
                count[s->piece[i].start[0] + r][s->piece[i].start[1] + c]++;
    for (int64_t r = 0; r < s->dim[0]; r++)
        for (int64_t c = 0; c < s->dim[1]; c++)
            if (count[r][c] != 1) return false;
    return true;
}

/* One of the pieces is dropped, another size, somewhere else, or there twice; all stay inside the tensor. */
static void disturb(tx__saved *s)
{
    size_t i = (size_t)below((int64_t)s->n_pieces);
    tx__saved_piece *p = &s->piece[i];
    int k = (int)below(2);
    switch (below(4)) {
    case 0:
        if (s->n_pieces > 1) *p = s->piece[--s->n_pieces];
        break;
    case 1:
        p->size[k] = 1 + below(s->dim[k] - p->start[k]);
        break;
    case 2:
        p->start[k] = below(s->dim[k] - p->size[k] + 1);
        break;
    default:
        s->piece[s->n_pieces++] = *p;
    }
}

static void covers_as_counting_says(void **state)
{
    (void)state;
    tx__saved_piece piece[MAX_BOXES];
    int seen[2] = { 0 };
    for (int i = 0; i < 20000; i++) {
        tx__saved s = { .dim = { 1 + below(SIDE), 1 + below(SIDE) }, .piece = piece };
        bool covered;
        s.n_pieces = tile(piece, 0, 0, s.dim[0], s.dim[1]);
        for (int64_t k = below(4); k > 0; k--) disturb(&s);
        ASSERT_OK(tx__pieces_cover(&s, &covered));
        assert_int_equal(covered, covered_by_count(&s));
        seen[covered]++;
    }
    assert_true(seen[0] > 1000 && seen[1] > 1000);
}

/* Some hundred thousand pieces, as thousands of ranks make them: pair by pair this would take hours. */
static void many_pieces(void **state)
{
    (void)state;
    const int64_t side = 700;
    bool covered;
    tx__saved s = { .dim = { 3 * side, 2 * side } };
    ASSERT_OK(tx_alloc(&s.piece, (size_t)(side * side), sizeof *s.piece, "test"));
    for (int64_t i = 0; i < side * side; i++) {
        int64_t at = i * 7919 % (side * side); /* in no order */
        s.piece[at] = (tx__saved_piece){ .start = { i / side * 3, i % side * 2 }, .size = { 3, 2 } };
    }
    s.n_pieces = (size_t)(side * side);
    ASSERT_OK(tx__pieces_cover(&s, &covered));
    assert_true(covered);
    s.piece[side * side / 2].size[1]--;
    ASSERT_OK(tx__pieces_cover(&s, &covered));
    assert_false(covered);
    tx_free(s.piece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stretches_are_up_to_three_boxes),
        cmocka_unit_test(covers_as_counting_says),
        cmocka_unit_test(many_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
