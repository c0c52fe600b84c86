"""Judges the drafts of a round together: `block` and `nucleus-block` (arXiv 2403.10444; formulas in block.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nsd_local.verification.limits import Limits
from nsd_local.verification.log import Log
from nsd_local.verification.position import Position, Pull
from nsd_local.verification.verdict import Kind

_ROUNDING = 1e-5

Take = Callable[[int], bool]  # shapes position i; says whether it must be verified exactly


@dataclass(slots=True)
class Prefix:
    """The recursion after i drafts: w with the rule's law, and with p alone; and how position i+1 is pulled."""

    weight: float
    plain: float
    pull: Pull = (0.0, 0.0)
    nucleus: tuple[np.float32, int] | None = None


class BlockJudge:
    """Finds the longest prefix that survives, and the token after it.

    Every position's pull (hence its deviation) is fixed from the drafted prefix before it, so the law it aims at is
    the same wherever the round ends; only the positions that were really processed are charged.
    """

    def __init__(self, position: Position, log: Log) -> None:
        self._here, self._log = position, log

    def begin(self, theta: float | None, strength: float, cap: float | None, limits: Limits) -> None:
        # Floats: a kernel is compiled anew for whole numbers.
        self.theta, self.strength = theta, 0.0 if theta is None else float(strength)
        self.cap = math.inf if cap is None else float(cap)
        self.limits = limits

    def run(self, k: int, take: Take, u_accept: NDArray[np.float64], u_last: float) -> tuple[list[Kind], int | None]:
        """(kinds of the kept drafts, token after them, or None for a bonus still to be drawn)."""
        prefixes = [Prefix(1.0, 1.0)]
        kept = kept_plain = 0
        for i in range(k):
            now = prefixes[-1]
            exact = take(i)
            deviation = self._pull(now, exact)
            if i > 0:
                survives, survives_plain = self._survives(now, float(u_accept[i - 1]))
                kept = i if survives else kept
                kept_plain = i if survives_plain else kept_plain
            self._log.add(self._here, deviation, self.theta is not None and self._here.in_nucleus(self.theta))
            prefixes.append(self._next(now))
            if prefixes[-1].weight <= 0.0:
                break  # nothing longer can survive
        else:
            kept = k if u_accept[k - 1] < prefixes[k].weight else kept
            kept_plain = k if u_accept[k - 1] < prefixes[k].plain else kept_plain
        self._log.n = min(kept + 1, k)
        kinds: list[Kind] = ["ratio" if i < kept_plain else "nucleus" for i in range(kept)]
        return kinds, None if kept == k else self._recover(kept, prefixes[kept], take, u_last)

    def _pull(self, now: Prefix, exact: bool) -> float:
        """Fixes the law of the position just taken; returns the deviation it spends."""
        here, strength = self._here, 0.0 if exact else self.strength
        if self.limits.meter or strength > 0.0:
            here.measure(self.theta or 0.0)
        strength, deviation = self.limits.spend(strength, here.excess, self.cap)
        here.acceptance = 1.0 - here.divergence + deviation
        if deviation > 0.0 and here.divergence > 0.0:
            now.pull = (strength, deviation / here.divergence)
        now.nucleus = here.nucleus
        return deviation

    def _survives(self, now: Prefix, u: float) -> tuple[bool, bool]:
        """Is u below h of the prefix before the position just taken: with the rule's law, and with p alone?"""
        here = self._here
        survives = _bounded(u, now.weight, here.divergence - now.pull[1] * here.divergence)
        plain = _bounded(u, now.plain, here.divergence)
        if survives is None or plain is None:
            rest, rest_plain = here.surplus(now.weight, now.plain, now.pull)
            survives = u < _survival(now.weight, rest) if survives is None else survives
            plain = u < _survival(now.plain, rest_plain) if plain is None else plain
        return survives, plain

    def _next(self, now: Prefix) -> Prefix:
        here = self._here
        return Prefix(_advance(now.weight, here.goal(now.pull), here.q_x), _advance(now.plain, here.p_x, here.q_x))

    def _recover(self, kept: int, now: Prefix, take: Take, u: float) -> int:
        """A token of [w pi - q]+ at the position after the kept prefix, which is shaped anew."""
        take(kept)
        self._here.nucleus = now.nucleus
        self._here.surplus(now.weight, now.weight, now.pull)
        return self._here.draw_surplus(now.weight, now.pull, u)


def _survival(weight: float, rest: float) -> float:
    """h = R / (R + 1 - w)."""
    return rest / (rest + 1.0 - weight)


def _bounded(u: float, weight: float, distance: float) -> bool | None:
    """u < h where bounds decide it without R; None where R is needed.

    With D the distance of the law from q (NaN if unmeasured): [w pi - q]+ <= w [pi - q]+ gives R <= w D, which is at
    most w; and [w pi - q]+ >= [pi - q]+ - (1-w) pi gives R >= D - (1-w). h grows with R.
    """
    if weight >= 1.0:
        return True
    if u >= weight:
        return False
    if distance > 0.0:
        most, least = weight * distance, distance - (1.0 - weight)
        if u > _survival(weight, most) + _ROUNDING:
            return False
        if u < _survival(weight, max(0.0, least)) - _ROUNDING:
            return True
    return None


def _advance(weight: float, goal: float, q: float) -> float:
    if weight * goal >= q:
        return 1.0 if weight * goal > 0.0 else 0.0
    return weight * goal / q
