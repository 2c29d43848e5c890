# make.py GPT.jsonl BERT.jsonl >SUMS: sha256 of the files that DeepSpeed's DataAnalyzer writes of samples, with the metrics of
# Megatron-DeepSpeed's examples_deepspeed/data_efficiency/analyze_data.py, which are written out here: that program's own
# script stops in its data type check with this DeepSpeed (it gives numpy's int64, and the values are torch's), and with numpy 2
# it adds the frequencies up in their own narrow type. The samples, one epoch of each:
#
#   triax inspect-samples --seq-length 512 --split 949,50,1 --micro-batch-size 1 --train-iters 1 --eval-iters 0 \
#       --data-efficiency-curriculum-learning --curriculum-metrics {} --num-samples 100000 \
#       --data-path tiny_text_document --vocab-file tiny-vocab.json --merge-file tiny-merges.txt >GPT.jsonl
#   ... --model-type BERT --mask-prob 0 --seq-length 64 --data-path tinybert_text_document --vocab-file tiny-bert-vocab.txt
#       >BERT.jsonl                                 and --make-vocab-size-divisible-by 8 of analyze-data
import contextlib
import hashlib
import io
import json
import logging
import math
import os
import sys
import tempfile

import numpy as np
import torch
import deepspeed
from deepspeed.runtime.data_pipeline.data_sampling.data_analyzer import DataAnalyzer
from deepspeed.runtime.data_pipeline.data_sampling.indexed_dataset import MMapIndexedDataset

logging.disable(logging.CRITICAL)
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29519")


class Samples(torch.utils.data.Dataset):
    def __init__(self, path, length):
        self.rows = []
        for line in open(path):
            tokens = json.loads(line)["tokens"]
            n = min(len(tokens), next((i for i in range(1, len(tokens)) if tokens[i] == 0), length)) if length else len(tokens)
            self.rows.append((tokens[:n], length or n))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        tokens, length = self.rows[i]
        fill = [0] * (length - len(tokens))
        return {"text": np.array(tokens + fill, dtype=np.int64), "index": np.array([i], dtype=np.int64),
                "padding_mask": np.array([1] * len(tokens) + fill, dtype=np.int64)}


def analyze(samples, vocabulary, metrics, save, length):
    rarity, weight = None, 0

    def frequency(data):
        return torch.bincount(data["text"].view(-1), minlength=vocabulary + 1,
                              weights=data["padding_mask"].view(-1).double()).to(torch.int64)

    def seqlen(data):
        return torch.count_nonzero(data["padding_mask"], dim=1)

    def vocab_rarity(data):
        return torch.sum(data["padding_mask"] * rarity[data["text"]], dim=1).to(torch.long)

    def both(data):
        return seqlen(data) * weight + vocab_rarity(data)

    functions = {"total_vocab_freq": frequency, "vocab_rarity": vocab_rarity, "seqlen": seqlen, "seqlen_vocab_rarity": both}
    for name in metrics:
        if name in ("vocab_rarity", "seqlen_vocab_rarity"):
            file = MMapIndexedDataset(f"{save}/total_vocab_freq/total_vocab_freq_metric_value", skip_warmup=True)
            total = np.copy(file[0]).astype(np.int64)
            total[total == 0] = 1
            rarity = torch.tensor(np.log(total / total.sum()) * -1, dtype=torch.double)
            weight = 10 ** (math.ceil(math.log(length * torch.max(rarity).item(), 10)) + 1)
        kind = "accumulate_value_over_samples" if name == "total_vocab_freq" else "single_value_per_sample"
        DataAnalyzer(samples, batch_size=100, metric_names=[name], metric_functions=[functions[name]], metric_types=[kind],
                     metric_dtypes=[torch.int64], save_path=save).run_map_reduce()


deepspeed.init_distributed("gloo", verbose=False)
with tempfile.TemporaryDirectory() as folder:
    with contextlib.redirect_stdout(io.StringIO()):
        analyze(Samples(sys.argv[1], 0), 512, ["total_vocab_freq", "vocab_rarity"], folder + "/gpt", 512)
        analyze(Samples(sys.argv[2], 64), 1008,
                ["total_vocab_freq", "seqlen", "vocab_rarity", "seqlen_vocab_rarity"], folder + "/bert", 64)
    for root, folders, names in sorted(os.walk(folder)):
        for name in sorted(names):
            path = os.path.join(root, name)
            if "/worker" not in path and "_thread" not in name:
                print(hashlib.sha256(open(path, "rb").read()).hexdigest() + "  " + os.path.relpath(path, folder))
