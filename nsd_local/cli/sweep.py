"""`nsd-local sweep`: a grid of settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from nsd_local.cli import lab
from nsd_local.cli.bench import drift_line
from nsd_local.cli.interrupt import Interrupt
from nsd_local.cli.loading import load_engine
from nsd_local.cli.options import Options, with_options
from nsd_local.cli.status import status
from nsd_local.measure import columns, table
from nsd_local.measure.answers import answer_score, check_judge
from nsd_local.measure.bench import bench, overall
from nsd_local.measure.campaign import Campaign
from nsd_local.measure.likelihood import TargetLikelihood
from nsd_local.measure.sweep import rule_grid, theta_grid, theta_table

MAX_TOKENS = 128


@with_options
def sweep(
    options: Options,
    ks: Annotated[str, typer.Option("--ks", help="Draft lengths.")] = "2,4,7",
    thetas: Annotated[str, typer.Option("--thetas", help="Nucleus thresholds.")] = "0.85,0.9,0.95",
    rules: Annotated[
        bool, typer.Option("--rules", help="Instead: every rule from strict to loose, at one k (-k, else 4).")
    ] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="With --rules: this rule only; repeatable.")] = None,
    kind: lab.Kinds = None,
    per_kind: lab.PerKind = 1,
    data: lab.Data = None,
    limit: lab.Limit = None,
    seeds: lab.Seeds = 1,
    repeats: Annotated[int, typer.Option("--repeats", "-r", min=1, help="Repeats of every run.")] = 1,
    out: lab.Out = None,
    time_limit: lab.TimeLimit = None,
    format: lab.Format = "md",
) -> None:
    """Measure a grid of settings: draft length by theta, or every rule by how far it deviates.

    The first grid is that of Table 2 of the NSD paper: speed-up over plain decoding, mean accepted length, and the
    score where the data has answers.
    """
    table.check_format(format)
    settings = lab.base_settings(options, MAX_TOKENS)
    lengths, levels = lab.numbers(ks, int), lab.numbers(thetas, float)
    arms = rule_grid(lab.fixed_length(settings, 4), only or ()) if rules else theta_grid(settings, lengths, levels)
    prompts = lab.choose_prompts(kind, per_kind, data, limit)
    check_judge(prompt.answer for prompt in prompts)
    name = "sweep-rules" if rules else "sweep"
    texts = [prompt.text for prompt in prompts]
    with (
        load_engine(options) as engine,
        Interrupt() as interrupt,
        lab.open_journal(out, name, engine, settings, texts, options.system) as journal,
    ):
        status(lab.setup_line(engine))
        extras = (TargetLikelihood(engine), answer_score)
        campaign = Campaign(
            arms, prompts, lab.seeds_of(options, seeds), repeats, options.system, lab.deadline(time_limit), extras
        )
        result = bench(engine, campaign, journal, say=status, cancelled=interrupt.asked)
    summaries = overall(result.rows)
    tables: dict[str, tuple[Mapping[str, table.Cell], list[Any]]] = {"All settings": (columns.SWEEP, summaries)}
    if not rules:
        tables = {"k x theta": (columns.grid(lengths), theta_table(summaries, lengths, levels)), **tables}
    lab.show(format, tables, result.rows)
    status(drift_line(result))
