"""Speculative cascade: defer to the draft wherever the target is nearly indifferent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nsd_local import checks
from nsd_local.verification.vector_rule import GoalRule, Vector

if TYPE_CHECKING:
    from nsd_local.verification.laws import Laws


@dataclass(frozen=True, slots=True)
class Cascade(GoalRule):
    """Token-level speculative cascade (arXiv 2405.19261).

    With A = {v: p(v) >= (1 - alpha) max p} the law is pi = q on A, plus (1 - q(A)) p everywhere; then x is kept with
    min(1, pi/q), else drawn from [pi-q]+. A negative alpha empties A, which is exact. At temperature 0 it is strict
    greedy matching.
    """

    alpha: float = 0.3

    name: ClassVar[str] = "cascade"
    formula: ClassVar[str] = (
        "pi = q on A + (1-q(A)) p, A = {p >= (1-alpha) max p}; keep with min(1, pi/q); else [pi-q]+"
    )
    source: ClassVar[str] = "arXiv 2405.19261"

    def __post_init__(self) -> None:
        checks.number(self, "alpha", lambda value: -1.0 <= value <= 1.0, "lie in [-1, 1] (below 0 is exact)")

    def goal(self, at: Laws) -> Vector:
        trusted = at.over(
            at.p, max(0.0, float(np.nextafter(np.float32((1.0 - self.alpha) * at.best), np.float32(-1.0))))
        )
        return at.blend(trusted, at.p, max(0.0, 1.0 - at.dot(at.q, trusted)))
