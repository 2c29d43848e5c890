/* token.h - text to token ids and back, and learning a vocabulary.
 *
 *      tx_tokenizer *tok = NULL;
 *      tx_ids ids = { 0 };
 *      if (tx_tokenizer_open_gpt2(&tok, "gpt2-vocab.json", "gpt2-merges.txt")) { puts(tx_last_error()); return 1; }
 *      if (tx_tokenizer_encode(tok, "hello world", 11, &ids)) { puts(tx_last_error()); return 1; }
 *      ...                                             // ids.id[0..2) = 31373, 995
 *      tx_ids_free(&ids);
 *      tx_tokenizer_close(tok);
 *
 *  A tokenizer gives the same ids for ever after it was opened: any number of threads may use one at the same time,
 *  each with its own output. It remembers words that it has encoded, for each thread up to 96 MiB of them, until it is
 *  closed. Text is bytes with a length, UTF-8 by convention; what is not UTF-8 is kept byte by byte. */
#ifndef TRIAX_TOKEN_H
#define TRIAX_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- growing outputs; zeroed = empty ---- */

typedef struct tx_ids {
    int32_t *id; /* n ids; NULL while empty and never grown */
    size_t n, cap;
} tx_ids;

typedef struct tx_bytes {
    char *data; /* n bytes and a NUL after them; NULL while empty and never grown */
    size_t n, cap;
} tx_bytes;

TX_API void tx_ids_free(tx_ids *ids);       /* back to empty */
TX_API void tx_bytes_free(tx_bytes *bytes); /* back to empty */

/* ---- opening ---- */

typedef struct tx_tokenizer tx_tokenizer;

/* GPT-2's byte-level BPE from vocab.json (token -> id) and merges.txt (pairs, strongest first); id for id the same as
 * OpenAI's, Megatron's and Hugging Face's. Both files are read whole and checked against each other; the error names
 * the file, the line or token, and what is wrong with it.
 *   - Ids are 0..n-1, each once. All 256 byte symbols are there, so every text can be encoded.
 *   - A token in angle brackets with characters outside GPT-2's byte alphabet is special: its bytes are its spelling,
 *     and encode never makes it. Any other token with such characters is an error.
 *   - A merge joins bytes and what earlier lines make; lines that were sorted or shuffled are an error.
 *   - A first merges line that begins with "#version" is skipped. Without it the first line is a merge like any other.
 *   - CRLF line ends and a missing last line end are fine.
 *   - eod is the id of "<|endoftext|>", or -1 where the vocabulary has none: whether that matters, the caller knows.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_NOMEM. */
TX_API tx_status tx_tokenizer_open_gpt2(tx_tokenizer **out, const char *vocab_file, const char *merge_file);

/* BERT's WordPiece from vocab.txt (one token per line, the first has id 0), as Megatron's BertWordPieceLowerCase and
 * BertWordPieceCase: id for id, with words of up to 200 characters (Hugging Face: 100), private-use characters kept and
 * Greek's final sigma told apart. lower_case is for uncased vocabularies: lower case, and accents stripped.
 *   - Every line is one token, none twice; white space around it is cut off. [PAD], [UNK], [CLS], [SEP] and [MASK] are
 *     there. The error names the file, the line, and what is wrong.
 *   - [BOS] and [EOS] are added as last ids where the file has none, so BERT's 30522 become 30524. eod is [EOS].
 *   - encode makes no special token but [UNK]: "[MASK]" in a text is "[", "mask", "]".
 *   - Characters follow Python's tables of the Unicode version that utf8proc has: 15.0, Python 3.12.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_NOMEM. */
TX_API tx_status tx_tokenizer_open_wordpiece(tx_tokenizer **out, const char *vocab_file, bool lower_case);

