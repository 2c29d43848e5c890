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
 * A tokenizer does not change after it is opened. Any number of threads may use it at the same time, each with its own
 * output. It caches encoded words, up to 96 MiB per thread, until it is closed. Text is bytes with a length, UTF-8 by
 * convention; invalid UTF-8 is kept byte by byte. */
#ifndef TRIAX_TOKEN_H
#define TRIAX_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- outputs that grow; all zero means empty ---- */

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

/* GPT-2's byte-level BPE from vocab.json (token -> id) and merges.txt (pairs, strongest first), with exactly the ids
 * of OpenAI's, Megatron's and Hugging Face's. Both files are read completely and checked against each other; the error
 * names the file, the line or token, and the problem.
 * - Ids are 0..n-1, each once. All 256 byte symbols must be present, so that every text can be encoded.
 * - A token in angle brackets with characters outside GPT-2's byte alphabet is special: its bytes are its spelling,
 *   and encode never produces it. Any other token with such characters is an error.
 * - A merge may only join bytes and results of earlier lines, so a sorted or shuffled file is an error.
 * - A first merges line that begins with "#version" is skipped. Without it the first line is a merge like any other.
 * - CRLF line ends and a missing last line end are accepted.
 * - eod is the id of "<|endoftext|>", or -1 if the vocabulary has none; the caller decides whether that is an error.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_NOMEM. */
TX_API tx_status tx_tokenizer_open_gpt2(tx_tokenizer **out, const char *vocab_file, const char *merge_file);

/* BERT's WordPiece from vocab.txt (one token per line, the first has id 0), with exactly the ids of Megatron's
 * BertWordPieceLowerCase and BertWordPieceCase: words have up to 200 characters (Hugging Face: 100), private-use
 * characters are kept, and the Greek final sigma is distinguished. lower_case is for uncased vocabularies: text is
 * lower-cased and accents are stripped.
 * - Every line is one token, without duplicates; white space around it is removed. [PAD], [UNK], [CLS], [SEP] and
 *   [MASK] must be present. The error names the file, the line, and the problem.
 * - [BOS] and [EOS] are added as the last ids if the file has none, so BERT's 30522 become 30524. eod is [EOS].
 * - encode produces no special token but [UNK]: "[MASK]" in a text becomes "[", "mask", "]".
 * - Characters are classified as in Python 3.12, whose Unicode version, 15.0, is that of utf8proc.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_NOMEM. */
TX_API tx_status tx_tokenizer_open_wordpiece(tx_tokenizer **out, const char *vocab_file, bool lower_case);

/* Hugging Face's tokenizer.json, with exactly the ids of the tokenizers library's encode(text) and its text of ids.
 * - model: BPE (of bytes as GPT-2's, Llama 3's, Qwen's; of characters with byte_fallback or an unknown token as Llama
 *   2's, Mistral's, Gemma's; with the prefix or suffix of CLIP's), Unigram, WordPiece, WordLevel. No dropout.
 * - normalizer: NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, BertNormalizer, Nmt, Prepend, Replace, ByteLevel,
 *   Precompiled and a Sequence of them.
 * - pre_tokenizer: ByteLevel, Split, Metaspace, Digits, Whitespace, WhitespaceSplit, Punctuation, BertPreTokenizer,
 *   CharDelimiterSplit, FixedLength and a Sequence of them. The regular expressions of GPT-2, GPT-4 and Llama 3, Qwen
 * 2, GPT-4o, Tekken and DeepSeek-V3 are C code; any other is Oniguruma's, the library's own engine, whose tables of
 *   characters may be of another version.
 * - decoder: ByteLevel, ByteFallback, Fuse, Metaspace, Strip, Replace, WordPiece, BPEDecoder and a Sequence of them.
 *   Bytes that are no UTF-8 come out as they are; the library shows each as U+FFFD.
 * - Byte-level kinds keep every byte of a text; to the others bytes that are not UTF-8 are U+FFFD.
 * - post_processor: known kinds only. encode adds its tokens at the ends of every text, such as Llama 3's
 *   <|begin_of_text|>. truncation and padding are ignored.
 * - added_tokens, special or not, become their id wherever they occur in a text, with all the library's flags: lstrip,
 *   rstrip, single_word, normalized. In byte-level BPE they decode to their content.
 * - Anything else is an error that names the key. Nothing that changes ids is ignored.
 * - Ids may have gaps; vocab_size is the highest id plus one. Decoding an unused id is TX_ERR_ARG.
 * - eod is the eos_token of the tokenizer_config.json beside the file, from which nothing else is read. Without it,
 *   eod is the first of <|endoftext|>, <|end_of_text|>, DeepSeek's end of sentence and </s> in the vocabulary, or -1.
 * - tx_tokenizer_special finds the added tokens that are special.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_UNSUPPORTED, TX_ERR_NOMEM. */
