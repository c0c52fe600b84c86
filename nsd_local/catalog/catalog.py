"""The catalog of named models and pairs, read from `models/catalog.toml`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from nsd_local.catalog.entry import Entry, Pair, read_entry, read_pair
from nsd_local.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class Catalog:
    """Named models and pairs. Names and aliases are unique over both and compared without case."""

    models: Mapping[str, Entry]
    pairs: Mapping[str, Pair]
    default: Pair

    def find(self, name: str) -> Entry | Pair | None:
        """The model or pair of this name or alias."""
        wanted = name.strip().lower()
        for row in self._rows():
            if wanted == row.name or wanted in row.aliases:
                return row
        return None

    def _rows(self) -> Iterator[Pair | Entry]:
        yield from self.pairs.values()
        yield from self.models.values()

    def members(self, pair: Pair) -> tuple[Entry, Entry]:
        """(target, draft)"""
        return self.models[pair.target], self.models[pair.draft]

    def draft_for(self, target: str) -> Entry | None:
        """The recommended draft: that of the first pair with this target."""
        for pair in self.pairs.values():
            if pair.target == target:
                return self.models[pair.draft]
        return None

    def names(self) -> list[str]:
        return [name for row in self._rows() for name in (row.name, *row.aliases)]

    def close_to(self, name: str) -> list[str]:
        """At most three names that look like `name`, first those that it begins with or that begin with it."""
        wanted = name.strip().lower()
        same_start = [known for known in self.names() if known.startswith(wanted) or wanted.startswith(known)]
        alike = difflib.get_close_matches(wanted, self.names(), n=3, cutoff=0.6)
        return list(dict.fromkeys([*sorted(same_start, key=len), *alike]))[:3]


@cache
def load_catalog() -> Catalog:
    """The catalog that is installed with the package."""
    return read_catalog(files("nsd_local.models").joinpath("catalog.toml").read_text(encoding="utf-8"))


def read_catalog(text: str) -> Catalog:
    """A catalog from TOML; `UsageError` for unknown keys, doubled names and pairs of unknown models."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError("the catalog is not valid TOML", str(error)) from error
    unknown = document.keys() - {"default", "models", "pairs"}
    if unknown:
        raise UsageError(f"catalog: unknown keys at the top: {', '.join(sorted(unknown))}")
    models = {name: read_entry(name, table) for name, table in document.get("models", {}).items()}
    pairs = {name: read_pair(name, table) for name, table in document.get("pairs", {}).items()}
    _check_names(models, pairs)
    default = pairs.get(document.get("default", ""))
    if default is None:
        raise UsageError("catalog: default must name one of the pairs")
    return Catalog(models, pairs, default)


def _check_names(models: Mapping[str, Entry], pairs: Mapping[str, Pair]) -> None:
    seen: set[str] = set()
    rows: list[Entry | Pair] = [*models.values(), *pairs.values()]
    for row in rows:
        for name in (row.name, *row.aliases):
            if name in seen or name != name.lower() or not name.strip():
                raise UsageError(f"catalog: the name {name!r} must be lower-case and used once")
            seen.add(name)
    for pair in pairs.values():
        for member in (pair.target, pair.draft):
            if member not in models:
                raise UsageError(f"catalog: the pair {pair.name} names an unknown model {member!r}")
