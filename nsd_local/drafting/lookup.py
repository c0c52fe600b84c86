"""Drafting without a model: the text is likely to go on as it did when it last said the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nsd_local.drafting.answer_memory import AnswerMemory
from nsd_local.drafting.draft import Adjust, Draft, Proceed
from nsd_local.drafting.match import HitRates, Match, Matcher
from nsd_local.drafting.offer import Offer
from nsd_local.drafting.prompt_index import PromptIndex
from nsd_local.sampling.law import Law

LONGEST_LOOKUP = 32


class Lookup:
    """Proposes what followed the longest earlier occurrence of the last tokens: in prompt and output, or in
    the answers given before. Among matches of equal length the present text is preferred.

    Its drafts are point masses. It keeps score of its matches at every token, drafted or not, so it knows
    how much a match of a given length is worth in this text.
    """

    name = "ngram"

    def __init__(self, matchers: Sequence[Matcher] | None = None) -> None:
        self._matchers: list[Matcher] = [PromptIndex(), AnswerMemory()] if matchers is None else list(matchers)
        self._rates = HitRates()
        self._best: Match | None = None

    def begin(self, tokens: Sequence[int], *, fresh: bool = False) -> Iterator[int]:
        """Nothing has to be evaluated; the index is brought up to date."""
        if fresh:
            self._rates = HitRates()
        for matcher in self._matchers:
            matcher.begin(tokens, fresh=fresh)
        self._search()
        return iter(())

    @property
    def match_length(self) -> int:
        """How many of the last tokens have been found elsewhere; 0 if there is no match."""
        return self._best.length if self._best else 0

    def offers(self, limit: int) -> Sequence[Offer]:
        if self._best is None or limit < 1:
            return ()
        drafts = self._best.continuation(min(limit, LONGEST_LOOKUP))
        confidence = tuple(self._rates.rate(self._best.length + i) for i in range(len(drafts)))
        return (Offer(self.name, len(drafts), confidence),)

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
        drafts = self._best.continuation(min(k, LONGEST_LOOKUP)) if self._best else []
        return Draft(np.array(drafts, dtype=np.int32), None, self.name)

    def commit(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if self._best is not None:
                expected = self._best.continuation(1)
                if expected:
                    self._rates.add(self._best.length, expected[0] == int(token))
            for matcher in self._matchers:
                matcher.extend([int(token)])
            self._search()

    def forget(self) -> None:
        for matcher in self._matchers:
            matcher.forget()
        self._rates = HitRates()
        self._best = None

    def close(self) -> None:
        """Nothing to free."""

    def _search(self) -> None:
        found = [match for matcher in self._matchers if (match := matcher.match()) is not None]
        self._best = max(found, key=lambda match: match.length, default=None)
