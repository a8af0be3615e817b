"""Files that the programs themselves wrote (or that were made to their layout), with the values of the live objects."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.checkpoints import read_checkpoint, read_rank_states
from lavender_tui.model.checkpoint import Wholeness
from lavender_tui.model.export import checkpoint_document
from lavender_tui.model.text import strict_json

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
EXPECTED: dict[str, dict[str, Any]] = json.loads((SAMPLES / "expected.json").read_text())
FIELDS = {"params": "parameters"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_sample_reads_as_it_was_written(name: str) -> None:
    path = str(SAMPLES / name)
    found = read_checkpoint(path, now=os.stat(path).st_mtime + 1e6)
    expected = dict(EXPECTED[name])
    assert found.wholeness == Wholeness(expected.pop("wholeness", "whole")), found.reason
    for key, value in expected.items():
        held = getattr(found, FIELDS.get(key, key))
        if isinstance(value, float):
            assert held is not None and math.isclose(held, value, rel_tol=1e-6), (key, held)
        else:
            assert held == value, (key, held)
    assert found.is_usable == (found.is_whole and found.has_model)
    strict_json(checkpoint_document(found, with_keys=True)).encode("utf-8")


# What torch.load(weights_only=True) takes needs no foreign class; the others name what they need.
REFUSED = {
    "variants/namespace.pt": {"argparse.Namespace", "types.SimpleNamespace"},
    "variants/stage_enum.pt": {"__main__.Phase"},
    "variants/loss_np_float64.pt": {"numpy._core.multiarray.scalar", "numpy.dtype"},
    "variants/legacy_nonzip.pt": set(),
    "variants/dtypes.pt": set(),
    "pretrain-00-06-00-0003.pt": set(),
    "timm/checkpoint-3.pth.tar": {"argparse.Namespace"},
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_a_safe_loading_refuses_is_named(name: str) -> None:
    found = read_checkpoint(str(SAMPLES / name))
    assert set(found.refused_globals) == REFUSED[name]
    assert any("not plain data" in warning for warning in found.warnings) == bool(REFUSED[name])


def test_foreign_classes_are_shown_with_their_name_and_values() -> None:
    keys = read_checkpoint(str(SAMPLES / "variants/main_classes.pt")).keys
    assert keys["model_cfg"]["class"] == "__main__.ModelConfig"
    assert (keys["model_cfg"]["dim"], keys["model_cfg"]["betas"]) == ("16", "0.9, 0.95")
    assert keys["nt"] == "NT(2, 2.5)"
    assert keys["model_state_dict"] == {"w": "float32 [2, 3]", "b": "float32 [3]"}


def test_the_states_of_a_real_dataset() -> None:
    for name, count in (("lancedb-single/checkpoint_100.pt", 1), ("lancedb-list/checkpoint_48.pt", 4)):
        states = read_rank_states(str(SAMPLES / name))
        assert len(states) == count
        assert all(state.state["num_splits"] == 8 for state in states)
    states = read_rank_states(str(SAMPLES / "lancedb-per-rank/step_48/rank_0.pt"))
    assert [(state.rank, state.state["num_splits"]) for state in states] == [(0, 8), (1, 8), (2, 8), (3, 8)]
    packed = read_rank_states(str(SAMPLES / "lancedb-packed/checkpoint_20.pt"))[0].state
    assert set(packed["pack_buffers"]) == {0, 1, 2, 3} and "tokens" in packed["pack_buffers"][0]


def test_the_summary_of_real_states() -> None:
    ranks = read_checkpoint(str(SAMPLES / "lancedb-per-rank/step_48/rank_0.pt")).rank_states
    assert (ranks.found, ranks.complete, ranks.num_splits, ranks.consumed) == (4, True, 8, 48)
    ranks = read_checkpoint(str(SAMPLES / "with-dataset/pretrain-10-00-00-0003.pt")).rank_states
    assert (ranks.found, ranks.num_splits) == (1, 4096)


def test_a_large_stage_list_of_epochs_is_as_the_program_counts() -> None:
    lightning = read_checkpoint(str(SAMPLES / "lightning/s-step=6.ckpt"))
    assert (lightning.format, lightning.step, lightning.loss) == ("lightning", 6, None)
    best = read_checkpoint(str(SAMPLES / "nanogpt/ckpt.pt"))
    assert best.loss_key == "best_val_loss" and any("best one" in warning for warning in best.warnings)
