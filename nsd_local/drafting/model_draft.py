"""A small model that drafts: it samples k tokens from its own law, shaped by the same settings as the target's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nsd_local.drafting.draft import Adjust, Draft, Go, Proceed
from nsd_local.drafting.offer import Offer
from nsd_local.engine.context import Context
from nsd_local.engine.prefill import prefill, shared_prefix
from nsd_local.sampling.law import Law
from nsd_local.sampling.shape import Shape

LONGEST_DRAFT = 64
LONG = 64  # tokens; while more are read, a stop must be heard


class ModelDraft:
    """Proposes with a draft model; owns the draft's context.

    `n_vocab` is the target's vocabulary size V. Where the draft knows fewer tokens, q is 0 for the others; where it
    knows more, q is taken over the first V. Its memory may lag behind the text: what it lacks is evaluated when it
    is next asked to propose.
    """

    name = "model"

    def __init__(self, context: Context, n_vocab: int) -> None:
        self.context = context
        self._known: list[int] = []  # the text so far; the memory holds a prefix of it
        self._cancelled: Callable[[], bool] | None = None
        self._shared = min(n_vocab, context.n_vocab)
        self._logits = np.full((LONGEST_DRAFT, n_vocab), -np.inf, dtype=np.float32)  # (k, V)
        self._q = Shape(n_vocab)

    def begin(
        self, tokens: Sequence[int], *, fresh: bool = False, cancelled: Callable[[], bool] | None = None
    ) -> Iterator[int]:
        self._known, self._cancelled = [self._readable(token) for token in tokens], cancelled
        prompt = self._known[:-1]
        self.context.retreat(shared_prefix(self.context.tokens, prompt))  # also if nobody reads the chunks
        if len(tokens) > self.context.n_ctx:  # there is no room for a draft behind this text
            return iter(())
        return prefill(self.context, prompt, cancelled=cancelled)

    def offers(self, limit: int) -> Sequence[Offer]:
        pending = len(self._known) - len(self.context.tokens)
        most = min(limit, LONGEST_DRAFT, self.context.n_ctx - len(self._known) + 1)
        if self.context.memory.max_rollback is not None:  # all but the last draft are in memory and may have to go
            most = min(most, self.context.memory.max_rollback + 1)
        return (Offer("model", most, pending=pending),) if most > 0 else ()

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
        drafted: list[int] = []
        pending = self._known[len(self.context.tokens) :]
        if len(pending) > LONG:  # what was missed while nothing was asked of this model
            self.context.evaluate_abortable(pending[:-1], self._cancelled)
            pending = pending[-1:]
        room = self.context.n_ctx - len(self.context.tokens) - len(pending) + 1
        for position in range(min(k, room)):
            row = self._logits[position]
            row[: self._shared] = self.context.evaluate(pending, rows=1)[0, : self._shared]
            if adjust is not None and not adjust(row, drafted):
                break
            self._q.take(row, law, entropy=proceed is not None)
            go = Go.ON if proceed is None else proceed(position, self._q.entropy)
            if go is Go.STOP:
                break
            token = self._q.draw(rng.random())
            drafted.append(token)
            pending = [token]
            # What follows the end of the text is of no use. Stopping here does not bias q: this token stays drafted.
            if go is Go.LAST or self.context.model.is_eog(token):
                break
        return Draft(np.array(drafted, dtype=np.int32), self._logits[: len(drafted)], self.name)

    def commit(self, tokens: Sequence[int]) -> None:
        """Memory after a round with n known tokens and a accepted drafts: it evaluated the n and d1..d(k-1), so it
        keeps n + min(a, k-1) tokens and lacks d_k after a full acceptance (docs/how_it_works.md: memory)."""
        held = self.context.tokens
        keep = len(self._known)
        self._known.extend(self._readable(token) for token in tokens)
        while keep < min(len(held), len(self._known)) and held[keep] == self._known[keep]:
            keep += 1
        self.context.rewind(min(keep, len(held)))

    def forget(self) -> None:
        self._known = []
        self.context.clear()

    def _readable(self, token: int) -> int:
        """A token that only the target knows is read as token 0: whatever q follows is what drafts are drawn from."""
        return token if token < self.context.n_vocab else 0

    def close(self) -> None:
        self.context.close()