TX_API tx_status tx_tokenizer_open_json(tx_tokenizer **out, const char *file);

/* A SentencePiece model (`.model`: unigram, BPE, char or word), with exactly the ids that the sentencepiece library
 * gives, and decoded to exactly its text, however long a text is.
 * - use: Megatron's three tokenizers. GPT: the model's ids alone, eod = </s>, or -1. LLAMA2: also <s> before every
 * text. MARKS, SentencePieceTokenizer: <CLS> <SEP> <EOD> <MASK>, the model's own or new <PAD> <BOS> <EOS>, and
 * <extra_id_0> to <extra_id_(n_extra_ids - 1)> get ids after the pieces if no piece has that spelling; all of them
 * become their id wherever they occur in a text, and decode with a blank on both sides; eod = <EOD>.
 * - The file is read as data: pieces with scores and types, normalizer_spec with its precompiled_charsmap,
 *   denormalizer_spec, and of trainer_spec what changes ids. Bytes, lengths and tables are checked; self_test_data is
 * run.
 * - Bytes of a text that are no UTF-8 become U+FFFD each, before anything else, as there.
 * - Control symbols are not found in text; user-defined symbols are. tx_tokenizer_special knows both.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_UNSUPPORTED, TX_ERR_NOMEM. */
typedef enum tx_sentencepiece_use {
    TX_SENTENCEPIECE_GPT,
    TX_SENTENCEPIECE_LLAMA2,
    TX_SENTENCEPIECE_MARKS
} tx_sentencepiece_use;
TX_API tx_status tx_tokenizer_open_sentencepiece(tx_tokenizer **out, const char *file, tx_sentencepiece_use use,
                                                 int32_t n_extra_ids);

/* Text that already consists of ids: whole numbers separated by blanks, 0 to vocab_size. eod = vocab_size, so there
 * are vocab_size + 1 ids. For benchmarks, and for data that another program has tokenized. */
TX_API tx_status tx_tokenizer_open_null(tx_tokenizer **out, int32_t vocab_size);

TX_API void tx_tokenizer_close(tx_tokenizer *t); /* NULL allowed */

/* ---- facts ---- */

TX_API int32_t tx_tokenizer_vocab_size(const tx_tokenizer *t); /* number of ids, without any padding */
TX_API int32_t tx_tokenizer_eod(const tx_tokenizer *t);        /* end-of-document id, -1: the vocabulary has none */

/* Id of a special token by its spelling; -1: there is none of that name. WordPiece has [PAD], [UNK], [CLS], [SEP],
 * [MASK], [BOS] and [EOS], GPT-2's two files have <|endoftext|> and their other tokens in angle brackets. */
TX_API int32_t tx_tokenizer_special(const tx_tokenizer *t, const char *name);

/* A hash that identifies the vocabulary: 32 hexadecimal digits and a NUL. It covers the tokens in the order of their
 * ids, the merges, and how text is split, but not how the files spell it. vocab.json with merges.txt and an equivalent
 * tokenizer.json have the same hash; an uncased and a cased WordPiece of the same vocab.txt have different ones.
 * Errors: TX_ERR_NOMEM. */
TX_API tx_status tx_tokenizer_hash(const tx_tokenizer *t, char hex[33]);

