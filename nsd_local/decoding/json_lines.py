"""JSON lines: one object a line, as records and data sets are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nsd_local.catalog.disk import unreadable
from nsd_local.errors import UsageError


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `json_lines`, of a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    yield from json_lines(data, path.name)


def json_lines(data: bytes, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects and the numbers of their lines, counted from 1; blank lines are left out.

    Raises UsageError, which names the line and what holds it (`name`).
    """
    # Of bytes, splitlines() knows line feeds and carriage returns only. Of text it also knows U+2028 and its like,
    # which may stand in the midst of a JSON string.
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{name}, line {number} is not JSON", str(error)) from error
        if not isinstance(value, dict):
            raise UsageError(f"{name}, line {number} is not a JSON object")
        yield number, value
