"""The state of one running answer: fed by the event stream in a worker, read by the pages as often as they like."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

from nsd_local.decoding.events import Event, Finished, Notice, Prefill, Step
from nsd_local.decoding.records import Result, Round

from .meters import Meters, Plain
from .tokens_view import Row, rows_of

State = Literal["queued", "loading", "reading", "writing", "done", "stopped", "failed"]
ENDED: tuple[State, ...] = ("done", "stopped", "failed")


class Live:
    """What is known of an answer so far.

    One thread feeds it (`feed`, `fail`), any number of pages read it. A reader says how many rows and rounds it has
    and gets only what came since, so the cost of an update does not grow with the length of the answer.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._piece: Callable[[int], str] = str
        self._version = 0
        self.state: State = "queued"
        self.note = ""  # the reason of a failure, or the line of the last notice
        self.prefill = (0, 0)  # prompt tokens read, of how many
        self.meters = Meters()
        self.rows: list[Row] = []
        self._parts: list[str] = []
        self.result: Result | None = None

    @property
    def text(self) -> str:
        with self._lock:
            if len(self._parts) > 1:
                self._parts = ["".join(self._parts)]
            return self._parts[0] if self._parts else ""

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def begin(self, budget: float | None, piece: Callable[[int], str], plain: Plain | None) -> None:
        """The engine is at hand. `piece` spells a token id, for drafts that were rejected and so have no text."""
        with self._lock:
            self._piece = piece
            self.meters = Meters(budget, plain)

    def wait(self, version: int, timeout: float) -> int:
        """Waits until more is known than at `version`; returns the version now."""
        with self._lock:
            self._lock.wait_for(lambda: self._version != version, timeout)
            return self._version

    def feed(self, event: Event) -> None:
        """Takes in one event of the stream."""
        with self._lock:
            if isinstance(event, Step):
                self.state = "writing"
                self._step(event.round, event.text)
            elif isinstance(event, Prefill):
                self.state = "reading"
                self.prefill = (event.done, event.total)
            elif isinstance(event, Notice):
                self.note = event.text
            elif isinstance(event, Finished):
                self.result = event.result
                # The end of a text decides what an incomplete character adds to it.
                self.rows = [row for round_ in event.result.rounds for row in rows_of(round_, self._piece)]
                self._parts.append(event.text)
                self.state = "stopped" if event.result.finish_reason == "cancelled" else "done"
            self._changed()

    def _step(self, round_: Round, text: str) -> None:
        self.rows.extend(rows_of(round_, self._piece))
        self.meters.add(round_)
        if text:
            self._parts.append(text)

    def enter(self, state: State, note: str = "") -> None:
        """A state that no event tells: loading, failed, stopped before it began."""
        with self._lock:
            self.state, self.note = state, note or self.note
            self._changed()

    def _changed(self) -> None:
        self._version += 1
        self._lock.notify_all()

    def view(self, have_rows: int, have_rounds: int) -> dict[str, Any]:
        """What a page lacks, as JSON: new rows, new rounds, and the meters as they stand."""
        with self._lock:
            return {
                "state": self.state,
                "note": self.note,
                "prefill": self.prefill,
                "from_row": have_rows,
                "rows": self.rows[have_rows:],
                "meters": self.meters.view(have_rounds),
            }
