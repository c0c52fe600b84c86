"""Does automatic drafting keep its promises on this machine? What a benchmark's rows must show."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nsd_local.decoding.costs import Costs, Curve
from nsd_local.decoding.records import Round
from nsd_local.decoding.records_io import Recording
from nsd_local.decoding.settings import Settings
from nsd_local.measure.arms import PLAIN, parse_arm
from nsd_local.measure.bench import paired, total_speed
from nsd_local.measure.confidence import median
from nsd_local.measure.runner import Row
from nsd_local.measure.simulate import predict
from nsd_local.measure.trace import Trace

ENOUGH = 5  # passes of a width that make a median
REPEATING = ("code", "edit")  # kinds of prompts whose answers a small model foresees; the others are open text


@dataclass(frozen=True, slots=True)
class Check:
    """One promise: a measured ratio and the least (and the most) it must be."""

    what: str
    value: float
    least: float
    most: float = math.inf

    @property
    def kept(self) -> bool:
        return self.least <= self.value <= self.most

    @property
    def limits(self) -> str:
        return f"at least {self.least:g}" + (f", at most {self.most:g}" if self.most < math.inf else "")


def of_arm(rows: Iterable[Row], arm: str, kinds: Sequence[str]) -> list[Row]:
    return [row for row in rows if row["arm"] == arm and row["prompt_kind"] in kinds]


def gain(rows: Sequence[Row], arm: str, base: str, kinds: Sequence[str]) -> float:
    """Median over paired runs (same prompt, seed, repeat) of the ratio of tokens per second. NaN of nothing."""
    return median(paired(of_arm(rows, arm, kinds), of_arm(rows, base, kinds)))


def together(rows: Sequence[Row], arm: str, base: str, kinds: Sequence[str]) -> float:
    """Ratio of tokens per second over all runs of these kinds as if they were one. NaN of nothing."""
    mine, theirs = (total_speed(of_arm(rows, name, kinds)) for name in (arm, base))
    return mine / theirs if mine and theirs else math.nan


def best_fixed(rows: Sequence[Row], auto: str, kinds: Sequence[str]) -> str | None:
    """The fixed draft length of the same rule that is fastest on these kinds of prompts."""
    rule = auto.partition(":")[0]
    said = re.compile(rf"{rule}:k=\d+")
    arms = {row["arm"] for row in rows if row["prompt_kind"] in kinds and said.fullmatch(row["arm"])}
    return max(arms, key=lambda arm: gain(rows, arm, PLAIN, kinds), default=None)


def near_best(rows: Sequence[Row], auto: str, kinds: Sequence[str]) -> dict[str, bool]:
    """By kind of prompt: is `auto` at least 0.95 times as fast as the fixed draft length that is fastest on it?"""
    fixed = {kind: best_fixed(rows, auto, [kind]) for kind in kinds if of_arm(rows, auto, [kind])}
    return {kind: gain(rows, auto, arm, [kind]) >= 0.95 for kind, arm in fixed.items() if arm}


def kinds_of(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["prompt_kind"] for row in rows if row["arm"] != "drift"))


def checks_where_drafting_pays(rows: Sequence[Row]) -> list[Check]:
    """Of a pair whose target verifies cheaply: gains over plain decoding, the best fixed length, and `match`."""
    kinds = kinds_of(rows)
    easy, open_text = [k for k in kinds if k in REPEATING], [k for k in kinds if k not in REPEATING]
    found = []
    for auto, least in (("nucleus:k=auto", (2.0, 1.4)), ("exact:k=auto", (1.9, 1.25))):
        for name, group, limit in (("code and edit", easy, least[0]), ("open text", open_text, least[1])):
            if group:
                found += _gains(rows, auto, PLAIN, name, group, limit)
        if near := near_best(rows, auto, kinds):
            what = f"kinds where {auto} is within 5 % of the best fixed k"
            found.append(Check(what, sum(near.values()), min(6, len(near))))
    match = best_fixed(rows, "match", open_text)
    if match:
        found += _gains(rows, "nucleus:k=auto", match, "open text", open_text, 1.2)
    return found


def _gains(rows: Sequence[Row], arm: str, base: str, name: str, kinds: Sequence[str], least: float) -> list[Check]:
    """On a group of kinds, counted in two ways: all tokens over all time, and prompt by prompt."""
    return [
        Check(f"{arm} / {base} on {name}, together", together(rows, arm, base, kinds), least),
        Check(f"{arm} / {base} on {name}, median", gain(rows, arm, base, kinds), least),
    ]


def checks_where_it_may_not(rows: Sequence[Row], auto: str = "nucleus:k=auto") -> list[Check]:
    """Of any pair: never slower than plain decoding."""
    return [Check(f"{auto} / plain on {kind}", gain(rows, auto, PLAIN, [kind]), 0.97) for kind in kinds_of(rows)]


def costs_of_run(recordings: Sequence[Recording]) -> Costs | None:
    """What passes cost while this was recorded: medians by width. None where not only a draft model drafted, or too
    little is known.

    A calibration of another hour would mix up two things: how good a simulation is, and how steady the machine.
    """
    rounds = [one for recording in recordings for one in recording.rounds]
    drafting, plain = [one for one in rounds if one.k], [one for one in rounds if not one.k]
    if not drafting or not plain or any(one.source != "model" for one in drafting):
        return None
    widths: dict[int, list[float]] = {}
    for one in rounds:
        widths.setdefault(one.k + 1, []).append(one.times.verify)
    verify = {n: median(times) for n, times in widths.items() if len(times) >= ENOUGH or n == 1}
    step = median([one.times.draft / one.k for one in drafting])
    base = median([_rest(one) for one in plain])
    each = median([(_rest(one) - base) / one.k for one in drafting])
    return Costs((Curve(rounds[0].n_past, verify, {1: step}),), (base, max(0.0, each)), "measured during the run")


def _rest(round: Round) -> float:
    return round.times.accept + round.times.rollback + round.times.other


def checks_of_simulation(
    rows: Sequence[Row],
    recordings: Sequence[Recording],
    *,
    rule: str = "nucleus:block=0",
    recorded: int = 7,
    lengths: Sequence[int] = (2, 4, 7),
    exact_first: int = 2,
) -> list[Check]:
    """Tokens per second over all prompts as `simulate` predicts them from the rounds of one draft length and the costs
    of this run, against what was measured at each length. Empty where lookup drafted too."""
    costs = costs_of_run([one for one in recordings if one.about.get("arm") in (PLAIN, *_fixed(rule, lengths))])
    if costs is None:
        return []
    traces = [Trace.of(one) for one in recordings if one.about.get("arm") in _fixed(rule, [recorded]) and one.rounds]
    found = []
    for k, arm in zip(lengths, _fixed(rule, lengths), strict=True):
        measured = total_speed([row for row in rows if row["arm"] == arm])
        if traces and measured:
            judged = parse_arm(arm, Settings()).settings.rule
            expected = predict(traces, costs, k, judged, exact_first=exact_first).tokens_per_second
            found.append(Check(f"predicted / measured, {arm}", expected / measured, 0.9, 1.1))
    return found


def _fixed(rule: str, lengths: Sequence[int]) -> list[str]:
    return [f"{rule}{',' if ':' in rule else ':'}k={k}" for k in lengths]


def checks_of_lookup(rows: Sequence[Row], auto: str = "nucleus:k=auto") -> list[Check]:
    """Of prompt lookup on texts that repeat."""
    return [Check(f"{auto} / plain on {kind}", gain(rows, auto, PLAIN, [kind]), 1.5) for kind in kinds_of(rows)]
