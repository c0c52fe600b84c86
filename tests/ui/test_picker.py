"""Which pair is loaded: at start, from the picker, and again."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from nsd_local.ui import picker as picking
from nsd_local.ui.app import App
from nsd_local.ui.choice import Choice
from nsd_local.ui.pairs import Offer
from nsd_local.ui.picker import AUTOMATIC, Picker, refused
from nsd_local.ui.preferences import Memory

from nsd_local.errors import NsdError
from nsd_local.loading import LoadOptions

START = Choice("a", "a-draft", LoadOptions(ctx=1024, threads=3))


def test_the_picker_goes_before_the_command_line(tmp_path: Path) -> None:
    loaded: list[Choice] = []
    memory = Memory(tmp_path / "ui.json")
    with gr.Blocks():
        picker = Picker(memory, START, loaded.append)
    assert (picker.model.value, picker.draft.value, picker.ctx.value) == ("a", "a-draft", "1024")
    picker.choose("b", AUTOMATIC, "")
    assert loaded == [Choice("b", None, LoadOptions(threads=3), fetch=True)]
    picker.choose("b", "none", "2048")
    assert loaded[-1] == Choice("b", "none", LoadOptions(ctx=2048, threads=3), fetch=True)
    assert (memory.now.model, memory.now.draft, memory.now.ctx) == ("b", "none", 2048)
    assert picker.values() == ["b", "none", "2048"], "a page that is loaded again shows them"


@pytest.mark.parametrize("name", ["retry", "fetch"])
def test_a_banner_loads_what_was_chosen_last(tmp_path: Path, name: str) -> None:
    opened: queue.Queue[Choice] = queue.Queue()

    def opener(choice: Choice, *_: Any) -> Any:
        opened.put(choice)
        raise NsdError("There is no engine")

    with App(START, folder=tmp_path, opener=opener) as app:
        assert opened.get(timeout=60) == START
        app.load(Choice("b"))
        assert opened.get(timeout=60) == Choice("b")
        app.act(gr.EventData(None, {"name": name}))
        assert opened.get(timeout=60) == Choice("b", fetch=name == "fetch")


def test_no_file_is_opened_before_somebody_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picking, "drafts_for", lambda model: pytest.fail("looked"))
    with gr.Blocks():
        Picker(Memory(tmp_path / "ui.json"), START, print)


def test_names_and_reasons_are_shown_as_text() -> None:
    told = refused([Offer("x", "<b>x</b>.gguf", refused="text of token 3: '<img src=y>'"), Offer("y", "fits")])
    assert "<b>" not in told
    assert "<img" not in told
    assert "fits" not in told
