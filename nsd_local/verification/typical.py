"""Typical acceptance: a threshold on p that falls with the entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nsd_local import checks
from nsd_local.verification.vector_rule import Vector, VectorRule

if TYPE_CHECKING:
    from nsd_local.verification.laws import Laws


@dataclass(frozen=True, slots=True)
class Typical(VectorRule):
    """Keep x if p(x) > min(eps, alpha exp(-H(p))); else draw from p (Medusa, arXiv 2401.10774).

    H is the entropy of p in nats. At temperature 0 it is strict greedy matching.
    """

    eps: float = 0.09
    alpha: float = 0.3

    name: ClassVar[str] = "typical"
    formula: ClassVar[str] = "keep x if p > min(eps, alpha exp(-H(p))); else draw from p"
    source: ClassVar[str] = "Medusa, arXiv 2401.10774"

    def __post_init__(self) -> None:
        for field in ("eps", "alpha"):
            checks.number(self, field, lambda value: value >= 0.0, "be 0 or more")

    def acceptance(self, at: Laws) -> Vector:
        return at.over(at.p, min(self.eps, self.alpha * math.exp(-at.entropy)))

    def recovery(self, at: Laws) -> Vector:
        return at.p
