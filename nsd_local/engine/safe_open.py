"""A file that was never loaded is opened by a child process first, so that a malformed one can end the child but not a
chat, a server or a notebook. The verdict is remembered by size, time and header.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

from nsd_local.catalog.home import home
from nsd_local.engine import library
from nsd_local.engine.gguf_file import GgufFile, read_gguf
from nsd_local.errors import ModelError

_SECONDS: Final = 120.0  # for one file, beyond reading it
_READ_SPEED: Final = 20e6  # bytes per second, of a slow disk
_MODULE: Final = "nsd_local.engine.trial"

# How a process ends that a file has broken: by a signal; on Windows with an exception's code, or 3 after abort().
_SIGNALS: Final = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP")
_FAULTS: Final = {-getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)} | {
    3, 0x80000003, 0xC0000005, 0xC000001D, 0xC0000094, 0xC00000FD, 0xC0000374, 0xC0000409,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a child process found."""

    path: Path
    ok: bool
    what: str = ""
    why: str = ""
    do: str = ""
    ended: bool = False  # there was no answer: the process that tried it is gone
    broken: bool = False  # it was the file that ended the process

    @property
    def lasting(self) -> bool:
        """Will it be the same next time? Other reasons may lie in this moment: memory, permissions, a signal."""
        return self.ok or self.broken

    def error(self) -> ModelError:
        return ModelError(self.what, self.why, self.do)


def ensure_openable(path: Path, *, trusted: bool = False) -> GgufFile:
    """Raise ModelError unless `path` can be opened without danger; returns its header.

    `trusted` files (their bytes are known by hash) are not tried.
    """
    file = read_gguf(path)
    if trusted:
        return file
    note = _note(file)
    verdict = _recall(note, file.path)
    if verdict is None:
        verdict = next(try_files([file.path]))
        if verdict.lasting:
            _remember(note, verdict)
    if not verdict.ok:
        raise verdict.error()
    return file


def try_files(paths: Sequence[Path]) -> Iterator[Verdict]:
    """Open files in a child process, one after the other; a new child for those after one that ended it."""
    remaining = list(paths)
    while remaining:
        with _Child() as child:
            while remaining:
                verdict = child.ask(remaining[0])
                del remaining[0]
                yield verdict
                if verdict.ended:
                    break


class _Child:
    """A process that tries files."""

    def __init__(self) -> None:
        environment = dict(os.environ)
        root = str(Path(__file__).parents[2])
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = root + (os.pathsep + known if known else "")
        # No GPU: its driver takes seconds to start. No stack traces of a process that is meant to be ended.
        environment |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "GGML_NO_BACKTRACE": "1"}
        self._process: Any = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            encoding="utf-8",
            # Ctrl-C in a terminal goes to a group of processes: this one is in a group of its own, and ends with us.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )

    def ask(self, path: Path) -> Verdict:
        size = path.stat().st_size if path.exists() else 0
        seconds, start = _SECONDS + size / _READ_SPEED, monotonic()
        timer = threading.Timer(seconds, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(str(path)) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:  # it ended before it read the path
            line = ""
        finally:
            timer.cancel()
        if line.endswith("\n"):
            return Verdict(path, **json.loads(line))
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if code in _FAULTS:
            what, why = f"{path} is malformed", f"llama.cpp ended the process that tried to open it ({how})"
            return Verdict(path, False, what, why, "Download it again, or choose another file", ended=True, broken=True)
        why = f"the process that tried to open it was ended ({how}), not by the file"
        if monotonic() - start >= seconds:
            why = f"llama.cpp was not done with it after {seconds:.0f} s"
        do = "Try again; if that does not help, choose another file"
        return Verdict(path, False, f"{path} could not be tried", why, do, ended=True)

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        with suppress(OSError):  # what it has not read
            self._process.stdin.close()


def _note(file: GgufFile) -> Path:
    """Where the verdict about a file is kept: its name changes with the file and with llama.cpp."""
    facts: list[Any] = [library.installed_version(), file.header_sha256]
    facts += [(part.stat().st_size, part.stat().st_mtime_ns) for part in file.parts]
    return home() / "opened" / (hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32] + ".json")


def _recall(note: Path, path: Path) -> Verdict | None:
    try:
        verdict = Verdict(path, **json.loads(note.read_text(encoding="utf-8")))
        return verdict if verdict.lasting else None
    except (OSError, ValueError, TypeError):  # none yet, or not readable: try again
        return None


def _remember(note: Path, verdict: Verdict) -> None:
    kept = {name: getattr(verdict, name) for name in ("ok", "what", "why", "do", "broken")}
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=note.parent, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(name, note)
    except OSError:  # a read-only cache only costs the next trial
        return
