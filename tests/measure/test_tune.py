"""Tuning and requantizing a pair of tiny models, end to end through the real llama.cpp."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsd_local.catalog.home import HOME_VARIABLE
from nsd_local.decoding import variants
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.variants import best_draft, recall
from nsd_local.engine.gguf_file import read_gguf
from nsd_local.engine.options import ContextOptions, ModelOptions
from nsd_local.errors import NsdError
from nsd_local.loading import Loaded, LoadOptions, load_pair
from nsd_local.measure import requantize as requantizing
from nsd_local.measure.advice import kept
from nsd_local.measure.prompts import Prompt
from nsd_local.measure.requantize import requantize
from nsd_local.measure.tune import Tuning, tune
from nsd_local.sampling.law import Law
from nsd_local.verification.rule import Nucleus
from tests import tiny
from tests.tiny import Tiny

SETTINGS = Settings(law=Law(temperature=1.0), rule=Nucleus(0.9))
PROMPTS = [Prompt("code", "one", "Hello, this is a prompt."), Prompt("chat", "two", "And another one, a bit longer.")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("tune")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(folder / "home"))
        tiny.write(folder / "target.gguf", Tiny(seed=1, n_layer=4, stop_bias=-30.0))
        tiny.write(folder / "draft.gguf", Tiny(seed=1, noise=0.05, stop_bias=-30.0))
        yield folder


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Iterator[Loaded]:
    loaded = load_pair(folder / "target.gguf", folder / "draft.gguf", LoadOptions(ctx=512, threads=1, offline=True))
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def tuning(loaded: Loaded) -> Tuning:
    return tune(loaded, SETTINGS, seconds=60.0, tokens=24, prompts=PROMPTS)


def test_tuning_measures_costs_and_acceptance(tuning: Tuning, loaded: Loaded) -> None:
    assert [sample.kind for sample in tuning.samples] == ["code", "chat"]
    assert [len(trace) for trace in tuning.traces] == [24, 24]
    assert {row.k for row in tuning.advice.rows} == {n - 1 for n in tuning.costs.widths}
    assert tuning.advice.rows[0].gain == pytest.approx(1.0)
    assert tuning.advice.best.rate >= tuning.advice.plain
    assert "On this machine the target verifies" in tuning.advice.verdict
    assert all(context.tokens == [] for context in loaded.contexts.values())


def test_the_advice_is_kept_for_doctor(tuning: Tuning) -> None:
    assert kept()[0] == tuning.advice


def test_lookup_alone_is_tuned_too(folder: Path) -> None:
    alone = load_pair(folder / "target.gguf", "ngram", LoadOptions(ctx=512, threads=1, offline=True))
    try:
        advice = tune(alone, SETTINGS, seconds=60.0, tokens=8, prompts=PROMPTS[:1]).advice
    finally:
        alone.close()
    assert advice.rows == ()
    assert "there is no draft model" in advice.verdict


def options() -> tuple[ModelOptions, ContextOptions]:
    return ModelOptions(), ContextOptions(n_ctx=512, threads=1)


def test_the_fastest_variant_is_kept_with_its_provenance(
    tuning: Tuning, loaded: Loaded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = {"draft": 10.0, "q4_0": 30.0, "iq4_nl": 15.0, "q8_0": 20.0}
    monkeypatch.setattr(requantizing, "_speed", lambda _, path, *rest: speeds[path.stem.rpartition("-")[2]])
    draft, said = folder / "draft.gguf", []
    found = requantize(loaded.target.context, draft, tuning.samples, SETTINGS, options=options(), say=said.append)
    assert found.type_ == "Q4_0"
    assert found.measured == {"": 10.0, "Q4_0": 30.0, "IQ4_NL": 15.0, "Q8_0": 20.0}
    best = best_draft(draft)
    assert best == found.path
    assert best is not None
    assert best_draft(draft, folder / "target.gguf") == best
    assert "draft.gguf" in str(read_gguf(best).metadata["nsd_local.quantized_from"])
    assert [path.name for path in variants.folder().glob("*.gguf")] == [best.name], "the losers are gone"
    for wanted, path in ((True, best), (False, draft)):
        again = load_pair(
            folder / "target.gguf", draft, LoadOptions(ctx=256, threads=1, offline=True, requantized=wanted)
        )
        assert again.draft is not None
        told = again.draft.describe()
        again.close()
        assert told["path"] == str(path)
        assert ("Q4_0 (30.0 tok/s expected, 10.0 as it was" in told["choices"].get("file", "")) is wanted


def test_the_draft_itself_may_be_best(
    tuning: Tuning, loaded: Loaded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requantizing, "_speed", lambda _, path, *rest: 9.0 if path.stem == "draft" else 5.0)
    draft = folder / "draft.gguf"
    requantize(loaded.target.context, draft, tuning.samples, SETTINGS, options=options())
    assert best_draft(draft) is None
    assert recall(draft) is not None
    assert list(variants.folder().glob("*.gguf")) == []


def test_speeds_are_measured_with_real_models(tuning: Tuning, loaded: Loaded, folder: Path) -> None:
    draft = folder / "draft.gguf"
    found = requantize(
        loaded.target.context, draft, tuning.samples, SETTINGS, options=options(), types=("Q8_0",), seconds=30.0
    )
    assert set(found.measured) == {"", "Q8_0"}
    assert min(found.measured.values()) > 0
    os.utime(draft, ns=(1, 1))
    assert best_draft(draft) is None, "the draft has changed since"


def test_a_type_that_cannot_be_made_is_reported_and_skipped(
    tuning: Tuning, loaded: Loaded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requantizing, "_speed", lambda *rest: 1.0)
    said: list[str] = []
    found = requantize(
        loaded.target.context,
        folder / "draft.gguf",
        tuning.samples,
        SETTINGS,
        options=options(),
        types=("Q9_9",),
        say=said.append,
    )
    assert found.type_ == ""
    assert any("Q9_9 is not a quantization" in line for line in said)


def test_nothing_is_known_of_a_draft_that_was_never_tried(tmp_path: Path) -> None:
    assert best_draft(tmp_path / "unknown.gguf") is None
    with pytest.raises((NsdError, OSError)):
        requantize(None, tmp_path / "unknown.gguf", [], SETTINGS, options=options())  # type: ignore[arg-type]
