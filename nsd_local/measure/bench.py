"""Throughput with and without drafting: warm-up, runs that take turns, a check for drift, and a summary."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nsd_local.api import Engine
from nsd_local.decoding.decoder import never
from nsd_local.decoding.settings import Settings
from nsd_local.measure.arms import PLAIN, Arm, parse_arm
from nsd_local.measure.campaign import Campaign, Say, run_all, silent
from nsd_local.measure.confidence import median, quantile
from nsd_local.measure.journal import Journal
from nsd_local.measure.runner import Row, row, run
from nsd_local.measure.setup import setup

WARM_UP_TOKENS = 16
DRIFT_TOKENS, DRIFT_REPEATS, DRIFT_LIMIT = 48, 3, 0.05
ALL = "all"


@dataclass(frozen=True, slots=True)
class Bench:
    """The rows of a benchmark. `drift` is None where nothing was left to run."""

    rows: list[Row]
    drift: Row | None

    def summaries(self) -> list[Row]:
        drifted = None if self.drift is None else self.drift["drifted"]
        return [{**values, "drifted": drifted} for values in summarise(self.rows)]


def bench(
    engine: Engine,
    campaign: Campaign,
    journal: Journal | None = None,
    *,
    say: Say = silent,
    cancelled: Callable[[], bool] = never,
    drift_tokens: int = DRIFT_TOKENS,
) -> Bench:
    """Runs what the journal lacks of a campaign. Raises Cancelled; what was finished is in the journal then."""
    if campaign.complete(journal):
        say("all runs are there already")
        return Bench(list(run_all(engine, campaign, journal)), None)
    warm_up(engine, campaign)
    before = plain_speed(engine, campaign, drift_tokens)
    rows = list(run_all(engine, campaign, journal, say=say, cancelled=cancelled))
    drift = _drift(before, plain_speed(engine, campaign, drift_tokens), setup(engine))
    if journal is not None:
        journal.append({**drift, "repeat": sum(record["arm"] == "drift" for record in journal.records)})
    if drift["drifted"]:
        say(f"the machine drifted: plain decoding went from {before:.1f} to {drift['after_ts']:.1f} tok/s")
    return Bench(rows, drift)


def warm_up(engine: Engine, campaign: Campaign) -> None:
    """A short run of each arm that does not count: compiled kernels, mapped pages, clock speed."""
    for arm in campaign.arms:
        tokens = min(WARM_UP_TOKENS, arm.settings.max_tokens or WARM_UP_TOKENS)
        short = Arm(arm.name, replace(arm.settings, max_tokens=tokens))
        run(engine, short, campaign.prompts[0], 0, system=campaign.system)


def plain_speed(engine: Engine, campaign: Campaign, tokens: int) -> float:
    """Tokens per second of plain decoding now: the median of a few short runs of the first prompt."""
    base = campaign.arms[0].settings if campaign.arms else Settings()
    arm = parse_arm(PLAIN, replace(base, max_tokens=tokens))
    runs = [run(engine, arm, campaign.prompts[0], 0, system=campaign.system) for _ in range(DRIFT_REPEATS)]
    return median([row(one, {}).get("predicted_per_second") or 0.0 for one in runs])


def _drift(before: float, after: float, where: Row) -> Row:
    """A-B-A: plain decoding before and after all the rest."""
    change = after / before - 1.0 if before else 0.0
    return {
        "arm": "drift",
        "prompt": "drift",
        "seed": 0,
        "before_ts": before,
        "after_ts": after,
        "change": change,
        "drifted": abs(change) > DRIFT_LIMIT,
        **where,
    }


def summarise(rows: Iterable[Row]) -> list[Row]:
    """One row per prompt kind and arm, and one per arm over all kinds, with the spread over the runs."""
    rows = [values for values in rows if values["arm"] != "drift"]
    kinds = list(dict.fromkeys(values["prompt_kind"] for values in rows))
    arms = list(dict.fromkeys(values["arm"] for values in rows))
    arms.sort(key=lambda name: name != PLAIN)  # arms take turns in starting; plain is told first
    groups = [(kind, [values for values in rows if values["prompt_kind"] == kind]) for kind in kinds]
    if len(kinds) > 1:
        groups.append((ALL, rows))
    return [_summary(kind, arm, group) for kind, group in groups for arm in arms if _of(group, arm)]


def overall(rows: Sequence[Row]) -> list[Row]:
    """One row per arm over all kinds."""
    rows = [values for values in rows if values["arm"] != "drift"]
    return [_summary(ALL, arm, rows) for arm in dict.fromkeys(values["arm"] for values in rows)]


def _of(rows: Sequence[Row], arm: str) -> list[Row]:
    return [values for values in rows if values["arm"] == arm]


def _summary(kind: str, arm: str, rows: Sequence[Row]) -> Row:
    mine = _of(rows, arm)
    good = [values for values in mine if values.get("predicted_per_second")]
    speeds = [values["predicted_per_second"] for values in good]
    ratios = paired(good, _of(rows, PLAIN))
    tokens, rounds = _sum(good, "predicted_n"), _sum(good, "rounds")
    drafted = _sum(good, "draft_n")
    finished = [values for values in good if values.get("finish_reason") in ("stop", "stop_string")]
    return {
        "prompt_kind": kind,
        "arm": arm,
        "n_runs": len(mine),
        "n_failed": len(mine) - len(good),
        "avg_ts": statistics.fmean(speeds) if speeds else None,
        "stddev_ts": statistics.stdev(speeds) if len(speeds) > 1 else 0.0,
        "median_ts": _spread(speeds, 0.5),
        "q1_ts": _spread(speeds, 0.25),
        "q3_ts": _spread(speeds, 0.75),
        "total_ts": total_speed(good),
        "speedup": _spread(ratios, 0.5),
        "speedup_q1": _spread(ratios, 0.25),
        "speedup_q3": _spread(ratios, 0.75),
        "mean_accepted_length": tokens / rounds if rounds else None,
        "acceptance_rate": _sum(good, "draft_n_accepted") / drafted if drafted else None,
        "deviation_per_token": _sum(good, "deviation_sum") / tokens if tokens else None,
        "tokens_per_run": tokens / len(good) if good else None,
        "finished": len(finished),
        "rounds_per_finished": _sum(finished, "rounds") / len(finished) if finished else None,
        "verify_ms_per_token": _sum(good, "verify_ms") / tokens if tokens else None,
        **_means(good, ("target_logprob", "score")),
    }


def total_speed(rows: Sequence[Row]) -> float | None:
    """Tokens per second of all these runs as if they were one; None of nothing."""
    milliseconds = _sum(rows, "predicted_ms")
    return 1e3 * _sum(rows, "predicted_n") / milliseconds if milliseconds else None


def paired(mine: Sequence[Row], base: Sequence[Row]) -> list[float]:
    """Ratios of speeds of runs with the same prompt, seed and repeat."""
    speeds = {_pair(values): values["predicted_per_second"] for values in base if values.get("predicted_per_second")}
    return [values["predicted_per_second"] / speeds[_pair(values)] for values in mine if _pair(values) in speeds]


def _pair(values: Row) -> tuple[Any, ...]:
    return values["prompt"], values["seed"], values["repeat"]


def _sum(rows: Sequence[Row], name: str) -> float:
    return sum(values.get(name) or 0 for values in rows)


def _spread(values: Sequence[float], share: float) -> float | None:
    return quantile(values, share) if values else None


def _means(rows: Sequence[Row], names: Sequence[str]) -> Row:
    """Means of the columns that only some measurements have."""
    known = {name: [values[name] for values in rows if values.get(name) is not None] for name in names}
    return {name: statistics.fmean(values) for name, values in known.items() if values}
