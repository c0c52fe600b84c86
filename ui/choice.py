"""Which pair to load, and with what limits: the part of the controls that needs a reload."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """`model` and `draft` as on the command line: catalog name, GGUF path, `hf-repo:quant`; None is the default."""

    model: str | None = None
    draft: str | None = None
    ctx: int | None = None
    threads: int | None = None
    gpu_layers: int | None = None
    offline: bool = False
    fetch: bool = False  # the user agreed to download what is missing
