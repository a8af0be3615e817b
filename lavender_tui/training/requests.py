"""What the run was asked for from outside, as rank 0 sees it; the others learn it with what is exchanged anyway.

Looking costs one stat a second. A save looks once more, whenever it is: nobody waits for the next one in vain.
"""

from __future__ import annotations

import os
import time

from lavender_tui.launch import requests
from lavender_tui.launch.record import StopRecord, write_stop
from lavender_tui.model.ending import StopAt, StopRequest
from lavender_tui.training.reading import LOG

LOOK_SECONDS = 1.0


class Requests:
    """`request.json` of one run. Rank 0 only."""

    def __init__(self, run_dir: str) -> None:
        self._run_dir, self._path = run_dir, requests.path_of(run_dir)
        self._next_look = 0.0
        self._seen: tuple[int, int] | None = None
        self._pending: StopRequest | None = None
        self._since_epoch: int | None = None  # the epoch in which the request was first seen
        self._fulfils: tuple[StopRequest, str] | None = None  # by the last save, and where that is

    def look(self, epoch: int | None, *, now: bool = False) -> StopRequest | None:
        """What is asked for, at most LOOK_SECONDS old; `epoch` is the one that trains."""
        moment = time.monotonic()
        if now or moment >= self._next_look:
            self._next_look = moment + LOOK_SECONDS
            self._look(epoch)
        return self._pending

    def _look(self, epoch: int | None) -> None:
        try:
            info = os.stat(self._path)
        except OSError:
            self._seen = self._pending = None
            return
        if (identity := (info.st_ino, info.st_mtime_ns)) != self._seen:
            self._seen, self._since_epoch = identity, epoch
            self._pending = requests.read_request(self._run_dir)

    def epoch_is_over(self, epoch: int | None) -> bool:
        """Was an end at the end of an epoch asked for in an earlier one, which ended without a save that said so?"""
        asked = self.look(epoch)
        if asked is None or asked.what is not StopAt.EPOCH_END or epoch is None or self._since_epoch is None:
            return False
        return epoch > self._since_epoch

    def at_save(self, save_count: int, epoch: int | None, epoch_complete: bool) -> StopRequest | None:
        """What this save fulfils, once it is written; `fulfil` then says so."""
        asked = self.look(epoch, now=True)
        self._fulfils = None
        if asked is None:
            return None
        if asked.what is StopAt.NEXT_SAVE:
            self._fulfils = (asked, f"at save {save_count:04d}")
        elif epoch_complete:
            self._fulfils = (asked, "at the end of the epoch" if epoch is None else f"at the end of epoch {epoch}")
        elif self.epoch_is_over(epoch):
            self._fulfils = (asked, f"after the end of epoch {self._since_epoch}")
        return asked if self._fulfils else None

    def fulfil(self) -> None:
        """Say in the run's records who asked for the end; then the request is done. Never raises: the save counts."""
        if self._fulfils is None:
            return
        (request, at), self._fulfils = self._fulfils, None
        asked = StopRecord(who=request.who, how=request.what.value, asked_at=request.asked_at, at=at)
        try:
            write_stop(self._run_dir, asked)
        except FileExistsError:
            pass  # a signal came as well, and says who sent it
        except OSError as error:
            LOG.warning("that the end was asked for could not be recorded (%s)", error)
        self.drop()

    def drop(self) -> None:
        """Whatever was asked for is done, or nobody is left to do it. Never raises."""
        try:
            requests.remove_request(self._run_dir)
        except OSError as error:
            LOG.warning("request.json could not be removed (%s)", error)
