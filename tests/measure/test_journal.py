from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nsd_local.decoding.records import Round, Times, Token
from nsd_local.decoding.records_io import read_recordings
from nsd_local.errors import UsageError
from nsd_local.measure.journal import Journal, read_journal

HEADER = {"format": "test 1", "model": "a", "thetas": (0.9,)}


def journal(path: Path, **changes: object) -> Journal:
    return Journal(path, {**HEADER, **changes}, ["arm", "prompt"], rounds=True)


def round_(index: int) -> Round:
    token = Token(5, "é", "plain", 0.5, None, 1, None, 0.0, index)
    return Round(index, 3, 0, "", "", (), (token,), 0, (), (), (), None, None, Times(verify=0.1))


def fill(path: Path, n: int) -> None:
    with journal(path) as one:
        for i in range(n):
            one.append({"arm": "plain", "prompt": f"p{i}", "value": i}, [round_(0), round_(1)])


def test_records_come_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    fill(path, 3)
    with journal(path) as again:
        assert [record["value"] for record in again.records] == [0, 1, 2]
        assert again.has({"arm": "plain", "prompt": "p1"})
        assert not again.has({"arm": "exact", "prompt": "p1"})
    header, records = read_journal(path)
    assert header["model"] == "a"
    assert len(records) == 3
    assert [len(one.rounds) for one in read_recordings(path.with_suffix(".rounds.jsonl"))] == [2, 2, 2]
    assert not list(path.parent.glob("*.lock"))


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_that_was_not_finished_is_dropped_with_its_rounds(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "run.jsonl"
    fill(path, 3)
    path.write_bytes(path.read_bytes()[:-cut])
    with journal(path) as again:
        assert [record["value"] for record in again.records] == [0, 1]
        assert len(read_recordings(again.rounds_path)) == 2
        again.append({"arm": "plain", "prompt": "p2", "value": 7}, [round_(0)])
    _, records = read_journal(path)
    assert [record["value"] for record in records] == [0, 1, 7]
    assert [len(one.rounds) for one in read_recordings(path.with_suffix(".rounds.jsonl"))] == [2, 2, 1]


def test_rounds_without_a_record_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    fill(path, 1)
    rounds = path.with_suffix(".rounds.jsonl")
    rounds.write_bytes(rounds.read_bytes() + b'{"index": 0, "n_pa')
    with journal(path):
        pass
    assert len(read_recordings(rounds)) == 1


def test_a_torn_header_means_a_fresh_start(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"format": "te', encoding="utf-8")
    with journal(path) as one:
        assert one.records == []
    assert read_journal(path)[0]["format"] == "test 1"


def test_another_measurement_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    fill(path, 1)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r'It differs in model \("a" there, "b" now\)\.'):
        journal(path, model="b")
    assert path.read_bytes() == before
    fill(path, 0)  # and the file is free again


def test_a_difference_is_named_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    setup = {"cpu": "x" * 90, "n_threads": 2}
    with journal(path, setup=setup):
        pass
    with pytest.raises(UsageError, match=r"It differs in setup\.n_threads \(2 there, 4 now\)\."):
        journal(path, setup={**setup, "n_threads": 4})
    with pytest.raises(UsageError, match=r"setup\.k4 \(null there, 4 now\) and 3 more\."):
        journal(path, setup={**setup, **{f"k{i}": i for i in range(8)}})


@pytest.mark.parametrize("text", ["a\u2028b", "a\u2029b", "a\x85b", "a\ud800b"], ids=ascii)
def test_no_text_ends_a_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    one = round_(0)
    with journal(path) as file:
        file.append({"arm": "plain", "prompt": text}, [replace(one, tokens=(replace(one.tokens[0], text=text),))])
    with journal(path) as again:
        assert again.has({"arm": "plain", "prompt": text})
        (recording,) = again.recordings()
        assert recording.rounds[0].tokens[0].text == text


def test_two_runs_cannot_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with journal(path), pytest.raises(UsageError, match="another run"):
        journal(path)


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({"value": 1}) + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no records"):
        read_journal(path)
    path.write_text("[]\n", encoding="utf-8")
    with pytest.raises(UsageError, match="not a JSON object"):
        read_journal(path)
