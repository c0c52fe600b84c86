"""Loading a pair for a command, telling the person what happens."""

from __future__ import annotations

from nsd_local.api import Engine, load
from nsd_local.cli.options import Options


def load_engine(options: Options, *, verbose: bool = False) -> Engine:
    """The pair that the shared flags name."""
    return load(
        options.model,
        options.draft,
        ctx=options.ctx,
        threads=options.threads,
        gpu_layers=options.gpu_layers,
        draft_gpu_layers=options.draft_gpu_layers,
        offline=options.offline,
    )
