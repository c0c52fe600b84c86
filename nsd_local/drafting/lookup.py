"""Drafting without a model: the text is likely to go on as it did when it last said the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nsd_local.drafting.answer_memory import AnswerMemory
from nsd_local.drafting.draft import Adjust, Draft, Proceed
from nsd_local.drafting.match import HitRates, Match, Matcher
from nsd_local.drafting.offer import Offer
from nsd_local.drafting.prompt_index import PromptIndex
from nsd_local.drafting.trail import Trail
from nsd_local.sampling.law import Law

LONGEST_LOOKUP = 64


class Lookup:
    """Proposes what followed the longest earlier occurrence of the last tokens: in prompt and output, or in
    the answers given before. Among matches of equal length the present text is preferred. A copy that departs from its
    source is taken up again behind the change (see Trail), where that has been right more often.

    Its drafts are point masses. It keeps score of its matches at every token, drafted or not, so it knows
    how much a match of a given length is worth in this text.
    """

    name = "ngram"

    def __init__(self, matchers: Sequence[Matcher] | None = None) -> None:
        self._matchers: list[Matcher] = [PromptIndex(), AnswerMemory()] if matchers is None else list(matchers)
        self._trail = Trail()
        self._start()

    def _start(self) -> None:
        """Nothing is known of what matches are worth."""
        self._rates, self._trail_rates = HitRates(), HitRates()
        self._best: Match | None = None

    def begin(
        self, tokens: Sequence[int], *, fresh: bool = False, cancelled: Callable[[], bool] | None = None
    ) -> Iterator[int]:
        """Nothing has to be evaluated; the index is brought up to date."""
        if fresh:
            self._start()
        self._trail.forget()
        try:
            for matcher in self._matchers:
                matcher.begin(tokens, fresh=fresh)
            self._search()
        except BaseException:  # Ctrl-C in the middle of a change: what is known may not fit together
            self.forget()
            raise
        return iter(())

    @property
    def match_length(self) -> int:
        """How many of the last tokens have been found elsewhere; 0 if there is no match."""
        best = self._chosen()[0]
        return best.length if best else 0

    def offers(self, limit: int) -> Sequence[Offer]:
        best, rates = self._chosen()
        if best is None or limit < 1:
            return ()
        drafts = best.continuation(min(limit, LONGEST_LOOKUP))
        return (Offer(self.name, len(drafts), tuple(rates(best.length + i) for i in range(len(drafts)))),)

    def propose(
        self,
        k: int,
        law: Law,
        rng: np.random.Generator,
        proceed: Proceed | None = None,
        *,
        source: str = "",
        adjust: Adjust | None = None,
    ) -> Draft:
        """The continuation of the best match. It is a point mass, so there is nothing to draw and `proceed`
        is not asked.
        """
        best = self._chosen()[0]
        drafts = best.continuation(min(k, LONGEST_LOOKUP)) if best else []
        return Draft(np.array(drafts, dtype=np.int32), None, self.name)

    def commit(self, tokens: Sequence[int]) -> None:
        try:
            for token in map(int, tokens):
                self._learn(token)
                self._trail.step(token, self._best)
                for matcher in self._matchers:
                    matcher.extend([token])
                self._search()
        except BaseException:  # as in `begin`
            self.forget()
            raise

    def forget(self) -> None:
        for matcher in self._matchers:
            matcher.forget()
        self._trail.forget()
        self._start()

    def close(self) -> None:
        """Nothing to free."""

    def _search(self) -> None:
        found = [match for matcher in self._matchers if (match := matcher.match()) is not None]
        self._best = max(found, key=lambda match: match.length, default=None)
        self._trail.follow(self._best)

    def _learn(self, token: int) -> None:
        """What the matches foresaw, and what came."""
        trail = self._trail.match()
        if self._best is not None and (expected := self._best.continuation(1)):
            self._rates.add(self._best.length, expected == [token])
        if trail is not None and (expected := trail.continuation(1)):
            self._trail_rates.add(_worth(trail.length), expected == [token])

    def _chosen(self) -> tuple[Match | None, Callable[[int], float]]:
        """The match to draft from, and how likely the token after a match of a given length is kept."""
        trail = self._trail.match()
        if trail is None or (
            self._best is not None
            and self._rates.rate(self._best.length) > self._trail_rates.rate(_worth(trail.length))
        ):
            return self._best, self._rates.rate
        return trail, lambda length: self._trail_rates.rate(_worth(length))


def _worth(length: int) -> int:
    """The length of a match in the whole text that is trusted as much as `length` tokens where a copy is expected."""
    return 2 + 2 * length
