"""`nsd-local bench`: how fast this pair answers, with and without drafting."""

from __future__ import annotations

from typing import Annotated

import typer

from nsd_local.cli import lab
from nsd_local.cli.interrupt import Interrupt
from nsd_local.cli.loading import load_engine
from nsd_local.cli.options import Options, with_options
from nsd_local.cli.status import status
from nsd_local.measure import table
from nsd_local.measure.arms import parse_arms
from nsd_local.measure.bench import Bench
from nsd_local.measure.bench import bench as measure
from nsd_local.measure.campaign import Campaign

ARMS = ("plain", "exact", "nucleus")
MAX_TOKENS = 128
COLUMNS = {
    "kind": table.text("prompt_kind"),
    "arm": table.text("arm"),
    "tok/s (quartiles)": table.spread("median_ts", "q1_ts", "q3_ts"),
    "x plain (quartiles)": table.spread("speedup", "speedup_q1", "speedup_q3", 2),
    "tokens/pass": table.number("mean_accepted_length"),
    "kept": table.number("acceptance_rate", 0, percent=True),
    "deviation/token": table.number("deviation_per_token", 4),
    "runs": table.text("n_runs"),
    "failed": table.text("n_failed"),
}


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
    with load_engine(options) as engine, Interrupt() as interrupt:
        status(lab.setup_line(engine))
        campaign = Campaign(
            arms, prompts, lab.seeds_of(options, seeds), repeats, options.system, lab.seconds(time_limit)
        )
        texts = [prompt.text for prompt in prompts]
        with lab.open_journal(out, "bench", engine, settings, texts, options.system) as journal:
            result = measure(engine, campaign, journal, say=status, cancelled=interrupt.asked)
    lab.show(format, {"": (COLUMNS, result.summaries())}, result.rows)
    status(_drift_line(result))


def _drift_line(result: Bench) -> str:
    if result.drift is None:
        return "nothing was left to run"
    change = result.drift["change"]
    verdict = "the machine drifted, do not trust small differences" if result.drift["drifted"] else "steady"
    return f"plain decoding before and after: {100 * change:+.1f} % ({verdict})"
