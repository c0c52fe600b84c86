"""The running numbers of an answer, each derived from its round records and kept up to date in constant time."""

from __future__ import annotations

from collections import deque
from typing import Any

from nsd_local.decoding.records import Round
from nsd_local.verification.verdict import KINDS

NOW_S = 2.0  # "now" is the speed over the last rounds that took this many seconds
Plain = tuple[float, str]  # tokens per second of plain decoding, and where that is known from
PARTS = ("draft", "verify", "accept", "rollback", "other")


class Meters:
    """Speed, acceptance, draft length, time split and deviation so far."""

    def __init__(self, budget: float | None = None, plain: Plain | None = None) -> None:
        self.budget = budget
        self.plain = plain
        self.kinds = dict.fromkeys(KINDS, 0)
        self.drafted = 0
        self.ks: list[int] = []
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.deviation = 0.0
        self.why = ""
        self._recent: deque[tuple[int, float]] = deque()  # (tokens, seconds) of the last rounds
        self._recent_tokens = 0
        self._recent_s = 0.0

    def add(self, round_: Round) -> None:
        for token in round_.tokens:
            self.kinds[token.kind] += 1
        self.drafted += round_.k
        self.ks.append(round_.k)
        self.why = round_.why
        self.deviation += sum(value for value in round_.deviation if value == value)  # NaN: not measured
        for part in PARTS:
            self.seconds[part] += getattr(round_.times, part)
        self._slide(len(round_.tokens), round_.times.total)

    def _slide(self, tokens: int, seconds: float) -> None:
        self._recent.append((tokens, seconds))
        self._recent_tokens += tokens
        self._recent_s += seconds
        while len(self._recent) > 1 and self._recent_s - self._recent[0][1] >= NOW_S:
            old_tokens, old_s = self._recent.popleft()
            self._recent_tokens -= old_tokens
            self._recent_s -= old_s

    @property
    def tokens(self) -> int:
        return sum(self.kinds.values())

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())

    @property
    def average(self) -> float | None:
        """Tokens per second over all rounds so far."""
        return self.tokens / self.total_s if self.total_s else None

    @property
    def now(self) -> float | None:
        return self._recent_tokens / self._recent_s if self._recent_s else None

    @property
    def ratio(self) -> float | None:
        """The average as a multiple of plain decoding."""
        return self.average / self.plain[0] if self.average and self.plain else None

    def view(self, have_rounds: int = 0) -> dict[str, Any]:
        """All of it as JSON; of the draft lengths only what a page lacks."""
        rounds = len(self.ks)
        return {
            "tokens": self.tokens,
            "rounds": rounds,
            "kinds": self.kinds,
            "drafted": self.drafted,
            "tau": self.tokens / rounds if rounds else None,
            "now": self.now,
            "average": self.average,
            "ratio": self.ratio,
            "plain": self.plain,
            "ks_from": have_rounds,
            "ks": self.ks[have_rounds:],
            "why": self.why,
            "seconds": self.seconds,
            "deviation": self.deviation,
            "budget": self.budget,
        }
