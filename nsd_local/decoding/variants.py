"""Requantized drafts that were found to be faster on this machine, with their provenance."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nsd_local.catalog.home import home
from nsd_local.catalog.store import write_atomically

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Variant:
    """What was found out about one draft file with one target."""

    source: str  # path of the draft it was made from
    source_size: int
    source_changed: int  # ns
    target: str  # file name of the target it was measured with
    type_: str  # "Q4_0", ...; "" where the source itself is fastest
    file: str  # name in the folder; "" for the source itself
    size: int
    measured: dict[str, float]  # type -> expected tokens per second; "" is the source
    build: str
    machine: str
    date: str

    @property
    def path(self) -> Path:
        return folder() / self.file

    def told(self) -> str:
        """Such as `Q4_0 (77.1 tok/s expected, 61.0 as it was, with target.gguf, 2026-01-31)`."""
        speed, before = self.measured.get(self.type_, 0.0), self.measured.get("", 0.0)
        return (
            f"{self.type_ or 'as it was'} ({speed:.1f} tok/s expected, {before:.1f} as it was, "
            f"with {self.target}, {self.date})"
        )

    def holds(self) -> bool:
        """Is the source still the same file, and the variant still whole?"""
        try:
            stat = Path(self.source).stat()
            same = (stat.st_size, stat.st_mtime_ns) == (self.source_size, self.source_changed)
            return same and (not self.file or self.path.stat().st_size == self.size)
        except OSError:
            return False


def folder() -> Path:
    """Where requantized drafts lie."""
    return home() / "drafts"


def best_draft(draft: Path, target: Path | None = None) -> Path | None:
    """The file to load in the place of `draft`, if one was found to be faster; None if `draft` is best or unknown.

    A finding with the same target is preferred to one with another.
    """
    found = recall(draft, target)
    return found.path if found is not None and found.file else None


def recall(draft: Path, target: Path | None = None) -> Variant | None:
    """What is known about this draft."""
    known = [variant for variant in _read(draft) if variant.holds()]
    same = [variant for variant in known if target is not None and variant.target == target.name]
    return next(iter(same or known), None)


def remember(variant: Variant) -> None:
    """Keep a finding; it replaces the one with the same target. Raises OSError."""
    source = Path(variant.source)
    kept = [variant, *(other for other in _read(source) if other.target != variant.target)]
    folder().mkdir(parents=True, exist_ok=True)
    data = {"format": FORMAT, "variants": [asdict(entry) for entry in kept]}
    write_atomically(_index(source), json.dumps(data, indent=1, ensure_ascii=False))
    used = {entry.file for entry in kept}
    for path in folder().glob(f"{_digest(source)}-*.gguf"):
        if path.name not in used:
            path.unlink(missing_ok=True)


def path_for(draft: Path, type_: str) -> Path:
    """Where a variant of this draft goes."""
    return folder() / f"{_digest(draft)}-{draft.stem}-{type_.lower()}.gguf"


def _read(draft: Path) -> list[Variant]:
    try:
        data: Any = json.loads(_index(draft).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return []
        return [Variant(**entry) for entry in data["variants"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _index(draft: Path) -> Path:
    return folder() / f"{_digest(draft)}.json"


def _digest(draft: Path) -> str:
    return hashlib.sha256(str(draft.expanduser().resolve()).encode()).hexdigest()[:16]
