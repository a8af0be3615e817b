"""A real sshd on loopback: own keys, own configuration, own port, all of it in one directory."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.ports import free_ports

SSHD = next((path for path in (shutil.which("sshd"), "/usr/sbin/sshd") if path and os.path.exists(path)), None)
NEEDED = ("ssh", "ssh-keygen")

CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/user_key.pub
PidFile none
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PrintMotd no
"""


def why_not() -> str | None:
    """What is missing here to start one; None where nothing is."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if SSHD is None:
        missing.append("sshd (package openssh-server)")
    return f"there is no {' and no '.join(missing)}" if missing else None


class Server:
    """One sshd, a child of the tests, and the options with which a client gets in."""

    def __init__(self, directory: Path, *, host: str | None = None, settings: Sequence[str] = ()) -> None:
        """`host`: as on another machine of that name, with processes of its own; `settings`: further lines."""
        self.directory = directory
        for name in ("host_key", "user_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
            subprocess.run(command, check=True)
        (self.port,) = free_ports(1)
        host_key = (directory / "host_key.pub").read_text().split()
        (directory / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host_key[0]} {host_key[1]}\n")
        (directory / "config").write_text(CONFIG.format(port=self.port, directory=directory) + "\n".join(settings))
        if os.getuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # where sshd separates its privileges
        self._log = open(directory / "sshd.log", "wb")  # noqa: SIM115
        assert SSHD is not None
        alone = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        named = [*alone, "sh", "-c", 'hostname "$0" && exec "$@"', host] if host is not None else []
        self._process = subprocess.Popen(
            [*named, SSHD, "-D", "-e", "-f", str(directory / "config")], stdin=subprocess.DEVNULL, stderr=self._log
        )

    def wait(self, seconds: float = 60.0) -> None:
        """Until somebody gets in."""
        deadline = time.monotonic() + seconds
        while self.run("true").returncode:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"sshd does not answer: {(self.directory / 'sshd.log').read_text()}")
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def client(self, *options: str) -> list[str]:
        """The client's command line as far as the remote words."""
        return [
            "ssh", "-F", os.devnull, *options, "-p", str(self.port), "-l", getpass.getuser(),
            "-i", str(self.directory / "user_key"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
            "-o", f"UserKnownHostsFile={self.directory}/known_hosts", "-o", "StrictHostKeyChecking=yes",
            "-o", "ConnectTimeout=5", "-o", "LogLevel=ERROR", "127.0.0.1", "--",
        ]  # fmt: skip

    def run(self, *words: str, environment: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """A session of its own for one command; `environment` as `NAME=value`."""
        command = [*self.client("-T"), shlex.join(["env", *environment, *words])]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def open(self, *words: str, environment: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """A session with a terminal, as a person has it, left open."""
        command = [*self.client("-tt"), shlex.join(["env", *environment, *words])]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
