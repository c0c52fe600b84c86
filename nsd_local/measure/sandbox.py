"""Runs a program that a model wrote, in a process of its own that can do little harm."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from nsd_local.measure import jail

ALL_FENCES = ("limits", "kernel", "hook")
POLL_S = 0.02
BLOCK = 4096  # bytes of disk that a file or folder takes at least


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use."""

    seconds: float = 10.0  # wall time; CPU time is bound by the next whole second
    memory_mb: int = 1024
    file_mb: int = 16  # size of one file
    folder_mb: int = 64  # of all its files together


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended. `reason` is "" where it passed, and starts with one of: timeout, memory, disk, refused,
    ended early, or the exception's name."""

    passed: bool
    reason: str
    seconds: float
    fences: tuple[str, ...] = ()  # in force: limits, seccomp, landlock, hook (see jail.py)


def run_program(program: str, limits: Limits | None = None, *, fences: tuple[str, ...] = ALL_FENCES) -> Outcome:
    """Runs `program` in an empty folder; it passes if it reaches its end without an exception and without having
    tried anything that is refused.

    What holds it: jail.py. The wall time, the memory and the size of its folder are watched from outside too, and
    whatever is left of it is killed. `fences` leaves some out, for tests.
    """
    limits = limits or Limits()
    with tempfile.TemporaryDirectory(prefix="nsd-sandbox-", ignore_cleanup_errors=True) as outer:
        place = Path(outer).resolve()
        folder = place / "folder"
        folder.mkdir()
        secret = secrets.token_hex(16)
        order = {
            "program": program,
            "folder": str(folder),
            "verdict": str(place / "verdict.json"),
            "secret": secret,
            "fences": list(fences),
            "cpu_seconds": int(limits.seconds) + 1,
            "memory_bytes": limits.memory_mb << 20,
            "file_bytes": limits.file_mb << 20,
        }
        (place / "order.json").write_text(json.dumps(order), encoding="utf-8")
        shutil.copy(jail.__file__, place / "jail.py")  # where it starts from is its import path: nothing else is there
        start = time.perf_counter()
        code, why = _watch(_start(place, folder), folder, limits)
        seconds = time.perf_counter() - start
        return _outcome(place / "verdict.json", secret, code, why, seconds)


def _start(place: Path, folder: Path) -> subprocess.Popen[bytes]:
    environment = {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "TEMP": str(folder),
        "PYTHONHASHSEED": "0",
        "PYTHONIOENCODING": "utf-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    if sys.platform == "win32":
        environment["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return subprocess.Popen(
        [sys.executable, "-s", "-B", str(place / "jail.py"), str(place / "order.json")],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=sys.platform != "win32",
    )


def _watch(process: subprocess.Popen[bytes], folder: Path, limits: Limits) -> tuple[int | None, str]:
    """Waits; returns the exit code, or None and why it was killed."""
    end = time.monotonic() + limits.seconds
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(POLL_S), ""
            if time.monotonic() > end:
                return None, f"timeout: it ran longer than {limits.seconds:g} s"
            if _resident(process.pid) > limits.memory_mb << 20:
                return None, f"memory: it took more than {limits.memory_mb} MiB"
            if _exceeds(folder, limits.folder_mb << 20):
                return None, f"disk: its files took more than {limits.folder_mb} MiB"
    finally:
        _kill(process)


def _resident(pid: int) -> int:
    """Bytes of memory of a process and its children."""
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += one.memory_info().rss
    return total


def _exceeds(folder: Path, limit: int) -> bool:
    """Does a folder take more bytes than `limit`?"""
    total = 0
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):  # it may be gone by now
                total += max(BLOCK, os.lstat(os.path.join(place, name)).st_size)
        if total > limit:
            return True
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process, its children, and everything left in its session."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    if sys.platform == "win32":
        process.kill()
    else:
        import signal

        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _outcome(path: Path, secret: str, code: int | None, why: str, seconds: float) -> Outcome:
    if code is None:
        return Outcome(False, why, seconds)
    said = {}
    with contextlib.suppress(OSError, ValueError):
        said = json.loads(path.read_bytes()[:65_536])
    if said.get("secret") != secret:
        return Outcome(False, _early(code), seconds)
    fences = tuple(said["fences"])
    if said["notes"]:
        return Outcome(False, "refused: " + "; ".join(dict.fromkeys(said["notes"])), seconds, fences)
    return Outcome(not said["error"], said["error"], seconds, fences)


def _early(code: int) -> str:
    if sys.platform != "win32" and code < 0:
        import signal

        name = signal.Signals(-code).name
        if name == "SIGXCPU":
            return "timeout: it used more CPU time than allowed"
        return f"ended early: by {name}"
    return f"ended early: with exit code {code}"
