"""A real Slurm cluster of two virtual nodes on this machine: loopback only, no systemd, no cgroups, no database.

Everything it has lies in one short temporary directory, with a munge key and socket of its own; its ports are free
ones. Only processes that were started here are ended, by their handles.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from tests.ports import free_ports

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "munged")
PACKAGES = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
NODES = ("n1", "n2")
KILL_WAIT_SECONDS = 10  # that a job has from its SIGTERM on, to save in
GRACE_SECONDS = 20  # that a preempted job gets
STARTING_SECONDS = 90.0

CONFIGURATION = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
ReturnToService=2
StateSaveLocation={root}/state
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmdSpoolDir={root}/spool/%n
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1
SchedulerType=sched/backfill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MinJobAge=300
KillWait={kill_wait}
InactiveLimit=0
Waittime=0
SlurmdTimeout=30
{requeue_exit}
JobRequeue=1
JobCompType=jobcomp/filetxt
JobCompLoc={root}/jobcomp.log
AccountingStorageType=accounting_storage/none
{nodes}
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime={grace}
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


@dataclass
class Cluster:
    """Use `environment` for every client. `daemons` are the processes that were started, by name."""

    root: str = ""
    requeue_exit: bool = True
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: list[int] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": os.path.join(self.root, "slurm.conf")}

    def start(self) -> None:
        self.root = tempfile.mkdtemp(prefix="lv-slurm-", dir="/tmp")  # a socket's path has 108 bytes
        os.chmod(self.root, 0o755)
        for name in ("state", "spool", *(f"spool/{node}" for node in NODES)):
            os.mkdir(os.path.join(self.root, name))
        self._configure()
        self._start_munge()
        self.start_controller()
        for node in NODES:
            self._spawn(f"slurmd-{node}", "slurmd", "-D", "-N", node)
        self._wait(self._is_idle, "the nodes to be idle")

    def start_controller(self) -> None:
        self._spawn("slurmctld", "slurmctld", "-D")

    def stop(self) -> None:
        """End jobs and daemons; the directory goes with them."""
        self.run("scancel", "--user=root")
        self._wait(lambda: not self.run("squeue", "--noheader").stdout, "the jobs to end", fails=False)
        for name in reversed(list(self.daemons)):
            daemon = self.daemons.pop(name)
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=timeout, check=False
        )

    def log(self, name: str) -> str:
        with open(os.path.join(self.root, f"{name}.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def configure(self, *, requeue_exit: bool) -> None:
        """Change a running cluster."""
        self.requeue_exit = requeue_exit
        self._configure()
        self.run("scontrol", "reconfigure")

    def _configure(self) -> None:
        host = socket.gethostname().split(".")[0]
        self.ports = self.ports or free_ports(1 + len(NODES))
        ctld_port, *node_ports = self.ports
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000 State=UNKNOWN"
            for node, port in zip(NODES, node_ports, strict=True)
        )
        text = CONFIGURATION.format(
            root=self.root,
            host=host,
            ctld_port=ctld_port,
            nodes=nodes,
            kill_wait=KILL_WAIT_SECONDS,
            grace=GRACE_SECONDS,
            requeue_exit="RequeueExit=99" if self.requeue_exit else "",
        )
        for name, content in (("slurm.conf", text), ("cgroup.conf", _control_groups())):
            with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
                file.write(content)

    def _start_munge(self) -> None:
        key, sock = os.path.join(self.root, "munge.key"), os.path.join(self.root, "munge.socket")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(1024))
        own = [f"--{name}={self.root}/munge.{name}" for name in ("pid-file", "log-file", "seed-file")]
        # --force: munged is strict about parent directories that others may write to, as /tmp.
        self._spawn("munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={sock}", *own)
        self._wait(lambda: self.run("munge", "-S", sock, "-n").returncode == 0, "munge")

    def _spawn(self, name: str, *words: str) -> None:
        with open(os.path.join(self.root, f"{name}.log"), "ab") as log:
            self.daemons[name] = subprocess.Popen(
                words, env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.root, start_new_session=True,
            )  # fmt: skip

    def _is_idle(self) -> bool:
        for name, daemon in self.daemons.items():
            if daemon.poll() is not None:
                raise RuntimeError(f"{name} ended with {daemon.returncode}: {self.log(name)[-2000:]}")
        seen = self.run("sinfo", "--noheader", "--Node", "--partition=debug", "--format=%t").stdout.split()
        return seen == ["idle"] * len(NODES)

    def _wait(self, condition, what: str, fails: bool = True) -> None:
        deadline = time.monotonic() + STARTING_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                if fails:
                    raise RuntimeError(f"waited in vain for {what}")
                return
            time.sleep(0.05)


def why_not() -> str | None:
    """Why no cluster can be started here, or None."""
    paths = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=paths) is None]
    if missing:
        return f"{', '.join(missing)} not found: apt-get install --no-install-recommends {PACKAGES}"
    return None if os.getuid() == 0 else "slurmd and munged of the tests need root"


def _control_groups() -> str:
    """None here; from 24.05 on slurmd refuses to start unless it is told so."""
    return "CgroupPlugin=disabled\n" if _version() >= (24, 5) else "# no control groups here\n"


def _version() -> tuple[int, ...]:
    told = subprocess.run(("slurmctld", "-V"), capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in told.split()[-1].split(".")[:2])
