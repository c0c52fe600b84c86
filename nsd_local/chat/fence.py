"""Keeps what people write apart from the control tokens of a chat template.

A chat prompt must be tokenized with its control tokens read as such ("<|im_end|>" is one token), but the
same text in a message must stay text, or a pasted transcript could end the turn. Before rendering, the
control tokens spelled out in a message are replaced by placeholders; the template sees, trims and splits the
rest as usual. After rendering, the text between two control tokens is tokenized as plain text wherever it
holds a placeholder. Ordinary messages have none, so their prompts are tokenized exactly as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nsd_local.engine.model import Model

OPEN, CLOSE = "\U0010fffe", "\U0010ffff"  # noncharacters: no text that people exchange contains them
PLACEHOLDER = re.compile(f"{OPEN}([0-9]+){CLOSE}")
REMEMBERED = 1_000  # messages whose shielded form is kept: a conversation is rendered again every turn
ANCHORS = ("\n", "|", "é")


class Fence:
    """Placeholders for the control tokens of one model, and the tokenization that respects them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._texts: list[str] = [OPEN, CLOSE]  # what placeholder number i stands for
        self._shielded: dict[str, str] = {}
        bos = model.tokenize("", special=False, add_bos=True)
        self._bos = bos[:1]
        plain = b"".join(map(model.piece, model.tokenize("a", special=False, add_bos=False)))
        self._prefixes_space = plain != b"a"  # SentencePiece: text is tokenized as if a space stood before it

    def shield(self, text: str) -> str:
        """The text with every control token that is spelled out in it replaced by a placeholder."""
        known = self._shielded.get(text)
        if known is None:
            controls = self._controls(text) | {c for c in (OPEN, CLOSE) if c in text}
            known = self._alternatives(controls).sub(self._placeholder, text) if controls else text
            if len(self._shielded) >= REMEMBERED:
                self._shielded.clear()
            self._shielded[text] = known
        return known

    def reveal(self, text: str) -> str:
        """Undoes `shield`."""
        return PLACEHOLDER.sub(lambda match: self._texts[int(match[1])], text)

    def encode(self, text: str, *, start: bool = True) -> list[int]:
        """Token ids of a rendered text that may hold placeholders.

        `start` says that the text begins the prompt: exactly one BOS stands there if the model wants one,
        whether or not the template wrote it. Otherwise the text continues other tokens.
        """
        tokens: list[int] = []
        for chunk, special in self._chunks(text):
            follows = not start and not tokens
            tokens += self._following(chunk, special) if follows else self._tokenize(chunk, special)
        return self._bos + tokens if start and self._bos and tokens[:1] != self._bos else tokens

    def _tokenize(self, text: str, special: bool) -> list[int]:
        return self._model.tokenize(text, special=special, add_bos=False)

    def _following(self, text: str, special: bool) -> list[int]:
        """Tokens of a text in the middle of another, where no space is put before it."""
        if self._prefixes_space and text:
            for anchor in ANCHORS:
                before, both = self._tokenize(anchor, special), self._tokenize(anchor + text, special)
                if both[: len(before)] == before:
                    return both[len(before) :]
        return self._tokenize(text, special)

    def _chunks(self, text: str) -> Iterator[tuple[str, bool]]:
        """Cuts the text next to control tokens into pieces to be read with and without control tokens."""
        if not PLACEHOLDER.search(text):
            yield text, True
            return
        controls = self._controls(text)
        parts = re.split(f"({self._alternatives(controls).pattern})", text) if controls else [text]
        read = ""  # text with its control tokens, not given out yet
        for i, part in enumerate(parts):
            if i % 2 == 0 and PLACEHOLDER.search(part):
                if read:
                    yield read, True
                read = ""
                yield self.reveal(part), False
            else:
                read += part
        if read:
            yield read, True

    def _controls(self, text: str) -> set[str]:
        """The control tokens that the tokenizer finds in the text when it is told to look for them."""
        found = set(self._tokenize(text, True)) - set(self._tokenize(text, False))
        texts = {token: self._model.piece(token).decode("utf-8", "replace") for token in found}
        return {
            spelled
            for token, spelled in texts.items()
            if spelled in text and self._tokenize(spelled, True) == [token] != self._tokenize(spelled, False)
        }

    @staticmethod
    def _alternatives(texts: set[str]) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(text) for text in sorted(texts, key=lambda t: (-len(t), t))))

    def _placeholder(self, match: re.Match[str]) -> str:
        if match[0] not in self._texts:
            self._texts.append(match[0])
        return f"{OPEN}{self._texts.index(match[0])}{CLOSE}"
