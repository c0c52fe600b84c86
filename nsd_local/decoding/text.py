"""Token pieces in, certain text out: the one place where bytes become text and stop strings are found."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextAssembler:
    """Turns the pieces of emitted tokens into text that will never have to be taken back.

    Held back are an incomplete UTF-8 character and the longest end of the text that may still begin a stop
    string. Bytes that are not UTF-8 become U+FFFD. Stop strings are searched in bytes, which finds the same
    places as a search in text because UTF-8 is self-synchronising. The stop string that is complete first
    ends the text, the longest of them if several are complete at the same byte; it and everything after it
    are dropped. The outcome does not depend on how the bytes are cut into pieces.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._stops = tuple((text, text.encode()) for text in stop)
        self._longest = max((len(raw) for _, raw in self._stops), default=0)
        self._held = b""  # bytes not given to the text yet: a possible beginning of a stop string
        self._decoder = _decoder()  # of the text given out
        self._by_token = _decoder()  # of the tokens, ahead of the text by what is held
        self._starts: list[int] = []  # offset in bytes of each token
        self._size = 0  # bytes fed
        self._parts: list[str] = []
        self._texts: list[str] = []
        self._delivered: int | None = None
        self._flushed = False
        self.stopped: str | None = None  # the stop string that ended the text

    @property
    def delivered(self) -> int:
        """How many of the tokens fed stand, in whole or in part, before the stop string (all without one)."""
        return len(self._starts) if self._delivered is None else self._delivered

    @property
    def texts(self) -> list[str]:
        """What each delivered token adds to the text; a character belongs to the token that completes it.

        Joined they are the whole text, once a stop string was found or `flush` was called. Until then the
        last ones may still shrink, or vanish, because they turn out to begin a stop string.
        """
        return list(self._texts)

    @property
    def last(self) -> str:
        """What the token fed last adds to the text, as far as known; "" if it lies in a stop string."""
        return self._texts[-1] if self._texts and len(self._texts) == len(self._starts) else ""

    @property
    def text(self) -> str:
        """All text given out so far."""
        return "".join(self._parts)

    def feed(self, piece: bytes) -> str:
        """The bytes of the next token; returns the text that became certain. Does nothing after the end."""
        if self.stopped is not None or self._flushed:
            return ""
        self._starts.append(self._size)
        self._size += len(piece)
        self._texts.append(self._by_token.decode(piece))
        buffer = self._held + piece
        found = self._find(buffer)
        if found is not None:
            self.stopped, start = found
            return self._stop(buffer[:start], len(buffer) - start)
        keep = self._begins_stop(buffer)
        self._held = buffer[len(buffer) - keep :]
        return self._give(self._decoder.decode(buffer[: len(buffer) - keep]))

    def flush(self) -> str:
        """The text has ended: returns what was held back. An incomplete character becomes U+FFFD."""
        if self.stopped is not None or self._flushed:
            return ""
        self._flushed = True
        if self._texts:
            self._texts[-1] += self._by_token.decode(b"", final=True)
        held, self._held = self._held, b""
        return self._give(self._decoder.decode(held, final=True))

    def _give(self, text: str) -> str:
        if text:
            self._parts.append(text)
        return text

    def _find(self, buffer: bytes) -> tuple[str, int] | None:
        """The stop string that is complete first, and where it starts in the buffer."""
        best: tuple[int, int, str] | None = None  # end, start, text: the smallest end, then the smallest start
        for text, raw in self._stops:
            start = buffer.find(raw)
            if start >= 0 and (best is None or (start + len(raw), start) < best[:2]):
                best = (start + len(raw), start, text)
        return None if best is None else (best[2], best[1])

    def _begins_stop(self, buffer: bytes) -> int:
        """Length of the longest end of the buffer that is the beginning of a stop string."""
        for length in range(min(self._longest - 1, len(buffer)), 0, -1):
            end = buffer[-length:]
            if any(len(raw) > length and raw.startswith(end) for _, raw in self._stops):
                return length
        return 0

    def _stop(self, before: bytes, dropped: int) -> str:
        """Ends the text before a stop string and takes back what the tokens had beyond it."""
        self._held = b""
        end = self._size - dropped
        text = self._give(self._decoder.decode(before, final=True))
        delivered = sum(start < end for start in self._starts)
        self._delivered = delivered
        del self._texts[delivered:]
        if delivered:
            # The last token gets what remains of the whole text: less than it had where the stop string
            # begins inside it, and more where its incomplete character has just become U+FFFD.
            whole = self.text
            self._texts[-1] = whole[sum(map(len, self._texts[:-1])) :]
        return text


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors="replace")
