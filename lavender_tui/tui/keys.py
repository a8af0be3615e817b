"""The one table of keys: bindings, the key bar, the help screen, the palette and the README's table come from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.binding import BindingType

LIST, RUN, RESUME, LOG = "list", "run", "resume", "log"
OVERVIEW, CURVE, DATA, TREE = "overview", "curve", "data", "tree"
COMPARE, DISK, EVERYWHERE = "compare", "disk", "everywhere"
PLACES = {
    LIST: "The list of runs",
    RUN: "A run's page",
    RESUME: "The resume sheet",
    LOG: "The log",
    OVERVIEW: "A run's page, Overview",
    CURVE: "A run's page, Loss",
    DATA: "A run's page, Data",
    TREE: "A checkpoint",
    COMPARE: "The comparison",
    DISK: "The disk",
    EVERYWHERE: "Everywhere",
}
_ROWS = (LIST, RUN, LOG, DISK, TREE)  # pages of rows that one moves through
_NEAR = {  # where one gets to with one key; from anywhere else the list is the way
    LIST: (RUN, LOG, RESUME, DISK, COMPARE),
    RUN: (CURVE, DATA, LOG, RESUME, TREE),
    LOG: (RUN, CURVE, DATA, RESUME),
    TREE: (RUN, CURVE, DATA),
}
_DIGITS = "1-7"
_GLYPHS = {
    "enter": "⏎", "escape": "esc", "space": "␣", "slash": "/", "question_mark": "?", "left": "←", "right": "→",
    "up": "↑", "down": "↓", "pageup": "pgup", "pagedown": "pgdn", "plus": "+", "minus": "-", "percent_sign": "%",
}  # fmt: skip
_NAMES = {shown: name for name, shown in _GLYPHS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: `keys` as Textual names them, comma-separated alternatives, the first of them shown.

    `label` is the word in the key bar (empty: not in the bar), `help` the sentence in help, tooltip and README.
    `places` are the screens where it works. `title` names it in the palette where the label isn't enough.
    `changes`: does it lead to something that is started, ended or written? Read-only, such a key isn't there.
    """

    id: str
    keys: str
    action: str
    help: str
    places: tuple[str, ...]
    changes: bool
    label: str = ""
    display: str | None = None
    title: str = ""

    @property
    def name(self) -> str:
        """A short name, for the palette."""
        words = self.title or self.label
        return words[:1].upper() + words[1:]

    @property
    def shown(self) -> str:
        """The key as a person reads it."""
        return self.display or _shown(self.keys.split(",")[0])

    def pressed_at(self, cell: int) -> str:
        """Of several keys that are shown together the one at that cell, the first of them behind them, as Textual names
        it; empty where there is one, whose action is all that a click asks for."""
        several = self.shown.split("-" if self.shown == _DIGITS else " ")
        if len(several) == 1:
            return ""
        under = next((one for at, one in _placed(several) if at <= cell < at + len(one)), "")
        return _named(under) if under else self.keys.split(",")[0]


