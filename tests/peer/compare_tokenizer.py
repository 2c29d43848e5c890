"""Compares triax's GPT-2 ids with Hugging Face tokenizers' on random strings over all planes.

Characters that this Python does not know are left out: younger Unicode versions class them differently from each other.
Usage: compare_tokenizer.py TRIAX VOCAB MERGES
"""
import json
import random
import subprocess
import sys
import unicodedata

from tokenizers import Tokenizer, models, pre_tokenizers

TRIAX, VOCAB, MERGES = sys.argv[1:4]
N = 20000
rng = random.Random(7)
known = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs")]
common = [c for c in known if ord(c) < 0x3000]
spaces = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000"
pieces = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", " the", "hello", "123", "  ", "\n\n", "...", " '", "<|endoftext|>"]


def text():
    out = []
    for _ in range(rng.randint(1, 30)):
        kind = rng.random()
        source = spaces if kind < 0.15 else pieces if kind < 0.4 else common if kind < 0.8 else known
        out.append(rng.choice(source))
    return "".join(out)


texts = [text() for _ in range(N)]
peer = Tokenizer(models.BPE.from_file(VOCAB, MERGES))
peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
lines = "".join(json.dumps({"text": t}) + "\n" for t in texts)
done = subprocess.run([TRIAX, "tokenize", "--vocab-file", VOCAB, "--merge-file", MERGES], input=lines.encode(), capture_output=True)
if done.returncode:
    sys.exit(done.stderr.decode())
ours = [json.loads(x) for x in done.stdout.splitlines()]
assert len(ours) == N, f"{len(ours)} lines came back"
wrong = [t for t, a, b in zip(texts, ours, peer.encode_batch(texts)) if a != b.ids]
print(f"{len(wrong)} of {N} differ")
if wrong:
    sys.exit(f"the first: {wrong[0]!r}")
