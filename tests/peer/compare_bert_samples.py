"""Compares BERT's samples with the rules of Megatron's build_training_sample, drawn by NumPy's own RandomState.

The tests hold samples of Megatron itself for one setting; this goes through others: without the binary head, other shares
of masking, short samples, seeds. The sentences of a sample are taken from triax, their mapping is in the stored ones.
Usage: compare_bert_samples.py TRIAX DATASET VOCAB
"""
import json
import struct
import subprocess
import sys

import numpy as np

TRIAX, DATASET, VOCAB = sys.argv[1:4]
words = open(VOCAB).read().split("\n")[:-1] + ["[BOS]", "[EOS]"]
CLS, SEP, MASK = (words.index(w) for w in ("[CLS]", "[SEP]", "[MASK]"))
index = open(DATASET + ".idx", "rb").read()
n_items = struct.unpack_from("<Q", index, 18)[0]
sizes = np.frombuffer(index, "<i4", n_items, 34)
ends = np.cumsum(sizes)
ids = np.frombuffer(open(DATASET + ".bin", "rb").read(), "<u2")


def build(sentences, target, seed, prob, head):
    rng = np.random.RandomState(seed % 2**32)
    a, b, swapped = sentences, [], False
    if head:
        end = rng.randint(1, len(sentences)) if len(sentences) >= 3 else 1
        a, b = sentences[:end], sentences[end:]
        swapped = bool(rng.random() < 0.5)
    a, b = [t for s in a for t in s], [t for s in b for t in s]
    if swapped:
        a, b = b, a
    truncated = len(a) + len(b) > target
    while len(a) + len(b) > target:
        longer = a if len(a) > len(b) else b
        longer.pop(0 if rng.random() < 0.5 else -1)
    tokens = [CLS] + a + [SEP] + (b + [SEP] if b else [])
    types = [0] * (len(a) + 2) + ([1] * (len(b) + 1) if b else [])
    candidates = []
    for i, t in enumerate(tokens):
        if t in (CLS, SEP):
            continue
        if candidates and words[t].startswith("##"):
            candidates[-1].append(i)
        else:
            candidates.append([i])
    n_predict = min(prob * target, max(1, int(round(len(tokens) * prob))))
    p = 1.0 / np.arange(1, 4)
    p /= p.sum(keepdims=True)
    grams = [[candidates[i : i + n] for n in (1, 2, 3)] for i in range(len(candidates))]
    rng.shuffle(grams)
    out, masked = list(tokens), {}
    for gram in grams:
        if len(masked) >= n_predict:
            break
        n = rng.choice([1, 2, 3], p=p / p.sum(keepdims=True))
        while n > 1 and len(masked) + len(sum(gram[n - 1], [])) > n_predict:
            n -= 1
        where = sum(gram[n - 1], [])
        if len(masked) + len(where) > n_predict or any(i in masked for i in where):
            continue
        for i in where:
            masked[i] = tokens[i]
            if rng.random() < 0.8:
                out[i] = MASK
            elif not rng.random() < 0.5:
                out[i] = int(rng.randint(0, len(words)))
    return out, types, sorted(masked.items()), swapped, truncated


n_samples = 0
for seed, seq, prob, short, head in [(1234, 64, 0.15, 0.1, True), (1234, 64, 0.15, 0.1, False), (7, 128, 0.3, 0.5, True),
                                     (99, 33, 0.07, 1, True), (2147483647, 512, 0.15, 0, False), (3, 9, 0.5, 0.3, True)]:
    run = [TRIAX, "inspect-samples", "--model-type", "BERT", "--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", VOCAB,
           "--data-path", DATASET, "--split", "1,0,0", "--seed", str(seed), "--seq-length", str(seq), "--mask-prob", str(prob),
           "--short-seq-prob", str(short), "--train-samples", "3000", "--global-batch-size", "1", "--num-samples", "500"]
    lines = subprocess.run(run + ([] if head else ["--bert-no-binary-head"]), check=True, capture_output=True).stdout.splitlines()
    assert len(lines) == 500
    for i, line in enumerate(lines):
        s = json.loads(line)
        first = s["first_sentence"]
        sentences = [ids[ends[k] - sizes[k] : ends[k]].tolist() for k in range(first, first + s["sentences"])]
        out, types, masked, swapped, truncated = build(sentences, s["target_length"], seed + i, prob, head)
        pad = [0] * (seq - len(out))
        want = out + pad, types + pad, [{"position": k, "label": t} for k, t in masked], len(pad), swapped, truncated
        got = s["tokens"], s["types"], s["masked"], s["padding"], s["is_random"], s["truncated"]
        assert got == want, f"seed {seed}, sequence {seq}, sample {i}:\n{got}\n{want}"
        n_samples += 1
print(f"{n_samples} samples of BERT as NumPy draws them")
