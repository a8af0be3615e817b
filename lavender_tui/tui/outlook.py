"""Where a resume of a run would start, in words: what the pane and the run's page say before anybody presses a key."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lavender_tui.checkpoints.parts import FAMILIES
from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint, Wholeness
from lavender_tui.model.choosing import Choice, in_run
from lavender_tui.model.data_rows import epoch_rows
from lavender_tui.model.ending import saved_since
from lavender_tui.model.plan import Policy
from lavender_tui.model.run import Run, RunState
from lavender_tui.model.start import default_policy, is_training_over, policy_epoch, stage_after
from lavender_tui.model.topology import allowed_world_sizes
from lavender_tui.tui.origin import source_words
from lavender_tui.tui.proof_words import is_told, proof_line, proof_mark, starting_words

Span = tuple[str, str]
_MOST_SIZES, _MOST_FOLLOWERS = 8, 2
_ONCE_ENDED: Span = ("once it has ended, ", "quiet")


def checkpoint_words(checkpoint: Checkpoint) -> str:
    """ "pretrain 0060", from the content where it says so, else from the name."""
    count = checkpoint.save_count if checkpoint.save_count is not None else checkpoint.name_save_count
    stage = checkpoint.stage or checkpoint.name_stage
    parts = [text.clean(stage, 20)] if stage else []
    if count is not None:
        parts.append(text.save_count(count))
    elif checkpoint.step is not None:
        parts.append(f"step {checkpoint.step:,}")
    return " ".join(parts) or text.clean(checkpoint.path.rsplit("/", 1)[-1], 40)


def rank_words(checkpoint: Checkpoint) -> str:
    """ "4 of 4 rank states", "no rank states"."""
    ranks = checkpoint.rank_states
    if ranks.merged:
        return "a merged state"
    if not ranks.found:
        return "an empty list of rank states" if ranks.problems else "no rank states"
    return f"{ranks.found} of {'?' if ranks.expected is None else ranks.expected} rank states"


def start_words(checkpoint: Checkpoint) -> str:
    """The epoch rule for this checkpoint, as a sentence without its end."""
    policy = default_policy(checkpoint)
    epoch = policy_epoch(policy, checkpoint)
    where = "an unknown epoch" if epoch is None else f"epoch {epoch}"
    if policy is Policy.EXACT:
        return f"{where}, exactly where it stopped{_trained(checkpoint)}"
    if policy is Policy.NEXT_EPOCH:
        return f"{where} from its start: epoch {text.count(checkpoint.epoch)} is complete"
    return f"{where} again from batch 0: its rows so far come twice"


def are_states_unusable(checkpoint: Checkpoint) -> bool:
    """There are rank states, the start depends on them, and they don't make up one whole save."""
    ranks = checkpoint.rank_states
    is_told = bool(ranks.found or ranks.problems)
    return is_told and not ranks.complete and not ranks.merged and not checkpoint.epoch_complete


def _trained(checkpoint: Checkpoint) -> str:
    consumed, rows = checkpoint.rank_states.consumed, epoch_rows(checkpoint.data, checkpoint.rank_states.num_splits)
    if consumed is None:
        return ""
    if not rows:
        return f", after {text.count(consumed)} rows"
    return f", row {text.count(consumed)} of {text.count(rows)} ({100 * consumed / rows:.0f} %)"


def world_words(checkpoint: Checkpoint) -> str:
    """ "world_size 4 → 1 2 4 8", with what is known of either side."""
    splits = checkpoint.rank_states.num_splits
    before = checkpoint.world_size or checkpoint.rank_states.expected
    left = "world_size" if before is None else f"world_size {before}"
    if splits is None:
        return f"{left} → any"
    sizes = allowed_world_sizes(splits)
    shown = " ".join(map(str, sizes[:_MOST_SIZES])) + (" …" if len(sizes) > _MOST_SIZES else "")
    return f"{left} → {shown}"


def outlook(run: Run, followers: Sequence[Run] = (), *, readonly: bool = False) -> list[list[Span]]:
    """A few lines: what `r` would do with this run, or why it can't; then who carried it on already.

    `readonly`: the same without the keys, for nothing may be changed.
    """
    if run.out_of_reach:
        return _out_of_reach(run) + follower_lines(followers)
    choice = in_run(run.checkpoints, bad=dict(run.known_bad))
    if _waits(run, choice):
        lines: list[list[Span]] = [[("reading its checkpoints …", "quiet")]]
    else:
        lines = _no_start(run, choice) if choice.checkpoint is None else _start(run, choice, choice.checkpoint)
    lines = [_without_keys(line) for line in lines] if readonly else lines
    proof = proof_line(run, time.time())
    return failure_lines(run) + ([proof] if proof else []) + lines + follower_lines(followers)


def none_saved_words(run: Run) -> str:
    """In the place of its checkpoints, where it has none to show."""
    return run.out_of_reach or "nothing saved yet"


def _out_of_reach(run: Run) -> list[list[Span]]:
    """Nothing is promised of what isn't there, or can't be read."""
    more = ": nothing of it can be resumed from here"
    if run.unreadable is not None:
        more = ": what it saved isn't known; make it readable for you, and it is looked at again"
    return [[("✗ ", "bad"), (run.out_of_reach + more, "")]]


def failure_lines(run: Run) -> list[list[Span]]:
    """Where the error that ended it was raised, and how to see it whole."""
    failure = run.end.failure if run.end is not None and run.state is RunState.FAILED else None
    if failure is None or not failure.traceback:
        return []
    place = f": {text.clean(failure.place, 120)}" if failure.place else ""
    return [[("e ", "accent"), (f"goes to its traceback{place}", "quiet")]]


