"""An answer seen position by position: how far the two laws are apart there. What a simulation replays."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nsd_local.decoding.records_io import Recording
from nsd_local.errors import UsageError
from nsd_local.verification.block import NucleusBlock
from nsd_local.verification.rule import Exact, Nucleus, Rule

UNKNOWN = math.nan


@dataclass(frozen=True, slots=True)
class Trace:
    """n positions of one answer. Entries are NaN where they are not known.

    A position's laws depend on the text before it only, not on how rounds were cut, so that other draft
    lengths and rules can be replayed on them (the text that another rule would have written may differ, of
    course).
    """

    prompt_tokens: int
    divergence: tuple[float, ...]  # (n,) TV(p, q)
    excess: Mapping[float, tuple[float, ...]]  # theta -> (n,) E_S
    match: tuple[float, ...] = ()  # (n,) p of q's likeliest token
    entropy: tuple[float, ...] = ()  # (n,) of q, in nats
    about: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.divergence)

    def acceptance(self, rule: Rule, exact_first: int = 0) -> list[float]:
        """(n,) acceptance probability of a draft at each position under `rule`, judged token by token (judged together,
        a round keeps a little more).

        Unknown positions (the bonus tokens of a recording) get the mean of their known neighbours. Raises
        UsageError where the trace does not hold what the rule needs.
        """
        exact = [1.0 - distance for distance in self.divergence]
        if isinstance(rule, Exact):
            values = exact
        elif isinstance(rule, Nucleus):
            spent = [_spent(rule, value) for value in self._excess(rule.theta)]
            values = [kept + more for kept, more in zip(exact, spent, strict=True)]
            values[:exact_first] = exact[:exact_first]
        elif rule.name == "match" and self.match:
            values = list(self.match)
        else:
            raise UsageError(
                f"rule {rule.name} cannot be predicted from these rounds",
                "they hold the acceptance of exact and nucleus only",
                "Simulate one of those, or measure the rule itself with bench",
            )
        return _filled(values)

    def _excess(self, theta: float) -> list[float]:
        """E_S at theta, interpolated between two thetas that were measured."""
        known = sorted(self.excess)
        if theta in self.excess:
            return list(self.excess[theta])
        above = bisect_left(known, theta)
        if not 0 < above < len(known):
            held = ", ".join(map(str, known)) or "none"
            raise UsageError(
                f"theta {theta} cannot be predicted from these rounds",
                f"they hold theta {held}, and it does not lie between two of them",
                "Record rounds at that theta, or with --profile, which measures many",
            )
        low, high = known[above - 1], known[above]
        share = (theta - low) / (high - low)
        pairs = zip(self.excess[low], self.excess[high], strict=True)
        return [a * (1 - share) + b * share for a, b in pairs]

    @classmethod
    def of(cls, recording: Recording) -> Trace:
        """Reads the positions out of round records. How a round was judged does not matter: the laws at a position are
        those that follow the text before it."""
        profile = recording.about.get("profile")
        if profile is not None:
            return cls.from_profile(profile, recording.about)
        divergence: list[float] = []
        excess: list[float] = []
        for round in recording.rounds:
            emitted = len(round.tokens)
            known = min(emitted, len(round.divergence))
            divergence += [*round.divergence[:known], *[UNKNOWN] * (emitted - known)]
            excess += [*round.excess[:known], *[UNKNOWN] * (emitted - known)]
        theta = _theta(recording.about)
        start = recording.rounds[0].n_past + 1 if recording.rounds else 0
        return cls(
            start,
            tuple(divergence),
            {} if theta is None else {float(theta): tuple(excess)},
            about=recording.about,
        )

    @classmethod
    def from_profile(cls, data: Mapping[str, Any], about: Mapping[str, Any]) -> Trace:
        return cls(
            int(data["prompt_tokens"]),
            tuple(data["divergence"]),
            {float(theta): tuple(values) for theta, values in data["excess"].items()},
            tuple(data["match"]),
            tuple(data["entropy"]),
            about,
        )

    def to_profile(self) -> dict[str, Any]:
        """What `from_profile` reads; only for a trace without unknown positions."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "divergence": list(self.divergence),
            "excess": {str(theta): list(values) for theta, values in self.excess.items()},
            "match": list(self.match),
            "entropy": list(self.entropy),
        }


def _theta(about: Mapping[str, Any]) -> float | None:
    """The nucleus threshold that the rounds were measured with: named, or that of the arm of a benchmark."""
    if about.get("theta") is not None:
        return float(about["theta"])
    if about.get("rule") not in (Nucleus.name, NucleusBlock.name):
        return None
    named = re.search(r"theta=([\d.]+)", str(about.get("arm", "")))
    return float(named[1]) if named else float(about.get("rule_parameters", {}).get("theta", Nucleus().theta))


def _spent(rule: Nucleus, excess: float) -> float:
    """What the rule spends at a position: strength * E_S, at most the cap."""
    spent = rule.strength * excess
    return spent if rule.cap is None else min(spent, rule.cap)


def _filled(values: Sequence[float]) -> list[float]:
    known = [i for i, value in enumerate(values) if not math.isnan(value)]
    if not known:
        raise UsageError("These rounds say nothing about acceptance", "nothing was drafted, or the meter was off")
    filled = []
    for i, value in enumerate(values):
        if math.isnan(value):
            after = bisect_left(known, i)
            near = [values[j] for j in known[max(0, after - 1) : after + 1]]
            value = sum(near) / len(near)
        filled.append(min(1.0, max(0.0, value)))
    return filled
