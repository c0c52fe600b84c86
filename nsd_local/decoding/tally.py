"""What drafting has brought in a request, in one line for the user."""

from __future__ import annotations

from collections import Counter

from nsd_local.decoding.records import Round

PAYS = 1.02  # below this ratio to plain decoding no gain is claimed
LONG = 24  # rounds without drafting after which it counts as off


class Tally:
    """Adds up rounds: how often which k, how many tokens, and the time they would have taken plainly."""

    def __init__(self) -> None:
        self._lengths: Counter[int] = Counter()
        self._tokens = 0
        self._seconds = 0.0
        self._plain_seconds = 0.0
        self._idle = 0  # rounds since the last one that drafted in earnest

    def add(self, round: Round, plain: float | None, *, probe: bool) -> None:
        """A finished round; `plain` is the time of a plain round there in seconds, None where unknown."""
        drafting = round.k > 0 and not probe
        self._lengths[round.k if drafting else 0] += 1
        self._idle = 0 if drafting else self._idle + 1
        self._tokens += len(round.tokens)
        self._seconds += round.times.total
        self._plain_seconds += len(round.tokens) * (plain or 0.0)

    @property
    def _drafting(self) -> int:
        """Rounds that drafted in earnest."""
        return sum(self._lengths.values()) - self._lengths[0]

    def off(self, reason: str) -> bool:
        """Did no round draft, or none for long? `reason` is why the last rounds were plain; "" if they were not."""
        return bool(reason) and (not self._drafting or self._idle >= LONG)

    def told(self, off: str) -> str:
        """One line; `off` is the reason why the last rounds were plain."""
        rounds, drafting = sum(self._lengths.values()), self._drafting
        if not drafting:
            return f"drafting is off: {off}" if off else "drafting has not started"
        if self.off(off):
            return f"drafting is off after {drafting} of {rounds} rounds: {off}"
        k = max((k for k in self._lengths if k), key=lambda k: self._lengths[k])
        line = f"k auto: drafted in {drafting} of {rounds} rounds, mostly k {k}"
        line += f", {self._tokens / rounds:.1f} tokens per pass"
        if self._plain_seconds and self._seconds:
            gain = self._plain_seconds / self._seconds
            line += f", about {gain:.2f} x plain decoding" if gain >= PAYS else ", no faster than plain decoding"
        return line
