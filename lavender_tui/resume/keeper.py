"""The keeper of a run: waits for its end, decides, resumes it, follows the new one; every decision in the journal.

It holds no process and no file of the training: whenever it ends, the training goes on. Killed, it leaves what the
next keeper needs to go on counting.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from lavender_tui.config import SuperviseSettings, parse_world_sizes
from lavender_tui.errors import AlreadyRunning, LavenderError
from lavender_tui.launch import StopOrder, journal, keepers, living, stop
from lavender_tui.launch.keepers import Post, Standing
from lavender_tui.launch.record import LaunchRecord, read_exit, read_launch
from lavender_tui.launch.supervisor import ORPHANS_GRACE
from lavender_tui.model.choosing import why_passed_over
from lavender_tui.model.plan import Proposal
from lavender_tui.model.run import Run
from lavender_tui.model.suspects import Follower, failed_at_once
from lavender_tui.model.text import clean, duration, plural
from lavender_tui.resume.carrying_out import carry_out
from lavender_tui.resume.choose import resumed_as
from lavender_tui.resume.keepable import ended_politely, refuse_unkeepable
from lavender_tui.resume.keeping import Decision, Ending, Next, decide, in_vain
from lavender_tui.resume.next_start import Outcome, Search, Wanted, best_proposal, run_at
from lavender_tui.resume.request import Options
from lavender_tui.resume.waking import Alarm
from lavender_tui.watch import devices
from lavender_tui.watch.family import youngest
from lavender_tui.watch.index import Index
from lavender_tui.watch.machine import devices as device_count

FINISHED, LOST, GAVE_UP, STOPPED, INTERRUPTED = 0, 1, 100, 103, 130
HEARTBEAT_SECONDS = 30.0
GIVE_WAY_SECONDS = 2.0
LOOK_SECONDS = 5.0  # how often what tells nothing by itself is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How a run is kept alive: `tries` in a row that save nothing, `world_sizes` that are permitted, () for any."""

    tries: int = 5
    backoff_seconds: float = 10.0
    world_sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, settings: SuperviseSettings) -> Limits:
        """As set."""
        return cls(
            tries=settings.tries,
            backoff_seconds=settings.backoff_seconds,
            world_sizes=parse_world_sizes(settings.world_sizes),
        )


