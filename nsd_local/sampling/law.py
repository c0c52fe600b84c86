"""How logits become a probability law."""

from __future__ import annotations

from dataclasses import dataclass

from nsd_local import checks

MOST_TEMPERATURE = checks.LARGEST  # a uniform law long before; far above, 1/T vanishes in float32


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
        most = f"be 0 or more, and at most {MOST_TEMPERATURE:g}"
        checks.number(self, "temperature", lambda value: 0.0 <= value <= MOST_TEMPERATURE, most)
        checks.whole(self, "top_k", must="be 0 (off) or more")
        checks.number(self, "top_p", lambda value: 0.0 < value <= 1.0, "lie in (0, 1]")
        checks.number(self, "min_p", lambda value: 0.0 <= value <= 1.0, "lie in [0, 1]")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0
