"""Learns the same vocabulary with triax and with Hugging Face's trainer, in turn, and prints ratios of medians and peak memory.

JSON lines with a member "text" in; both read, parse, count, learn and write their files, each run in a process of its own.
Both get THREADS threads. Usage: train_tokenizer_peers.py TRIAX FILE.jsonl [bpe|wordpiece] [SIZE 50000] [THREADS 2] [ROUNDS 3]
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

PEER = """
import json, sys
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
kind, path, size, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
def texts():
    for line in open(path, encoding="utf-8"):
        yield json.loads(line)["text"]
if kind == "bpe":
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
else:
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=size, min_frequency=2, limit_alphabet=1000,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)
t.train_from_iterator(texts(), trainer)
t.model.save(out)
"""


def run(command, threads):
    """Seconds of clock and of processors, and MiB at the peak."""
    start = time.monotonic()
    env = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true")
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{command[0]} failed")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    triax, path, kind, size, threads, rounds = (sys.argv[1:] + ["bpe", "50000", "2", "3"][len(sys.argv) - 3 :])[:6]
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        what = "GPT2BPETokenizer" if kind == "bpe" else "BertWordPieceLowerCase"
        ours = [triax, "train-tokenizer", "--tokenizer-type", what, "--input", path, "--vocab-size", size, "--workers", threads, "--output-dir", a]
        theirs = [sys.executable, "-c", PEER, kind, path, size, b]
        times = {"triax": [], "Hugging Face": []}
        for i in range(int(rounds)):
            for name, command in (("triax", ours), ("Hugging Face", theirs)):
                times[name].append(run(command, threads))
                print(f"round {i + 1}: {name:12} %6.1f s clock  %6.1f s processors  %5.0f MiB" % times[name][-1], flush=True)
        if kind == "bpe":
            same = open(f"{a}/merges.txt", "rb").read() == open(f"{b}/merges.txt", "rb").read()
            print("the merges are", "the same" if same else "DIFFERENT")
        median = {name: [statistics.median(x) for x in zip(*runs)] for name, runs in times.items()}
        for i, unit in enumerate(("clock", "processors", "peak memory")):
            print(f"{unit}: Hugging Face / triax = {median['Hugging Face'][i] / median['triax'][i]:.2f}")


main()
