"""What a proposer could draft now, known before anything is drafted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to draft the next round. The draft-length controller picks among the offers of a proposer.

    `confidence` estimates per position the probability that this draft token is kept once those before it
    are, where the proposer keeps statistics of its own (prompt lookup: the hit rate of matches this long);
    empty where it has none (a draft model). `pending` counts the tokens its memory must read before it can
    draft, the last emitted token included (1 if it is in step).
    """

    source: str  # "model", "ngram", ...: which statistics and costs apply
    most: int  # the longest draft it can give
    confidence: tuple[float, ...] = ()
    pending: int = 1
