"""A verification rule: the settings that decide which drafted tokens are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from nsd_local.errors import UsageError


class Rule(Protocol):
    """Common face of all rules. Every rule is a frozen dataclass of its parameters."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]  # the word after --rule
    lossless: ClassVar[bool]


@dataclass(frozen=True, slots=True)
class Exact:
    """Speculative sampling (arXiv 2211.17192, 2302.01318): keep x with min(1, p(x)/q(x)), else draw from
    [p-q]+.
    """

    name: ClassVar[str] = "exact"
    lossless: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Nucleus:
    """Nucleus Speculative Decoding (arXiv 2610.07822): keep x by the ratio test, or because it lies in the
    target's
    nucleus S_theta(p).

    `strength` (lambda) is the share of nucleus tokens kept after a failed ratio test: 1 is the paper's rule,
    0 is exact.
    `cap` bounds the deviation of each single token: strength becomes min(strength, cap / E_S) there.
    """

    theta: float = 0.9
    strength: float = 1.0
    cap: float | None = None

    name: ClassVar[str] = "nucleus"
    lossless: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.theta <= 1.0:
            raise UsageError(f"theta must lie in [0, 1], not {self.theta}")
        if not 0.0 <= self.strength <= 1.0:
            raise UsageError(f"strength must lie in [0, 1], not {self.strength}")
        if self.cap is not None and not self.cap >= 0.0:
            raise UsageError(f"cap must be 0 or more, not {self.cap}")
