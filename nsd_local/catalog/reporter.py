"""How long work tells what it is doing. The command line and the chat app each bring their own reporter."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Receives lines for the user and the progress of transfers.

    `progress` is called several times a second from the thread that does the work; raising `Cancelled` from
    it stops the work and keeps what can be resumed.
    """

    def say(self, line: str) -> None: ...

    def progress(self, what: str, done: int, total: int | None) -> None:
        """`done` of `total` bytes (None: unknown) of the step named `what`; `done == total` ends the step."""
        ...


class Silent:
    """A reporter that tells nothing."""

    def say(self, line: str) -> None:
        return None

    def progress(self, what: str, done: int, total: int | None) -> None:
        return None