def _without_keys(line: list[Span]) -> list[Span]:
    """ "x stops it; then r resumes from …" as "resumes from …": what would be, not what to press."""
    at = next((number for number, span in enumerate(line) if span == ("r ", "accent")), None)
    if at is None:
        return line
    before = [span for span in line[:at] if span[1] == "quiet" and "stops it" not in span[0]]
    return [*before, ("a resume ", "quiet"), (line[at + 1][0].replace("resumes", "starts"), "quiet"), *line[at + 2 :]]


def _waits(run: Run, choice: Choice) -> bool:
    """Is one that may be the newest usable not read yet?"""
    unread = {one.path for one in run.checkpoints if one.wholeness is Wholeness.UNREAD}
    return any(path in unread for path, _ in choice.passed_over)


def _no_start(run: Run, choice: Choice) -> list[list[Span]]:
    if not run.checkpoints:
        return [_of_others() if run.format in FAMILIES else _unsaved(run)]
    lines: list[list[Span]] = [[("✗ ", "bad"), ("nothing here can be resumed from", "")]]
    lines += [_passed(path, why) for path, why in choice.passed_over[:3]]
    return lines


def _of_others() -> list[Span]:
    """A directory of parts of another program's checkpoint."""
    return [("it can't be resumed from here; ", "quiet"), ("the program that saved it can go on with it", "")]


def _unsaved(run: Run) -> list[Span]:
    """Before the first save: there is nothing of its own, but what it began from can be resumed again."""
    source = run.resumed_from
    if run.is_alive and not run.losses:
        began: list[Span] = [("; it began from ", "quiet"), (source_words(source), "")] if source else []
        starting = starting_words(run, time.time())
        if starting and is_told(run):  # said by the line of the proof
            starting = "nothing logged yet"
        return [(starting or "starting: nothing logged yet", "quiet"), *began]
    if source is None:
        when = ": it can be resumed from its first save on" if run.is_alive else ": nothing to resume from"
        return [(f"nothing saved yet{when}", "quiet")]
    words: list[Span] = [("nothing saved yet; ", "quiet"), ("r ", "accent"), ("resumes again from ", "quiet")]
    if run.is_stopping:
        words = [("nothing saved yet; ", "quiet"), _ONCE_ENDED, *words[1:]]
    elif run.is_alive:
        words = [("it still runs; ", ""), words[0], ("x ", "accent"), ("stops it, then ", "quiet"), *words[1:]]
    return [*words, (source_words(source), "strong")]


def _start(run: Run, choice: Choice, checkpoint: Checkpoint) -> list[list[Span]]:
    if is_training_over(checkpoint):
        return [_end(run, checkpoint)]
    first: list[Span] = [("r ", "accent"), ("resumes from ", "quiet")]
    if run.is_stopping:
        first = [_ONCE_ENDED, first[0], (f"resumes from {_so_far(run)}", "quiet")]
    elif run.is_alive:
        first = [("x ", "accent"), ("stops it; then ", "quiet"), *first]
    elif run.leftovers:
        first = [("x ", "accent"), ("ends what it left; then ", "quiet"), *first]
    lines: list[list[Span]] = [
        [*first, (checkpoint_words(checkpoint), "strong"), (f"  whole, {rank_words(checkpoint)}", "quiet")]
    ]
    if are_states_unusable(checkpoint):
        problem = next(iter(checkpoint.rank_states.problems), "some are missing")
        lines.append([("  ✗ its rank states can't be merged: ", "bad"), (text.clean(problem, 300), "")])
    else:
        lines.append([("  starts at ", "quiet"), (start_words(checkpoint), "")])
    bad = dict(run.known_bad).get(checkpoint.path)
    if bad is not None:
        lines.append([("  ! known to be bad: ", "warn"), (text.clean(bad, 300), "")])
    lines.append([("  " + world_words(checkpoint), "quiet")])
    lines += [_passed(path, why) for path, why in choice.passed_over[:2]]
    return lines


def _so_far(run: Run) -> str:
    """Of a run that is stopping: what it may still save is newer than what there is."""
    end = run.end
    may_save = end is not None and end.stop_how != "kill" and run.saves_when_asked
    is_saved = end is not None and saved_since(run.newest, end.stop_asked_at) is not None
    return "its newest save, so far " if may_save and not is_saved else ""


def _end(run: Run, checkpoint: Checkpoint) -> list[Span]:
    """Nothing is left of this stage; what may follow it."""
    following = None if run.is_alive else stage_after(checkpoint.stage)
    words = f"{checkpoint_words(checkpoint)} is the end: nothing is left to train"
    end: list[Span] = [("✓ ", "good"), (words, "quiet")]
    if following is None:
        return end
    return [*end, ("; ", "quiet"), ("r ", "accent"), (f"offers {following}", "quiet")]


def _passed(path: str, why: str) -> list[Span]:
    name = text.clean(path.rsplit("/", 1)[-1], 60)
    return [("  passed over ", "warn"), (name, ""), (f": {text.clean(why, 200)}", "quiet")]


def follower_lines(followers: Sequence[Run], most: int = _MOST_FOLLOWERS) -> list[list[Span]]:
    """Who carried it on, a line each, oldest first; more than `most` of them in one line, with how many they are."""
    if len(followers) <= max(most, 1):
        return [_follower(one, "resumed as ") for one in followers]
    return [_follower(followers[-1], f"resumed {len(followers)} times, last as ")]


def _follower(run: Run, words: str) -> list[Span]:
    mark = proof_mark(run)
    told: list[Span] = [(": ", "quiet"), mark] if mark else []
    return [(f"  {words}", "quiet"), (text.clean(run.title, 60), "accent"), (f", {run.state.value}", "quiet"), *told]
