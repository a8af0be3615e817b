from __future__ import annotations

import torch

from lavender_tui.demo.model import LENGTH, MoELanguageModel


def small(**changes):
    torch.manual_seed(0)
    return MoELanguageModel(**{"width": 16, "layers": 2, "experts": 4, "top": 2, "dropout": 0.0, **changes})


def test_a_score_for_every_next_byte_that_no_later_byte_changes():
    model = small().eval()
    tokens = torch.randint(0, 256, (3, LENGTH))
    changed = tokens.clone()
    changed[:, 20:] = 0
    with torch.no_grad():
        first, second = model(tokens), model(changed)
    assert first.shape == (3, LENGTH, 256)
    assert torch.equal(first[:, :20], second[:, :20])
    assert not torch.equal(first[:, 20:], second[:, 20:])


def test_every_token_asks_its_best_experts_only():
    model = small(layers=1).eval()
    layer = model.blocks[0].experts
    asked = [0] * len(layer.experts)
    for index, expert in enumerate(layer.experts):
        expert.register_forward_hook(lambda _, given, __, index=index: asked.__setitem__(index, len(given[0])))
    layer(torch.randn(5, 7, 16))
    assert sum(asked) == 5 * 7 * 2


def test_the_same_seed_makes_the_same_weights_and_dropout_draws_from_the_seed():
    one, other = small(dropout=0.5), small(dropout=0.5)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    tokens = torch.randint(0, 256, (2, 10))
    torch.manual_seed(7)
    first = one(tokens)
    torch.manual_seed(7)
    assert torch.equal(first, other(tokens))
    assert not torch.equal(first, other(tokens))