def _placed(shown: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each with the cell that it begins at, one cell between them."""
    at = 0
    for one in shown:
        yield at, one
        at += len(one) + 1


def _named(shown: str) -> str:
    return _NAMES.get(shown, shown.replace("^", "ctrl+"))


def _shown(key: str) -> str:
    return _GLYPHS.get(key, key.replace("ctrl+", "^"))


def name_of(pressed: str) -> str:
    """A single key, named as Textual does, as a person reads it."""
    return _shown(pressed)


def in_words(shown: str) -> str:
    """For a terminal that draws ASCII alone: keys whose sign nobody would read there, by name."""
    return shown.replace("⏎", "enter").replace("␣", "space")


TABLE: tuple[Key, ...] = (
    Key(
        id="run.resume", keys="r", action="resume", label="resume", places=(LIST, RUN, LOG),
        changes=True, help="Open the resume sheet: filled in, checked, ready for ⏎",
    ),
    Key(
        id="run.resume_now", keys="R", action="resume_now", title="resume at once", places=(LIST, RUN, LOG),
        changes=True, help="Resume at once, with the defaults; it says what was done",
    ),
    Key(
        id="sheet.launch", keys="enter", action="launch", label="merge and launch", places=(RESUME,),
        changes=True, help="Merge the rank states and launch; refused while a row is wrong",
    ),
    Key(
        id="sheet.change", keys="right,left", action="change", display="← →", label="change", places=(RESUME,),
        changes=False, help="Choose another value in the row; numbers can be typed",
    ),
    Key(
        id="sheet.next", keys="tab", action="app.focus_next", label="next", places=(RESUME,),
        changes=False, help="The next row; shift+tab or ↑ ↓ as well",
    ),
    Key(
        id="sheet.mend", keys="m", action="mend", label="mend", places=(RESUME,), changes=False,
        help="Where something refuses: take the nearest choice that works, as the last line says",
    ),
    Key(
        id="sheet.before", keys="b", action="before_spike", label="before the jump", places=(RESUME,), changes=False,
        help="Back to before the loss jumped: the newest save there; once more: the newest of all",
    ),
    Key(
        id="sheet.verify", keys="v", action="verify", label="verify", places=(RESUME,),
        changes=False, help="Read all of it now: checksums and NaN of the checkpoint, rows of the table; esc stops it",
    ),
    Key(
        id="sheet.again", keys="f5", action="check_again", display="F5", title="check again", places=(RESUME,),
        changes=False, help="Check once more what is chosen: after a repair, or where no answer comes",
    ),
    Key(
        id="sheet.copy", keys="c", action="copy_command", label="copy", title="copy the command",
        places=(RESUME,),
        changes=False, help="Copy this resume as a command: a `lavender-tui resume …` that does what ⏎ does",
    ),
    Key(
        id="sheet.dry", keys="d", action="dry_run", label="dry run", places=(RESUME,),
        changes=False, help="Show the resume plan as JSON; nothing is written",
    ),
    Key(
        id="run.stop", keys="x", action="stop", label="stop", places=(LIST, RUN, LOG, RESUME),
        changes=True, help="Stop the run; asks first how: now, at its next save, at the end of the epoch, or kill it",
    ),
    Key(
        id="run.log", keys="l", action="log", label="log", places=(LIST, RUN),
        changes=False, help="Follow the run's log",
    ),
    Key(
        id="list.open", keys="enter", action="open", label="open", places=(LIST,),
        changes=False, help="Open the run's page: every checkpoint, the loss, where each split stands",
    ),
    Key(
        id="list.compare", keys="c", action="compare", label="compare", places=(LIST,),
        changes=False, help="Compare the marked runs: curves, settings, versions, losses at the same steps",
    ),
    Key(
        id="list.filter", keys="slash", action="filter", label="filter", places=(LIST,),
        changes=False, help="Show only runs that match: a word, state:failed, loss<2, stage=sft, !name; tab completes",
    ),
    Key(
        id="list.clear", keys="escape", action="clear_filter", title="clear the filter", places=(LIST,),
        changes=False, help="Clear the filter; without one, unmark all",
    ),
    Key(
        id="list.sort", keys="s", action="sort", label="sort", places=(LIST,),
        changes=False, help="Sort by the next column",
    ),
    Key(
        id="list.reverse", keys="S", action="reverse", title="reverse", places=(LIST,),
        changes=False, help="Reverse the order",
    ),
    Key(
        id="list.mark", keys="space", action="mark", label="mark ↓", title="mark", places=(LIST,),
        changes=False, help="Mark or unmark the run and go one row down; two or more are compared",
    ),
    Key(
        id="list.disk", keys="D", action="disk", title="disk", places=(LIST,),
        changes=False, help="What the checkpoints cost, how long the disk lasts, and which of them could go",
    ),
    Key(
        id="list.fold", keys="left,right", action="fold", title="fold or unfold", places=(LIST,), display="← →",
        changes=False, help="Fold or unfold its resumes: the runs that go on from this one",
    ),
    Key(
        id="list.flat", keys="t", action="flat", title="tree or flat", places=(LIST,),
        changes=False, help="Runs below what they go on from, or each in its own place; ⋯7 is seven deep",
    ),
    Key(
        id="list.view", keys="v", action="next_view", title="next view", places=(LIST,),
        changes=False, help="The next named filter, those of the settings and the saved ones",
    ),
    Key(
        id="list.save_view", keys="V", action="save_view", title="save as a view", places=(LIST,),
        changes=False, help="Save the filter under a name",
    ),
    Key(
        id="log.match", keys="n", action="next_match", display="n N", label="match", title="the next match",
        places=(LOG,), changes=False, help="The next line that matches, N the one before; both go on at the other end",
    ),
    Key(
        id="log.match_back", keys="N", action="previous_match", title="the match before", places=(LOG,),
        changes=False, help="The line before that matches",
    ),
    Key(
        id="log.follow", keys="f", action="follow", label="follow", places=(LOG,),
        changes=False, help="Follow the newest line, or stay where you are",
    ),
    Key(
        id="log.file", keys="tab", action="next_file", label="next file", places=(LOG,),
        changes=False, help="The next log file",
    ),
    Key(
        id="log.files", keys="o", action="files", label="files", places=(LOG,),
        changes=False, help="Choose a file from a list: ranks, attempts, Slurm's output, older parts",
    ),
    Key(
        id="log.search", keys="slash", action="search", label="search", places=(LOG,),
        changes=False, help="Search the whole file; a capital minds case, \\v in front makes it a pattern",
    ),
    Key(
        id="log.error", keys="e", action="next_error", label="error", places=(LIST, RUN, LOG),
        changes=False, help="Go to the error: the one that ended the run first, then the next one",
    ),
    Key(
        id="log.error_back", keys="E", action="previous_error", title="the error before", places=(LOG,),
        changes=False, help="Go to the error before, with all its lines",
    ),
    Key(
        id="log.place", keys="percent_sign", action="place", display="%", title="to a line", places=(LOG,),
        changes=False, help="To a line of the file, 1200, or a percentage of it, 50%",
    ),
    Key(
        id="log.copy", keys="Y", action="copy_lines", title="copy the lines", places=(LOG,),
        changes=False, help="Copy the lines on the screen",
    ),
    Key(
        id="log.wrap", keys="w", action="wrap", label="wrap", places=(LOG,),
        changes=False, help="Show long lines on several, or cut them at the edge",
    ),
    Key(
        id="log.aside", keys="right,left", action="aside", display="← →", title="sideways", places=(LOG,),
        changes=False, help="Move sideways over long lines that aren't wrapped",
    ),
    Key(
        id="copy.run", keys="y", action="copy_of_run", label="copy", title="copy", places=(LIST, RUN),
        changes=False, help="Copy the run's path (y again), its command or it all as JSON; or show it to select from",
    ),
    Key(
        id="copy.path", keys="y", action="copy_path", label="copy", title="copy the path", places=(LOG,),
        changes=False, help="Copy the path of the log; or the error or match that a key went to",
    ),
    Key(
        id="run.tabs", keys="1,2,3,4,5,6,7", action="tab", display=_DIGITS, label="tabs", title="tab",
        places=(RUN, LOG), changes=False,
        help="Overview, Checkpoints, Loss, Data, Processes, Log, History; tab goes to the next, in the log to a file",
    ),
    Key(
        id="run.tree", keys="enter", action="tree", places=(RUN,), title="open the checkpoint",
        changes=False, help="What is in the checkpoint: keys, tensors, shapes; in History, the entry",
    ),
    Key(
        id="run.find", keys="slash", action="find_setting", places=(RUN,), title="find a setting",
        changes=False, help="Only settings with these letters",
    ),
    Key(
        id="run.beside", keys="right,left", action="beside", display="→ ←", title="facts", places=(OVERVIEW,),
        changes=False, help="To the facts and settings, which j and k scroll; back to the checkpoints",
    ),
    Key(
        id="curve.move", keys="right,left", action="curve_move", display="← →", label="read off", places=(CURVE,),
        changes=False, help="Read values off along the curve; shift is ten times as far",
    ),
    Key(
        id="curve.zoom", keys="plus,minus", action="curve_zoom", display="+ -", label="zoom", places=(CURVE,),
        changes=False, help="Closer around the cursor, and back; 0 shows all",
    ),
    Key(
        id="curve.metric", keys="m,M", action="curve_metric", display="m M", label="metric", places=(CURVE, COMPARE),
        changes=False, help="The next number that was logged, such as the learning rate; the one before",
    ),
    Key(
        id="curve.log", keys="o", action="curve_log", label="log scale", places=(CURVE, COMPARE),
        changes=False, help="Logarithmic scale, on or off",
    ),
    Key(
        id="curve.smooth", keys="a", action="curve_smooth", label="average", places=(CURVE,),
        changes=False, help="Average over 10 or 50 points, or over none",
    ),
    Key(
        id="data.ranks", keys="right,left", action="ranks", display="← →", label="world_size", places=(DATA,),
        changes=False, help="Who would own which split, on another world_size",
    ),
    Key(
        id="tree.filter", keys="slash", action="filter", label="filter", places=(TREE,),
        changes=False, help="Only keys, shapes and values with these letters",
    ),
    Key(
        id="tree.copy", keys="y", action="copy_key", label="copy the key", places=(TREE,),
        changes=False, help="Copy the dotted path of the key",
    ),
    Key(
        id="compare.scroll", keys="j,down", action="scroll(1)", display="j k", label="scroll", places=(COMPARE,),
        changes=False, help="Scroll through the differences; ^d and ^u by half a screen, g and G to the ends",
    ),
    Key(
        id="compare.copy", keys="y", action="copy_text", label="copy", places=(COMPARE,),
        changes=False, help="Copy the whole comparison as text",
    ),
    Key(
        id="disk.last", keys="plus", action="keep_last(1)", display="+ -", label="last", places=(DISK,),
        changes=False, help="Keep more or fewer of the newest",
    ),
    Key(
        id="disk.best", keys="b", action="keep_best(1)", display="b B", label="best", places=(DISK,),
        changes=False, help="Keep more or fewer of the best",
    ),
    Key(
        id="disk.prune", keys="P", action="prune", label="prune run", places=(DISK,),
        changes=True, help="Delete what could go: of the run under the cursor; asks first",
    ),
    Key(
        id="disk.prune_all", keys="A", action="prune_all", label="all runs", title="prune all runs", places=(DISK,),
        changes=True, help="Delete what could go of all runs, each named in the question",
    ),
    Key(
        id="disk.other", keys="tab", action="app.focus_next", label="list", title="the other table", places=(DISK,),
        changes=False, help="To the list of the run's checkpoints below, or the one above; j and k move in it",
    ),
    Key(
        id="list.rescan", keys="f5", action="rescan", places=(LIST, RUN), display="F5", title="rescan",
        changes=False, help="Look at the disk now",
    ),
    Key(
        id="move", keys="j,k,down,up", action="move", display="j k ↑ ↓", title="up and down",
        places=_ROWS,
        changes=False, help="One row down, one up",
    ),
    Key(
        id="move.ends", keys="g,G,home,end", action="move_ends", display="g G", title="the ends", places=_ROWS,
        changes=False, help="The first row, the last row",
    ),
    Key(
        id="move.half", keys="ctrl+d,ctrl+u", action="move_half", display="^d ^u", title="half a screen",
        places=_ROWS,
        changes=False, help="Half a screen down, half a screen up; pgdn and pgup a whole one",
    ),
    Key(
        id="sheet.scroll", keys="pagedown,pageup", action="scroll_body", display="pgdn", title="scroll",
        places=(RESUME,), changes=False, help="Scroll to the checks and the command where they don't fit",
    ),
    Key(
        id="back", keys="escape", action="back", label="back", places=(RUN, RESUME, LOG, COMPARE, DISK, TREE),
        changes=False, help="Back; first out of a search, where there is one",
    ),
    Key(
        id="palette", keys="ctrl+p,colon", action="app.command_palette", label="commands", places=(EVERYWHERE,),
        changes=False, help="Every command and run by name; themes too",
    ),
    Key(
        id="help", keys="question_mark,f1", action="app.help", label="help", places=(EVERYWHERE,),
        changes=False, help="This help",
    ),
    Key(
        id="quit", keys="q", action="app.quit", label="quit", places=(EVERYWHERE,),
        changes=False, help="Quit; trainings go on",
    ),
)  # fmt: skip

# Rows move themselves (widgets/line_table.py): these are in the table for the help, not bound by a screen.
_BOUND_BY_WIDGETS = frozenset(
    {
        "run.tabs",
        "run.beside",
        "curve.move",
        "curve.zoom",
        "curve.metric",
        "data.ranks",
        "disk.other",
        "move",
        "move.ends",
        "move.half",
        "sheet.change",
        "sheet.next",
        "sheet.scroll",
        "log.aside",
    }
)

TABS = ("Overview", "Checkpoints", "Loss", "Data", "Processes", "Log", "History")
# What the palette has for keys with several meanings.
_COMMANDS: dict[str, tuple[tuple[str, str], ...]] = {
    "run.tabs": tuple((f"Tab {number}: {name}", f"tab({number})") for number, name in enumerate(TABS, 1)),
    "curve.zoom": (("Closer", "curve_zoom(2)"), ("Farther", "curve_zoom(0.5)"), ("All of it", "curve_zoom(0)")),
    "curve.metric": (("Next metric", "curve_metric(1)"), ("Metric before", "curve_metric(-1)")),
}


# What every page has, or nearly every one; the help says it once.
COMMON = ("move", "move.ends", "move.half", "back", "palette", "help", "quit")


def of_place(place: str) -> tuple[Key, ...]:
    """The keys that work in one place, those of everywhere last."""
    own = tuple(key for key in TABLE if place in key.places)
    return own + tuple(key for key in TABLE if EVERYWHERE in key.places and place != EVERYWHERE)


def of_places(places: Sequence[str]) -> tuple[Key, ...]:
    """The keys that work in any of the places, each once, the first place's first, those of everywhere last."""
    return tuple(dict.fromkeys(key for place in (*places, EVERYWHERE) for key in TABLE if place in key.places))


def elsewhere(pressed: str, places: Sequence[str]) -> list[str]:
    """The other places where a key of that name, as Textual has it, works, the nearest first; none where it works in
    one of `places` too."""
    found = {place for key in TABLE if pressed in key.keys.split(",") for place in key.places}
    if pressed == "escape" or found & {*places, EVERYWHERE}:
        return []
    return [place for place in dict.fromkeys((*_NEAR.get(places[-1], ()), *PLACES)) if place in found]


def only_changes(pressed: str) -> bool:
    """Does a key of that name change something, wherever it works?"""
    return all(key.changes for key in TABLE if pressed in key.keys.split(","))


def bindings(place: str) -> list[BindingType]:
    """Textual bindings of one place, each with its id and tooltip."""
    from textual.binding import Binding

    return [
        Binding(key.keys, key.action, key.label or key.help, show=bool(key.label), tooltip=key.help, id=key.id)
        for key in TABLE
        if place in key.places and key.id not in _BOUND_BY_WIDGETS
    ]


def commands(key: Key) -> list[tuple[str, str]]:
    """Name and action of what the palette does for the key; none where rows of a widget are moved by it."""
    if key.id in _COMMANDS:
        return list(_COMMANDS[key.id])
    return [] if key.id in _BOUND_BY_WIDGETS else [(key.name, key.action)]


def is_changing(action: str) -> bool:
    """Does some key with this action change something? `action` may have its parameters in brackets."""
    name = action.partition("(")[0]
    return any(key.changes and key.action == name for key in TABLE)


def shown_of(action: str) -> str:
    """The key for an action, its parameters left out, as a person reads it; empty where none has it."""
    name = action.partition("(")[0]
    return next((key.shown for key in TABLE if key.action == name), "")


def by_id(key_id: str) -> Key:
    """The key with that id. Raises KeyError."""
    for key in TABLE:
        if key.id == key_id:
            return key
    raise KeyError(key_id)


def markdown(keys: Iterable[Key] = TABLE) -> str:
    """The key table of the README."""
    lines = ["| key | where | what |", "| --- | --- | --- |"]
    for key in keys:
        where = ", ".join(PLACES[place].lower() for place in key.places)
        lines.append(f"| `{key.shown}` | {where} | {key.help} |")
    return "\n".join(lines) + "\n"
