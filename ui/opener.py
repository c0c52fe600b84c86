"""From a choice in the page to a loaded pair, its progress told to the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nsd_local.api import Engine
from nsd_local.catalog import Entry, interpret, load_catalog, locate
from nsd_local.errors import Cancelled
from nsd_local.loading import MIXED, load_pair, split_draft

from .choice import Choice
from .session import MissingError, Report

DEFAULT = "default"


class PageReporter:
    """Hands the progress of a fetch to the page, and stops it when nobody wants it any more."""

    def __init__(self, report: Report, cancelled: Callable[[], bool]) -> None:
        self._report, self._cancelled = report, cancelled

    def say(self, line: str) -> None:
        self._report(line, 0, 0)

    def progress(self, what: str, done: int, total: int | None) -> None:
        if self._cancelled():
            raise Cancelled("The download was stopped; what has arrived is kept")
        self._report(what, done, total or 0)


def open_pair(choice: Choice, report: Report, cancelled: Callable[[], bool]) -> Engine:
    """Loads what `choice` names. Raises MissingError where `choice.fetch` does not allow a needed fetch."""
    if not choice.fetch:
        _refuse_to_fetch(choice)
    report("Loading the model", 0, 0)
    options = replace(choice.options, reporter=PageReporter(report, cancelled))
    return Engine(load_pair(choice.model, choice.draft, options))


def wanted(choice: Choice) -> list[tuple[str, str]]:
    """(specification, role) of the files that this choice needs."""
    model = choice.model or DEFAULT
    entry = interpret(model)
    draft = choice.draft
    if draft in (None, MIXED) and isinstance(entry, Entry):
        found = load_catalog().draft_for(entry.name)
        draft = found.name if found else None
    name = split_draft(draft)[1] if draft else ""
    return [(model, "target"), *([(name, "draft")] if name else [])]


def _refuse_to_fetch(choice: Choice) -> None:
    absent = [
        meant
        for spec, role in wanted(choice)
        if isinstance(meant := interpret(spec, role=role), Entry) and locate(spec, role=role) is None  # type: ignore[arg-type]
    ]
    if absent and not choice.options.offline:
        names = " and ".join(f"{entry.title} ({entry.size_text})" for entry in absent)
        raise MissingError(
            f"{names} {'is' if len(absent) == 1 else 'are'} not on this machine yet",
            sum(e.expected_bytes for e in absent),
        )
