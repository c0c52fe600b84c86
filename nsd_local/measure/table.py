"""Rows as Markdown, CSV, JSON or JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from nsd_local.errors import UsageError

Format = Literal["md", "json", "jsonl", "csv"]
FORMATS: tuple[Format, ...] = ("md", "json", "jsonl", "csv")
Row = Mapping[str, Any]
Cell = Callable[[Row], str]
DASH = "–"


def check_format(name: str) -> Format:
    """Raises UsageError for one that does not exist."""
    for known in FORMATS:
        if name == known:
            return known
    raise UsageError(f"There is no format {name!r}", f"there are {', '.join(FORMATS)}")


def markdown(columns: Mapping[str, Cell], rows: Sequence[Row]) -> str:
    """A GitHub table with aligned columns: words to the left, numbers to the right."""
    cells = [[cell(values) for cell in columns.values()] for values in rows]
    widths = [max([len(head), 3, *(len(line[i]) for line in cells)]) for i, head in enumerate(columns)]
    words = [any(line[i][:1].isalpha() for line in cells) for i in range(len(columns))]
    rule = "|".join(f":{'-' * (w + 1)}" if left else f"{'-' * (w + 1)}:" for w, left in zip(widths, words, strict=True))

    def line(values: Sequence[str]) -> str:
        padded = (v.ljust(w) if left else v.rjust(w) for v, w, left in zip(values, widths, words, strict=True))
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(list(columns)), f"|{rule}|", *map(line, cells)])


def text(name: str) -> Cell:
    return lambda row: str(row.get(name) if row.get(name) is not None else DASH)


def number(name: str, digits: int = 2, *, percent: bool = False) -> Cell:
    """A value with so many digits after the point, a dash where there is none."""

    def cell(row: Row) -> str:
        value = row.get(name)
        if value is None:
            return DASH
        return f"{100 * value:.{digits}f} %" if percent else f"{value:.{digits}f}"

    return cell


def spread(middle: str, low: str, high: str, digits: int = 1) -> Cell:
    """Such as `12.3 (11.9–12.8)`."""

    def cell(row: Row) -> str:
        if row.get(middle) is None:
            return DASH
        return f"{row[middle]:.{digits}f} ({row[low]:.{digits}f}–{row[high]:.{digits}f})"

    return cell


def as_csv(rows: Sequence[Row]) -> str:
    """All keys that occur, in the order of their first occurrence; lists and objects as JSON."""
    names = list(dict.fromkeys(name for values in rows for name in values))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for values in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, (list, dict)) else v for k, v in values.items()})
    return out.getvalue().rstrip("\n")


def as_jsonl(rows: Sequence[Row]) -> str:
    return "\n".join(json.dumps(dict(values), ensure_ascii=False) for values in rows)
