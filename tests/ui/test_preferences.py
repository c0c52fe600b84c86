"""What the controls remember."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nsd_local.ui.controls import read
from nsd_local.ui.preferences import CUSTOM, PRESETS, Memory, Preferences

from nsd_local.errors import UsageError
from nsd_local.verification.rule import Exact, Nucleus
from nsd_local.verification.typical import Typical


def test_every_preset_gives_valid_settings_and_is_recognised(tmp_path: Path) -> None:
    for name, (_, values) in PRESETS.items():
        now = Memory(tmp_path / name / "ui.json").change(**values)
        assert now.preset == name
        now.settings()


def test_dials_reach_the_settings() -> None:
    assert isinstance(Preferences(rule="exact").settings().rule, Exact)
    assert isinstance(Preferences(rule="typical").settings().rule, Typical)
    nucleus = Preferences(theta=0.8, strength=0.5, cap=0.1, k="6", seed=3, max_tokens=9).settings()
    assert nucleus.rule == Nucleus(theta=0.8, strength=0.5, cap=0.1)
    assert (nucleus.draft_tokens, nucleus.seed, nucleus.max_tokens) == (6, 3, 9)


def test_changes_are_remembered_and_a_moved_dial_makes_the_preset_custom(tmp_path: Path) -> None:
    path = tmp_path / "ui.json"
    Memory(path).change(theta=0.33)
    again = Memory(path).now
    assert again.theta == 0.33
    assert again.preset == CUSTOM


@pytest.mark.parametrize("text", ["{", "[]", '{"unknown": 1}', '{"theta": 7}', '{"rule": "no such rule"}'])
def test_a_damaged_file_gives_the_defaults_and_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ui.json"
    path.write_text(text, "utf-8")
    memory = Memory(path)
    assert memory.now == Preferences()
    assert "cannot be read" in memory.problem


def test_optional_numbers_are_text_and_empty_means_none() -> None:
    assert read("cap", "") is None
    assert read("cap", " 0,5 ") == 0.5
    assert read("seed", "12") == 12
    with pytest.raises(UsageError, match="whole number"):
        read("seed", "1.5")


def test_what_was_written_is_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "ui.json"
    Memory(path).change(budget=2.0)
    assert json.loads(path.read_text("utf-8"))["budget"] == 2.0
