"""Does automatic drafting keep its promises on this machine? What a benchmark's rows must show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nsd_local.decoding.costs import Costs
from nsd_local.decoding.records_io import Recording
from nsd_local.measure.arms import PLAIN
from nsd_local.measure.bench import paired
from nsd_local.measure.confidence import median
from nsd_local.measure.runner import Row
from nsd_local.measure.simulate import predict
from nsd_local.measure.trace import Trace
from nsd_local.verification.rules import parse

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


def best_fixed(rows: Sequence[Row], auto: str, kinds: Sequence[str]) -> str | None:
    """The fixed draft length of the same rule that is fastest on these kinds of prompts."""
    rule = auto.partition(":")[0]
    arms = {row["arm"] for row in rows if row["arm"] != auto and row["arm"].partition(":")[0] == rule}
    return max(arms, key=lambda arm: gain(rows, arm, PLAIN, kinds), default=None)


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
                found.append(Check(f"{auto} / plain on {name}", gain(rows, auto, PLAIN, group), limit))
        for kind in kinds:
            fixed = best_fixed(rows, auto, [kind])
            if fixed:
                found.append(Check(f"{auto} / {fixed} on {kind}", gain(rows, auto, fixed, [kind]), 0.95))
    match = best_fixed(rows, "match", open_text)
    if match:
        ratio = gain(rows, "nucleus:k=auto", match, open_text)
        found.append(Check(f"nucleus:k=auto / {match} on open text", ratio, 1.2))
    return found


def checks_where_it_may_not(rows: Sequence[Row], auto: str = "nucleus:k=auto") -> list[Check]:
    """Of any pair: never slower than plain decoding."""
    return [Check(f"{auto} / plain on {kind}", gain(rows, auto, PLAIN, [kind]), 0.97) for kind in kinds_of(rows)]


def checks_of_simulation(
    rows: Sequence[Row],
    recordings: Sequence[Recording],
    costs: Costs,
    *,
    rule: str = "nucleus",
    recorded: int = 7,
    lengths: Sequence[int] = (2, 4, 7),
    exact_first: int = 2,
) -> list[Check]:
    """Tokens per second over all prompts as `simulate` predicts them from the rounds of one draft length, against what
    was measured at each length."""
    traces = [Trace.of(one) for one in recordings if one.about.get("arm") == f"{rule}:k={recorded}" and one.rounds]
    found = []
    for k in lengths:
        mine = [row for row in rows if row["arm"] == f"{rule}:k={k}" and row.get("predicted_ms")]
        if traces and mine:
            measured = 1e3 * sum(row["predicted_n"] for row in mine) / sum(row["predicted_ms"] for row in mine)
            expected = predict(traces, costs, k, parse(rule), exact_first=exact_first).tokens_per_second
            found.append(Check(f"predicted / measured, {rule}:k={k}", expected / measured, 0.9, 1.1))
    return found


def checks_of_lookup(rows: Sequence[Row], auto: str = "nucleus:k=auto") -> list[Check]:
    """Of prompt lookup on texts that repeat."""
    return [Check(f"{auto} / plain on {kind}", gain(rows, auto, PLAIN, [kind]), 1.5) for kind in kinds_of(rows)]
