"""Encodes the same text with bench/tokenize and with other tokenizers, in turn, and prints ratios of medians.

    python tokenize_peers.py TOKENIZE VOCAB MERGES TEXT [--threads N] [--rounds N] [--peers NAME ...]
    python tokenize_peers.py TOKENIZE MODEL - TEXT ...

TOKENIZE is the program that `make bench` builds. Peers are those of Hugging Face tokenizers, tiktoken and gigatoken that
this Python has, for a SentencePiece MODEL (unigram or BPE) sentencepiece and tokenizers; each gets the documents that bench/tokenize.c cuts, by the fastest call that gives ids. Every
measurement is a fresh process (so nothing is remembered from earlier text), in the order A B C A B C ...: what else the
machine does falls on all alike. "cold" is the first pass over the text, "again" a second one in the same process.
Loading the vocabulary and reading the text are not in the figures, of none of them.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

SPLIT = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
DOCUMENT = 64 << 10  # as in tokenize.c


def documents(path):
    with open(path, "rb") as f:
        text = f.read()
    docs, at = [], 0
    while at < len(text):
        end = text.find(b"\n", at + DOCUMENT - 1) + 1
        end = end or len(text)
        docs.append(text[at:end].decode("utf-8", errors="strict"))
        at = end
    return docs


def gpt2_ranks(vocab_file):
    """token bytes -> id, which is tiktoken's notion of a rank: GPT-2's ids are in the order of its merges."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in visible}
    byte_of |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in visible)}
    with open(vocab_file, encoding="utf-8") as f:
        return {bytes(byte_of[c] for c in token): i for token, i in json.load(f).items() if token != "<|endoftext|>"}


def with_threads(encode, threads):
    from concurrent.futures import ThreadPoolExecutor
    if threads == 1:
        return lambda docs: [encode(d) for d in docs]
    pool = ThreadPoolExecutor(threads)
    return lambda docs: list(pool.map(encode, docs))


def hf_tokenizer(vocab, merges):
    from tokenizers import Tokenizer, models, pre_tokenizers
    t = Tokenizer(models.BPE.from_file(vocab, merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return t


def total(out):
    return sum(len(ids) for ids in out)


# Each: text of all documents to ids, and the number of ids in what that returns.

def tokenizers(vocab, merges, threads):
    return hf_tokenizer(vocab, merges).encode_batch_fast, total  # threads: RAYON_NUM_THREADS


def tiktoken(vocab, merges, threads):
    import tiktoken
    e = tiktoken.Encoding("gpt2-local", pat_str=SPLIT, mergeable_ranks=gpt2_ranks(vocab), special_tokens={"<|endoftext|>": 50256})
    return with_threads(lambda d: e.encode_to_numpy(d, disallowed_special=()), threads), total


def gigatoken(vocab, merges, threads):
    import awkward
    import gigatoken as g
    t = g.Tokenizer(hf_tokenizer(vocab, merges))
    return lambda docs: t.encode_batch(docs, parallel=threads > 1), lambda out: int(awkward.count(out))


def sentencepiece(model, _, threads):
    import sentencepiece as spm
    sp = spm.SentencePieceProcessor(model_file=model)
    return lambda docs: sp.encode(docs, num_threads=threads), total


def sentencepiece_in_tokenizers(model, _, threads):
    from sentencepiece import sentencepiece_model_pb2 as pb
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
    m = pb.ModelProto()
    with open(model, "rb") as f:
        m.ParseFromString(f.read())
    fallback, pieces = m.trainer_spec.byte_fallback, [(p.piece, p.score) for p in m.pieces]
    if m.trainer_spec.model_type == 1:
        t = Tokenizer(models.Unigram(pieces, m.trainer_spec.unk_id, fallback))
    else:
        score = dict(pieces)
        merges = [(p[:i], p[i:], s) for p, s in pieces for i in range(1, len(p)) if p[:i] in score and p[i:] in score]
        merges.sort(key=lambda x: -x[2])
        t = Tokenizer(models.BPE({p: i for i, (p, _) in enumerate(pieces)}, [x[:2] for x in merges], unk_token="<unk>", fuse_unk=True,
                                 byte_fallback=fallback))
    steps = [normalizers.Precompiled(m.normalizer_spec.precompiled_charsmap)] if m.normalizer_spec.precompiled_charsmap else []
    t.normalizer = normalizers.Sequence(steps + [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    return t.encode_batch_fast, total


PEERS = {"tokenizers": tokenizers, "tiktoken": tiktoken, "gigatoken": gigatoken}
MODEL_PEERS = {"tokenizers": sentencepiece_in_tokenizers, "sentencepiece": sentencepiece}


def peers_of(a):
    return MODEL_PEERS if a.merges == "-" else PEERS


def measure_peer(name, a):
    """In a process of its own: prints what tokenize.c prints."""
    encode, count = peers_of(a)[name](a.vocab, a.merges, a.threads)
    docs = documents(a.text)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        out = encode(docs)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"mb": os.path.getsize(a.text) / 1e6, "ids": count(out), "cold_s": seconds[0], "again_s": seconds[1]}))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "vocab", "merges", "text"):
        p.add_argument(name)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--peers", nargs="+", choices=[*PEERS, "sentencepiece"])
    p.add_argument("--peer", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.peer:
        return measure_peer(a.peer, a)

    threads = str(a.threads)
    env = os.environ | {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true", "OMP_NUM_THREADS": threads}
    commands = {"triax": [a.program, a.vocab, a.merges, a.text, threads]}
    for name in a.peers or peers_of(a):
        if importlib.util.find_spec(name):
            commands[name] = [sys.executable, *sys.argv, "--peer", name]
        else:
            print(f"not installed, left out: {name}")
    runs = {name: [] for name in commands}
    for _ in range(a.rounds):
        for name in list(commands):
            done = subprocess.run(commands[name], env=env, capture_output=True, text=True)
            if done.returncode:
                print(f"failed, left out: {name}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
                del commands[name]
                runs.pop(name)
                continue
            runs[name].append(json.loads(done.stdout.splitlines()[-1]))
    if "triax" not in runs:
        sys.exit(1)

    ours = runs["triax"]
    print(f"{ours[0]['mb']:.1f} MB, {threads} thread(s), {a.rounds} rounds; MB/s: median (least to most); triax / peer: ratio of medians")
    for kind in ("cold_s", "again_s"):
        best = statistics.median(r["mb"] / r[kind] for r in ours)
        for name, rs in runs.items():
            rates = [r["mb"] / r[kind] for r in rs]
            mid = statistics.median(rates)
            same = "" if rs[0]["ids"] == ours[0]["ids"] else f"  {rs[0]['ids']} ids, triax {ours[0]['ids']}"
            print(f"{kind[:-2]:6} {name:11} {mid:8.1f} ({min(rates):.1f} to {max(rates):.1f})  {best / mid:6.2f}{same}")


if __name__ == "__main__":
    main()
