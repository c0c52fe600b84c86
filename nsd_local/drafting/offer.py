"""What a proposer could draft now, known before anything is drafted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to draft the next round. The draft-length controller picks among the offers of a proposer.

    `confidence` estimates the acceptance probability of each drafted token where the proposer keeps statistics
    of its own (prompt lookup: the hit rate of matches this long); None where it has none (a draft model).
    `pending` counts the tokens that its memory must catch up on before it can draft.
    """

    source: str  # "model", "ngram", ...: which statistics and costs apply
    most: int  # the longest draft it can give
    confidence: float | None = None
    pending: int = 0
