"""PromptIndex against a search that looks everywhere."""

from __future__ import annotations

import random

import pytest

from nsd_local.drafting.match import Match
from nsd_local.drafting.prompt_index import PromptIndex


def longest_earlier(text: list[int]) -> tuple[int, int]:
    """(length, position) of the longest suffix that occurred before, the most recent among equals; (0, -1) if none."""
    best = (0, -1)
    for position in range(1, len(text)):
        length = 0
        while length < min(PromptIndex.LONGEST, position) and text[position - 1 - length] == text[-1 - length]:
            length += 1
        if length >= PromptIndex.SHORTEST and length >= best[0]:
            best = (length, position)
    return best


def found(match: Match | None) -> tuple[int, int]:
    return (match.length, match.position) if match else (0, -1)


@pytest.mark.parametrize("alphabet", [1, 2, 3, 8])
def test_finds_the_longest_and_most_recent(alphabet: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PromptIndex, "CANDIDATES", 1_000)
    rng = random.Random(alphabet)
    index, text = PromptIndex(), []
    for _ in range(300):
        text.append(rng.randrange(alphabet))
        index.extend(text[-1:])
        assert found(index.match()) == longest_earlier(text)


def test_a_match_is_true_with_few_candidates() -> None:
    rng = random.Random(5)
    text = [rng.randrange(3) for _ in range(2_000)]
    index = PromptIndex()
    index.begin(text)
    match = index.match()
    assert match is not None
    assert text[match.position - match.length : match.position] == text[-match.length :]


@pytest.mark.parametrize("common", [0, 10, 150, 199, 200])
def test_a_new_prompt_leaves_nothing_of_the_old_one(common: int) -> None:
    rng = random.Random(common)
    old = [rng.randrange(4) for _ in range(200)]
    new = old[:common] + [rng.randrange(4) for _ in range(80)]
    reused, fresh = PromptIndex(), PromptIndex()
    reused.begin(old)
    reused.begin(new)
    fresh.begin(new)
    for token in [1, 2, 1, 2, 3, 0, 1]:
        assert found(reused.match()) == found(fresh.match())
        reused.extend([token])
        fresh.extend([token])


def test_a_shorter_prompt_is_undone() -> None:
    index = PromptIndex()
    index.begin([1, 2, 3, 1, 2])
    assert found(index.match()) == (2, 2)
    index.begin([1, 2, 3])
    assert index.match() is None


def test_a_search_looks_at_few_places_however_long_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    agreement = PromptIndex._agreement
    monkeypatch.setattr(PromptIndex, "_agreement", lambda self, at: looked.append(at) or agreement(self, at))
    index = PromptIndex()
    index.begin([7, 8, 9] * 33_000 + [1, 8, 9])  # 33,000 places end in 8 9
    assert index.match() is not None
    assert len(looked) <= PromptIndex.CANDIDATES
