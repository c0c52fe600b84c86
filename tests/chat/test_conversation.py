"""Conversations on tiny models: what is reused, and what every way of going on leaves behind."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from nsd_local.api import Engine, load
from nsd_local.chat.archive import pack, unpack
from nsd_local.chat.conversation import Conversation
from nsd_local.chat.message import Message
from nsd_local.chat.turn import Answer, Turn
from nsd_local.chat.window import ContextFullError
from nsd_local.decoding.events import Event, Finished, Notice, Step
from nsd_local.decoding.records import Result
from nsd_local.decoding.settings import Settings
from nsd_local.errors import DecodeError, UsageError
from nsd_local.sampling.law import Law
from tests import tiny
from tests.chat.engines import Failing, Forgetful, Watched
from tests.tiny import CHATML, Tiny

GREEDY = Settings(law=Law(temperature=0.0), max_tokens=24, draft_tokens=4)
TRIMS = CHATML.replace("message['content']", "message['content'] | trim")
Open = Callable[..., Engine]


@pytest.fixture(scope="module")
def open_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Engines of tiny pairs, one for each set of arguments."""
    folder = tmp_path_factory.mktemp("pairs")
    engines: dict[str, Engine] = {}
    with ExitStack() as opened:

        def open_engine(*, ctx: int = 4096, template: str = CHATML, stop_bias: float = 0.0, fresh: int = 0) -> Engine:
            key = f"{ctx}-{stop_bias}-{template != CHATML}-{fresh}"
            if key not in engines:
                model = Tiny(seed=1, template=template, stop_bias=stop_bias)
                target = tiny.write(folder / f"{key}.gguf", model)
                draft = tiny.write(folder / f"{key}-draft.gguf", replace(model, noise=0.02))
                engines[key] = opened.enter_context(load(target, draft, ctx=ctx))
            return engines[key]

        yield open_engine


def result_of(events: Iterator[Event]) -> Result:
    *_, last = events
    assert isinstance(last, Finished)
    return last.result


def questions(n: int) -> list[str]:
    rng = random.Random(5)
    return [" ".join(rng.choices(("the", "and", "in", "hat", "日本", "\n", "x" * 9), k=8)) for _ in range(n)]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_ten_turns_read_only_what_is_new(open_engine: Open, temperature: float) -> None:
    watched, forgetful = Watched(open_engine()), Forgetful(open_engine(fresh=1))
    settings = replace(GREEDY, law=Law(temperature=temperature), seed=3)
    reusing, reading = (Conversation("Be brief.", settings) for _ in range(2))
    known = 0
    for turn, question in enumerate(questions(10)):
        result = result_of(reusing.ask(watched, question))
        assert result.prompt_n + result.cache_n == result.prompt_tokens == len(watched.prompts[-1])
        if turn:
            # All but the last token of the answer before was evaluated when it was generated.
            assert result.cache_n >= known - 1
        answer = reusing.turns[-1].answer
        assert answer is not None
        known = len(watched.prompts[-1]) + len(answer.ids)
        again = result_of(reading.ask(forgetful, question))
        assert again.cache_n <= 1
        assert watched.prompts[-1] == forgetful.prompts[-1]
        assert result.text == again.text
    for earlier, later in zip(watched.prompts, watched.prompts[1:], strict=False):
        assert later[: len(earlier)] == earlier  # each prompt continues the one before


def test_generated_ids_are_kept(open_engine: Open) -> None:
    """Random text tokenizes otherwise than it was generated; the next prompt must hold what was generated."""
    engine = Watched(open_engine())
    conversation = Conversation(settings=replace(GREEDY, law=Law(temperature=1.5), seed=1))
    differing = 0
    for question in questions(8):
        list(conversation.ask(engine, question))
        answer = conversation.turns[-1].answer
        assert answer is not None
        differing += list(answer.ids) != engine.target.tokenize(answer.text, special=False, add_bos=False)
    list(conversation.ask(engine, "end"))
    assert differing >= 5
    at = 0
    for turn in conversation.turns[:-1]:
        assert turn.answer is not None
        ids = list(turn.answer.ids)
        at = next(i for i in range(at, len(engine.prompts[-1])) if engine.prompts[-1][i : i + len(ids)] == ids)


