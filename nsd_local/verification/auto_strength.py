"""NSD at a deviation per token that the user sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nsd_local import checks
from nsd_local.verification.rule import Rule, check_share


@dataclass(slots=True)
class Allowance:
    """What `auto-strength` may still spend: every emitted token adds the target deviation, every position spends."""

    balance: float = 0.0


@dataclass(frozen=True, slots=True)
class AutoStrength(Rule):
    """NSD (arXiv 2610.07822) whose strength is chosen per position so that the deviation per token is `deviation`.

    Each emitted token earns `deviation`; a position spends strength * E_S, with strength = min(1, earned / E_S). So
    the sum over a request never exceeds deviation times tokens, and reaches it wherever the nucleus leaves enough to
    spend. The choice uses only what was known before the drafted token was drawn, so each position's law deviates by
    exactly what is reported. deviation 0 is exact.
    """

    deviation: float = 0.02
    theta: float = 0.9

    name: ClassVar[str] = "auto-strength"
    formula: ClassVar[str] = "nucleus with strength = min(1, earned/E_S), earning deviation per token"
    source: ClassVar[str] = "nucleus (arXiv 2610.07822) with a running allowance"

    def __post_init__(self) -> None:
        check_share("theta", self.theta)
        checks.number(self, "deviation", lambda value: value >= 0.0, "be 0 or more")

    def start(self) -> Allowance:
        return Allowance()