/* ---- text to ids ---- */

/* Appends the ids of text[0..n_bytes) to *out; on failure *out is unchanged. Every byte counts, NUL too. With GPT-2's
 * two files "<|endoftext|>" in a text is plain text; with a tokenizer.json that has it, it is a token. A
 * tokenizer.json whose post_processor adds tokens at the ends of a text, as Llama 3's does, adds them here, as in
 * Hugging Face. Invalid UTF-8 bytes count as symbols (neither letter, digit nor space), one by one, so
 * decode(encode(x)) == x for every x. WordPiece drops them, like U+FFFD and control characters.
 * Errors: TX_ERR_NOMEM; TX_ERR_ARG from a null tokenizer for a word that is not an id, and from a tokenizer.json for a
 * word without ids where it has no token for what is unknown, or for a text on which its regular expression takes too
 * long. */
TX_API tx_status tx_tokenizer_encode(const tx_tokenizer *t, const char *text, size_t n_bytes, tx_ids *out);

/* How many ids of those that encode appends are not the text's, but added before and after every text. */
TX_API void tx_tokenizer_ends(const tx_tokenizer *t, size_t *n_before, size_t *n_after);

/* ---- ids to text ---- */

/* Appends exactly the bytes that the n ids stand for. They need not be whole characters: a token can end in the middle
 * of one. WordPiece's ids do not preserve the text; they are joined as in Megatron's decode: with a blank between
 * tokens, but without a blank or the two marks for "##..."; then blanks are removed before . ? ! , n't 'm 's 've 're
 * and on both sides of a lone '.
 * Errors: TX_ERR_ARG: an id is outside 0..vocab_size-1; *out is unchanged. */
TX_API tx_status tx_tokenizer_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out);

/* Appends the bytes by which `id` makes a text longer that goes on after token `last`; -1: after a token that is not
 * known. In a SentencePiece model a piece that begins with a blank has it here, while tx_tokenizer_decode drops it at
 * the beginning, and a byte is itself, while there bytes that make no character become U+FFFD. In WordPiece it begins
 * with the blank between words. Errors: TX_ERR_ARG: an id is outside 0..vocab_size-1; *out is unchanged. */
TX_API tx_status tx_tokenizer_decode_next(const tx_tokenizer *t, int32_t last, int32_t id, tx_bytes *out);

/* Appends text[0..n_bytes) to *out as valid UTF-8 for display. Each longest incomplete beginning of a character
 * becomes one U+FFFD, as in Python's bytes.decode("utf-8", errors="replace"). */
TX_API tx_status tx_text_replace_invalid(const char *text, size_t n_bytes, tx_bytes *out);

/* ---- learning a vocabulary ---- */

/* A trainer counts the words of the text as it arrives. Then the most frequent pair of neighbours becomes a token,
 * again and again; of equally frequent pairs the one with the smaller ids wins. There is no randomness, and the order
 * of the text does not matter.
 *
 *      create  ->  feed ...  ->  finish  ->  save  ->  free
 *
 * One thread at a time uses a trainer. To count with several threads, give each its own trainer, then absorb them into
 * one.
 *
 * TX_VOCAB_BPE: GPT-2's byte-level BPE. The tokens are the 256 bytes in GPT-2's order, the merged tokens in the order
 * learned, <|endoftext|>, and the caller's special tokens. The merges are those that Hugging Face's BpeTrainer learns
 * with ByteLevel's alphabet from the same documents, as long as its 32-bit counts do not overflow.
 *
 * TX_VOCAB_WORDPIECE_*: BERT's WordPiece over the words of tx_tokenizer_open_wordpiece. The tokens are [PAD] [UNK]
 * [CLS] [SEP] [MASK], the caller's special tokens, the characters in Unicode order, those seen inside words once more
 * with "##", and the merged tokens in the order learned. The result is what Hugging Face's WordPieceTrainer learns
 * from the same words, with two exceptions, where its own result changes from run to run. One is the order of the "##"
 * characters, which decides between equally frequent pairs. The other is which of equally frequent characters remain
 * at limit_alphabet (here the smaller ones). Words of more than 200 characters, which WordPiece never splits, are
 * ignored.
 *
 * TX_VOCAB_SENTENCEPIECE_*: a model in SentencePiece's form, BPE or unigram, with byte fallback and without any
 * normalization. The tokens are <unk> <s> </s>, the caller's special tokens (as control symbols), 256 bytes, and the
 * pieces: of up to 16 characters, with a blank in front or none, letters or other characters, a digit alone. Characters
 * that make up the last 0.05 % of the text are bytes. Unigram is learned as SentencePiece's trainer does it (seeds, EM
 * with digamma, the losses of pruning), but with scores rounded to 1/128, so that sums are exact. */
