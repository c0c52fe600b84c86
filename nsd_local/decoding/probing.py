"""When to try a proposer again that does not pay at present."""

from __future__ import annotations


class Probing:
    """Says when a probe (a round that drafts to learn, not to gain) is due, within an allowance.

    All costs are in units of one plain round. A probe may lose what is in the account; every plain round pays a
    little in, and so do rounds in which drafting gained, so that probing costs a bounded share of the time
    however long the text is. Between probes it waits longer and longer; after a promising one it asks for the
    next at once, so that a change of text is found quickly.
    """

    ALLOWANCE = 1.0  # at the start of a request
    INCOME = 0.015  # per plain round
    SHARE = 0.1  # of what drafting gained
    MOST = 10.0  # in the account
    SHORTEST, LONGEST = 3, 10  # rounds between probes

    def __init__(self) -> None:
        self._account = self.ALLOWANCE
        self._wait = self.SHORTEST
        self._since = self._wait  # the first may come at once

    @property
    def waiting(self) -> bool:
        """Is it too early for the next probe?"""
        return self._since < self._wait

    def affords(self, loss: float) -> bool:
        """Is there enough in the account for a probe expected to lose `loss`?"""
        return loss <= self._account

    def spend(self, loss: float) -> None:
        self._account -= max(0.0, loss)
        self._since = 0

    def learn(self, promising: bool) -> None:
        """What came of the probe."""
        self._wait = 1 if promising else min(self.LONGEST, max(self.SHORTEST, 2 * self._wait))

    def pass_plain(self) -> None:
        """A plain round passed."""
        self._since += 1
        self._account = min(self.MOST, self._account + self.INCOME)

    def gained(self, saved: float) -> None:
        """A round with drafts took that much less (more, if negative) than plain decoding of its tokens."""
        self._account = min(self.MOST, max(0.0, self._account + self.SHARE * saved))
