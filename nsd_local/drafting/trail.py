"""A copy that was changed on the way: where in its source it is likely to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nsd_local.drafting.match import Match


class Trail:
    """Follows a long copy through the places where it departs from its source, as an edited file does.

    After a departure the copy is looked for a little further on in the source: where the last tokens agree best, the
    nearest place among equals; where none agrees, the departure is taken to replace token by token. A search of the
    whole text cannot do that, since the few tokens after a change have been said in many places.
    """

    ENOUGH = 8  # tokens in a row that make a copy
    REACH = 24  # tokens of the source that a change may replace, and of the text that it may insert

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._place: Match | None = None  # `length` counts the tokens that agree, since the last departure
        self._departed = 0  # where in the source the copy departed
        self._since: list[int] = []  # the text from there on; empty while the copy runs

    def match(self) -> Match | None:
        """Where the copy is expected to go on; `length` is 0 where no token speaks for it yet."""
        place = self._place
        return replace(place, end=len(place.source)) if place and place.same else place  # the text has grown meanwhile

    def step(self, token: int, other: Match | None) -> None:
        """The text goes on with `token`; `other` is what the search of the whole text had found before it."""
        place = self.match()
        if place is None:
            return
        if not self._since:
            for match in (place, other):
                if match is not None and match.length >= self.ENOUGH and match.continuation(1) == [token]:
                    self._advance(match)
                    return
            self._departed = place.position
        self._since.append(token)
        self._find(place)

    def follow(self, other: Match | None) -> None:
        """`other` is what the search of the whole text finds now: the beginning of a copy, if it is long and there is
        none yet."""
        if self._place is None and other is not None and other.length >= self.ENOUGH:
            self._place = other

    def _advance(self, place: Match) -> None:
        if place.position + 1 < place.end:
            self._place = replace(place, length=place.length + 1, position=place.position + 1)
        else:
            self.forget()

    def _find(self, place: Match) -> None:
        """Look for the copy after a departure; forget it where it is not found in time."""
        best, best_length = self._departed + len(self._since), 0
        for position in range(self._departed + 1, min(place.end, self._departed + self.REACH + 1)):
            length = self._agreement(place.source, position)
            if length > best_length:
                best, best_length = position, length
        if best >= place.end or len(self._since) > self.REACH:
            self.forget()
            return
        self._place = replace(place, length=best_length, position=best)
        if best_length >= self.ENOUGH:
            self._since = []

    def _agreement(self, source: Sequence[int], position: int) -> int:
        """How many tokens of the source before `position` equal the last ones of the text since the departure."""
        since, length = self._since, 0
        most = min(len(since), position - self._departed)
        while length < most and source[position - 1 - length] == since[-1 - length]:
            length += 1
        return length
