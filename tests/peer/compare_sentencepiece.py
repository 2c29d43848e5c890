"""Compares triax's ids and text with the sentencepiece library's, for models that the library itself trains.

Unigram, BPE, char and word models; with and without byte fallback; each of the library's normalization rules; user-defined and
control symbols; blanks as prefix, as suffix, alone and inside pieces; pieces marked unused; a denormalizer. Texts: random
strings over all planes and of the corpus's words, the stored cases, some long ones. Megatron's three tokenizers on top.
Usage: compare_sentencepiece.py TRIAX DATA WORKDIR [N] [SEED] [MODEL ...]      N random strings for each model, default 8000
"""
import json
import os
import random
import subprocess
import sys

import sentencepiece as spm

TRIAX, DATA, WORK = sys.argv[1:4]
N = int(sys.argv[4]) if len(sys.argv) > 4 else 8000
SEED = int(sys.argv[5]) if len(sys.argv) > 5 else 5
ONLY = sys.argv[6:]
rng = random.Random(SEED)
every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
near = every[:0x3000]
spaces = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000\u200b\u2581"
marks = "\u0301\u0316\u0334\u0345\u0338\u093c\u3099\u1161\u11a8"
words = ["the", "Hello", " world", "  ", "   ", "    ", "\n", "...", "'s", "中文", "ひらがな", "ﬁ", "Å", "½", "①", "ｶﾞ", "<sep>", "foo", "foo bar", "abc",
         "ab", "<s>", "</s>", "<unk>", "<ctl>", "<0x41>", "▁", "▁▁", "foo▁bar", "⁇", "\x00", "1234567890", "aaaa", "aaaaaaaa", "111", "for (i = 0;",
         "é", "e\u0301", "ß", "İ", "한글", "👍🏽", "\ufffd", "<CLS>", "<EOD>", "<MASK>", "<extra_id_1>", "<pad>", "tokenizer", "tokenizers"]


def corpus():
    """Lines of English, of some other scripts, and of code."""
    lines = []
    with open(os.path.join(DATA, "tiny", "tiny-corpus.jsonl"), encoding="utf-8") as f:
        for line in f:
            lines += json.loads(line)["text"].split("\n")
    with open(os.path.join(DATA, "token", "gpt2_cases.jsonl"), encoding="utf-8") as f:
        cases = [json.loads(line)["text"] for line in f]
    lines += [t.replace("\n", " ") for t in cases if len(t) < 400] * 2
    lines += ["x = 1234567890; for (int  i = 0; i < n; i++)  { a[i] += 1; }", "\tif (a  ==  b)   return  0;", "abc ab abcab foo foo bar"] * 20
    return [x for x in lines if x.strip()], cases


LINES, CASES = corpus()
corpus_words = sorted({w for x in LINES for w in x.split(" ")})


def text():
    out = []
    for _ in range(rng.randint(1, 24)):
        kind = rng.random()
        out.append(rng.choice("  ") if kind < 0.2 else rng.choice(spaces) if kind < 0.25 else rng.choice(words) if kind < 0.45
                   else rng.choice(marks) if kind < 0.48 else rng.choice(corpus_words) + " " * rng.randint(0, 2) if kind < 0.85
                   else rng.choice(near) if kind < 0.97 else rng.choice(every))
    return "".join(out)


