"""The answer to "which file is meant": what `resolve` gives to whoever loads models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Trust = Literal["catalog", "hub", "none"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model on this machine.

    `files` are all its parts, `path` (what llama.cpp is given) the first of them. `trust` says whose SHA-256
    the bytes were verified against: the catalog's, the one that the Hub reports, or nobody's (a path of the
    user's).
    """

    name: str
    files: tuple[Path, ...]
    trust: Trust
    size: int  # bytes of all parts
    sha256: str | None = None  # of a single file whose hash is known
    licence: str | None = None
    draft: str | None = None  # catalog name of the recommended draft, for a target that has one
    origin: str = ""  # where it came from, in words

    @property
    def path(self) -> Path:
        return self.files[0]

    @property
    def verified(self) -> bool:
        return self.trust != "none"