def test_retry_reads_one_token(open_engine: Open) -> None:
    engine = Watched(open_engine())
    conversation = Conversation(settings=GREEDY)
    list(conversation.ask(engine, "first"))
    first = result_of(conversation.ask(engine, "second"))
    again = result_of(conversation.retry(engine))
    assert engine.prompts[-1] == engine.prompts[-2]
    assert again.prompt_n == 1
    assert again.text == first.text
    assert len(conversation.turns) == 2


def test_edit_reuses_what_comes_before(open_engine: Open) -> None:
    engine = Watched(open_engine())
    conversation = Conversation(settings=GREEDY)
    for question in ("first", "second", "third"):
        list(conversation.ask(engine, question))
    conversation.edit(1, "otherwise")
    assert [turn.user for turn in conversation.turns] == ["first", "otherwise"]
    assert conversation.turns[1].answer is None
    result = result_of(conversation.retry(engine))
    assert result.cache_n >= len(engine.prompts[0])
    fresh = Conversation(settings=GREEDY)
    other = Forgetful(open_engine(fresh=1))
    for question in ("first", "otherwise"):
        expected = result_of(fresh.ask(other, question))
    assert result.text == expected.text


def test_edited_answer_is_what_the_model_reads(open_engine: Open) -> None:
    engine = Watched(open_engine())
    conversation = Conversation(settings=GREEDY)
    list(conversation.ask(engine, "first"))
    conversation.edit_answer(0, "the hat")
    list(conversation.ask(engine, "second"))
    assert engine.prompts[-1] == engine.template.tokens(
        [Message("user", "first"), Message("assistant", "the hat"), Message("user", "second")]
    )


def test_undo_and_reset(open_engine: Open) -> None:
    engine = Watched(open_engine())
    conversation = Conversation("system", GREEDY)
    for question in ("first", "second"):
        list(conversation.ask(engine, question))
    assert conversation.undo() == "second"
    again = result_of(conversation.ask(engine, "second"))
    assert again.prompt_n == 1
    assert engine.prompts[1] == engine.prompts[2]
    conversation.reset()
    assert conversation.messages == [Message("system", "system")]
    with pytest.raises(UsageError, match="nothing to undo"):
        conversation.undo()
    with pytest.raises(UsageError, match="nothing to answer again"):
        conversation.retry(engine)


@pytest.mark.parametrize("leave", ["cancel", "close"])
def test_a_stopped_answer_is_kept_and_the_next_is_right(open_engine: Open, leave: str) -> None:
    engine = Watched(open_engine(stop_bias=-30.0))
    conversation = Conversation(settings=GREEDY)
    steps = 0
    events = conversation.ask(engine, "first", cancelled=lambda: leave == "cancel" and steps >= 2)
    for event in events:
        steps += isinstance(event, Step)
        if leave == "close" and steps == 2:
            events.close()  # type: ignore[attr-defined]
            break
    answer = conversation.turns[0].answer
    assert answer is not None
    assert len(answer.rounds) == 2
    assert answer.ids
    assert (answer.result is None) == (leave == "close")
    result = result_of(conversation.ask(engine, "second"))
    assert result.cache_n >= len(engine.prompts[0]) + len(answer.ids) - 1
    other = Forgetful(open_engine(stop_bias=-30.0, fresh=1))
    assert result.text == result_of(other.stream(engine.prompts[-1], GREEDY)).text


