"""Tokenizers of every kind that a tokenizer.json can hold, and texts for them. Used by compare_json_kinds.py and make_json_kinds.py.

kinds(texts, size) yields (name, function that makes a Tokenizer): each is trained here, by the library itself, on the texts. charsmap() is the rules of a
SentencePiece model that is trained for its normalizer alone.
"""
import io
import json
import re
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

N, P, D = normalizers, pre_tokenizers, decoders
SPECIAL = ["<unk>", "<s>", "</s>"]


def charsmap(name):
    import sentencepiece

    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d e f g"] * 20), model_writer=out, vocab_size=12, minloglevel=2,
                                             normalization_rule_name=name, hard_vocab_limit=False)
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(out.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def train(t, trainer, texts, norm=None, pre=None, dec=None, post=None, added=()):
    if norm:
        t.normalizer = norm
    if pre:
        t.pre_tokenizer = pre
    t.train_from_iterator(texts, trainer)
    if dec:
        t.decoder = dec
    if post:
        t.post_processor = post(t)
    for token in added:
        t.add_tokens([token])
    return t


def with_bytes(t, **model):
    """A BPE model as Llama 2's: byte tokens behind <unk>, <s>, </s>, for what no token spells."""
    j = json.loads(t.to_str())
    vocab = j["model"]["vocab"]
    tokens = SPECIAL + [f"<0x{b:02X}>" for b in range(256)] + [x for x in sorted(vocab, key=vocab.get) if x not in SPECIAL]
    j["model"]["vocab"] = {x: i for i, x in enumerate(tokens)}
    j["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>", **model)
    j["added_tokens"] = []
    t = Tokenizer.from_str(json.dumps(j))
    t.add_special_tokens([AddedToken(x, normalized=False, special=True) for x in SPECIAL])
    return t


def template(single):
    def make(t):
        names = re.findall(r"\S+", single.replace("$A", ""))
        return processors.TemplateProcessing(single=single, special_tokens=[(x, t.token_to_id(x)) for x in names])

    return make


LLAMA = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
GEMMA = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()])
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
ADDED = [AddedToken("<x>", lstrip=True), AddedToken("the end", single_word=True), AddedToken("É1", normalized=True), AddedToken("[M]", rstrip=True, special=True)]


def bpe(size, **more):
    return trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=more.pop("special_tokens", SPECIAL), **more)


def llama(texts, size, norm, pre=None, dec=LLAMA, **model):
    """Merges over characters; they are learned of words and used on whole texts."""
    t = train(Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True)), bpe(size), texts, None, P.Metaspace(), dec)
    t = with_bytes(t, **model)
    t.normalizer = norm
    t.pre_tokenizer = pre
    t.decoder = dec
    return t


def unigram():
    return Tokenizer(models.Unigram())


def pieces(size):
    return trainers.UnigramTrainer(vocab_size=size, show_progress=False, special_tokens=SPECIAL, unk_token="<unk>")


def unigram_bytes(t):
    j = json.loads(t.to_str())
    j["model"]["byte_fallback"] = True
    j["model"]["vocab"] += [[f"<0x{b:02X}>", -100.5] for b in range(256)]
    t = Tokenizer.from_str(json.dumps(j))
    t.decoder = LLAMA
    return t


def with_post(t, single):
    t.post_processor = template(single)(t)
    return t


