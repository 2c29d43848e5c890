"""Compares triax's ids and text with Hugging Face tokenizers' for tokenizer.json files that the library itself writes.

GPT-2's vocabulary with each split pattern, each normal form, added tokens of all kinds; a vocabulary that the library has
learned, in which two merges make one token; and the patterns of tiktoken in tiktoken. Texts: random strings over all planes,
each character in places where its class matters, the stored cases, and the files of TX_PEER_TEXT (JSON lines or text).
Usage: compare_tokenizer_json.py TRIAX DATA WORKDIR [SEED]
"""
import json
import os
import random
import subprocess
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TRIAX, DATA, WORK = sys.argv[1:4]
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 5
N = 8000  # random strings for each of the files below
rng = random.Random(SEED)
VOCAB, MERGES = (os.path.join(DATA, "token", f"gpt2-{x}") for x in ("vocab.json", "merges.txt"))
every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
near = every[:0x3000]
dense = [c for c in every if ord(c) < 0x3000 or 0x10000 <= ord(c) < 0x1F000 or 0x2E000 <= ord(c) < 0x2F000]
spaces = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000"
ascii_spaces = "  \n\n\r\t"
marks = "\u0301\u0316\u0334\u0345\u0338\u093c\u3099\u1161\u11a8"
words = ["'s", "'T", "'rE", "'ve", "'M", "'Ll", "'d", "'\u017f", "'\u017fx", "I'M", " the", "Hello", "HELLO", "helloWorld", "123", "4567", "  ",
         "\n\n", "\r\n", " \n ", "...", "//", "/\n", " '", "中文", "ひらがな", "カタカナー", "한글", "ǅ", "ʰ", "e\u0301", "İ", "ß", "Ω", "½", "²", "Ⅷ",
         "<|endoftext|>", "[PAD]", "the", "café", "cafe\u0301", "<x>", "<xy>", "<xyz", "a b", "\u1e9b\u0323", "ﬁ", "Å", "\u212b", "!a", "_b", "\x00", "\u200d"]
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UP, LOW, BEFORE = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[^\r\n\p{L}\p{N}]?"
SPACE = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = SUFFIX + "|" + BEFORE + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACE
CL100K_2 = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
QWEN2 = SUFFIX + "|" + BEFORE + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACE
O200K = f"{BEFORE}{UP}*{LOW}+{SUFFIX}?|{BEFORE}{UP}+{LOW}*{SUFFIX}?" + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACE
TEKKEN = f"{BEFORE}{UP}*{LOW}+|{BEFORE}{UP}+{LOW}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACE
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*""" + SPACE]


def text():
    out = []
    for _ in range(rng.randint(1, 24)):
        kind = rng.random()
        out.append(rng.choice(ascii_spaces if kind < 0.12 else spaces if kind < 0.18 else words if kind < 0.5 else marks if kind < 0.56
                              else near if kind < 0.8 else dense if kind < 0.92 else every))
    return "".join(out)


def stored():
    out = []
    names = [os.path.join(DATA, "token", "gpt2_cases.jsonl")] + os.environ.get("TX_PEER_TEXT", "").split()
    for name in names:
        with open(name, encoding="utf-8") as f:
            out += [json.loads(x)["text"] if name.endswith(".jsonl") else x for x in f]
    return out


def triax(command, path, lines):
    done = subprocess.run([TRIAX, command, "--tokenizer-type", "HFTokenizer", "--tokenizer-model", path],
                          input="".join(x + "\n" for x in lines).encode(), capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return done.stdout


def encode(path, texts):
    ids = [json.loads(x) for x in triax("tokenize", path, [json.dumps({"text": t}) for t in texts]).splitlines()]
    assert len(ids) == len(texts), f"{len(ids)} lines came back"
    return ids


def compare(what, ours, theirs, texts):
    wrong = [(t, a, b) for t, a, b in zip(texts, ours, theirs) if a != b]
    print(f"{what}: {len(wrong)} of {len(texts)} differ", flush=True)
    if wrong:
        sys.exit("the first: %a\ntriax %s\npeer  %s" % min(wrong, key=lambda w: len(w[0])))


def gpt2(**more):
    t = Tokenizer(models.BPE.from_file(VOCAB, MERGES, **more))
    t.decoder = decoders.ByteLevel()
    return t


def byte_level(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def split(*patterns, behavior="isolated", invert=False, prefix=False, regex=False):
    cuts = [pre_tokenizers.Split(Regex(p), behavior, invert=invert) for p in patterns]
    return pre_tokenizers.Sequence(cuts + [byte_level(prefix, regex)])


# every set of flags, spellings that overlap, in the model's vocabulary and not
flags = [dict(lstrip=bool(i & 1), rstrip=bool(i & 2), single_word=bool(i & 4), normalized=bool(i & 8)) for i in range(16)]
ADDED = [("<x>", 0), ("<xy>", 1), ("<xyz>", 2), ("y>", 3), ("[PAD]", 4), ("the", 5), ("zz", 6), ("Wor", 7), ("[A]", 8), ("[B]", 9), ("[C]", 10),
         ("caf\u00e9", 11), ("\u212b", 8), ("ab", 12), ("abc", 13), ("é", 14), ("0", 15), ("  ", 8), ("    ", 0), ("\n\n", 2), ("<|endoftext|>", 0)]


def with_added(t):
    for i, (content, f) in enumerate(ADDED):
        (t.add_special_tokens if i % 2 else t.add_tokens)([AddedToken(content, special=bool(i % 2), **flags[f])])
    return t


words += [c for c, _ in ADDED] * 2


def learned():
    """A small vocabulary; its trainer makes some tokens by several merges."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = byte_level(regex=True)
    t.decoder = decoders.ByteLevel()
    few = random.Random(3)
    parts = ["".join(few.choice("abc") for _ in range(few.randint(1, 4))) for _ in range(40)]
    trainer = trainers.BpeTrainer(vocab_size=900, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(["".join(few.choice(parts) for _ in range(few.randint(1, 6))) for _ in range(20000)], trainer)
    return t


def two_ways(t):
    """Merges that make what stronger merges take: shuffled ones."""
    j = json.loads(t.to_str())
    random.Random(4).shuffle(j["model"]["merges"])
    return Tokenizer.from_str(json.dumps(j))


def set_parts(t, pre, *norm):
    t.pre_tokenizer = pre
    if norm:
        t.normalizer = norm[0] if len(norm) == 1 else normalizers.Sequence(list(norm))
    return t


def with_ends(t):
    """As Llama 3's file, with a token behind as well."""
    ends = [("[A]", t.token_to_id("[A]")), ("[B]", t.token_to_id("[B]"))]
    inner = processors.TemplateProcessing(single="[A] $A [B]", special_tokens=ends)
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), inner])
    return t