def test_stopped_before_the_first_word(open_engine: Open) -> None:
    engine = Watched(open_engine())
    conversation = Conversation(settings=GREEDY)
    assert result_of(conversation.ask(engine, "first", cancelled=lambda: True)).finish_reason == "cancelled"
    assert [turn.answer for turn in conversation.turns] == [None]
    list(conversation.ask(engine, "second"))
    assert engine.prompts[-1] == engine.template.tokens([Message("user", "first\n\nsecond")])
    answered = conversation.turns[-1].answer
    list(conversation.retry(engine, cancelled=lambda: True))
    assert conversation.turns[-1].answer is answered  # the old answer is better than none


def test_failure_leaves_the_conversation_as_it_was(open_engine: Open) -> None:
    engine = open_engine()
    conversation = Conversation(settings=GREEDY)
    list(conversation.ask(engine, "first"))
    before, failing = list(conversation.turns), Failing(engine)
    with pytest.raises(DecodeError):
        list(conversation.ask(failing, "second"))
    assert conversation.turns == before
    with pytest.raises(DecodeError):
        list(conversation.retry(failing))
    assert conversation.turns == before
    prompt = Watched(engine)
    result = result_of(conversation.ask(prompt, "second"))
    assert result.text == result_of(Forgetful(open_engine(fresh=1)).stream(prompt.prompts[0], GREEDY)).text


def test_end_tokens_are_no_part_of_an_answer(open_engine: Open) -> None:
    """Every end-of-generation token ends the answer, and none is shown or kept, whatever the seed."""
    engine = Watched(open_engine(stop_bias=1.5))
    ended = set()
    for seed in range(40):
        conversation = Conversation(settings=Settings(law=Law(temperature=1.0), seed=seed, max_tokens=40))
        result = result_of(conversation.ask(engine, "first"))
        answer = conversation.turns[0].answer
        assert answer is not None
        assert not engine.target.eog.intersection(answer.ids)
        assert not any(text in answer.text for text in ("<|im_end|>", "<|endoftext|>"))
        last = answer.tokens[-1]
        assert (result.finish_reason == "stop") == (last.id in engine.target.eog)
        if last.id in engine.target.eog:
            ended.add(last.id)
        held, said = engine.decoder.target.tokens, [*engine.prompts[-1], *(token.id for token in answer.tokens)]
        assert held == said[: len(held)]  # nothing behind the end is in memory
    assert ended == engine.target.eog


def test_empty_message(open_engine: Open) -> None:
    conversation = Conversation(settings=GREEDY)
    for text in ("", " \n\t"):
        with pytest.raises(UsageError, match="empty"):
            conversation.ask(open_engine(), text)
    assert conversation.turns == []


def test_stop_string_in_an_answer(open_engine: Open) -> None:
    """The answer ends before the stop string; the next prompt begins with what was delivered."""
    engine = Watched(open_engine(stop_bias=-30.0))
    whole = result_of(Conversation(settings=GREEDY).ask(engine, "first")).text
    stop = whole[5:8]
    conversation = Conversation(settings=replace(GREEDY, stop=(stop,)))
    result = result_of(conversation.ask(engine, "first"))
    assert result.finish_reason == "stop_string"
    assert result.text == whole[: whole.index(stop)]
    list(conversation.ask(engine, "second"))
    said = b"".join(map(engine.target.piece, engine.prompts[-1])).decode("utf-8", "replace")
    assert f"assistant\n{result.text}<|im_end|>" in said


def test_full_context_is_an_error(open_engine: Open) -> None:
    engine = open_engine(ctx=256)
    conversation = Conversation(settings=GREEDY)
    list(conversation.ask(engine, "first"))
    before = list(conversation.turns)
    with pytest.raises(ContextFullError, match="--ctx-shift"):
        list(conversation.ask(engine, "x" * 300))
    assert conversation.turns == before
    list(conversation.ask(engine, "second"))


