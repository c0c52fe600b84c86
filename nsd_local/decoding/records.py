"""What happened: tokens, rounds, and the result they add up to. Every number shown anywhere is derived from these."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from nsd_local.verification.verdict import Kind

FinishReason = Literal["stop", "stop_string", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token."""

    id: int
    text: str  # what it adds to the text; "" while a character is incomplete
    kind: Kind
    p: float  # target probability
    q: float | None  # draft probability; None where nothing was drafted
    target_rank: int  # 1-based
    divergence: float | None
    deviation: float
    round: int


@dataclass(frozen=True, slots=True)
class Times:
    """Where a round's wall time went, in seconds; the parts sum to the whole."""

    draft: float = 0.0
    verify: float = 0.0
    accept: float = 0.0
    rollback: float = 0.0
    other: float = 0.0

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.accept + self.rollback + self.other


@dataclass(frozen=True, slots=True)
class Round:
    """One target verification pass."""

    index: int
    n_past: int  # tokens in the target's memory before the pass
    k: int  # how many tokens were drafted
    why: str  # why this k
    source: str  # which proposer: "model", "ngram", "" for none
    drafted: tuple[int, ...]  # (k,)
    tokens: tuple[Token, ...]  # delivered to the consumer
    accepted: int  # drafts kept by the rule (delivered or cut off by the end of the text)
    divergence: tuple[float, ...]  # (n,) processed positions
    excess: tuple[float, ...]  # (n,)
    deviation: tuple[float, ...]  # (n,)
    rejected_rank: int | None  # rank in the target of the first rejected draft
    rejected_in_nucleus: bool | None
    times: Times


@dataclass(frozen=True, slots=True)
class Result:
    """A finished request."""

    text: str
    finish_reason: FinishReason
    seed: int
    prompt_tokens: int
    prompt_n: int  # prompt tokens really evaluated
    cache_n: int  # prompt tokens reused from memory
    prompt_s: float
    predicted_s: float
    time_to_first_token_s: float | None
    load_s: float
    rounds: tuple[Round, ...]
    active: bool  # drafting took part
    reason: str  # why it did not, or why k was chosen
    notices: tuple[str, ...] = field(default=())
