"""Splits what a model thinks aloud from what it answers, also while it streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Part = Literal["reasoning", "answer"]

# How models mark reasoning: the opening and the closing text. Longer variants of a beginning come first.
TAGS: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that belongs to one part."""

    part: Part
    text: str


@dataclass(frozen=True, slots=True)
class Split:
    """A whole answer, split. `closed` is false where the reasoning never ended."""

    reasoning: str
    answer: str
    closed: bool = True


class ReasoningSplitter:
    """Reads an answer as it grows and tells which part each new text belongs to.

    Reasoning counts only at the start of an answer, so that a tag quoted later stays text. `opened` is the
    tag that the prompt itself has opened (see `opened_by`), "" if none. White space around the tags is
    dropped.
    """

    def __init__(self, opened: str = "") -> None:
        self._close = dict(TAGS)[opened] if opened else ""
        self._state: Literal["start", "reasoning", "answer"] = "reasoning" if opened else "start"
        self._held = ""
        self._fresh = bool(opened)  # nothing but white space was given of the current part

    @property
    def part(self) -> Part:
        """The part that the next text most likely belongs to."""
        return "reasoning" if self._state == "reasoning" else "answer"

    @property
    def closed(self) -> bool:
        return self._state != "reasoning"

    def feed(self, text: str) -> list[Piece]:
        """Returns the text that certainly belongs to a part; a possible tag is held back."""
        self._held += text
        pieces: list[Piece] = []
        if self._state == "start":
            self._start()
        if self._state == "reasoning":
            pieces += self._reasoning()
        if self._state == "answer":
            pieces += self._answer()
        return pieces

    def flush(self) -> list[Piece]:
        """The answer has ended: what was held back."""
        held, self._held = self._held, ""
        if not held or (self._fresh and not held.strip()):
            return []
        return [Piece(self.part, held.lstrip() if self._fresh else held)]

    def _start(self) -> None:
        text = self._held.lstrip()
        for opening, closing in TAGS:
            if text.startswith(opening):
                self._held = text[len(opening) :]
                self._close, self._state, self._fresh = closing, "reasoning", True
                return
        if text and not any(opening.startswith(text) for opening, _ in TAGS):
            self._state = "answer"

    def _reasoning(self) -> Iterator[Piece]:
        if self._fresh:
            self._held = self._held.lstrip()
        before, tag, after = self._held.partition(self._close)
        if tag:
            self._held, self._state = after, "answer"
            if before.rstrip():
                yield Piece("reasoning", before.rstrip())
            self._fresh = True
            return
        # White space is held back too: it is dropped if the closing tag follows it.
        keep = begins(before, self._close)
        sure = before[: len(before) - keep].rstrip()
        if sure:
            self._held, self._fresh = before[len(sure) :], False
            yield Piece("reasoning", sure)

    def _answer(self) -> Iterator[Piece]:
        text = self._held.lstrip() if self._fresh else self._held
        self._held = ""
        if text:
            self._fresh = False
            yield Piece("answer", text)


def begins(text: str, tag: str) -> int:
    """Length of the longest end of `text` that is a beginning of `tag`, shorter than the tag."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0


def split(text: str, opened: str = "") -> Split:
    """A finished answer, split."""
    splitter = ReasoningSplitter(opened)
    pieces = splitter.feed(text) + splitter.flush()
    parts = {part: "".join(piece.text for piece in pieces if piece.part == part) for part in ("reasoning", "answer")}
    return Split(parts["reasoning"], parts["answer"], splitter.closed)


def opened_by(prompt: str) -> str:
    """The tag that a rendered prompt leaves open at its end ("<think>\\n"), "" if none."""
    end = prompt.rstrip()
    return next((opening for opening, _ in TAGS if end.endswith(opening)), "")
