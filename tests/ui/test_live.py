"""The state of a running answer: rows in reading order, increments, and numbers that agree with the summary."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from nsd_local.ui.answers import Answers, Record, pieces_of
from nsd_local.ui.live import Live
from nsd_local.ui.talk import Answering
from nsd_local.ui.tokens_view import DROPPED

import nsd_local
from nsd_local.chat.conversation import Conversation
from nsd_local.decoding.events import Finished, Step
from nsd_local.decoding.records import Result, Round
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.summary import Summary


@pytest.fixture(scope="module")
def run(tiny_target: Path, tiny_draft: Path) -> tuple[Live, Result]:
    live = Live()
    with nsd_local.load(tiny_target, tiny_draft, ctx=1024) as engine:
        live.begin(None, lambda token: f"<{token}>", (100.0, "for the test"))
        for event in engine.stream("hello", Settings(max_tokens=64, draft_tokens=4, seed=1)):
            live.feed(event)
            if isinstance(event, Finished):
                result = event.result
    return live, result


def test_text_and_state(run: tuple[Live, Result]) -> None:
    live, result = run
    assert live.text == result.text
    assert live.state == "done"


def test_rows_show_every_token_and_every_dropped_draft_once(run: tuple[Live, Result]) -> None:
    live, result = run
    tokens = [token for round_ in result.rounds for token in round_.tokens]
    kept = [row for row in live.rows if row[1] != DROPPED]
    assert [row[0] for row in kept] == [token.text for token in tokens]
    dropped = sum(round_.k - round_.accepted for round_ in result.rounds)
    assert dropped > 0
    assert len(live.rows) - len(kept) == dropped
    # What was dropped stands where it was dropped: right before the token drawn in its place.
    for i, row in enumerate(live.rows[:-1]):
        if row[1] == DROPPED and live.rows[i + 1][1] != DROPPED:
            assert live.rows[i + 1][7] == row[7]


def test_meters_agree_with_the_summary(run: tuple[Live, Result]) -> None:
    live, result = run
    summary, meters = Summary(result.rounds), live.meters
    assert meters.tokens == len(summary.tokens)
    assert meters.kinds == {kind: summary.kinds[kind] for kind in meters.kinds}
    assert meters.drafted == summary.drafted
    assert math.isclose(meters.deviation, summary.deviation_sum)
    assert summary.tokens_per_second is not None
    assert math.isclose(meters.average or 0, summary.tokens_per_second)
    assert math.isclose(meters.ratio or 0, summary.tokens_per_second / 100.0)
    assert math.isclose(meters.view()["tau"], summary.mean_accepted_length or 0)


def test_a_reader_gets_what_it_lacks(run: tuple[Live, Result]) -> None:
    live, _ = run
    whole = live.view(0, 0)
    rest = live.view(10, 3)
    assert whole["rows"][10:] == rest["rows"]
    assert whole["meters"]["ks"][3:] == rest["meters"]["ks"]
    assert live.view(len(live.rows), 0)["rows"] == []


def test_records_come_back_from_disk(run: tuple[Live, Result], tmp_path: Path) -> None:
    live, result = run
    answers = Answers(tmp_path)
    record = Record(result.rounds, pieces_of(result.rounds, lambda token: f"<{token}>"), "", None)
    answers.keep("abc", 0, result.text, record)
    again = answers.of("abc", 0, result.text)
    assert again is not None
    assert again.rows() == live.rows
    assert answers.of("abc", 0, "another text") is None
    assert answers.of("abc", 1, result.text) is None
    answers.forget("abc")
    assert answers.of("abc", 0, result.text) is None


def test_a_step_wakes_a_waiting_reader(run: tuple[Live, Result]) -> None:
    _, result = run
    live = Live()
    seen = live.wait(0, timeout=0)
    first: Round = result.rounds[0]
    live.feed(Step(first, "x"))
    assert live.wait(seen, timeout=5) > seen


def test_text_comes_seldom_while_no_page_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answering("tab", Conversation(), "", lambda job, engine: None)
    now = 100.0
    monkeypatch.setattr("nsd_local.ui.talk.time", SimpleNamespace(monotonic=lambda: now))
    assert answer.watch(False, 2.5) == 2.5
    assert answer.watch(False, 0.3) == 1.0
    assert answer.watch(True, 2.5) == 0.0
    now += 4.0
    assert answer.watch(False, 2.5) == 0.0, "another page shows the text"
    now += 2.0
    assert answer.watch(False, 2.5) == 2.5, "that page is gone, or shows tokens now"
