"""`nsd-local rules`: every verification rule, its formula and what it is good for."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from nsd_local.verification.rules import RULES, parameters


def rules(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """List the verification rules: name, formula, parameters, lossless or not, use at temperature 0, source."""
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "formula": rule.formula,
            "parameters": parameters(rule),
            "lossless": rule.lossless,
            "works_at_temperature_0": rule.works_at_zero,
            "source": rule.source,
        }
        for name, rule in RULES.items()
    ]
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("rule", "lossless", "at T = 0", "formula", "parameters", "source", box=None, pad_edge=False)
    for row in rows:
        given = ", ".join(f"{key}={'none' if value is None else value}" for key, value in row["parameters"].items())
        flags = ["yes" if row[key] else "no" for key in ("lossless", "works_at_temperature_0")]
        table.add_row(row["name"], *flags, row["formula"], given, row["source"])
    Console(highlight=False, markup=False).print(table)
    print("\nChoose one with --rule NAME, its parameters with --rule NAME:key=value,key=value.")
