"""Earlier answers, searched for what the present one may be repeating."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from nsd_local.drafting.match import Match
from nsd_local.drafting.suffix_automaton import ROOT, SuffixAutomaton

REACH = 64  # tokens of a prompt that may be the beginning of a match


class AnswerMemory:
    """Longest suffix match of the text in the answers given before, by a suffix automaton.

    What was generated after a prompt is remembered when the next prompt begins. It holds at most `most`
    tokens: when they are exceeded, the oldest answers are dropped until half is free.
    """

    def __init__(self, most: int = 32_768) -> None:
        self._most = most
        self._answers: deque[list[int]] = deque()
        self._current: list[int] = []  # the answer that is being generated
        self.forget()

    def __len__(self) -> int:
        """Tokens remembered."""
        return len(self._automaton)

    def forget(self) -> None:
        self._answers.clear()
        self._current = []
        self._automaton = SuffixAutomaton()
        self._state, self._length = ROOT, 0
        self._silent = False

    def begin(self, tokens: Sequence[int], *, fresh: bool = False) -> None:
        self._remember()
        self._silent = fresh
        self._state, self._length = ROOT, 0
        self._follow(tokens[-REACH:])

    def extend(self, tokens: Sequence[int]) -> None:
        self._current.extend(tokens)
        self._follow(tokens)

    def match(self) -> Match | None:
        automaton, place = self._automaton, self._automaton.place(self._state)
        if self._silent or self._length < 2 or place >= len(automaton) or automaton.ends[place - 1] <= place:
            return None
        return Match(self._length, automaton.tokens, place, end=automaton.ends[place - 1], same=False)

    def _follow(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._state, self._length = self._automaton.step(self._state, self._length, int(token))

    def _remember(self) -> None:
        answer, self._current = self._current[-self._most // 2 :], []
        if not answer:
            return
        self._answers.append(answer)
        if len(self._automaton) + len(answer) <= self._most:
            self._automaton.add(answer)
            return
        kept = sum(map(len, self._answers))
        while kept > self._most // 2 and len(self._answers) > 1:
            kept -= len(self._answers.popleft())
        self._automaton = SuffixAutomaton()
        for text in self._answers:
            self._automaton.add(text)
