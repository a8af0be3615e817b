"""Where the news may stand in a person's own command. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lavender_tui.model import script_words

VARIABLES = {
    "event": "LAVENDER_EVENT",
    "run": "LAVENDER_RUN",
    "path": "LAVENDER_RUN_PATH",
    "reason": "LAVENDER_REASON",
}
PLACEHOLDER = re.compile(r"\{(" + "|".join(VARIABLES) + r")\}")
_EXAMPLES = {
    "python": "python -c 'import sys; print(sys.argv[1])' {{{0}}}",
    "perl": "perl -e 'print $ARGV[0]' {{{0}}}",
}


def objection(words: Sequence[str]) -> tuple[str, str] | None:
    """(what is wrong, the right form) where a placeholder is a part of a program; None where all stand well."""
    if words and (found := PLACEHOLDER.search(words[0])):
        what = f"{{{found[1]}}} names the program to be started, and a run may be called anything"
        return what, f"Name the program itself; it finds {VARIABLES[found[1]]} in its environment"
    misplaced = script_words.misplaced(words, PLACEHOLDER)
    if misplaced is None:
        return None
    name, program = misplaced
    what = f"{{{name}}} stands in what {program} reads as a program, where a part of a run's name or error would be run"
    example = _EXAMPLES.get(program, "sh -c 'echo \"$1\"' _ {{{0}}}").format(name)
    variable = f'"${VARIABLES[name]}"' if program not in _EXAMPLES else f"{VARIABLES[name]} of its environment"
    return what, f"Give it as a word of its own, {example}, or use {variable}"
