"""TensorBoard reads triax's event files: every value of the log is there, under Megatron's tags, also after resuming."""
import json
import math
import re
import subprocess
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

triax, data, work = sys.argv[1:]


def train(name, *more):
    command = [triax, "pretrain-gpt", "--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "2", "--seq-length", "16",
               "--max-position-embeddings", "32", "--micro-batch-size", "2", "--global-batch-size", "4", "--lr", "1e-3",
               "--lr-decay-style", "cosine", "--lr-warmup-fraction", "0.2", "--train-iters", "10", "--log-interval", "1",
               "--eval-interval", "5", "--eval-iters", "2", "--vocab-file", f"{data}/tiny/tiny-vocab.json",
               "--merge-file", f"{data}/tiny/tiny-merges.txt", "--data-path", f"{data}/dataset/tiny_text_document",
               "--split", "8,1,1", "--log-params-norm", "--log-num-zeros-in-grad", "--tensorboard-dir", f"{work}/{name}", *more]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read(name):
    events = EventAccumulator(f"{work}/{name}", size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


def scalars(events, tag):
    return [(e.step, e.value) for e in events.Scalars(tag)]


def from_log(log, field):
    return [(int(m[1]), float(m[2])) for m in re.finditer(rf"^ iteration +(\d+)/.*\| {field}: +([0-9.E+-]+) \|", log, re.M)]


def equal(got, expect, what, digits):
    assert len(got) == len(expect) > 0, f"{what}: {len(got)} values, {len(expect)} in the log"
    for (step, a), (at, b) in zip(got, expect):
        assert step == at and math.isclose(a, b, rel_tol=10.0 ** -digits, abs_tol=10.0 ** -digits), f"{what}: {step}: {a}, {at}: {b}"


def compare(name, log, prefix, tokens):
    """prefix: what stands before the tags of losses, rates and so on."""
    events = read(name)
    tags = set(events.Tags()["scalars"])
    n = 0
    for group, tag, field, digits in [("lm-loss-training", "lm loss", "lm loss", 6), ("learning-rate", "learning-rate", "learning rate", 3),
                                      ("grad-norm", "grad-norm", "grad norm", 3), ("params-norm", "params-norm", "params norm", 3),
                                      ("num-zeros", "num-zeros", "num zeros", 1)]:
        tag = prefix(group) + tag
        expect = from_log(log, field)
        equal(scalars(events, tag), expect, tag, digits)
        equal(scalars(events, tag + " vs samples"), [(4 * i, x) for i, x in expect], tag, digits)
        assert (tag + " vs tokens" in tags) == tokens
        if tokens:
            equal(scalars(events, tag + " vs tokens"), [(64 * i, x) for i, x in expect], tag, digits)
        n += len(expect)
    expect = [(int(m[1]), float(m[2])) for m in re.finditer(r"^ validation loss at iteration (\d+) .*?value: ([0-9.E+-]+)", log, re.M)]
    tests = expect[-1:]  # the last line is of the test set
    equal(scalars(events, prefix("lm-loss-validation") + "lm loss validation"), expect[:-1], "validation", 6)
    equal(scalars(events, prefix("lm-loss-validation") + "lm loss test"), tests, "test", 6)
    text = events.Tensors("hidden_size/text_summary")[0].tensor_proto.string_val[0]
    assert text == b"32", text
    return n + len(expect)


n = compare("lm", train("lm"), lambda group: "", False)
log = train("ds", "--log-dialect", "megatron-deepspeed", "--log-validation-ppl-to-tensorboard", "--log-timers-to-tensorboard",
            "--log-batch-size-to-tensorboard", "--log-memory-to-tensorboard", "--log-world-size-to-tensorboard",
            "--log-optimizer-states-to-tensorboard")
n += compare("ds", log, lambda group: group + "/", True)
ds = read("ds")
loss, ppl = (scalars(ds, f"lm-loss-validation/lm loss validation{x}") for x in ("", " ppl"))
equal(ppl, [(i, math.exp(x)) for i, x in loss], "ppl", 4)
elapsed = [(i, ms / 1e3) for i, ms in from_log(log, r"elapsed time per iteration \(ms\)")]
equal(scalars(ds, "iteration-time/iteration-time"), elapsed, "iteration-time", 3)
equal(scalars(ds, "optimizer/weight_l2 vs tokens"), [(64 * i, x) for i, x in from_log(log, "params norm")], "weight_l2", 3)
for tag in ["batch-size/batch-size", "optimizer/variance_l2", "optimizer/momentum_abs_max", "peak-share/peak-share", "world-size/world-size", "mem-allocated-bytes", "mem-reserved-bytes", "forward-backward-time",
            "optimizer-time", "steps-vs-tokens/y=steps,x=tokens"]:
    assert len(scalars(ds, tag)) == 10, tag

# a stopped run and its second half are two files that TensorBoard shows as one run
first = train("two", "--save", f"{work}/c", "--save-interval", "100", "--exit-interval", "5")
second = train("two", "--save", f"{work}/c", "--load", f"{work}/c", "--save-interval", "100")
paths = subprocess.run(["ls", f"{work}/two"], capture_output=True, text=True).stdout.split()
assert len(paths) == 2, paths
got = sorted(sum((scalars(read(f"two/{p}"), "lm loss") for p in paths), []))
equal(got, from_log(first, "lm loss") + from_log(second, "lm loss"), "a resumed run", 6)

# the metrics file tells the same
steps = [json.loads(line) for line in open(f"{work}/c/metrics.jsonl")]
equal([(s["iteration"], s["loss"]) for s in steps if s["kind"] == "step"], got, "metrics.jsonl", 6)
print(f"TensorBoard reads {n} values as the log has them")
