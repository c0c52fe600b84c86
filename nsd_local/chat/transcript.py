"""The tokens of a conversation as the models' memories hold them."""

from __future__ import annotations

from collections.abc import Sequence

from nsd_local.chat.fence import Fence
from nsd_local.chat.template import Prompt
from nsd_local.decoding.text import TextAssembler
from nsd_local.engine.model import Model


class Transcript:
    """Makes the next turn's prompt an exact continuation of the tokens that are in memory.

    An answer's text, tokenized anew, can give other tokens than those that were generated, and then
    everything behind the first difference would have to be read again. So the rendered text known so far is
    kept together with its true tokens and with marks where both can be cut: a prompt that begins with the
    same text keeps the tokens up to the last mark inside the common beginning, and only the rest is
    tokenized. What the template makes of earlier answers (trimmed, reasoning dropped) decides through its
    text alone.
    """

    def __init__(self, model: Model, fence: Fence) -> None:
        self.fence = fence
        self._model = model
        self._text = ""
        self._tokens: list[int] = []
        self._marks: list[tuple[int, int]] = []  # (characters, tokens), both growing

    def encode(self, text: str) -> list[int]:
        """Token ids of a rendered prompt (with placeholders, see `Fence`)."""
        for characters, n in reversed(self._marks):
            if text.startswith(self._text[:characters]):
                rest = text[characters:]
                return self._tokens[:n] + (self.fence.encode(rest, start=False) if rest else [])
        return self.fence.encode(text)

    def record(self, prompt: Prompt, answer: str, ids: Sequence[int]) -> None:
        """An answer was generated: its text, and its token ids without the end-of-generation token."""
        marks = [mark for mark in self._marks if mark[1] < len(prompt.tokens) and self._begins(prompt, *mark)]
        start, n = len(prompt.text), len(prompt.tokens)
        marks.append((start, n))
        shielded = self.fence.shield(answer)
        for shown in (answer.rstrip(), answer):  # many templates trim
            if not shown:
                continue
            count, size = self._cover(ids, shown)
            ending = self.fence.shield(shown[:size])
            if count and shielded.startswith(ending) and (mark := (start + len(ending), n + count)) > marks[-1]:
                marks.append(mark)
        self._text = prompt.text + shielded
        self._tokens = [*prompt.tokens, *ids]
        self._marks = marks

    def _begins(self, prompt: Prompt, characters: int, n: int) -> bool:
        """Does the prompt begin with what this mark ends?"""
        return prompt.text.startswith(self._text[:characters]) and prompt.tokens[:n] == self._tokens[:n]

    def _cover(self, ids: Sequence[int], text: str) -> tuple[int, int]:
        """How many leading tokens say a beginning of `text` exactly, and how long it is in characters.

        All of them where the bytes of the tokens are what the text was made of, also where they are not
        UTF-8.
        """
        if not all(0 <= token < self._model.n_vocab for token in ids):
            return 0, 0  # of another model
        pieces = [self._model.piece(token) for token in ids]
        whole = TextAssembler()
        for piece in pieces:
            whole.feed(piece)
        whole.flush()
        if whole.text == text:
            return len(ids), len(text)
        raw, size, best = text.encode(), 0, (0, 0)  # tokens and bytes up to the end of a whole character
        for count, piece in enumerate(pieces, 1):
            if not raw.startswith(piece, size):
                break
            size += len(piece)
            if size == len(raw) or raw[size] & 0xC0 != 0x80:  # no continuation byte follows
                best = (count, size)
        return best[0], len(raw[: best[1]].decode())
