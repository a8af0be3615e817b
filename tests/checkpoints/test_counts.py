"""What counts as a tensor and as an element of the model, against torch itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lavender_tui.checkpoints import read_checkpoint
from lavender_tui.model.checkpoint import Checkpoint


def read(tmp_path: Path, content: Any) -> Checkpoint:
    torch.save(content, tmp_path / "x.pt")
    return read_checkpoint(str(tmp_path / "x.pt"))


class Rotary(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.register_buffer("mask", torch.zeros(5))
        self.register_buffer("angles", torch.zeros(700), persistent=False)


def test_a_pickled_module_counts_what_its_state_dict_has(tmp_path: Path) -> None:
    for module in (Rotary(), torch.nn.Sequential(Rotary(), torch.nn.ReLU(), torch.nn.BatchNorm1d(2), torch.nn.ReLU())):
        found = read(tmp_path, module)
        assert found.parameters == sum(one.numel() for one in module.state_dict().values())
        assert found.tensors == len(module.state_dict()) + 1  # the file holds the angles, too


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_what_one_tensor_is_made_of_is_no_tensor_of_its_own(tmp_path: Path) -> None:
    scales, zeros = torch.ones(4), torch.zeros(4, dtype=torch.int64)
    weights = {
        "before": torch.zeros(2),
        "channels": torch.quantize_per_channel(torch.randn(4, 4), scales, zeros, 0, torch.qint8),
        "tensor": torch.quantize_per_tensor(torch.randn(4, 4), 0.1, 10, torch.quint8),
        "sparse": torch.eye(4).to_sparse(),
        "rows": torch.eye(4).to_sparse_csr(),
        "after": torch.zeros(3),
    }
    found = read(tmp_path, {"model_state_dict": weights, "stage": "sft"})
    assert (found.tensors, found.parameters) == (6, 4 * 16 + 5)
    # Kept under a name as well, the scales are one of the file's tensors.
    found = read(tmp_path, {"model_state_dict": weights, "stage": "sft", "scales": scales})
    assert (found.tensors, found.parameters) == (7, 4 * 16 + 5)