UNIGRAM = dict(model_type="unigram", vocab_size=900, character_coverage=0.98)
BPE = dict(model_type="bpe", vocab_size=900, character_coverage=0.98)
BYTES = dict(byte_fallback=True, vocab_size=1200)
USER = dict(user_defined_symbols=["<sep>", "foo", "foo▁bar", "ab", "abc"], control_symbols=["<ctl>"])
KEEP = dict(normalization_rule_name="identity", remove_extra_whitespaces=False)
MODELS = {
    "uni": UNIGRAM,
    "uni_bytes": UNIGRAM | BYTES | dict(pad_id=3),
    "uni_user": UNIGRAM | USER | KEEP,
    "uni_across": UNIGRAM | dict(split_by_whitespace=False),
    "uni_suffix": UNIGRAM | dict(treat_whitespace_as_suffix=True),
    "uni_cf": UNIGRAM | dict(normalization_rule_name="nfkc_cf", add_dummy_prefix=False),
    "uni_blanks": UNIGRAM | dict(normalization_rule_name="nmt_nfkc_cf", allow_whitespace_only_pieces=True, remove_extra_whitespaces=False),
    "uni_unused": UNIGRAM | dict(normalization_rule_name="nfkc"),
    "bpe": BPE,
    "bpe_bytes": BPE | BYTES | KEEP | dict(split_digits=True, allow_whitespace_only_pieces=True),
    "bpe_across": BPE | USER | dict(split_by_whitespace=False),
    "bpe_suffix": BPE | dict(treat_whitespace_as_suffix=True, pad_id=3),
    "bpe_unused": BPE | BYTES,
    "char": dict(model_type="char", vocab_size=300) | USER,
    "char_bytes": dict(model_type="char", vocab_size=500, byte_fallback=True),
    "word": dict(model_type="word", vocab_size=900, normalization_rule_name="nfkc"),
}


def train(name):
    path = os.path.join(WORK, name + ".model")
    spm.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=open(path, "wb"), hard_vocab_limit=False, minloglevel=2,
                                   num_threads=2, max_sentence_length=1 << 20, **MODELS[name])
    if name.endswith("_unused"):
        mark_unused(path)
    return path


def mark_unused(path):
    """Every seventh piece of more than one character is not used."""
    from sentencepiece import sentencepiece_model_pb2 as pb
    m = pb.ModelProto()
    with open(path, "rb") as f:
        m.ParseFromString(f.read())
    for i, p in enumerate(m.pieces):
        if p.type == 1 and len(p.piece) > 1 and i % 7 == 0:
            p.type = 5
    with open(path, "wb") as f:
        f.write(m.SerializeToString())


