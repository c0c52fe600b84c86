"""Calibration: measured with real contexts of tiny models, kept, and thrown away when anything changes."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nsd_local.catalog.home import HOME_VARIABLE
from nsd_local.decoding import calibration
from nsd_local.decoding.calibrate import Calibration
from nsd_local.decoding.calibration import calibrated, identity, recall, remember
from nsd_local.decoding.costs import Costs
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.errors import Cancelled
from tests import tiny
from tests.tiny import Tiny

OPTIONS = ContextOptions(n_ctx=1024, threads=1)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def contexts(tmp_path: Path, home: Path) -> Iterator[tuple[Context, Context]]:
    target = Model.load(tiny.write(tmp_path / "target.gguf", Tiny(seed=1)))
    draft = Model.load(tiny.write(tmp_path / "draft.gguf", Tiny(seed=1, noise=0.1)))
    with target, draft:
        yield Context(target, OPTIONS), Context(draft, OPTIONS)


def measured(target: Context, draft: Context | None) -> Costs:
    return Calibration(target, draft, 60.0).run()  # far more than seven passes of each width take


def test_it_measures_all_widths_at_two_contexts_and_leaves_nothing_behind(contexts: tuple[Context, Context]) -> None:
    target, draft = contexts
    costs = measured(target, draft)
    assert {1, 2, 4, 8, 16} <= set(costs.widths)
    assert set(costs.curves[0].draft) == {1, 2, 4, 8, 16, 64}
    assert costs.curves[0].context < 100
    assert all(curve.verify[1] > 0 for curve in costs.curves)
    assert costs.overhead[0] > 0
    assert target.tokens == draft.tokens == []


def test_without_a_draft_model(contexts: tuple[Context, Context]) -> None:
    costs = measured(contexts[0], None)
    assert not costs.has_draft
    assert costs.round(3, 0) > costs.round(0, 0) * 0.5


def test_it_stays_within_its_time(contexts: tuple[Context, Context]) -> None:
    """On a clock that ticks a second per look, whatever the machine does."""
    ticks = itertools.count()
    target, draft = contexts
    costs = Calibration(target, draft, 60.0, clock=lambda: float(next(ticks))).run()
    assert next(ticks) < 90
    assert 1 in costs.curves[0].verify
    assert len(costs.widths) < 16, "there was no time for the rest"


@pytest.mark.parametrize("asked", [1, 12, 150])
def test_it_can_be_stopped(contexts: tuple[Context, Context], home: Path, asked: int) -> None:
    """While a text is read, and between samples."""
    answers = iter([False] * asked)
    with pytest.raises(Cancelled):
        calibrated(*contexts, seconds=60.0, cancelled=lambda: next(answers, True))
    assert contexts[0].tokens == contexts[1].tokens == []
    assert not (home / "calibration").exists(), "nothing is kept"


def test_a_short_context_is_no_obstacle(contexts: tuple[Context, Context]) -> None:
    with Context(contexts[0].model, replace(OPTIONS, n_ctx=16)) as small:
        costs = measured(small, None)
    assert max(costs.widths) <= small.n_ctx


def test_it_is_kept_and_found_again(
    contexts: tuple[Context, Context], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = contexts
    monkeypatch.setattr(calibration, "BUSY", 1e9)
    monkeypatch.setattr(Calibration, "steady", True)
    said: list[str] = []
    first = calibrated(target, draft, seconds=60.0, say=said.append)
    monkeypatch.setattr(Calibration, "run", lambda self: pytest.fail("measured twice"))
    assert calibrated(target, draft, say=said.append) == first
    assert len(said) == 1
    assert [path.suffix for path in (home / "calibration").iterdir()] == [".json"], "no half-written files"


def test_a_doubtful_measurement_is_used_for_a_while(
    contexts: tuple[Context, Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Calibration, "steady", False)
    costs = calibrated(*contexts, seconds=60.0)
    assert costs is not None
    assert "others were using the machine" in costs.note
    assert recall(*contexts) == costs
    monkeypatch.setattr(calibration, "time", lambda: time.time() + calibration.DOUBTFUL + 1)
    assert recall(*contexts) is None


def test_a_measurement_that_failed_is_not_repeated_at_once(
    contexts: tuple[Context, Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine would lose its seconds at every start."""
    said: list[str] = []
    monkeypatch.setattr(calibration, "FEWEST", 1_000)
    assert calibrated(*contexts, seconds=60.0, again=True, say=said.append) is None
    assert "nsd-local tune" in said[-1]
    monkeypatch.setattr(calibration, "FEWEST", 4)
    assert calibrated(*contexts, seconds=60.0, say=said.append) is None
    assert len(said) == 2, "nothing was measured"
    assert calibrated(*contexts, seconds=60.0, again=True) is not None
    assert calibrated(*contexts, seconds=60.0) is not None, "what was measured takes the place of the failure"
    monkeypatch.setattr(calibration, "FEWEST", 1_000)
    calibrated(*contexts, seconds=60.0, again=True)
    monkeypatch.setattr(calibration, "FEWEST", 4)
    monkeypatch.setattr(calibration, "time", lambda: time.time() + calibration.RETRY + 1)
    assert calibrated(*contexts, seconds=60.0) is not None, "later it is tried again"


def test_anything_that_changes_the_speed_invalidates_it(
    contexts: tuple[Context, Context], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = contexts
    costs = measured(target, draft)
    assert remember(target, draft, costs)
    assert recall(target, draft) == costs
    assert recall(target, None) is None, "another pair"
    with Context(target.model, replace(OPTIONS, threads=2)) as more:
        assert recall(more, draft) is None, "other threads"
    with Context(target.model, replace(OPTIONS, cache_type_k="q8_0")) as smaller:
        assert recall(smaller, draft) is None, "another cache type"
    with monkeypatch.context() as build:
        build.setattr(calibration.library, "llama_version", lambda: "another build")
        assert recall(target, draft) is None
    with monkeypatch.context() as machine:
        machine.setattr(calibration, "cpu_name", lambda: "another processor")
        assert recall(target, draft) is None
    os.utime(draft.model.path, ns=(1, 1))
    assert recall(target, draft) is None, "a file that was written again"


def test_a_damaged_file_in_the_cache_is_measured_again(contexts: tuple[Context, Context], home: Path) -> None:
    target, draft = contexts
    remember(target, draft, measured(target, draft))
    (path,) = (home / "calibration").iterdir()
    for content in (
        "",
        "{",
        "[]",
        json.dumps({"key": identity(target, draft), "until": None, "costs": {"curves": []}}),
    ):
        path.write_text(content)
        assert recall(target, draft) is None


def test_an_unwritable_cache_is_no_failure(
    contexts: tuple[Context, Context], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv(HOME_VARIABLE, str(blocked))
    assert calibrated(*contexts, seconds=60.0) is not None
