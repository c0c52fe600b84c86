"""The set-up scripts: what they install again and what they do not, and what they show while it takes long."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """scripts/environment.py for a copy of the project file and an environment of its own; pip is only noted."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.setenv("NSD_VENV", str(tmp_path / "env"))
    monkeypatch.delitem(sys.modules, "environment", raising=False)
    module = importlib.import_module("environment")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text("# one")
    module.installed = []  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "_install", lambda extras: module.installed.append(extras))  # type: ignore[attr-defined]
    yield module
    sys.modules.pop("environment", None)


def test_the_environment_is_filled_once(environment: ModuleType, tmp_path: Path) -> None:
    installed = environment.installed
    environment.ensure()
    assert environment.python().exists()
    environment.ensure()
    assert installed == [()]
    environment.ensure(("test",))
    environment.ensure(("test",))
    environment.ensure()  # what is there is enough
    assert installed == [(), ("test",)]
    (tmp_path / "pyproject.toml").write_text("# two")
    environment.ensure()
    assert installed == [(), ("test",), ("test",)]  # and keeps the extras that were asked for


def test_a_broken_environment_is_made_anew(environment: ModuleType) -> None:
    environment.ensure()
    environment.python().unlink()
    environment.ensure()
    assert environment.python().exists()
    assert environment.installed == [(), ()]


def test_an_installation_that_fails_leaves_no_stamp(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(extras: tuple[str, ...]) -> None:
        raise SystemExit("no compiler")

    monkeypatch.setattr(environment, "_install", fail)
    for _ in range(2):
        with pytest.raises(SystemExit, match="no compiler"):
            environment.ensure()
    assert not environment.STAMP.exists()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Collecting numba>=0.63 (from nsd-local==0.1.0)\n", "collecting numba>=0.63"),
        ("  [17/213] Building CXX object ggml/src/x.cpp.o\n", "compiling llama.cpp: 17 of 213 files"),
        ("[ 42%] Building CXX object\n", "compiling llama.cpp: 42 %"),
        ("  Building wheel for llama-cpp-python (pyproject.toml): started\n", "building wheel for llama-cpp-python"),
        ("Installing collected packages: a, b\n", "installing collected packages a,"),
        ("anything else\n", "starting"),
    ],
)
def test_the_log_of_pip_becomes_one_line(line: str, shown: str, environment: ModuleType) -> None:
    ticker = environment.Ticker()
    ticker.see(line)
    assert ticker._doing == shown


def test_help_needs_no_environment(tmp_path: Path) -> None:
    """quickstart --help answers from the bare Python."""
    answer = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "quickstart.py"), "--help"],
        env={**os.environ, "NSD_VENV": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "fresh clone" in answer.stdout
    assert not (tmp_path / "none").exists()
