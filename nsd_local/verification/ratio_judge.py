"""Judges drafts one by one by the ratio test and the nucleus: `exact`, `match`, `nucleus`, `auto-strength`."""

from __future__ import annotations

import math
from typing import Any

from nsd_local.verification.auto_strength import AutoStrength
from nsd_local.verification.limits import Limits
from nsd_local.verification.position import Position
from nsd_local.verification.rule import Nucleus, Rule
from nsd_local.verification.verdict import Kind


class RatioJudge:
    """With a0 = min(1, p/q) and one uniform u: `ratio` below a0, `nucleus` below a0 + strength (1-a0) if x is in S."""

    entropy = False  # does not need that of p

    def begin(self, rule: Rule, limits: Limits, memory: Any) -> None:
        self.limits = limits
        self.theta, self.strength, self.cap = 0.0, 0.0, math.inf
        self.earning, self.allowance = 0.0, None
        if isinstance(rule, Nucleus):
            self.theta, self.strength = rule.theta, rule.strength
            self.cap = math.inf if rule.cap is None else rule.cap
        elif isinstance(rule, AutoStrength):
            self.theta, self.strength = rule.theta, 1.0
            self.earning, self.allowance = rule.deviation, memory

    def decide(self, here: Position, u: float, exact: bool, index: int, k: int) -> tuple[Kind | None, float]:
        """(kind or None for a rejection, deviation spent); the latter is NaN where a relaxed position is unmeasured."""
        strength, cap = 0.0 if exact else self.strength, self.cap
        if self.allowance is not None:
            self.allowance.balance += self.earning
            cap = self.allowance.balance
        if self.limits.meter or (strength > 0.0 and self.limits.binding(cap)):
            here.measure(self.theta)
        strength, deviation = self.limits.spend(strength, here.excess, cap)
        if self.allowance is not None:
            self.allowance.balance -= deviation if deviation > 0.0 else 0.0
        here.acceptance = 1.0 - here.divergence + deviation
        ratio = here.ratio
        if u < ratio:
            return "ratio", deviation
        if strength > 0.0 and u < ratio + strength * (1.0 - ratio) and here.in_nucleus(self.theta):
            return "nucleus", deviation
        return None, deviation

    def recover(self, here: Position, u: float) -> int:
        return here.draw_residual(u)

    def bonus(self) -> None:
        """A token was emitted beyond the drafts."""
        if self.allowance is not None:
            self.allowance.balance += self.earning
