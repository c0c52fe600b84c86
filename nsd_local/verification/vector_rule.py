"""Rules written as formulas on whole laws: what they accept, what they draw otherwise, and hence what they emit.

For every such rule the emitted token's law is pi = q a + (1 - sum q a) r with a the acceptance and r the recovery law,
and its deviation is TV(pi, p). The same code computes it for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nsd_local.verification.rule import Rule

if TYPE_CHECKING:
    from nsd_local.verification.laws import Laws

Vector = NDArray[np.float32]


class VectorRule(Rule):
    """A rule given by its acceptance vector and its recovery law."""

    __slots__ = ()

    def acceptance(self, at: Laws) -> Vector:
        """a (V,) float32 in [0, 1]: the probability of keeping each token, were it drafted."""
        raise NotImplementedError

    def recovery(self, at: Laws) -> Vector:
        """r (V,) float32, not normalised: the law of the token that replaces the rejected `at.token`."""
        raise NotImplementedError

    def emitted(self, at: Laws, a: Vector) -> Vector:
        """pi (V,) float32. For recovery laws that do not depend on the rejected token."""
        kept = at.q * a
        rejected = max(0.0, 1.0 - at.total(kept))
        if rejected > 0.0:
            r = self.recovery(at)
            kept += r * np.float32(rejected / max(at.total(r), 1e-30))
        return kept

    def settle(self, at: Laws, kept: bool) -> None:
        """Called once the fate of `at.token` under this rule is known; for rules that remember."""


class GoalRule(VectorRule):
    """A rule that verifies exactly, but against a law pi of its own in the place of p: min(1, pi/q), then [pi-q]+."""

    __slots__ = ()

    def goal(self, at: Laws) -> Vector:
        """pi (V,) float32."""
        raise NotImplementedError

    def acceptance(self, at: Laws) -> Vector:
        return ratio(self.goal(at), at.q)

    def recovery(self, at: Laws) -> Vector:
        rest: Vector = np.maximum(self.goal(at) - at.q, np.float32(0.0))
        return rest

    def emitted(self, at: Laws, a: Vector) -> Vector:
        return self.goal(at)


def ratio(p: Vector, q: Vector) -> Vector:
    """min(1, p/q); where q is 0 a token counts by p alone."""
    out: Vector = (p > 0.0).astype(np.float32)
    np.divide(p, q, out=out, where=p < q)
    return out
