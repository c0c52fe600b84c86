"""Fixtures of the engine's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from tests.tiny import Tiny

Make = Callable[..., Context]


@pytest.fixture
def make(tiny_model: Callable[[Tiny], Path]) -> Iterator[Make]:
    """Makes contexts: `make("mamba", n_ctx=512)`. Each has a model of its own; all are closed in the end."""
    models: list[Model] = []

    def context(kind: str = "llama", tiny: Tiny | None = None, **options: object) -> Context:
        model = Model.load(tiny_model(tiny or Tiny(kind=kind, seed=1)))
        models.append(model)
        return Context(model, ContextOptions(**options))  # type: ignore[arg-type]

    yield context
    for model in models:
        model.close()
