"""Compares triax's TikTokenizer with tiktoken: GPT-2's vocabulary as a file of lines and as Megatron Core's JSON list, with each pattern.

Usage: compare_tiktoken.py TRIAX DATA WORKDIR [STRINGS [SEED]]      STRINGS: random ones for each pattern
"""
import base64
import json
import os
import random
import subprocess
import sys

import tiktoken
from json_kinds import random_text, words

TRIAX, DATA, WORK = sys.argv[1:4]
STRINGS = int(sys.argv[4]) if len(sys.argv) > 4 else 5000
rng = random.Random(int(sys.argv[5]) if len(sys.argv) > 5 else 3)
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UP, LOW, BEFORE, SPACE = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[^\r\n\p{L}\p{N}]?", r"|\s*[\r\n]+|\s+(?!\S)|\s+"
R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
PATTERNS = {
    "v1": r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "v2": f"{BEFORE}{UP}*{LOW}+|{BEFORE}{UP}+{LOW}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACE,
    "r50k": R50K, "p50k": R50K,
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": f"{BEFORE}{UP}*{LOW}+{SUFFIX}?|{BEFORE}{UP}+{LOW}*{SUFFIX}?" + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACE,
    "llama3": SUFFIX + "|" + BEFORE + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACE,
    "qwen2": SUFFIX + "|" + BEFORE + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACE}
words += ["<SPECIAL_7>", "<unk>", "</s>", "<|fim|>", "a\n  ", " \n", "\n\n  "]


def triax(command, path, flags, lines):
    done = subprocess.run([TRIAX, command, "--tokenizer-type", "TikTokenizer", "--tokenizer-model", path, *flags],
                          input="".join(x + "\n" for x in lines).encode(), capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return done.stdout


def compare(what, path, flags, peer):
    texts = [random_text(rng) for _ in range(STRINGS)] + cases
    ours = [json.loads(x) for x in triax("tokenize", path, flags, [json.dumps({"text": x}) for x in texts]).splitlines()]
    theirs = [peer.encode(x, allowed_special="all") for x in texts]
    wrong = [(t, a, b) for t, a, b in zip(texts, ours, theirs) if a != b]
    print(f"{what}: {len(wrong)} of {len(texts)} differ", flush=True)
    if wrong:
        sys.exit("the first: %a\ntriax %s\npeer  %s" % min(wrong, key=lambda w: len(w[0])))
    some = [x for x in theirs[:2000] if x]
    got, want = triax("detokenize", path, flags, [json.dumps(x) for x in some]), b"".join(peer.decode_bytes(x) + b"\n" for x in some)
    if got != want:
        sys.exit(f"{what}: other text")


with open(os.path.join(DATA, "token", "gpt2-vocab.json"), encoding="utf-8") as f:
    vocab = json.load(f)
with open(os.path.join(DATA, "token", "gpt2_cases.jsonl"), encoding="utf-8") as f:
    cases = [json.loads(x)["text"] for x in f]
cases = [x for x in cases if not any(0xD800 <= ord(c) < 0xE000 for c in x)]
latin = [*range(33, 127), *range(161, 173), *range(174, 256)]
symbol = {chr(b): b for b in latin}
symbol.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in latin)})
ranks = {bytes(symbol[c] for c in token): i for token, i in vocab.items() if token != "<|endoftext|>"}
lines, core = os.path.join(WORK, "gpt2.tiktoken"), os.path.join(WORK, "core.json")
with open(lines, "w", encoding="ascii") as f:
    for token, rank in ranks.items():
        f.write(f"{base64.b64encode(token).decode()} {rank}\n")
ordered = [bytes([b]) for b in range(256)] + [x for x in sorted(ranks, key=ranks.get) if len(x) > 1]
with open(core, "w", encoding="ascii") as f:
    json.dump([{"rank": i, "token_bytes": base64.b64encode(x).decode(), "token_str": x.decode(errors="replace")} for i, x in enumerate(ordered)], f)
NAMES = ["<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"]
for name, pattern in PATTERNS.items():
    peer = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    compare(f"lines, {name}", lines, ["--tiktoken-pattern", name], peer)
for n, size, pattern in ((1000, 51000, "v2"), (10, 30000, "v1")):
    special = {x: i for i, x in enumerate(NAMES + [f"<SPECIAL_{i}>" for i in range(len(NAMES), n)])}
    peer = tiktoken.Encoding("core", pat_str=PATTERNS[pattern], mergeable_ranks={x: i + n for i, x in enumerate(ordered[: size - n])}, special_tokens=special)
    compare(f"Megatron Core's, {n} special of {size}", core, ["--tiktoken-pattern", pattern, "--tiktoken-num-special-tokens", str(n), "--vocab-size", str(size)], peer)
peer = tiktoken.Encoding("named", pat_str=R50K, mergeable_ranks=ranks, special_tokens={"<|fim|>": 50256, "a b": 50257})
compare("lines, named special tokens", lines, ["--tiktoken-pattern", "r50k", "--tiktoken-special-tokens", "<|fim|>", "a b"], peer)
