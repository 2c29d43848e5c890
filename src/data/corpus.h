/* corpus.h - documents out of text files: JSON lines or plain text, plain or compressed, as large as may be; and out of
 * Arrow files (arrow_stream.h), whose rows are as JSON lines, alone or in a folder of datasets (saved_dataset.h).
 *
 *      files  ->  records (a JSON line, or a plain text document)  ->  texts (the members of --json-keys)
 *             ^ tx_corpus_next: reads, in order, one thread         ^ tx_record_items: parses and checks, any thread
 *
 *  The content decides what a file is, not its name: JSON lines if the first byte that is not blank is '{' (or if it
 * begins with an array of objects or strings, which then is an error in the first line); plain text otherwise. Lines
 * end in \n, \r\n or \r; U+2028 and its like are text. Memory is one record. */
#ifndef TX_DATA_CORPUS_H
#define TX_DATA_CORPUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* What one document is in plain text. */
typedef enum tx_text_split {
    TX_TEXT_FILE,       /* the whole file, byte for byte */
    TX_TEXT_BLANK_LINE, /* what lies between blank lines; its lines are joined by \n */
    TX_TEXT_LINE        /* every line, empty ones too */
} tx_text_split;

typedef struct tx_corpus_opts {
    const char *const *inputs; /* paths, "-" for standard input; borrowed for the life of the corpus */
    int n_inputs;
    tx_text_split text_split;
    bool pass_surrogates; /* unpaired ones in the texts, as U+FFFE, which is no character either: not an error */
} tx_corpus_opts;

typedef struct tx_record {
    const char *data; /* n bytes */
    size_t n;
    const char *file; /* for messages; lives as long as the corpus */
    int64_t line;     /* where it begins, counted from 1 */
    bool json;        /* data is a JSON line, not yet parsed */
    bool pass_surrogates;
} tx_record;

typedef struct tx_corpus tx_corpus;

/* Checks that every input can be opened before the first is read. An input that does not exist and has one of *?[ in
 * its name stands for the files that match it as in a shell, sorted bytewise.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_ARG. */
tx_status tx_corpus_open(tx_corpus **out, const tx_corpus_opts *opts);

/* The next record, valid until the next call; *more = false after the last. Logs "Opening FILE" and what it holds for
 * each input, with a warning for one without a record. Errors: TX_ERR_IO, TX_ERR_FORMAT. */
tx_status tx_corpus_next(tx_corpus *c, tx_record *record, bool *more);

/* How far reading has come, in bytes of the inputs as they are stored; 0 bytes in total: not known, as for pipes. */
typedef struct tx_corpus_position {
    int64_t done, total;
} tx_corpus_position;
tx_corpus_position tx_corpus_where(const tx_corpus *c);

void tx_corpus_close(tx_corpus *c); /* NULL allowed */

/* Receives the texts of member number `key` one by one, valid during the call: of an array item 0, 1, ..., of a string
 * item -1. */
typedef tx_status tx_item_fn(void *user, int key, int64_t item, const char *text, size_t n);

/* Parses the record and hands the texts of each key, in order, to fn; a plain text record is the text of key 0. A
 * member is a string or an array of strings: the sentences of a document, as Megatron's sentence splitter writes them.
 * A key "a.b" that the line has no member for is b of the object a.
 * Nothing is handed out unless every key is there. A JSON line is read as Python's json module reads it (NaN, Infinity
 * and numbers of any size are let pass); unpaired surrogates in the texts are errors, unless they shall pass.
 * Errors: TX_ERR_FORMAT, naming file, line and place, for a line that is no JSON object of such members under these
 * keys and for bytes that are not UTF-8; whatever fn returns. */
tx_status tx_record_items(const tx_record *r, const char *const *keys, int n_keys, tx_item_fn *fn, void *user);

/* The object of a JSON line, which is read in the same way; json_decref. Unpaired surrogates anywhere in it are errors.
 * Errors: TX_ERR_FORMAT, naming file, line and place, also for a record that is plain text. */
tx_status tx_record_object(const tx_record *r, json_t **out);

#endif
