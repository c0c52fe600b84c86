"""Conversations on disk: whole or not at all, and never lost."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path

import pytest

from nsd_local.api import Engine, load
from nsd_local.chat.archive import ArchiveError, pack, pack_settings, unpack, unpack_settings
from nsd_local.chat.conversation import Conversation
from nsd_local.chat.export import file_name, to_json, to_markdown
from nsd_local.chat.store import Store, StoreError, conversations_folder, write_atomically
from nsd_local.chat.turn import Answer, Turn
from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.sampling.law import Law
from nsd_local.sampling.penalties import Penalties
from nsd_local.verification.rule import Exact, Nucleus
from nsd_local.verification.rules import RULES

ODD = "日本 👩‍👧 \u2028 <script>alert(1)</script>\n\n```py\n" + " " * 128 + "x\n```\x00\x1b[31m"


@pytest.fixture(scope="module")
def engine(tiny_target: Path, tiny_draft: Path) -> Iterator[Engine]:
    with load(tiny_target, tiny_draft, ctx=1024) as engine:
        yield engine


@pytest.fixture(scope="module")
def answered(engine: Engine) -> Conversation:
    """Two answers with records, one of them metered at no position."""
    settings = Settings(law=Law(temperature=1.0), seed=1, max_tokens=20, rule=Nucleus(0.8), draft_tokens=3)
    conversation = Conversation("Be brief.", settings, ctx_shift=True)
    list(conversation.ask(engine, ODD))
    conversation.settings = replace(settings, meter=False, rule=Exact(), stop=("\n\n",))
    list(conversation.ask(engine, "again"))
    return conversation


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "ärger 日本" / "conversations")


def same(a: object, b: object, where: str = "") -> None:
    """Equal up to the digits that are kept; what was not measured is None or NaN."""
    if isinstance(b, float):
        unknown = math.isnan(b)
        assert (a is None or math.isnan(float(str(a)))) if unknown else math.isclose(float(str(a)), b, rel_tol=1e-5), (
            where
        )
    elif isinstance(b, tuple | list):
        assert isinstance(a, type(b)), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{where}[{i}]")
    elif is_dataclass(b):
        for name in b.__dataclass_fields__:
            same(getattr(a, name), getattr(b, name), f"{where}.{name}")
    else:
        assert a == b, where


def test_round_trip(store: Store, answered: Conversation) -> None:
    path = store.save(answered)
    again = Store(store.folder).load(answered.id)
    same(again.turns, answered.turns)
    for name in ("id", "title", "named", "created", "updated", "system", "settings", "ctx_shift", "messages"):
        assert getattr(again, name) == getattr(answered, name), name
    assert any(
        math.isnan(value) for turn in again.turns if turn.answer for r in turn.answer.rounds for value in r.excess
    )
    json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)  # no NaN or Infinity in the file
    assert json.dumps(pack(again), ensure_ascii=False, separators=(",", ":")) == path.read_text("utf-8")


def test_loaded_conversation_goes_on(store: Store, answered: Conversation, engine: Engine) -> None:
    store.save(answered)
    again = store.load(answered.id)
    before = len(again.turns)
    list(again.ask(engine, "more"))
    assert len(again.turns) == before + 1
    assert again.turns[-1].answer is not None


def test_the_one_used_last_comes_first_however_short_the_answers(store: Store) -> None:
    made = [Conversation() for _ in range(20)]
    for conversation in made:
        conversation.title = conversation.id
        store.save(conversation)
    assert [entry.id for entry in store.list()] == [conversation.id for conversation in reversed(made)]


def test_list_rename_delete(store: Store) -> None:
    assert store.list() == []
    first, second = Conversation(title="First"), Conversation()
    second.turns = [Turn("what is 日本 " + "long " * 20)]
    first.updated, second.updated = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
    store.save(first)
    store.save(second)
    assert [(entry.id, entry.turns) for entry in store.list()] == [(second.id, 1), (first.id, 0)]
    assert store.list()[0].title == "what is 日本 long long long long long long long…"
    store.rename(first.id, "  Other\nname ")
    assert store.list()[0].title == "Other name"  # used last, so first in the list
    store.delete(first.id)
    store.delete(first.id)
    assert [entry.id for entry in store.list()] == [second.id]
    with pytest.raises(StoreError, match="no such conversation"):
        store.load(first.id)
    assert store.problems == []


def test_find(store: Store) -> None:
    for title in ("Alpha", "Alpha two", "Beta"):
        store.save(Conversation(title=title))
    entries = {entry.title: entry for entry in store.list()}
    assert store.find("alpha") == entries["Alpha"]
    assert store.find("be") == entries["Beta"]
    assert store.find(entries["Beta"].id[:12]) == entries["Beta"]
    for name in ("al", "gamma", " "):
        with pytest.raises(UsageError):
            store.find(name)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"format": 1}',
        "cut",
        "renamed",
        "turns",
        "token_counts",
    ],
)
def test_damaged_file_is_set_aside(store: Store, answered: Conversation, damage: bytes | str) -> None:
    """When it is listed, or, where only its records are damaged, when it is loaded."""
    path = store.save(answered)
    good = path.read_bytes()
    if damage == "cut":
        bad = good[: len(good) // 2]
    elif damage == "renamed":
        bad = good.replace(answered.id.encode(), b"0" * 32)
    elif isinstance(damage, str):
        bad = good.replace(f'"{damage}":['.encode(), f'"{damage}":[7,'.encode(), 1)
    else:
        bad = damage
    assert bad != good
    path.write_bytes(bad)
    other = store.save(Conversation(title="other"))
    reader = Store(store.folder)
    titles = {entry.title for entry in reader.list()}
    if damage == "token_counts":
        assert len(titles) == 2
        with pytest.raises(StoreError, match="set aside"):
            reader.load(answered.id)
        titles = {entry.title for entry in reader.list()}
    assert titles == {"other"}
    assert len(reader.problems) == 1
    aside = path.with_suffix(".damaged")
    assert aside.read_bytes() == bad
    assert str(aside) in reader.problems[0]
    store.save(answered)  # the place is free again, and what was set aside stays
    path.write_bytes(bad)
    with pytest.raises(StoreError, match="set aside"):
        Store(store.folder).load(answered.id)
    assert path.with_suffix(".damaged1").read_bytes() == aside.read_bytes() == bad
    assert other.is_file()


def test_file_of_a_newer_version_is_left_alone(store: Store, answered: Conversation) -> None:
    path = store.save(answered)
    path.write_text(path.read_text("utf-8").replace('"format":1', '"format":2', 1), "utf-8")
    reader = Store(store.folder)
    assert reader.list() == []
    assert "format 2" in reader.problems[0]
    assert path.is_file()
    with pytest.raises(StoreError, match="format 2"):
        reader.load(answered.id)


@pytest.mark.parametrize("id_", ["", "../x", "a" * 31, "A" * 32, "a" * 31 + "/", "." * 32, "a" * 33])
def test_ids_cannot_lead_elsewhere(store: Store, id_: str) -> None:
    for use in (store.load, store.delete):
        with pytest.raises(UsageError, match="not the id"):
            use(id_)


def test_failed_write_keeps_the_old_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = Conversation(title="old")
    path = store.save(conversation)
    conversation.title = "new"

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.save(conversation)
    assert store.load(conversation.id).title == "old"
    assert list(path.parent.iterdir()) == [path]


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Store(tmp_path / "file" / "conversations").save(Conversation())
    assert Store(tmp_path / "file" / "conversations").list() == []


def test_line_ends_survive(tmp_path: Path) -> None:
    write_atomically(tmp_path / "x", "a\r\nb\n")
    assert (tmp_path / "x").read_bytes() == b"a\r\nb\n"


def test_home_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NSD_LOCAL_HOME", str(tmp_path / "home"))
    assert conversations_folder() == tmp_path / "home" / "conversations"
    monkeypatch.delenv("NSD_LOCAL_HOME")
    assert conversations_folder().name == "conversations"


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(rule=Exact(), draft_tokens="auto", stop=("a", "日本"), seed=7, max_tokens=9),
        *(Settings(rule=kind()) for kind in RULES.values()),
        Settings(block=False),
        Settings(rule=Nucleus(0.5, 0.25, 0.1), budget=2.5, logit_bias=((3, -1.5),), penalties=Penalties(repeat=1.2)),
    ],
)
def test_settings_round_trip(settings: Settings) -> None:
    assert unpack_settings(json.loads(json.dumps(pack_settings(settings)))) == settings


def test_settings_of_before_rounds_were_judged_as_a_whole_stay_what_they_were() -> None:
    old = pack_settings(Settings(rule=Nucleus(0.8)))
    del old["block"]
    assert unpack_settings(old) == Settings(rule=Nucleus(0.8), block=False)


def test_unknown_setting_is_an_error(answered: Conversation) -> None:
    value = pack(answered)
    value["settings"]["temprature"] = 1
    with pytest.raises(ArchiveError, match="temprature"):
        unpack(value)


def test_markdown() -> None:
    conversation = Conversation("Be brief.", title="A # title\nof mine")
    conversation.turns = [
        Turn("hi", Answer("<think>why</think>**because**")),
        Turn("a\n\n```py\n    x\n```", Answer("cut off", opened="<think>")),
        Turn("unanswered"),
    ]
    assert to_markdown(conversation) == (
        "# A # title of mine\n\n## System\n\nBe brief.\n\n## User\n\nhi\n\n## Assistant\n\n"
        "<details><summary>Reasoning</summary>\n\nwhy\n\n</details>\n\n**because**\n\n"
        "## User\n\na\n\n```py\n    x\n```\n\n## Assistant\n\n"
        "<details><summary>Reasoning</summary>\n\ncut off\n\n</details>\n\n## User\n\nunanswered\n"
    )


def test_json_export(answered: Conversation) -> None:
    document = json.loads(to_json(answered), parse_constant=pytest.fail)
    messages = document["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert messages[1]["content"] == ODD
    for message, turn in zip(messages[2::2], answered.turns, strict=True):
        assert turn.answer is not None
        assert message["content"] == turn.answer.text
        assert message["statistics"]["tokens"] == len(turn.answer.tokens)
        assert sum(message["statistics"]["kinds"].values()) == len(turn.answer.tokens)


@pytest.mark.parametrize(
    ("title", "name"),
    [("A/B: c?", "a-b-c.md"), ("日本", "日本.md"), ("../..", "conversation.md"), ("x" * 99, "x" * 60 + ".md")],
)
def test_file_name(title: str, name: str) -> None:
    assert file_name(Conversation(title=title), "md") == name