def files():
    yield "GPT-2", set_parts(gpt2(), byte_level(regex=True))
    yield "GPT-2, a blank before, added tokens", with_added(set_parts(gpt2(), byte_level(True, True)))
    yield "no regular expression", set_parts(gpt2(), byte_level())
    yield "GPT-2's as a Split", set_parts(gpt2(), split(GPT2))
    yield "GPT-4, merges ignored", set_parts(gpt2(ignore_merges=True), split(CL100K))
    yield "GPT-4, added tokens", with_added(set_parts(gpt2(), split(CL100K)))
    yield "GPT-4, added tokens, some at the ends", with_ends(with_added(set_parts(gpt2(), split(CL100K))))
    yield "GPT-4, removed and inverted", set_parts(gpt2(), split(CL100K, behavior="removed", invert=True))
    yield "GPT-4 in other words", set_parts(gpt2(), split(CL100K_2))
    yield "Qwen 2, NFC, added tokens", with_added(set_parts(gpt2(), split(QWEN2), normalizers.NFC()))
    yield "GPT-4o", set_parts(gpt2(), split(O200K))
    yield "Tekken, NFD, added tokens", with_added(set_parts(gpt2(), split(TEKKEN), normalizers.NFD()))
    yield "DeepSeek-V3", set_parts(gpt2(), split(*DEEPSEEK))
    yield "digits apart, NFKC", set_parts(gpt2(), pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level(regex=True)]), normalizers.NFKC())
    yield "runs of digits, a blank before, NFKD and NFC", set_parts(
        gpt2(), pre_tokenizers.Sequence([pre_tokenizers.Digits(False), byte_level(True, True)]), normalizers.NFKD(), normalizers.NFC())
    yield "GPT-4o, then GPT-2's with a blank before", set_parts(gpt2(), split(O200K, prefix=True, regex=True))
    yield "GPT-4, a blank before every word", set_parts(gpt2(), split(CL100K, prefix=True))


def check(name, t, texts):
    path = os.path.join(WORK, "tokenizer.json")
    t.save(path)
    theirs = [e.ids for e in t.encode_batch(texts)]
    compare(name, encode(path, texts), theirs, texts)
    return path, theirs


cases = stored()
alone = [f"a{c}b {c} A{c}1 '{c} {c}'s \n{c}" for c in every]
for name, t in files():
    texts = [text() for _ in range(N)] + cases + rng.sample(alone, 4000)
    path, ids = check(name, t, texts)
    # back to text: the library's, apart from added tokens that it reads as byte symbols
    if "added" not in name:
        ours = triax("detokenize", path, [json.dumps(x) for x in ids[:N] if x])
        theirs = [x for x in t.decode_batch([x for x in ids[:N] if x], skip_special_tokens=False)]
        assert ours.decode() == "".join(x + "\n" for x in theirs), "other text"
together = ["".join(alone[i : i + 64]) for i in range(0, len(alone), 64)]
for name, t in (("GPT-4o, NFC, added tokens", with_added(set_parts(gpt2(), split(O200K), normalizers.NFC()))),
                ("DeepSeek-V3, NFKC", set_parts(gpt2(), split(*DEEPSEEK), normalizers.NFKC()))):
    check(f"{name}, each character", t, together)

t = learned()
abc = ["".join(rng.choice("abc") for _ in range(rng.randint(1, 60))) for _ in range(20000)] + ["abcab" * 200]
check("a learned vocabulary", t, abc)
check("its merges in another order", two_ways(t), abc)

try:
    import regex
    import tiktoken
except ImportError:
    print("tiktoken and regex: not there, not compared")
    sys.exit()
with open(VOCAB, encoding="utf-8") as f:
    vocab = json.load(f)
latin = [*range(33, 127), *range(161, 173), *range(174, 256)]
symbol = {chr(b): b for b in latin}
symbol.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in latin)})
ranks = {bytes(symbol[c] for c in token): i for token, i in vocab.items() if token != "<|endoftext|>"}
for name, pattern in (("GPT-4", CL100K), ("GPT-4o", O200K)):
    t = set_parts(gpt2(), split(pattern))
    path = os.path.join(WORK, "tokenizer.json")
    t.save(path)
    peer = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    find = regex.compile(pattern)
    texts = [x for x in (text() for _ in range(N)) if [w for w, _ in pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(x)] == find.findall(x)]
    print(f"{name}: the regex module cuts {len(texts)} of {N} random strings as Hugging Face does (its tables are younger)")
    compare(f"{name} in tiktoken", encode(path, texts), [peer.encode_ordinary(x) for x in texts], texts)