/* Hugging Face's tokenizer.json of a byte-level BPE model (GPT-2, Llama 3, Qwen, DeepSeek, StarCoder and their kin): id
 * for id the tokenizers library's encode(text, add_special_tokens=False), and the same bytes back.
 *   - model: BPE with all 256 byte symbols; merges "a b" or ["a", "b"]; ignore_merges. No dropout, prefix or suffix.
 *   - normalizer: none, NFC, NFD, NFKC, NFKD or a Sequence of them. What is not UTF-8 is not normalized.
 *   - pre_tokenizer: ByteLevel, with Split and Digits before it in a Sequence. A Split's regular expression must be
 * that of GPT-2, GPT-4 and Llama 3, Qwen 2, GPT-4o, Tekken or DeepSeek-V3; others are an error that lists them.
 *   - post_processor: known kinds are taken and have no effect: encode adds no token at either end (no BOS).
 *     truncation and padding have none either.
 *   - added_tokens, special or not, become their id wherever they stand in a text, with all flags as the library has
 *     them: lstrip, rstrip, single_word, normalized. They decode to their content.
 *   - Anything else is an error that names the key. Nothing that changes ids is ignored.
 *   - Ids may have holes; vocab_size is the highest id and one. decode of a hole is TX_ERR_ARG.
 *   - eod is eos_token of the tokenizer_config.json beside the file, which is read for nothing else; where there is
 *     none, the first of <|endoftext|>, <|end_of_text|>, DeepSeek's end of sentence and </s> in the vocabulary, or -1.
 *   - tx_tokenizer_special knows the added tokens that are special.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_UNSUPPORTED, TX_ERR_NOMEM. */
TX_API tx_status tx_tokenizer_open_json(tx_tokenizer **out, const char *file);

/* Text that is already ids: whole numbers between blanks, 0 to vocab_size. eod = vocab_size, so there are
 * vocab_size + 1 ids. For benchmarks and for data that something else has tokenized. */
TX_API tx_status tx_tokenizer_open_null(tx_tokenizer **out, int32_t vocab_size);

TX_API void tx_tokenizer_close(tx_tokenizer *t); /* NULL allowed */

/* ---- facts ---- */

TX_API int32_t tx_tokenizer_vocab_size(const tx_tokenizer *t); /* number of ids, without any padding */
TX_API int32_t tx_tokenizer_eod(const tx_tokenizer *t);        /* end-of-document id, -1: the vocabulary has none */

/* Id of a special token by its spelling, -1: there is none of that name. WordPiece has [PAD], [UNK], [CLS], [SEP],
 * [MASK], [BOS] and [EOS], GPT-2 <|endoftext|>. */
TX_API int32_t tx_tokenizer_special(const tx_tokenizer *t, const char *name);

/* What distinguishes vocabularies: 32 hexadecimal digits and a NUL, of the tokens in the order of their ids, the
 * merges, and how text is cut, but not of how the files spell it. vocab.json with merges.txt, and a tokenizer.json that
 * says the same, have one hash; an uncased WordPiece and a cased one of the same vocab.txt have two. Errors:
 * TX_ERR_NOMEM.
 */
TX_API tx_status tx_tokenizer_hash(const tx_tokenizer *t, char hex[33]);

/* ---- text to ids ---- */

/* Appends the ids of text[0..n_bytes) to *out; on failure *out holds what it held before. Every byte counts, NUL too.
 * "<|endoftext|>" in a text is plain text to GPT-2's two files, and a token to a tokenizer.json that has it; one whose
 * post_processor puts tokens at the ends of a text, as Llama 3's does, gets them, too, as in Hugging Face. Bytes that
 * are not UTF-8 count as symbols (neither letter, digit nor space), one by one, so decode(encode(x)) == x for every x.
 * WordPiece drops bytes that are not UTF-8, as it does with U+FFFD and control characters.
 * Errors: TX_ERR_NOMEM; TX_ERR_ARG from a null tokenizer for a word that is no id. */
TX_API tx_status tx_tokenizer_encode(const tx_tokenizer *t, const char *text, size_t n_bytes, tx_ids *out);

/* ---- ids to text ---- */

/* Appends exactly the bytes that the n ids stand for. They need not be whole characters: a token can end in the middle
 * of one. WordPiece's ids do not keep the text; they are put together as in Megatron's decode: tokens with a blank
 * between them, none before "##...", whose two marks go too; then no blank before . ? ! , n't 'm 's 've 're, and none
 * on either side of a lone '. Errors: TX_ERR_ARG for an id outside 0..vocab_size-1, with *out as it was. */
TX_API tx_status tx_tokenizer_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out);

/* Appends text[0..n_bytes) to *out as valid UTF-8 for display: each longest beginning of a character that does not go
 * on becomes one U+FFFD, as in Python's bytes.decode("utf-8", errors="replace"). */
TX_API tx_status tx_text_replace_invalid(const char *text, size_t n_bytes, tx_bytes *out);

/* ---- learning a vocabulary ---- */

