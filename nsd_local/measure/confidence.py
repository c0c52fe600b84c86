"""Intervals and tests for counted successes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Interval:
    """A share and its 95 % interval."""

    share: float
    low: float
    high: float


def wilson(successes: float, n: int, z: float = Z_95) -> Interval:
    """Wilson's score interval of a binomial share (E. B. Wilson 1927). `successes` may be fractional: a mean over
    several seeds of one problem counts as one trial, which is cautious."""
    if n == 0:
        return Interval(math.nan, 0.0, 1.0)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(
        share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
    )  # rounding at 0 and 1


@dataclass(frozen=True, slots=True)
class Paired:
    """Two arms on the same problems."""

    better: int  # problems that the first solved more often than the second
    worse: int
    n: int
    p_value: float


def mcnemar(first: Sequence[float], second: Sequence[float]) -> Paired:
    """McNemar's test, exact and two-sided: given the problems on which two arms differ, would a fair coin divide
    them so unevenly? Entries are the share of a problem's seeds that were solved; with one seed this is the
    classical test, with several it is the sign test over problems."""
    better = sum(a > b for a, b in zip(first, second, strict=True))
    worse = sum(a < b for a, b in zip(first, second, strict=True))
    n = better + worse
    tail = sum(math.comb(n, i) for i in range(min(better, worse) + 1)) / 2**n
    return Paired(better, worse, len(first), min(1.0, 2 * tail))


def quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics; NaN of nothing."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)
