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
        rejected = max(0.0, 1.0 - at.dot(at.q, a))
        r = self.recovery(at)
        return at.blend(a, r, rejected / max(at.total(r), 1e-30))

    def settle(self, at: Laws, kept: bool) -> None:
        """Called once the fate of `at.token` under this rule is known; for rules that remember."""


class GoalRule(VectorRule):
    """A rule that verifies exactly, but against a law pi of its own in the place of p: min(1, pi/q), then [pi-q]+."""

    __slots__ = ()

    def goal(self, at: Laws) -> Vector:
        """pi (V,) float32."""
        raise NotImplementedError

    def acceptance(self, at: Laws) -> Vector:
        at.goal = self.goal(at)
        return at.ratio(at.goal, at.q)

    def recovery(self, at: Laws) -> Vector:
        return at.above(at.goal, at.q)

    def emitted(self, at: Laws, a: Vector) -> Vector:
        return at.goal
