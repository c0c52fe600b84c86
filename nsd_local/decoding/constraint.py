"""A grammar over one request's text: what it forbids gets probability 0, in the rows of the target and of the draft."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nsd_local.decoding.settings import Settings
from nsd_local.engine.grammar import Grammar
from nsd_local.engine.model import Model
from nsd_local.engine.schema.converter import schema_to_gbnf
from nsd_local.errors import DecodeError
from nsd_local.sampling.law import Law

_UNKNOWN, _ALLOWED, _FORBIDDEN = 0, 1, 2
_DEPTHS: Final = (3.1, 8.0, 16.0, 32.0, math.inf)  # nats below the best logit, looked up one after the other
_ROUNDING: Final = 1e-6  # more than the law's own sums are off


class _Place:
    """A place in the text, and what is known of the tokens that may come there.

    `grammar` None: the text ends before this place, or cannot get there. Nothing emitted depends on its rows.
    """

    def __init__(self, grammar: Grammar | None, n_vocab: int) -> None:
        self.grammar = grammar
        self._known = np.zeros(n_vocab if grammar else 0, dtype=np.int8)  # (V,)

    def allowed(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the tokens that may come here. Each is looked up once: p and q mostly ask for the same."""
        if self.grammar is None:
            return tokens[:0]
        new = tokens[self._known[tokens] == _UNKNOWN]
        self._known[new] = np.where(self.grammar.allows(new), _ALLOWED, _FORBIDDEN)
        allowed: NDArray[np.int64] = tokens[self._known[tokens] == _ALLOWED]
        return allowed

    def next(self, token: int, ends: bool, n_vocab: int) -> _Place:
        """The place after `token`."""
        if self.grammar is None or ends or not len(self.allowed(np.array([token]))):
            return _Place(None, 0)
        grammar = self.grammar.clone()
        grammar.accept(token)
        return _Place(grammar, n_vocab)

    def close(self) -> None:
        if self.grammar is not None:
            self.grammar.close()


class Constraint:
    """Masks rows by a grammar that follows the text, and looks ahead along drafts. Owns its grammars.

    To ask llama.cpp about a whole vocabulary takes 50 ms and more, so tokens are looked up from the likeliest down, and
    only until the law is settled: what is left out has probability 0 under it anyway, as if all had been looked up.
    """

    def __init__(self, grammar: Grammar, model: Model, law: Law) -> None:
        self._model, self._law = model, law
        self._drafts: list[int] = []
        self._places = [_Place(grammar, model.n_vocab)]  # [i]: after the text and the first i drafts

    @classmethod
    def of(cls, settings: Settings, model: Model) -> Constraint | None:
        """What the settings ask for. Raises UsageError for a grammar or a schema that cannot be used."""
        text = settings.grammar
        if settings.json_schema is not None:
            text = schema_to_gbnf(settings.json_schema)
        return None if text is None else cls(Grammar.compile(model, text), model, settings.law)

    def mask(self, row: NDArray[np.float32], drafts: Sequence[int]) -> bool:
        """Minus infinity, in place, for every token that may not follow the text and these drafts, and for tokens
        outside the law. False where none may. row: (V,) float32, writable.
        """
        place = self._reach(drafts)
        top = float(row.max())
        if place.grammar is None or not math.isfinite(top):
            return top != -math.inf  # NaN, too, is for the law to refuse
        kept: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        ceiling = np.float32(np.inf)
        for depth in _DEPTHS:
            floor = np.float32(top - depth)
            here = np.flatnonzero((row >= floor) & (row < ceiling) if depth < math.inf else row < ceiling)
            kept = np.concatenate([kept, place.allowed(here[row[here] > -np.inf])])
            ceiling = floor
            if _settled(row, kept, float(floor), self._law):
                break
        values = row[kept]
        row.fill(-np.inf)
        row[kept] = values
        return len(kept) > 0

    def commit(self, tokens: Sequence[int]) -> None:
        """These tokens were emitted. Raises DecodeError where the grammar forbids one of them."""
        if not tokens:
            return
        place = self._reach(tokens)
        if place.grammar is None and not self._model.is_eog(tokens[-1]):
            raise DecodeError("A token was emitted that the grammar forbids")
        del self._places[len(tokens)]
        self._close()
        self._drafts, self._places = [], [place]

    def _reach(self, drafts: Sequence[int]) -> _Place:
        """The place after these drafts; those before it are kept, and so are those after it on the same way."""
        shared = 0
        while shared < min(len(drafts), len(self._drafts)) and drafts[shared] == self._drafts[shared]:
            shared += 1
        if shared < len(drafts):
            for place in self._places[shared + 1 :]:
                place.close()
            del self._places[shared + 1 :], self._drafts[shared:]
        for token in drafts[shared:]:
            self._places.append(self._places[-1].next(token, self._model.is_eog(token), self._model.n_vocab))
            self._drafts.append(int(token))
        return self._places[len(drafts)]

    def _close(self) -> None:
        for place in self._places:
            place.close()

    def close(self) -> None:
        """Frees the grammars."""
        self._close()


def _settled(row: NDArray[np.float32], kept: NDArray[np.int64], floor: float, law: Law) -> bool:
    """Whether the law over the allowed tokens is known: `kept` are all those with logits from `floor` up.

    True where no allowed token below `floor` would be in the law, nor move the border of what is.
    """
    if not len(kept):
        return False
    if law.greedy or 0 < law.top_k <= len(kept):
        return True
    logits = row[kept].astype(np.float64)
    best = float(logits.max())
    if law.top_p < 1.0:
        weights = np.cumsum(np.exp(np.sort(logits)[::-1] - best))
        rest = row[row < floor].astype(np.float64)
        most = weights[-1] + float(np.exp(rest - best).sum())  # as if everything below were allowed
        low, high = law.top_p * weights[-1] * (1.0 - _ROUNDING), law.top_p * most * (1.0 + _ROUNDING)
        return bool(high <= weights[-1] and np.searchsorted(weights, low) == np.searchsorted(weights, high))
    return law.min_p > 0.0 and floor <= best + math.log(law.min_p) - _ROUNDING
