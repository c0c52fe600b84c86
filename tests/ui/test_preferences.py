"""What the controls remember."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nsd_local.ui.choice import Choice
from nsd_local.ui.controls import read
from nsd_local.ui.preferences import CUSTOM, PRESETS, Memory, Preferences

from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.loading import LoadOptions
from nsd_local.sampling import Penalties
from nsd_local.verification.rule import Exact, Nucleus
from nsd_local.verification.shortlist import TopK
from nsd_local.verification.typical import Typical


def test_every_preset_gives_valid_settings_and_is_recognised(tmp_path: Path) -> None:
    for name, (_, values) in PRESETS.items():
        now = Memory(tmp_path / name / "ui.json").change(**values)
        assert now.preset == name
        now.settings()


def test_dials_reach_the_settings() -> None:
    assert isinstance(Preferences(rule="exact").settings().rule, Exact)
    assert isinstance(Preferences(rule="typical").settings().rule, Typical)
    assert Preferences(rule="topk:n=2").settings().rule == TopK(n=2)
    nucleus = Preferences(theta=0.8, strength=0.5, cap=0.1, k="6", seed=3, max_tokens=9).settings()
    assert nucleus.rule == Nucleus(theta=0.8, strength=0.5, cap=0.1)
    assert (nucleus.draft_tokens, nucleus.seed, nucleus.max_tokens, nucleus.block) == (6, 3, 9, True)
    assert not Preferences(block=False).settings().block


def test_changes_are_remembered_and_a_moved_dial_makes_the_preset_custom(tmp_path: Path) -> None:
    path = tmp_path / "ui.json"
    Memory(path).change(theta=0.33)
    again = Memory(path).now
    assert again.theta == 0.33
    assert again.preset == CUSTOM


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"unknown": 1}', '{"theta": 7}', '{"block": 0}', '{"rule": "no such rule"}']
)
def test_a_damaged_file_gives_the_defaults_and_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ui.json"
    path.write_text(text, "utf-8")
    memory = Memory(path)
    assert memory.now == Preferences()
    assert "cannot be read" in memory.problem
    aside = tmp_path / "ui.json.damaged"
    assert str(aside) in memory.problem
    memory.change(theta=0.5)
    assert aside.read_text("utf-8") == text


def test_what_makes_no_sense_is_not_remembered(tmp_path: Path) -> None:
    path = tmp_path / "ui.json"
    memory = Memory(path)
    memory.change(budget=2.0)
    for nonsense in ({"rule": "no such rule"}, {"rule": "topk:m=2"}, {"rule": ""}, {"rule": "target-topp"}):
        with pytest.raises(UsageError):
            memory.change(**nonsense)
    assert memory.now == Memory(path).now == Preferences(budget=2.0, preset=CUSTOM)


def test_a_folder_that_cannot_be_written_costs_the_remembering_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    memory = Memory(tmp_path / "file" / "ui.json")
    assert memory.change(theta=0.5) == memory.now
    assert memory.now.theta == 0.5
    assert "cannot be remembered" in memory.problem


def test_settings_without_a_dial_hold_but_are_not_remembered(tmp_path: Path) -> None:
    usual = Settings(stop=("END",), penalties=Penalties(repeat=1.2), json_schema="{}", max_tokens=5)
    memory = Memory(tmp_path / "ui.json", usual)
    memory.change(max_tokens=9)
    now = memory.settings()
    assert (now.stop, now.penalties, now.json_schema, now.max_tokens) == (("END",), Penalties(repeat=1.2), "{}", 9)
    assert Memory(tmp_path / "ui.json").settings().stop == ()


@pytest.mark.parametrize("name", ["cap", "budget", "seed", "max_tokens"])
def test_an_empty_number_is_none_and_zero_is_zero(name: str) -> None:
    assert read(name, None) is None
    for zero in (0, 0.0):
        assert read(name, zero) == 0
    assert isinstance(read("seed", 12.0), int)


def test_at_start_the_command_line_goes_before_what_was_chosen_last() -> None:
    chosen = Preferences(model="a", draft="b", ctx=1024)
    assert chosen.choice(Choice()) == Choice("a", "b", LoadOptions(ctx=1024))
    assert chosen.choice(Choice(draft="none", options=LoadOptions(ctx=4096))) == Choice(
        "a", "none", LoadOptions(ctx=4096)
    )
    assert chosen.choice(Choice("c")) == Choice("c"), "the draft and the context belong to the other model"


def test_what_was_written_is_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "ui.json"
    Memory(path).change(budget=2.0)
    assert json.loads(path.read_text("utf-8"))["budget"] == 2.0
