"""Pace: what it learns from timed rounds."""

from __future__ import annotations

import pytest

from nsd_local.decoding.costs import Costs, Curve
from nsd_local.decoding.pace import Pace
from tests.decoding.rounds import timed

POINTS = {1: 1.0, 2: 1.5, 3: 2.0, 4: 2.5, 5: 3.0}
COSTS = Costs((Curve(0, POINTS, {1: 0.2}),))


def test_a_slower_machine_slows_every_width() -> None:
    pace = Pace(COSTS)
    for _ in range(40):
        pace.observe(timed(k=0, verify=2.0), pending=1)
        pace.observe(timed(k=1, verify=3.0), pending=1)
    assert pace.verify(1, 0) == pytest.approx(2.0, rel=0.05)
    assert pace.verify(5, 0) == pytest.approx(6.0, rel=0.15), "also those that were not seen"


def test_a_point_measured_wrong_is_corrected_alone() -> None:
    pace = Pace(COSTS)
    for _ in range(60):
        pace.observe(timed(k=0, verify=1.0), pending=1)
        pace.observe(timed(k=3, verify=5.0), pending=1)
    assert pace.verify(4, 0) == pytest.approx(5.0, rel=0.15)
    assert pace.verify(1, 0) == pytest.approx(1.0, rel=0.15)


def test_one_hiccup_changes_little() -> None:
    pace = Pace(COSTS)
    for _ in range(10):
        pace.observe(timed(k=2, verify=2.0), pending=1)
    pace.observe(timed(k=2, verify=60.0), pending=1)
    assert pace.verify(3, 0) < 1.3 * 2.0


def test_draft_time_is_learned_apart() -> None:
    pace = Pace(COSTS)
    for _ in range(30):
        pace.observe(timed(k=2, verify=2.0, draft=0.8), pending=1)  # 0.4 a step, not 0.2
    assert pace.drafting(4, 0) == pytest.approx(1.6, rel=0.1)
    assert pace.verify(3, 0) == pytest.approx(2.0, rel=0.05)


def test_without_a_calibration_seconds_are_learned_from_the_first_rounds() -> None:
    pace = Pace(None)
    assert not pace.known
    true = {1: 0.05, 3: 0.13, 5: 0.2}
    for _ in range(6):
        for n, seconds in true.items():
            pace.observe(timed(k=n - 1, verify=seconds, draft=0.01 * (n - 1)), pending=1)
    assert pace.known
    for n, seconds in true.items():
        assert pace.verify(n, 0) == pytest.approx(seconds, rel=0.1)
    assert true[3] < pace.verify(4, 0) < true[5], "a width between two seen ones follows them"
    assert pace.drafting(3, 0) == pytest.approx(0.03, rel=0.1)


def test_choices_that_must_not_depend_on_the_clock_do_not() -> None:
    pace = Pace(COSTS)
    pace.learning = False
    for _ in range(10):
        pace.observe(timed(k=0, verify=9.0, draft=9.0), pending=1)
    assert pace.round(0, 0) == 1.0
    assert pace.round(2, 0, source="model") == pytest.approx(2.4)
