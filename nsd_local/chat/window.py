"""How much of a conversation fits the context, and what to do when it no longer does."""

from __future__ import annotations

from dataclasses import dataclass

from nsd_local.errors import NsdError


class ContextFullError(NsdError):
    """The conversation no longer fits the context."""


@dataclass(frozen=True, slots=True)
class Window:
    """The context seen from a conversation: `n_ctx` tokens for the prompt and the answer to it.

    Once the oldest turns must go, so many go that half of the context is free: everything behind them has to
    be read again, which should be rare.
    """

    n_ctx: int
    max_tokens: int | None  # of the answer

    def fits(self, n: int) -> bool:
        """Can a prompt of n tokens be answered at all?"""
        return n < self.n_ctx

    def has_room(self, n: int) -> bool:
        """Is there room for an answer of a usual length after n tokens?"""
        quarter = self.n_ctx // 4
        return n + min(self.max_tokens or quarter, quarter) <= self.n_ctx

    def is_cleared(self, n: int) -> bool:
        """Have enough turns gone?"""
        return n <= self.n_ctx // 2

    def full(self, n: int, *, shifted: bool) -> ContextFullError:
        """The error for a prompt of n tokens that does not fit."""
        if shifted:
            what, do = "The last message alone", "Shorten it"
        else:
            what, do = "The conversation", "Start a new one, let the oldest turns go with --ctx-shift"
        return ContextFullError(
            f"{what} has {n:,} tokens",
            f"the context holds {self.n_ctx:,}",
            f"{do}, or load with a larger --ctx",
        )

    def notice(self, before: int, dropped: int) -> list[str]:
        """The line that says that turns have left the prompt."""
        if dropped == before:
            return []
        gone = f"the oldest {dropped} turns are" if dropped > 1 else "the oldest turn is"
        return [f"the context of {self.n_ctx:,} tokens is full: {gone} no longer read by the model"]
