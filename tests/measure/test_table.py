from __future__ import annotations

import csv
import io
import json

import pytest

from nsd_local.errors import UsageError
from nsd_local.measure import table

ROWS = [
    {"arm": "plain", "speed": 9.87654, "share": None, "more": {"a": 1}},
    {"arm": "nucleus, wide", "speed": 123.4, "share": 0.714, "low": 100.0, "high": 130.0},
]
COLUMNS = {
    "arm": table.text("arm"),
    "tok/s": table.number("speed", 1),
    "kept": table.number("share", 0, percent=True),
}


def test_markdown() -> None:
    assert table.markdown(COLUMNS, ROWS).splitlines() == [
        "| arm           | tok/s | kept |",
        "|:--------------|------:|-----:|",
        "| plain         |   9.9 |    – |",
        "| nucleus, wide | 123.4 | 71 % |",
    ]


def test_spread() -> None:
    cell = table.spread("speed", "low", "high")
    assert cell(ROWS[1]) == "123.4 (100.0–130.0)"
    assert cell({}) == "–"


def test_csv_holds_every_column() -> None:
    first, second = csv.DictReader(io.StringIO(table.as_csv(ROWS)))
    assert list(first) == ["arm", "speed", "share", "more", "low", "high"]
    assert (first["share"], json.loads(first["more"]), second["arm"]) == ("", {"a": 1}, "nucleus, wide")


def test_jsonl() -> None:
    assert [json.loads(line) for line in table.as_jsonl(ROWS).splitlines()] == ROWS


def test_formats() -> None:
    assert table.check_format("md") == "md"
    with pytest.raises(UsageError, match="xml"):
        table.check_format("xml")
