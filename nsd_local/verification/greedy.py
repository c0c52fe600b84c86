"""Rules made for greedy decoding: they look at raw logits, and emit the target's argmax when they reject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nsd_local import checks
from nsd_local.errors import UsageError
from nsd_local.sampling.law import Law
from nsd_local.verification.vector_rule import Vector, VectorRule

if TYPE_CHECKING:
    from nsd_local.verification.laws import Laws


@dataclass(slots=True)
class Regrets:
    """What `asd` has spent in a request, and how many mismatches it kept in the current block."""

    spent: float = 0.0
    mismatches: int = 0


@dataclass(frozen=True, slots=True)
class Asd(VectorRule):
    """Keep a mismatch at temperature 0 while its regret pays (arXiv 2608.03447).

    The regret of x is r = max z - z(x) on the target's logits (after penalties). At the i-th of k drafts (from 0) a
    mismatch is kept if r <= g (k - i), the request's regrets stay within `budget`, and fewer than `m` mismatches were
    kept in this block. Otherwise the target's argmax is emitted. budget 0 is strict. Only for temperature 0.
    """

    budget: float = 8.0
    g: float = 0.25
    m: int = 2

    name: ClassVar[str] = "asd"
    formula: ClassVar[str] = "keep x if max z - z <= g (k-i), within the request's budget, m per block; else argmax z"
    source: ClassVar[str] = "arXiv 2608.03447"
    works_at_zero: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for field in ("budget", "g"):
            checks.number(self, field, lambda value: value >= 0.0, "be 0 or more")
        checks.whole(self, "m")

    def check_law(self, law: Law) -> None:
        if not law.greedy:
            raise UsageError(
                "The rule asd works at temperature 0 only",
                f"the temperature is {law.temperature}",
                "Set --temperature 0",
            )

    def start(self) -> Regrets:
        return Regrets()

    def _regret(self, at: Laws) -> float:
        return float(at.logits[at.top]) - float(at.logits[at.token])

    def acceptance(self, at: Laws) -> Vector:
        if at.index == 0:
            at.memory.mismatches = 0
        if at.memory.mismatches < self.m:
            limit = min(self.g * (at.k - at.index), self.budget - at.memory.spent)
            if limit > 0.0:
                return at.over(
                    at.logits, float(np.nextafter(np.float32(at.logits[at.top] - limit), np.float32(-np.inf)))
                )
        return at.point(at.top)

    def recovery(self, at: Laws) -> Vector:
        return at.point(at.top)

    def emitted(self, at: Laws, a: Vector) -> Vector:
        """At temperature 0 the draft is certain, so one token is."""
        return at.point(at.token if a[at.token] > 0.0 else at.top)

    def settle(self, at: Laws, kept: bool) -> None:
        if kept and at.token != at.top:
            at.memory.spent += self._regret(at)
            at.memory.mismatches += 1


@dataclass(frozen=True, slots=True)
class Mars(VectorRule):
    """Keep the target's top-1, or its top-2 when z2/z1 > `margin`; else emit the top-1 (arXiv 2601.15498).

    z1 >= z2 are the two largest raw logits, and the ratio means something only for z1 > 0: below that the rule is
    strict. The ratio is not invariant under a shift of all logits, which leaves every law as it is; so the rule's
    behaviour depends on a property of the model that its laws do not have. margin 1 is strict.
    """

    margin: float = 0.9

    name: ClassVar[str] = "mars"
    formula: ClassVar[str] = "keep x if top-1, or top-2 with z2/z1 > margin; else the top-1"
    source: ClassVar[str] = "arXiv 2601.15498"
    works_at_zero: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.number(self, "margin", lambda value: 0.0 <= value <= 1.0, "lie in [0, 1]")

    def acceptance(self, at: Laws) -> Vector:
        a = at.point(at.top)
        second = at.second()
        first_logit, second_logit = float(at.logits[at.top]), float(at.logits[second])
        if first_logit > 0.0 and second_logit > self.margin * first_logit:
            a[second] = 1.0
        return a

    def recovery(self, at: Laws) -> Vector:
        return at.point(at.top)
