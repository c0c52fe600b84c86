"""SuffixAutomaton against a search that looks everywhere, and the memory of answers built on it."""

from __future__ import annotations

import random

import pytest

from nsd_local.drafting.answer_memory import AnswerMemory
from nsd_local.drafting.suffix_automaton import ROOT, SuffixAutomaton


def occurs(part: list[int], texts: list[list[int]]) -> bool:
    n = len(part)
    return any(text[i : i + n] == part for text in texts for i in range(len(text) - n + 1))


def longest_suffix(query: list[int], texts: list[list[int]]) -> int:
    return next(n for n in range(len(query), -1, -1) if n == 0 or occurs(query[-n:], texts))


@pytest.mark.parametrize(
    ("alphabet", "sizes"), [(1, [9]), (2, [40]), (2, [12, 12, 12]), (3, [60, 5, 30]), (5, [80, 80])]
)
def test_every_match_is_the_longest_and_its_place_is_true(alphabet: int, sizes: list[int]) -> None:
    rng = random.Random(len(sizes) * 10 + alphabet)
    texts = [[rng.randrange(alphabet) for _ in range(size)] for size in sizes]
    automaton = SuffixAutomaton()
    for text in texts:
        automaton.add(text)
    query: list[int] = []
    state, length = ROOT, 0
    for _ in range(150):
        query.append(rng.randrange(alphabet + 1))  # one token more than the texts know
        state, length = automaton.step(state, length, query[-1])
        assert length == longest_suffix(query, texts)
        if length:
            place = automaton.place(state)
            assert list(automaton.tokens[place - length : place]) == query[-length:]
            assert any(place - length >= end - size and place <= end for end, size in _spans(sizes)), "over a border"


def _spans(sizes: list[int]) -> list[tuple[int, int]]:
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return list(zip(ends, sizes, strict=True))


@pytest.mark.parametrize("alphabet", [1, 2, 30])
def test_at_most_two_states_per_token(alphabet: int) -> None:
    rng = random.Random(alphabet)
    automaton = SuffixAutomaton()
    for _ in range(4):
        automaton.add([rng.randrange(alphabet) for _ in range(500)])
    assert len(automaton) == 2_000
    assert len(automaton._next) <= 2 * len(automaton) + 1


def test_an_earlier_answer_is_recalled_in_another_conversation() -> None:
    memory = AnswerMemory()
    memory.begin([1, 2, 3])
    memory.extend([10, 11, 12, 13, 14, 15])
    assert memory.match() is None, "an answer does not recall itself: the prompt index does that"
    memory.begin([50, 10, 11])
    match = memory.match()
    assert match is not None
    assert (match.length, match.continuation(10)) == (2, [12, 13, 14, 15])
    memory.extend([12, 99])
    assert memory.match() is None
    memory.extend([13, 14])
    match = memory.match()
    assert match is not None
    assert match.continuation(10) == [15], "never beyond the end of the answer it was found in"


def test_the_memory_is_bounded_and_drops_the_oldest() -> None:
    memory = AnswerMemory(most=1_000)
    for answer in range(20):
        memory.begin([0])
        memory.extend(range(answer * 1_000, answer * 1_000 + 120))
        assert len(memory) <= 1_000
    for known in (19_000, 18_000):
        memory.begin([known, known + 1])
        assert memory.match() is not None, "recent answers are still there"
    memory.begin([5, 6])
    assert memory.match() is None, "the first answer is forgotten"
