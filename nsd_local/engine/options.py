"""How a model is loaded and how a context is made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is loaded."""

    gpu_layers: int | None = None  # None: automatic


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """How a context is made."""

    n_ctx: int | None = None  # None: automatic
    n_batch: int = 512
    max_outputs: int = 80  # rows of logits one call may ask for
    threads: int | None = None  # None: automatic
