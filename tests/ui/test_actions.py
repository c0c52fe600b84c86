"""What the chat's buttons do where two tabs show one conversation, and where an answer never begins."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nsd_local.ui.answers import Answers
from nsd_local.ui.chat_actions import ChatActions
from nsd_local.ui.preferences import Memory
from nsd_local.ui.session import Session
from nsd_local.ui.speeds import Speeds
from nsd_local.ui.tabs import Tabs
from nsd_local.ui.talk import Talk

from nsd_local.chat.conversation import Conversation
from nsd_local.chat.store import Store
from nsd_local.chat.turn import Answer, Turn
from nsd_local.errors import NsdError

A, B = SimpleNamespace(session_hash="a"), SimpleNamespace(session_hash="b")


@pytest.fixture
def over() -> threading.Event:
    return threading.Event()


@pytest.fixture
def actions(tmp_path: Path, over: threading.Event) -> Iterator[ChatActions]:
    """A chat whose engine is being opened until `over` is set."""

    def opener(*_: Any) -> Any:
        over.wait()
        raise NsdError("There is no <b>engine</b>")

    session = Session(opener)
    talk = Talk(
        session, Store(tmp_path / "talks"), Answers(tmp_path / "answers"), Memory(tmp_path / "ui.json"), Speeds()
    )
    yield ChatActions(talk, Tabs())
    over.set()
    session.close()


def turn(n: int) -> Turn:
    return Turn(f"question {n}", Answer(f"answer {n}"))


@pytest.fixture
def stale(actions: ChatActions) -> Conversation:
    """A conversation of three turns, of which tab B shows the first only."""
    conversation = actions.talk.create()
    conversation.turns = [turn(1)]
    actions.talk.save(conversation)
    actions.choose(conversation.id, B)
    conversation.turns = [turn(1), turn(2), turn(3)]
    actions.choose(conversation.id, A)
    return conversation


@pytest.mark.parametrize("button", ["retry", "edit", "undo"])
def test_a_tab_that_is_behind_drops_no_turns(actions: ChatActions, stale: Conversation, button: str) -> None:
    press = getattr(actions, button)
    with pytest.warns(match="another tab"):
        shown, place, _ = press(SimpleNamespace(index=1, value="other"), B)
    assert stale.turns == [turn(1), turn(2), turn(3)]
    assert len(shown) == 6
    assert place["said"] == ""
    press(SimpleNamespace(index=4, value="other"), B)  # it shows them now
    assert [one.user for one in stale.turns[:2]] == ["question 1", "question 2"]
    expected = {"retry": ["question 3"], "edit": ["other"], "undo": []}
    assert [one.user for one in stale.turns[2:]] == expected[button]


def test_a_message_that_is_gone_is_no_failure(actions: ChatActions, stale: Conversation) -> None:
    with pytest.warns(match="no longer there"):
        actions.edit(SimpleNamespace(index=9, value="other"), A)
    assert len(stale.turns) == 3


def test_stopping_what_waits_gives_the_message_back(actions: ChatActions) -> None:
    for tab, text in ((A, "the first"), (B, "the second")):
        actions.new(tab)
        actions.send({"text": text, "files": []}, tab)
    actions.stop(B)
    *_, shown = actions.stream(B)
    assert shown == []
    shown, place, _ = actions.rest(B)
    assert (shown, place["said"], place["busy"]) == ([], "the second", False)


def test_a_failure_gives_the_message_back_and_its_toast_is_text(actions: ChatActions, over: threading.Event) -> None:
    actions.new(A)
    actions.send({"text": "hello", "files": []}, A)
    over.set()
    list(actions.stream(A))  # until it ends
    with pytest.warns(match="&lt;b&gt;engine&lt;/b&gt;"):
        shown, place, _ = actions.rest(A)
    assert (shown, place["said"]) == ([], "hello")
