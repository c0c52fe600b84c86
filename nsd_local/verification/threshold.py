"""SGLang's thresholds on the target's probability alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nsd_local import checks
from nsd_local.verification.rule import check_share
from nsd_local.verification.vector_rule import Vector, VectorRule

if TYPE_CHECKING:
    from nsd_local.verification.laws import Laws


@dataclass(frozen=True, slots=True)
class Threshold(VectorRule):
    """Keep x if u <= p(x)/acc or p(x) >= single; else draw from p without x (SGLang, target-only sampling).

    acc = single = 1 keeps x with p(x) whatever q was, which leaves the target's law as it is; for point-mass drafts
    it is then exact verification.
    """

    acc: float = 0.5
    single: float = 0.5

    name: ClassVar[str] = "threshold"
    formula: ClassVar[str] = "keep x if u <= p/acc or p >= single; else draw from p without x"
    source: ClassVar[str] = "SGLang, tree_speculative_sampling_target_only"

    def __post_init__(self) -> None:
        check_share("single", self.single)
        checks.number(self, "acc", lambda value: 0.0 < value <= 1.0, "lie in (0, 1]")

    def acceptance(self, at: Laws) -> Vector:
        return at.thresholds(self.acc, self.single)

    def recovery(self, at: Laws) -> Vector:
        rest = at.above(at.p, at.point(at.token))
        return rest if rest.any() else at.p

    def emitted(self, at: Laws, a: Vector) -> Vector:
        """pi(v) = q(v) a(v) + p(v) sum over x != v of q(x) (1 - a(x)) / (1 - p(x))."""
        return at.without_rejected(a)
