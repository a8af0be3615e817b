"""End processes that are proved to be of a run which nobody of ours started; all that is written is the root's journal.

`STOPPED` in the journal carries what a later reader needs to know that it was this very process, and when.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict

from lavender_tui.launch import identity, journal
from lavender_tui.launch.record import ProcessId, this_machine
from lavender_tui.launch.seen import Memory
from lavender_tui.launch.stopping import CannotRecord, CannotStop, StopOutcome, saves

ASKED, STOPPED, MISSED = "stop asked", "stopped", "stop missed"
TICK = 0.05
KILL_PATIENCE = 10.0  # seconds in which even a process that waits for a disk should be gone
_SIGNALS = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}


def stop_processes(
    run_dir: str,
    leads: Sequence[ProcessId],
    members: Sequence[ProcessId],
    *,
    how: str,
    grace: float,
    who: str,
    why: str | None = None,
    wait: bool = True,
    unrecorded: bool = False,
) -> StopOutcome:
    """Ask the `leads`, end all `members` and what they start meanwhile when `grace` seconds are over.

    `how`: "graceful", "interrupt" or "kill" (at once). Each signal goes to the very process that is meant, or to none.
    Raises CannotRecord where the journal can't be written, unless `unrecorded` or "kill"; CannotStop where a process
    changed its user.
    """
    stopping = _Stopping(run_dir, leads, members, how, grace)
    failed = None if stopping.note_asked(who, why) else "the journal of its root can't be written"
    if failed is not None and not (unrecorded or how == "kill"):
        raise CannotRecord(
            f"the stop can't be recorded ({failed}): it would look like a failure",
            where=journal.root_of(run_dir),
            hint="Make the directory writable; --yes or --kill stops it all the same",
        )
    if not stopping.ask():
        stopping.note(MISSED)
        return StopOutcome(how="not running", words="it has just ended by itself")
    outcome = stopping.finish(who) if wait else stopping.asked()
    if failed is None:
        return outcome
    words = f"{outcome.words}. The stop could not be recorded ({failed}): it will look like a failure"
    return StopOutcome(how=outcome.how, words=words, waited_seconds=outcome.waited_seconds, unrecorded=failed)


class _Stopping:
    def __init__(
        self, run_dir: str, leads: Sequence[ProcessId], members: Sequence[ProcessId], how: str, grace: float
    ) -> None:
        self.run_dir, self.leads, self.members, self.how = run_dir, leads, members, how
        self.grace = 0.0 if how == "kill" else grace
        self.saves_before = saves(run_dir)
        self.since, self.asked_at = time.monotonic(), time.time()
        self.left = list(members)
        self.killed = False

    def note_asked(self, who: str, why: str | None) -> bool:
        return self.note(ASKED, who=who, how=self.how, why=why, grace_seconds=self.grace)

    def note(self, what: str, **facts: object) -> bool:
        """With the identity of the process that led: the next one in the same directory was not stopped."""
        place, led = asdict(this_machine()), self.leads[0]
        facts = {"by_hand": True, "pid": led.pid, "start_ticks": led.start_ticks, **place, **facts}
        who = facts.pop("who", None)
        root = journal.root_of(self.run_dir)
        return journal.note(root, what, run=self.run_dir, who=who if isinstance(who, str) else None, **facts)

    def ask(self) -> bool:
        """False where nobody was left to hear it."""
        targets = self.members if self.how == "kill" else self.leads
        signum = _SIGNALS.get(self.how, signal.SIGTERM)
        reached = [self._send(one, signum) for one in targets]
        for one in self.leads:
            self._send(one, signal.SIGCONT)  # a suspended process would not see the first
        return any(reached)

    def asked(self) -> StopOutcome:
        words = {"kill": "told to end at once", "interrupt": "interrupted"}.get(self.how, "asked to save and end")
        return StopOutcome(how="asked", words=f"{words}; nobody is left to end it by force later")

    def finish(self, who: str) -> StopOutcome:
        self._wait(self.grace)
        if self.left:
            self._kill()
        if not self.left:
            self.note(
                STOPPED, who=who, killed=self.killed or self.how == "kill", asked_at=self.asked_at, ended_at=time.time()
            )
            self._remember_the_end()
        return self._outcome()

    def _wait(self, seconds: float) -> None:
        self._look()
        while self.left and time.monotonic() < self.since + seconds:
            time.sleep(TICK)
            self._look()

    def _look(self) -> None:
        """Those that live, with what they have started since; what was seen below them once stays theirs."""
        found = {one.pid: one.start_ticks for one in self.left if one.is_alive}
        for pid in list(found):
            found.update(identity.descendants_of_run(pid, [self.run_dir]))
        self.left = [ProcessId(pid=pid, start_ticks=ticks) for pid, ticks in found.items() if pid != os.getpid()]

    def _kill(self) -> None:
        deadline = time.monotonic() + KILL_PATIENCE
        while self.left and time.monotonic() < deadline:
            self.killed = True
            for one in self.left:
                self._send(one, signal.SIGKILL)
            time.sleep(TICK)
            self._look()

    def _send(self, process: ProcessId, signum: int) -> bool:
        try:
            is_mine = os.stat(f"/proc/{process.pid}").st_uid == os.geteuid()
            return is_mine and identity.send_signal(process.pid, process.start_ticks, signum)
        except FileNotFoundError:
            return False
        except PermissionError as error:
            raise CannotStop(f"process {process.pid} belongs to another user", where=self.run_dir) from error

    def _remember_the_end(self) -> None:
        try:
            for one in self.leads:
                Memory().ended(self.run_dir, one, time.time(), None)
        except OSError:
            return  # the journal says it

    def _outcome(self) -> StopOutcome:
        seconds = time.monotonic() - self.since
        if self.left:
            pids = ", ".join(str(one.pid) for one in self.left)
            words = f"still there after SIGKILL (waiting for a disk, a network mount or a GPU): pid {pids}"
            return StopOutcome(how="alive", words=words, waited_seconds=seconds, left=tuple(self.left))
        saved = bool(saves(self.run_dir) - self.saves_before)
        if self.killed or self.how == "kill":
            words = "killed" if self.how == "kill" else "had to be killed: it did not end in time"
            return StopOutcome(how="killed", words=words, waited_seconds=seconds)
        words = f"{'saved and ended' if saved else 'ended'} {seconds:.1f} s after it was asked"
        return StopOutcome(
            how="ended", words=words if saved else f"{words}, without a new checkpoint in its directory",
            waited_seconds=seconds,
        )  # fmt: skip
