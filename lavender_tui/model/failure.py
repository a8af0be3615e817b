"""What ended a training, as its ranks left it. Imports little: the supervisor imports it at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_LINES, LONGEST_LINE = 60, 400
# What a rank says when another one is gone: gloo's, NCCL's and the store's words for a peer that went away.
_PEER_GONE = re.compile(
    r"[Cc]onnection (?:reset|closed|refused|aborted)(?: by peer)?|Broken pipe|[Ss]ocket (?:closed|is not connected)|"
    r"ncclRemoteError|remote process exited|NCCL communicator .{0,500}abort|recvValue failed|sendBytes failed|"
    r"failed to recv, got 0 bytes|Application timeout caused pair closure"
)
_OF_A_GROUP = re.compile(r"gloo|nccl|NCCL|c10d|TCPStore|DistBackendError|DistNetworkError|DistStoreError|ProcessGroup")
# Of these the ones that a rank which waits too long, or a store in another process, has no part in.
_RANK_ENDED = re.compile(
    r"[Cc]onnection (?:reset|closed) by peer|Broken pipe|ncclRemoteError|"
    r"remote process exited(?: or there was a network error)?"
)
_OF_THE_STORE = re.compile(r"TCPStore|DistNetworkError|DistStoreError")
# Where torch was built, what gloo adds for whoever is new to it, and torch's own C++ frames.
_BUILT_AT = re.compile(r"\[[^\s\[\]]{1,300}\.(?:cc|cpp|cu|h):[0-9]+\] ?")
_CHATTER = re.compile(r" ?(?:This is typically caused by a remote worker |Exception raised from \S+ at ).*")
_NCCL = re.compile(r"NCCL error in: \S{1,300}:[0-9]+, (.{1,300}?), NCCL version \S+(?:.*? Last error: ?(.*))?.*")
_FRAME = re.compile(r'\s*File "([^"]+)", line ([0-9]+)(?:, in (.+))?')


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One sentence, and where they are known the rank, its exception, the traceback's lines and the file they are in.

    `where` is relative to the run's directory. All of it was written by the training: to be shown as text.
    """

    words: str
    rank: int | None = None
    exception: str | None = None
    traceback: tuple[str, ...] = ()
    where: str | None = None

    @property
    def place(self) -> str | None:
        """ "train.py:20 in main": the traceback's last frame."""
        frames = [found for line in self.traceback if (found := _FRAME.match(line))]
        if not frames:
            return None
        path, line, name = frames[-1].groups()
        return f"{path.rsplit('/', 1)[-1]}:{line}" + (f" in {name}" if name else "")

    def to_json(self) -> dict[str, Any]:
        """For exit.json and the export."""
        return {
            "rank": self.rank,
            "exception": self.exception,
            "where": self.where,
            "traceback": list(self.traceback),
        }


def peer_gone(error: str) -> str | None:
    """What the error says of a peer that went away, as "Connection reset by peer".

    None for any other: also for a download's connection, which no rank was at the other end of.
    """
    found = _PEER_GONE.search(error)
    return found[0] if found is not None and _OF_A_GROUP.search(error) else None


def lost_rank(error: str) -> str | None:
    """As `peer_gone`, where the peer surely was a rank that is gone, and no mere timeout, nor torch's store."""
    found = _RANK_ENDED.search(error)
    return found[0] if found and _OF_A_GROUP.search(error) and not _OF_THE_STORE.search(error) else None


def brief(error: str) -> str:
    """The part of an error of gloo or NCCL that tells something, on one line; any other error as it is."""
    line = _CHATTER.sub("", _BUILT_AT.sub("", " ".join(error.split())))
    return _NCCL.sub(lambda found: "; ".join(filter(None, (f"NCCL error: {found[1]}", found[2]))), line).strip()


def failure_of(document: Any, words: str | None) -> Failure | None:
    """As `to_json` wrote it; None for anything else. Never raises."""
    if not isinstance(document, Mapping):
        return None
    rank, exception, where, lines = (document.get(key) for key in ("rank", "exception", "where", "traceback"))
    traceback = [line[:LONGEST_LINE] for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
    return Failure(
        words=words or "",
        rank=rank if type(rank) is int and 0 <= rank < 1 << 31 else None,
        exception=exception if isinstance(exception, str) else None,
        traceback=tuple(traceback[-MOST_LINES:]),
        where=where if isinstance(where, str) and "\0" not in where else None,
    )
