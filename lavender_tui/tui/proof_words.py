"""Whether a resumed run carried on, as it is said on the screens."""

from __future__ import annotations

from lavender_tui.model import text
from lavender_tui.model.run import Run

Span = tuple[str, str]
_SIGNS = {"carries on": ("✓", "good"), "jumped": ("✗", "bad"), "wrong start": ("✗", "bad"), "not yet": ("…", "quiet")}
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
    """Its shortest form: "carries on ✓", "jumped ✗"; None before there is a verdict."""
    if run.proof is None or run.proof.verdict == "not yet":
        return None
    sign, ink = _SIGNS[run.proof.verdict]
    return (f"{run.proof.verdict} {sign}", ink)


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
    return words if verdict in words or verdict == "carries on" else f"{verdict}: {words}"
