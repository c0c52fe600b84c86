"""`nsd-local rules`: every verification rule, its formula and what it is good for."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import Annotated, Any

import typer

from nsd_local.verification.rules import RULES, parameters

FLAGS = (("lossless", "lossless"), ("at T = 0", "works_at_temperature_0"))
INDENT: dict[str, Any] = {
    "initial_indent": "    ",
    "subsequent_indent": "    ",
    "break_long_words": False,
    "break_on_hyphens": False,
}


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
    width = shutil.get_terminal_size().columns
    for row in rows:
        print("\n".join(lines(row, width)))
    print("\nA lossless rule keeps the target's law. At T = 0, no means: it matches greedily.")
    print("Choose one with --rule NAME or --rule NAME:key=value,key=value.")
    print("nucleus runs as nucleus-block, which keeps more at the same deviation, unless --no-block is given.")


def lines(row: dict[str, Any], width: int) -> list[str]:
    """A rule in two or three lines of 80: name, flags and parameters; then formula and source. Nothing is cut."""
    flags = "  ".join(f"{said} {'yes' if row[key] else 'no':<3}" for said, key in FLAGS)
    given = ", ".join(f"{key}={'none' if value is None else value}" for key, value in row["parameters"].items())
    rest = textwrap.wrap(f"{row['formula']} · {row['source']}", width - 1, **INDENT)
    return [f"{row['name']:<14}  {flags}  {given}".rstrip(), *rest]
