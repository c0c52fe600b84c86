"""The public face on tiny models: load, stream, generate; failed and refused drafts; one answer at a time."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nsd_local
from nsd_local import Law, Message, Settings
from nsd_local.decoding.events import Finished, Notice, Step
from nsd_local.errors import Cancelled, ModelError, NsdError, PairError, UsageError
from tests import tiny
from tests.tiny import Tiny

SHORT = Settings(law=Law(temperature=1.0), max_tokens=24, seed=3, draft_tokens=4)
README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def pair(tiny_target, tiny_draft):
    with nsd_local.load(tiny_target, tiny_draft, ctx=1024, threads=1) as engine:
        yield engine


def test_stream_and_generate_agree(pair):
    events = list(pair.stream("Hello", SHORT))
    assert isinstance(events[-1], Finished)
    text = "".join(event.text for event in events if isinstance(event, Step | Finished))
    assert text == events[-1].result.text == pair.generate("Hello", SHORT).text


def test_a_text_is_one_message_of_the_user(pair):
    assert pair.tokens("Hello") == pair.tokens([Message("user", "Hello")])
    assert pair.tokens("Hello", system="Be brief.") == pair.tokens(
        [Message("system", "Be brief."), Message("user", "Hello")]
    )
    assert pair.tokens("Hello", raw=True) == pair.target.tokenize("Hello", special=True, add_bos=True)
    assert pair.tokens([1, 2, 3]) == [1, 2, 3]


def test_nothing_of_a_prompt_is_dropped_silently(pair):
    assert pair.tokens(np.array([1, 2])) == [1, 2]
    for wrong in ([1, 2.5], ["a"], [True], [-1], [10**9], b"abc", None, 5, [Message("user", "Hello"), 5]):
        with pytest.raises(UsageError):
            pair.tokens(wrong)
        with pytest.raises(UsageError):
            pair.generate(wrong)


def test_what_is_loaded_is_described(pair):
    facts = pair.describe()
    for role in ("target", "draft"):
        assert Path(facts[role]["path"]).is_file()
        assert "taken back" in facts[role]["memory"]
        assert "(" in facts[role]["choices"]["ctx"]  # with its reason


@pytest.mark.parametrize("broken", ["cut", "empty", "text"])
def test_a_draft_that_cannot_be_loaded_is_one_visible_line(tiny_target, tiny_draft, tmp_path, broken):
    draft = tmp_path / "draft.gguf"
    whole = tiny_draft.read_bytes()
    draft.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "text": b"not a model"}[broken])
    with nsd_local.load(tiny_target, draft, ctx=512) as engine:
        events = list(engine.stream("Hello", SHORT))
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert notices[0].startswith("drafting is off: the draft failed to load")
    assert events[-1].result.text
    assert not events[-1].result.active


def test_a_draft_that_does_not_fit_is_refused_at_load(tiny_target, tmp_path):
    other = tiny.write(tmp_path / "other.gguf", Tiny(seed=1, add_bos=True))
    with pytest.raises(PairError, match="add_bos"):
        nsd_local.load(tiny_target, other, ctx=512)


def test_a_draft_with_fewer_tokens_serves(tmp_path):
    """As Qwen2.5 does: 151,936 tokens in the small models, 152,064 in the large."""
    target = tiny.write(tmp_path / "large.gguf", Tiny(seed=1, n_vocab=448))
    draft = tiny.write(tmp_path / "small.gguf", Tiny(seed=1, n_vocab=320))
    with nsd_local.load(target, draft, ctx=512) as engine:
        only_target = tuple((token, -100.0) for token in range(320))
        result = engine.generate("Hello", replace(SHORT, logit_bias=only_target))
        assert all(token.id >= 320 for round_ in result.rounds for token in round_.tokens)
        assert engine.generate("Hello", SHORT).active


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(ModelError, match=re.escape("nowhere.gguf")):
        nsd_local.load(tmp_path / "nowhere.gguf")


def test_a_path_of_any_letters_and_the_home_sign(tiny_target, tmp_path, monkeypatch):
    folder = tmp_path / "Ünïcode mit Leerzeichen 模型"
    folder.mkdir()
    (folder / "modèle.gguf").write_bytes(tiny_target.read_bytes())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    with nsd_local.load(f"~/{folder.name}/modèle.gguf", "none", ctx=512) as engine:
        assert engine.generate("Hello", SHORT).text


def test_a_second_answer_in_the_same_thread_is_refused_with_a_reason(pair):
    first = pair.stream("Hello", SHORT)
    next(first)
    with pytest.raises(UsageError, match="still under way"):
        next(pair.stream("Hello", SHORT))
    first.close()
    assert pair.generate("Hello", SHORT).text


def test_answers_in_several_threads_take_turns_and_are_right(pair):
    prompts = [f"Prompt number {i}" for i in range(4)]
    expected = [pair.generate(prompt, SHORT).text for prompt in prompts]
    found: dict[str, str] = {}

    def ask(prompt: str) -> None:
        found[prompt] = pair.generate(prompt, SHORT).text

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[prompt] for prompt in prompts] == expected


def test_no_draft_lookup_and_both(tiny_target, tiny_draft):
    for draft, active in (("none", False), ("ngram", True)):
        with nsd_local.load(tiny_target, draft, ctx=512) as engine:
            result = engine.generate(
                "abc abc abc abc abc abc", replace(SHORT, law=Law(temperature=0.0), max_tokens=200)
            )
            assert result.active == active


def test_an_answer_moved_to_another_thread_is_still_noticed(pair):
    stream = pair.stream("Hello", SHORT)
    next(stream)
    found: list[BaseException] = []

    def go_on() -> None:
        next(stream)
        try:
            pair.generate("Hello", SHORT)
        except UsageError as error:
            found.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert len(found) == 1
    stream.close()


def test_closing_in_the_middle_of_an_answer_of_another_thread(tiny_target, tiny_draft):
    for _ in range(5):
        engine = nsd_local.load(tiny_target, tiny_draft, ctx=2048, threads=1)
        started, ended = threading.Event(), []

        def answer(engine=engine, started=started, ended=ended) -> None:
            try:
                for _ in engine.stream("Hello", replace(SHORT, max_tokens=1500)):
                    started.set()
            except NsdError as error:
                ended.append(error)

        thread = threading.Thread(target=answer)
        thread.start()
        started.wait(timeout=60)
        engine.close()
        thread.join(timeout=60)
        assert not thread.is_alive()
        assert len(ended) <= 1


def test_a_session_is_neither_saved_nor_restored_in_the_middle_of_an_answer(pair, tmp_path):
    pair.generate("Hello", SHORT)
    pair.save(tmp_path / "whole.nsd")
    stream = pair.stream("Hello", SHORT)
    next(stream)
    for change in (pair.save, pair.restore):
        with pytest.raises(UsageError, match="under way"):
            change(tmp_path / "whole.nsd")
    assert isinstance(list(stream)[-1], Finished)


@pytest.mark.parametrize("act", ["save", "restore"])
def test_closing_waits_for_a_session_that_is_being_written_or_read(tiny_target, tmp_path, monkeypatch, act):
    engine, freed = nsd_local.load(tiny_target, "none", ctx=512, threads=1), []
    closer = threading.Thread(target=engine.close)

    def slow(*_args):
        closer.start()
        closer.join(0.2)
        freed.append(not closer.is_alive())

    monkeypatch.setattr(f"nsd_local.api.{act}_session", slow)
    getattr(engine, act)(tmp_path / "chat.nsd")
    closer.join()
    assert freed == [False]


def test_a_session_without_a_draft_is_restored_without_measuring(tiny_target, tmp_path, monkeypatch):
    monkeypatch.setattr("nsd_local.loading.calibrated", lambda *_, **__: pytest.fail("measured"))
    with nsd_local.load(tiny_target, "none", ctx=512, threads=1) as engine:
        engine.generate("Hello", SHORT)
        engine.save(tmp_path / "chat.nsd")
        engine.restore(tmp_path / "chat.nsd")


def test_a_stop_is_heard_while_the_pair_is_measured(tiny_target, tiny_draft, monkeypatch):
    """What was not measured then is measured in the next request."""
    stopped = []

    def measured(_target, _draft, *, say, cancelled):
        stopped.append(cancelled())
        if cancelled():
            raise Cancelled("Stopped")

    monkeypatch.setattr("nsd_local.loading.calibrated", measured)
    automatic = replace(SHORT, draft_tokens="auto")
    with nsd_local.load(tiny_target, tiny_draft, ctx=512, threads=1) as engine:
        result = engine.generate("Hello", automatic, cancelled=lambda: True)
        assert (result.finish_reason, result.rounds) == ("cancelled", ())
        for _ in range(2):
            assert engine.generate("Hello", automatic).rounds
    assert stopped == [True, False]


@pytest.mark.parametrize("seed", range(12))
def test_the_texts_of_the_tokens_join_to_the_answer(pair, seed):
    """Random models end in the middle of a character more often than not."""
    result = pair.generate("Hello", replace(SHORT, max_tokens=5, seed=seed, stop=("e",)))
    assert "".join(token.text for round_ in result.rounds for token in round_.tokens) == result.text
