"""Loading a pair for a command, telling the person what happens."""

from __future__ import annotations

from nsd_local.api import Engine
from nsd_local.cli.options import Options
from nsd_local.cli.reporter import reporter
from nsd_local.cli.status import status
from nsd_local.loading import load_pair


def load_engine(options: Options, *, verbose: bool = False) -> Engine:
    """The pair that the shared flags name. Notices, and with `verbose` every automatic choice, go to stderr."""
    with reporter() as telling:
        engine = Engine(load_pair(options.model, options.draft, options.loading(telling)))
    for notice in engine.notices:
        status(notice)
    if verbose:
        for line in explain(engine):
            status(line)
    return engine


def explain(engine: Engine) -> list[str]:
    """What was loaded and what was chosen automatically, one line each."""
    lines = []
    for role, facts in engine.describe().items():
        if facts is None:
            continue
        lines.append(f"{role}: {facts['name']}, {facts['description']}, {facts['path']}")
        lines.append(f"  memory: {facts['memory']}")
        lines += [f"  {name}: {choice}" for name, choice in facts["choices"].items()]
    return lines
