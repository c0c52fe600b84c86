"""How much deviation a round may still spend."""

from __future__ import annotations

import math

# What is left of a budget below this counts as spent, so that no rounding of sums can carry a total past it.
_SPENT = 1e-9


class Limits:
    """The guards of one verification: is the meter on, and what is left of the request's budget."""

    __slots__ = ("meter", "remaining")

    def __init__(self, meter: bool, remaining: float | None) -> None:
        self.meter = meter
        self.remaining = math.inf if remaining is None else remaining - _SPENT

    def binding(self, cap: float = math.inf) -> bool:
        """Is there anything that deviations count against?"""
        return min(cap, self.remaining) < math.inf

    def spend(self, strength: float, excess: float, cap: float = math.inf) -> tuple[float, float]:
        """(strength, deviation) that are allowed at a position whose rule would spend `excess` at strength 1.

        Takes the deviation off what remains. An unmeasured excess (NaN) is not limited: ask `binding` first.
        """
        if strength <= 0.0:
            return 0.0, 0.0
        most = min(cap, self.remaining)
        if most <= 0.0:
            return 0.0, 0.0
        deviation = strength * excess
        if deviation > most:
            deviation = most
            strength = deviation / excess
        if deviation > 0.0:
            self.remaining -= deviation
        return strength, deviation
