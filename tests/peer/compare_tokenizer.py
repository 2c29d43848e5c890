"""Compares triax's GPT-2 ids with Hugging Face tokenizers' on random strings over all planes.

The peer's tables are Unicode 16.0's (tokenizers 0.23). Usage: compare_tokenizer.py TRIAX VOCAB MERGES
"""
import json
import random
import subprocess
import sys

from tokenizers import Tokenizer, models, pre_tokenizers

TRIAX, VOCAB, MERGES = sys.argv[1:4]
N = 100000
rng = random.Random(7)
every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
dense = [c for c in every if ord(c) < 0x3000 or 0x10000 <= ord(c) < 0x1F000 or 0x2E000 <= ord(c) < 0x2F000]
spaces = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000"
pieces = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", " the", "hello", "123", "  ", "\n\n", "...", " '", "<|endoftext|>"]


def text():
    out = []
    for _ in range(rng.randint(1, 30)):
        kind = rng.random()
        source = spaces if kind < 0.15 else pieces if kind < 0.4 else every[:0x3000] if kind < 0.7 else dense if kind < 0.85 else every
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
