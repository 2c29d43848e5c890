"""Frequencies of rotary positions as transformers computes them (modeling_rope_utils.py), for result.json: of each case
triax's flags, the frequencies, and the factor of queries and keys. Of the dynamic scaling, which depends on a length,
also that."""

import json
import warnings

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

warnings.simplefilter("ignore")


def case(flags, kind, theta=10000.0, head=32, partial=1.0, length=None, most=4096, **more):
    config = LlamaConfig(
        hidden_size=4 * head,
        num_attention_heads=4,
        head_dim=head,
        max_position_embeddings=most,
        rope_parameters={"rope_type": kind, "rope_theta": theta, "partial_rotary_factor": partial, **more},
    )
    frequency, scale = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    if theta != 10000.0:
        flags += f" --rope-base {theta:g}"
    if partial != 1.0:
        flags += f" --rotary-percent {partial}"
    flags += f" --kv-channels {head} --max-position-embeddings {most}"
    return {
        "flags": flags,
        "length": length or 0,
        "scale": float(scale),
        "frequency": [float(x) for x in frequency.to(torch.float64)],
    }


LLAMA3 = "--rope-scaling-type llama3 --rope-scaling-factor "
YARN = "--rope-scaling-type yarn --rope-scaling-factor "
DYNAMIC = "--rope-scaling-type dynamic --rope-scaling-factor "
cases = [
    case("--rope-scaling-type linear --rope-scaling-factor 4", "linear", factor=4.0),
    case("--rotary-seq-len-interpolation-factor 2", "linear", head=20, partial=0.4, factor=2.0),
    case(DYNAMIC + "2", "dynamic", factor=2.0, length=4096),
    case(DYNAMIC + "2", "dynamic", factor=2.0, length=5000),
    case(DYNAMIC + "4 --rope-original-positions 128", "dynamic", 5e5, factor=4.0, length=1000, most=128),
    case(DYNAMIC + "3", "dynamic", head=20, partial=0.5, factor=3.0, length=300, most=200),
    case(YARN + "4", "yarn", factor=4.0, original_max_position_embeddings=4096),
    case(
        YARN + "40 --rope-original-positions 2048 --mscale 0.707 --mscale-all-dim 1.5",
        "yarn",
        1e6,
        head=64,
        factor=40.0,
        mscale=0.707,
        mscale_all_dim=1.5,
        original_max_position_embeddings=2048,
    ),
    case(
        YARN + "32 --no-yarn-correction-range-round-to-int",
        "yarn",
        150000.0,
        head=64,
        factor=32.0,
        truncate=False,
        original_max_position_embeddings=4096,
    ),
    case(
        YARN + "8 --yarn-beta-fast 16 --yarn-beta-slow 2 --yarn-attention-factor 1.3 --yarn-original-max-position-embeddings 512",
        "yarn",
        head=48,
        partial=0.5,
        factor=8.0,
        beta_fast=16.0,
        beta_slow=2.0,
        attention_factor=1.3,
        original_max_position_embeddings=512,
    ),
    case(
        "--use-rope-scaling",
        "llama3",
        5e5,
        head=128,
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    ),
    case(
        LLAMA3 + "32 --rope-low-freq-factor 0.5 --rope-high-freq-factor 6 --rope-original-positions 1024",
        "llama3",
        1e5,
        head=64,
        factor=32.0,
        low_freq_factor=0.5,
        high_freq_factor=6.0,
        original_max_position_embeddings=1024,
    ),
]
with open("result.json", "w") as f:
    json.dump(cases, f, indent=0)
    f.write("\n")
