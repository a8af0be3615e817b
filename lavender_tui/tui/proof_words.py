"""Whether a resumed run carried on, as it is said on the screens."""

from __future__ import annotations

from lavender_tui.model import text
from lavender_tui.model.run import Run, RunState

_LONG_START = 120.0  # seconds; what takes longer may log no steps at all
Span = tuple[str, str]
_CARRIES_ON = "carries on"
_SIGNS = {_CARRIES_ON: ("✓", "good"), "jumped": ("✗", "bad"), "wrong start": ("✗", "bad"), "not yet": ("…", "quiet")}
_AGREES = {True: ("✓ ", "good"), False: ("✗ ", "bad"), None: ("? ", "quiet")}


def is_told(run: Run) -> bool:
    """There is something to say: a verdict, or a living run whose verdict will come."""
    return run.proof is not None and (run.proof.verdict != "not yet" or run.is_alive)


def starting_words(run: Run, now: float) -> str:
    """ "starting for 3 s, 0 of 4 ranks alive: wait for its first steps"; "" for a run that isn't on its way to one."""
    if run.state is not RunState.RUNNING or not run.processes or run.losses or run.newest or run.is_stopping:
        return ""
    from lavender_tui.model.state import live_ranks

    seen, told = live_ranks(run.processes)
    ranks = told or run.world_size or 1
    seconds = max(0.0, now - run.started_at) if run.started_at is not None else 0.0
    alive = f", {len(seen)} of {ranks} ranks alive" if ranks > 1 else ""
    if seconds > _LONG_START:
        return f"no step is logged after {text.duration(seconds)}{alive}"
    return f"starting{f' for {text.duration(seconds)}' if seconds else ''}{alive}: wait for its first steps"


def proof_line(run: Run, now: float = 0.0) -> list[Span]:
    """ "✓ carries on", "✗ jumped: …", "… not yet: no step is logged"; nothing where there is nothing to say."""
    if run.proof is None or not is_told(run):
        return []
    if run.proof.verdict == "not yet" and (starting := starting_words(run, now)):
        return [("… ", "accent"), (starting, "")]
    sign, ink = _SIGNS[run.proof.verdict]
    return [(f"{sign} ", ink), (text.clean(_sentence(run), 300), "" if ink != "quiet" else "quiet")]


def proof_mark(run: Run) -> Span | None:
    """Its shortest form: "carries on ✓", of a run that has ended "carried on ✓"; None before there is a verdict."""
    if run.proof is None or run.proof.verdict == "not yet":
        return None
    sign, ink = _SIGNS[run.proof.verdict]
    return (f"{_in_its_time(run)} {sign}", ink)


def evidence_lines(run: Run) -> list[list[Span]]:
    """Every comparison behind the verdict, a line each."""
    if run.proof is None:
        return []
    return [[_AGREES[one.agrees], (text.clean(one.what, 300), "quiet")] for one in run.proof.evidence]


def _sentence(run: Run) -> str:
    assert run.proof is not None
    verdict, words = str(run.proof.verdict), run.proof.words
    if verdict == "not yet":
        return f"whether it carries on: {words}"
    if verdict == _CARRIES_ON:
        return words.replace(_CARRIES_ON, _in_its_time(run), 1)
    return words if verdict in words else f"{verdict}: {words}"


def _in_its_time(run: Run) -> str:
    """The verdict; of a run that has ended, it "carried on": beside "stopped" the other would say the opposite."""
    assert run.proof is not None
    verdict = str(run.proof.verdict)
    may_live = run.is_alive or run.elsewhere is not None
    return verdict if verdict != _CARRIES_ON or may_live else "carried on"
