"""A verification rule: the settings that decide which drafted tokens are kept. The base, and the two core rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from nsd_local import checks
from nsd_local.sampling.law import Law


class Rule:
    """Common face of all rules. Every rule is a frozen dataclass of its parameters.

    What a listing shows: `name` (the word after --rule), `formula`, `source`, `lossless` (the emitted tokens follow
    the target's law exactly), `works_at_zero` (at temperature 0 it does something other than strict greedy matching,
    or is exact there by design).
    """

    __slots__ = ()

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str]
    lossless: ClassVar[bool] = False
    works_at_zero: ClassVar[bool] = False
    greedy_draft: ClassVar[bool] = False  # drafts are the draft law's argmax, so q is a point mass at the token
    drafts: ClassVar[bool] = True  # False: the rule decodes plainly, k is 0
    takes_budget: ClassVar[bool] = True  # False: what it deviates cannot be bounded over a request

    def start(self) -> Any:
        """What the rule must remember over one request, handed to every verification of it as `memory`; or None."""
        return None

    def check_law(self, law: Law) -> None:
        """Raises UsageError where the rule cannot work under these settings."""


@dataclass(frozen=True, slots=True)
class Exact(Rule):
    """Speculative sampling (arXiv 2211.17192, 2302.01318): keep x with min(1, p(x)/q(x)), else draw from [p-q]+."""

    name: ClassVar[str] = "exact"
    formula: ClassVar[str] = "keep x with min(1, p/q); else draw from [p-q]+"
    source: ClassVar[str] = "arXiv 2211.17192, 2302.01318"
    lossless: ClassVar[bool] = True
    works_at_zero: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Match(Rule):
    """llama.cpp's own rule: draft the argmax of q, draw y from p, keep the draft while y equals it.

    Drawing y from p is the same as keeping x with p(x) and otherwise drawing from p without x: exact verification of
    a point-mass draft, which is how it runs here, so that it uses the same uniforms as every other rule.
    """

    name: ClassVar[str] = "match"
    formula: ClassVar[str] = "draft argmax q; keep x with p; else draw from p without x"
    source: ClassVar[str] = "llama.cpp, common/sampling.cpp (sample and accept)"
    lossless: ClassVar[bool] = True
    works_at_zero: ClassVar[bool] = True
    greedy_draft: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Nucleus(Rule):
    """Nucleus Speculative Decoding (arXiv 2610.07822): keep x by the ratio test, or because it lies in S_theta(p).

    `theta` is the mass of the target's nucleus S_theta(p). `strength` (lambda) is the share of nucleus tokens kept
    after a failed ratio test: 1 is the paper's rule, 0 is exact. `cap` bounds the deviation of each single token:
    strength becomes min(strength, cap / E_S) there. This is the token-wise form; a request runs it as `nucleus-block`
    unless it asks otherwise (`Settings.block`).
    """

    theta: float = 0.9
    strength: float = 1.0
    cap: float | None = None

    name: ClassVar[str] = "nucleus"
    formula: ClassVar[str] = "keep x with min(1, p/q), or with strength if x is in S_theta(p); else draw from [p-q]+"
    source: ClassVar[str] = "arXiv 2610.07822"

    def __post_init__(self) -> None:
        check_share("theta", self.theta)
        check_share("strength", self.strength)
        checks.number(self, "cap", lambda value: value >= 0.0, "be 0 or more", optional=True)


def check_share(name: str, value: float) -> None:
    """Raises UsageError unless the value lies in [0, 1]."""
    checks.as_number(name, value, lambda share: 0.0 <= share <= 1.0, "lie in [0, 1]")
