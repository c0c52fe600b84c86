"""A file of records that survives being killed: one JSON object a line, each written at once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from nsd_local.catalog.disk import unreadable
from nsd_local.decoding.json_lines import json_lines
from nsd_local.decoding.records import Round
from nsd_local.decoding.records_io import FORMAT, Recording, read_recordings, round_to_dict
from nsd_local.errors import UsageError

Record = dict[str, Any]
MOST_NAMED = 5  # of the differences between two headers


class Journal:
    """Records of one measurement, kept under keys, so that it can go on where it was stopped.

    The first line is the header: what the records have in common. Opening an existing file drops a line that was
    not written to its end, and raises UsageError where the header differs. `rounds` of a record go to a second
    file in the format of `records_io`, which is cut back to what the records vouch for.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], key: Sequence[str], *, rounds: bool = False) -> None:
        self.path, self.rounds_path = path, path.with_suffix(".rounds.jsonl")
        self._key, self._keeps_rounds = tuple(key), rounds
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(f"{path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(
                f"{path} is being written by another run", "two cannot share a file", "Wait, or choose another folder"
            ) from None
        try:
            self.records = self._resume(dict(header))
        except BaseException:
            self._lock.release()
            raise
        self._done = {self.key(record) for record in self.records}

    def key(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(record.get(name) for name in self._key)

    def has(self, record: Mapping[str, Any]) -> bool:
        """Is there a record with this one's key?"""
        return self.key(record) in self._done

    def append(self, record: Mapping[str, Any], rounds: Sequence[Round] | None = None) -> None:
        """Writes a record, its rounds first: what is not vouched for by a record is dropped on resuming."""
        written = dict(record)
        if self._keeps_rounds and rounds is not None:
            lines = [{"format": FORMAT, "about": dict(written)}, *map(round_to_dict, rounds)]
            written["rounds_end"] = _append(self.rounds_path, "".join(map(_line, lines)))
        _append(self.path, _line(written))
        self.records.append(written)
        self._done.add(self.key(written))

    def recordings(self) -> list[Recording]:
        """The rounds that were kept, each under the record that they belong to."""
        kept = self.rounds_path.is_file() and self.rounds_path.stat().st_size > 0
        return read_recordings(self.rounds_path) if kept else []

    def _resume(self, header: Record) -> list[Record]:
        header = json.loads(json.dumps(header))  # as it will be read
        whole, lines = _read(self.path)
        if not lines:
            self.path.unlink(missing_ok=True)
            self.rounds_path.unlink(missing_ok=True)
            _append(self.path, _line(header))
            return []
        _same(self.path, lines[0], header)
        os.truncate(self.path, whole)
        records = lines[1:]
        if self.rounds_path.exists():
            os.truncate(self.rounds_path, max((record.get("rounds_end", 0) for record in records), default=0))
        return records

    def close(self) -> None:
        self._lock.release()
        Path(self._lock.lock_file).unlink(missing_ok=True)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path) -> tuple[Record, list[Record]]:
    """Header and records of a finished or unfinished journal. Raises UsageError where it is none."""
    _, lines = _read(path)
    if not lines or "format" not in lines[0]:
        raise UsageError(f"{path} holds no records")
    return lines[0], lines[1:]


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _append(path: Path, text: str) -> int:
    """Appends in one write and waits for the disk; returns the size of the file then."""
    with path.open("ab", buffering=0) as file:
        data = memoryview(text.encode("utf-8", "surrogatepass"))
        while data:
            data = data[file.write(data) :]
        os.fsync(file.fileno())
        return file.tell()


def _read(path: Path) -> tuple[int, list[Record]]:
    """The bytes up to the last whole line, and the objects of the whole lines."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return 0, []
    except OSError as error:
        raise unreadable(path, error) from error
    whole = data.rfind(b"\n") + 1
    return whole, [record for _, record in json_lines(data[:whole], path.name)]


def _same(path: Path, old: Record, new: Record) -> None:
    differing = [f"{name} ({_short(there)} there, {_short(now)} now)" for name, there, now in _differing(old, new)]
    if differing:
        more = len(differing) - MOST_NAMED
        raise UsageError(
            f"{path} holds another measurement",
            f"it differs in {', '.join(differing[:MOST_NAMED])}" + (f" and {more} more" if more > 0 else ""),
            "Choose another folder, or delete the file to start again",
        )


def _differing(old: Mapping[str, Any], new: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(name, old value, new value) of what differs; names of nested values have dots."""
    for name in {**old, **new}:
        there, now = old.get(name), new.get(name)
        if isinstance(there, dict) and isinstance(now, dict):
            yield from _differing(there, now, f"{within}{name}.")
        elif there != now:
            yield f"{within}{name}", there, now


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"
