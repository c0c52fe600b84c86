"""`nsd-local doctor`: what this machine and this installation are, and what to do where something is missing."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from nsd_local.doctor import examine, sections


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """Look at this machine and this installation.

    Tells versions, backends, devices and memory, where things are kept, and how to install a build for the GPU.
    """
    report = examine()
    if as_json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
        return
    for title, rows in sections(report):
        print(title)
        width = max(len(label) for label, _ in rows)
        for label, text in rows:
            print(f"  {label.ljust(width)}  {text}")
