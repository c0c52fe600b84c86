"""Scores: the same problems answered by every arm, judged, counted with intervals, and compared in pairs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from nsd_local.api import Engine
from nsd_local.decoding.decoder import never
from nsd_local.measure.arms import Arm
from nsd_local.measure.bench import total_speed
from nsd_local.measure.campaign import Campaign, Say, run_all, silent
from nsd_local.measure.confidence import Paired, mcnemar, median, wilson
from nsd_local.measure.journal import Journal
from nsd_local.measure.prompts import Prompt
from nsd_local.measure.runner import Row, Run
from nsd_local.measure.sandbox import Limits
from nsd_local.measure.tasks import Problem, Task


class Grader:
    """Adds the answer and its grade to the rows of a campaign."""

    def __init__(self, task: Task, problems: Iterable[Problem], limits: Limits) -> None:
        self._task, self._limits = task, limits
        self._problems = {f"{task.name}/{problem.id}": problem for problem in problems}

    def __call__(self, run: Run) -> Row:
        text = run.result.text if run.result is not None else ""
        grade = self._task.grade(self._problems[run.prompt.id], text, self._limits)
        return {**asdict(grade), "score": float(grade.solved), "text": text}


def evaluate(
    engine: Engine,
    task: Task,
    problems: Sequence[Problem],
    arms: Sequence[Arm],
    journal: Journal | None = None,
    *,
    seeds: Sequence[int] = (0,),
    system: str | None = None,
    limits: Limits | None = None,
    deadline: float | None = None,
    say: Say = silent,
    cancelled: Callable[[], bool] = never,
) -> list[Row]:
    """One row per problem, seed and arm. Raises Cancelled; what was finished is in the journal then."""
    prompts = [Prompt(task.name, problem.id, problem.text) for problem in problems]
    grader = Grader(task, problems, limits or Limits())
    campaign = Campaign(arms, prompts, seeds, 1, system, deadline, (grader,), reuse=True)
    return list(run_all(engine, campaign, journal, say=say, cancelled=cancelled))


def summarise(rows: Sequence[Row], arms: Sequence[str]) -> list[Row]:
    """One row per arm, compared with the first one.

    `accuracy` is the mean over problems of the share of seeds that solved them (pass@1), with Wilson's interval over
    problems. `p_value` is McNemar's, on the problems that both arms answered, over the seeds that they share there.
    """
    by_arm = {arm: [row for row in rows if row["arm"] == arm] for arm in arms}
    return [_summary(arm, by_arm[arm], by_arm[arms[0]], arm == arms[0]) for arm in arms]


def _summary(arm: str, rows: Sequence[Row], base: Sequence[Row], first: bool) -> Row:
    shares, pair = _shares(rows), _paired(rows, base)
    interval = wilson(sum(shares.values()), len(shares))
    answered = [row for row in rows if row.get("predicted_n")]
    tokens = sum(row["predicted_n"] for row in answered)
    rounds = sum(row["rounds"] for row in answered)
    solved = sum(bool(row.get("solved")) for row in rows)
    return {
        "arm": arm,
        "problems": len(shares),
        "answers": len(rows),
        "failed": sum(bool(row.get("error")) for row in rows),
        "solved": solved,
        "accuracy": interval.share if shares else None,
        "accuracy_low": interval.low,
        "accuracy_high": interval.high,
        "better": None if first else pair.better,
        "worse": None if first else pair.worse,
        "p_value": None if first else pair.p_value,
        "median_ts": median([row["predicted_per_second"] for row in answered]) if answered else None,
        "total_ts": total_speed(answered),
        "mean_accepted_length": tokens / rounds if rounds else None,
        "tokens_per_answer": tokens / len(answered) if answered else None,
        "rounds_per_solved": rounds / solved if solved else None,
        "deviation_per_token": sum(row["deviation_sum"] or 0.0 for row in answered) / tokens if tokens else None,
        "cut_off": sum(row["finish_reason"] == "length" for row in answered),
    }


def _paired(rows: Sequence[Row], base: Sequence[Row]) -> Paired:
    """Two arms on the problems and seeds that both of them answered."""
    both = set(map(_question, rows)) & set(map(_question, base))
    mine, other = (_shares(row for row in part if _question(row) in both) for part in (rows, base))
    return mcnemar(list(mine.values()), [other[problem] for problem in mine])


def _question(row: Row) -> tuple[Any, ...]:
    return row["prompt"], row["seed"]


def _shares(rows: Iterable[Row]) -> dict[str, float]:
    """The share of a problem's seeds that were solved; a run that failed did not solve it."""
    scores: dict[str, list[float]] = {}
    for row in rows:
        scores.setdefault(row["prompt"], []).append(float(bool(row.get("solved"))))
    return {problem: statistics.fmean(values) for problem, values in scores.items()}
