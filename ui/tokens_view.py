"""Tokens as the page shows them: compact rows of numbers and text, and the HTML frame that the page's script fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nsd_local.decoding.records import Round, Token
from nsd_local.verification.verdict import KINDS, MEANINGS

DROPPED = len(KINDS)  # the kind of a row that shows a rejected draft
# [text, kind, p, q, rank in the target, divergence, deviation, round]; probabilities with 4 significant digits.
Row = list[Any]


def short(value: float | None) -> float | None:
    """Four significant digits, which is what a person reads; None and NaN stay unknown."""
    if value is None or value != value:
        return None
    return float(f"{value:.4g}")


def rows_of(round_: Round, piece: Callable[[int], str]) -> list[Row]:
    """The rows of one round in reading order: what was kept, the drafts dropped after it, the target's own token."""
    rows = [_row(token, round_.index) for token in round_.tokens]
    drafts_kept = sum(token.kind in ("ratio", "nucleus") for token in round_.tokens)
    if round_.accepted == len(round_.drafted) or drafts_kept < round_.accepted:
        return rows  # nothing was rejected, or the text ended before the rejection
    dropped = [_dropped(round_, i, piece) for i in range(round_.accepted, len(round_.drafted))]
    return rows[:drafts_kept] + dropped + rows[drafts_kept:]


def _row(token: Token, index: int) -> Row:
    return [
        token.text,
        KINDS.index(token.kind),
        short(token.p),
        short(token.q),
        token.target_rank,
        short(token.divergence),
        short(token.deviation),
        index,
    ]


def _dropped(round_: Round, position: int, piece: Callable[[int], str]) -> Row:
    first = position == round_.accepted
    known = first and position < len(round_.divergence)
    return [
        piece(round_.drafted[position]),
        DROPPED,
        None,
        None,
        round_.rejected_rank if first else None,
        short(round_.divergence[position]) if known else None,
        short(round_.deviation[position]) if known else None,
        round_.index,
    ]


def legend() -> list[dict[str, str]]:
    """Name and meaning of every kind of row, by index."""
    return [
        {"name": name, "meaning": meaning} for name, meaning in [*MEANINGS.items(), ("dropped", "drafted and rejected")]
    ]
