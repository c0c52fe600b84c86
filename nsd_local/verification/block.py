"""Block verification: the drafts of a round are judged together, so that more of them survive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nsd_local import checks
from nsd_local.verification.rule import Rule, check_share


@dataclass(frozen=True, slots=True)
class Block(Rule):
    """Block verification (arXiv 2403.10444): lossless, keeps at least as much as `exact` in expectation.

    w_0 = 1, w_i = min(1, w_{i-1} p(x_i)/q(x_i)); R_i = sum over v of [w_i p_{i+1}(v) - q_{i+1}(v)]+;
    h_i = R_i / (R_i + 1 - w_i) for i < k, h_k = w_k. The longest prefix i with u_i < h_i is kept, then a token of
    [w_i p_{i+1} - q_{i+1}]+ is drawn, or one of p after all k.
    """

    name: ClassVar[str] = "block"
    formula: ClassVar[str] = "keep the longest prefix i with u_i < h_i; else draw from [w_i p - q]+"
    source: ClassVar[str] = "arXiv 2403.10444"
    lossless: ClassVar[bool] = True
    works_at_zero: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class NucleusBlock(Rule):
    """NSD composed with block verification: NSD's output law in the place of p at drafted positions, p at the bonus.

    pi = p + strength (1_S [q-p]+ - (E_S / D) [p-q]+) with D = TV(p, q): the very law that `nucleus` emits, so every
    position deviates by strength * E_S as there. Parameters as in `nucleus`; strength 0 is `block`. A kept token counts
    as `ratio` if the recursion with p in the place of pi keeps it with the same uniforms, else as `nucleus`.
    """

    theta: float = 0.9
    strength: float = 1.0
    cap: float | None = None

    name: ClassVar[str] = "nucleus-block"
    formula: ClassVar[str] = "block verification of pi = p + strength (1_S [q-p]+ - (E_S/D) [p-q]+)"
    source: ClassVar[str] = "arXiv 2610.07822 with 2403.10444"

    def __post_init__(self) -> None:
        check_share("theta", self.theta)
        check_share("strength", self.strength)
        checks.number(self, "cap", lambda value: value >= 0.0, "be 0 or more", optional=True)
