"""Encodes the same text with bench/tokenize_any and with the library that a kind of tokenizer comes from, on one thread, in turn.

    python tokenize_any_peers.py TOKENIZE_ANY TEXT [--rounds N] [--size TOKENS] [--only NAME]

The tokenizers are those of tests/peer/json_kinds.py, trained on TEXT, and TEXT's vocabulary for tiktoken. Every measurement is a fresh
process, A B A B ...; printed are medians in MB/s, of a first pass and of a second one, and their ratios. Loading is not in the figures.
"""
import argparse
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "peer"))
DOCUMENT = 64 << 10
KINDS = ("llama 2", "mistral v3", "gemma", "clip", "gpt-1", "bert", "words 0", "t5", "xlm-r", "albert", "unigram, bytes", "bytes after an unknown expression")
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"


def documents(path):
    with open(path, "rb") as f:
        text = f.read()
    docs, at = [], 0
    while at < len(text):
        end = text.find(b"\n", at + DOCUMENT - 1) + 1 or len(text)
        docs.append(text[at:end].decode())
        at = end
    return docs, len(text)


def peer(path, text):
    docs, n = documents(text)
    if path.endswith(".tiktoken"):
        import tiktoken

        ranks = {base64.b64decode(a): int(b) for a, b in (x.split() for x in open(path, encoding="ascii"))}
        t = tiktoken.Encoding("peer", pat_str=CL100K, mergeable_ranks=ranks, special_tokens={})
        encode = lambda: sum(len(t.encode_ordinary(x)) for x in docs)
    else:
        from tokenizers import Tokenizer

        t = Tokenizer.from_file(path)
        encode = lambda: sum(len(e.ids) for e in t.encode_batch_fast(docs))
    out = {}
    for name in ("cold", "again"):
        start = time.perf_counter()
        out["ids"] = encode()
        out[name] = n / 1e6 / (time.perf_counter() - start)
    print(json.dumps(out))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("text")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--size", type=int, default=8000)
    p.add_argument("--only", default="")
    p.add_argument("--peer")
    a = p.parse_args()
    if a.peer:
        peer(a.peer, a.text)
        return
    from json_kinds import kinds
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    lines = open(a.text, encoding="utf-8").read().splitlines()
    env = os.environ | {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as work:
        files = []
        for name, make in kinds(lines, a.size):
            if name in KINDS and a.only in name:
                files.append((name, os.path.join(work, name.replace(" ", "-") + ".json")))
                make().save(files[-1][1])
        if a.only in "tiktoken":
            t = Tokenizer(models.BPE())
            t.pre_tokenizer = pre_tokenizers.ByteLevel(False)
            t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=a.size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
            latin = [*range(33, 127), *range(161, 173), *range(174, 256)]
            symbol = {chr(b): b for b in latin} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in latin)}
            files.append(("tiktoken, cl100k", os.path.join(work, "v.tiktoken")))
            with open(files[-1][1], "w", encoding="ascii") as f:
                for token, i in sorted(t.get_vocab().items(), key=lambda x: x[1]):
                    f.write(base64.b64encode(bytes(symbol[c] for c in token)).decode() + f" {i}\n")
        print(f"{'':34} {'triax':>7} {'peer':>7} {'ratio':>6}   again {'triax':>7} {'peer':>7} {'ratio':>6}")
        for name, path in files:
            commands = ([a.program, path, a.text] + (["cl100k"] if path.endswith("tiktoken") else []), [sys.executable, sys.argv[0], a.program, a.text, "--peer", path])
            got = ([], [])
            for _ in range(a.rounds):
                for command, rows in zip(commands, got):
                    rows.append(json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout))
            assert {x["ids"] for x in got[0]} == {x["ids"] for x in got[1]}, f"{name}: other ids"
            m = {k: [statistics.median(x[k] for x in rows) for rows in got] for k in ("cold", "again")}
            (c, d), (e, f) = m["cold"], m["again"]
            print(f"{name:34} {c:7.1f} {d:7.1f} {c / d:6.1f}         {e:7.1f} {f:7.1f} {e / f:6.1f}", flush=True)


main()
