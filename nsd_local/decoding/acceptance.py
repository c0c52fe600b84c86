"""How likely the next drafts are to be kept, from the recent past of one proposer."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

PRIOR = 0.7  # acceptance of a draft of which nothing is known; common for a small sibling of the target
EDGES = (0.01, 0.05, 0.2, 0.5, 1.0, 1.8)  # entropy of q in nats: borders between the classes
# Acceptance by class before anything is learned: exact verification of a 0.5B draft by a 1.5B target of the same
# family over eight kinds of prompts (temperature 0.7, min-p 0.05).
TYPICAL = (0.98, 0.93, 0.85, 0.8, 0.63, 0.52, 0.33)


class Memory:
    """Means over past rounds, each round weighing `keep` times what the next one does.

    Position i is the i-th draft of a round given that those before it were kept. Positions seen rarely lean
    on the mean over all positions, as much as `LEAN` rounds would weigh.
    """

    LEAN = 2.0
    HOPE = 0.4  # without it, a short draft length would never find out that a longer one pays

    def __init__(self, keep: float) -> None:
        self._keep = keep
        self._sum, self._weight = PRIOR, 1.0
        self._sums: list[float] = []
        self._weights: list[float] = []
        self.error = 0.0  # mean squared error of its predictions, forgetting like FORGET below

    FORGET = 0.7

    def at(self, position: int) -> float:
        lean = self._sum / self._weight
        if position:  # easy stretches cluster: after a kept draft the next is likelier to be kept
            lean += self.HOPE * (1.0 - lean)
        if position >= len(self._sums):
            return lean
        return (self._sums[position] + self.LEAN * lean) / (self._weights[position] + self.LEAN)

    def add(self, kept: Sequence[float]) -> None:
        """One round: the acceptance probability at each processed position."""
        error = sum((self.at(i) - value) ** 2 for i, value in enumerate(kept)) / len(kept)
        self.error = self.FORGET * self.error + (1 - self.FORGET) * error
        self.age(self._keep)
        self._sum += sum(kept) / len(kept)
        self._weight += 1.0
        while len(self._sums) < len(kept):
            self._sums.append(0.0)
            self._weights.append(0.0)
        for i, value in enumerate(kept):
            self._sums[i] += value
            self._weights[i] += 1.0

    def age(self, keep: float) -> None:
        """Weigh everything so far by `keep`."""
        if self._weight * keep < 1e-6:  # means stay, and nothing runs into 0 / 0
            return
        self._sum *= keep
        self._weight *= keep
        self._sums = [value * keep for value in self._sums]
        self._weights = [value * keep for value in self._weights]


class Acceptance:
    """Predicts the acceptance probability per position, with a long and a short memory.

    The long one is steadier; the short one takes over while it predicts better, that is after the text has
    changed. What is learned are probabilities known from the two laws of a position (1 - divergence +
    deviation), never the probability of a drawn token.
    """

    LONG, SHORT = 0.96, 0.7
    LEAD = 1.25  # the short memory must predict this much better (squared error)
    SLACK = 0.004  # and by this much
    WORTH = 8.0  # observations that the typical acceptance of an entropy class is worth
    DOUBT = 2.0  # missed drafts that it takes to question TYPICAL
    KEEP_CLASS = 0.98  # weight of the past per observation of the same entropy class
    FADE_CLASS = 0.95  # and per round, so that a class which is avoided gets another chance
    FADE = 0.92  # per round in which this proposer was not tried: how fast the short memory goes stale

    def __init__(self) -> None:
        self._long, self._short = Memory(self.LONG), Memory(self.SHORT)
        self._classes = [[0.0, 0.0] for _ in TYPICAL]  # per entropy class: sum of kept, weight
        self._missed, self._typically_missed = self.DOUBT, self.DOUBT  # not kept: observed, and by TYPICAL

    def at(self, position: int) -> float:
        """Acceptance probability at `position`, given that the drafts before it were kept."""
        return _clip(self._memory.at(position))

    def knowing(self, position: int, entropy: float) -> float:
        """The same, q's entropy there being known (in nats)."""
        i = bisect_right(EDGES, entropy)
        total, weight = self._classes[i]
        # Another rule, draft or text misses about in proportion at every entropy.
        typical = _clip(1.0 - (1.0 - TYPICAL[i]) * self._missed / self._typically_missed)
        return _clip((total + self.WORTH * typical + self.at(position)) / (weight + self.WORTH + 1.0))

    def expected(self, k: int) -> list[float]:
        """Entry i: expected number of emitted tokens of a round that drafts i tokens, for i = 0..k."""
        lengths, reach = [1.0], 1.0
        for position in range(k):
            reach *= self.at(position)
            lengths.append(lengths[-1] + reach)
        return lengths

    def add(self, kept: Sequence[float], entropies: Sequence[float] = (), *, refused: bool = False) -> None:
        """One round: acceptance probability, and q's entropy where known, at each processed position.

        An entropy more than there are positions is that of a draft which was not drawn because of it, `refused`
        if all before it were kept. It enters with what it was expected to bring; else the memory would know
        only the positions that looked promising.
        """
        for cell in self._classes:
            cell[0], cell[1] = self.FADE_CLASS * cell[0], self.FADE_CLASS * cell[1]
        for value, entropy in zip(kept, entropies, strict=False):
            i = bisect_right(EDGES, entropy)
            cell = self._classes[i]
            cell[0], cell[1] = self.KEEP_CLASS * cell[0] + value, self.KEEP_CLASS * cell[1] + 1.0
            self._missed = self.KEEP_CLASS * self._missed + 1.0 - value
            self._typically_missed = self.KEEP_CLASS * self._typically_missed + 1.0 - TYPICAL[i]
        positions = list(kept)
        if refused and len(entropies) > len(kept):
            positions.append(self.knowing(len(kept), entropies[len(kept)]))
        if not positions:
            return
        self._long.add(positions)
        self._short.add(positions)
        if self._switched:
            self._long.age(0.8)  # what it remembers is of another kind of text

    def idle(self) -> None:
        """A round passed in which this proposer was not tried."""
        self._short.age(self.FADE)

    @property
    def _memory(self) -> Memory:
        return self._short if self._switched else self._long

    @property
    def _switched(self) -> bool:
        return self._short.error * self.LEAD + self.SLACK < self._long.error


def chances(divergence: Sequence[float], deviation: Sequence[float], accepted: int, metered: bool) -> list[float]:
    """Acceptance probability at each processed position of a round.

    By the meter it is 1 - TV(p, q) + deviation (DESIGN: what it costs). Where the meter was off, or the
    rule is one of which this does not hold, it is what happened: 1 for the accepted drafts, 0 for the
    rejected one.
    """
    values = []
    for i, (distance, spent) in enumerate(zip(divergence, deviation, strict=True)):
        known = metered and not math.isnan(distance + spent)
        values.append(_clip(1.0 - distance + spent) if known else float(i < accepted))
    return values


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
