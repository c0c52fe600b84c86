"""Where the time of a round goes."""

from __future__ import annotations

from time import perf_counter

from nsd_local.decoding.records import Times


class Stopwatch:
    """Splits the time since its making into named laps; what no lap covers is `other`."""

    def __init__(self) -> None:
        self._start = self._last = perf_counter()
        self._laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """The time since the last lap went into `name`."""
        now = perf_counter()
        self._laps[name] = self._laps.get(name, 0.0) + now - self._last
        self._last = now

    def times(self) -> Times:
        """All laps so far, and the rest."""
        total = perf_counter() - self._start
        return Times(**self._laps, other=total - sum(self._laps.values()))