def kinds(texts, size=2000):
    long = [x for x in texts if x.strip() and "\0" not in x]  # triax reads no key with a NUL
    legacy = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
    yield "llama 2", lambda: with_post(llama(long, size, legacy), "<s> $A")
    yield "llama 2, added tokens", lambda: train_added(llama(long, size, legacy))
    yield "mistral v3", lambda: llama(long, size, None, P.Metaspace(prepend_scheme="first", split=False))
    yield "mistral v3, added tokens", lambda: train_added(llama(long, size, None, P.Metaspace(prepend_scheme="first", split=False)))
    yield "gemma", lambda: llama(long, size, N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"), GEMMA)
    yield "gemma, ignored merges", lambda: llama(long, size, N.Replace(" ", "▁"), None, GEMMA, ignore_merges=True)
    yield "characters, unknown apart", lambda: train(Tokenizer(models.BPE(unk_token="<unk>")), bpe(size, limit_alphabet=60), long, N.NFKC(), P.WhitespaceSplit())
    yield "characters, unknown dropped", lambda: train(Tokenizer(models.BPE()), bpe(size, limit_alphabet=60), long, N.NFD(), P.Whitespace())
    yield "clip", lambda: train(
        Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>", continuing_subword_prefix="")),
        bpe(size, special_tokens=["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>", initial_alphabet=P.ByteLevel.alphabet()), long,
        N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
        P.Sequence([P.Split(Regex(CLIP), "removed", invert=True), P.ByteLevel(False)]), D.ByteLevel(),
        lambda t: processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), add_prefix_space=False, trim_offsets=False))
    yield "gpt-1", lambda: train(Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")), bpe(size, end_of_word_suffix="</w>", limit_alphabet=120), long,
                         N.BertNormalizer(), P.BertPreTokenizer(), D.BPEDecoder("</w>"))
    yield "prefixes", lambda: train(Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="@@")), bpe(size, continuing_subword_prefix="@@", limit_alphabet=120),
                            long, N.Lowercase(), P.Whitespace(), D.WordPiece("@@", False))
    yield "some byte symbols", lambda: train(Tokenizer(models.BPE(unk_token="<unk>")), bpe(size), long[:40], None, P.ByteLevel(True), D.ByteLevel())
    yield "byte symbols as a normalizer", lambda: train(Tokenizer(models.BPE()), bpe(size, initial_alphabet=P.ByteLevel.alphabet()), long,
                                                N.Sequence([N.NFC(), N.ByteLevel()]), None, D.ByteLevel(), added=ADDED[:2])
    yield "bytes after an unknown expression", lambda: train(
        Tokenizer(models.BPE()), bpe(size, initial_alphabet=P.ByteLevel.alphabet()), long, N.Lowercase(),
        P.Sequence([P.Split(Regex(r"\p{Han}|[\p{L}\p{M}]+(?=\p{N})|\d{2}|\b"), "isolated"), P.ByteLevel(False, use_regex=False)]), D.ByteLevel(), added=ADDED)
    mask = [AddedToken("[MASK]", lstrip=True, special=True)]
    for name, lower in (("bert", True), ("bert, cased", False)):
        yield name, lambda: train(
            Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100)),
            trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]), long,
            N.BertNormalizer(lowercase=lower, strip_accents=None if lower else False), P.BertPreTokenizer(), D.WordPiece(),
            lambda t: processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]), mask)
    yield "wordpiece, short words, accents", lambda: train(
        Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=8, continuing_subword_prefix="--")),
        trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=["[UNK]"], continuing_subword_prefix="--"), long,
        N.Sequence([N.NFKD(), N.StripAccents(), N.Strip(), N.Lowercase()]), P.Sequence([P.Whitespace(), P.Punctuation("merged_with_next")]), D.WordPiece("--", True))
    for i, pre in enumerate([
            P.Whitespace(), P.Sequence([P.Punctuation("contiguous"), P.WhitespaceSplit()]), P.CharDelimiterSplit(" "), P.FixedLength(3),
            P.Sequence([P.Digits(True), P.Punctuation("removed"), P.WhitespaceSplit()]), P.Sequence([P.Split(Regex(r"[aeiou]+"), "merged_with_previous"), P.Digits(False)]),
            P.Split(Regex(r"\s|(?<=t)h"), "merged_with_next", invert=False), P.Split("th", "contiguous"), P.Split(Regex(r"\w+|$|(?=a)"), "removed", invert=True),
            P.Sequence([P.Metaspace("_", "first"), P.Split(Regex(r"[A-Z]"), "merged_with_next")]), P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme="first")])]):
        yield f"words {i}", lambda: train(Tokenizer(models.WordLevel(unk_token="<unk>")), trainers.WordLevelTrainer(vocab_size=size, show_progress=False, special_tokens=SPECIAL), long,
                                  (None, N.Strip(), N.Nmt(), N.Sequence([N.Replace(Regex("[\u0300-\u036f]|  +"), ""), N.NFC()]))[i % 4], pre,
                                  (None, D.Metaspace("_", "first"), D.Sequence([D.Fuse(), D.Replace(Regex("[aeiou]"), "")]), D.Strip("e", 0, 1))[i % 4], added=ADDED[:i % 5])
    for name, norm, pre, dec, post in (
            ("t5", N.Precompiled(charsmap("nmt_nfkc")), P.Metaspace(prepend_scheme="always"), D.Metaspace(), "$A </s>"),
            ("t5, old", N.Precompiled(charsmap("nmt_nfkc")), P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), D.Metaspace(), "$A </s>"),
            ("xlm-r", N.Sequence([N.Precompiled(charsmap("nmt_nfkc")), N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(prepend_scheme="always"), D.Metaspace(), "<s> $A </s>"),
            ("albert", N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(), N.Precompiled(charsmap("nmt_nfkc_cf"))]),
             P.Metaspace(prepend_scheme="always"), D.Metaspace(), "<s> $A </s>"),
            ("unigram, first word, no cuts", N.Sequence([N.Strip(), N.Precompiled(charsmap("nfkc"))]), P.Metaspace(prepend_scheme="first", split=False), D.Metaspace(prepend_scheme="first"), "$A"),
            ("unigram, never", N.Nmt(), P.Metaspace(prepend_scheme="never"), D.Metaspace(prepend_scheme="never"), "$A")):
        yield name, lambda: train(unigram(), pieces(size), long, norm, pre, dec,
                          template(post), ADDED if "first" in name else [])
    yield "unigram, bytes", lambda: unigram_bytes(train(unigram(), pieces(size), long, None, P.Metaspace()))


