"""Fixtures that every room's tests share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests import tiny
from tests.tiny import Tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session's tiny models live; write once, read often."""
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="session")
def tiny_model(tiny_folder: Path) -> Callable[[Tiny], Path]:
    """Writes any tiny model, each once per session: `tiny_model(Tiny(kind="mamba"))`."""

    @cache
    def written(settings: Tiny) -> Path:
        return tiny.write(tiny_folder / f"{settings.kind}_{len(list(tiny_folder.iterdir()))}.gguf", settings)

    return written


@pytest.fixture(scope="session")
def tiny_target(tiny_folder: Path) -> Path:
    """A llama-like model of 320 tokens."""
    return tiny.write(tiny_folder / "target.gguf", Tiny(seed=1))


@pytest.fixture(scope="session")
def tiny_draft(tiny_folder: Path) -> Path:
    """A relative of `tiny_target`: proposes much of what the target would say."""
    return tiny.write(tiny_folder / "draft.gguf", Tiny(seed=1, noise=0.02))


@pytest.fixture(scope="session")
def tiny_far(tiny_folder: Path) -> Path:
    """A distant relative of `tiny_target`: a draft whose law differs a good deal."""
    return tiny.write(tiny_folder / "far.gguf", Tiny(seed=1, noise=0.2))


@pytest.fixture(scope="session")
def tiny_stranger(tiny_folder: Path) -> Path:
    """An unrelated model with the same vocabulary: a draft that is of no use."""
    return tiny.write(tiny_folder / "stranger.gguf", Tiny(seed=99))


@pytest.fixture
def deadly(tmp_path: Path) -> Path:
    """Two tokens of the same text: an assertion in llama.cpp's vocabulary ends the process."""
    path = tiny.write(tmp_path / "deadly.gguf", Tiny())
    data = path.read_bytes()
    old, new = (f"[PAD{n}]".encode() for n in (300, 301))
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    return path
