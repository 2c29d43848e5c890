"""Training steps of triax, PyTorch (eager and compiled) and llm.c, in turn, as ratios of medians.

Every program stays in memory and runs a few steps when it is its turn: A B C A B C ... A turn during which other processes took
more than 2 % of the processors (--others 0.02) is thrown away and repeated. PyTorch is the better of eager and torch.compile, with its fused
attention and AdamW; --dtype bf16 is autocast there. --llmc FILE is llm.c's train_gpt2.c, which is compiled here with
-O3 -march=native -fopenmp and takes part in fp32 without dropout.
Usage: train_peers.py BENCH_TRAIN [--threads 2] [--rounds 5] [--seconds 4] [--no-compile] [--llmc FILE] [--dtype fp32|bf16] [--dropout P] [--bert|--mixtral] [--others SHARE]
                      [CASE ...]
A CASE is LAYERSxHIDDENxHEADSxVOCABULARYxSEQUENCExBATCH; without one: GPT-2 124M at 4x64, 4x256, 1x1024, 4x1024, and a 10M
model at batches of 12 and 64. --bert trains a BERT instead, next to transformers' BertForPreTraining, which computes logits of
all tokens; without a CASE it has 110M (base) at 8x128 and 2x512, and 11M at 32x128. --mixtral trains one of 8 experts, of which a
token has 2, next to transformers' MixtralForCausalLM; of experts 4/3 as wide as the model, 124M parameters are active at GPT-2's sizes.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

CASES = {"GPT": ["12x768x12x50257x64x4", "12x768x12x50257x256x4", "12x768x12x50257x1024x1", "12x768x12x50257x1024x4",
                 "6x384x6x65x256x12", "6x384x6x65x256x64"],
         "BERT": ["12x768x12x30522x128x8", "12x768x12x30522x512x2", "4x256x4x30522x128x32"],
         "Mixtral": ["12x768x12x50257x64x4", "12x768x12x50257x256x4"]}

HERE = os.path.dirname(os.path.abspath(__file__))

# A peer makes a model and a batch, and the loss of a step.
PEER = """
import sys, time, torch
layers, hidden, heads, vocab, seq, batch, threads = map(int, sys.argv[1:8])
dtype, how, p = sys.argv[8], sys.argv[9], float(sys.argv[10])
torch.set_num_threads(threads)
torch.manual_seed(1)
MODEL
step = torch.compile(model) if how == "compiled" else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
def train():
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
        loss = LOSS
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
train()
print(0, flush=True)
for line in sys.stdin:
    n, start = int(line), time.perf_counter()
    for _ in range(n):
        train()
    print(1e3 * (time.perf_counter() - start) / n, flush=True)
"""


def peer(model, loss):
    return PEER.replace("MODEL", model.strip()).replace("LOSS", loss)


GPT_PEER = peer("""
from gpt_torch import GPT
model = GPT(layers, hidden, heads, vocab, seq, p)
ids = torch.randint(vocab, (batch, seq + 1))
""", "step(ids[:, :-1], ids[:, 1:])")

BERT_PEER = peer("""
from transformers import BertConfig, BertForPreTraining
model = BertForPreTraining(BertConfig(vocab_size=vocab, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                                      intermediate_size=4 * hidden, max_position_embeddings=seq, hidden_dropout_prob=p,
                                      attention_probs_dropout_prob=p, attn_implementation="sdpa")).train()
