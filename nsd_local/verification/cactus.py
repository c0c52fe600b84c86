"""Cactus: constrained acceptance, which raises the drafted token's own probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nsd_local.errors import UsageError
from nsd_local.verification.vector_rule import Vector, VectorRule, ratio

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
        if not self.delta >= 0.0:
            raise UsageError(f"delta must be 0 or more, not {self.delta}")

    def raised(self, p: Vector) -> Vector:
        """h(x) of every token, were it the drafted one."""
        spread: Vector = p * (np.float32(1.0) - p)
        spread *= np.float32(2.0 * self.delta)
        np.sqrt(spread, out=spread)
        spread += p
        np.minimum(spread, np.float32(1.0), out=spread)
        return spread

    def acceptance(self, at: Laws) -> Vector:
        return ratio(self.raised(at.p), at.q)

    def recovery(self, at: Laws) -> Vector:
        p_x = float(at.p[at.token])
        h_x = float(self.raised(at.p[at.token : at.token + 1])[0])
        r: Vector = np.maximum(at.p * np.float32((1.0 - h_x) / max(1.0 - p_x, 1e-30)) - at.q, np.float32(0.0))
        r[at.token] = max(0.0, h_x - float(at.q[at.token]))
        return r

    def emitted(self, at: Laws, a: Vector) -> Vector:
        """pi = q a + sum over rejected x of (q(x) - h(x)) r_x, each r_x scaled from p by its own factor."""
        h = self.raised(at.p)
        rejected = np.flatnonzero(at.q > h)
        scale = (1.0 - h[rejected].astype(np.float64)) / np.maximum(1.0 - at.p[rejected].astype(np.float64), 1e-30)
        return at.with_scaled_residuals(at.q * a, (at.q - h)[rejected], scale.astype(np.float32))
