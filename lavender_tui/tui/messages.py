"""What threads tell the screens. Only handlers touch widgets; what comes late is dropped by its sequence number.

What the watcher tells is in `feed`: the first frame needs nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.screen import Screen

    from lavender_tui.launch.living import Member
    from lavender_tui.launch.stop_order import StopOrder
    from lavender_tui.logs.pager import Page
    from lavender_tui.logs.survey import Survey
    from lavender_tui.model.disk import Account, KeepRules
    from lavender_tui.model.ending import StopRequest
    from lavender_tui.model.log_errors import ErrorBlock
    from lavender_tui.model.plan import Proposal
    from lavender_tui.tui.position import DataPosition
    from lavender_tui.tui.widgets.history_table import Happening
    from lavender_tui.tui.widgets.process_table import ProcessRow
    from lavender_tui.watch.hand import HandRun
    from lavender_tui.watch.vacant import VacantRoot


@dataclass
class ProposalMade(Message, bubble=False):
    """An answer to question number `sequence`; `error` is one sentence where there is no proposal."""

    sequence: int
    proposal: Proposal | None
    error: str | None = None


@dataclass
class LookProgress(Message, bubble=False):
    """So many bytes of the checkpoint of question number `sequence` are read."""

    sequence: int
    done: int
    total: int

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LookProgress)


@dataclass
class LookEnded(Message, bubble=False):
    """The deep look at the proposal of question number `sequence` ended: with more checks, or with `error`."""

    sequence: int
    proposal: Proposal | None = None
    error: str | None = None


class Owed(Message, bubble=False):
    """How something ended that a person asked for. Where the screen that it is told to is left before it hears of it,
    another one of that kind tells it."""

    heirs: type[Screen[Any]] | None = None


@dataclass
class ResumeEnded(Owed):
    """A resume of `source` was launched in `run_dir`, as `words` tell, or `error` says why it was not.

    `may_repeat`: it was refused only because the run was resumed before; asked again, it may be done.
    """

    source: str
    run_dir: str | None = None
    error: str | None = None
    words: str = ""
    may_repeat: bool = False


@dataclass
class StopEnded(Owed):
    """A stop was asked for or came to its end; one sentence, empty where the run itself shows it all.

    `may_go_on`: the order that could be carried out, if that is wanted without a record, too.
    """

    run_path: str
    words: str
    is_error: bool = False
    may_go_on: StopOrder | None = None


@dataclass
class TreeSeen(Message, bubble=False):
    """The processes that a kill would end, as they are now."""

    members: list[Member]


@dataclass
class RequestSeen(Message, bubble=False):
    """What a run is asked for in its `request.json` at this moment."""

    request: StopRequest | None


@dataclass
class HandJudged(Message, bubble=False):
    """Which processes are surely of a run that was started by hand, or the sentence why none is."""

    found: HandRun | str


@dataclass
class PositionRead(Message, bubble=False):
    """Answer to question number `sequence`: where the data of one checkpoint, of that mtime, stands."""

    sequence: int
    position: DataPosition
    mtime_ns: int


@dataclass
class LogFiles(Message, bubble=False):
    """The files that hold a run's output, as (label, path); sent when the set of them changed."""

    files: list[tuple[str, str]]


@dataclass
class LogRead(Message, bubble=False):
    """Pages of the log of session `session`: `what` was asked for ("grown": they changed), `where` as it was asked.

    `size` is the file's length in bytes, `last` the number of its last page.
    """

    session: int
    what: str
    pages: list[Page]
    size: int
    last: int
    where: int = 0


@dataclass
class LogChanged(Message, bubble=False):
    """The file, `size` bytes long before, was "cut", "replaced", is "gone" (`words`: where not it alone was deleted) or
    can't be read ("failed": `words`).

    `moved`: so many bytes of its front are in PATH.1 now, and what follows them stands that much nearer to its front.
    """

    session: int
    what: str
    size: int
    words: str = ""
    moved: int = 0


@dataclass
class LogSurveyed(Message, bubble=False):
    """How far a log was gone through, and what is in it so far; `survey` may be asked, which reads nothing."""

    session: int
    survey: Survey
    is_whole: bool
    error_count: int
    first: ErrorBlock | None
    first_line: int | None
    done: float = 1.0

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LogSurveyed)


@dataclass
class LogSought(Message, bubble=False):
    """Order `number` is done to that share; with `is_over` it found nothing or was stopped."""

    session: int
    number: int
    done: float
    is_over: bool = False

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LogSought) and not message.is_over


@dataclass
class LogFound(Message, bubble=False):
    """Order `number` found a line at `start`, or a whole `error`; `wrapped`: beyond the end or the beginning."""

    session: int
    number: int
    start: int
    wrapped: bool
    error: ErrorBlock | None = None
    line: int | None = None


@dataclass
class LogCounted(Message, bubble=False):
    """So many lines match `words`, in that share of the file; the first ones begin at `starts`, in their order."""

    session: int
    words: str
    count: int
    done: float
    starts: Sequence[int] = ()

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LogCounted)


@dataclass
class FilterTyped(Message):
    """The list's filter reads `query` now."""

    query: str


@dataclass
class FilterEnded(Message):
    """The filter is typed to its end."""


@dataclass
class SearchTyped(Message):
    """The search in a log reads `words` now."""

    words: str


@dataclass
class SearchEnded(Message):
    """The search is typed to its end: look for `words`."""

    words: str


@dataclass
class ViewsRead(Message):
    """The named views, name → query."""

    views: dict[str, str]


@dataclass
class DiskJudged(Message):
    """Answer to question number `sequence`, asked with these rules, which took so long. `is_whole`: all runs had been
    read when it was asked."""

    sequence: int
    rules: KeepRules
    is_whole: bool
    account: Account
    seconds: float


@dataclass
class PruneEnded(Message):
    """What was to go has gone, or stays."""


@dataclass
class DeedBroke(Message, bubble=False):
    """What was asked for under that name ended by an error that nobody foresaw, in words."""

    name: str
    words: str


@dataclass(frozen=True)
class Unread:
    """What of a run's numbers isn't read. `first_step`: the first that is, of a file so long that its beginning is left
    out, else None. `metrics`: how many there are beyond the most that are kept, in words."""

    first_step: float | None = None
    metrics: str = ""


@dataclass
class MetricsRead(Message):
    """Every number that the training in `path` logged: metric → (step, value) points."""

    path: str
    metrics: dict[str, list[tuple[float, float]]]
    unread: Unread


@dataclass
class AllMetricsRead(Message):
    """The same of several runs, in their order; {} where one isn't read yet. `is_over`: no more comes."""

    metrics: list[Mapping[str, Sequence[tuple[float, float]]]]
    unread: list[Unread]
    is_over: bool


@dataclass
class HistoryRead(Message):
    """What happened to the run in `path`, newest first; None where it could not be read."""

    path: str
    rows: list[Happening] | None


@dataclass
class ProcessesSampled(Message):
    """The processes of the run in `path` as a tree, with what each uses; None where they could not be asked."""

    path: str
    rows: list[ProcessRow] | None


@dataclass
class RootsSeen(Message, bubble=False):
    """Why there are no runs, a root each."""

    roots: tuple[VacantRoot, ...]


@dataclass
class GpusSeen(Message):
    """What the GPUs of this machine do, in words; "" without one."""

    words: str