class _Left(Exception):
    """The keeping is over: `code` to end with."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def keep(
    run_dir: str,
    limits: Limits,
    options: Options,
    *,
    say: Callable[[str], None],
    on_started: Callable[[str], None] = lambda run_dir: None,
) -> int:
    """Keep the run alive until it is finished, stopped or given up; returns the exit code to end with.

    `say` gets every decision in a sentence, `on_started` the directory of each new run. For the main thread alone.
    Raises AlreadyRunning where it is kept already, NotFound for no run, and Refused for one that can't be kept from
    here.
    """
    run_dir = youngest(run_dir)
    refuse_unkeepable(run_dir)
    with keepers.hold(run_dir) as post, Alarm() as alarm:
        keeper = _Keeper(run_dir, limits, options, post, alarm, say, on_started)
        try:
            return keeper.run()
        except _Left as left:
            return left.code
        finally:
            keeper.note("supervising ended", tries_used=keeper.standing.tries_used)


@dataclass(slots=True)
class _Keeper:
    run_dir: str
    limits: Limits
    options: Options
    post: Post
    alarm: Alarm
    say: Callable[[str], None]
    on_started: Callable[[str], None]
    standing: Standing = field(init=False)
    index: Index = field(default_factory=Index)
    seen_alive: bool = False
    ended_left_of: str | None = None  # the run of which this keeper ended what was left
    ended_at: float = 0.0  # when its end was noticed, where nothing recorded it
    begun_at: float = field(default_factory=time.time)
    took_over: bool = False
    told: str = ""
    stopped: str = ""  # the run to which a stop was passed on

    def run(self) -> int:
        self.begin()
        while True:
            self.wait_for_end()
            if (newer := self.newest()) != self.run_dir:
                self.follow(newer, "somebody else resumed it")
                continue
            ending = self.ending(self.ended_run())
            decision = self.decide(ending)
            while decision.next is Next.RESUME:
                why = self.attempt(decision)
                if why is None:
                    break
                ending = replace(ending, has_saved=False, reason=why)
                decision = self.decide(ending)
            else:
                return self.end(decision)

    # The record

    def note(self, what: str, **facts: Any) -> None:
        journal.note(journal.root_of(self.run_dir), what, run=self.run_dir, keeper=os.getpid(), **facts)

    def tell(self, words: str) -> None:
        """A sentence for people, once."""
        if words != self.told:
            self.told = words
            self.say(words)

    def stand(self, **changes: Any) -> None:
        """Write down where the keeping stands, before it goes on."""
        self.standing = replace(self.standing, tries=self.limits.tries, **changes)
        try:
            self.post.write(self.standing)
        except OSError as error:
            self.tell(f"where the keeping stands can't be written ({error.strerror}); it goes on all the same")

    def settle(self) -> None:
        """There is something to keep: whoever waits to hear that may go."""
        if not self.standing.is_settled:
            self.stand(is_settled=True)

    # Beginning, following, ending

    def begin(self) -> None:
        before = self.post.predecessor()
        self.took_over = before is not None
        self.standing = Standing(run=self.run_dir, tries=self.limits.tries)
        if before is not None:
            self.standing = replace(before, run=self.run_dir, next_try_at=None, is_settled=False)
            self.tell(f"takes over from a keeper that was killed ({plural(before.tries_used, 'try', 'tries')} used)")
        self.stand()
        self.note(
            "supervising",
            tries=self.limits.tries,
            tries_used=self.standing.tries_used,
            backoff_seconds=self.limits.backoff_seconds,
            world_sizes=self.limits.world_sizes,
            took_over=self.took_over,
        )
        verb = "saves" if self.limits.tries == 1 else "save"
        self.tell(f"keeps {self.name} alive; gives up after {in_vain(self.limits.tries)} that {verb} nothing new")

    @property
    def name(self) -> str:
        return clean(os.path.basename(self.run_dir), 80)

    def follow(self, run_dir: str, why: str) -> None:
        before, self.run_dir, self.seen_alive = self.name, run_dir, False
        self.stand(run=run_dir, next_try_at=None)
        self.tell(f"follows {self.name} from now on, after {before}: {why}")
        self.note("decided", next="follow", why=why)
        refuse_unkeepable(run_dir)

    def end(self, decision: Decision) -> int:
        if decision.next is Next.GIVE_UP:
            self.note("gave up", why=decision.why, tries_used=decision.tries_used)
            self.tell(f"gives {self.name} up: {decision.why}")
            return GAVE_UP
        if decision.next is Next.STOPPED:
            self.tell(f"{self.name} isn't resumed: {decision.why}")
            return STOPPED
        self.tell(f"{self.name} is through: {decision.why}")
        return FINISHED

    # Waiting

    def heed(self) -> None:
        """Whatever tells the keeper to leave. Raises _Left."""
        if self.alarm.leave is not None:
            self.tell(f"leaves on {self.alarm.leave.name}; the training goes on, and nobody keeps it alive any more")
            raise _Left(INTERRUPTED)
        if not self.post.is_held():
            self.tell("was silent for so long that another keeper took over; leaves")
            raise _Left(LOST)

    def heed_a_stop(self) -> None:
        """A run that doesn't run can be stopped too: then it isn't resumed. Raises _Left."""
        self.heed()
        who = self.post.told_to_leave()
        if who is not None:
            self.note("decided", next="stopped", why=f"{who} asked that it be left alone")
            self.tell(f"{self.name} isn't resumed: {clean(who, 80)} asked that it be left alone")
            raise _Left(STOPPED)

    def pass_on_a_stop(self) -> None:
        """Who saw nothing run may have asked while it was being started, or a moment after: what runs now is meant."""
        who = self.post.told_to_leave()
        if who is None or self.stopped == self.run_dir:
            return
        try:
            stop(self.run_dir, StopOrder(who=who, wait=False))
        except (LavenderError, OSError) as error:
            self.tell(f"{clean(who, 80)} asked that {self.name} be left alone, and it can't be stopped: {error}")
        else:
            self.stopped = self.run_dir

    def newest(self) -> str:
        """The run, or what somebody else started after its end, though that may have ended, too, by now."""
        ended = read_exit(self.run_dir)
        ended_at = ended.ended_at if ended is not None else self.ended_at
        return youngest(self.run_dir, max(ended_at, 0.0 if self.took_over else self.begun_at))

    def wait_for_end(self) -> None:
        """Until no process of the run is left. Raises _Left."""
        while True:
            self.heed()
            record = read_launch(self.run_dir)
            if record is None or record.leader is None or not living.belongs_here(record, self.run_dir):
                run = run_at(self.run_dir, self.index)
                if run is None or not run.is_alive:
                    break
                self.seen_alive = True
                self.settle()
                self.alarm.sleep(LOOK_SECONDS)
            elif alive := living.recorded(record):
                self.seen_alive = True
                self.settle()
                self.pass_on_a_stop()
                self.alarm.sleep(HEARTBEAT_SECONDS, until_ended=alive[:1])
                self.count_progress()
            elif not self.end_what_is_left(record):
                break
        self.ended_at = time.time()

    def count_progress(self) -> None:
        """A try that saved something has all tries before it again, and everybody may see that at once."""
        if self.standing.tries_used and (run := run_at(self.run_dir, self.index)) is not None and _has_saved(run):
            self.stand(tries_used=0, stepless=0)

    def end_what_is_left(self, record: LaunchRecord) -> bool:
        """What outlived both its leader and its supervisor ends as the supervisor would have ended it; False if none.

        TERM first: ranks that can will save.
        """
        left = living.members(self.run_dir, record) if record.is_here else []
        if not left:
            return False
        words = f"ends {plural(len(left), 'process', 'processes')} that outlived what led them"
        self.tell(f"{words} (pid {', '.join(str(one.pid) for one in left[:8])})")
        self.note("killed", why=words, pids=[one.pid for one in left])
        self.ended_left_of = self.run_dir
        for pause in ended_politely(lambda: living.members(self.run_dir, record), ORPHANS_GRACE):
            self.heed()
            self.alarm.sleep(pause)
        return True

    # Deciding

    def ended_run(self) -> Run | None:
        """None where its directory is gone."""
        return run_at(self.run_dir, self.index)

    def ending(self, run: Run | None) -> Ending:
        if run is None:
            gone = _nothing_left("its directory is gone")
            raise _Left(self.end(gone))
        self.remember_failure(run)
        ended_at = run.end.ended_at if run.end is not None and run.end.ended_at is not None else time.time()
        end, reason = run.end, run.state_reason
        if self.ended_left_of == run.path and end is not None and end.stop_by in (None, "SIGTERM"):
            # The ranks record that they were told to end. That was this keeper, and nobody's wish.
            end, reason = None, "what led it is gone, and its ranks were told to save and end"
        return Ending(
            state=run.state,
            reason=reason,
            end=end,
            has_saved=_has_saved(run),
            lived_seconds=ended_at - run.started_at if run.started_at is not None and self.seen_alive else None,
            stepless=self.standing.stepless,
        )

    def remember_failure(self, run: Run) -> None:
        """A try that failed at once spoils its checkpoint, whatever the reason was: it is not tried again."""
        source = run.resumed_from.checkpoint if run.resumed_from is not None else None
        if (
            self.standing.tries_used == 0
            or source is None
            or not failed_at_once(Follower.of(run))
            or source in self.standing.bad
        ):
            return
        why = f"{clean(run.title, 80)}, resumed from it, failed at once ({clean(run.state_reason, 160)})"
        stepless = self.standing.stepless + (0 if run.losses else 1)
        self.stand(bad={**self.standing.bad, source: why}, stepless=stepless)

    def decide(self, ending: Ending) -> Decision:
        decision = decide(
            ending,
            tries_used=self.standing.tries_used,
            tries=self.limits.tries,
            backoff_seconds=self.limits.backoff_seconds,
        )
        stepless = 0 if ending.has_saved else self.standing.stepless
        next_try_at = time.time() + decision.wait_seconds if decision.next is Next.RESUME else None
        self.stand(tries_used=decision.tries_used, next_try_at=next_try_at, stepless=stepless)
        self.note(
            "decided",
            next=decision.next.value,
            why=decision.why,
            tries_used=decision.tries_used,
            wait_seconds=round(decision.wait_seconds, 1),
        )
        if decision.next is Next.RESUME:
            when = f"in {duration(decision.wait_seconds)}" if decision.wait_seconds >= 1 else "now"
            number = f"try {decision.tries_used + 1} of {self.limits.tries}"
            self.tell(f"{self.name} died: {clean(decision.why, 300)}. Resumes it {when} ({number})")
        return decision

    # Resuming

    def attempt(self, decision: Decision) -> str | None:
        """Wait, look for a start, and start it; None where there is something to follow now, else why it failed.

        Raises _Left where the keeping ends here.
        """
        self.wait_for_try(decision.wait_seconds)
        if self.newest() != self.run_dir:
            return None
        try:
            search = self.search()
        except (LavenderError, OSError) as error:
            return self.failed(f"no start could be planned ({error})")
        if search.outcome is Outcome.OVER:
            raise _Left(self.end(Decision(next=Next.FINISHED, why=search.why)))
        if search.outcome is Outcome.NOTHING:
            raise _Left(self.end(_nothing_left(search.why, self.standing.tries_used)))
        if search.proposal is None:
            return self.failed(search.why)
        return self.start(search.proposal, search)

    def wait_for_try(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self.heed_a_stop()
        if seconds > 0:
            self.settle()
        while (left := deadline - time.monotonic()) > 0:
            self.alarm.sleep(min(left, LOOK_SECONDS))
            self.heed_a_stop()
            if self.newest() != self.run_dir:
                return

    def search(self) -> Search:
        """The next start; waits where something of the run still lives after all."""
        while True:
            devices.forget()
            wanted = Wanted(
                options=self.options,
                permitted=self.limits.world_sizes,
                devices=device_count(),
                bad=self.standing.bad,
            )
            found = best_proposal(self.run_dir, wanted, index=self.index)
            if found.outcome is not Outcome.ALIVE:
                return found
            self.tell(f"waits: {found.why}")
            self.settle()
            self.alarm.sleep(LOOK_SECONDS)
            self.heed_a_stop()

    def failed(self, why: str) -> str:
        """A try that came to nothing counts like one that saved nothing."""
        self.stand(tries_used=self.standing.tries_used + 1)
        return why

    def start(self, proposal: Proposal, search: Search) -> str | None:
        self.note("decided", next="start", why=search.why, passed_over=[list(one) for one in search.passed_over[:8]])
        self.heed_a_stop()
        if self.newest() != self.run_dir:
            return None
        self.stand(tries_used=self.standing.tries_used + 1, next_try_at=None)
        try:
            launched = carry_out(proposal)
        except AlreadyRunning as error:
            self.give_way(error, proposal)
            return None
        except (LavenderError, OSError) as error:
            return f"it could not be started ({error})"
        self.on_started(launched.run_dir)
        self.follow(launched.run_dir, f"resumed {search.why}")
        return None

    def give_way(self, error: AlreadyRunning, proposal: Proposal) -> None:
        """Somebody else was quicker: what they started is followed."""
        self.stand(tries_used=self.standing.tries_used - 1)
        self.tell(f"gives way: {error}")
        assert proposal.plan is not None
        started = _living_resume_of(proposal.plan.source.run)
        if started is not None:
            self.follow(started, "somebody else resumed it")
        else:
            self.alarm.pause(GIVE_WAY_SECONDS)


def _living_resume_of(run_dir: str) -> str | None:
    return next((one for one in resumed_as(run_dir, os.path.dirname(run_dir)) if living.is_alive(one)), None)


def _has_saved(run: Run) -> bool:
    return any(why_passed_over(one) is None for one in run.checkpoints)


def _nothing_left(why: str, tries_used: int = 0) -> Decision:
    return Decision(next=Next.GIVE_UP, why=why, tries_used=tries_used)
