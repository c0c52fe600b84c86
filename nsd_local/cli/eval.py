"""`nsd-local eval`: how well this pair solves tasks, by every rule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nsd_local.cli import lab
from nsd_local.cli.interrupt import Interrupt
from nsd_local.cli.loading import load_engine
from nsd_local.cli.options import Options, with_options
from nsd_local.cli.status import status
from nsd_local.errors import UsageError
from nsd_local.measure import columns, table
from nsd_local.measure.answers import check_judge
from nsd_local.measure.arms import parse_arms
from nsd_local.measure.evaluate import evaluate as measure
from nsd_local.measure.evaluate import summarise
from nsd_local.measure.sandbox import Limits
from nsd_local.measure.tasks import task as find_task

ARMS = ("plain", "exact", "nucleus")


@with_options
def evaluate(
    options: Options,
    task: Annotated[str, typer.Argument(help="gsm8k, math500, aime25, humaneval or mbpp.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="The problems (JSONL); humaneval comes with the lab extra.")
    ] = None,
    arm: lab.Arms = None,
    limit: lab.Limit = None,
    seeds: lab.Seeds = 1,
    allow_code_execution: Annotated[
        bool, typer.Option("--allow-code-execution", help="Run programs that the model wrote, in a sandbox.")
    ] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds for each such program.")] = 10.0,
    out: lab.Out = None,
    rounds: Annotated[bool, typer.Option("--rounds", help="Keep the rounds too.")] = False,
    time_limit: lab.TimeLimit = None,
    format: lab.Format = "md",
) -> None:
    """Score a pair on a task, arm by arm on the same problems.

    Accuracy (pass@1) comes with Wilson's interval; arms are compared with the first one by McNemar's test. With
    --out, a run that was stopped goes on where it was.
    """
    table.check_format(format)
    chosen = find_task(task)
    if chosen.runs_code and not allow_code_execution:
        raise UsageError(
            f"{task} runs programs that the model wrote",
            "the sandbox is no perfect wall (see docs/sandbox.md)",
            "Add --allow-code-execution if you accept that",
        )
    everything = chosen.read(data)
    check_judge(problem.answer for problem in everything)
    settings = lab.base_settings(options, chosen.max_tokens)
    arms = parse_arms(arm or ARMS, settings)
    with load_engine(options) as engine, Interrupt() as interrupt:
        status(lab.setup_line(engine))
        texts = [problem.text for problem in everything]
        with lab.open_journal(out, f"eval-{task}", engine, settings, texts, options.system, rounds=rounds) as journal:
            rows = measure(
                engine,
                chosen,
                everything[:limit],
                arms,
                journal,
                seeds=lab.seeds_of(options, seeds),
                system=options.system,
                limits=Limits(seconds=timeout),
                deadline=lab.deadline(time_limit),
                say=status,
                cancelled=interrupt.asked,
            )
    lab.show(format, {"": (columns.EVAL, summarise(rows, [one.name for one in arms]))}, rows)
