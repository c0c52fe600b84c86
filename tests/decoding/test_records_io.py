"""Round records written and read back."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from nsd_local.decoding.records import Round, Times, Token
from nsd_local.decoding.records_io import Recording, read_recordings, round_from_dict, round_to_dict, write_recordings
from nsd_local.errors import UsageError

TOKENS = (
    Token(7, "é", "ratio", 0.25, 0.5, 2, 0.4, 0.1, 3),
    Token(9, "", "recovered", math.nan, None, 1, None, 0.0, 3),
)
ROUND = Round(
    index=3,
    n_past=40,
    k=4,
    why="k 4 expected 31 tok/s vs plain 24",
    source="model",
    drafted=(7, 8, 1, 2),
    tokens=TOKENS,
    accepted=1,
    divergence=(0.4, math.nan),
    excess=(0.2, 0.3),
    deviation=(0.1, 0.0),
    rejected_rank=5,
    rejected_in_nucleus=False,
    times=Times(0.01, 0.1, 0.001, 0.0, 0.0005),
)


def test_a_round_comes_back_as_it_was() -> None:
    data = json.loads(json.dumps(round_to_dict(ROUND), allow_nan=False))
    assert repr(round_from_dict(data)) == repr(ROUND), "NaN is not equal to itself, but reads the same"


def test_recordings_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    recordings = [Recording({"kind": "code"}, (ROUND, ROUND)), Recording({"kind": "chat", "theta": 0.9}, ())]
    write_recordings(path, recordings)
    assert repr(read_recordings(path)) == repr(recordings)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "holds no rounds"),
        ("{}\n", "line 1: a round stands before the first header line"),
        ("nonsense\n", "line 1 is not JSON"),
        ("[]\n", "line 1 is not a JSON object"),
        ('{"format": "something else"}\n', "line 1: its format is 'something else'"),
        ('{"format": "nsd-local rounds 1", "about": {}}\n{"index": 3}\n', "line 2: this is not a round record"),
    ],
)
def test_other_files_are_refused_with_the_line(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(content)
    with pytest.raises(UsageError, match=told):
        read_recordings(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_recordings(tmp_path)


def test_unknown_keys_are_an_error() -> None:
    with pytest.raises(UsageError, match="unknown keys"):
        round_from_dict({**round_to_dict(ROUND), "colour": "red"})
