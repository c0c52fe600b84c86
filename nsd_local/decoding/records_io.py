"""Round records as JSON lines: what a run writes down so that others can recompute its numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from nsd_local.decoding.json_lines import read_json_lines
from nsd_local.decoding.records import Round, Times, Token
from nsd_local.errors import UsageError

FORMAT = "nsd-local rounds 1"


@dataclass(frozen=True, slots=True)
class Recording:
    """The rounds of one request, and what it was: rule, settings, models, prompt kind (free keys)."""

    about: Mapping[str, Any]
    rounds: tuple[Round, ...] = field(default=())


def round_to_dict(round: Round) -> dict[str, Any]:
    """Plain JSON values; NaN (what the meter did not measure) becomes null."""
    data = asdict(round)
    for key in ("divergence", "excess", "deviation"):
        data[key] = [_null(value) for value in data[key]]
    for token in data["tokens"]:
        for key in ("p", "q", "divergence", "deviation"):
            token[key] = _null(token[key])
    return data


def round_from_dict(data: Mapping[str, Any]) -> Round:
    """Raises UsageError where a key is unknown or missing."""
    try:
        values = _known(Round, data)
        values["times"] = Times(**_known(Times, data["times"]))
        values["tokens"] = tuple(_token(token) for token in data["tokens"])
        values["drafted"] = tuple(data["drafted"])
        for key in ("divergence", "excess", "deviation"):
            values[key] = tuple(math.nan if value is None else float(value) for value in data[key])
        return Round(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError("this is not a round record", f"{type(error).__name__}: {error}") from error


def write_recordings(path: Path, recordings: Iterable[Recording]) -> None:
    """One header line per request, then one line per round."""
    with path.open("w", encoding="utf-8") as file:
        for recording in recordings:
            file.write(json.dumps({"format": FORMAT, "about": dict(recording.about)}) + "\n")
            for round in recording.rounds:
                file.write(json.dumps(round_to_dict(round)) + "\n")


def read_recordings(path: Path) -> list[Recording]:
    """Raises UsageError where the file cannot be read as such."""
    recordings: list[tuple[Mapping[str, Any], list[Round]]] = []
    for number, data in read_json_lines(path):
        try:
            if "format" in data:
                if data["format"] != FORMAT:
                    raise UsageError(f"its format is {data['format']!r}", f"this version reads {FORMAT!r}")
                recordings.append((data.get("about", {}), []))
            elif not recordings:
                raise UsageError("a round stands before the first header line")
            else:
                recordings[-1][1].append(round_from_dict(data))
        except UsageError as error:
            raise UsageError(f"{path.name}, line {number}: {error.what}", error.why, error.do) from error
    if not recordings:
        raise UsageError(f"{path.name} holds no rounds")
    return [Recording(about, tuple(rounds)) for about, rounds in recordings]


def _token(data: Mapping[str, Any]) -> Token:
    values = _known(Token, data)
    for key in ("p", "deviation"):
        values[key] = math.nan if values[key] is None else values[key]
    return Token(**values)


def _known(kind: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    unknown = set(data) - {entry.name for entry in fields(kind)}
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    return dict(data)


def _null(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