def test_context_shift_drops_the_oldest_turns_and_says_so(open_engine: Open) -> None:
    engine = Watched(open_engine(ctx=256, stop_bias=-30.0))
    conversation = Conversation("system prompt", GREEDY, ctx_shift=True)
    notices: list[str] = []
    for i in range(12):
        for event in conversation.ask(engine, f"question {i}"):
            if isinstance(event, Notice):
                notices.append(event.text)
        said = b"".join(map(engine.target.piece, engine.prompts[-1])).decode("utf-8", "replace")
        assert "system\nsystem prompt<|im_end|>" in said
        assert f"question {i}<|im_end|>" in said
        assert len(engine.prompts[-1]) + 24 <= 256
    shifts = [notice for notice in notices if "no longer read" in notice]
    assert 1 <= len(shifts) < 8  # not at every turn: half of the context is freed at a time
    assert 0 < conversation.dropped < 11
    assert len(conversation.turns) == 12  # nothing is lost from the conversation
    kept = next(prompt for prompt in engine.prompts if prompt == engine.prompts[-1])
    assert f"question {conversation.dropped}<|im_end|>" in b"".join(map(engine.target.piece, kept)).decode(
        "utf-8", "replace"
    )


def test_context_shift_cannot_help_a_message_that_is_too_long(open_engine: Open) -> None:
    conversation = Conversation(settings=GREEDY, ctx_shift=True)
    with pytest.raises(ContextFullError, match="last message alone"):
        list(conversation.ask(open_engine(ctx=256), "x" * 300))
    assert conversation.turns == []


def test_another_engine_goes_on_with_the_conversation(open_engine: Open) -> None:
    conversation = Conversation(settings=GREEDY)
    list(conversation.ask(open_engine(), "first"))
    other = Watched(open_engine(template=TRIMS))
    list(conversation.ask(other, "second"))
    said = b"".join(map(other.target.piece, other.prompts[-1])).decode("utf-8", "replace")
    assert said == other.template.fence.reveal(other.template.render(conversation.messages[:-1]))


def test_a_conversation_from_disk_continues_the_memory(open_engine: Open) -> None:
    """The ids of its answers are kept with it: nothing that is still in memory is read again."""
    engine = Watched(open_engine())
    conversation = Conversation("system", replace(GREEDY, law=Law(temperature=1.5), seed=1))
    for question in questions(3):
        list(conversation.ask(engine, question))
    held = len(engine.decoder.target.tokens)
    again = unpack(json.loads(json.dumps(pack(conversation))))
    expected = result_of(conversation.ask(engine, "go on"))
    engine.engine.generate(engine.prompts[-2], replace(GREEDY, max_tokens=1))  # (the memory as it was before)
    result = result_of(again.ask(engine, "go on"))
    assert engine.prompts[-1] == engine.prompts[-2]
    assert expected.cache_n == held
    assert result.text == expected.text


def test_ids_of_another_vocabulary_are_not_used(open_engine: Open) -> None:
    engine = Watched(open_engine())
    conversation = Conversation(settings=GREEDY)
    conversation.turns = [Turn("first", Answer("the hat", ids=(5, 6, 7))), Turn("second", Answer("no", ids=(10**6,)))]
    list(conversation.ask(engine, "third"))
    assert engine.prompts[-1] == engine.template.tokens(conversation.messages[:-1])


def test_titles() -> None:
    conversation = Conversation()
    assert conversation.title == "New conversation"
    conversation.turns = []
    conversation.title = "  My\n title "
    assert (conversation.title, conversation.named) == ("My title", True)
    conversation.title = ""
    assert not conversation.named


def test_half_a_character_is_refused_at_once(open_engine: Open) -> None:
    """It could never be saved again."""
    conversation = Conversation(settings=GREEDY)
    list(conversation.ask(open_engine(), "first"))
    before = pack(conversation)
    broken = "a \ud83d smile"
    for act in (
        lambda: conversation.ask(open_engine(), broken),
        lambda: conversation.edit(0, broken),
        lambda: conversation.edit_answer(0, broken),
        lambda: setattr(conversation, "title", broken),
        lambda: setattr(conversation, "system", broken),
        lambda: Conversation(broken),
    ):
        with pytest.raises(UsageError, match="half a character"):
            act()
    assert pack(conversation) == before
