"""The baseline that truncation-like rules must beat: the target itself, truncated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nsd_local import checks
from nsd_local.verification.vector_rule import GoalRule, Vector

if TYPE_CHECKING:
    from nsd_local.verification.laws import Laws


@dataclass(frozen=True, slots=True)
class TargetTopP(GoalRule):
    """Not a verifier: plain decoding of the target truncated to its nucleus S_theta(p); theta 1 is the target.

    Every emitted token deviates by 1 - p(S). Should drafts be handed in, they are verified exactly against that law.
    """

    theta: float = 0.9

    name: ClassVar[str] = "target-topp"
    formula: ClassVar[str] = "draw from p restricted to S_theta(p), renormalised; no drafts"
    source: ClassVar[str] = "arXiv 1904.09751 (nucleus sampling)"
    drafts: ClassVar[bool] = False
    takes_budget: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checks.number(self, "theta", lambda value: 0.0 < value <= 1.0, "lie in (0, 1]")

    def goal(self, at: Laws) -> Vector:
        kept = at.nucleus(self.theta)
        return at.scaled(at.p, kept, 1.0 / at.dot(at.p, kept))
