"""Predictions of speed: against closed forms, against many simulated runs, and against a real recording."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nsd_local.decoding.costs import Costs, Curve
from nsd_local.decoding.decoder import Decoder
from nsd_local.decoding.events import Finished
from nsd_local.decoding.records import Result
from nsd_local.decoding.records_io import Recording
from nsd_local.decoding.settings import Settings
from nsd_local.drafting.model_draft import ModelDraft
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.errors import UsageError
from nsd_local.measure.profile import profile
from nsd_local.measure.simulate import predict
from nsd_local.measure.trace import Trace
from nsd_local.sampling.law import Law
from nsd_local.verification.rule import Exact, Match, Nucleus
from tests import tiny
from tests.tiny import Tiny

COSTS = Costs(
    (
        Curve(0, {1: 0.10, 2: 0.11, 4: 0.16, 8: 0.25}, {1: 0.015, 2: 0.018}),
        Curve(1_000, {1: 0.12, 2: 0.13, 4: 0.2, 8: 0.3}, {1: 0.02, 2: 0.025}),
    ),
    overhead=(0.001, 0.0005),
)
SETTINGS = Settings(law=Law(temperature=1.0), rule=Nucleus(0.8), draft_tokens=5, max_tokens=80, exact_first=0, seed=4)
PROMPT = list(range(40, 60))


def flat(chance: float, n: int = 400) -> Trace:
    return Trace(0, (1.0 - chance,) * n, {0.9: (0.0,) * n})


def test_plain_decoding_costs_a_pass_per_token() -> None:
    prediction = predict([Trace(0, (0.5,) * 10, {})], COSTS, 0, Exact())
    assert prediction.tokens == prediction.rounds == 10
    assert prediction.seconds == pytest.approx(10 * 0.101, rel=0.01)


def test_a_constant_acceptance_gives_the_geometric_length() -> None:
    chance, k = 0.7, 3
    prediction = predict([flat(chance)], COSTS, k, Exact())
    assert prediction.mean_accepted_length == pytest.approx((1 - chance ** (k + 1)) / (1 - chance), rel=0.01)


def test_expected_seconds_are_the_mean_over_many_runs() -> None:
    rng = np.random.default_rng(0)
    kept = rng.random(60).tolist()
    trace = Trace(300, tuple(1.0 - value for value in kept), {})
    for k in (1, 3, 7):
        runs = [_run(kept, 300, k, rng) for _ in range(4_000)]
        assert predict([trace], COSTS, k, Exact()).seconds == pytest.approx(np.mean(runs), rel=0.01)


def _run(kept: list[float], start: int, k: int, rng: np.random.Generator) -> float:
    """Seconds of one run, as the loop would take them."""
    t, seconds, pending = 0, 0.0, 1
    while t < len(kept):
        j = min(k, len(kept) - t - 1)
        seconds += COSTS.round(j, start + t - 1, pending=pending)
        a = 0
        while a < j and rng.random() < kept[t + a]:
            a += 1
        pending = 2 if j and a == j else 1
        t += a + 1
    return seconds


def test_a_relaxed_rule_is_faster_by_its_excess() -> None:
    n = 300
    trace = Trace(0, (0.5,) * n, {0.8: (0.1,) * n, 0.9: (0.3,) * n})
    speed = {rule: predict([trace], COSTS, 3, rule).tokens_per_second for rule in (Exact(), Nucleus(0.9, 0.5))}
    assert speed[Nucleus(0.9, 0.5)] > speed[Exact()]
    assert trace.acceptance(Nucleus(0.9))[5] == pytest.approx(0.8)
    assert trace.acceptance(Nucleus(0.85))[5] == pytest.approx(0.7), "between two thetas"
    assert trace.acceptance(Nucleus(0.9, cap=0.05))[5] == pytest.approx(0.55)
    assert trace.acceptance(Nucleus(0.9), exact_first=2)[:3] == pytest.approx([0.5, 0.5, 0.8])


def test_what_the_rounds_do_not_hold_is_refused() -> None:
    trace = Trace(0, (0.5,) * 9, {0.8: (0.1,) * 9})
    for rule in (Nucleus(0.9), Match()):
        with pytest.raises(UsageError, match="cannot be predicted from these rounds"):
            predict([trace], COSTS, 3, rule)
    with pytest.raises(UsageError, match="say nothing about acceptance"):
        predict([Trace(0, (float("nan"),) * 4, {})], COSTS, 3, Exact())


def test_auto_is_the_real_controller() -> None:
    fixed = max(predict([flat(0.9)], COSTS, k, Exact()).tokens_per_second for k in range(8))
    auto = predict([flat(0.9)] * 8, COSTS, "auto", Exact())
    assert auto.k == "auto"
    assert auto.tokens_per_second > 0.95 * fixed


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Context, Context]]:
    folder, options = tmp_path_factory.mktemp("simulate"), ContextOptions(n_ctx=256, threads=1)
    target = Model.load(tiny.write(folder / "target.gguf", Tiny(seed=2, stop_bias=-30.0)))
    draft = Model.load(tiny.write(folder / "draft.gguf", Tiny(seed=2, noise=0.2, stop_bias=-30.0)))
    with target, draft:
        yield Context(target, options), Context(draft, options)


def recorded(contexts: tuple[Context, Context]) -> Result:
    target, draft = contexts
    stream = Decoder(target, ModelDraft(draft, target.n_vocab)).stream(PROMPT, SETTINGS)
    return next(event.result for event in stream if isinstance(event, Finished))


def test_a_recording_and_a_profile_of_its_text_agree(contexts: tuple[Context, Context]) -> None:
    result = recorded(contexts)
    answer = [token.id for round in result.rounds for token in round.tokens]
    trace = Trace.of(Recording({"theta": 0.8}, result.rounds))
    again = profile(*contexts, PROMPT, answer, SETTINGS.law, thetas=(0.8,))
    assert len(trace) == len(again) == 80
    assert trace.prompt_tokens == again.prompt_tokens == len(PROMPT)
    known = ~np.isnan(trace.divergence)
    assert known.mean() > 0.7
    assert np.array(trace.divergence)[known] == pytest.approx(np.array(again.divergence)[known], abs=0.01)
    assert np.array(trace.excess[0.8])[known] == pytest.approx(np.array(again.excess[0.8])[known], abs=0.05)


def test_a_profile_in_json_is_the_same_trace(contexts: tuple[Context, Context]) -> None:
    trace = profile(*contexts, PROMPT, list(range(60, 90)), SETTINGS.law)
    about = {"profile": trace.to_profile()}
    again = Trace.of(Recording(about))
    assert again.acceptance(Match()) == pytest.approx(trace.acceptance(Match()))
    assert again.acceptance(Nucleus(0.9)) == pytest.approx(trace.acceptance(Nucleus(0.9)))
    assert again.entropy == trace.entropy


def test_the_meter_predicts_what_is_kept(contexts: tuple[Context, Context]) -> None:
    """1 - TV + deviation, summed over the processed positions, is the expected number of kept drafts."""
    kept, expected, variance = 0, 0.0, 0.0
    target, draft = contexts
    decoder = Decoder(target, ModelDraft(draft, target.n_vocab))
    for seed in range(20):
        settings = Settings(law=SETTINGS.law, rule=Nucleus(0.6), block=False, draft_tokens=4, max_tokens=60, seed=seed)
        result = next(e.result for e in decoder.stream(PROMPT, settings) if isinstance(e, Finished))
        for round in result.rounds:
            kept += round.accepted
            for distance, spent in zip(round.divergence, round.deviation, strict=True):
                chance = 1.0 - distance + spent
                expected += chance
                variance += chance * (1.0 - chance)
    assert abs(kept - expected) < 5.0 * variance**0.5, "five standard deviations: a false alarm in 2 million"


def test_theta_is_that_of_the_arm() -> None:
    about = {"rule": "nucleus", "arm": "nucleus:strength=0.5", "rule_parameters": {"theta": 0.8, "strength": 0.5}}
    assert list(Trace.of(Recording(about)).excess) == [0.8]
    assert list(Trace.of(Recording(about | {"rule": "nucleus-block"})).excess) == [0.8]
    assert not Trace.of(Recording(about | {"rule": "block"})).excess
