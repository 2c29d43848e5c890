"""universal_engine.py FROM TO STAGE RANKS STEPS[+MORE] [universal] [pipeline] [bf16] [sgd|lion] [memory] - a run that goes on in DeepSpeed's
engine, on CPUs.

FROM: a DeepSpeed folder of triax, of a GPT without padding and dropout; with "universal" one that the engine loads with
load_universal. Token i of any sample is i % 16, so no order of samples is needed. Prints "step loss", saves after STEPS into TO, with
the args of FROM, and goes on. pipeline: the ranks are stages.
memory: TO/stepN.safetensors has what the engine had in memory when it saved.
"""
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1")
import deepspeed
import deepspeed.comm.torch
import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from safetensors.torch import save_file
from torch import nn

deepspeed.comm.torch.build_shm_op = lambda: None  # compiles otherwise


class Attention(nn.Module):
    def __init__(self, h, n):
        super().__init__()
        self.n, self.query_key_value, self.dense = n, nn.Linear(h, 3 * h), nn.Linear(h, h)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.query_key_value(x).view(b, s, self.n, 3, h // self.n).permute(3, 0, 2, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dense(o.transpose(1, 2).reshape(b, s, h))


class MLP(nn.Module):
    def __init__(self, h, f):
        super().__init__()
        self.dense_h_to_4h, self.dense_4h_to_h = nn.Linear(h, f), nn.Linear(f, h)

    def forward(self, x):
        return self.dense_4h_to_h(F.gelu(self.dense_h_to_4h(x)))


class Layer(nn.Module):
    def __init__(self, h, n, f):
        super().__init__()
        self.input_layernorm, self.self_attention = nn.LayerNorm(h), Attention(h, n)
        self.post_attention_layernorm, self.mlp = nn.LayerNorm(h), MLP(h, f)

    def forward(self, x):
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Embedding(nn.Module):
    def __init__(self, v, p, h):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(v, h), nn.Embedding(p, h)

    def forward(self, ids):
        return self.word_embeddings(ids) + self.position_embeddings(torch.arange(ids.shape[1]))


class Encoder(nn.Module):
    def __init__(self, a):
        super().__init__()
        h, f = a.hidden_size, a.ffn_hidden_size
        self.layers = nn.ModuleList(Layer(h, a.num_attention_heads, f) for _ in range(a.num_layers))
        self.final_layernorm = nn.LayerNorm(h)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.final_layernorm(x)


class Language(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.embedding = Embedding(a.padded_vocab_size, a.max_position_embeddings, a.hidden_size)
        self.encoder = Encoder(a)


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.language_model = Language(a)
        deepspeed.zero.register_external_parameter(self, self.language_model.embedding.word_embeddings.weight)

    def forward(self, ids, labels):
        words = self.language_model.embedding.word_embeddings.weight
        x = self.language_model.encoder(self.language_model.embedding(ids)) @ words.t()
        return F.cross_entropy(x.float().flatten(0, 1), labels.flatten())

    def load_state_dict(self, state, strict=True, **kwargs):
        """Megatron's nested dicts, too; with ZeRO 3 the weights are the optimizer's."""
        flat = dict(leaves(state))
        if all(p.numel() for p in self.parameters()):
            super().load_state_dict(flat, strict)


class FinalNorm(nn.LayerNorm):
    pass


def pipeline_of(a, stages):
    """The modules of Megatron's GPTModelPipe, by their numbers: what is before the embedding, it, layers, norm, tied head."""
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec

    def head(embedding, x):
        return x @ embedding.word_embeddings.weight.t()

    def embedding():
        return TiedLayerSpec("embed", Embedding, a.padded_vocab_size, a.max_position_embeddings, a.hidden_size,
                             tied_weight_attr="word_embeddings.weight")

    layers = [LayerSpec(Layer, a.hidden_size, a.num_attention_heads, a.ffn_hidden_size) for _ in range(a.num_layers)]
    tied = embedding()
    end = TiedLayerSpec("embed", Embedding, a.padded_vocab_size, a.max_position_embeddings, a.hidden_size, forward_fn=head,
                        tied_weight_attr="word_embeddings.weight")
    return PipelineModule([lambda x: x, tied, *layers, LayerSpec(FinalNorm, a.hidden_size), end], num_stages=stages,
                          partition_method="type:Layer",
                          loss_fn=lambda x, labels: F.cross_entropy(x.float().flatten(0, 1), labels.flatten()))


def leaves(state, prefix=""):
    for key, v in state.items():
        yield from leaves(v, f"{prefix}{key}.") if isinstance(v, dict) else [(prefix + key, v)]


class Lion(torch.optim.Optimizer):
    """arXiv:2302.06675, with decoupled weight decay; DeepSpeed's own needs a compiler."""

    def __init__(self, groups, lr, betas):
        super().__init__(groups, dict(lr=lr, betas=betas))

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            for p in g["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - g["lr"] * g["weight_decay"])
                p.add_(torch.sign(b1 * m + (1 - b1) * p.grad), alpha=-g["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class Scheduler:
    """Megatron's, of a constant rate: its state is kept, with the samples that it counts."""

    def __init__(self, state, batch):
        self.state, self.batch = state, batch

    def step(self, *_):
        self.state["num_steps"] += self.batch

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = dict(state)


def first_file(folder, universal):
    tag = open(os.path.join(folder, "latest_universal" if universal else "latest")).read().strip()
    step = os.path.join(folder, tag)
    name = sorted(f for f in os.listdir(step) if f.endswith("_model_states.pt"))[0]
    return torch.load(os.path.join(step, name), map_location="cpu", weights_only=False)


def work(rank, source, to, stage, ranks, steps, words):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
    states = first_file(source, "universal" in words)
    a = states["args"]
    torch.manual_seed(1)
    pipeline = "pipeline" in words
    net = pipeline_of(a, ranks) if pipeline else GPT(a)
    ranks = 1 if pipeline else ranks  # that divide the data
    decay = [p for p in net.parameters() if p.ndim > 1]
    rest = [p for p in net.parameters() if p.ndim == 1]
    groups = [{"params": decay, "weight_decay": a.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    if stage == 3:  # as Megatron's are then
        groups = [{"params": list(net.parameters()), "weight_decay": 0.0}]
    if "sgd" in words:
        own = torch.optim.SGD(groups, lr=a.lr, momentum=a.sgd_momentum)
    elif "lion" in words:
        own = Lion(groups, lr=a.lr, betas=(0.9, 0.99))
    else:
        own = torch.optim.AdamW(groups, lr=a.lr, betas=(a.adam_beta1, a.adam_beta2), eps=a.adam_eps)
    config = {"train_micro_batch_size_per_gpu": a.global_batch_size // ranks, "gradient_clipping": a.clip_grad,
              "train_batch_size": a.global_batch_size, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True,
              "checkpoint": {"load_universal": "universal" in words}}
    if "bf16" in words:
        config["bf16"] = {"enabled": True}
    scheduler = Scheduler(dict(states["lr_scheduler"]), a.global_batch_size)
    engine, _, _, _ = deepspeed.initialize(model=net, optimizer=own, lr_scheduler=scheduler, config=config)
    path, client = engine.load_checkpoint(source)
    assert path, source

    def save():
        keep = {k: states[k] for k in ("args", "checkpoint_version", "tokens", "universal_checkpoint_info") if k in states}
        n = engine.global_steps
        keep["args"].consumed_train_samples = n * a.global_batch_size
        engine.save_checkpoint(to, tag=f"global_step{n}", client_state=dict(keep, iteration=n))
        if "memory" not in words:
            return
        memory = {}
        for name, p in engine.module.named_parameters():
            memory[name] = safe_get_full_fp32_param(p)
            for key in ("exp_avg", "exp_avg_sq"):
                memory[f"{key}.{name}"] = safe_get_full_optimizer_state(p, key)
        if rank == 0:
            save_file({k: v.contiguous().clone() for k, v in memory.items()}, os.path.join(to, f"step{n}.safetensors"))

    ids = (torch.arange(a.seq_length + 1) % 16).repeat(a.global_batch_size // ranks, 1)
    steps, after = (int(n) for n in (steps + "+0").split("+")[:2])
    for i in range(steps + after):
        if i == steps:
            save()
        if pipeline:
            loss = engine.train_batch(iter([(ids[:, :-1], ids[:, 1:])]))
        else:
            loss = engine(ids[:, :-1], ids[:, 1:])
            engine.backward(loss)
            engine.step()
        if rank == 0:
            print(engine.global_steps, f"{loss.item():.9g}", flush=True)
    if not after:
        save()


if __name__ == "__main__":
    source, to, stage, ranks, steps = sys.argv[1:6]
    os.environ.setdefault("MASTER_PORT", "29617")
    job = (source, to, int(stage), int(ranks), steps, sys.argv[6:])
    mp.spawn(work, job, int(ranks))
