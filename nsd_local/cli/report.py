"""`nsd-local report`: tables and figures from recorded measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nsd_local.cli.status import status
from nsd_local.measure import table
from nsd_local.measure.folder import Folder
from nsd_local.measure.report import report as make
from nsd_local.measure.report import tables


def report(
    folder: Annotated[Path, typer.Argument(help="The folder given to bench, sweep, compare or eval as --out.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write.", show_default="the same folder")
    ] = None,
    only_tables: Annotated[bool, typer.Option("--tables", help="Print the tables as Markdown, draw nothing.")] = False,
) -> None:
    """Make a report of measurements: one HTML page and the figures as SVG and PNG.

    Reads records only: no model, no network. Figures need matplotlib (the lab extra).
    """
    if only_tables:
        found = tables(Folder(folder))
        print("\n\n".join(f"### {title}\n\n{table.markdown(*content)}" for title, content in found.items()))
        return
    made = make(folder, out, say=status)
    for title in made.missing:
        status(f"not drawn, its data were not recorded: {title}")
    print(made.page)
