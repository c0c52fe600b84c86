"""Running `nsd-local` as a person does: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def nsd_local(tmp_path: Path) -> Run:
    """`nsd_local("list", "--json", home=..., VARIABLE="value")` runs the command with an empty home of its own."""

    def run(*arguments: str, code: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "NSD_", "PIP_"))}
        own = {
            "NSD_LOCAL_HOME": str(tmp_path / "home"),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_ENDPOINT": "http://127.0.0.1:9",
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "COLUMNS": "100",
        }
        command = [sys.executable, "-m", "nsd_local"] if code is None else [sys.executable, "-c", code]
        return subprocess.run(
            [*command, *arguments],
            env={**clean, **own, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    return run
