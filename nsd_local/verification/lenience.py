"""Lenience: a uniform discount on q in the ratio test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nsd_local import checks
from nsd_local.verification.vector_rule import Vector, VectorRule

if TYPE_CHECKING:
    from nsd_local.verification.laws import Laws


@dataclass(frozen=True, slots=True)
class Lenience(VectorRule):
    """Keep x with min(1, p(x) / (l q(x))), l in (0, 1]; else draw from [p-q]+ (arXiv 2211.17192, appendix A.5).

    No token is emitted with more than p(x)/l. l = 1 is exact.
    """

    l: float = 0.5  # noqa: E741 (the paper's symbol)

    name: ClassVar[str] = "lenience"
    formula: ClassVar[str] = "keep x with min(1, p/(l q)); else draw from [p-q]+"
    source: ClassVar[str] = "arXiv 2211.17192, A.5"

    def __post_init__(self) -> None:
        checks.number(self, "l", lambda value: 0.0 < value <= 1.0, "lie in (0, 1]")

    def acceptance(self, at: Laws) -> Vector:
        return at.ratio(at.p, at.q, self.l)

    def recovery(self, at: Laws) -> Vector:
        return at.above(at.p, at.q)
