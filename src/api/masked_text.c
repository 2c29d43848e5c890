/* masked_text.c - text with words in brackets to ids. */
#include "api/masked_text.h"

#include <string.h>

#include "base/alloc.h"

enum { CLS, SEP, MASK, N_MARKS };
static const char *const marks[N_MARKS] = { "[CLS]", "[SEP]", "[MASK]" };

void tx__masked_text_free(tx_masked_text *t)
{
    tx_ids_free(&t->ids);
    *t = (tx_masked_text){ 0 };
}

static tx_status add_id(tx_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = 2 * ids->cap + 16;
        TX_TRY(tx_realloc(&ids->id, cap, sizeof *ids->id, "a prompt"));
        ids->cap = cap;
    }
    ids->id[ids->n++] = id;
    return TX_OK;
}

/* The next mark of text[at, n): its number and place, or N_MARKS and n. */
static int find_mark(const char *text, size_t at, size_t n, size_t *place)
{
    for (*place = at; *place < n; ++*place)
        for (int k = 0; text[*place] == '[' && k < N_MARKS; k++) {
            size_t len = strlen(marks[k]);
            if (n - *place >= len && !memcmp(text + *place, marks[k], len)) return k;
        }
    return N_MARKS;
}

/* What a mark stands for. @begin of the segment that is not ended yet: its first id */
static tx_status add_mark(tx_masked_text *t, int mark, int32_t id, size_t *begin, int *n_segments)
{
    if (mark == CLS) return t->ids.n == 1 ? TX_OK : TX_FAIL(TX_ERR_ARG, "[CLS] is the first word, or left out");
    if (mark == SEP && t->ids.n == *begin)
        return TX_FAIL(TX_ERR_ARG, "a segment has no word: [SEP] stands between two, or at the end");
    if (mark == SEP && ++*n_segments > 2)
        return TX_FAIL(TX_ERR_ARG, "more than two segments: one [SEP] stands between two, another may be at the end");
    TX_TRY(add_id(&t->ids, id));
    t->n_masks += mark == MASK;
    if (mark != SEP) return TX_OK;
    *begin = t->ids.n;
    if (*n_segments == 1) t->n_first = (int64_t)t->ids.n;
    return TX_OK;
}

tx_status tx__masked_text_read(tx_masked_text *out, const tx_tokenizer *tok, const char *text, size_t n)
{
    tx_masked_text t = { 0 };
    int32_t id[N_MARKS];
    int n_segments = 0;
    size_t begin = 1; /* [CLS] is of no segment */
    tx_status st;
    for (int k = 0; k < N_MARKS; k++) id[k] = tx_tokenizer_special(tok, marks[k]);
    TX_GOTO(add_id(&t.ids, id[CLS]));
    for (size_t at = 0, place; at < n; at = place) {
        int mark = find_mark(text, at, n, &place);
        TX_GOTO(tx_tokenizer_encode(tok, text + at, place - at, &t.ids));
        if (mark == N_MARKS) break;
        TX_GOTO(add_mark(&t, mark, id[mark], &begin, &n_segments));
        place += strlen(marks[mark]);
    }
    if (t.ids.n > begin || !n_segments) TX_GOTO(add_mark(&t, SEP, id[SEP], &begin, &n_segments));
    *out = t;
out:
    if (st) tx__masked_text_free(&t);
    return st;
}

void tx__masked_text_put(const tx_masked_text *t, int32_t mask, tx_bert_ids row, int64_t s)
{
    int64_t n = (int64_t)t->ids.n;
    memset(row.tokens, 0, (size_t)tx_bert_row_len(s) * sizeof *row.tokens);
    memcpy(row.tokens, t->ids.id, (size_t)n * sizeof *row.tokens);
    for (int64_t i = 0; i < s; i++) {
        row.types[i] = i >= t->n_first && i < n;
        row.labels[i] = i < n && row.tokens[i] == mask ? 0 : -1;
    }
    *row.n_tokens = (int32_t)n;
}
