"""Whether a resumed run carried on, as it is said on the screens."""

from __future__ import annotations

from lavender_tui.model import text
from lavender_tui.model.run import Run

Span = tuple[str, str]
_CARRIES_ON = "carries on"
_SIGNS = {_CARRIES_ON: ("✓", "good"), "jumped": ("✗", "bad"), "wrong start": ("✗", "bad"), "not yet": ("…", "quiet")}
_AGREES = {True: ("✓ ", "good"), False: ("✗ ", "bad"), None: ("? ", "quiet")}


def is_told(run: Run) -> bool:
    """There is something to say: a verdict, or a living run whose verdict will come."""
    return run.proof is not None and (run.proof.verdict != "not yet" or run.is_alive)


def proof_line(run: Run) -> list[Span]:
    """ "✓ carries on", "✗ jumped: …", "… not yet: no step is logged"; nothing where there is nothing to say."""
    if run.proof is None or not is_told(run):
        return []
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
