"""What the README and the docs tell people to type works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nsd_local.cli.commands import COMMANDS
from nsd_local.verification.rules import RULES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "models" / "README.md"]


@pytest.mark.real
def test_the_python_example_runs():
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    assert len([line for line in example[1].splitlines() if line.strip()]) <= 10
    ended = subprocess.run(
        [sys.executable, "-c", example[1]], capture_output=True, encoding="utf-8", check=False, timeout=900
    )
    assert ended.returncode == 0, ended.stderr
    assert "tok/s, deviation" in ended.stdout.splitlines()[-1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_flags_and_links_exist(page):
    text = page.read_text(encoding="utf-8")
    for command in re.findall(r"nsd-local ([a-z]+)(?=[ `\n])", " ".join(re.findall(r"`+[^`]+`+", text))):
        assert command in COMMANDS, command
    for script in re.findall(r"python (scripts/\w+\.py)", text):
        assert (ROOT / script).is_file()
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_the_readme_knows_how_many_rules_there_are():
    assert len(RULES) == 16
    assert "sixteen verification rules" in README


def test_no_placeholder_is_left():
    assert not re.search(r"@[A-Z]+@|<!--", README)
