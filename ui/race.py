"""A race: one prompt, two or three ways to decode it, run one after the other on the same seed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Any

from nsd_local.api import Engine
from nsd_local.decoding.events import Finished, Step
from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError

from .live import Live
from .preferences import PRESETS, Memory
from .session import Job, Session
from .speeds import Speeds

AS_SET = "As set"
LANES = ["Plain", "Exact", *[name for name in PRESETS if name not in ("Plain", "Exact")], AS_SET]
NO_LANE = "none"


@dataclass
class Lane:
    """One way to decode, and what came of it. `frames`: (seconds since the first round began, rows by then)."""

    name: str
    settings: Settings
    live: Live = field(default_factory=Live)
    frames: list[tuple[float, int]] = field(default_factory=list)

    def run(self, engine: Engine, prompt: str, system: str, job: Job, speeds: Speeds) -> None:
        target = engine.target
        self.live.begin(self.settings.budget, lambda token: target.piece(token).decode("utf-8", "replace"), None)
        clock = 0.0
        for event in engine.stream(prompt, self.settings, system=system or None, cancelled=job.cancelled):
            self.live.feed(event)
            if isinstance(event, Step):
                clock += event.round.times.total
                self.frames.append((round(clock, 4), len(self.live.rows)))
            elif isinstance(event, Finished):
                speeds.learn(target.description, event.result, "measured in a race")

    def progress(self) -> dict[str, Any]:
        meters = self.live.meters
        return {"name": self.name, "state": self.live.state, "tokens": meters.tokens, "speed": meters.average}

    def replay(self) -> dict[str, Any]:
        """Everything needed to show it again at its true speed: rows are [text, kind]."""
        return {
            **self.progress(),
            "rows": [row[:2] for row in self.live.rows],
            "frames": self.frames,
            "meters": self.live.meters.view(),
            "text": self.live.text,
        }


class Race(Job):
    """A job that runs its lanes in turn."""

    def __init__(self, tab: str, prompt: str, system: str, lanes: list[Lane], speeds: Speeds) -> None:
        super().__init__(tab, "race", self._lanes, Live())
        self.prompt, self.system, self.lanes, self.speeds = prompt, system, lanes, speeds

    def _lanes(self, job: Job, engine: Engine) -> None:
        self.live.enter("writing")
        for lane in self.lanes:
            if self.cancelled():
                break
            lane.run(engine, self.prompt, self.system, self, self.speeds)
        self.live.enter("stopped" if self.cancelled() else "done")


class Races:
    """The latest race; an older one is forgotten when a new one starts."""

    def __init__(self, session: Session, speeds: Speeds) -> None:
        self.session, self.speeds = session, speeds
        self.latest: Race | None = None

    def start(self, tab: str, prompt: str, names: list[str], memory: Memory, longest: int) -> Race:
        """Queues a race between the named lanes. Raises UsageError where there is nothing to compare."""
        chosen = [name for name in names if name != NO_LANE]
        if not prompt.strip():
            raise UsageError("The prompt is empty", "", "Write what every lane shall answer")
        if len(chosen) < 2 or len(set(chosen)) < len(chosen):
            raise UsageError("A race needs two or three different lanes")
        if self.latest is not None and not self.latest.finished.is_set():
            raise UsageError("A race is running", "", "Stop it first, or wait")
        now = memory.now
        seed = now.seed if now.seed is not None else secrets.randbits(31)
        lanes = [Lane(name, lane_settings(name, memory, seed, longest)) for name in chosen]
        self.latest = Race(tab, prompt, now.system, lanes, self.speeds)
        self.session.submit(self.latest)
        return self.latest

    def stop(self) -> None:
        if self.latest is not None:
            self.session.cancel(self.latest)

    def view(self, have: int) -> dict[str, Any] | None:
        """How the latest race stands; None where the page knows how it ended."""
        race = self.latest
        if race is None or race.id == have:
            return None
        return {
            "id": race.id,
            "state": race.live.state,
            "note": race.live.note,
            "ended": race.finished.is_set(),
            "ahead": self.session.ahead(race),
            "lanes": [lane.progress() for lane in race.lanes],
        }

    async def replay(self, ask: dict[str, Any]) -> list[dict[str, Any]]:
        """The lanes of the latest race, if it is the one asked for."""
        race = self.latest
        if race is None or race.id != ask.get("race"):
            return []
        return [lane.replay() for lane in race.lanes if lane.frames]


def lane_settings(name: str, memory: Memory, seed: int, longest: int) -> Settings:
    """The settings of the next answer, but for what the lane is about; all lanes share seed and length."""
    values = PRESETS[name][1] if name in PRESETS else {}
    return replace(memory.settings(**values), seed=seed, max_tokens=longest)
