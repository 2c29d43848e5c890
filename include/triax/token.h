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
 *  A tokenizer never changes after it was opened: any number of threads may use one at the same time, each with its
 *  own output. Text is bytes with a length, UTF-8 by convention; what is not UTF-8 is kept byte by byte. */
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

/* ---- text to ids ---- */

/* Appends the ids of text[0..n_bytes) to *out; on failure *out holds what it held before. Every byte counts, NUL too.
 * "<|endoftext|>" in a text is plain text to GPT-2's two files, and a token to a tokenizer.json that has it. Bytes that
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

/* Byte-level BPE: pieces of text are counted as they come, then the most frequent pair of neighbours becomes a token,
 * again and again; of equally frequent pairs the one with the smaller ids wins. The merges are those that Hugging
 * Face's BpeTrainer learns with ByteLevel's alphabet from the same documents. One core, no randomness.
 *
 *      create  ->  feed ...  ->  finish  ->  save  ->  free                                                       */
typedef struct tx_bpe_trainer tx_bpe_trainer;

/* "<|endoftext|>" is the last entry of every vocabulary learned here. */
#define TX_BPE_MIN_VOCAB 257 /* 256 bytes and <|endoftext|> */

TX_API tx_status tx_bpe_trainer_create(tx_bpe_trainer **out);

/* Counts one document's pieces; no piece spans two documents. Errors: TX_ERR_NOMEM, TX_ERR_STATE after finish. */
TX_API tx_status tx_bpe_trainer_feed(tx_bpe_trainer *t, const char *text, size_t n_bytes);

/* Learns up to vocab_size - 257 merges of pairs seen at least min_frequency times (at least once). Where the text gives
 * fewer, there are fewer, and a warning is logged. Once per trainer.
 * Errors: TX_ERR_ARG (vocab_size < 257, min_frequency < 0), TX_ERR_NOMEM, TX_ERR_STATE. */
TX_API tx_status tx_bpe_trainer_finish(tx_bpe_trainer *t, int32_t vocab_size, int64_t min_frequency);

/* Number of tokens after finish: 256 + merged ones + 1. 0 before. */
TX_API int32_t tx_bpe_trainer_vocab_size(const tx_bpe_trainer *t);

/* Publishes the two files in GPT-2's own layout: byte symbols in GPT-2's order, merged tokens in the order learned,
 * <|endoftext|> last. Each file appears whole or not at all. Errors: TX_ERR_IO, TX_ERR_NOTFOUND, TX_ERR_STATE. */
TX_API tx_status tx_bpe_trainer_save(const tx_bpe_trainer *t, const char *vocab_file, const char *merge_file);

TX_API void tx_bpe_trainer_free(tx_bpe_trainer *t); /* NULL allowed */

#ifdef __cplusplus
}
#endif
#endif
