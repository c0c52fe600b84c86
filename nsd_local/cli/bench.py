"""`nsd-local bench`: how fast this pair answers, with and without drafting."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated

import typer

from nsd_local.cli import lab
from nsd_local.cli.interrupt import Interrupt
from nsd_local.cli.loading import load_engine
from nsd_local.cli.options import Options, with_options
from nsd_local.cli.status import status
from nsd_local.errors import UsageError
from nsd_local.measure import columns, table
from nsd_local.measure.anatomy import Anatomist
from nsd_local.measure.arms import parse_arms
from nsd_local.measure.bench import Bench
from nsd_local.measure.bench import bench as measure
from nsd_local.measure.campaign import Campaign

ARMS = ("plain", "exact", "nucleus")
MAX_TOKENS = 128
COLUMNS = columns.BENCH


@with_options
def bench(
    options: Options,
    arm: lab.Arms = None,
    kind: lab.Kinds = None,
    per_kind: lab.PerKind = 1,
    data: lab.Data = None,
    limit: lab.Limit = None,
    repeats: Annotated[int, typer.Option("--repeats", "-r", min=1, help="Repeats of every run.")] = 1,
    seeds: lab.Seeds = 1,
    positions: Annotated[
        bool,
        typer.Option("--positions", help="With --out: look again at every judged draft, for the figures of report."),
    ] = False,
    out: lab.Out = None,
    time_limit: lab.TimeLimit = None,
    format: lab.Format = "md",
) -> None:
    """Measure speed with and without drafting.

    Arms (by default plain, exact and nucleus) take turns over the same prompts and seeds. Both memories are cleared
    before every run. Plain decoding is measured before and after everything: more than 5 % apart, and the result is
    marked as drifted.
    """
    table.check_format(format)
    settings = lab.base_settings(options, MAX_TOKENS)
    prompts = lab.choose_prompts(kind, per_kind, data, limit)
    arms = parse_arms(arm or ARMS, settings)
    if positions and out is None:
        raise UsageError("--positions needs --out", "the positions are written into a file there")
    texts = [prompt.text for prompt in prompts]
    with load_engine(options) as engine, Interrupt() as interrupt, ExitStack() as journals:
        status(lab.setup_line(engine))
        journal, looked = (
            journals.enter_context(lab.open_journal(where, name, engine, settings, texts, options.system, rounds=keeps))
            for name, where, keeps in (("bench", out, True), ("positions", out if positions else None, False))
        )
        campaign = Campaign(
            arms, prompts, lab.seeds_of(options, seeds), repeats, options.system, lab.deadline(time_limit)
        )
        if journal is not None and looked is not None:
            anatomist = Anatomist(engine, looked)
            anatomist.catch_up(campaign, journal, say=status, cancelled=interrupt.asked)
            campaign = replace(campaign, extras=(anatomist,))
        result = measure(engine, campaign, journal, say=status, cancelled=interrupt.asked)
    lab.show(format, {"": (COLUMNS, result.summaries())}, result.rows)
    status(drift_line(result))


def drift_line(result: Bench) -> str:
    """Whether plain decoding was as fast after the measurement as before."""
    if result.drift is None:
        return "nothing was left to run"
    change = result.drift["change"]
    verdict = "the machine drifted, do not trust small differences" if result.drift["drifted"] else "steady"
    return f"plain decoding before and after: {100 * change:+.1f} % ({verdict})"
