"""What a pass costs on this machine: measured points, not a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nsd_local.errors import UsageError


@dataclass(frozen=True, slots=True)
class Curve:
    """Measured seconds with `context` tokens in memory.

    `verify[n]` is one target pass over n tokens with n rows of logits; `draft[n]` is one draft pass over n
    tokens with one row. `draft` is empty where the pair has no draft model.
    """

    context: int
    verify: Mapping[int, float]
    draft: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Costs:
    """The curves of one pair on one machine, by rising context. The first one holds every measured n; the others may
    hold fewer: where one lacks an n, the first curve's time is shifted by what the longer context adds to the
    nearest n that both have.

    Between two measured contexts the same n is interpolated linearly; outside them the nearest curve holds.
    Across n nothing is interpolated, because these curves are not smooth: a pass over an n that was not
    measured is taken to cost what the next larger measured n costs, and past the largest measured n each
    further token what a token of that largest pass costs. `overhead` is the rest of a round in seconds:
    (per round, per drafted token).
    """

    curves: tuple[Curve, ...]
    overhead: tuple[float, float] = (0.0, 0.0)
    note: str = ""  # where and how measured

    def __post_init__(self) -> None:
        if not self.curves:
            raise UsageError("a cost curve needs at least one measured context")
        for curve in self.curves:
            if 1 not in curve.verify:
                raise UsageError(f"the cost curve at context {curve.context} lacks the pass over 1 token")
            points = [*curve.verify.items(), *curve.draft.items()]
            if any(n < 1 or not 0.0 < seconds < float("inf") for n, seconds in points):
                raise UsageError(f"the cost curve at context {curve.context} has a point that is not a time")
        contexts = [curve.context for curve in self.curves]
        if contexts != sorted(set(contexts)):
            raise UsageError("cost curves must be given by rising context")

    @property
    def widths(self) -> tuple[int, ...]:
        """The measured pass widths n."""
        return tuple(sorted(self.curves[0].verify))

    @property
    def has_draft(self) -> bool:
        return all(curve.draft for curve in self.curves)

    def verify(self, n: int, context: int) -> float:
        """Seconds of one target pass over n tokens with `context` tokens in memory."""
        first = self.curves[0].verify
        return self._at(context, [_shifted(first, curve.verify, n) for curve in self.curves])

    def draft(self, n: int, context: int) -> float:
        """Seconds of one draft pass over n tokens; 0 where the pair has no draft model."""
        if not self.has_draft:
            return 0.0
        first = self.curves[0].draft
        return self._at(context, [_shifted(first, curve.draft, n) for curve in self.curves])

    def drafting(self, k: int, context: int, pending: int = 1) -> float:
        """Seconds to draft k tokens with a draft model that has `pending` tokens to read first."""
        return self.draft(pending, context) + (k - 1) * self.draft(1, context) if k else 0.0

    def round(self, k: int, context: int, *, source: str = "model", pending: int = 1) -> float:
        """Seconds of a whole round that drafts k tokens; only a draft model costs time to draft."""
        draft = self.drafting(k, context, pending) if source == "model" else 0.0
        return draft + self.verify(k + 1, context) + self.overhead[0] + k * self.overhead[1]

    def _at(self, context: int, seconds: list[float]) -> float:
        """Linear between the measured contexts, constant outside."""
        curves = self.curves
        if context <= curves[0].context:
            return seconds[0]
        for i in range(1, len(curves)):
            low, high = curves[i - 1].context, curves[i].context
            if context <= high:
                share = (context - low) / (high - low)
                return seconds[i - 1] * (1 - share) + seconds[i] * share
        return seconds[-1]

    def to_dict(self) -> dict[str, Any]:
        return {
            "note": self.note,
            "overhead": list(self.overhead),
            "curves": [
                {
                    "context": curve.context,
                    "verify": {str(n): seconds for n, seconds in sorted(curve.verify.items())},
                    "draft": {str(n): seconds for n, seconds in sorted(curve.draft.items())},
                }
                for curve in self.curves
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Costs:
        """Raises UsageError where `data` is not what `to_dict` gives."""
        try:
            curves = tuple(
                Curve(
                    int(curve["context"]),
                    {int(n): float(seconds) for n, seconds in curve["verify"].items()},
                    {int(n): float(seconds) for n, seconds in curve.get("draft", {}).items()},
                )
                for curve in data["curves"]
            )
            base, each = data.get("overhead", (0.0, 0.0))
            return cls(curves, (float(base), float(each)), str(data.get("note", "")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                "this is not a cost curve",
                f"{type(error).__name__}: {error}",
                'It needs {"curves": [{"context": 0, "verify": {"1": seconds}, "draft": {"1": seconds}}]}.',
            ) from error


def _shifted(first: Mapping[int, float], points: Mapping[int, float], n: int) -> float:
    """The time at n in `points`, a curve that may lack some of the measured n of `first`."""
    if n in points or points is first:
        return _point(points, n)
    near = min(points, key=lambda m: abs(m - n))
    return max(_point(first, n) + points[near] - _point(first, near), points[near] if near < n else 0.0)


def _point(points: Mapping[int, float], n: int) -> float:
    """The measured time at n, or at the next larger measured n; past the largest, in proportion to n."""
    if n in points:
        return points[n]
    larger = [m for m in points if m > n]
    if larger:
        return points[min(larger)]
    last = max(points)
    return points[last] * n / last
