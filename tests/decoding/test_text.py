"""Text assembly against an implementation that sees the whole byte string at once."""

from __future__ import annotations

import random

import pytest

from nsd_local.decoding.text import TextAssembler

SNIPPETS = (
    "a",
    "b",
    "ab",
    "\n",
    " " * 64,
    "é",
    "日本",
    "👩‍👩‍👧",
    "</s>",
    "STOP",
    "\ufffd",
    "\t",
    "<|im_end|>",
)
STOPS = ("ab", "aab", "ba", "STOP", "本", "\n\n", "👩", "é日", "<|im_end|>", "a" * 5)


def naive(data: bytes, stop: tuple[str, ...]) -> tuple[str, str | None, int]:
    """Looks at every end position in turn; returns the text, the stop string, and the bytes before it."""
    for end in range(len(data) + 1):
        ended = [text for text in stop if data[:end].endswith(text.encode())]
        if ended:
            longest = max(ended, key=lambda text: len(text.encode()))
            start = end - len(longest.encode())
            return data[:start].decode("utf-8", "replace"), longest, start
    return data.decode("utf-8", "replace"), None, len(data)


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """Random pieces of 0 to 5 bytes."""
    pieces, at = [], 0
    while at < len(data):
        size = rng.randint(0, 5)
        pieces.append(data[at : at + size])
        at += size
    return pieces


def random_bytes(rng: random.Random) -> bytes:
    data = "".join(rng.choices(SNIPPETS, k=rng.randint(0, 12))).encode()
    if rng.random() < 0.4:  # damage it
        at = rng.randint(0, len(data))
        data = data[:at] + rng.randbytes(rng.randint(1, 3)) + data[at + rng.randint(0, 2) :]
    return data


@pytest.mark.parametrize("seed", range(20))
def test_equals_naive_for_any_cut(seed: int) -> None:
    rng = random.Random(seed)
    stopped = 0
    for _ in range(300):
        data, stop = random_bytes(rng), tuple(rng.sample(STOPS, rng.randint(0, 3)))
        text, found, size = naive(data, stop)
        pieces = cut(data, rng)
        assembler = TextAssembler(stop)
        given = ""
        for piece in pieces:
            given += assembler.feed(piece)
            assert text.startswith(given), (pieces, stop)  # nothing given out is ever taken back
        given += assembler.flush()
        assert (given, assembler.stopped) == (text, found), (pieces, stop)
        assert assembler.text == text
        starts = [sum(map(len, pieces[:i])) for i in range(len(pieces))]
        kept = sum(start < size for start in starts) if found is not None else len(pieces)
        assert assembler.delivered == kept == len(assembler.texts), (pieces, stop)
        if pieces:
            assert "".join(assembler.texts) == text, (pieces, stop)
        stopped += found is not None
    assert stopped > 30


def test_holds_back_no_more_than_needed() -> None:
    """Whatever can no longer become part of a stop string or of a character is given out at once."""
    rng = random.Random(7)
    for _ in range(500):
        data, stop = random_bytes(rng), tuple(rng.sample(STOPS, 2))
        assembler, fed = TextAssembler(stop), b""
        for piece in cut(data, rng):
            assembler.feed(piece)
            fed += piece
            if assembler.stopped is not None:
                break
            possible = max(
                (n for text in stop for n in range(len(text.encode())) if fed.endswith(text.encode()[:n])),
                default=0,
            )
            free = fed[: len(fed) - possible].decode("utf-8", "replace").rstrip("\ufffd")
            assert assembler.text.rstrip("\ufffd") == free


@pytest.mark.parametrize("width", [64, 128])
def test_wide_indents_are_byte_exact(width: int) -> None:
    line = " " * width + "return x\n"
    assembler = TextAssembler()
    assert assembler.feed(line.encode()) == line
    parts = TextAssembler()
    given = "".join(parts.feed(piece) for piece in (b" " * width, b"return", b" x\n"))
    assert given == line
    assert parts.texts == [" " * width, "return", " x\n"]


def test_character_over_four_tokens() -> None:
    assembler = TextAssembler()
    raw = "👋".encode()
    assert [assembler.feed(raw[i : i + 1]) for i in range(4)] == ["", "", "", "👋"]
    assert assembler.texts == ["", "", "", "👋"]
    assert assembler.flush() == ""


def test_incomplete_character_at_the_end() -> None:
    assembler = TextAssembler()
    assert assembler.feed(b"ok\xf0\x9f") == "ok"
    assert assembler.flush() == "\ufffd"
    assert assembler.flush() == ""
    assert assembler.texts == ["ok\ufffd"]


def test_incomplete_character_before_a_stop_string() -> None:
    assembler = TextAssembler(["END"])
    assert assembler.feed(b"\xe2\x82") == ""
    assert assembler.feed(b"END") == "\ufffd"
    assert assembler.delivered == 1
    assert assembler.texts == ["\ufffd"]


def test_stop_string_over_several_tokens() -> None:
    assembler = TextAssembler(["</answer>"])
    given, last = list[str](), list[str]()
    for piece in (b"42", b" </", b"answer", b"> and more", b"ignored"):
        given.append(assembler.feed(piece))
        last.append(assembler.last)
    assert given == ["42", " ", "", "", ""]
    assert last == ["42", " </", "answer", "", ""]  # before the stop string is complete, it may still be text
    assert assembler.stopped == "</answer>"
    assert assembler.delivered == 2  # " </" stands partly before the stop string
    assert assembler.texts == ["42", " "]


def test_false_alarm_is_given_out() -> None:
    assembler = TextAssembler(["</answer>"])
    assert [assembler.feed(piece) for piece in (b"a</", b"ans", b"werk")] == ["a", "", "</answerk"]
    assert assembler.flush() == ""


def test_stop_string_first_delivers_nothing() -> None:
    assembler = TextAssembler(["\n"])
    assert assembler.feed(b"\nx") == ""
    assert (assembler.delivered, assembler.texts, assembler.text) == (0, [], "")


def test_possible_beginning_of_a_stop_string_comes_with_flush() -> None:
    assembler = TextAssembler(["<|im_end|>"])
    assert assembler.feed(b"a <|im") == "a "
    assert assembler.flush() == "<|im"
    assert assembler.feed(b"_end|>") == ""
    assert assembler.text == "a <|im"
