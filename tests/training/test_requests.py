"""Ending at the next save or at the end of the epoch, because request.json asks for it."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lavender_tui.launch.record import end_facts, read_exit, read_stop
from lavender_tui.launch.requests import path_of, read_request, remove_request, write_request
from lavender_tui.model.ending import StopAt, StopRequest
from lavender_tui.training import requests as watching

Manage = Callable[..., Any]
WHO = "ann@gpu-03"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.0)


def ask(manager: Any, what: StopAt) -> None:
    write_request(manager.run_dir, StopRequest(what=what, asked_at=time.time(), who=WHO))


def saves(manager: Any) -> list[str]:
    return sorted(name for name in os.listdir(manager.run_dir) if name.endswith(".pt"))


def step(manager: Any, epoch: int, epochs: int = 3) -> Any:
    return manager.maybe_save("pretrain", epoch=epoch, epochs=epochs, loss=0.5)


def end(manager: Any, epoch: int, epochs: int = 3) -> Any:
    return manager.save("pretrain", epoch=epoch, epochs=epochs, epoch_complete=True)


def test_at_the_next_save_means_the_one_that_is_due_anyway(manage: Manage) -> None:
    manager = manage(every_seconds=1e9)
    ask(manager, StopAt.NEXT_SAVE)
    assert [step(manager, 1) for _ in range(3)] == [None] * 3 and saves(manager) == []
    manager._cadence._next = 0.0
    with pytest.raises(SystemExit) as ended:
        step(manager, 1)
    assert ended.value.code == 0 and len(saves(manager)) == 1
    content = torch.load(os.path.join(manager.run_dir, saves(manager)[0]), weights_only=True)
    assert content["stopped_by"] == "stop-at-next-save"
    stop = read_stop(manager.run_dir)
    assert stop is not None and (stop.who, stop.how, stop.at) == (WHO, "stop-at-next-save", "at save 0001")
    assert read_exit(manager.run_dir).code == 0  # type: ignore[union-attr]
    assert not os.path.exists(path_of(manager.run_dir))
    last = json.loads(Path(manager.run_dir, "metrics.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["status"], last["by"]) == ("end", "stopped", WHO)


def test_a_save_of_the_script_counts_as_well(manage: Manage) -> None:
    manager = manage(every_seconds=1e9)
    ask(manager, StopAt.NEXT_SAVE)
    with pytest.raises(SystemExit):
        manager.save("pretrain", epoch=1, epochs=3)


def test_at_the_end_of_the_epoch_not_at_a_save_before(manage: Manage) -> None:
    manager = manage(every_seconds=0.0)
    assert step(manager, 1)
    ask(manager, StopAt.EPOCH_END)
    assert step(manager, 1) and manager.save("pretrain", epoch=1, epochs=3)
    with pytest.raises(SystemExit):
        end(manager, 1)
    facts = end_facts(manager.run_dir)
    assert facts is not None and facts.stop_requested
    assert (facts.stop_by, facts.stop_at) == (WHO, "at the end of epoch 1")


def test_a_script_that_saves_at_no_end_stops_at_the_first_step_after_it(manage: Manage) -> None:
    manager = manage(every_seconds=1e9)
    ask(manager, StopAt.EPOCH_END)
    assert step(manager, 2) is None
    with pytest.raises(SystemExit):
        step(manager, 3)
    assert read_stop(manager.run_dir).at == "after the end of epoch 2"  # type: ignore[union-attr]
    assert len(saves(manager)) == 1


def test_what_is_withdrawn_is_not_done(manage: Manage) -> None:
    manager = manage(every_seconds=1e9)
    ask(manager, StopAt.EPOCH_END)
    assert step(manager, 1) is None
    assert remove_request(manager.run_dir) and not remove_request(manager.run_dir)
    assert end(manager, 1) and step(manager, 2) is None
    assert read_stop(manager.run_dir) is None


def test_a_save_that_fails_ends_nothing(manage: Manage) -> None:
    manager = manage(every_seconds=0.0, model=torch.nn.Linear(40, 40))
    ask(manager, StopAt.NEXT_SAVE)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    try:
        assert step(manager, 1) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert saves(manager) == [] and read_stop(manager.run_dir) is None and read_request(manager.run_dir) is not None
    manager._cadence._next = 0.0
    with pytest.raises(SystemExit):
        step(manager, 1)


def test_a_script_that_ends_by_itself_leaves_no_request_behind(manage: Manage) -> None:
    manager = manage(every_seconds=1e9)
    ask(manager, StopAt.EPOCH_END)
    step(manager, 1)
    manager.close()
    assert read_request(manager.run_dir) is None and read_stop(manager.run_dir) is None


def test_a_script_may_leave_its_loop_itself_on_request(manage: Manage) -> None:
    manager = manage(exit_on_stop=False, every_seconds=0.0)
    ask(manager, StopAt.NEXT_SAVE)
    assert step(manager, 1) and manager.should_stop
    assert read_stop(manager.run_dir).at == "at save 0001"  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": 1, "what": "rm -rf"}', '{"schema": 2}'])
def test_what_is_no_request_asks_for_nothing(manage: Manage, text: str) -> None:
    manager = manage(every_seconds=0.0)
    Path(path_of(manager.run_dir)).write_text(text)
    assert step(manager, 1) and not manager.should_stop


def test_looking_costs_one_stat_a_second(manage: Manage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 1.0)
    manager = manage(every_seconds=1e9)
    looked: list[str] = []
    real = os.stat

    def counted(path: Any, *rest: Any, **more: Any) -> os.stat_result:
        if isinstance(path, str) and path.endswith("request.json"):
            looked.append(path)
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "stat", counted)
    began = time.monotonic()
    for _ in range(200):
        step(manager, 1)
    assert 1 <= len(looked) <= 2 + time.monotonic() - began


def test_the_begin_of_a_training_says_that_it_reads_requests(manage: Manage) -> None:
    manager = manage(every_seconds=1e9)
    step(manager, 1)
    first = json.loads(Path(manager.run_dir, "metrics.jsonl").read_text().splitlines()[0])
    assert first["event"] == "begin" and first["requests"] is True
