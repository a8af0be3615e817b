"""Ask a training to end at a save of its own, and withdraw that: by a file, so that it works over machines, too."""

from __future__ import annotations

import os
import time

from lavender_tui.errors import NotFound
from lavender_tui.launch import journal, requests
from lavender_tui.launch.files import EXIT, LAUNCH, REQUEST, STOP
from lavender_tui.launch.living import belongs_here
from lavender_tui.launch.record import LaunchRecord, examine_launch, read_stop
from lavender_tui.launch.stop_order import CannotStop
from lavender_tui.model.ending import StopAt, StopRequest


def ask_to_stop(run_dir: str, what: StopAt, *, who: str | None = None) -> StopRequest:
    """Ask; what was asked for before is replaced. Whether the training reads requests is the caller's to know.

    Raises NotFound for a directory that no record makes ours, CannotStop for a run that doesn't run, or a directory
    that can't be written to.
    """
    run_dir = os.path.abspath(run_dir)
    _refuse_ended(run_dir, _our_record(run_dir))
    request = StopRequest(what=what, asked_at=time.time(), who=who or journal.person())
    try:
        requests.write_request(run_dir, request)
    except OSError as error:
        raise _cannot_write(run_dir, error) from error
    journal.note(journal.root_of(run_dir), "stop asked", run=run_dir, who=request.who, how=what.value)
    return request


def withdraw(run_dir: str, *, who: str | None = None) -> StopRequest | None:
    """Take the request back; None where there is none (any more). Raises NotFound and CannotStop as `ask_to_stop`."""
    run_dir = os.path.abspath(run_dir)
    _our_record(run_dir)
    request = requests.read_request(run_dir)
    try:
        was_there = requests.remove_request(run_dir)
    except OSError as error:
        raise _cannot_write(run_dir, error) from error
    if not was_there or request is None:
        return None
    journal.note(journal.root_of(run_dir), "stop withdrawn", run=run_dir, who=who, how=request.what.value)
    return request


def why_nothing_to_withdraw(run_dir: str) -> str:
    """What became of a request that isn't there any more."""
    stop = read_stop(os.path.abspath(run_dir))
    if stop is not None and stop.at is not None:
        return f"too late to withdraw: it has come to its end {stop.at}"
    return "nothing is asked of it"


def _our_record(run_dir: str) -> LaunchRecord:
    if not os.path.isdir(run_dir):
        raise NotFound("there is no such run", where=run_dir)
    record, reason = examine_launch(run_dir)
    if record is None:
        told = f"its {LAUNCH} {reason}" if reason else f"it has no {LAUNCH}"
        raise NotFound(f"{told}: nothing is written into a run that isn't ours", where=run_dir)
    if not belongs_here(record, run_dir):
        raise CannotStop(
            "this is a copy: its launch record is that of another directory",
            where=run_dir,
            hint=f"Ask the original, {record.run_dir}",
        )
    return record


def _refuse_ended(run_dir: str, record: LaunchRecord) -> None:
    is_gone = record.leader is not None and record.is_here and not record.is_alive
    if is_gone or os.path.lexists(os.path.join(run_dir, EXIT)):
        raise CannotStop("it isn't running: nobody would read the request", where=run_dir)
    if os.path.lexists(os.path.join(run_dir, STOP)):
        raise CannotStop("it was told to end already: nobody would read the request", where=run_dir)


def _cannot_write(run_dir: str, error: OSError) -> CannotStop:
    return CannotStop(
        f"{REQUEST} can't be written or removed ({error.strerror or error})",
        where=run_dir,
        hint="Make the directory writable, or make room",
    )
