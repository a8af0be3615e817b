"""Free ports for the servers of the tests, of which some run in several processes at once."""

from __future__ import annotations

import os
import socket

# Below the range from which the kernel gives ports to others, so that none of these takes one before it is used; above
# the one from which places to meet are chosen.
FIRST, LAST = 29_600, 32_700
EACH = 8  # of a process; the next process begins behind it


def free_ports(count: int) -> list[int]:
    """Free at the same time; two processes with following pids are given different ones."""
    found: list[socket.socket] = []
    places = (LAST - FIRST) // EACH
    try:
        for step in range(LAST - FIRST):
            port = FIRST + ((os.getpid() % places) * EACH + step) % (LAST - FIRST)
            listener = socket.socket()
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                listener.close()
                continue
            found.append(listener)
            if len(found) == count:
                return [one.getsockname()[1] for one in found]
        raise RuntimeError("no free ports")
    finally:
        for listener in found:
            listener.close()
