"""Known tokens are kept wherever the template leaves their text alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsd_local.chat.message import Message
from nsd_local.chat.template import Prompt, Template
from nsd_local.chat.transcript import Transcript
from nsd_local.engine.model import Model
from tests import tiny
from tests.tiny import CHATML, Tiny

TRIMS = CHATML.replace("message['content']", "message['content'] | trim")
FIRST, NEXT = Message("user", "first"), Message("user", "next")


@pytest.fixture(scope="module")
def model(tiny_target: Path) -> Iterator[Model]:
    with Model.load(tiny_target) as model:
        yield model


@pytest.fixture(scope="module")
def trimming(tiny_folder: Path) -> Iterator[Model]:
    with Model.load(tiny.write(tiny_folder / "trims.gguf", Tiny(template=TRIMS))) as model:
        yield model


def text_of(model: Model, ids: list[int]) -> str:
    return b"".join(map(model.piece, ids)).decode("utf-8", "replace")


def next_prompt(model: Model, ids: list[int], answer: str | None = None) -> tuple[list[int], list[int], str]:
    """The tokens of the first prompt, of the one that follows the answer, and the text of the latter."""
    template = Template(model)
    transcript = Transcript(model, template.fence)
    first = template.render([FIRST])
    prompt = Prompt(first, transcript.encode(first), "")
    said = text_of(model, ids) if answer is None else answer
    transcript.record(prompt, said, ids)
    assert transcript.encode(first) == prompt.tokens  # a retry
    text = template.render([FIRST, Message("assistant", said), NEXT])
    return prompt.tokens, transcript.encode(text), template.fence.reveal(text)


def test_any_generated_tokens_are_kept(model: Model) -> None:
    """Also control tokens, bytes that are no text, tokens without text, and what the tokenizer would cut otherwise."""
    rng, tail = random.Random(3), "<|im_end|>\n<|im_start|>user\nnext<|im_end|>\n<|im_start|>assistant\n"
    for _ in range(200):
        ids = [rng.randrange(256), *(rng.randrange(model.n_vocab) for _ in range(rng.randint(0, 30)))]
        first, second, _ = next_prompt(model, ids)
        assert second == [*first, *ids, *model.tokenize(tail, special=True, add_bos=False)]


@pytest.mark.parametrize("end", ["\n", " ", "  \n\n", " " * 64])
def test_trimmed_answer(trimming: Model, end: str) -> None:
    ids = trimming.tokenize("hello the hat", special=False, add_bos=False)
    white = trimming.tokenize(end, special=False, add_bos=False)
    first, second, text = next_prompt(trimming, [*ids, *white])
    assert second[: len(first) + len(ids) + 1] == [*first, *ids, tiny.special("<|im_end|>")]
    assert text_of(trimming, second) == text


def test_answer_trimmed_at_its_start_is_read_again(trimming: Model) -> None:
    ids = trimming.tokenize("  hello", special=False, add_bos=False)
    first, second, text = next_prompt(trimming, ids)
    assert second[: len(first)] == first
    assert second[len(first)] != ids[0]
    assert text_of(trimming, second) == text


def test_stop_string_inside_a_token(model: Model) -> None:
    """The last token says more than was delivered: it is not kept, and nothing of the stop string remains."""
    ids = model.tokenize("hello the", special=False, add_bos=False)
    assert text_of(model, ids[-1:]) == " the"
    first, second, text = next_prompt(model, ids, answer="hello t")
    assert second[: len(first) + len(ids) - 1] == [*first, *ids[:-1]]
    assert text_of(model, second) == text
    assert "hello t<|im_end|>" in text


def test_edited_answer(model: Model) -> None:
    """It is tokenized anew; where something was only added to it, the tokens in memory are kept."""
    ids = [*b"the hat"]  # letter by letter, which the tokenizer would never do
    ids = [model.tokenize(chr(byte), special=False, add_bos=False)[0] for byte in ids]
    template = Template(model)
    transcript = Transcript(model, template.fence)
    first = template.prompt([FIRST])
    transcript.record(first, "the hat", ids)
    for edited, kept in (("the house", False), ("a", False), ("the hat and", True)):
        text = template.render([FIRST, Message("assistant", edited), NEXT])
        tokens = transcript.encode(text)
        assert text_of(model, tokens) == text
        assert (tokens[: len(first.tokens) + len(ids)] == [*first.tokens, *ids]) == kept
        assert (tokens == template.fence.encode(text)) != kept


def test_marks_of_dropped_turns_are_forgotten(model: Model) -> None:
    template = Template(model)
    transcript = Transcript(model, template.fence)
    for opening in ("one", "two"):  # another conversation begins
        text = template.render([Message("user", opening)])
        prompt = Prompt(text, transcript.encode(text), "")
        assert prompt.tokens == template.fence.encode(text)
        transcript.record(prompt, "\x00\x01", [0, 1])
    text = template.render([Message("user", "one"), Message("assistant", "\x00\x01"), NEXT])
    assert text_of(model, transcript.encode(text)) == text


def test_long_conversations_stay_linear(model: Model) -> None:
    template = Template(model)
    transcript = Transcript(model, template.fence)
    messages: list[Message] = []
    for i in range(50):
        messages.append(Message("user", f"question {i}"))
        text = template.render(messages)
        prompt = Prompt(text, transcript.encode(text), "")
        transcript.record(prompt, "the hat", ids := [300 - i, *model.tokenize("hat", special=False, add_bos=False)])
        messages.append(Message("assistant", "the hat"))
        assert len(transcript._marks) <= 3 * (i + 1)
        assert len(ids) > 1
