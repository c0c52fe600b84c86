"""`nsd-local compare`: verification rules side by side on this machine."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from nsd_local.cli import lab
from nsd_local.cli.bench import drift_line
from nsd_local.cli.interrupt import Interrupt
from nsd_local.cli.loading import load_engine
from nsd_local.cli.options import Options, with_options
from nsd_local.cli.status import status
from nsd_local.measure import columns, table
from nsd_local.measure.answers import answer_score, check_judge
from nsd_local.measure.arms import parse_arms
from nsd_local.measure.campaign import Campaign
from nsd_local.measure.compare import Pilot
from nsd_local.measure.compare import compare as measure
from nsd_local.measure.likelihood import TargetLikelihood

ARMS = ("plain", "match", "exact", "block", "nucleus")
MAX_TOKENS = 256


@with_options
def compare(
    options: Options,
    arm: lab.Arms = None,
    kind: lab.Kinds = None,
    per_kind: lab.PerKind = 1,
    data: lab.Data = None,
    limit: lab.Limit = None,
    ks: Annotated[str, typer.Option("--ks", help="Draft lengths to choose from, for -k auto.")] = "2,4,7",
    pilot: Annotated[int, typer.Option("--pilot", min=1, help="Prompts on which they are chosen.")] = 4,
    seeds: lab.Seeds = 1,
    repeats: Annotated[int, typer.Option("--repeats", "-r", min=1, help="Repeats of every run.")] = 1,
    out: lab.Out = None,
    time_limit: lab.TimeLimit = None,
    format: lab.Format = "md",
) -> None:
    """Set verification rules side by side.

    The same prompts and seeds for all, taking turns, each rule at its own best draft length unless -k names one.
    Every rule's deviation is exact; `log p` is the target's own mean log-likelihood of what was written; a score is
    given where the data has answers.
    """
    table.check_format(format)
    settings = lab.base_settings(options, MAX_TOKENS)
    prompts = lab.choose_prompts(kind, per_kind, data, limit)
    check_judge(prompt.answer for prompt in prompts)
    arms = parse_arms(arm or ARMS, settings)
    trial = Pilot(lab.numbers(ks, int), pilot) if settings.draft_tokens == "auto" else None
    texts = [prompt.text for prompt in prompts]
    with load_engine(options) as engine, Interrupt() as interrupt, ExitStack() as journals:
        status(lab.setup_line(engine))
        first, second = (
            journals.enter_context(lab.open_journal(out, name, engine, settings, texts, options.system))
            for name in ("compare-pilot", "compare")
        )
        extras = (TargetLikelihood(engine), answer_score)
        campaign = Campaign(
            arms,
            prompts,
            lab.seeds_of(options, seeds),
            repeats,
            options.system,
            lab.deadline(time_limit),
            extras,
            reuse=True,
        )
        found = measure(engine, campaign, trial, (first, second), say=status, cancelled=interrupt.asked)
    if found is None:
        return
    result, summaries = found
    lab.show(format, {"": (columns.COMPARE, summaries)}, result.rows)
    status(drift_line(result))
