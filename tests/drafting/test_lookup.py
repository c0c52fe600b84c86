"""Lookup as a proposer: what it drafts, what it offers, and how it learns what its matches are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nsd_local.drafting.answer_memory import AnswerMemory
from nsd_local.drafting.lookup import LONGEST_LOOKUP, Lookup
from nsd_local.drafting.prompt_index import PromptIndex
from nsd_local.sampling.law import Law

LAW, RNG = Law(), np.random.default_rng(0)


def begun(*tokens: int) -> Lookup:
    lookup = Lookup()
    assert list(lookup.begin(tokens)) == [], "nothing has to be evaluated"
    return lookup


def drafted(lookup: Lookup, k: int) -> list[int]:
    draft = lookup.propose(k, LAW, RNG)
    assert draft.logits is None
    assert draft.source == "ngram"
    assert draft.tokens.dtype == np.int32
    return draft.tokens.tolist()


def test_the_longest_match_wins_over_a_more_recent_shorter_one() -> None:
    lookup = begun(1, 2, 3, 4, 50, 51, 9, 3, 4, 60, 61, 8, 1, 2, 3, 4)
    assert drafted(lookup, 2) == [50, 51]


def test_the_most_recent_match_wins_among_equals() -> None:
    lookup = begun(3, 4, 50, 9, 3, 4, 60, 8, 3, 4)
    assert drafted(lookup, 1) == [60]


def test_a_copy_runs_on_into_itself() -> None:
    lookup = begun(7, 8, 9, 7, 8, 9, 7)
    assert drafted(lookup, 7) == [8, 9, 7, 8, 9, 7, 8]


def test_nothing_to_propose_in_new_text() -> None:
    lookup = begun(1, 2, 3, 4, 5)
    assert lookup.offers(8) == ()
    assert drafted(lookup, 8) == []


def test_emitted_tokens_are_searched_too() -> None:
    lookup = begun(1, 2, 3)
    lookup.commit([4, 5, 6])
    lookup.commit([1, 2, 3, 4])
    assert drafted(lookup, 2) == [5, 6]


def test_an_offer_is_as_long_as_its_draft_and_never_longer_than_allowed() -> None:
    lookup = begun(*range(100), *range(10))
    for limit in (1, 5, 64):
        (offer,) = lookup.offers(limit)
        assert offer.most == len(offer.confidence) == min(limit, LONGEST_LOOKUP) == len(drafted(lookup, limit))
    assert lookup.offers(0) == ()


def test_confidence_grows_with_the_match() -> None:
    (offer,) = begun(*range(40), *range(5)).offers(10)
    assert list(offer.confidence) == sorted(offer.confidence)
    assert 0.3 < offer.confidence[0] < offer.confidence[-1] < 1.0


@pytest.mark.parametrize("repeats", [True, False])
def test_it_learns_from_text_that_it_did_not_draft(repeats: bool) -> None:
    text = list(range(1_000, 1_300))
    lookup = begun(*text)
    lookup.commit([1_000, 1_001, 1_002])
    before = lookup.offers(1)[0].confidence[0]
    for i in range(40):  # pairs of tokens that occur in the prompt, going on as there or not
        at = 10 + 5 * i
        follow = text[at + 3] if repeats else 5_000 + i
        lookup.commit([text[at], text[at + 1], text[at + 2], follow])
    lookup.commit([9_999, 1_000, 1_001, 1_002])
    after = lookup.offers(1)[0].confidence[0]
    assert after > before if repeats else after < before


def test_a_fresh_request_knows_nothing_of_earlier_answers() -> None:
    lookup = begun(1, 2, 3)
    lookup.commit([20, 21, 22, 23, 20, 99])
    worth = Lookup()
    for one in (lookup, worth):
        list(one.begin([70, 71, 20, 21], fresh=True))
        assert drafted(one, 4) == []
        one.commit([5, 70, 71])
    assert lookup.offers(2) == worth.offers(2)
    list(lookup.begin([70, 71, 20, 21]))
    assert drafted(lookup, 1) == [22], "they come back with the next request"


def test_earlier_answers_are_remembered_over_prompts() -> None:
    lookup = begun(1, 2, 3)
    lookup.commit([20, 21, 22, 23])
    list(lookup.begin([70, 71, 20, 21]))
    assert drafted(lookup, 4) == [22, 23]


class Interrupting(dict[tuple[int, ...], int]):
    """Ctrl-C in the middle of adding a token to the index."""

    def get(self, *_: Any) -> Any:
        raise KeyboardInterrupt


@pytest.mark.parametrize("act", ["begin", "commit"])
def test_an_interrupt_in_the_middle_of_learning_leaves_nothing_half_learned(act: str) -> None:
    index, text = PromptIndex(), [1, 2, 3, 4, 5, 1, 2]
    lookup = Lookup([index, AnswerMemory()])
    list(lookup.begin(text))
    index._latest = Interrupting(index._latest)
    with pytest.raises(KeyboardInterrupt):
        lookup.commit([3]) if act == "commit" else lookup.begin([*text, 3])
    list(lookup.begin([*text, 3]))
    assert len(index._tokens) == len(index._earlier)
    assert lookup.offers(4) == begun(*text, 3).offers(4)
