"""`nsd-local doctor`: what this machine and this installation are, and what to do where something is missing."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from nsd_local.doctor import examine, sections
from nsd_local.measure.advice import Advice, kept, table


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """Look at this machine and this installation.

    Tells versions, backends, devices and memory, where things are kept, and how to install a build for the GPU.
    """
    report = examine()
    tuned = kept()
    if as_json:
        print(json.dumps({**report, "tuned": [advice.to_dict() for advice in tuned]}, indent=1, ensure_ascii=False))
        return
    for title, rows in [*sections(report), *map(tuning, tuned)]:
        print(title)
        width = max(len(label) for label, _ in rows)
        for label, text in rows:
            print(f"  {label.ljust(width)}  {text}")


def tuning(advice: Advice) -> tuple[str, list[tuple[str, str]]]:
    """What `nsd-local tune` found out about a pair: expected speed by k, and the verdict."""
    rows = [(k, "  ".join(cell.rjust(11) for cell in cells).rstrip()) for k, *cells in table(advice)]
    return f"Tuned: {advice.target} with {advice.draft}, rule {advice.rule}", [*rows, ("", advice.verdict)]