ids = torch.randint(vocab, (batch, seq))
types = (torch.arange(seq) >= seq // 2).long().repeat(batch, 1)
masked = torch.arange(seq) * int(0.15 * seq) // seq != (torch.arange(seq) + 1) * int(0.15 * seq) // seq
labels = torch.where(masked, ids, -100)
pair = torch.randint(2, (batch,))
""", "step(input_ids=ids, token_type_ids=types, labels=labels, next_sentence_label=pair).loss")

# "loop" is an expert after the other; otherwise they are as transformers has it, which is a grouped product.
MIXTRAL_PEER = peer("""
from transformers import MixtralConfig, MixtralForCausalLM
config = MixtralConfig(vocab_size=vocab, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                       num_key_value_heads=heads, intermediate_size=4 * hidden // 48 * 16, num_local_experts=8,
                       num_experts_per_tok=2, max_position_embeddings=seq, tie_word_embeddings=True, use_cache=False,
                       attn_implementation="sdpa")
if how == "loop":
    config._experts_implementation = "eager"
model = MixtralForCausalLM(config).train()
ids = torch.randint(vocab, (batch, seq))
""", "step(input_ids=ids, labels=ids).loss")
MIXTRAL_FLAGS = ("--swiglu --normalization RMSNorm --use-rotary-position-embeddings --disable-bias-linear --num-experts 8 "
                 "--moe-router-topk 2 --ffn-hidden-size {ffn}")
KINDS = {"GPT": GPT_PEER, "BERT": BERT_PEER, "Mixtral": MIXTRAL_PEER}

# llm.c's functions on random weights and tokens, which it otherwise reads from files.
LLMC = """
#define TESTING
#include LLMC_FILE
int main(int argc, char **argv)
{
    GPT2 m = { 0 };
    (void)argc;
    m.config = (GPT2Config){ .num_layers = atoi(argv[1]), .channels = atoi(argv[2]), .num_heads = atoi(argv[3]),
                             .vocab_size = atoi(argv[4]), .max_seq_len = atoi(argv[5]),
                             .padded_vocab_size = (atoi(argv[4]) + 127) / 128 * 128 };
    int t = atoi(argv[5]), b = atoi(argv[6]), step = 0;
    fill_in_parameter_sizes(m.param_sizes, m.config);
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) m.num_parameters += m.param_sizes[i];
    m.params_memory = malloc_and_point_parameters(&m.params, m.param_sizes);
    for (size_t i = 0; i < m.num_parameters; i++) m.params_memory[i] = ((float)rand() / (float)RAND_MAX - 0.5f) * 0.04f;
    int *in = malloc(sizeof(int) * (size_t)(b * t + 1));
    for (int i = 0; i <= b * t; i++) in[i] = rand() % (int)m.config.vocab_size;
    puts("0");
    fflush(stdout);
    for (int n; scanf("%d", &n) == 1;) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0; i < n; i++) {
            gpt2_forward(&m, in, in + 1, b, t);
            gpt2_zero_grad(&m);
            gpt2_backward(&m);
            gpt2_update(&m, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.01f, ++step);
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%f\\n", ((double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) * 1e-6) / n);
        fflush(stdout);
    }
    return 0;
}
"""


def build_llmc(source, folder):
    """Path of the compiled program."""
    path = os.path.join(folder, "llmc")
    with open(path + ".c", "w") as f:
        f.write(LLMC)
    subprocess.run(["cc", "-O3", "-march=native", "-fopenmp", "-DOMP", f'-DLLMC_FILE="{os.path.abspath(source)}"', path + ".c",
                    "-lm", "-o", path], check=True, stderr=subprocess.DEVNULL)
    return path


def processors():
    """Seconds all processors were busy since the machine started."""
    user, nice, system, _, _, irq, softirq = map(int, open("/proc/stat").readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Program:
    def __init__(self, name, command, threads):
        self.name, self.times, self.work = name, [], []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": HERE})
        first = self.process.stdout.readline()  # of triax the bytes that it planned
        self.alive = bool(first)
        self.planned = float(first or 0) / 1048576
        self.steps = 1

    def used(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def turn(self):
        """Milliseconds of a step, of it on processors, and the part of them that others took meanwhile."""
        start, busy, own = time.monotonic(), processors(), self.used()
        self.process.stdin.write(f"{self.steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        while not re.fullmatch(r"[0-9.]+\n", line):  # llm.c talks of other things, too
            line = self.process.stdout.readline()
        ms = float(line)
        own = self.used() - own
        others = processors() - busy - own
        return ms, 1e3 * own / self.steps, others / (time.monotonic() - start) / os.cpu_count()

    def peak(self):
        return next(int(line.split()[1]) / 1024 for line in open(f"/proc/{self.process.pid}/status") if line.startswith("VmHWM"))


def measure(case, a):
    size = case.split("x")
    flags = ["--threads", str(a.threads)] + (["--bf16"] if a.dtype == "bf16" else [])
    if a.dropout:
        flags += ["--hidden-dropout", str(a.dropout), "--attention-dropout", str(a.dropout)]
    if a.kind == "Mixtral":
        flags += MIXTRAL_FLAGS.format(ffn=4 * int(size[1]) // 48 * 16).split()
    programs = [Program("triax", [a.train, *size, *(["--bert"] if a.kind == "BERT" else []), *flags], a.threads)]
    for how in ["eager"] + (["compiled"] if a.compile else []) + (["loop"] if a.kind == "Mixtral" else []):
        programs.append(Program(how, [sys.executable, "-c", KINDS[a.kind], *size, str(a.threads), a.dtype, how, str(a.dropout)],
                                a.threads))
    if a.llmc and a.dtype == "fp32" and not a.dropout and a.kind == "GPT":
        programs.append(Program("llm.c", [a.llmc, *size], a.threads))
    programs = [p for p in programs if p.alive or print(f"{case}: {p.name} does not run here")]
    for p in programs:  # warm, and how many steps make a turn
        p.turn()
        p.steps = max(1, round(a.seconds * 1e3 / p.turn()[0]))
    thrown = 0
    while min(len(p.times) for p in programs) < a.rounds and thrown < 10 * a.rounds:
        for p in programs:
            ms, work, others = p.turn()
            if others > a.others:
                thrown += 1
            else:
                p.times.append(ms)
                p.work.append(work)
    if not all(p.times for p in programs):
        print(f"{case} {a.dtype}: other processes never left the machine alone")
        return
    median = {p.name: statistics.median(p.times) for p in programs}
    peers = {name: ms for name, ms in median.items() if name not in ("triax", "llm.c")}
    best = min(peers, key=peers.get)
    memory = {p.name: p.peak() for p in programs}
    work = {p.name: statistics.median(p.work) for p in programs}
    print(f"{'' if a.kind == 'GPT' else a.kind + ' '}{case} {a.dtype}: triax {median['triax']:.1f} ms, " + ", ".join(f"{n} {ms:.1f} ms" for n, ms in peers.items())
          + f"; {best} / triax = {peers[best] / median['triax']:.2f}, of processor time {work[best] / work['triax']:.2f}; peak memory {memory['triax']:.0f} MiB ({programs[0].planned:.0f} planned), {best} {memory[best]:.0f} MiB"
          + f", ratio {memory['triax'] / memory[best]:.2f}; {thrown} turns thrown away", flush=True)
    if "llm.c" in median:
        print(f"    llm.c {median['llm.c']:.0f} ms; llm.c / triax = {median['llm.c'] / median['triax']:.1f}", flush=True)
    for p in programs:
        p.process.stdin.close()
        p.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("train")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--dropout", type=float, default=0)
    parser.add_argument("--bert", dest="kind", action="store_const", const="BERT", default="GPT")
    parser.add_argument("--mixtral", dest="kind", action="store_const", const="Mixtral")
    parser.add_argument("--others", type=float, default=0.02)
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--llmc")
    a = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        a.llmc = a.llmc and build_llmc(a.llmc, folder)
        for case in a.cases or CASES[a.kind]:
            measure(case, a)


main()
