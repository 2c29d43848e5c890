"""GPT-2 in plain PyTorch, of the same arithmetic as triax's: fused attention, tanh GELU, the head tied to the embedding.

The peer in train_peers.py and deepspeed_rank.py.
"""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, hidden, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.ln1, self.ln2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, h // self.heads).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(h, 2))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p)
        x = x + F.dropout(self.proj(o.transpose(1, 2).reshape(b, s, h)), self.p)
        return x + F.dropout(self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh")), self.p)


class GPT(nn.Module):
    def __init__(self, layers, hidden, heads, vocab, seq, p=0.0):
        super().__init__()
        self.p = p
        self.word, self.pos = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.blocks, self.norm = nn.ModuleList(Block(hidden, heads, p) for _ in range(layers)), nn.LayerNorm(hidden)
        for value in self.parameters():
            if value.dim() == 2:
                nn.init.normal_(value, std=0.02)

    def forward(self, ids, labels):
        """The mean loss of a batch."""
        x = F.dropout(self.word(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device)), self.p)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(self.norm(x), self.word.weight).flatten(0, 1), labels.flatten())
