"""How fast plain decoding is here: what every other speed is compared with, and where it is known from."""

from __future__ import annotations

import threading

from nsd_local.api import Engine
from nsd_local.decoding.calibration import recall
from nsd_local.decoding.records import Result

from .meters import Plain

ENOUGH = 24  # tokens; fewer say little
USUAL = 256  # tokens in memory, for which the calibration is asked


class Speeds:
    """Plain speeds by model, from plain answers and race lanes since the page was started, or from a calibration."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Plain] = {}

    def learn(self, model: str, result: Result, origin: str) -> None:
        """Takes a finished answer into account if it was decoded plainly and is long enough."""
        tokens = [token for round_ in result.rounds for token in round_.tokens]
        if len(tokens) < ENOUGH or any(token.kind != "plain" for token in tokens) or result.predicted_s <= 0:
            return
        with self._lock:
            self._known[model] = (len(tokens) / result.predicted_s, origin)

    def recall(self, engine: Engine) -> None:
        """What a calibration of this machine says, if there is one; a measured run knows better and is kept."""
        contexts = engine.contexts
        costs = recall(contexts["target"], contexts.get("draft"))
        if costs is not None:
            with self._lock:
                plain = (1.0 / costs.round(0, USUAL), "by the calibration of this machine")
                self._known.setdefault(engine.target.description, plain)

    def of(self, model: str) -> Plain | None:
        with self._lock:
            return self._known.get(model)
