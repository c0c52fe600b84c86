"""Lookup and draft model together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nsd_local.drafting.draft import Adjust, Draft, Proceed, Proposer
from nsd_local.drafting.lookup import Lookup
from nsd_local.drafting.offer import Offer
from nsd_local.sampling.law import Law

LONG_MATCH = 6  # from this length on a match is offered before the model, for lengths that do not weigh the offers


class Mixed:
    """Offers prompt lookup where it has a match, and the draft model; the draft-length controller picks by
    expected speed, a fixed length takes the lookup where its match is long.

    The model's memory is not fed while the lookup drafts: it reads what it missed when it is next asked,
    and the offer says how much that is.
    """

    def __init__(self, lookup: Lookup, model: Proposer) -> None:
        self._lookup, self._model = lookup, model
        self.name = "auto"

    def begin(
        self, tokens: Sequence[int], *, fresh: bool = False, cancelled: Callable[[], bool] | None = None
    ) -> Iterator[int]:
        self._lookup.begin(tokens, fresh=fresh)
        return self._model.begin(tokens, fresh=fresh, cancelled=cancelled)

    def offers(self, limit: int) -> Sequence[Offer]:
        lookup, model = self._lookup.offers(limit), self._model.offers(limit)
        if self._lookup.match_length >= LONG_MATCH:
            return (*lookup, *model)
        return (*model, *lookup)

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
        if not source:
            offers = self.offers(k)
            source = offers[0].source if offers else ""
        if source == self._lookup.name:
            return self._lookup.propose(k, law, rng, proceed, adjust=adjust)
        return self._model.propose(k, law, rng, proceed, adjust=adjust)

    def commit(self, tokens: Sequence[int]) -> None:
        self._lookup.commit(tokens)
        self._model.commit(tokens)

    def forget(self) -> None:
        self._lookup.forget()
        self._model.forget()

    def close(self) -> None:
        self._model.close()
        self._lookup.close()
