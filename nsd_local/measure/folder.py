"""A folder of recorded measurements, read for a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from nsd_local.decoding.records_io import Recording, read_recordings
from nsd_local.errors import UsageError
from nsd_local.measure.journal import Record, read_journal

ROUNDS, COMMANDS, POSITIONS = ".rounds.jsonl", "commands", "positions"
# The journals that rounds are taken from, best first: the fewer arms, the more answers of each.
PREFERENCE = ("bench", "compare", "sweep", "sweep-rules")
MOST_ARMS = 8


class Folder:
    """What lies in a folder: journals by name, rounds and positions by arm. Read when first asked for."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError where nothing was recorded there."""
        self.path = path
        self.journals: dict[str, tuple[Record, list[Record]]] = {}
        for file in sorted(path.glob("*.jsonl")) if path.is_dir() else ():
            if not file.name.endswith(ROUNDS):
                self.journals[file.stem] = read_journal(file)
        if not any(records for name, (_, records) in self.journals.items() if name != COMMANDS):
            raise UsageError(
                f"There are no records in {path}", "", "Make some with bench, sweep, compare or eval and --out"
            )

    def rows(self, name: str) -> list[Record]:
        """The runs of a journal; none where it does not exist."""
        _, records = self.journals.get(name, ({}, []))
        return [record for record in records if record.get("arm") != "drift"]

    def drift(self, name: str) -> list[Record]:
        """The checks for drift of a journal, one per session."""
        return [record for record in self.journals.get(name, ({}, []))[1] if record.get("arm") == "drift"]

    @property
    def evaluations(self) -> list[str]:
        return [name for name in self.journals if name.startswith("eval-")]

    @property
    def commands(self) -> list[str]:
        return [record["command"] for record in self.journals.get(COMMANDS, ({}, []))[1]]

    @cached_property
    def rounds(self) -> tuple[str, dict[str, list[Recording]]]:
        """The file that rounds are taken from, and its answers by arm (plain first, at most eight arms)."""
        for name in (*PREFERENCE, *self.evaluations):
            path = self.path / f"{name}{ROUNDS}"
            if path.is_file() and path.stat().st_size:
                return path.name, _by_arm(read_recordings(path), lambda one: one.about)
        return "", {}

    @cached_property
    def positions(self) -> dict[str, list[Record]]:
        """Dissected answers by arm."""
        return _by_arm(self.journals.get(POSITIONS, ({}, []))[1], lambda record: record)

    @property
    def setup(self) -> Mapping[str, Any]:
        """The machine and the models of the first journal that names them."""
        for header, _ in self.journals.values():
            if "setup" in header:
                setup: Mapping[str, Any] = header["setup"]
                return setup
        return {}


def _by_arm(items: Iterable[Any], about: Any) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(about(item)["arm"], []).append(item)
    ordered = sorted(groups, key=lambda arm: arm != "plain")
    return {arm: groups[arm] for arm in ordered[:MOST_ARMS]}
