"""A small stand-in for Docker engines 25 to 29, which cannot be had here: it answers as they do, and never more kindly.

What it decides is how a container gets its GPU, after moby's daemon/devices.go and daemon/devices_nvidia_linux.go: by runtime, by a
named or unnamed device driver, by CDI. A container is a real process in a root of its own, whose /dev gets exactly the nodes that
the chosen way brings, so that a look inside finds what it would find in a container. What it does not know is refused, and
so is a setting that it does not act on, unless its value asks for nothing (`stub_process`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support import stub_process
from tests.support.engines import missing
from tests.support.stub_process import SettingRefusedError

# What Docker's API takes, on purpose not taken from what `podman_create` translates: one list must not excuse the other.
CREATE = {
    "Image",
    "Env",
    "Labels",
    "Tty",
    "OpenStdin",
    "StopSignal",
    "StopTimeout",
    "HostConfig",
    "Cmd",
    "Entrypoint",
    "WorkingDir",
}
CREATE |= {"User", "ExposedPorts"}
HOST = {
    "CpusetCpus",
    "Init",
    "AutoRemove",
    "RestartPolicy",
    "LogConfig",
    "OomScoreAdj",
    "ShmSize",
    "Ulimits",
    "Mounts",
    "Runtime",
}
HOST |= {"NetworkMode", "DeviceRequests"}
REQUEST = {"Driver", "Count", "DeviceIDs", "Capabilities", "Options"}
IMAGE = "sha256:" + "1" * 64
API = {25: ("1.44", "1.24"), 28: ("1.50", "1.24"), 29: ("1.52", "1.44")}
"""Newest and oldest API of each engine (docs.docker.com/reference/api/engine, version matrix)."""


class NoAnswerError(Exception):
    """The connection ends."""


class EngineRefusedError(SettingRefusedError):
    """An answer with this status."""


@dataclass(kw_only=True)
class StubEngine:
    """One engine.

    `hook` and `cdi_hook`: NVIDIA's two helpers were on its PATH when it started. `hook_brings`: the nodes that the hook puts into a
    container for a UUID. `folders`: where it reads CDI specifications; none = CDI is off.
    """

    version: str
    runtimes: Sequence[str] = ("runc",)
    hook: bool = False
    cdi_hook: bool = False
    hook_brings: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    folders: Sequence[Path] = ()
    unanswered: int = 0
    """So many creations are begun, and their connections end without an answer."""
    slow_s: float | None = 0.0
    """How long such a creation takes; `None`: it comes to nothing."""
    late_reads: int = 0
    """How often a start still overlooks a new CDI file."""
    info: Mapping[str, Any] = field(default_factory=dict)
    platform: str = "Docker Engine - Community"
    kernel: str = os.uname().release
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="migctl-stub-", dir="/tmp")))
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    """Which way each start took."""

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    @property
    def cdi_first(self) -> bool:
        """moby#50228, in the notes of 29.2.0."""
        return tuple(int(part) for part in self.version.split(".")[:2]) >= (29, 2)

    def answer(self, method: str, path: str, query: Mapping[str, Sequence[str]], body: Any) -> tuple[int, Any]:
        newest, oldest = API[self.major]
        parts = path.strip("/").split("/")
        if parts[0].startswith("v1."):
            asked = int(parts.pop(0)[3:])
            if asked < int(oldest[2:]):
                raise EngineRefusedError(
                    400, f"client version 1.{asked} is too old. Minimum supported API version is {oldest}"
                )
            if asked > int(newest[2:]):
                raise EngineRefusedError(
                    400, f"client version 1.{asked} is too new. Maximum supported API version is {newest}"
                )
        match (method, *parts):
            case ("GET", "version"):
                return 200, {
                    "Version": self.version,
                    "ApiVersion": newest,
                    "MinAPIVersion": oldest,
                    "KernelVersion": self.kernel,
                    "Platform": {"Name": self.platform},
                    "Components": [{"Name": "Engine", "Version": self.version}],
                }
            case ("GET", "info"):
                dirs = {"CDISpecDirs": [str(folder) for folder in self.folders]}
                about = {"Runtimes": {name: {"path": name} for name in self.runtimes}, "CgroupDriver": "cgroupfs"}
                return 200, {**about, "CgroupVersion": "2", "SecurityOptions": ["name=seccomp"], **dirs, **self.info}
            case ("GET", "images", *name, "json") if unquote("/".join(name)) in ("busybox:latest", IMAGE):
                return 200, {
                    "Id": IMAGE,
                    "RepoTags": ["busybox:latest"],
                    "Architecture": "amd64",
                    "Os": "linux",
                    "Config": stub_process.IMAGE_CONFIG,
                }
            case ("GET", "images", *name, "json"):
                raise EngineRefusedError(404, f"No such image: {unquote('/'.join(name))}")
            case ("POST", "containers", "create") if self.unanswered > 0:
                self.unanswered -= 1
                if self.slow_s is not None:
                    threading.Timer(self.slow_s, self._create, (query["name"][0], body)).start()
                raise NoAnswerError
            case ("POST", "containers", "create"):
                return 201, self._create(query["name"][0], body)
            case ("GET", "containers", "json"):
                return 200, self._listed(query)
            case (_, "containers", handle, *_):
                return self._container(method, self._found(handle), parts[2:], query)
        raise EngineRefusedError(404, "page not found")

    def _listed(self, query: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
        """The running containers, with `all` every one, that have all labels of the filter (`name` or `name=value`)."""
        filters = json.loads(query.get("filters", ["{}"])[0])
        if set(filters) - {"label"}:
            raise EngineRefusedError(400, f"invalid filters: {sorted(filters)}")
        wanted = [str(label).partition("=") for label in filters.get("label", ())]
        listed = []
        for one in self.containers.values():
            self._refresh(one)
            labels = one["Config"]["Labels"]
            if query.get("all", ["0"])[0] in ("0", "false") and not one["State"]["Running"]:
                continue
            if all(name in labels and (not sign or labels[name] == value) for name, sign, value in wanted):
                listed.append({"Id": one["Id"], "Names": [one["Name"]], "Labels": labels})
        return listed

    def _refresh(self, one: dict[str, Any]) -> None:
        """Take notice of a process that has ended."""
        process = self.processes.get(one["Id"])
        if process is not None and process.poll() is not None:
            code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            one["State"] = {"Status": "exited", "Running": False, "Pid": 0, "ExitCode": code, "Error": ""}

    def _found(self, handle: str) -> dict[str, Any]:
        for one in self.containers.values():
            if handle in (one["Id"], one["Name"].lstrip("/")):
                return one
        raise EngineRefusedError(404, f"No such container: {handle}")

    def _create(self, name: str, body: Mapping[str, Any]) -> Any:
        unknown = (set(body) - CREATE) | (set(body["HostConfig"]) - HOST)
        if unknown:
            raise EngineRefusedError(400, f"unknown fields: {sorted(unknown)}")
        if body["Image"] != IMAGE:
            raise EngineRefusedError(404, f"No such image: {body['Image']}")
        if any(c["Name"] == f"/{name}" for c in self.containers.values()):
            raise EngineRefusedError(409, f'Conflict. The container name "/{name}" is already in use by container "x".')
        runtime = body["HostConfig"].get("Runtime") or "runc"
        if runtime not in self.runtimes:
            raise EngineRefusedError(400, f"unknown or invalid runtime name: {runtime}")
        for request in body["HostConfig"].get("DeviceRequests") or ():
            if set(request) - REQUEST:
                raise EngineRefusedError(400, f"unknown fields: {sorted(set(request) - REQUEST)}")
            if request["Count"] and request["DeviceIDs"]:
                raise EngineRefusedError(400, "cannot set both Count and DeviceIDs on device request")
        stub_process.check(body)
        handle = f"{len(self.containers) + 1:064x}"
        self.containers[handle] = {
            "Id": handle,
            "Name": f"/{name}",
            "Config": stub_process.merged(body),
            "HostConfig": {"CpusetCpus": body["HostConfig"]["CpusetCpus"], **body["HostConfig"]},
            "State": {"Status": "created", "Running": False, "Pid": 0, "ExitCode": 0, "Error": ""},
        }
        return {"Id": handle, "Warnings": []}

    def _container(
        self, method: str, one: dict[str, Any], rest: Sequence[str], query: Mapping[str, Sequence[str]]
    ) -> tuple[int, Any]:
        process = self.processes.get(one["Id"])
        self._refresh(one)
        match (method, *rest):
            case ("GET", "json"):
                return 200, one
            case ("POST", "start"):
                self._start(one)
                return 204, None
            case ("POST", "kill"):
                if process is None or process.poll() is not None:
                    raise EngineRefusedError(409, f"Container {one['Id']} is not running")
                name = query.get("signal", ["SIGKILL"])[0]
                number = int(name) if name.isdecimal() else signal.Signals["SIG" + name.removeprefix("SIG")]
                process.send_signal(number)
                if number == signal.SIGKILL:
                    process.wait()
                return 204, None
            case ("POST", "stop"):
                if process is None or process.poll() is not None:
                    return 304, None
                process.send_signal(stub_process.stop_signal(one["Config"]))
                try:
                    process.wait(float(query.get("t", [one["Config"].get("StopTimeout") or 10])[0]))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                return 204, None
            case ("POST", "wait"):
                return 200, {"StatusCode": process.wait() if process is not None else 0}
            case ("DELETE",):
                if one["State"]["Running"]:
                    raise EngineRefusedError(
                        409, "You cannot remove a running container. Stop the container before attempting removal"
                    )
                del self.containers[one["Id"]]
                return 204, None
        raise EngineRefusedError(404, "page not found")

    def _start(self, one: dict[str, Any]) -> None:
        try:
            process = self._begin(one)
        except SettingRefusedError as refusal:
            one["State"] |= {"ExitCode": 128, "Error": str(refusal)}
            raise
        self.processes[one["Id"]] = process
        one["State"] = {"Status": "running", "Running": True, "Pid": process.pid, "ExitCode": 0, "Error": ""}

    def _begin(self, one: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        nodes = self._nodes(one)
        root = self.home / one["Id"]
        # Begun anew where a start was refused.
        shutil.rmtree(root, ignore_errors=True)
        (root / "bin").mkdir(parents=True)
        for applet in ("sleep", "sh"):
            shutil.copy(shutil.which("busybox") or "busybox", root / "bin" / applet)
        for inside, number in nodes.items():
            path = root / inside.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(path, stat.S_IFCHR | 0o666, number)
            path.chmod(0o666)  # whatever the umask is
        return stub_process.begin(root, one["Config"], one["HostConfig"])

    def _nodes(self, one: Mapping[str, Any]) -> dict[str, int]:
        """Path in the container → device number, as the way of this engine brings them."""
        found: dict[str, int] = {}
        environment = dict(str(item).partition("=")[::2] for item in one["Config"]["Env"])
        visible = environment.get("NVIDIA_VISIBLE_DEVICES", "void")
        if one["HostConfig"].get("Runtime") == "nvidia" and visible != "void":
            self.used.append("runtime")
            found |= self._by_hook([visible])
        for request in one["HostConfig"].get("DeviceRequests") or ():
            found |= self._by_request(request)
        return found

    def _by_request(self, request: Mapping[str, Any]) -> dict[str, int]:
        driver, names = request["Driver"], request["DeviceIDs"]
        if driver == "cdi" and self.folders:
            return self._by_cdi(names)
        hook_name = "nvidia.runtime-hook" if self.major >= 29 else "nvidia"
        if driver == hook_name and self.hook:
            return self._by_hook(names)
        if driver == "" and ["gpu"] in request["Capabilities"]:
            if self.cdi_first and self.cdi_hook:
                try:
                    return self._by_cdi([f"nvidia.com/gpu={name}" for name in names])
                except EngineRefusedError:
                    if not self.hook:
                        raise
            if self.hook:
                return self._by_hook(names)
        capabilities = json.dumps(request["Capabilities"]).replace('"', "").replace(",", "")
        raise EngineRefusedError(500, f'could not select device driver "{driver}" with capabilities: {capabilities}')

    def _by_hook(self, names: Sequence[str]) -> dict[str, int]:
        self.used.append("hook")
        found: dict[str, int] = {}
        for name in names:
            if name not in self.hook_brings:
                raise EngineRefusedError(500, f"nvidia-container-cli: device error: {name}: unknown device: unknown")
            found |= {f"/dev/{_below_dev(node)}": node.stat().st_rdev for node in self.hook_brings[name]}
        return found

    def _by_cdi(self, names: Sequence[str]) -> dict[str, int]:
        known: dict[str, Any] = {}
        for file in sorted(file for folder in self.folders if folder.is_dir() for file in folder.glob("*.json")):
            spec = json.loads(file.read_text())
            known |= {f"{spec['kind']}={device['name']}": device["containerEdits"] for device in spec["devices"]}
        if self.late_reads > 0:
            self.late_reads -= 1
            known = {}
        lacking = [name for name in names if name not in known]
        if lacking:
            raise EngineRefusedError(500, f"CDI device injection failed: unresolvable CDI devices {', '.join(lacking)}")
        self.used.append("cdi")
        nodes = [node for name in names for node in known[name]["deviceNodes"]]
        try:
            return {node["path"]: Path(node.get("hostPath") or node["path"]).stat().st_rdev for node in nodes}
        except OSError as error:
            raise EngineRefusedError(
                500, f"CDI device injection failed: failed to stat CDI host device {error.filename}"
            ) from None


def _below_dev(node: Path) -> str:
    return str(node).rpartition("/dev/")[2]


@contextmanager
def serving(engine: StubEngine) -> Iterator[str]:
    """The engine behind a socket; gives its DOCKER_HOST. Its processes are ended and its folder removed."""
    if os.geteuid() != 0 or shutil.which("busybox") is None:
        missing("the stand-in for newer engines needs root (mknod, chroot) and busybox-static")

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            split = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            try:
                status, answer = engine.answer(self.command, split.path, parse_qs(split.query), body)
            except NoAnswerError:
                return
            except SettingRefusedError as refusal:
                status, answer = refusal.status, {"message": str(refusal)}
            data = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 -- http.server's names

        def address_string(self) -> str:
            return "socket"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- http.server's name
            pass

    class Server(ThreadingMixIn, UnixStreamServer):
        daemon_threads = True
        request_queue_size = 64

    socket_path = engine.home / "docker.sock"
    with Server(str(socket_path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"unix://{socket_path}"
        finally:
            server.shutdown()
            thread.join()
            for process in engine.processes.values():
                process.kill()
                process.wait()
            shutil.rmtree(engine.home, ignore_errors=True)
