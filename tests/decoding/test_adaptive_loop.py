"""Automatic drafting through the real loop: a draft that is no good is given up, a good one is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from nsd_local.decoding.adaptive import Adaptive
from nsd_local.decoding.decoder import Decoder
from nsd_local.decoding.events import Finished
from nsd_local.decoding.records import Result
from nsd_local.decoding.settings import Settings
from nsd_local.drafting.lookup import Lookup
from nsd_local.drafting.model_draft import ModelDraft
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.sampling.law import Law
from nsd_local.verification.rule import Exact
from tests import tiny
from tests.decoding.test_adaptive import CHEAP, DEAR
from tests.tiny import Tiny

# A seed keeps the choices off the clock, so that the made-up costs decide and nothing is left to chance.
SETTINGS = Settings(law=Law(temperature=1.0), rule=Exact(), draft_tokens="auto", max_tokens=150, seed=3)
PROMPT = list(range(40, 60))


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Context]]:
    folder, options = tmp_path_factory.mktemp("auto"), ContextOptions(n_ctx=256, threads=1)
    made = {
        "target": Tiny(seed=5, stop_bias=-30.0),
        "twin": Tiny(seed=5, noise=0.001, stop_bias=-30.0),
        "stranger": Tiny(seed=77, spread=6.0, stop_bias=-30.0),
    }
    models = {name: Model.load(tiny.write(folder / f"{name}.gguf", about)) for name, about in made.items()}
    yield {name: Context(model, options) for name, model in models.items()}
    for model in models.values():
        model.close()


def answer(contexts: dict[str, Context], draft: str, length: Adaptive, settings: Settings = SETTINGS) -> Result:
    target = contexts["target"]
    proposer = Lookup() if draft == "lookup" else ModelDraft(contexts[draft], target.n_vocab)
    decoder = Decoder(target, proposer, adaptive=lambda _: length)
    decoder.forget()
    return next(event.result for event in decoder.stream(PROMPT, settings) if isinstance(event, Finished))


def test_a_good_draft_is_used(contexts: dict[str, Context]) -> None:
    result = answer(contexts, "twin", Adaptive(CHEAP))
    lengths = [round.k for round in result.rounds]
    assert sorted(lengths)[len(lengths) // 2] >= 3
    assert result.reason.startswith("k auto: drafted in ")
    assert all(round.why for round in result.rounds)


def test_a_draft_with_random_weights_is_given_up_and_the_reason_is_told(contexts: dict[str, Context]) -> None:
    result = answer(contexts, "stranger", Adaptive(CHEAP))
    assert result.reason.startswith("drafting is off")
    assert max(round.k for round in result.rounds[12:]) <= 1
    assert sum(round.k for round in result.rounds[12:]) < 20
    metered = [1.0 - value for round in result.rounds for value in round.divergence]
    assert sum(metered) / len(metered) < 0.2, "the meter shows how poor it is"


def test_a_target_that_checks_slowly_decodes_plainly_and_says_why(contexts: dict[str, Context]) -> None:
    result = answer(contexts, "twin", Adaptive(DEAR))
    assert {round.k for round in result.rounds} == {0}
    assert not result.active
    assert "verifying 4 tokens costs 2.9 plain passes" in result.reason
    assert result.reason in result.notices, "shown where the user looks"


def test_a_full_context_is_not_the_reason_why_nothing_was_drafted(contexts: dict[str, Context]) -> None:
    result = answer(contexts, "twin", Adaptive(DEAR), replace(SETTINGS, max_tokens=None))
    assert any("is full" in notice for notice in result.notices)
    assert result.reason.startswith("drafting is off: it loses even if")


def test_lookup_is_automatic_too(contexts: dict[str, Context]) -> None:
    greedy = Settings(law=Law(temperature=0.0), rule=Exact(), draft_tokens="auto", max_tokens=200, seed=3)
    result = answer(contexts, "lookup", Adaptive(CHEAP), greedy)
    assert any(round.k for round in result.rounds), "greedy text of a small model runs in circles"
    drafted = [round for round in result.rounds if round.k]
    assert {round.source for round in drafted} == {"ngram"}
    assert sum(round.accepted for round in drafted) / sum(round.k for round in drafted) > 0.7


def test_the_same_seed_gives_the_same_rounds(contexts: dict[str, Context]) -> None:
    for draft in ("twin", "lookup"):
        length = Adaptive(CHEAP)
        first = answer(contexts, draft, length)
        target = contexts["target"]
        assert target.tokens
        again = answer(contexts, draft, length)
        assert [round.k for round in first.rounds] == [round.k for round in again.rounds]
        assert [t.id for r in first.rounds for t in r.tokens] == [t.id for r in again.rounds for t in r.tokens]
