"""Rules that keep what stands on the target's short list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nsd_local import checks
from nsd_local.verification.rule import check_share
from nsd_local.verification.vector_rule import Vector, VectorRule

if TYPE_CHECKING:
    from nsd_local.verification.laws import Laws


@dataclass(frozen=True, slots=True)
class TopK(VectorRule):
    """Keep x if it is among the target's `n` most probable tokens; else draw from p.

    Ties by lower id, and only tokens with p(x) > 0. At temperature 0 it is strict greedy matching.
    """

    n: int = 3

    name: ClassVar[str] = "topk"
    formula: ClassVar[str] = "keep x if p is among the n largest; else draw from p"
    source: ClassVar[str] = "arXiv 1811.03115 (top-k selection)"

    def __post_init__(self) -> None:
        checks.whole(self, "n", 1)

    def acceptance(self, at: Laws) -> Vector:
        return at.shortlist(self.n)

    def recovery(self, at: Laws) -> Vector:
        return at.p


@dataclass(frozen=True, slots=True)
class Relaxed(VectorRule):
    """TensorRT-LLM's relaxed acceptance: keep x if it is in the target's top `n` and p(x) >= max p - delta.

    Else draw from p. Only tokens with p(x) > 0. At temperature 0 it is strict greedy matching.
    """

    n: int = 10
    delta: float = 0.6

    name: ClassVar[str] = "relaxed"
    formula: ClassVar[str] = "keep x if in the top n and p >= max p - delta; else draw from p"
    source: ClassVar[str] = "TensorRT-LLM, relaxed acceptance of its MTP decoding"

    def __post_init__(self) -> None:
        checks.whole(self, "n", 1)
        check_share("delta", self.delta)

    def acceptance(self, at: Laws) -> Vector:
        return at.shortlist(self.n, at.best - self.delta)

    def recovery(self, at: Laws) -> Vector:
        return at.p
