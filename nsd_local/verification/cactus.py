"""Cactus: constrained acceptance, which raises the drafted token's own probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nsd_local import checks
from nsd_local.verification.vector_rule import Vector, VectorRule

if TYPE_CHECKING:
    from nsd_local.verification.laws import Laws


@dataclass(frozen=True, slots=True)
class Cactus(VectorRule):
    """Keep x with min(1, h(x)/q(x)), h(x) = min(1, p + sqrt(2 delta p (1-p))); else [h-q]+ (arXiv 2604.04987).

    h is the law in which x has h(x) and every other token (1-h(x))/(1-p(x)) of its p; so the recovery law depends on
    the rejected token. delta 0 is exact.
    """

    delta: float = 0.05

    name: ClassVar[str] = "cactus"
    formula: ClassVar[str] = "h = min(1, p + sqrt(2 delta p (1-p))); keep x with min(1, h/q); else draw from [h-q]+"
    source: ClassVar[str] = "arXiv 2604.04987"

    def __post_init__(self) -> None:
        checks.number(self, "delta", lambda value: value >= 0.0, "be 0 or more")

    def acceptance(self, at: Laws) -> Vector:
        at.goal = at.raised(self.delta)  # h(x) of every token, were it the drafted one
        return at.ratio(at.goal, at.q)

    def recovery(self, at: Laws) -> Vector:
        x = at.token
        return at.above(at.p, at.q, _factor(at.goal[x : x + 1], at.p[x : x + 1])[0])

    def emitted(self, at: Laws, a: Vector) -> Vector:
        """pi = q a + sum over rejected x of (q(x) - h(x)) r_x, each r_x being [h-q]+ of its own h, normalised."""
        rejected = np.flatnonzero(at.q > at.goal)
        weights = at.q[rejected] - at.goal[rejected]
        return at.with_residuals(a, weights, _factor(at.goal[rejected], at.p[rejected]))


def _factor(h: Vector, p: Vector) -> Vector:
    """(1 - h(x)) / (1 - p(x)): what is left of the other tokens when x is raised to h(x).

    A rejected x has h(x) < q(x), so [h-q]+ is 0 at x itself whatever the factor.
    """
    rest = np.maximum(1.0 - p.astype(np.float64), 1e-30)
    factor: Vector = ((1.0 - h.astype(np.float64)) / rest).astype(np.float32)
    return factor
