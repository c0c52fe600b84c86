"""Adaptive drafting keeps the law of exact verification; looking at a drawn token's probability would not.

The first three tokens after a prompt are compared with the target's law, computed by enumeration, over many answers
through the real loop and a real llama.cpp. The controller learns from one answer to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from nsd_local.decoding.adaptive import Adaptive
from nsd_local.decoding.decoder import Decoder
from nsd_local.decoding.events import Finished
from nsd_local.decoding.settings import Settings
from nsd_local.drafting.draft import Draft, Proposer
from nsd_local.drafting.model_draft import ModelDraft
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.sampling.law import Law
from nsd_local.verification.rule import Exact
from tests import tiny
from tests.decoding.test_adaptive import CHEAP
from tests.tiny import Tiny

ANSWERS = 4_000
FALSE_ALARM = 1e-6  # of the test that must pass; the one that must fail has to be this sure
LENGTH, WIDTH = 3, 4
LAW = Law(temperature=1.0, top_k=WIDTH)
PROMPT = list(range(40, 52))


class Untimed(Adaptive):
    """Learns over requests, but not from the clock, so that this test gives the same result every time."""

    def begin(self, *, metered: bool = True, reproducible: bool = False) -> None:
        super().begin(metered=metered)
        self._pace.learning = False


class Peeking:
    """What must not be done: drops a draft because the token drawn turned out to be unlikely (as p_min rules do)."""

    def __init__(self, proposer: ModelDraft) -> None:
        self._proposer = proposer
        self.name = proposer.name
        self.begin, self.offers = proposer.begin, proposer.offers
        self.commit, self.close = proposer.commit, proposer.close

    def propose(self, k: int, law: Law, *rest: object, **more: object) -> Draft:
        draft = self._proposer.propose(k, law, *rest, **more)  # type: ignore[arg-type]
        assert draft.logits is not None
        keep = 0
        while keep < len(draft.tokens) and _law_of(draft.logits[keep])[draft.tokens[keep]] > 0.3:
            keep += 1
        return replace(draft, tokens=draft.tokens[:keep], logits=draft.logits[:keep])


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Context, Context]]:
    folder = tmp_path_factory.mktemp("law")
    options = ContextOptions(n_ctx=128, threads=1)
    target = Model.load(tiny.write(folder / "target.gguf", Tiny(seed=3, stop_bias=-30.0)))
    draft = Model.load(tiny.write(folder / "draft.gguf", Tiny(seed=3, noise=0.3, stop_bias=-30.0)))
    with target, draft:
        yield Context(target, options), Context(draft, options)


def _law_of(logits: np.ndarray) -> np.ndarray:
    """(V,) float64, by a full sort; ties by lower token id."""
    order = np.lexsort((np.arange(len(logits)), -logits))[:WIDTH]
    law = np.zeros(len(logits))
    law[order] = np.exp(logits[order].astype(np.float64) - logits.max())
    return law / law.sum()


def _expected(target: Context) -> dict[tuple[int, ...], float]:
    """Probability of every text of three tokens."""
    texts: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(LENGTH):
        longer: dict[tuple[int, ...], float] = {}
        for text, probability in texts.items():
            target.prefill(PROMPT[:-1])
            law = _law_of(target.evaluate([PROMPT[-1], *text], rows=1)[0])
            for token in np.flatnonzero(law):
                longer[(*text, int(token))] = probability * law[token]
        texts = longer
    return texts


def _p_value(target: Context, proposer: Proposer) -> tuple[float, Counter[int]]:
    """Chi-square test of many answers against the target's law, and how often which k was drafted."""
    expected = _expected(target)
    length = Untimed(CHEAP)
    decoder = Decoder(target, proposer, adaptive=lambda _: length)
    settings = Settings(law=LAW, rule=Exact(), draft_tokens="auto", max_tokens=LENGTH, exact_first=0)
    seen: Counter[tuple[int, ...]] = Counter()
    lengths: Counter[int] = Counter()
    for seed in range(ANSWERS):
        tokens, rounds = _answer(decoder, replace(settings, seed=seed))
        seen[tokens] += 1
        lengths.update(rounds)
    assert set(seen) <= set(expected)
    rare = [text for text, probability in expected.items() if probability * ANSWERS < 5]
    cells = [text for text in expected if text not in set(rare)]
    counts = [seen[text] for text in cells] + [sum(seen[text] for text in rare)]
    means = [expected[text] * ANSWERS for text in cells] + [sum(expected[text] for text in rare) * ANSWERS]
    pairs = [(count, mean) for count, mean in zip(counts, means, strict=True) if mean > 0]
    observed, wanted = zip(*pairs, strict=True)
    return float(chisquare(observed, wanted).pvalue), lengths


def _answer(decoder: Decoder, settings: Settings) -> tuple[tuple[int, ...], list[int]]:
    for event in decoder.stream(PROMPT, settings):
        if isinstance(event, Finished):
            rounds = event.result.rounds
            return tuple(token.id for round in rounds for token in round.tokens), [round.k for round in rounds]
    raise AssertionError("no end")


def test_the_law_is_that_of_the_target(contexts: tuple[Context, Context]) -> None:
    target, draft = contexts
    p_value, lengths = _p_value(target, ModelDraft(draft, target.n_vocab))
    assert p_value > FALSE_ALARM
    assert len([k for k, count in lengths.items() if count > ANSWERS / 50]) >= 2, "it did choose"
    assert sum(count for k, count in lengths.items() if k) > ANSWERS / 2, "it did draft"


def test_peeking_is_caught(contexts: tuple[Context, Context]) -> None:
    target, draft = contexts
    p_value, _ = _p_value(target, Peeking(ModelDraft(draft, target.n_vocab)))
    assert p_value < FALSE_ALARM
