"""Judges drafts one by one by a rule that is a formula on whole laws."""

from __future__ import annotations

import math
from typing import Any

from nsd_local.verification.kernels import vectors
from nsd_local.verification.laws import Laws
from nsd_local.verification.limits import Limits
from nsd_local.verification.position import Position
from nsd_local.verification.vector_rule import VectorRule
from nsd_local.verification.verdict import Kind


class VectorJudge:
    """Runs any VectorRule, and makes guards of every one: with probability s it applies the rule, else it is exact.

    The emitted law is then (1-s) p + s pi, whose deviation is s TV(pi, p); so budgets and exact positions work as for
    `nucleus`. One uniform serves both choices: below s it is scaled up for the rule, above s for the exact test.
    """

    entropy = True

    def __init__(self, n_vocab: int) -> None:
        self._at = Laws(n_vocab)

    def begin(self, rule: VectorRule, limits: Limits, memory: Any) -> None:
        self.rule, self.limits, self.memory = rule, limits, memory
        self._by_rule = True

    def decide(self, here: Position, u: float, exact: bool, index: int, k: int) -> tuple[Kind | None, float]:
        """(kind or None for a rejection, deviation spent); the latter is NaN where a relaxed position is unmeasured."""
        at, rule = self._at, self.rule
        at.take(here, index, k, self.memory)
        a = rule.acceptance(at)
        kept = math.nan
        if self.limits.meter or self.limits.binding():
            kept = float(vectors.dot(at.q, a))
            bare = rule.emitted(at, a)
            here.divergence = min(1.0, float(vectors.distance(at.p, at.q)))  # sums of float32 may pass 1
            here.excess = min(1.0, float(vectors.distance(bare, at.p)))
        strength, deviation = self.limits.spend(0.0 if exact else 1.0, here.excess)
        here.acceptance = strength * kept + (1.0 - strength) * (1.0 - here.divergence)
        self._by_rule = u < strength
        ratio = here.ratio
        if self._by_rule:
            u, bar = u / strength, float(a[here.token])
        else:
            u, bar = (u - strength) / (1.0 - strength), ratio
        keep = u < bar
        if self._by_rule:
            rule.settle(at, keep)
        if not keep:
            return None, deviation
        return "ratio" if u < ratio else "nucleus", deviation

    def recover(self, here: Position, u: float) -> int:
        if not self._by_rule:
            return here.draw_residual(u)
        token = int(vectors.draw_from(self.rule.recovery(self._at), u))
        return token if token >= 0 else here.p.draw(u)

    def bonus(self) -> None:
        """A token was emitted beyond the drafts."""
