"""From which acceptance on drafting pays, by the costs alone."""

from __future__ import annotations

from collections.abc import Mapping

SURE = 0.95  # an acceptance that no proposer can be expected to beat


def expected_tokens(acceptance: float, k: int) -> float:
    """Tokens per round when each of k drafts is kept with this probability: (1 - a^(k+1)) / (1 - a)."""
    return float(k + 1) if acceptance >= 1.0 else (1.0 - acceptance ** (k + 1)) / (1.0 - acceptance)


def break_even(rounds: Mapping[int, float], plain: float) -> float | None:
    """The acceptance per draft from which some k gives more tokens per second than plain decoding.

    `rounds[k]` are the seconds of a round that drafts k tokens, `plain` those of a round that drafts none. None where
    not even an acceptance of `SURE` would do.
    """

    def pays(acceptance: float) -> bool:
        return any(expected_tokens(acceptance, k) * plain > seconds for k, seconds in rounds.items())

    if not pays(SURE):
        return None
    low, high = 0.0, SURE
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high
