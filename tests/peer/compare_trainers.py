"""Compares whole runs of triax train-tokenizer with Hugging Face's trainers: byte-level BPE merge by merge, WordPiece line by line.

Hugging Face's WordPieceTrainer gives ids to the "##" characters in the order of a hash table, another one in each run, and ids
decide between equally frequent pairs. Here it gets special tokens, the characters and "##" characters in triax's order, as
special tokens; then nothing is left to chance but which of equally frequent characters stay at limit_alphabet, so limits are
taken where there is no such choice. Capital sigmas and long words, which it reads differently by design, are left out.
With GOLDEN, only writes the files of tests/data/token.
Usage: compare_trainers.py TRIAX DATA WORKDIR | compare_trainers.py GOLDEN DATA
"""
import collections
import json
import os
import subprocess
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def texts_of(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line)["text"] for line in f]


def bpe(texts, size, frequency):
    """Lines of merges.txt."""
    peer = Tokenizer(models.BPE())
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    peer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, min_frequency=frequency, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False))
    merges = json.loads(peer.to_str())["model"]["merges"]
    return [m if isinstance(m, str) else " ".join(m) for m in merges]


def bert(lower):
    peer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    peer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    peer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return peer


def words_of(peer, text):
    return [w for w, _ in peer.pre_tokenizer.pre_tokenize_str(peer.normalizer.normalize_str(text))]


def wordpiece(texts, size, frequency, lower, limit):
    """Lines of vocab.txt, and the limit that was really taken."""
    count, inside = collections.Counter(), set()
    for text in texts:
        for word in words_of(bert(lower), text):
            count.update(word)
            inside.update(word[1:])
    order = sorted(count.values(), reverse=True) + [0]
    limit = min(limit, len(count))
    while order[limit - 1] == order[limit]:
        limit -= 1
    kept = sorted(c for c in count if count[c] >= order[limit - 1])
    pinned = SPECIAL + kept + ["##" + c for c in kept if c in inside]
    peer = bert(lower)
    peer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, min_frequency=frequency, limit_alphabet=limit, special_tokens=pinned, show_progress=False))
    return [token for token, _ in sorted(peer.get_vocab().items(), key=lambda x: x[1])], limit


def lines(path):
    with open(path, encoding="utf-8", newline="\n") as f:
        return f.read().split("\n")[:-1]


def triax(work, source, size, frequency, workers, *more):
    flags = ["--input", source, "--vocab-size", str(size), "--min-frequency", str(frequency), "--workers", str(workers), "--output-dir", work]
    done = subprocess.run([TRIAX, "train-tokenizer", *flags, *more], capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())


def same(what, ours, theirs):
    first = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    print(f"{what}: {len(theirs)} lines, {'equal' if ours == theirs else 'different'}", flush=True)
    if ours != theirs:
        sys.exit(f"line {first}: triax {ours[first:first + 1]}, peer {theirs[first:first + 1]}")


def same_ids(what, work, texts, kind, files):
    """tokenizer.json in Hugging Face's hands gives the ids that triax gives."""
    peer = Tokenizer.from_file(os.path.join(work, "tokenizer.json"))
    data = "".join(json.dumps({"text": t}) + "\n" for t in texts).encode()
    done = subprocess.run([TRIAX, "tokenize", "--tokenizer-type", kind, *files], input=data, capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    ours = [json.loads(x) for x in done.stdout.splitlines()]
    same(f"{what}, tokenizer.json", ours, [e.ids for e in peer.encode_batch(texts, add_special_tokens=False)])


def compare(name, texts, work):
    texts = [t.replace("\u03a3", "\u03c3") for t in texts]
    texts = [t for t in texts if max(map(len, words_of(bert(True), t)), default=0) <= 200]
    source = os.path.join(work, "texts.jsonl")
    with open(source, "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": t}) + "\n" for t in texts)
    for size, frequency, workers in ((700, 2, 1), (8000, 2, 2), (100000, 1, 3)):
        triax(work, source, size, frequency, workers)
        same(f"{name}, BPE {size}", lines(os.path.join(work, "merges.txt"))[1:], bpe(texts, size, frequency))
    files = [f"--{x}-file={work}/{y}" for x, y in (("vocab", "vocab.json"), ("merge", "merges.txt"))]
    same_ids(f"{name}, BPE", work, texts, "GPT2BPETokenizer", files)
    for lower in (True, False):
        kind = "BertWordPieceLowerCase" if lower else "BertWordPieceCase"
        for size, frequency, limit, workers in ((3000, 2, 100, 1), (8000, 2, 1000, 2), (100000, 1, 100000, 3)):
            theirs, limit = wordpiece(texts, size, frequency, lower, limit)
            triax(work, source, size, frequency, workers, "--tokenizer-type", kind, "--limit-alphabet", str(limit))
            same(f"{name}, {kind} {size}, {limit} characters", lines(os.path.join(work, "vocab.txt")), theirs)
        same_ids(f"{name}, {kind}", work, texts, kind, [f"--vocab-file={work}/vocab.txt"])


if sys.argv[1] == "GOLDEN":
    data = sys.argv[2]
    texts = texts_of(os.path.join(data, "tiny", "tiny-corpus.jsonl"))
    for name, lower, limit in (("uncased", True, 30), ("cased", False, 100000)):
        vocab, taken = wordpiece(texts, 600, 2, lower, limit)
        print(name, limit, taken)
        with open(os.path.join(data, "token", f"hf-wordpiece-{name}-600.txt"), "w", encoding="utf-8", newline="\n") as f:
            f.writelines(token + "\n" for token in vocab)
else:
    TRIAX, data, work = sys.argv[1:4]
    compare("English", texts_of(os.path.join(data, "tiny", "tiny-corpus.jsonl")), work)
    # private-use characters and young scripts are read differently by design
    known = lambda t: not any("\ue000" <= c <= "\uf8ff" or "\U00010000" <= c < "\U0001f000" or c > "\U000e0000" for c in t)
    compare("all kinds", [t for t in texts_of(os.path.join(data, "token", "bert_cases.jsonl")) if known(t)], work)
