"""The one stream that every consumer reads: terminal, chat app, Python, benchmarks."""

from __future__ import annotations

from dataclasses import dataclass

from nsd_local.decoding.records import Result, Round


@dataclass(frozen=True, slots=True)
class Prefill:
    """The prompt is being read: the target's memory holds `done` of its `total` tokens."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Notice:
    """One line that the user must see: drafting is off and why, a draft that failed, a context that filled up."""

    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One round is done: its record, and the text that is now certain to be part of the answer.

    `text` lags behind the tokens while a character or a possible stop string is incomplete.
    """

    round: Round
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event. `text` is what was still held back."""

    result: Result
    text: str


Event = Prefill | Notice | Step | Finished
