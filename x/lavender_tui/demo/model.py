"""A small mixture-of-experts language model over bytes, for the demo."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LENGTH = 64  # bytes of a sentence; shorter ones are filled up with zeros


class Experts(nn.Module):
    """A feed-forward layer of several experts, of which each token asks its best `top`."""

    def __init__(self, width: int, count: int, top: int) -> None:
        super().__init__()
        self.top, self.router = top, nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        shares, chosen = self.router(x).softmax(-1).topk(self.top, dim=-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            asks = (chosen == index).any(-1)  # which tokens ask this expert, and with what share
            share = (shares * (chosen == index)).sum(-1)[asks]
            out[asks] += share.unsqueeze(-1) * expert(x[asks])
        return out


class Block(nn.Module):
    def __init__(self, width: int, experts: int, top: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, dropout, batch_first=True)
        self.experts, self.dropout = Experts(width, experts, top), nn.Dropout(dropout)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: Tensor, later: Tensor) -> Tensor:
        seen = self.norms[0](x)
        x = x + self.dropout(self.attention(seen, seen, seen, attn_mask=later, need_weights=False)[0])
        return x + self.dropout(self.experts(self.norms[1](x)))


class MoELanguageModel(nn.Module):
    """Bytes in, a score for each of the 256 possible next bytes out: (batch, length) -> (batch, length, 256)."""

    def __init__(self, width: int, layers: int, experts: int, top: int, dropout: float) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, experts, top, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.bytes(tokens) + self.places.weight[:length]
        for block in self.blocks:
            x = block(x, later)
        return self.head(self.norm(x))
