"""Downloads and checks as the terminal shows them, on stderr: bars for a person, lines for a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 10.0


class CommandReporter(Protocol):
    """A `catalog.Reporter` that is also a context manager, which takes its bars away at the end."""

    def say(self, line: str) -> None: ...

    def progress(self, what: str, done: int, total: int | None) -> None: ...

    def __enter__(self) -> CommandReporter: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def reporter() -> CommandReporter:
    """Bars where stderr is a terminal, lines elsewhere."""
    return Bars() if sys.stderr.isatty() else Lines()


class Lines:
    """A line when a step begins, every ten seconds, and when it ends."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def progress(self, what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        finished = done == total
        if not finished and now - self._told.setdefault(what, now) < SECONDS_BETWEEN_LINES:
            return
        if finished and self._told.pop(what, None) is None:
            return  # it was over at once: not worth a line
        if not finished:
            self._told[what] = now
        share = f"{100 * done // total} % of {total / 1e6:,.0f} MB" if total else f"{done / 1e6:,.0f} MB"
        self.say(f"{what}: {share}")

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Bars:
    """A bar with speed and remaining time for each step under way."""

    def __init__(self) -> None:
        self._bars: Progress | None = None  # rich is imported when there is something to show
        self._tasks: dict[str, TaskID] = {}

    def say(self, line: str) -> None:
        if self._bars is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def progress(self, what: str, done: int, total: int | None) -> None:
        if self._bars is None:
            if done == total:
                return
            self._bars = _new_bars()
            self._bars.start()
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done, total=total)
        if done == total:
            self._bars.remove_task(self._tasks.pop(what))

    def __enter__(self) -> Bars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
            self._tasks.clear()


def _new_bars() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
