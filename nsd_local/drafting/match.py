"""A place in known text where the text so far has been before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

BORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # match lengths that share statistics
CERTAIN = 0.99


@dataclass(frozen=True, slots=True)
class Match:
    """The last `length` tokens of the text occur in `source`, ending before `position`, where they went on.

    `source` is the text itself (`same`), or an earlier one that ends before `end`.
    """

    length: int
    source: Sequence[int]
    position: int
    end: int
    same: bool

    def continuation(self, k: int) -> list[int]:
        """Up to k tokens that followed. Where the text repeats itself, the copy runs on into itself."""
        tokens = list(self.source[self.position : min(self.end, self.position + k)])
        period = len(tokens)
        while self.same and period and len(tokens) < k:
            tokens.append(tokens[-period])
        return tokens


class Matcher(Protocol):
    """Finds the longest suffix of the text that occurred before."""

    def begin(self, tokens: Sequence[int], *, fresh: bool = False) -> None:
        """The text is exactly `tokens` now. `fresh`: until the next `begin`, only matches within it count."""
        ...

    def extend(self, tokens: Sequence[int]) -> None:
        """These follow."""
        ...

    def match(self) -> Match | None:
        """The longest match, the most recent one among equals."""
        ...

    def forget(self) -> None:
        """As if just made."""
        ...


class HitRates:
    """How often the token after a match was the right one, by match length; old matches fade."""

    KEEP = 0.95  # per observation of the same length class
    PRIOR = 3.0  # observations that the prior is worth

    def __init__(self) -> None:
        self._hits = [0.0] * len(BORDERS)
        self._tries = [0.0] * len(BORDERS)

    def rate(self, length: int) -> float:
        """Estimated probability that the token after a match this long is kept."""
        i = _class(length)
        prior = 1.0 - 0.8 / (1.0 + 0.35 * BORDERS[i])  # 0.41 after 1 token, 0.67 after 4, 0.93 after 32
        return min(CERTAIN, (self._hits[i] + self.PRIOR * prior) / (self._tries[i] + self.PRIOR))

    def add(self, length: int, hit: bool) -> None:
        i = _class(length)
        self._hits[i] = self.KEEP * self._hits[i] + hit
        self._tries[i] = self.KEEP * self._tries[i] + 1.0


def _class(length: int) -> int:
    return max(i for i, border in enumerate(BORDERS) if border <= max(1, length))
