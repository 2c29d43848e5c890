"""Compares triax's BertWordPiece ids with Megatron's rules and with Hugging Face tokenizers, over all planes.

Megatron's rules are written down here in terms of Python's own Unicode tables; where TX_PEER_MEGATRON names a
bert_tokenization.py of Megatron, that file takes their place. They are compared on every character and on random strings,
leaving out characters that this Python's tables do not have. Hugging Face differs from Megatron by design in words above
100 characters, in private-use characters and in the final sigma, and its tables are older: it is compared on strings of
the characters that both treat alike when alone.
Two vocabularies: BERT's own, and one in which every character is a token, so that no difference hides in an [UNK].
Usage: compare_wordpiece.py TRIAX VOCAB WORKDIR
"""
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import unicodedata

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

TRIAX, VOCAB, WORK = sys.argv[1:4]
N = 100000
TABLES = "15.0.0"  # triax's, from utf8proc
cat = unicodedata.category
every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
known = every if unicodedata.unidata_version >= TABLES else [c for c in every if cat(c) != "Cn"]
CJK = "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f])"
ASCII_PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def by_the_rules(text, lower):
    """Megatron's words, from Python's tables."""
    keep = "\t\n\r"
    text = "".join(c for c in text if c in keep or not (c in "\0\ufffd" or cat(c) in ("Cc", "Cf")))
    text = re.sub(CJK, r" \1 ", "".join(" " if cat(c) == "Zs" else c for c in text))
    words = []
    for token in text.split():
        if lower:
            token = "".join(c for c in unicodedata.normalize("NFD", token.lower()) if cat(c) != "Mn")
        words += "".join(f" {c} " if c in ASCII_PUNCTUATION or cat(c)[0] == "P" else c for c in token).split()
    return words


def by_megatron(path):
    spec = importlib.util.spec_from_file_location("bert_tokenization", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    basic = {lower: module.BasicTokenizer(do_lower_case=lower) for lower in (True, False)}
    return lambda text, lower: basic[lower].tokenize(text)


def pieces(word, vocab):
    """Greedy longest match first."""
    ids, start = [], 0
    while start < len(word) <= 200:
        prefix = "##" if start else ""
        end = next((e for e in range(len(word), start, -1) if prefix + word[start:e] in vocab), None)
        if end is None:
            break
        ids.append(vocab[prefix + word[start:end]])
        start = end
    return ids if start == len(word) else [vocab["[UNK]"]]


def triax(path, lower, texts):
    kind = "BertWordPieceLowerCase" if lower else "BertWordPieceCase"
    lines = "".join(json.dumps({"text": t}) + "\n" for t in texts)
    done = subprocess.run([TRIAX, "tokenize", "--tokenizer-type", kind, "--vocab-file", path], input=lines.encode(), capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    ids = [json.loads(x) for x in done.stdout.splitlines()]
    assert len(ids) == len(texts), f"{len(ids)} lines came back"
    return ids


def report(what, texts, ours, theirs):
    wrong = [(t, a, b) for t, a, b in zip(texts, ours, theirs) if a != b]
    print(f"{what}: {len(wrong)} of {len(texts)} differ", flush=True)
    if wrong:
        sys.exit("the first: %r\ntriax %s\npeer  %s" % wrong[0])


rng = random.Random(11)
spaces = " \t\n\r\x0b\x0c\x1c\x85\xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000"
parts = ["the", "hello", "Don't", "ΣΑΣ", "ΌΣΟΣ.", "Σ'", "İI", "123", "...", "[MASK]", "##ing", "中文", "e\u0301", "\u0344", "Å", "\u200d", "\ud55c\uae00"]
marks = [c for c in known if unicodedata.combining(c)]


def random_text(source, near, extra):
    out = []
    for _ in range(rng.randint(1, 40)):
        kind = rng.random()
        out.append(rng.choice(spaces if kind < 0.15 else extra if kind < 0.4 else near if kind < 0.75 else source))
    return "".join(out)


def compare(path, lower, name):
    with open(path, encoding="utf-8", newline="\n") as f:
        vocab = {token: i for i, token in enumerate(f.read().split("\n")[:-1])}
    rules = by_megatron(os.environ["TX_PEER_MEGATRON"]) if os.environ.get("TX_PEER_MEGATRON") else by_the_rules
    ids = lambda text: [i for word in rules(text, lower) for i in pieces(word, vocab)]
    alone = [f"a{c}b {c} A\u03a3{c} A\u03a3{c}a {c}\u03a3" for c in known]
    report(f"{name}, each character, Megatron", alone, triax(path, lower, alone), map(ids, alone))
    near = [c for c in known if ord(c) < 0x3000]
    texts = [random_text(known, near, parts + marks[:200]) for _ in range(N)]
    texts += ["a" * n + "é" * m for n in (0, 1, 99, 100, 150) for m in (0, 1, 49, 50, 51, 99, 100, 101, 5000)]
    texts += ["".join(rng.choice(marks) for _ in range(rng.randint(2, 30))) for _ in range(2000)]
    report(f"{name}, random strings, Megatron", texts, triax(path, lower, texts), map(ids, texts))

    peer = Tokenizer(models.WordPiece.from_file(path, unk_token="[UNK]", max_input_chars_per_word=100))
    peer.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=lower, lowercase=lower)
    peer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    split = lambda text: [w for w, _ in peer.pre_tokenizer.pre_tokenize_str(peer.normalizer.normalize_str(text))]
    alike = [c for c in known if split(f"a{c}b") == rules(f"a{c}b", lower) and c != "\u03a3"]
    extra = [p for p in parts if set(p) <= set(alike)]
    near = [c for c in alike if ord(c) < 0x3000]
    texts = [t for t in (random_text(alike, near, extra) for _ in range(N)) if max(map(len, rules(t, lower)), default=0) <= 100]
    print(f"{name}: Hugging Face treats {len(known) - len(alike)} of {len(known)} characters differently or has no word for them")
    report(f"{name}, random strings, Hugging Face", texts, triax(path, lower, texts), [e.ids for e in peer.encode_batch(texts)])


characters = os.path.join(WORK, "characters.txt")
with open(characters, "w", encoding="utf-8", newline="\n") as f:
    f.write("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    f.writelines(prefix + c + "\n" for prefix in ("", "##") for c in every if not c.isspace())
print(f"Python's tables are Unicode {unicodedata.unidata_version}'s, {len(every) - len(known)} of {len(every)} characters left out")
for lower in (True, False):
    word = "uncased" if lower else "cased"
    compare(VOCAB, lower, f"BERT's vocabulary, {word}")
    compare(characters, lower, f"a vocabulary of all characters, {word}")