/* Text is counted word by word as it comes; then the most frequent pair of neighbours becomes a token, again and again;
 * of equally frequent pairs the one with the smaller ids wins. No randomness, and the order of the text does not
 * matter.
 *
 *      create  ->  feed ...  ->  finish  ->  save  ->  free
 *
 *  A trainer belongs to one thread at a time. Several threads count into a trainer each, and one absorbs the others.
 *
 *  TX_VOCAB_BPE: GPT-2's byte-level BPE. Tokens are the 256 bytes in GPT-2's order, the merged ones in the order
 * learned,
 *  <|endoftext|>, and the caller's special tokens. The merges are those that Hugging Face's BpeTrainer learns with
 *  ByteLevel's alphabet from the same documents, as long as its 32-bit counts do not overflow.
 *
 *  TX_VOCAB_WORDPIECE_*: BERT's WordPiece over the words of tx_tokenizer_open_wordpiece. Tokens are [PAD] [UNK] [CLS]
 *  [SEP] [MASK], the caller's special tokens, the characters in Unicode's order, those seen inside words once more with
 *  "##", and the merged ones in the order learned. It is what Hugging Face's WordPieceTrainer learns from the same
 *  words, but for two things that it leaves to chance, so that its own result changes from run to run: the order of the
 *  "##" characters, which decides between equally frequent pairs, and, of characters that are equally frequent at
 *  limit_alphabet, which stay (here the smaller ones). Words of more than 200 characters, which WordPiece never cuts,
 *  are not learned from. */
typedef struct tx_vocab_trainer tx_vocab_trainer;

typedef enum tx_vocab_kind { TX_VOCAB_BPE, TX_VOCAB_WORDPIECE_LOWER_CASE, TX_VOCAB_WORDPIECE_CASE } tx_vocab_kind;

typedef struct tx_vocab_opts {
    tx_vocab_kind kind;
    int32_t vocab_size;         /* tokens to end with, special ones and characters included */
    int64_t min_frequency;      /* of a pair that becomes a token; 0 counts as 1 */
    int32_t limit_alphabet;     /* WordPiece: only so many characters, the most frequent; 0: all */
    const char *const *special; /* n_special more special tokens; read by create only */
    int n_special;
} tx_vocab_opts;

/* A special token is visible ASCII that begins and ends with a mark and has a letter or digit, as <|name|> or [name]:
 * no text can teach such a token. Errors: TX_ERR_ARG for that, and for sizes that cannot be. */
TX_API tx_status tx_vocab_trainer_create(tx_vocab_trainer **out, const tx_vocab_opts *opts);

/* Counts one document's words; none spans two documents. Errors: TX_ERR_NOMEM, TX_ERR_STATE after finish. */
TX_API tx_status tx_vocab_trainer_feed(tx_vocab_trainer *t, const char *text, size_t n_bytes);

/* Adds what `from`, made with the same options, has counted, and leaves it as new. Errors: TX_ERR_NOMEM (both are good
 * for nothing then but free), TX_ERR_STATE, TX_ERR_ARG. */
TX_API tx_status tx_vocab_trainer_absorb(tx_vocab_trainer *t, tx_vocab_trainer *from);

/* Number of distinct words counted, which is what memory goes with. 0 after finish. */
TX_API int64_t tx_vocab_trainer_words(const tx_vocab_trainer *t);

/* Learns. Where the text gives fewer tokens, there are fewer, and a warning is logged. Once per trainer; after a
 * failure only free is left. Errors: TX_ERR_ARG (vocab_size is less than special tokens and characters), TX_ERR_NOMEM,
 * TX_ERR_STATE. */
TX_API tx_status tx_vocab_trainer_finish(tx_vocab_trainer *t);

/* Number of tokens after finish. 0 before. */
TX_API int32_t tx_vocab_trainer_size(const tx_vocab_trainer *t);

/* Publishes the files in the folder `dir`: BPE's vocab.json and merges.txt in GPT-2's own layout, WordPiece's
 * vocab.txt; and for Hugging Face a tokenizer.json of the same tokenizer. All are complete before the first appears,
 * and older ones go before. Errors: TX_ERR_IO, TX_ERR_NOTFOUND, TX_ERR_STATE. */
TX_API tx_status tx_vocab_trainer_save(const tx_vocab_trainer *t, const char *dir);

TX_API void tx_vocab_trainer_free(tx_vocab_trainer *t); /* NULL allowed */

#ifdef __cplusplus
}
#endif
#endif
