"""A suffix automaton over several texts (Blumer et al. 1985; for drafting: arXiv 2411.10666)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

ROOT = 0
NONE = -1


class SuffixAutomaton:
    """Recognises every substring of the texts added, and knows where one last occurred.

    A state stands for the substrings that occur at the same set of places; `length` is its longest one,
    `link` the state of its longest suffix that occurs elsewhere too. Adding a token costs amortised
    constant time, and there are at most two states per token. Texts stay apart: no match runs across the
    border between two.
    """

    def __init__(self) -> None:
        self.tokens = array("i")  # all texts, one after the other
        self.ends = array("i")  # [i]: where the text that token i belongs to ends
        self._length = array("i", [0])
        self._link = array("i", [NONE])
        self._place = array("i", [0])  # [state]: the position after its latest occurrence, as far as noted
        self._next: list[dict[int, int]] = [{}]

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, text: Sequence[int]) -> None:
        """Learn one text."""
        last = ROOT
        end = len(self.tokens) + len(text)
        for token in text:
            self.tokens.append(token)
            self.ends.append(end)
            last = self._append(last, token, len(self.tokens))

    def step(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Follow `token` from a match of `length` tokens at `state`; what the longest match is then."""
        while state != ROOT and token not in self._next[state]:
            state = self._link[state]
            length = self._length[state]
        if token in self._next[state]:
            return self._next[state][token], length + 1
        return ROOT, 0

    def place(self, state: int) -> int:
        """The position in `tokens` after the latest occurrence of the state's substrings."""
        return self._place[state]

    def _append(self, last: int, token: int, place: int) -> int:
        """Extend the text that ends in state `last` by one token; returns the state of the extended text."""
        if token in self._next[last]:  # this text repeats an earlier one
            old = self._next[last][token]
            if self._length[old] == self._length[last] + 1:
                return self._note(old, place)
            return self._note(self._split(last, token, old), place)
        new = self._state(self._length[last] + 1, place)
        state = last
        while state != NONE and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        if state == NONE:
            self._link[new] = ROOT
            return new
        old = self._next[state][token]
        if self._length[old] == self._length[state] + 1:
            self._link[new] = old
        else:
            self._link[new] = self._split(state, token, old)
        self._note(self._link[new], place)
        return new

    def _split(self, state: int, token: int, old: int) -> int:
        """Give the substrings of `old` up to length(state) + 1 a state of their own."""
        clone = self._state(self._length[state] + 1, self._place[old])
        self._next[clone] = dict(self._next[old])
        self._link[clone] = self._link[old]
        self._link[old] = clone
        while state != NONE and self._next[state].get(token) == old:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _note(self, state: int, place: int) -> int:
        """This state's substrings have just occurred here. So have their suffixes, but to note them all
        would take too long. The end of a text is of no use as a place: nothing follows it.
        """
        if place < self.ends[place - 1]:
            self._place[state] = place
        return state

    def _state(self, length: int, place: int) -> int:
        self._length.append(length)
        self._link.append(ROOT)
        self._place.append(place)
        self._next.append({})
        return len(self._next) - 1
