"""Runs one job as a process and outlives the command that started it: CPUs before the first instruction, log, exit record.

Started by `processes.py` as `python -I -S shim.py LOCK_FD READY_FD`, so it imports nothing of migctl and little else. What to
run comes on stdin, marshalled (json would double the start-up time); the end of stdin lets the job go. The shim ends with the
job's last process.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn  # importing typing at run time costs as much as the interpreter's own start

PR_SET_CHILD_SUBREAPER = 36
"""prctl(2): orphans below become children of the shim, so that none escapes the final SIGKILL."""
RECORD_BYTES = 1024
"""More than a record takes beside the names of files in it."""
QUIET = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def stat_fields(pid: int | str) -> list[str]:
    """/proc/PID/stat from the third field on."""
    with open(f"/proc/{pid}/stat", errors="replace") as file:  # noqa: PTH123 -- pathlib costs start-up time
        return file.read().rpartition(")")[2].split()


def reserve(folder: int, name: str, size: int) -> int:
    """A file for a record, with its room on the disk from now on: whatever fills that meanwhile, the record can be written."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name + ".new", flags, 0o600, dir_fd=folder)
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        write_all(fd, bytes(size))  # a file system without fallocate(2)
    return fd


def write_all(fd: int, data: bytes) -> None:
    """Write from the file's beginning."""
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], done)


def write_record(folder: int, name: str, reserved: int, record: dict[str, int | float | str | None]) -> None:
    """A JSON object in a reserved file, which only then gets its name: it is on the disk whole or not at all."""
    parts = []
    for key, value in record.items():
        if value is None:
            text = "null"
        elif isinstance(value, str):
            plain = "".join(c if c.isprintable() else " " for c in value).replace("\\", "\\\\").replace('"', '\\"')
            text = f'"{plain}"'
        else:
            text = repr(value)
        parts.append(f'"{key}": {text}')
    data = ("{" + ", ".join(parts) + "}\n").encode("utf-8", "replace")
    # Blanks up to the end, which JSON allows: also to cut a file short can need room (copy on write, ext4's extents).
    write_all(reserved, data.ljust(os.fstat(reserved).st_size))
    os.fsync(reserved)
    os.close(reserved)
    os.rename(name + ".new", name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def become(user: tuple[int, int, list[int]] | None) -> None:
    """Root started it for somebody: from here on it is that user, and so are its files."""
    if user is not None:
        uid, gid, groups = user
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def run_job(task: dict[str, Any], mask: int, recorded: int, trouble: int) -> NoReturn:
    """In the child: wait until it is recorded, then for the go, and become the job."""
    try:
        os.setsid()  # its own process group: `kill 0` in the job does not reach the shim
        for number in (*QUIET, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(mask)
        if not os.read(recorded, 1):
            os._exit(125)  # the shim has ended before anybody could find the job
        if os.read(0, 1):
            os._exit(125)  # the starter found it on wrong CPUs
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.chdir(task["working_dir"])
        os.execve(task["program"], task["argv"], task["environment"])
    except OSError as error:
        os.write(trouble, f"{error.errno} {error.strerror}".encode())
    finally:
        os._exit(127)


def kill_rest() -> None:
    """SIGKILL to everything below until nothing is left; what is killed may have started more meanwhile."""
    while True:
        parents: dict[int, int] = {}
        for entry in os.listdir("/proc"):  # noqa: PTH208 -- pathlib costs start-up time
            if entry.isdigit():
                try:
                    parents[int(entry)] = int(stat_fields(entry)[1])
                except OSError:
                    pass
        below = {os.getpid()}
        while more := {pid for pid, parent in parents.items() if parent in below} - below:
            below |= more
        for pid in below - {os.getpid()}:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def begin(task: dict[str, Any], folder: int) -> tuple[int, int, int]:
    """Fork the job and let it run only when it is recorded, and when how it ends is sure to have its place on the disk.

    Returns its pid, where it reports a failed exec, and the file reserved for its exit record.
    """
    mask = os.umask(0o077)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for number in QUIET:
        signal.signal(number, signal.SIG_IGN)  # whoever signals a whole session still gets an exit record
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        os.sched_setaffinity(0, task["cpus"])
    except OSError:
        pass  # the starter reads back where the job is, and says so
    # What the exit record says of a program that cannot be run: a sign becomes two bytes at the most beside its own.
    ending = reserve(folder, "exit.json", RECORD_BYTES + 2 * len(os.fsencode(task["program"] + task["working_dir"])))
    start = reserve(folder, "pid.json", RECORD_BYTES)
    reading, writing = os.pipe()
    waiting, recorded = os.pipe()
    job = os.fork()
    if job == 0:
        os.close(recorded)  # so that the end of the shim is the end of that pipe
        run_job(task, mask, waiting, writing)
    try:
        os.close(writing)
        os.close(waiting)
        os.close(0)
        record: dict[str, int | float | str | None] = {
            "pid": job,
            "start_ticks": int(stat_fields(job)[19]),
            "shim_pid": os.getpid(),
            "shim_start_ticks": int(stat_fields("self")[19]),
            "started_at": time.time(),
            "boot_id": task["boot_id"],
        }
        write_record(folder, "pid.json", start, record)
        os.write(recorded, b"x")
    finally:
        os.close(recorded)  # unwritten it ends the job: nothing may run that nobody can find again
    return job, reading, ending


def finish(task: dict[str, Any], folder: int, job: int, reading: int, ending: int) -> None:
    """Wait for the job, end what it left behind, write how it ended."""
    failure = os.read(reading, 500).decode()
    pid = status = 0
    while pid != job:
        pid, status = os.waitpid(-1, 0)
    finished_at = time.time()
    kill_rest()
    code = os.waitstatus_to_exitcode(status)
    record: dict[str, int | float | str | None] = {
        "exit_code": code if code >= 0 else 128 - code,
        "signal": -code if code < 0 else None,
        "finished_at": finished_at,
    }
    if failure:
        number, _, text = failure.partition(" ")
        reason = f"cannot run {task['program']} in {task['working_dir']}: {text}"
        record["exit_code"] = 127 if int(number) == errno.ENOENT else 126
        record["reason"] = reason
        try:
            os.write(2, f"migctl: {reason}\n".encode("utf-8", "replace"))
        except OSError:
            pass  # the disk is full; the record has it
    write_record(folder, "exit.json", ending, record)


def receive() -> dict[str, Any]:
    """The task from stdin: eight bytes of length, then a marshalled dict."""
    data = b""
    size = 8
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            raise OSError(errno.EPIPE, "the command that starts the job is gone")
        data += piece
        if size == 8 and len(data) == 8:
            size += int.from_bytes(data, "little")
    task: dict[str, Any] = marshal.loads(data[8:])
    return task


def main() -> None:
    lock, ready = int(sys.argv[1]), int(sys.argv[2])
    for fd in (lock, ready):
        os.set_inheritable(fd, False)
    task = receive()
    if os.fork():
        os._exit(0)  # the starter reaps this one; init is the parent of the other
    try:
        become(task["user"])
        folder = os.open(task["folder"], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        job, reading, ending = begin(task, folder)
    except OSError as error:
        told = f"{error.errno} {error.strerror}: {error.filename or task['folder']}\n"
        os.write(ready, told.encode("utf-8", "replace"))
        raise SystemExit(1) from None
    try:
        os.write(ready, b"ready\n")
    except OSError:
        pass  # the starter was killed just now; the job is recorded, and whoever looks for it finds it
    os.close(ready)
    finish(task, folder, job, reading, ending)


if __name__ == "__main__":
    main()
