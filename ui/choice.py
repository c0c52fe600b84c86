"""Which pair to load, and how: the part of the controls that needs a reload."""

from __future__ import annotations

from dataclasses import dataclass, field

from nsd_local.loading import LoadOptions


@dataclass(frozen=True, slots=True)
class Choice:
    """`model` and `draft` as on the command line: catalog name, GGUF path, `hf-repo:quant`; None is the default."""

    model: str | None = None
    draft: str | None = None
    options: LoadOptions = field(default_factory=LoadOptions)
    fetch: bool = False  # the user agreed to download what is missing
