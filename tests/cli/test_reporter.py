"""Progress without a terminal: few lines, and none for what is over at once."""

from __future__ import annotations

import pytest

from nsd_local.cli import reporter
from nsd_local.cli.reporter import SECONDS_BETWEEN_LINES, Lines


def test_lines_come_seldom_and_end_with_the_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(reporter.time, "monotonic", lambda: now)
    with Lines() as lines:
        lines.say("Fetching it.")
        for done in range(0, 1_000_000_000, 100_000_000):
            lines.progress("a.gguf", done, 1_000_000_000)
            now += SECONDS_BETWEEN_LINES / 4
        lines.progress("a.gguf", 1_000_000_000, 1_000_000_000)
        lines.progress("small.gguf", 10, 10)
        lines.progress("unknown", 1_000_000, None)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "Fetching it.",
        "a.gguf: 40 % of 1,000 MB",
        "a.gguf: 80 % of 1,000 MB",
        "a.gguf: 100 % of 1,000 MB",
    ]


def test_no_terminal_no_bars() -> None:
    assert isinstance(reporter.reporter(), Lines)
