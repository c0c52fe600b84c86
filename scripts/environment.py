"""The project's virtual environment, `.venv`: made, filled and kept up to date with nothing but a Python.

Used by `quickstart.py` and `test.py`. It is filled again only when `pyproject.toml` or its Python changes.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
import time
import venv
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = Path(os.environ.get("NSD_VENV") or ROOT / ".venv")
OLDEST = (3, 10)
STAMP = VENV / "nsd-local-stamp.txt"
LOG = VENV / "nsd-local-install.log"

COMPILER = {
    "win32": "Install the Visual Studio Build Tools with the C++ workload, then run this again.",
    "darwin": "Install Apple's command line tools with: xcode-select --install",
}.get(
    sys.platform, "Install a C++ compiler (Debian, Ubuntu: apt install build-essential; Fedora: dnf install gcc-c++)."
)


def python() -> Path:
    """The environment's Python."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def say(text: str) -> None:
    """A line of the set-up; on stderr, so that stdout carries the result only."""
    print(text, file=sys.stderr, flush=True)


def ensure(extras: tuple[str, ...] = ()) -> None:
    """Make the environment and install the project into it, with `extras`; returns at once when nothing changed."""
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        raise SystemExit(f"nsd-local needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {found}.")
    version = _version()
    filled_from, present = _read_stamp()
    if version and filled_from == _fingerprint(version) and set(extras) <= present:
        return
    if not version:
        _make()
    extras = tuple(sorted({*extras, *present}))
    _install(extras)
    STAMP.write_text(" ".join((_fingerprint(_version()), *extras)), encoding="utf-8")


def _fingerprint(version: str) -> str:
    """What the environment must have been filled from."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + f"{version} {ROOT}".encode()).hexdigest()


def _read_stamp() -> tuple[str, set[str]]:
    """What it was filled from, and which extras with."""
    words = STAMP.read_text(encoding="utf-8").split() if STAMP.exists() else []
    return (words[0], set(words[1:])) if words else ("", set())


def _version() -> str:
    """The version of the environment's Python; empty where there is none that will do."""
    if not python().exists():
        return ""
    ask = f"import sys; assert sys.version_info >= {OLDEST}; import pip; print(sys.version)"
    answer = subprocess.run([str(python()), "-c", ask], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _make() -> None:
    say(f"[1/2] Making the virtual environment {VENV}")
    try:
        venv.create(VENV, with_pip=True, clear=VENV.exists())
    except (subprocess.CalledProcessError, OSError) as error:
        do = "On Debian and Ubuntu: apt install python3-venv" if sys.platform.startswith("linux") else ""
        raise SystemExit(f"The virtual environment could not be made: {error}. {do}") from error


def _install(extras: tuple[str, ...]) -> None:
    what = f".[{','.join(extras)}]" if extras else "."
    say("[2/2] Installing nsd-local and what it needs, once. llama.cpp may have to be compiled for this machine:")
    say(f"      about five minutes on two cores. Full log: {LOG}")
    # -v shows the compiler's own counter, which is the only honest progress of the long part
    command = [str(python()), "-m", "pip", "install", "-v", "--disable-pip-version-check", "--no-input", "-e", what]
    started = time.monotonic()
    with LOG.open("w", encoding="utf-8") as log:
        pip = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
        assert pip.stdout is not None  # a pipe was asked for
        last: deque[str] = deque(maxlen=25)
        with Ticker() as ticker:
            for line in pip.stdout:
                log.write(line)
                last.append(line.rstrip())
                ticker.see(line)
        code = pip.wait()
    if code != 0:
        say("\n".join(last))
        raise SystemExit(f"The installation failed (pip said {code}; full log: {LOG}). {COMPILER}")
    say(f"      Installed in {time.monotonic() - started:.0f} s.")


class Ticker:
    """What pip is doing, in one line that changes on a terminal, in few lines elsewhere."""

    COUNTER = re.compile(r"^\s*\[\s*(\d+)(?:/(\d+)|%)\]")
    STEP = re.compile(
        r"^\s*(Collecting|Building wheel for|Downloading|Installing collected packages)\s*:?\s*([^\s(:]*)"
    )
    LINE_SECONDS = 30.0

    def __init__(self) -> None:
        self._doing = "starting"
        self._started = time.monotonic()
        self._told = ("", self._started)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def see(self, line: str) -> None:
        """Notice what a line of pip's log says about the progress."""
        if counter := self.COUNTER.match(line):
            done, total = counter.groups()
            self._doing = f"compiling llama.cpp: {f'{done} of {total} files' if total else f'{done} %'}"
        elif step := self.STEP.match(line):
            self._doing = f"{step.group(1).lower()} {step.group(2)}".strip()

    def _tick(self) -> None:
        interactive = sys.stderr.isatty()
        while not self._ended.wait(0.5):
            now = time.monotonic()
            line = f"      {self._doing} ({now - self._started:.0f} s)"
            if interactive:
                print("\r" + line[:100].ljust(100), end="", file=sys.stderr, flush=True)
            elif now - self._told[1] >= self.LINE_SECONDS:
                self._told = (self._doing, now)
                say(line)
        if interactive:
            print("\r" + " " * 100 + "\r", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._ended.set()
        self._thread.join()
