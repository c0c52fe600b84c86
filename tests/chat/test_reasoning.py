"""Reasoning and answer, for every way of cutting the text."""

from __future__ import annotations

import random

import pytest

from nsd_local.chat.reasoning import TAGS, Piece, ReasoningSplitter, Split, opened_by, split

CASES = [
    ("Hello", "", Split("", "Hello")),
    ("<think>a b</think>c", "", Split("a b", "c")),
    ("\n<think>\na\n\nb\n</think>\n\nc\n", "", Split("a\n\nb", "c\n")),
    ("<think>\n\n</think>\n\nc", "", Split("", "c")),
    ("a </think> b", "<think>", Split("a", "b")),
    ("never closed <", "<think>", Split("never closed <", "", closed=False)),
    ("<think>no end", "", Split("no end", "", closed=False)),
    ("Write <think>x</think> here", "", Split("", "Write <think>x</think> here")),  # quoted, not at the start
    ("<thin", "", Split("", "<thin")),
    ("<thin ice", "", Split("", "<thin ice")),
    ("<thinking>a</think>b</thinking>c", "", Split("a</think>b", "c")),
    ("[THINK]a[/THINK]c", "", Split("a", "c")),
    ("  indented answer", "", Split("", "  indented answer")),
    ("", "", Split("", "")),
    ("   ", "", Split("", "   ")),
    ("日本 </think>\n  👩‍👧", "<think>", Split("日本", "👩‍👧")),
]


@pytest.mark.parametrize(("text", "opened", "expected"), CASES)
def test_whole(text: str, opened: str, expected: Split) -> None:
    assert split(text, opened) == expected


@pytest.mark.parametrize(("text", "opened", "expected"), CASES)
def test_any_cut(text: str, opened: str, expected: Split) -> None:
    rng = random.Random(text)
    for _ in range(50):
        splitter, pieces, at = ReasoningSplitter(opened), list[Piece](), 0
        while at < len(text):
            size = rng.randint(1, 4)
            pieces += splitter.feed(text[at : at + size])
            at += size
        pieces += splitter.flush()
        assert all(piece.text for piece in pieces)
        parts = [piece.part for piece in pieces]
        assert parts == sorted(parts, reverse=True)  # reasoning comes first, and never again
        reasoning = "".join(piece.text for piece in pieces if piece.part == "reasoning")
        answer = "".join(piece.text for piece in pieces if piece.part == "answer")
        assert Split(reasoning, answer, splitter.closed) == expected


@pytest.mark.parametrize(("opening", "closing"), TAGS)
def test_every_tag(opening: str, closing: str) -> None:
    assert split(f"{opening}why{closing}what") == Split("why", "what")
    assert split(f"why{closing}what", opening) == Split("why", "what")
    assert opened_by(f"<|im_start|>assistant\n{opening}\n") == opening


def test_prompt_that_opens_nothing() -> None:
    assert opened_by("<|im_start|>assistant\n") == ""
    assert opened_by("<|im_start|>assistant\n<think>\n\n</think>\n\n") == ""


def test_answer_streams_without_delay() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed("Hi") == [Piece("answer", "Hi")]
    assert splitter.feed(" there <think>") == [Piece("answer", " there <think>")]
