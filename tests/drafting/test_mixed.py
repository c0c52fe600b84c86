"""Lookup and draft model together, through the real loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nsd_local
from nsd_local.decoding.controller import Choice, Fixed
from nsd_local.decoding.decoder import Decoder
from nsd_local.decoding.events import Finished
from nsd_local.decoding.records import Result
from nsd_local.decoding.settings import Settings
from nsd_local.drafting.lookup import Lookup
from nsd_local.drafting.mixed import LONG_MATCH, Mixed
from nsd_local.drafting.model_draft import ModelDraft
from nsd_local.drafting.offer import Offer
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.loading import split_draft
from nsd_local.sampling.law import Law
from nsd_local.verification.rule import Exact
from tests import tiny
from tests.tiny import Tiny

GREEDY = Settings(law=Law(temperature=0.0), rule=Exact(), draft_tokens="auto", max_tokens=60, seed=1)
PROMPT = [*range(40, 60), 7, *range(40, 60), 7, *range(40, 46)]


class Turns(Fixed):
    """Takes the offers in turn, so that each proposer has to catch up with the other."""

    def __init__(self, k: int) -> None:
        super().__init__(k)
        self.round = 0

    def choose(self, limit: int, context: int, offers: tuple[Offer, ...] = ()) -> Choice:
        self.round += 1
        by_name = {offer.source: offer for offer in offers}
        for name in ["model", "ngram"] if self.round % 4 < 2 else ["ngram", "model"]:
            if name in by_name and limit:
                return Choice(min(self.k, limit, by_name[name].most), "in turn", name)
        return Choice(0, "nothing fits")


@pytest.fixture
def contexts(tmp_path: Path) -> Iterator[tuple[Context, Context]]:
    options = ContextOptions(n_ctx=256, threads=1)
    target = Model.load(tiny.write(tmp_path / "target.gguf", Tiny(seed=5, stop_bias=-30.0)))
    draft = Model.load(tiny.write(tmp_path / "draft.gguf", Tiny(seed=5, noise=0.05, stop_bias=-30.0)))
    with target, draft:
        yield Context(target, options), Context(draft, options)


def answer(decoder: Decoder, settings: Settings = GREEDY) -> Result:
    return next(event.result for event in decoder.stream(PROMPT, settings) if isinstance(event, Finished))


def ids(result: Result) -> list[int]:
    return [token.id for round in result.rounds for token in round.tokens]


@pytest.mark.parametrize("k", [1, 4])
def test_both_memories_stay_in_step(contexts: tuple[Context, Context], k: int) -> None:
    target, draft = contexts
    plain = ids(answer(Decoder(target, None)))
    mixed = Mixed(Lookup(), ModelDraft(draft, target.n_vocab))
    result = answer(Decoder(target, mixed, adaptive=lambda _: Turns(k)))
    assert ids(result) == plain
    assert {"model", "ngram"} <= {round.source for round in result.rounds}
    text = PROMPT + plain
    assert target.tokens == text[: len(target.tokens)]
    assert draft.tokens == text[: len(draft.tokens)]
    assert len(draft.tokens) >= len(PROMPT)


def test_a_model_that_has_caught_up_drafts_what_it_would_have_drafted(contexts: tuple[Context, Context]) -> None:
    target, draft = contexts
    model = ModelDraft(draft, target.n_vocab)
    mixed = Mixed(Lookup(), model)
    list(mixed.begin(PROMPT))
    text = [11, 12, 13, 14, 15]
    for token in text:
        mixed.commit([token])
    assert mixed.offers(4)[0] == Offer("model", 4, pending=len(text) + 1)
    late = mixed.propose(4, Law(temperature=0.0), np.random.default_rng(0), source="model")
    list(model.begin(PROMPT + text))
    fresh = model.propose(4, Law(temperature=0.0), np.random.default_rng(0))
    assert late.tokens.tolist() == fresh.tokens.tolist()


def test_a_long_match_is_offered_first(contexts: tuple[Context, Context]) -> None:
    target, draft = contexts
    mixed = Mixed(Lookup(), ModelDraft(draft, target.n_vocab))
    list(mixed.begin(PROMPT))
    assert [offer.source for offer in mixed.offers(4)] == ["ngram", "model"]
    assert mixed.propose(3, Law(), np.random.default_rng(0)).tokens.tolist() == [46, 47, 48]
    list(mixed.begin([*range(40, 60), 7, *range(43, 43 + LONG_MATCH - 1)]))
    assert [offer.source for offer in mixed.offers(4)] == ["model", "ngram"]
    assert mixed.propose(3, Law(), np.random.default_rng(0)).source == "model"
    list(mixed.begin([1, 2, 3]))
    assert [offer.source for offer in mixed.offers(4)] == ["model"]


def test_a_draft_of_ones_own_can_be_mixed_with_lookup(tiny_target: Path, tiny_draft: Path) -> None:
    with nsd_local.load(tiny_target, f"auto:{tiny_draft}", ctx=256, threads=1, calibrate=False) as engine:
        assert engine.draft is not None
        assert engine.decoder.proposer is not None
        assert engine.decoder.proposer.name == "auto"
        sources = {one.source for one in engine.generate(PROMPT, replace(GREEDY, draft_tokens=3)).rounds}
    assert {"model", "ngram"} <= sources


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("none", (False, "")),
        ("ngram", (True, "")),
        ("auto", (True, "")),
        ("auto:drafts/a.gguf", (True, "drafts/a.gguf")),
        ("a.gguf", (False, "a.gguf")),
        ("Org/Repo:Q4_0", (False, "Org/Repo:Q4_0")),
    ],
)
def test_what_a_draft_specification_means(spec: str, expected: tuple[bool, str]) -> None:
    assert split_draft(spec) == expected