def triax(command, path, lines, kind="GPTSentencePieceTokenizer", *more):
    done = subprocess.run([TRIAX, command, "--tokenizer-type", kind, "--tokenizer-model", path, *more],
                          input="".join(x + "\n" for x in lines).encode(), capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return done.stdout


def encode(path, texts, *more):
    ids = [json.loads(x) for x in triax("tokenize", path, [json.dumps({"text": t}) for t in texts], *more).splitlines()]
    assert len(ids) == len(texts), f"{len(ids)} lines came back"
    return ids


def compare(what, ours, theirs, texts):
    wrong = [(t, a, b) for t, a, b in zip(texts, ours, theirs) if a != b]
    print(f"{what}: {len(wrong)} of {len(texts)} differ", flush=True)
    if wrong:
        text, a, b = min(wrong, key=lambda w: len(w[0]))
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        sys.exit("the first: %a\nfrom id %d on: triax %s\npeer %s" % (text[:1000], at, a[at - 4:at + 12], b[at - 4:at + 12]))


def compare_decoded(what, path, ids, theirs, *more):
    theirs = "".join(t + "\n" for t in theirs).encode()
    ours = triax("detokenize", path, [json.dumps(x) for x in ids], *more)
    print(f"{what}: {'the same' if ours == theirs else 'DIFFERENT'} text of {len(ids)} lists of ids", flush=True)
    if ours != theirs:
        at = next(i for i, (a, b) in enumerate(zip(ours + b"\0", theirs + b"\1")) if a != b)
        sys.exit("from byte %d on:\ntriax %r\npeer  %r" % (at, ours[at - 40:at + 40], theirs[at - 40:at + 40]))


class Megatron:
    """What Megatron's SentencePieceTokenizer makes of a model."""

    def __init__(self, sp, n_extra):
        self.sp = sp
        self.vocab = {sp.id_to_piece(i): i for i in range(len(sp))}
        ends = [sp.id_to_piece(i) if i >= 0 else name for i, name in ((sp.pad_id(), "<PAD>"), (sp.bos_id(), "<BOS>"), (sp.eos_id(), "<EOS>"))]
        self.marks = {}
        for mark in ["<CLS>", "<SEP>", "<EOD>", "<MASK>", *ends, *(f"<extra_id_{i}>" for i in range(n_extra))]:
            self.marks[mark] = self.vocab.setdefault(mark, len(self.vocab))

    def encode(self, text):
        ids = []
        while True:
            found = [(text.index(m), m) for m in self.marks if m in text]
            if not found:
                return ids + self.sp.encode(text)
            at, mark = min(found, key=lambda f: f[0])
            ids += self.sp.encode(text[:at]) + [self.marks[mark]]
            text = text[at + len(mark):]

    def decode(self, ids):
        of, out, last = {i: m for m, i in self.marks.items()}, "", 0
        for k, i in enumerate(ids):
            if i in of:
                out += self.sp.decode(ids[last:k]) + " " + of[i] + " "
                last = k + 1
        return out + self.sp.decode(ids[last:])


def check(name):
    path = train(name)
    sp = spm.SentencePieceProcessor(model_file=path)
    long = [" ".join(rng.choice(corpus_words) for _ in range(rng.choice([3000, 30000]))) for _ in range(6)]
    texts = [text() for _ in range(N)] + CASES + LINES[:500] + long + ["", " ", "  ", "a" * 300, "1" * 1000, "aa " * 400]
    theirs = sp.encode(texts)
    ours = encode(path, texts)
    compare(name, ours, theirs, texts)
    ids = ours + [[rng.randrange(len(sp)) for _ in range(rng.randint(0, 12))] for _ in range(N)]
    compare_decoded(name, path, ids, [sp.decode(x) for x in ids])
    compare(name + ", Llama2Tokenizer", encode(path, texts[:500], "Llama2Tokenizer"), [[sp.bos_id()] + x for x in theirs[:500]], texts)
    m, more = Megatron(sp, 3), ("SentencePieceTokenizer", "--vocab-extra-ids", "3")
    some = texts[:2000]
    ours = encode(path, some, *more)
    compare(name + ", SentencePieceTokenizer", ours, [m.encode(t) for t in some], some)
    ids = ours + [[rng.randrange(len(m.vocab)) for _ in range(rng.randint(0, 12))] for _ in range(1000)]
    compare_decoded(name + ", SentencePieceTokenizer", path, ids, [m.decode(x) for x in ids], *more)


def check_learned(kind):
    """A model that train-tokenizer learns: its two files in both libraries."""
    from tokenizers import Tokenizer
    folder = os.path.join(WORK, kind)
    done = subprocess.run([TRIAX, "train-tokenizer", "--input", os.path.join(DATA, "tiny", "tiny-corpus.jsonl"), "--vocab-size", "1500",
                           "--tokenizer-type", kind, "--output-dir", folder], capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    path = os.path.join(folder, "tokenizer.model")
    sp, hf = spm.SentencePieceProcessor(model_file=path), Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    assert sp.get_piece_size() == hf.get_vocab_size() == 1500
    own = ["<s>", "</s>", "<unk>", "<0x", "\0"]  # which tokenizers finds in text
    texts = [t for t in (text() for _ in range(N)) if not any(x in t for x in own)] + LINES[:1000] + ["a" * 300, "aaa " * 50, "1" * 100]
    theirs = sp.encode(texts)
    compare(kind + " learned", encode(path, texts, kind), [[sp.bos_id()] * (kind[0] == "L") + x for x in theirs], texts)
    compare(kind + " learned, tokenizers", [e.ids for e in hf.encode_batch(texts, add_special_tokens=False)], theirs, texts)
    compare(kind + " learned, text", [hf.decode(x) for x in theirs], sp.decode(theirs), texts)


if __name__ == "__main__":
    for name in ONLY or MODELS:
        check(name)
    for kind in [] if ONLY else ["Llama2Tokenizer", "GPTSentencePieceTokenizer"]:
        check_learned(kind)
