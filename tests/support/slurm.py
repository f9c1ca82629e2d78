"""A real Slurm of the test's own: munged, slurmctld and some slurmds, all on this machine and on its loopback only."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"
_NVIDIA = 195
"""Major number of /dev/nvidia* in the kernel's list of devices: with it a node file counts as a GPU, without a driver."""
_START_S = 20.0


def missing() -> list[str]:
    """Slurm's programs that are not on this machine."""
    path = f"{os.environ['PATH']}:{SYSTEM}"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


class Cluster:
    """Daemons in one private folder.

    Args:
        nodes: node → its GRES by type; a type of nothing is an untyped GPU.
        cpus: of each node; more than the machine has are counted and not pinned.
        partitions: partition → its nodes; the first one is the default. Nothing: one of all nodes, `gpu`.
        config: further lines of slurm.conf.
    """

    def __init__(
        self,
        nodes: Mapping[str, Mapping[str, int]],
        *,
        cpus: int = 2,
        partitions: Mapping[str, Sequence[str]] | None = None,
        config: Sequence[str] = (),
    ) -> None:
        # A socket's path has 107 bytes, and munged wants parents that nobody else may write to.
        self.folder = Path(tempfile.mkdtemp(prefix="migctl-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.nodes = nodes
        self._cpus = cpus
        self._partitions = partitions or {"gpu": tuple(nodes)}
        self._extra = config
        self._daemons: list[subprocess.Popen[bytes]] = []
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("SLURM_", "SBATCH_", "SQUEUE_"))}
        self.environ = {**kept, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:{SYSTEM}"}

    def start(self) -> None:
        """Start all daemons, and wait until every node is idle."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        munge = self.folder / "munge"
        munge.mkdir(mode=0o755)
        self._write()
        options = [f"--{name}={munge / file}" for name, file in _MUNGED.items()]
        self._daemon("munged", "--foreground", f"--key-file={key}", *options)
        self._until(lambda: (munge / "socket").exists(), "munged has no socket")
        self._daemon("slurmctld", "-D", "-i")
        for node in self.nodes:
            self._daemon("slurmd", "-D", "-N", node)
        self._until(lambda: self._idle() == len(self.nodes), "the nodes are not idle")

    def stop(self) -> None:
        """End every daemon that this object started, and what of its jobs is left; remove the folder."""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            self.ask("scancel", "--user", getpass.getuser())
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in reversed(self._daemons):
            try:
                daemon.wait(timeout=5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self._left():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *words: str) -> str:
        """What one of Slurm's programs prints."""
        done = subprocess.run(
            words, env=self.environ, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def queue(self) -> list[str]:
        """All jobs that have not ended, as `ID NAME STATE`."""
        return self.ask("squeue", "--noheader", "--array", "--format=%i %j %T").splitlines()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """The controller does not answer meanwhile."""
        controller = self._daemons[1]
        controller.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            controller.send_signal(signal.SIGCONT)

    def _write(self) -> None:
        ports = _free_ports(len(self.nodes) + 1)
        lines = [*_CONFIG, *self._extra]
        lines += [
            "ClusterName=migtest",
            f"SlurmctldPort={ports[0]}",
            f"SlurmUser={getpass.getuser()}",
            f"SlurmdUser={getpass.getuser()}",
            f"AuthInfo=socket={self.folder}/munge/socket",
            f"StateSaveLocation={self.folder}/state",
            f"SlurmdSpoolDir={self.folder}/spool-%n",
            f"SlurmctldPidFile={self.folder}/ctld.pid",
            f"SlurmdPidFile={self.folder}/slurmd-%n.pid",
            f"SlurmctldLogFile={self.folder}/ctld.log",
            f"SlurmdLogFile={self.folder}/slurmd-%n.log",
        ]
        given: list[str] = []
        count = 0
        for (node, types), port in zip(self.nodes.items(), ports[1:], strict=True):
            gres = ",".join(f"gpu:{kind}:{n}" if kind else f"gpu:{n}" for kind, n in types.items())
            lines.append(
                f"NodeName={node} NodeHostname={node} NodeAddr=127.0.0.1 Port={port} CPUs={self._cpus} Sockets=1 "
                f"CoresPerSocket={self._cpus} ThreadsPerCore=1 RealMemory=900" + (f" Gres={gres}" if gres else "")
            )
            for kind, n in types.items():
                named = f" Type={kind}" if kind else ""
                files = [self._device(count + number) for number in range(n)]
                count += n
                if all(files):
                    given += [f"NodeName={node} Name=gpu{named} File={file}" for file in files]
                else:
                    given.append(f"NodeName={node} Name=gpu{named} Count={n}")
        for number, (name, members) in enumerate(self._partitions.items()):
            default = "YES" if number == 0 else "NO"
            lines.append(f"PartitionName={name} Nodes={','.join(members)} Default={default} MaxTime=INFINITE State=UP")
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n", "utf-8")
        (self.folder / "gres.conf").write_text("\n".join(given) + "\n", "utf-8")

    def _device(self, minor: int) -> str | None:
        """A character device that Slurm takes for a GPU; nothing where none may be made here."""
        path = self.folder / f"nvidia{minor}"
        try:
            os.mknod(path, 0o666 | 0o020000, os.makedev(_NVIDIA, minor))
        except OSError:
            return None
        return str(path)

    def _daemon(self, *words: str) -> None:
        program = shutil.which(words[0], path=self.environ["PATH"]) or words[0]
        log = self.folder / f"{words[0]}-{len(self._daemons)}.out"
        with log.open("wb") as out:
            self._daemons.append(
                subprocess.Popen(
                    [program, *words[1:]], env=self.environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out
                )
            )

    def _idle(self) -> int:
        done = subprocess.run(
            ["sinfo", "--Node", "--noheader", "--format=%N %t"],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return len({line.split()[0] for line in done.stdout.splitlines() if line.endswith(" idle")})

    def _until(self, done: object, what: str) -> None:
        assert callable(done)
        deadline = time.monotonic() + _START_S
        while not done():
            if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in self._daemons):
                told = "\n".join(
                    f"{p.name}: {p.read_text('utf-8', 'replace')[-2000:]}" for p in self.folder.glob("*.[lo][ou][gt]")
                )
                self.stop()
                raise AssertionError(f"{what}\n{told}")
            time.sleep(0.05)

    def _left(self) -> list[int]:
        """Processes that have this cluster's configuration in their environment."""
        mark = f"SLURM_CONF={self.folder}/".encode()
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found


_MUNGED: Mapping[str, str] = {
    "socket": "socket",
    "pid-file": "pid",
    "log-file": "log",
    "seed-file": "seed",
}
_CONFIG = (
    "SlurmctldHost=localhost(127.0.0.1)",
    "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
    "AuthType=auth/munge",
    "ProctrackType=proctrack/linuxproc",
    "TaskPlugin=task/affinity",
    "SelectType=select/cons_tres",
    "SelectTypeParameters=CR_Core_Memory",
    "DefMemPerCPU=50",
    "GresTypes=gpu",
    "SchedulerParameters=batch_sched_delay=0,bf_interval=2,sched_interval=1",
    "SlurmdParameters=config_overrides",
    "MpiDefault=none",
    "SwitchType=switch/none",
    "ReturnToService=2",
    "KillWait=2",
    "JobAcctGatherType=jobacct_gather/none",
)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
