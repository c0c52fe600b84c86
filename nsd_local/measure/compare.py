"""Rules side by side, each at the draft length that suits it best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nsd_local.api import Engine
from nsd_local.decoding.decoder import never
from nsd_local.errors import UsageError
from nsd_local.measure.arms import Arm
from nsd_local.measure.bench import Bench, bench, overall, warm_up
from nsd_local.measure.campaign import Campaign, Say, run_all, silent
from nsd_local.measure.journal import Journal
from nsd_local.measure.runner import Row

PILOT_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Pilot:
    """How the draft lengths are chosen: each of `ks` on the first `prompts` prompts."""

    ks: Sequence[int] = (2, 4, 7)
    prompts: int = 4
    tokens: int = PILOT_TOKENS


def compare(
    engine: Engine,
    campaign: Campaign,
    pilot: Pilot | None,
    journals: tuple[Journal | None, Journal | None] = (None, None),
    *,
    say: Say = silent,
    cancelled: Callable[[], bool] = never,
) -> tuple[Bench, list[Row]] | None:
    """Runs the pilot, then the campaign with each arm at its best k; also gives the arms' rows of the summary.

    Without a pilot the arms run as they are. `journals`: of the pilot, of the comparison. None where the deadline
    came before the lengths were chosen. Raises UsageError where the comparison holds runs at another k than is
    chosen now.
    """
    arms = campaign.arms
    if pilot is not None and any(_open(arm) for arm in arms):
        best = best_lengths(engine, campaign, pilot, journals[0], say, cancelled)
        if best is None:
            return None
        _check_kept(journals[1], best)
        arms = [_at_best(arm, best) for arm in arms]
        say("; ".join(f"{arm.name}: k {arm.settings.draft_tokens}" for arm in arms if arm.drafts))
    result = bench(engine, replace(campaign, arms=arms), journals[1], say=say, cancelled=cancelled)
    ks = {arm.name: arm.settings.draft_tokens for arm in arms}
    return result, [{**values, "draft_tokens": ks[values["arm"]]} for values in overall(result.rows)]


def best_lengths(
    engine: Engine,
    campaign: Campaign,
    pilot: Pilot,
    journal: Journal | None = None,
    say: Say = silent,
    cancelled: Callable[[], bool] = never,
) -> dict[str, int] | None:
    """For each arm that leaves k open, the one of `pilot.ks` that gave the most tokens per second.

    None where the deadline came before all were tried.
    """
    arms = [_at(arm, k, pilot.tokens) for arm in campaign.arms if _open(arm) for k in pilot.ks]
    trial = replace(campaign, arms=arms, prompts=campaign.prompts[: pilot.prompts], seeds=campaign.seeds[:1], repeats=1)
    if not trial.complete(journal):
        warm_up(engine, trial)
    rows = list(run_all(engine, replace(trial, extras=()), journal, say=say, cancelled=cancelled))
    if len(rows) < trial.size:
        again = "start again to go on" if journal is not None else "give it more time, or a k"
        say(f"the draft lengths are not chosen yet, and nothing was compared: {again}")
        return None
    speeds = {values["arm"]: values["total_ts"] or 0.0 for values in overall(rows)}
    named = {arm.name: [_name(arm, k) for k in pilot.ks] for arm in campaign.arms if _open(arm)}
    return {
        name: pilot.ks[max(range(len(tried)), key=lambda i: speeds.get(tried[i], 0.0))] for name, tried in named.items()
    }


def _check_kept(journal: Journal | None, best: dict[str, int]) -> None:
    if journal is None:
        return
    for record in journal.records:
        name, k = record["arm"], record.get("draft_tokens")
        if name in best and best[name] != k:
            raise UsageError(
                f"{journal.path} holds runs of {name} at k {k}",
                f"the pilot chooses k {best[name]} now, and the two would count as one",
                "Give the same --ks, --pilot and --seed as then, or choose another folder",
            )


def _open(arm: Arm) -> bool:
    """Does the arm leave its k to be chosen?"""
    return arm.settings.draft_tokens == "auto"


def _name(arm: Arm, k: int) -> str:
    return f"{arm.name}@k={k}"


def _at(arm: Arm, k: int, tokens: int) -> Arm:
    limit = min(tokens, arm.settings.max_tokens or tokens)
    return Arm(_name(arm, k), replace(arm.settings, draft_tokens=k, max_tokens=limit))


def _at_best(arm: Arm, best: dict[str, int]) -> Arm:
    if arm.name not in best:
        return arm
    return Arm(arm.name, replace(arm.settings, draft_tokens=best[arm.name]))
