"""How logits become a probability law."""

from __future__ import annotations

from dataclasses import dataclass

from nsd_local.errors import UsageError


@dataclass(frozen=True, slots=True)
class Law:
    """The settings that shape a row of logits into a law, the same for the target's p and the draft's q.

    Applied in llama.cpp's order: top-k, top-p, min-p, temperature last, then softmax over what is left.
    Ties are broken by lower token id; `-inf` logits have probability 0; temperature 0 is a point mass at the
    first maximum.
    """

    temperature: float = 1.0
    top_k: int = 0  # 0 keeps all
    top_p: float = 1.0  # 1 keeps all
    min_p: float = 0.0  # 0 keeps all

    def __post_init__(self) -> None:
        if not self.temperature >= 0.0 or self.temperature == float("inf"):
            raise UsageError(f"temperature must be 0 or more, not {self.temperature}")
        if self.top_k < 0:
            raise UsageError(f"top-k must be 0 (off) or more, not {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top-p must lie in (0, 1], not {self.top_p}")
        if not 0.0 <= self.min_p <= 1.0:
            raise UsageError(f"min-p must lie in [0, 1], not {self.min_p}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0
