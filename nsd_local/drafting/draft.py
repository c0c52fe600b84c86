"""What a proposer offers for one round, and what every proposer can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nsd_local.drafting.offer import Offer
from nsd_local.sampling.law import Law


class Go(Enum):
    """What to do at a position of which q is known, but nothing drawn yet."""

    STOP = 0  # draw nothing here: the draft ends before this position
    LAST = 1  # draw this token, and evaluate nothing further
    ON = 2  # draw it and go on


# Asked before each further token is drawn: (position, entropy of q there in nats).
# It never sees a drawn token or its probability, which would bias q (see docs/how_it_works.md).
Proceed = Callable[[int, float], Go]

# Bias, penalties and a grammar, in place on a row of logits (V,) float32 that follows the text and these drafts.
# False where no token may follow: the row is then no law.
Adjust = Callable[[NDArray[np.float32], Sequence[int]], bool]


@dataclass(frozen=True, slots=True)
class Draft:
    """k proposed tokens and the logits they were drawn from.

    `logits` is None for point-mass drafts (prompt lookup). It is a view that lives until the next `propose`.
    """

    tokens: NDArray[np.int32]  # (k,)
    logits: NDArray[np.float32] | None  # (k, V), V the target's vocabulary, padded with -inf
    source: str  # "model", "ngram", ...


class Proposer(Protocol):
    """Guesses how the text goes on. It keeps its own memory in step with what was kept."""

    name: str

    def begin(
        self, tokens: Sequence[int], *, fresh: bool = False, cancelled: Callable[[], bool] | None = None
    ) -> Iterator[int]:
        """Learn `tokens` (a prompt), reusing what the memory holds of them; yields the size of each chunk evaluated.

        May be abandoned between chunks. `fresh`: what earlier answers taught must not matter (a seed was given).
        `cancelled` is asked, until the next `begin`, while long texts are read; Cancelled is raised where it says so.
        """
        ...

    def offers(self, limit: int) -> Sequence[Offer]:
        """The ways to draft up to `limit` tokens now, best guess first; empty if there is none."""
        ...

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
        """Up to k tokens that may follow what is in memory. May return fewer, also none.

        `source` names the offer to use, for proposers that make several; "" leaves it to the proposer.
        `adjust` acts on the draft's logits before the law, as it does on the target's.
        """
        ...

    def commit(self, tokens: Sequence[int]) -> None:
        """The tokens that the round really emitted; the memory drops rejected drafts and learns these."""
        ...

    def forget(self) -> None:
        """Forget every text and everything learned from it, as if just made."""
        ...

    def close(self) -> None: ...