typedef struct tx_vocab_trainer tx_vocab_trainer;

typedef enum tx_vocab_kind {
    TX_VOCAB_BPE,
    TX_VOCAB_WORDPIECE_LOWER_CASE,
    TX_VOCAB_WORDPIECE_CASE,
    TX_VOCAB_SENTENCEPIECE_BPE,
    TX_VOCAB_SENTENCEPIECE_UNIGRAM
} tx_vocab_kind;

typedef struct tx_vocab_opts {
    tx_vocab_kind kind;
    int32_t vocab_size;         /* number of tokens to learn, including special tokens and characters */
    int64_t min_frequency;      /* of a pair that becomes a token; 0 means 1 */
    int32_t limit_alphabet;     /* WordPiece: keep only this many characters, the most frequent ones; 0: all */
    const char *const *special; /* [n_special] additional special tokens; read by create only */
    int n_special;
} tx_vocab_opts;

/* Creates a trainer. A special token is visible ASCII that begins and ends with a mark and has a letter or digit, as
 * <|name|> or [name]; such a token cannot be learned from text.
 * Errors: TX_ERR_ARG: a special token is not of that form, or a size is invalid. */
TX_API tx_status tx_vocab_trainer_create(tx_vocab_trainer **out, const tx_vocab_opts *opts);

/* Counts the words of one document; no word spans two documents. Errors: TX_ERR_NOMEM, TX_ERR_STATE after finish. */
TX_API tx_status tx_vocab_trainer_feed(tx_vocab_trainer *t, const char *text, size_t n_bytes);

/* Adds the counts of `from`, which was created with the same options, and resets `from`. Errors: TX_ERR_NOMEM (both
 * can then only be freed), TX_ERR_STATE, TX_ERR_ARG. */
TX_API tx_status tx_vocab_trainer_absorb(tx_vocab_trainer *t, tx_vocab_trainer *from);

/* Number of distinct words counted, to which memory use is proportional. 0 after finish. */
TX_API int64_t tx_vocab_trainer_words(const tx_vocab_trainer *t);

/* Learns the vocabulary, once per trainer. If the text yields fewer tokens than requested, there are fewer, and a
 * warning is logged. After a failure the trainer can only be freed.
 * Errors: TX_ERR_ARG (vocab_size is less than the special tokens and characters), TX_ERR_NOMEM, TX_ERR_STATE. */
TX_API tx_status tx_vocab_trainer_finish(tx_vocab_trainer *t);

/* Number of tokens after finish. 0 before. */
TX_API int32_t tx_vocab_trainer_size(const tx_vocab_trainer *t);

/* Writes the files into the folder `dir`: BPE's vocab.json and merges.txt in GPT-2's own layout, or WordPiece's
 * vocab.txt, or SentencePiece's tokenizer.model; and a tokenizer.json of the same tokenizer for Hugging Face. All files
 * are complete before the first appears, and older ones are removed before that. Errors: TX_ERR_IO, TX_ERR_NOTFOUND,
 * TX_ERR_STATE. */
TX_API tx_status tx_vocab_trainer_save(const tx_vocab_trainer *t, const char *dir);

TX_API void tx_vocab_trainer_free(tx_vocab_trainer *t); /* NULL allowed */

#ifdef __cplusplus
}
#endif
#endif
