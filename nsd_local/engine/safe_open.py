"""A file that was never loaded is opened by a child process first, so that a malformed one can end the child but not a
chat, a server or a notebook. The verdict is remembered by size, time and header.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nsd_local.catalog.home import home
from nsd_local.engine import library
from nsd_local.engine.gguf_file import GgufFile, read_gguf
from nsd_local.errors import ModelError

_SECONDS: Final = 120.0  # for one file, beyond reading it
_READ_SPEED: Final = 20e6  # bytes per second, of a slow disk
_MODULE: Final = "nsd_local.engine.trial"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a child process found."""

    path: Path
    ok: bool
    what: str = ""
    why: str = ""
    do: str = ""
    ended: bool = False  # the file ended the process

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
        if verdict.ok or verdict.ended:  # other reasons may lie in this moment: memory, permissions
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
        )

    def ask(self, path: Path) -> Verdict:
        size = path.stat().st_size if path.exists() else 0
        timer = threading.Timer(_SECONDS + size / _READ_SPEED, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(str(path)) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:  # it ended before it read the path
            line = ""
        finally:
            timer.cancel()
        if line:
            return Verdict(path, **json.loads(line))
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Verdict(
            path,
            ok=False,
            what=f"{path} is malformed",
            why=f"llama.cpp ended the process that tried to open it ({how})",
            do="Download it again, or choose another file",
            ended=True,
        )

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()


def _note(file: GgufFile) -> Path:
    """Where the verdict about a file is kept: its name changes with the file and with llama.cpp."""
    facts: list[Any] = [library.installed_version(), file.header_sha256]
    facts += [(part.stat().st_size, part.stat().st_mtime_ns) for part in file.parts]
    return home() / "opened" / (hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32] + ".json")


def _recall(note: Path, path: Path) -> Verdict | None:
    try:
        kept = json.loads(note.read_text(encoding="utf-8"))
        return Verdict(path, **kept)
    except (OSError, ValueError, TypeError):  # none yet, or not readable: try again
        return None


def _remember(note: Path, verdict: Verdict) -> None:
    kept = {name: getattr(verdict, name) for name in ("ok", "what", "why", "do", "ended")}
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=note.parent, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(name, note)
    except OSError:  # a read-only cache only costs the next trial
        return
