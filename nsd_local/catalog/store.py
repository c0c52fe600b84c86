"""The model files on this machine, and what is remembered about the ones whose bytes were verified."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from nsd_local.catalog.home import models_folder
from nsd_local.catalog.model_file import Trust

PARTIAL = ".partial"
JOURNAL = ".partial.json"


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was when its SHA-256 was computed. Unchanged size and time mean unchanged bytes."""

    path: str
    size: int
    mtime_ns: int
    sha256: str

    @classmethod
    def of(cls, path: Path, sha256: str) -> Stamp:
        status = path.stat()
        return cls(str(path.absolute()), status.st_size, status.st_mtime_ns, sha256)

    def holds(self) -> bool:
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.mtime_ns)


@dataclass(frozen=True, slots=True)
class Record:
    """A model whose files were verified, so that no later start hashes them again."""

    name: str
    trust: Trust
    origin: str
    files: tuple[Stamp, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(Path(stamp.path) for stamp in self.files)

    @property
    def size(self) -> int:
        return sum(stamp.size for stamp in self.files)


class Store:
    """The folder of model files, by default `models_folder()`. Creates nothing until something is written."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = models_folder() if folder is None else folder

    def path_of(self, file: str) -> Path:
        return self.folder / file

    def lock_of(self, name: str) -> Path:
        """The lock file of a model, its folder made."""
        return self._beside("locks", name, ".lock", make=True)

    def work_folder_of(self, name: str) -> Path:
        """Where the wheels of a model lie until they are consumed."""
        return self.folder / f".fetching-{_safe(name)}"

    def recall(self, name: str) -> Record | None:
        """What is remembered of a model, if its files are still the ones that were verified."""
        record = self._read(self._record_of(name))
        return record if record is not None and record.files and all(s.holds() for s in record.files) else None

    def remember(self, record: Record) -> None:
        """Write the record at once or not at all. Without it, the bytes are verified again the next time."""
        with suppress(OSError):
            path = self._beside("records", record.name, ".json", make=True)
            write_atomically(path, json.dumps(asdict(record), indent=1))

    def forget(self, name: str) -> None:
        self._record_of(name).unlink(missing_ok=True)

    def records(self) -> Iterator[Record]:
        """All records whose files are unchanged, by name."""
        for path in sorted((self.folder / "records").glob("*.json")):
            record = self._read(path)
            if record is not None and self.recall(record.name) is not None:
                yield record

    def leftovers(self, file: str) -> tuple[Path, ...]:
        """What an interrupted fetch of `file` left to be resumed."""
        path = self.path_of(file)
        pieces = (path.with_name(path.name + PARTIAL), path.with_name(path.name + JOURNAL))
        return tuple(piece for piece in pieces if piece.exists())

    def _record_of(self, name: str) -> Path:
        return self._beside("records", name, ".json")

    def _beside(self, folder: str, name: str, suffix: str, make: bool = False) -> Path:
        parent = self.folder / folder
        if make:
            parent.mkdir(parents=True, exist_ok=True)
        return parent / f"{_safe(name)}{suffix}"

    @staticmethod
    def _read(path: Path) -> Record | None:
        """A record that cannot be read is no record: the file is then verified again."""
        try:
            row = json.loads(path.read_text(encoding="utf-8"))
            stamps = tuple(Stamp(**stamp) for stamp in row.pop("files"))
            return Record(**row, files=stamps)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def put_in_place(partial: Path, final: Path) -> None:
    """Give a complete file its final name, so that not even a power cut shows a partial one under it."""
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(partial, final)
    if os.name == "posix":  # the rename itself lives in the folder
        folder = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _safe(name: str) -> str:
    """A file name for a model's name: `owner/repository:QUANT` has characters that not every system takes."""
    return re.sub(r"[^A-Za-z0-9._+-]", lambda match: f"%{ord(match.group()):02x}", name)
