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
# What looks like one; not `${NAME}`, `{{name}}`, `@{u}` and the like, which other programs know.
_LIKE_ONE = re.compile(r"(?<![$@{%])\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")
_EXAMPLES = {
    "python": "python -c 'import sys; print(sys.argv[1])' {{{0}}}",
    "perl": "perl -e 'print $ARGV[0]' {{{0}}}",
}


def objection(words: Sequence[str]) -> tuple[str, str] | None:
    """(what is wrong, the right form) where a placeholder may be a part of a program or isn't known, or a word can be
    no argument; None where all stand well."""
    if any("\0" in word for word in words):
        return "a NUL can be in no command", "Leave it out"
    if words and (found := PLACEHOLDER.search(words[0])):
        what = f"{{{found[1]}}} names the program to be started, and a run may be called anything"
        return what, f"Name the program itself; it finds {VARIABLES[found[1]]} in its environment"
    misplaced = script_words.misplaced(words, PLACEHOLDER, known_only=True)
    if misplaced is None:
        return _unknown(words)
    name, program = misplaced.name, misplaced.reader
    if not misplaced.is_sure:
        what = f"{{{name}}} is given to {program}, and whether that runs what it gets isn't known"
        hint = f"Give it to a script, as sh hook.sh {{{name}}}, or use {VARIABLES[name]} of its environment"
        return what, hint
    what = f"{{{name}}} stands in what {program} reads as a program, where a part of a run's name or error would be run"
    example = _EXAMPLES.get(program, "sh -c 'echo \"$1\"' _ {{{0}}}").format(name)
    variable = f'"${VARIABLES[name]}"' if program not in _EXAMPLES else f"{VARIABLES[name]} of its environment"
    return what, f"Give it as a word of its own, {example}, or use {variable}"


def _unknown(words: Sequence[str]) -> tuple[str, str] | None:
    """Braces in a program are the program's own; anywhere else they would reach it as they are."""
    programs = script_words.read_as_program(words)
    plain = (word for at, word in enumerate(words) if at == 0 or at not in programs)
    name = next((found[1] for word in plain for found in _LIKE_ONE.finditer(word) if found[1] not in VARIABLES), None)
    if name is None:
        return None
    known = ", ".join(f"{{{one}}}" for one in VARIABLES)
    return f"{{{name}}} is nothing that a piece of news has", f"It has {known}"
