"""Where the torchrun agents of several hosts meet: an address that this host is reached by, and a port that is free."""

from __future__ import annotations

import contextlib
import random
import re
import socket
from collections.abc import Iterator

from lavender_tui.errors import UsageError
from lavender_tui.launch.identity import host_name

LOOPBACK = "127.0.0.1"
# Below what the kernel gives to outgoing connections (32768 and up), so that none of those takes it in between.
PORTS = range(20_000, 29_000)  # torch's own defaults, 29400 and 29500, are left to those who don't choose
TRIES = 200
_ENDPOINT = re.compile(r"(?P<host>\[[0-9A-Fa-f:]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")


def split(endpoint: str) -> tuple[str, int]:
    """(host, port) of `HOST:PORT` or `[IPv6]:PORT`. Raises UsageError for anything else."""
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None or not 0 < int(match["port"]) < 65_536:
        raise UsageError(
            f"{endpoint!r} is no place to meet", hint="Give --rdzv-endpoint HOST:PORT, such as gpu-01:29511"
        )
    return match["host"].strip("[]"), int(match["port"])


def ranks_per_node(world_size: int, nodes: int) -> int:
    """How many ranks each host starts. Raises UsageError where they can't be shared evenly."""
    if nodes < 1 or world_size % nodes:
        below = world_size // nodes * nodes if nodes > 0 else 0
        fitting = [str(size) for size in (below, below + nodes) if size > 0]
        raise UsageError(
            f"world_size {world_size} can't be shared by {nodes} nodes: each starts as many ranks as the others",
            hint=f"Choose world_size {' or '.join(fitting)}, or another number of nodes" if nodes > 0 else None,
        )
    return world_size // nodes


def choose(seed: str) -> str:
    """An endpoint on this host, at a port that is free now.

    The port is drawn from `seed`, the run's id, so that two launches at the same instant look at different ones. The
    address is this host's name where that leads to it from elsewhere, else loopback: enough for several nodes on one.
    """
    draw = random.Random(seed)
    for _ in range(TRIES):
        port = draw.choice(PORTS)
        if is_free(port):
            return f"{_own_name()}:{port}"
    raise UsageError(
        f"of {TRIES} ports tried between {PORTS.start} and {PORTS.stop} none is free", hint="Give --rdzv-endpoint"
    )


def _own_name() -> str:
    name = host_name()
    return LOOPBACK if all(map(_is_loopback, _addresses(name))) else name


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _addresses(host: str) -> list[str]:
    try:
        return [str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


def is_free(port: int) -> bool:
    """Could somebody listen at that port of all addresses now, as torchrun's store will?"""
    with contextlib.ExitStack() as held:
        for family, anywhere in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
            try:
                listener = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
            except OSError:
                continue  # a kernel without IPv6
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that has ended is no obstacle
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                listener.bind((anywhere, port))
                listener.listen(1)
            except OSError:
                return False
    return True


def is_here(host: str) -> bool:
    """Is that an address of this host?"""
    return any(_can_bind(address) for address in _addresses(host))


def _can_bind(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False


def refuse_taken(endpoint: str) -> None:
    """Raise UsageError where the endpoint is on this host and somebody listens there, with who it is.

    torchrun would say nothing: a second job joins the store of the first one, and dies with it.
    """
    host, port = split(endpoint)
    if not is_here(host) or (taken := why_taken(port)) is None:
        return
    raise UsageError(taken, where=endpoint, hint="Give another --rdzv-endpoint, or none: then a free one is")


def why_taken(port: int) -> str | None:
    """`port 29500 is taken by pid 123`; None where it is free on this host."""
    if is_free(port):
        return None
    pids = sorted(set(_listeners(port)))
    who = f"by pid {', '.join(map(str, pids))}" if pids else "by a process of another user"
    return f"port {port} is taken {who}"


def _listeners(port: int) -> Iterator[int]:
    import psutil

    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return
    for one in connections:
        if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
            yield one.pid


def local_address(endpoint: str) -> str | None:
    """The address by which the other hosts reach this one: that of the way to the endpoint; None: torchrun finds it.

    torchrun would look its own full name up, which on many machines is missing or loopback.
    """
    host, port = split(endpoint)
    found = _addresses(host)
    if not found:
        return None
    family = socket.AF_INET6 if ":" in found[0] else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((found[0], port))  # datagrams: nothing is sent
        address = str(probe.getsockname()[0])
        if not _is_loopback(address) or found[0] == host or host == "localhost":
            return address
    return None
