"""Lines for the person at the terminal: always on stderr, so that stdout carries results only."""

from __future__ import annotations

import sys


def status(text: str) -> None:
    """One line."""
    clear()
    print(text, file=sys.stderr, flush=True)


_transient = 0  # width of the line that is to be overwritten


def progress(what: str, done: int, total: int) -> None:
    """A line that the next one overwrites; only on a terminal."""
    global _transient
    if not sys.stderr.isatty():
        return
    line = f"{what}: {done:,} of {total:,}"
    print("\r" + line.ljust(_transient), end="", file=sys.stderr, flush=True)
    _transient = len(line)
    if done >= total:
        clear()


def clear() -> None:
    """Takes the transient line away."""
    global _transient
    if _transient:
        print("\r" + " " * _transient + "\r", end="", file=sys.stderr, flush=True)
        _transient = 0
