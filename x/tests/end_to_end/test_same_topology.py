"""On the same topology a resumed run is the run that was never stopped: bit by bit, losses, weights and moments."""

from __future__ import annotations

import json
import os

import pytest
import torch

from lavender_tui.demo.coverage import Generation


def losses(generations: list[Generation]) -> dict[int, float]:
    """Loss by step, as logged; of each life only the steps that the next one went on from."""
    found: dict[int, float] = {}
    for generation in generations:
        with open(os.path.join(generation.run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                if "loss" not in record:
                    continue
                if generation.last_step is None or record["step"] <= generation.last_step:
                    assert record["step"] not in found
                    found[record["step"]] = record["loss"]
    return found


def leaves(value: object, path: str = "") -> dict[str, object]:
    """Every tensor and number of a state, by its path."""
    if isinstance(value, dict):
        value = list(value.items())
        return {name: leaf for key, one in value for name, leaf in leaves(one, f"{path}.{key}").items()}
    if isinstance(value, list | tuple):
        return {name: leaf for index, one in enumerate(value) for name, leaf in leaves(one, f"{path}.{index}").items()}
    return {path: value}


def differing(one: object, other: object) -> list[str]:
    """The paths at which two states are not the same bits."""
    first, second = leaves(one), leaves(other)
    assert first.keys() == second.keys()
    return [path for path, value in first.items() if not same_bits(value, second[path])]


def same_bits(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(as_bytes(one), as_bytes(other))
    return one == other


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def last_save(chain):
    return torch.load(chain.newest_save().path, weights_only=True)


@pytest.mark.long
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_a_resumed_run_is_the_run_that_was_never_stopped(make_chain, coverage_of, world_size):
    unbroken = make_chain(pause=0)
    unbroken.start(world_size)
    broken = make_chain()
    assert unbroken.wait_for_end() == 0
    broken.start(world_size)
    for step in (6, 12):
        broken.wait_for_work_after_a_save(1, not_before=step)
        broken.kill()
        broken.wait_for_end()
        broken.resume(world_size)
    assert broken.wait_for_end() == 0

    assert coverage_of(broken).is_exact
    assert losses(broken.generations()) == losses(unbroken.generations())
    one, other = last_save(broken), last_save(unbroken)
    for key in ("model_state_dict", "optimizer_state_dict", "scheduler_state_dict"):
        assert differing(one[key], other[key]) == [], key
    for rank in range(world_size):  # dropout's; the others are not seeded by the example
        assert differing(one["rng"][rank]["torch"], other["rng"][rank]["torch"]) == []
