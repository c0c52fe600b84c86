#!/usr/bin/env python3
"""Everything that must hold: lint, format, types, tests. Needs a Python (3.10 or newer), git and a C++ compiler.

Arguments go to pytest: python scripts/test.py tests/catalog -k hub
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import environment

IN_CI = bool(os.environ.get("CI"))


def main() -> int:
    environment.ensure(("lint", "test"))
    python = str(environment.python())
    failed = [name for name, command in checks(python) if not step(name, command)]
    step("models for the tests (1.7 GB, once)", [python, "-m", "nsd_local", "pull", "default", "smollm2-135m-instruct"])
    browser = find_browser(python)
    variables = {"NSD_CHROMIUM": browser} if browser else {}
    if not step("tests", [python, "-m", "pytest", *sys.argv[1:]], variables):
        failed.append("tests")
    environment.say(f"\nFailed: {', '.join(failed)}" if failed else "\nAll passed.")
    return 1 if failed else 0


def checks(python: str) -> list[tuple[str, list[str]]]:
    return [
        ("lint", [python, "-m", "ruff", "check", "."]),
        ("format", [python, "-m", "ruff", "format", "--check", "."]),
        ("types", [python, "-m", "mypy"]),
    ]


def step(name: str, command: list[str], variables: dict[str, str] | None = None) -> bool:
    """Run one step in the repository; did it succeed?"""
    environment.say(f"\n=== {name}")
    started = time.monotonic()
    ended = subprocess.run(command, cwd=environment.ROOT, env={**os.environ, **(variables or {})}, check=False)
    environment.say(f"=== {name}: {'ok' if ended.returncode == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s")
    return ended.returncode == 0


def find_browser(python: str) -> str | None:
    """A Chromium for the tests of the chat page, installed where there is none; None: they are skipped and say so."""
    found = _installed_browser(python)
    if found:
        return found
    if sys.platform.startswith("linux") and shutil.which("apt-get") and os.geteuid() == 0:
        step("package lists", ["apt-get", "update", "-qq"])
        step("browser (Debian's package)", ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"])
    if not _installed_browser(python):
        step("browser (playwright's)", [python, "-m", "playwright", "install", "chromium"])
    found = _installed_browser(python)
    if not found:
        environment.say("No Chromium could be installed: the tests of the chat page are skipped.")
    return found


def _installed_browser(python: str) -> str | None:
    """What the environment, which has Playwright, finds."""
    finder = str(Path(__file__).with_name("chromium.py"))
    return subprocess.run([python, finder], capture_output=True, text=True, check=False).stdout.strip() or None


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
