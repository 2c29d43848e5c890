/* finetune_dataset.c - making the files of a dataset of conversations. The whole of it is in memory before it is
 * written, for rows are of conversations from anywhere in the text. */
#include "data/finetune_dataset.h"

#include "base/alloc.h"
#include "base/log.h"
#include "data/conversation.h"
#include "data/pack_rows.h"
#include "data/tokenizer_config.h"

typedef struct making {
    const tx_config *cfg;
    tx_tokenizer *tok;
    tx_conversations from;
    tx_ids ids;      /* of all conversations, one behind the other */
    int64_t *begin;  /* [n + 1] where each begins there */
    int64_t *len;    /* [n] */
    int64_t n, room; /* conversations, and how many there is memory for */
    int64_t n_cut;   /* by --finetune-truncate */
    tx_packed_rows rows;
} making;

/* ---------------------------------------------------------------- conversations */

/* Whether the loss is of any of the tokens that have one before them. */
static bool has_target(const int32_t *ids, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (ids[i] & 1) return true;
    return false;
}

/* The one that ends m->ids, from line r. */
static tx_status check_length(making *m, const tx_record *r, int64_t begin)
{
    int64_t n = (int64_t)m->ids.n - begin, s = m->cfg->seq_length;
    if (n > s && !m->cfg->finetune_truncate)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: line %lld: the conversation has %lld tokens, more than a row has (--seq-length %lld): "
                       "lengthen rows, or cut it with --finetune-truncate",
                       r->file, (long long)r->line, (long long)n, (long long)s);
    if (n > s) {
        m->ids.n = (size_t)(begin + s);
        m->n_cut++;
        n = s;
    }
    if (has_target(m->ids.id + begin, n)) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT,
                   "%s: line %lld: --finetune-truncate leaves %lld tokens, none of them of an answer: lengthen rows "
                   "(--seq-length) or leave the line out",
                   r->file, (long long)r->line, (long long)n);
}

static tx_status add_conversation(making *m, const tx_record *r)
{
    int64_t begin = (int64_t)m->ids.n;
    if (m->n == m->room) {
        int64_t room = 2 * m->room + 1024;
        TX_TRY(tx_realloc(&m->begin, (size_t)room, sizeof *m->begin, "conversations"));
        TX_TRY(tx_realloc(&m->len, (size_t)room, sizeof *m->len, "conversations"));
        m->room = room;
    }
    TX_TRY(tx_conversation_encode(&m->from, r, &m->ids));
    TX_TRY(check_length(m, r, begin));
    m->begin[m->n] = begin;
    m->len[m->n++] = (int64_t)m->ids.n - begin;
    return TX_OK;
}

static tx_status read_files(making *m, const char *const *file, int n_files)
{
    const tx_corpus_opts o = { .inputs = file, .n_inputs = n_files, .text_split = TX_TEXT_LINE };
    tx_corpus *corpus = NULL;
    tx_record r;
    bool more = true;
    tx_status st;
    TX_GOTO(tx_corpus_open(&corpus, &o));
    while (more) {
        TX_GOTO(tx_corpus_next(corpus, &r, &more));
        if (more) TX_GOTO(add_conversation(m, &r));
    }
    if (!m->n) st = TX_FAIL(TX_ERR_FORMAT, "%s: has no conversation", file[0]);
out:
    tx_corpus_close(corpus);
    return st;
}

/* ---------------------------------------------------------------- rows */

static tx_status write_rows(const making *m, const char *prefix)
{
    tx_indexed_builder *b = NULL;
    const tx_packed_rows *rows = &m->rows;
    tx_status st;
    TX_GOTO(tx_indexed_create(&b, prefix, 2 * (int64_t)tx_tokenizer_vocab_size(m->tok)));
    for (int64_t r = 0; r < rows->n_rows; r++) {
        for (int64_t k = rows->begin[r]; k < rows->begin[r + 1]; k++) {
            int64_t i = rows->item[k];
            TX_GOTO(tx_indexed_add_item(b, m->ids.id + m->begin[i], m->len[i]));
        }
        TX_GOTO(tx_indexed_end_document(b));
    }
    TX_GOTO(tx_indexed_commit(b));
out:
    tx_indexed_destroy(b);
    return st;
}

static void tell(const making *m)
{
    int64_t n_targets = 0, s = m->cfg->seq_length;
    for (size_t i = 0; i < m->ids.n; i++) n_targets += m->ids.id[i] & 1;
    tx_info(" > %lld conversations, %zu tokens, the loss is of %lld; %lld rows of %lld, %.1f %% full", (long long)m->n,
            m->ids.n, (long long)n_targets, (long long)m->rows.n_rows, (long long)s,
            100.0 * (double)m->ids.n / ((double)m->rows.n_rows * (double)s));
    if (m->n_cut)
        tx_info(" > %lld of them were longer than a row and are cut (--finetune-truncate)", (long long)m->n_cut);
}

tx_status tx_finetune_make(const char *prefix, const char *const *file, int n_files, const tx_config *cfg)
{
    making m = { .cfg = cfg };
    tx_status st;
    TX_GOTO(tx__tokenizer_from_config(cfg, &m.tok));
    TX_GOTO(tx_conversations_open(&m.from, cfg, m.tok));
    TX_GOTO(read_files(&m, file, n_files));
    TX_GOTO(tx_pack_rows(&m.rows, m.len, m.n, cfg->seq_length, !cfg->finetune_packing));
    tell(&m);
    TX_GOTO(write_rows(&m, prefix));
out:
    tx_conversations_close(&m.from);
    tx_tokenizer_close(m.tok);
    tx_packed_rows_free(&m.rows);
    tx_ids_free(&m.ids);
    tx_free(m.begin);
    tx_free(m.len);
    return st;
}

tx_status tx_finetune_rows(const char *prefix, int64_t *n_rows)
{
    tx_indexed ix;
    TX_TRY(tx_indexed_open(&ix, prefix));
    *n_rows = ix.n_docs;
    tx_indexed_close(&ix);
    return TX_OK;
}
