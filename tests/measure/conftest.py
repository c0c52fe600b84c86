"""A tiny pair, loaded once for all tests of measurements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import nsd_local
from nsd_local.api import Engine
from nsd_local.decoding.settings import Settings
from tests import tiny
from tests.tiny import Tiny


@pytest.fixture(scope="session")
def pair(tiny_folder: Path) -> tuple[Path, Path]:
    """Target and draft; they end an answer now and then."""
    target = tiny.write(tiny_folder / "lab-target.gguf", Tiny(seed=1, stop_bias=-1.0))
    return target, tiny.write(tiny_folder / "lab-draft.gguf", Tiny(seed=1, stop_bias=-1.0, noise=0.1))


@pytest.fixture(scope="module")
def engine(pair: tuple[Path, Path]) -> Iterator[Engine]:
    with nsd_local.load(*pair, threads=1, ctx=4096, calibrate=False) as loaded:
        yield loaded


@pytest.fixture
def short() -> Settings:
    """Settings for answers of a few tokens."""
    return replace(Settings(), max_tokens=12, draft_tokens=3)