def train_added(t):
    for token in ADDED:
        t.add_tokens([token])
    return t


# what Python 3.11 does not know, Debian 12's Oniguruma does not know either; the library brings a younger one
every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]
near, dense = [c for c in every if ord(c) < 0x3000], [c for c in every if ord(c) < 0x3000 or 0x10000 <= ord(c) < 0x1F000 or 0x2E000 <= ord(c) < 0x2F000]
spaces = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000\u200b\ufeff\u2581"
marks = "\u0301\u0316\u0334\u0345\u0338\u093c\u3099\u1161\u11a8\u200d\ufe0f"
words = ["'s", "I'M", " the", "the", "The", "Hello", "HELLO", "helloWorld", "123", "4567", "  ", "   ", "\n\n", "\r\n", " \n ", "...", "//", " '", "中文", "ひらがな", "カタカナー", "한글",
         "e\u0301", "İ", "ß", "Ω", "½", "²", "Ⅷ", "[MASK]", "[M]", "<x>", "the end", "É1", "<s>", "</s>", "<unk>", "café", "ﬁ", "Å", "\u212b", "!a", "_b", "\x00", "▁", "▁▁", "▁a", "a▁b", "_",
         "ﬁ\u0301", "\u0e33", "ก\u0e33", "👍🏽", "👨\u200d👩", "🇩🇪🇫", "``", "''", "ａｂｃ", "㌀", "<0x41>", "<|endoftext|>", "th", "tth", "aeiou", "ΑΣ", "@@a", "##a", "--", "\u2581the", "a" * 30]


def random_text(rng):
    out = []
    for _ in range(rng.randint(1, 20)):
        kind = rng.random()
        out.append(rng.choice(" " if kind < 0.15 else spaces if kind < 0.22 else words if kind < 0.55 else marks if kind < 0.6
                              else near if kind < 0.8 else dense if kind < 0.92 else every))
    return "".join(out)
